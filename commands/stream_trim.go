package commands

import (
	"keyp/storage"
	"keyp/storage/object"
)

var (
	streamTrimArg = block("trim",
		oneOf("strategy", word("MAXLEN"), word("MINID").since("6.2.0")),
		oneOf("operator", Arg{Name: "equal", Type: ArgToken, Token: "="},
			Arg{Name: "approximately", Type: ArgToken, Token: "~"}).opt(),
		stringArg("threshold"),
		intArg("count").after("LIMIT").opt().since("6.2.0"))
	streamRefsArg = oneOf("condition", word("KEEPREF"), word("DELREF"), word("ACKED"))
)

// The errors of trimming.
const (
	errTrimBoth    Error = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	errTrimLength  Error = "ERR The MAXLEN argument must be >= 0."
	errTrimLimit   Error = "ERR The LIMIT argument must be >= 0."
	errTrimNoWay   Error = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
	errTrimExact   Error = "ERR syntax error, LIMIT cannot be used without the special ~ option"
	errTrimNothing Error = "ERR syntax error, XTRIM must be called with a trimming strategy"
)

// mostTrimmed is the maximum of the default LIMIT of a trim with '~'. mostTrimmedUnbound is the
// default LIMIT if stream-node-max-entries is 0.
const (
	mostTrimmed        = 1_000_000
	mostTrimmedUnbound = 10_000
)

// streamRefs says what happens to the pending entries of groups if the entry is removed.
type streamRefs uint8

const (
	// The pending entries stay. The zero value of streamRefs has the same effect, and means
	// that no option was given.
	keepRef = streamRefs(object.KeepRefs)
	delRef  = streamRefs(object.DropRefs) // they go too
	// An entry stays until all groups have read and acknowledged it.
	ackedRef = streamRefs(object.AckedRefs)
)

// refsName returns the name of the option: KEEPREF, DELREF or ACKED.
func refsName(r object.StreamRefs) string {
	switch streamRefs(r) {
	case delRef:
		return "DELREF"
	case ackedRef:
		return "ACKED"
	default:
		return "KEEPREF"
	}
}

// option takes KEEPREF, DELREF or ACKED, unless one of them was given before.
func (r *streamRefs) option(a *Cursor) bool {
	switch {
	case *r != 0:
		return false
	case a.Word("KEEPREF"):
		*r = keepRef
	case a.Word("DELREF"):
		*r = delRef
	case a.Word("ACKED"):
		*r = ackedRef
	default:
		return false
	}
	return true
}

// release prepares the removal of an entry, and reports whether it may be removed.
func (r streamRefs) release(s *storage.Stream, id object.StreamID) bool {
	switch r {
	case ackedRef:
		return s.Value().AckedByAll(id)
	case delRef:
		s.Value().EachGroup(func(g *object.StreamGroup) bool {
			s.Ack(g.Name(), id)
			return true
		})
	}
	return true
}

// streamTrim describes which entries to remove.
type streamTrim struct {
	by         trimBy
	about      bool // with '~'
	limited    bool
	limit      int64 // 0: none
	length     int64
	minID      object.StreamID
	refs       streamRefs
	nodeWindow int64
}

type trimBy uint8

const (
	byMaxLen trimBy = iota + 1
	byMinID
)

// option takes the next argument if it is an option that XADD and XTRIM share.
func (t *streamTrim) option(a *Cursor) bool {
	more := a.Len() - 1
	switch {
	case more >= 1 && a.Word("MAXLEN"):
		t.threshold(a, byMaxLen)
		if t.length = a.Int(); t.length < 0 {
			a.Fail(errTrimLength)
		}
	case more >= 1 && a.Word("MINID"):
		t.threshold(a, byMinID)
		t.minID = a.StreamID()
	case more >= 1 && a.Word("LIMIT"):
		if t.limit = a.Int(); t.limit < 0 {
			a.Fail(errTrimLimit)
		}
		t.limited = true
	default:
		return t.refs.option(a)
	}
	return true
}

// threshold takes '=' or '~' before a threshold.
func (t *streamTrim) threshold(a *Cursor, by trimBy) {
	if t.by != 0 {
		a.Fail(errTrimBoth)
	}
	t.by, t.about = by, false
	if a.Len() >= 2 {
		t.about = a.Word("~")
		if !t.about {
			a.Word("=")
		}
	}
}

// complete checks the combination of options, and sets defaults. nodeEntries is
// stream-node-max-entries.
func (t *streamTrim) complete(nodeEntries int64) error {
	t.nodeWindow = max(nodeEntries, 1)
	switch {
	case t.limit > 0 && t.by == 0:
		return errTrimNoWay
	case t.limited && !t.about:
		return errTrimExact
	case !t.limited && t.about:
		if t.limit = min(100*min(nodeEntries, mostTrimmed), mostTrimmed); t.limit <= 0 {
			t.limit = mostTrimmedUnbound
		}
	}
	return nil
}

// streamNodeEntries returns stream-node-max-entries.
func (c *Ctx) streamNodeEntries() int64 { return int64(object.CurrentThresholds().StreamEntries) }

// of trims a stream and returns the number of entries removed. With '~' it removes only whole
// pieces of the stream's memory.
func (t *streamTrim) of(s *storage.Stream) int {
	v := s.Value()
	n := t.excess(v)
	switch {
	case n == 0:
		return 0
	case t.refs > keepRef:
		return t.each(s, n)
	case t.about:
		if t.limit > 0 {
			n = int(min(int64(n), t.limit))
		}
		if n = v.WholeNodes(n); n == 0 {
			return 0
		}
	}
	s.TrimFirst(n)
	return n
}

// excess returns the number of entries over the threshold.
func (t *streamTrim) excess(s *object.Stream) int {
	switch t.by {
	case byMaxLen:
		return int(max(int64(s.Entries())-t.length, 0))
	case byMinID:
		return s.Before(t.minID)
	}
	return 0
}

// offloads reports whether the command should end with errOffload, because it removes many entries
// one by one.
func (t *streamTrim) offloads(c *Ctx, s *object.Stream) bool {
	return t.refs > keepRef && c.mayOffload() && t.excess(s)*max(s.Groups(), 1) >= manyElements
}

// looks returns how many entries the method each looks at.
func (t *streamTrim) looks(s *object.Stream, n int) int {
	if t.by == byMaxLen {
		n += int(min(t.nodeWindow, int64(s.Entries())))
	}
	return n
}

// each removes up to n entries, one by one, and skips those that must stay because they are
// pending. With MAXLEN it removes later entries in place of these, but only within nodeWindow.
func (t *streamTrim) each(s *storage.Stream, n int) (removed int) {
	looks := t.looks(s.Value(), n)
	if t.limit > 0 {
		n = int(min(int64(n), t.limit))
	}
	ids := make([]object.StreamID, 0, min(looks, s.Value().Entries()))
	s.Value().Range(object.StreamID{}, object.MaxStreamID, false, func(e object.StreamEntry) bool {
		ids = append(ids, e.ID)
		return len(ids) < looks
	})
	for _, id := range ids {
		if removed == n {
			break
		}
		if t.refs.release(s, id) && s.Delete(id) {
			removed++
		}
	}
	return removed
}
