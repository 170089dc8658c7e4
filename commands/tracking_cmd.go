package commands

import (
	"fmt"
	"slices"
	"strings"
)

// The errors of CLIENT TRACKING and CACHING.
const (
	errTrackTwice    Error = "ERR A client can only redirect to a single other client"
	errTrackNobody   Error = "ERR The client ID you want redirect to does not exist"
	errTrackPrefix   Error = "ERR PREFIX option requires BCAST mode to be enabled"
	errTrackSwitch   Error = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	errTrackBcastOpt Error = "ERR OPTIN and OPTOUT are not compatible with BCAST"
	errTrackOpts     Error = "ERR You can't specify both OPTIN mode and OPTOUT mode"
	errTrackOpt      Error = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	errCachingOff    Error = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	errCachingYes    Error = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	errCachingNo     Error = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
)

func clientTracking(c *Ctx) error {
	t, id := &c.Env.Tracking, c.Client.ID
	asked, err := c.trackOptions()
	if err != nil {
		return err
	}
	switch {
	case isWord(c.Arg(2), "ON"):
		t.mu.Lock()
		defer t.mu.Unlock()
		if err := t.mu.trackers[id].mayBecome(asked); err != nil {
			return err
		}
		t.begin(id, asked)
	case isWord(c.Arg(2), "OFF"):
		t.end(id)
	default:
		return ErrSyntax
	}
	c.Out.OK()
	return nil
}

// trackOptions parses the options after ON or OFF. Prefixes are in the order given.
func (c *Ctx) trackOptions() (asked tracker, err error) {
	a := c.Cursor(3)
	for a.More() {
		switch {
		case a.Len() >= 2 && a.Word("REDIRECT"):
			if asked.redirect != 0 {
				return asked, errTrackTwice
			}
			asked.redirect = uint64(a.Int())
			if a.Err() == nil && c.Env.Clients[asked.redirect] == nil {
				return asked, errTrackNobody
			}
		case a.Len() >= 2 && a.Word("PREFIX"):
			asked.prefixes = append(asked.prefixes, string(a.Bytes()))
		case a.Word("BCAST"):
			asked.mode |= trackBcast
		case a.Word("OPTIN"):
			asked.mode |= trackOptIn
		case a.Word("OPTOUT"):
			asked.mode |= trackOptOut
		case a.Word("NOLOOP"):
			asked.mode |= trackNoLoop
		default:
			return asked, ErrSyntax
		}
	}
	return asked, a.Err()
}

// mayBecome returns an error if the client's tracking cannot change from tr to asked. tr is nil if
// the client does not track.
func (tr *tracker) mayBecome(asked tracker) error {
	var old trackMode
	if tr != nil {
		old = tr.mode
	}
	switch {
	case !asked.mode.is(trackBcast) && len(asked.prefixes) > 0:
		return errTrackPrefix
	case tr != nil && old.is(trackBcast) != asked.mode.is(trackBcast):
		return errTrackSwitch
	case asked.mode.is(trackBcast) && asked.mode.is(trackOptIn|trackOptOut):
		return errTrackBcastOpt
	case asked.mode.is(trackOptIn) && asked.mode.is(trackOptOut):
		return errTrackOpts
	case asked.mode.is(trackOptIn) && old.is(trackOptOut), asked.mode.is(trackOptOut) &&
		old.is(trackOptIn):
		return errTrackOpt
	}
	for i, p := range asked.prefixes {
		if tr != nil {
			if other, found := overlapping(tr.prefixes, p); found {
				return errPrefixes(p, "an existing", other)
			}
		}
		if other, found := overlapping(asked.prefixes[i+1:], p); found {
			return errPrefixes(p, "another provided", other)
		}
	}
	return nil
}

// overlapping returns a prefix in list that begins with p, or with which p begins.
func overlapping(list []string, p string) (other string, found bool) {
	for _, other := range list {
		if strings.HasPrefix(other, p) || strings.HasPrefix(p, other) {
			return other, true
		}
	}
	return "", false
}

func errPrefixes(p, which, other string) Error {
	return Error(
		fmt.Sprintf("ERR Prefix '%s' overlaps with %s prefix '%s'. Prefixes for a single client must not overlap.",
			clip([]byte(p), len(p)), which, clip([]byte(other), len(other))))
}

// prefixOverhead is about the memory of a prefix without its text, in bytes.
const prefixOverhead = 340

// begin starts tracking for a client, or changes how it tracks. New prefixes are added to the
// client's prefixes. mu is locked.
func (t *Tracking) begin(id uint64, asked tracker) {
	tr := t.mu.trackers[id]
	if tr == nil {
		tr = &tracker{}
		t.mu.trackers[id] = tr
		if !t.active.Swap(true) {
			t.env.Changes.WantUnowned(1)
		}
	}
	tr.mode, tr.redirect = asked.mode|tr.mode&trackCaching, asked.redirect
	if !asked.mode.is(trackBcast) {
		return
	}
	if len(asked.prefixes) == 0 {
		asked.prefixes = []string{""}
	}
	for _, text := range asked.prefixes {
		if at, found := slices.BinarySearch(tr.prefixes, text); !found {
			tr.prefixes = slices.Insert(tr.prefixes, at, text)
			tr.bytes += textBytes(text) + prefixOverhead
		}
		t.prefix(text).clients[id] = true
	}
}

// prefix returns a prefix, and adds it if it is new. mu is locked.
func (t *Tracking) prefix(text string) *prefix {
	at, found := t.findPrefix(text)
	if !found {
		t.mu.prefixes = slices.Insert(t.mu.prefixes, at,
			&prefix{text: text, clients: map[uint64]bool{}, keys: map[string]uint64{}})
	}
	return t.mu.prefixes[at]
}

func (t *Tracking) findPrefix(text string) (at int, found bool) {
	return slices.BinarySearchFunc(t.mu.prefixes, text, func(p *prefix, text string) int {
		return strings.Compare(p.text, text)
	})
}

// end ends a client's tracking, if it tracks. The keys that it has read stay in the table until
// they change, or until nobody tracks.
func (t *Tracking) end(id uint64) {
	if !t.active.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tr := t.mu.trackers[id]
	if tr == nil {
		return
	}
	delete(t.mu.trackers, id)
	for _, text := range tr.prefixes {
		at, _ := t.findPrefix(text)
		delete(t.mu.prefixes[at].clients, id)
		if len(t.mu.prefixes[at].clients) == 0 {
			t.mu.prefixes = slices.Delete(t.mu.prefixes, at, at+1)
		}
	}
	if len(t.mu.trackers) == 0 {
		t.mu.keys, t.mu.items, t.mu.bytes = map[string]readers{}, 0, 0
		t.active.Store(false)
		t.env.Changes.WantUnowned(-1)
	}
}

// of returns how a client tracks.
func (t *Tracking) of(id uint64) (tr tracker, on bool) {
	if !t.active.Load() {
		return tr, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.mu.trackers[id]; found != nil {
		return *found, true
	}
	return tr, false
}

// trackingTotals are INFO's figures.
type trackingTotals struct{ clients, keys, items, prefixes int64 }

func (t *Tracking) totals() trackingTotals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return trackingTotals{int64(len(t.mu.trackers)), int64(len(t.mu.keys)), int64(t.mu.items),
		int64(len(t.mu.prefixes))}
}

func clientCaching(c *Ctx) error {
	t := &c.Env.Tracking
	t.mu.Lock()
	defer t.mu.Unlock()
	tr := t.mu.trackers[c.Client.ID]
	switch {
	case tr == nil:
		return errCachingOff
	case isWord(c.Arg(2), "YES"):
		if !tr.mode.is(trackOptIn) {
			return errCachingYes
		}
	case isWord(c.Arg(2), "NO"):
		if !tr.mode.is(trackOptOut) {
			return errCachingNo
		}
	default:
		return ErrSyntax
	}
	tr.mode |= trackCaching
	c.Out.OK()
	return nil
}

// redirection returns the id of the client to which a client's messages go; 0 for the client
// itself, -1 without tracking.
func (t *Tracking) redirection(id uint64) int64 {
	tr, on := t.of(id)
	if !on {
		return -1
	}
	return int64(tr.redirect)
}

func clientTrackingInfo(c *Ctx) error {
	tr, on := c.Env.Tracking.of(c.Client.ID)
	flags := []string{"off"}
	if on {
		flags[0] = "on"
	}
	for _, f := range []struct {
		mode trackMode
		word string
	}{
		{trackBcast, "bcast"},
		{trackOptIn, "optin"}, {trackOptIn | trackCaching, "caching-yes"},
		{trackOptOut, "optout"}, {trackOptOut | trackCaching, "caching-no"},
		{trackNoLoop, "noloop"}, {trackBroken, "broken_redirect"},
	} {
		if tr.mode&f.mode == f.mode {
			flags = append(flags, f.word)
		}
	}
	c.Out.Map(3)
	c.Out.BulkString("flags")
	c.Out.Set(len(flags))
	c.bulkStrings(flags)
	c.intField("redirect", c.Env.Tracking.redirection(c.Client.ID))
	c.Out.BulkString("prefixes")
	c.Out.Array(len(tr.prefixes))
	c.bulkStrings(tr.prefixes)
	return nil
}
