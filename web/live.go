package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/histogram"
	"keyp/storage"
)

// The dashboard shows the present state by one message a second. The message is made once for all
// open pages, while any page is open. A slow reader gets fewer messages, always the newest one.

const (
	// liveEvery is the time between two messages.
	liveEvery = time.Second
	// liveSpan is the number of intervals that a message's latencies cover. An interval is the
	// time between two readings, and so about liveEvery.
	liveSpan = 10
	// liveHistory is how many past seconds a newly opened page shows, if another page was open
	// then.
	liveHistory = 120
	// liveMinutes is how many past minutes of expiries a newly opened page shows, whether or not a
	// page was open then.
	liveMinutes = 120
	// liveCommands is how many commands are shown: those that are called most.
	liveCommands = 30
	// maxStreams bounds the pages that are open, userStreams those of a user.
	maxStreams  = 24
	userStreams = 8
)

// live makes the messages for open pages, and keeps the newest one and the history.
type live struct {
	s  *Server
	mu struct {
		sync.Mutex
		running bool
		next    chan struct{} // closed with the next message
		message []byte        // the newest; nil: none yet
		history []point
		minutes []point // what expired in each minute
	}
	streams runs     // pages that are open; begun with mu locked
	minute  expiries // when the present minute began; only pulse.minutes uses it
}

func (l *live) init(s *Server) {
	l.s, l.mu.next = s, make(chan struct{})
	l.streams.init(maxStreams, userStreams, false)
}

// point is a point of the charts over time. P50, P99 and Max are upper bounds of the lateness of
// expiries, in ms; -1 means more than ten seconds.
type point struct {
	At       int64            `json:"at"` // Unix ms
	Ops      map[string]int64 `json:"ops"`
	Keys     int64            `json:"keys"`     // that expired
	Elements int64            `json:"elements"` // that expired
	P50      float64          `json:"p50"`
	P99      float64          `json:"p99"`
	Max      float64          `json:"max"`
}

// expiries counts the keys and elements that have expired up to an instant.
type expiries struct {
	at             int64 // Unix ms
	late           histogram.Reading
	keys, elements int64
}

// expiriesOf returns the counts up to the instant at.
func expiriesOf(h storage.Histograms, s storage.Stats, at int64) expiries {
	return expiries{at, h.KeyLateness.With(h.ElementLateness), s.Expired, s.ExpiredElements}
}

// since returns the expiries since an earlier reading, and how late they were, without Ops.
func (e expiries) since(earlier expiries) point {
	late := e.late.Since(earlier.late)
	return point{At: e.at, Keys: rise(e.keys, earlier.keys),
		Elements: rise(e.elements, earlier.elements),
		P50:      milliseconds(bound(late, 0.5)), P99: milliseconds(bound(late, 0.99)),
		Max: milliseconds(bound(late, 1))}
}

// note stores the expiries of the last minute of the calendar once it is over. It is called more
// than once a minute.
func (l *live) note(store *storage.Store, now int64) {
	now -= now % minute
	if now == l.minute.at {
		return
	}
	began := l.minute
	l.minute = expiriesOf(store.Histograms(), store.Stats(), now)
	if began.at == 0 {
		return
	}
	passed := l.minute.since(began)
	passed.At = began.at
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.minutes = append(l.mu.minutes, passed)
	l.mu.minutes = l.mu.minutes[max(0, len(l.mu.minutes)-liveMinutes):]
}

// message is the message that a page gets each second. Times are in Unix ms, durations in µs and
// sizes in bytes, unless a comment says otherwise.
type message struct {
	At       int64        `json:"at"`
	Point    point        `json:"point"`
	Minute   *point       `json:"minute,omitempty"` // what expired in the last whole minute
	Commands []commandUse `json:"commands"`
	Replies  replyUse     `json:"replies"`
	Hits     int64        `json:"hits"`
	Misses   int64        `json:"misses"`
	Usage    usage        `json:"usage"`
	Store    storeUse     `json:"store"`
	Blocked  int64        `json:"blocked"`
	Due      *forecast    `json:"due"`   // nil: not counted yet
	Types    *typeCounts  `json:"types"` // nil: not counted yet
	Group    *groupUse    `json:"group,omitempty"`
}

// replyUse is how long clients waited for replies in the last ten seconds, or in less as for
// commandUse.
type replyUse struct {
	Reads  waits `json:"reads"`
	Writes waits `json:"writes"`
}

type waits struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
}

func waitsOf(r histogram.Reading) waits {
	return waits{bound(r, 0.5), bound(r, 0.99), bound(r, 0.999)}
}

// commandUse is the use of a command. Its latencies are those of the last ten seconds, or of a
// shorter time if no page was open before.
type commandUse struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Calls int64  `json:"calls"` // a second
	Total int64  `json:"total"`
	P50   int64  `json:"p50"`
	P99   int64  `json:"p99"`
	P999  int64  `json:"p999"`
}

type storeUse struct {
	Pending    int64 `json:"pending"` // bytes of the log that are not durable
	SyncP99    int64 `json:"sync_p99"`
	Checkpoint int64 `json:"checkpoint"`
	Running    bool  `json:"running"`
	Failed     bool  `json:"failed"`
	Changes    int64 `json:"changes"`
	Partial    int64 `json:"partial"` // slots
	Evictions  int64 `json:"evictions"`
}

// open counts a new stream of a user. It returns false if there are too many.
func (l *live) open(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.streams.begin(user) {
		return false
	}
	if !l.mu.running {
		l.mu.running = true
		go l.run()
	}
	return true
}

// run makes messages until no page is open.
func (l *live) run() {
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var past []*reading // the last liveSpan, oldest first
	for {
		if r := l.s.read(); r != nil {
			past = append(past, r)
			l.publish(past)
			past = past[max(0, len(past)-liveSpan):]
		}
		select {
		case <-tick.C:
		case <-l.s.pulse.quit:
			return
		}
		l.mu.Lock()
		ended := l.streams.under() == 0
		if ended {
			l.mu.running, l.mu.message, l.mu.history = false, nil, nil
		}
		l.mu.Unlock()
		if ended {
			return
		}
	}
}

// publish makes a message of the last readings.
func (l *live) publish(past []*reading) {
	m := l.s.message(past)
	l.mu.Lock()
	if n := len(l.mu.minutes); n > 0 {
		m.Minute = &l.mu.minutes[n-1]
	}
	l.mu.Unlock()
	text, err := json.Marshal(m)
	if err != nil {
		l.s.o.Log.Error("a message to the dashboard cannot be made", "error", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.message = text
	l.mu.history = append(l.mu.history, m.Point)
	l.mu.history = l.mu.history[max(0, len(l.mu.history)-liveHistory):]
	close(l.mu.next)
	l.mu.next = make(chan struct{})
}

// message compares the last reading with those before.
func (s *Server) message(past []*reading) message {
	r := past[len(past)-1]
	last, first := past[max(0, len(past)-2)], past[0]
	passed := max(1, r.at-last.at)
	// Rounded up, so that a single event is shown.
	perSecond := func(now, before int64) int64 {
		return (rise(now, before)*1000 + passed - 1) / passed
	}
	m := message{
		At: r.at, Usage: r.usage(), Blocked: r.Blocked, Commands: []commandUse{}, Types: r.types,
		Group: useOf(r.Group),
		Hits:  r.stats.Hits.Load(), Misses: r.stats.Misses.Load(),
		Due: s.pulse.due.Load(),
		Store: storeUse{
			Pending:    int64(r.Store.LogEnd - r.Store.LogDurable),
			SyncP99:    bound(r.Histograms.LogSyncs.Since(first.Histograms.LogSyncs), 0.99),
			Checkpoint: r.Saved,
			Running:    r.Saving, Failed: r.SaveFailed || r.Failed, Changes: r.Store.Changes,
			Partial: r.Store.PartialSlots, Evictions: r.Store.Evictions,
		},
	}
	m.Point = expiriesOf(r.Histograms, r.Store,
		r.at).since(expiriesOf(last.Histograms, last.Store, last.at))
	m.Point.Ops, m.Point.Keys, m.Point.Elements = map[string]int64{}, perSecond(r.Store.Expired,
		last.Store.Expired), perSecond(r.Store.ExpiredElements, last.Store.ExpiredElements)
	m.Replies = replyUse{waitsOf(r.Replies.Reads.Since(first.Replies.Reads)),
		waitsOf(r.Replies.Writes.Since(first.Replies.Writes))}
	before, base := byName(last.Commands), byName(first.Commands)
	for i := range r.Commands {
		c := &r.Commands[i]
		use := commandUse{Name: c.Name, Group: string(c.Group),
			Calls: perSecond(c.Calls, before[c.Name].Calls), Total: c.Calls}
		latency := c.Latency.Since(base[c.Name].Latency)
		use.P50, use.P99, use.P999 = bound(latency, 0.5)/1000, bound(latency, 0.99)/1000,
			bound(latency, 0.999)/1000
		if use.Calls > 0 {
			m.Point.Ops[use.Group] += use.Calls
		}
		if use.Calls > 0 || latency.Count > 0 {
			m.Commands = append(m.Commands, use)
		}
	}
	slices.SortStableFunc(m.Commands, func(a, b commandUse) int {
		return cmp.Compare(b.Calls, a.Calls)
	})
	m.Commands = m.Commands[:min(len(m.Commands), liveCommands)]
	return m
}

// rise returns by how much a counter rose since before. A lower value means that it was reset to 0.
func rise(now, before int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// bound returns a quantile; -1 if it is above all bounds.
func bound(r histogram.Reading, q float64) int64 {
	if b := r.Quantile(q); b != math.MaxInt64 {
		return b
	}
	return -1
}

func milliseconds(us int64) float64 {
	if us < 0 {
		return -1
	}
	return float64(us) / 1000
}

func byName(list []commands.CommandReport) map[string]commands.CommandReport {
	by := make(map[string]commands.CommandReport, len(list))
	for _, c := range list {
		by[c.Name] = c
	}
	return by
}

// wait blocks until there is a newer message than the one that was seen, and returns it; nil if the
// client is gone or the server stops.
func (l *live) wait(r *http.Request, seen chan struct{}) (text []byte, next chan struct{}) {
	if seen != nil {
		select {
		case <-seen:
		case <-r.Context().Done():
			return nil, nil
		case <-l.s.pulse.quit:
			return nil, nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.message, l.mu.next
}

// showLive sends messages for as long as the page is open and its user may see them.
func (s *Server) showLive(w http.ResponseWriter, r *http.Request) {
	visitor := s.visitorOf(w, r)
	if visitor == nil {
		return
	}
	user := visitor.Name()
	if !s.live.open(user) {
		reply(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer s.live.streams.end(user)
	out := s.eventStream(w, r)
	if out == nil {
		return
	}
	text, next := s.live.wait(r, nil)
	for sent := 0; next != nil; {
		if text != nil {
			if sent++; sent == 1 {
				text = s.live.withHistory(text)
			}
			if !out.send(text) {
				return
			}
		}
		text, next = s.live.wait(r, next)
	}
}

// eventStream sends messages to a page as server-sent events.
type eventStream struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
}

// eventStream begins a stream. It returns nil for a HEAD request.
func (s *Server) eventStream(w http.ResponseWriter, r *http.Request) *eventStream {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // it fails only for writers without a connection
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return nil
	}
	return &eventStream{s, w, r, control}
}

// send sends a message. It returns false if the user may no longer get it, or the page is gone.
func (x *eventStream) send(text []byte) bool {
	if status, _ := x.s.admit(x.r); status != 0 {
		return false
	}
	p, _ := x.s.find(x.r.URL.Path)
	if status, _ := x.s.refusal(x.r, p); status != 0 {
		return false
	}
	_ = x.control.SetWriteDeadline(inTime(replyTime))
	_, err := fmt.Fprintf(x.w, "data: %s\n\n", text)
	return err == nil && x.control.Flush() == nil
}

// inTime returns the instant d from now, for the deadline of a connection.
func inTime(d time.Duration) time.Time { return time.UnixMilli(clock.System.Now()).Add(d) }

// withHistory adds the history and the past minutes to a message.
func (l *live) withHistory(text []byte) []byte {
	l.mu.Lock()
	history, err := json.Marshal(map[string][]point{"history": l.mu.history,
		"minutes": l.mu.minutes})
	l.mu.Unlock()
	if err != nil {
		return text
	}
	return append(append(history[:len(history)-1], ','), text[1:]...)
}
