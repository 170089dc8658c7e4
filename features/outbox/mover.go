package outbox

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyp/storage"
	"keyp/storage/object"
)

// An outbox rule writes a stream entry for each key that expires. The entry goes first into a queue
// of the key's shard. mover moves the entries from these queues to the rule's stream. This is
// background work that gives way to commands. A batch locks the shards of the queues and of the
// stream for moveBudget at most, or until a command wants one of them.
//
// Entries come in the order of deadlines. An entry waits until no key with an earlier deadline is
// left, in any shard or on disk. If a shard stays locked, for example by a long script, the mover
// waits for it no longer than patience.
type mover struct {
	o    *Outboxes     // constant
	kick chan struct{} // there may be something to do
	held atomic.Bool   // entries wait for what was due before them
	turn struct {      // is taken before any lock of the store
		sync.Mutex
		t       *storage.Txn
		horizon int64         // the first deadline of the store, as it was last
		since   time.Duration // when that was first seen
		retries map[*state]time.Duration
	}
}

const (
	// moveBudget is how long shards are locked for a batch.
	moveBudget = 200 * time.Microsecond
	// moveLooks is how many entries are moved between two looks at the clock.
	moveLooks = 16
	// moveBytes bounds the entries of a batch.
	moveBytes = 256 << 10
	// patience is how long entries wait while the removal of earlier keys makes no progress.
	patience = time.Second
	// retryAfter is the time until the next attempt for a stream that could not be written.
	retryAfter = 200 * time.Millisecond
	// pinnedAfter is the time until the next attempt for a stream that a command reads.
	pinnedAfter = 5 * time.Millisecond
	// trimStep is how many more entries are trimmed than the batch has added, each time the
	// stream's shard is locked.
	trimStep = 256
	// tidyInterval is the time between two trims of all streams.
	tidyInterval = 100 * time.Millisecond
	// commitEvery is the number of consecutive batches after which the log is committed.
	commitEvery = 8
)

// The reasons why a stream cannot be written.
var (
	errPinned = errors.New("the stream is being read")
	errIDs    = errors.New("the stream has no more ids")
	errType   = errors.New("the stream's key holds another type")
)

var (
	eventXAdd  = storage.Event{Class: storage.EventStream, Name: "xadd"}
	eventXTrim = storage.Event{Class: storage.EventStream, Name: "xtrim"}
)

func (m *mover) init(o *Outboxes) {
	m.o, m.kick = o, make(chan struct{}, 1)
	m.turn.t, m.turn.horizon = o.s.NewTxn(), math.MinInt64
	m.turn.retries = map[*state]time.Duration{}
}

// wake makes the mover look at the queues.
func (m *mover) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// closing reports whether the store closes or has failed.
func (m *mover) closing() bool { return m.o.quit.Err() != nil || m.o.s.Err() != nil }

func (m *mover) loop() {
	ticker := time.NewTicker(tidyInterval)
	defer ticker.Stop()
	for {
		var again, tidy <-chan time.Time
		if wait := m.round(); wait > 0 {
			again = time.After(wait)
		}
		if m.o.rules.Load() != nil {
			tidy = ticker.C
		}
		select {
		case <-m.kick:
		case <-again:
		case <-tidy:
			m.tidy()
		case <-m.o.quit.Done():
			return
		}
	}
}

// Move moves to their streams all entries that can be moved now. It is for tests: otherwise the
// mover does this by itself.
func (o *Outboxes) Move() { o.mover.round() }

// Tidy trims the streams of all rules. It is for tests: otherwise the mover does this by itself.
func (o *Outboxes) Tidy() { o.mover.tidy() }

// round moves all entries that can be moved. It returns the time until it must be called again. 0
// means that it need not be called until wake is.
func (m *mover) round() (again time.Duration) {
	m.turn.Lock()
	defer m.turn.Unlock()
	log, batches := m.o.s.Log(), 0
	for more := true; more && !m.closing(); {
		more, again = false, 0
		rs := m.o.rules.Load()
		if rs == nil {
			break
		}
		for _, r := range rs.all {
			moved, wait := m.move(r)
			if moved {
				more = true
				if batches++; batches%commitEvery == 0 {
					log.CommitAsync()
				}
			}
			if wait > 0 && (again == 0 || wait < again) {
				again = wait
			}
		}
	}
	if batches > 0 {
		log.CommitAsync()
	}
	return again
}

// limit returns the deadline up to which entries may be moved now. first is the first deadline of a
// rule. If no entry with that deadline may be moved yet, limit also returns how long to wait.
func (m *mover) limit(first int64) (last int64, wait time.Duration) {
	m.held.Store(true) // before the look, so that what is removed after it wakes the mover
	now := m.o.s.Now()
	h, mono := m.o.s.FirstDue(), m.o.clock.Mono()
	if h != m.turn.horizon {
		m.turn.horizon, m.turn.since = h, mono
	}
	overdue := now - h
	switch {
	case overdue < 0:
		// Nothing is due, so the entries of everything that was due are in the queues. Entries with
		// a later deadline are from before the clock was set back.
		h = max(now, first)
		fallthrough
	case first <= h:
		m.held.Store(false)
		return h, 0
	}
	late := time.Duration(min(overdue, patience.Milliseconds())) * time.Millisecond
	if wait = patience - min(mono-m.turn.since, late); wait > 0 {
		return h, wait
	}
	return math.MaxInt64, 0
}

// move moves a batch of a rule. If it moves nothing, it may return how long to wait for another
// attempt.
func (m *mover) move(r *outbox) (moved bool, wait time.Duration) {
	s, t, clock := m.o.s, m.turn.t, m.o.clock
	if r.waiting.Load() == 0 || s.Follower() {
		return false, 0
	}
	if s.Full() {
		return false, retryAfter
	}
	if wait := m.turn.retries[r.state] - clock.Mono(); wait > 0 {
		return false, wait
	}
	last, wait := m.limit(r.first())
	if wait > 0 {
		return false, wait
	}
	queues := r.occupied() // after limit: these have everything that was due by last
	keys := []storage.Key{r.stream}
	for _, q := range queues {
		keys = append(keys, q.key)
	}
	err := s.BeginBehind(t, keys...)
	if err == nil {
		var n int
		if m.o.rules.Load().named(r.Name) == r && !s.Follower() {
			n, err = m.fill(t, r, queues, take{last: last})
		}
		t.End()
		moved = n > 0
	}
	switch {
	case err == nil:
		delete(m.turn.retries, r.state)
		r.succeeded()
		return moved, 0
	case errors.Is(err, errPinned):
		wait = pinnedAfter
	default:
		wait = retryAfter
		m.failed(r, err)
	}
	m.turn.retries[r.state] = clock.Mono() + wait
	return false, wait
}

// occupied returns the queues in which entries wait.
func (r *outbox) occupied() (list []*queue) {
	for i := range r.queues {
		if q := &r.queues[i]; q.waiting.Load() > 0 {
			list = append(list, q)
		}
	}
	return list
}

// first returns the first deadline of the waiting entries.
func (r *outbox) first() int64 {
	first := int64(math.MaxInt64)
	for _, q := range r.occupied() {
		first = min(first, q.first.Load())
	}
	return first
}

// take bounds how much to move.
type take struct {
	last int64 // deadline
	all  bool  // however long it takes
}

// head is a queue from which entries are being taken.
type head struct {
	q     *queue
	l     storage.List
	taken int
	size  int64    // of those
	next  [][]byte // entries after those taken
}

// look returns the next entry, or nil at the end.
func (h *head) look() []byte {
	if len(h.next) == 0 {
		h.l.Value().Each(h.taken, false, func(_ int, _ int64, entry []byte) bool {
			h.next = append(h.next, entry)
			return len(h.next) < 2*moveLooks
		})
		if len(h.next) == 0 {
			return nil
		}
	}
	return h.next[0]
}

// took records that the next entry was taken.
func (h *head) took() {
	h.taken, h.size, h.next = h.taken+1, h.size+int64(len(h.next[0])), h.next[1:]
}

// heads are queues from which entries are taken together.
type heads []*head

// headsOf opens queues.
func headsOf(t *storage.Txn, queues []*queue) (list heads, err error) {
	for _, q := range queues {
		if err := t.Load(q.key); err != nil {
			return nil, err
		}
		l, err := t.List(q.key)
		if err != nil {
			return nil, err
		}
		list = append(list, &head{q: q, l: l})
	}
	return list, nil
}

// first returns the entry with the first deadline, and its queue; nil if there is none.
func (list heads) first() (from *head, entry []byte) {
	for _, h := range list {
		if e := h.look(); e != nil && (entry == nil || entryDeadline(e) < entryDeadline(entry)) {
			from, entry = h, e
		}
	}
	return from, entry
}

// fill moves entries of queues to the stream. The transaction has their shards and that of the
// stream locked. If fill returns an error, nothing has changed.
func (m *mover) fill(t *storage.Txn, r *outbox, queues []*queue, how take) (moved int, err error) {
	t.Exempt, t.NoTouch = true, true
	st, err := t.Stream(r.stream)
	if err != nil {
		return 0, errType
	}
	if st.Pinned() {
		return 0, errPinned
	}
	list, err := headsOf(t, queues)
	if err != nil {
		return 0, err
	}
	began, micros, size, taken, added := m.o.clock.Mono(), m.o.s.Micros(), 0, 0, 0
	var w entryWriter
	for {
		from, next := list.first()
		if next == nil || entryDeadline(next) > how.last {
			break
		}
		if e, ok := parseEntry(next); !ok {
			m.o.log.Error("an entry of an outbox is damaged and left out", "rule",
				strconv.Quote(r.Name))
		} else if err = m.add(t, &st, r, w.fields([]byte(r.Name), &e), e.deadline,
			micros); err != nil {
			break
		} else {
			added++
		}
		from.took()
		taken++
		if size += len(next); how.all {
			continue
		}
		if size >= moveBytes || taken%moveLooks == 0 && (m.o.clock.Mono()-began >= moveBudget ||
			t.Wanted()) {
			break
		}
	}
	for _, h := range list {
		if h.taken > 0 {
			h.l.RemoveRange(0, h.taken)
		}
	}
	r.written.Add(int64(added))
	if added > 0 {
		r.trim(t, &st, added+trimStep)
	}
	for _, h := range list {
		r.recount(h.q, h.l.Value(), h.q.bytes.Load()-h.size)
	}
	t.FlushValues()
	if m.o.anyFull.Load() {
		m.o.measure()
	}
	if taken > 0 {
		return taken, nil // the rest fails next time
	}
	return 0, err
}

// add adds an entry to a rule's stream. micros is the present Unix time in µs.
func (m *mover) add(t *storage.Txn, st *storage.Stream, r *outbox, fields [][]byte, deadline,
	micros int64) error {
	last := st.Value().LastID()
	id := object.StreamID{Ms: uint64(t.Now())}
	if id.Compare(last) <= 0 {
		var ok bool
		if id, ok = last.Next(); !ok {
			return errIDs
		}
	}
	st.Add(id, fields)
	t.Notify(r.stream, eventXAdd)
	if m.o.s.CountsLateness(deadline) {
		m.o.late.Observe(micros - deadline*1000)
	}
	return nil
}

// trim removes up to most entries from the beginning of the stream. With MaxLen it removes those
// over the limit. Otherwise it removes those that all groups have acknowledged, if there are
// groups.
func (r *outbox) trim(t *storage.Txn, st *storage.Stream, most int) (n int) {
	v := st.Value()
	if r.MaxLen == 0 {
		if n = r.readable(t, v, v.Acked(most)); n > 0 {
			st.TrimFirst(n)
			t.Notify(r.stream, eventXTrim)
		}
		return n
	}
	if n = int(min(max(int64(v.Entries())-r.MaxLen, 0), int64(most))); n == 0 {
		return 0
	}
	if n = r.readable(t, v, n); n == 0 {
		return 0
	}
	lost := int64(0)
	if v.Groups() == 0 || object.Reading(func() { lost = notAcked(v, n) }) != nil {
		lost = int64(n)
	}
	r.lost.Add(lost)
	st.TrimFirst(n)
	t.Notify(r.stream, eventXTrim)
	return n
}

// readable returns how many of the first n entries of the stream can be removed. To remove some
// entries of a run, the mover must read the run. If it cannot, readable counts only whole runs.
func (r *outbox) readable(t *storage.Txn, v *object.Stream, n int) int {
	if t.TryRuns(storage.Runs{Key: r.stream, First: v.WantedTrim(nil, n)}) != nil {
		return v.WholeNodes(n)
	}
	return n
}

// notAcked returns how many of the first n entries at least one group has not acknowledged.
func notAcked(v *object.Stream, n int) (lost int64) {
	v.Range(object.StreamID{}, object.MaxStreamID, false, func(e object.StreamEntry) bool {
		if !v.AckedByAll(e.ID) {
			lost++
		}
		n--
		return n > 0
	})
	return lost
}

// tidy trims the streams of all rules.
func (m *mover) tidy() {
	rs := m.o.rules.Load()
	if rs == nil || m.o.s.Full() {
		return
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	for _, r := range rs.all {
		for more := true; more && !m.closing(); {
			more = m.tidyStream(r)
		}
	}
}

// tidyStream trims some entries of a stream that is in memory. It reports whether there may be more
// to trim.
func (m *mover) tidyStream(r *outbox) (more bool) {
	s, t := m.o.s, m.turn.t
	s.LockBehind(t, r.stream)
	defer t.End()
	if s.Follower() || !t.Resident(r.stream) {
		return false
	}
	t.Exempt, t.NoTouch = true, true
	st, err := t.Stream(r.stream)
	if err != nil || !st.Exists() || st.Pinned() {
		return false
	}
	v := st.Value()
	if r.MaxLen == 0 && v.Acked(1) == 0 || r.MaxLen > 0 && int64(v.Entries()) <= r.MaxLen {
		return false
	}
	return r.trim(t, &st, trimStep) == trimStep
}

func (m *mover) failed(r *outbox, err error) {
	text := err.Error()
	if was := r.failure.Swap(&text); was == nil {
		const shown = 64
		m.o.log.Warn("entries of an outbox wait, as its stream cannot be written", "rule",
			r.Name, "db", r.DB,
			"stream", string(r.Stream[:min(len(r.Stream), shown)]), "error", err)
	}
}

func (r *outbox) succeeded() {
	if r.failure.Load() != nil {
		r.failure.Store(nil)
	}
}
