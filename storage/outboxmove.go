package storage

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyp/storage/object"
)

// outboxMover moves entries from the queues of rules to the rules' streams. This is background work
// that gives way to commands: a batch locks the shards of the rule's queues and of its stream for
// outboxBudget at most, or until a command wants one of them.
//
// Entries come in the order of deadlines: an entry waits until no shard, nor the disk, has anything
// left that was due before it (horizon). The mover does not wait for anything that stays blocked
// for outboxPatience, such as a shard that a long script has locked.
type outboxMover struct {
	s    *Store        // constant
	kick chan struct{} // there may be something to do
	held atomic.Bool   // entries wait for what was due before them
	turn struct {
		sync.Mutex
		t       *Txn
		horizon int64         // as it was last
		since   time.Duration // when that was first seen
		retries map[*outboxState]time.Duration
	}
}

const (
	// outboxBudget is how long shards are locked for a batch.
	outboxBudget = 200 * time.Microsecond
	// outboxLooks is how many entries are moved between two looks at the clock.
	outboxLooks = 16
	// outboxBytes bounds the entries of a batch.
	outboxBytes = 256 << 10
	// outboxPatience is how long entries wait for what was due before them and does not get on.
	outboxPatience = time.Second
	// outboxRetry is how long a stream is left alone that could not be written.
	outboxRetry = 200 * time.Millisecond
	// outboxPinned is how long a stream is left alone that a command reads.
	outboxPinned = 5 * time.Millisecond
	// outboxTrim is how many entries are trimmed each time the stream's shard is locked, more than
	// the batch added.
	outboxTrim = 256
	// outboxCommit is after how many batches in a row the log is committed.
	outboxCommit = 8
)

// Why a stream is not written.
var (
	errOutboxPinned = errors.New("the stream is being read")
	errOutboxIDs    = errors.New("the stream has no more ids")
	errOutboxType   = errors.New("the stream's key holds another type")
)

var (
	eventXAdd  = Event{EventStream, "xadd"}
	eventXTrim = Event{EventStream, "xtrim"}
)

func (m *outboxMover) init(s *Store) {
	m.s, m.kick = s, make(chan struct{}, 1)
	m.turn.t, m.turn.horizon = s.NewTxn(), math.MinInt64
	m.turn.retries = map[*outboxState]time.Duration{}
}

// wake makes the mover look at the queues.
func (m *outboxMover) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// removed is called when something that was due may be gone.
func (m *outboxMover) removed() {
	if m.held.Load() {
		m.wake()
	}
}

func (m *outboxMover) loop() {
	lowerPriority()
	m.s.awaitReapDelay() // what lookups remove first is of any deadline
	for {
		var again <-chan time.Time
		if wait := m.round(); wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-m.kick:
		case <-again:
		case <-m.s.quit.Done():
			return
		}
	}
}

// round moves what can be moved, and returns after how long to look again, 0: when it is woken.
func (m *outboxMover) round() (again time.Duration) {
	m.turn.Lock()
	defer m.turn.Unlock()
	s, batches := m.s, 0
	for more := true; more && s.quit.Err() == nil && s.Err() == nil; {
		more, again = false, 0
		rules := s.outbox.rules.Load()
		if rules == nil {
			break
		}
		for _, r := range rules.all {
			moved, wait := m.move(r)
			if moved {
				more = true
				if batches++; batches%outboxCommit == 0 {
					s.log.CommitAsync()
				}
			}
			if wait > 0 && (again == 0 || wait < again) {
				again = wait
			}
		}
	}
	if batches > 0 {
		s.log.CommitAsync()
	}
	return again
}

// horizon is the first deadline of all that is in memory or on disk: entries up to it have nothing
// before them.
func (m *outboxMover) horizon() int64 {
	h := int64(math.MaxInt64)
	if next, ok := m.s.window.NextDeadline(); ok {
		h = next
	}
	if next, ok := m.s.window.largeLoads.Next(); ok { // read after the window, from which keys move here
		h = min(h, next)
	}
	for _, sh := range m.s.shards {
		h = min(h, sh.nextDue.Load())
	}
	return h
}

// limit is up to which deadline entries may be moved now; first is the first deadline of a rule. If
// that is later it says how long to wait.
func (m *outboxMover) limit(first int64) (last int64, wait time.Duration) {
	m.held.Store(true) // before the look, so that what is removed after it wakes the mover
	now := m.s.now()
	h, mono := m.horizon(), m.s.clock.Mono()
	if h != m.turn.horizon {
		m.turn.horizon, m.turn.since = h, mono
	}
	overdue := now - h
	switch {
	case overdue < 0: // nothing is due, so all entries up to now are there; later ones are from before a step back of the clock
		h = max(now, first)
		fallthrough
	case first <= h:
		m.held.Store(false)
		return h, 0
	}
	if wait = outboxPatience - min(mono-m.turn.since, time.Duration(min(overdue, outboxPatience.Milliseconds()))*time.Millisecond); wait > 0 {
		return h, wait
	}
	return math.MaxInt64, 0
}

// move moves a batch of a rule. If it has not, it may say after how long to try again.
func (m *outboxMover) move(r *outbox) (moved bool, wait time.Duration) {
	s, t := m.s, m.turn.t
	if r.waiting.Load() == 0 || s.Follower() {
		return false, 0
	}
	if s.Full() {
		return false, outboxRetry
	}
	if wait := m.turn.retries[r.outboxState] - s.clock.Mono(); wait > 0 {
		return false, wait
	}
	last, wait := m.limit(r.first())
	if wait > 0 {
		return false, wait
	}
	err := m.begin(t, r)
	if err == nil {
		var n int
		if s.outbox.rules.Load().named(r.Name) == r && !s.Follower() {
			n, err = m.fill(t, r, take{last: last})
		}
		t.End()
		moved = n > 0
	}
	switch {
	case err == nil:
		delete(m.turn.retries, r.outboxState)
		r.succeeded()
		return moved, 0
	case errors.Is(err, errOutboxPinned):
		wait = outboxPinned
	default:
		wait = outboxRetry
		r.failed(s, err)
	}
	m.turn.retries[r.outboxState] = s.clock.Mono() + wait
	return false, wait
}

// first is the first deadline that waits.
func (r *outbox) first() int64 {
	first := int64(math.MaxInt64)
	for i := range r.queues {
		if q := &r.queues[i]; q.waiting.Load() > 0 {
			first = min(first, q.first.Load())
		}
	}
	return first
}

// begin locks the shards of the rule's queues and of its stream, which is in memory then.
func (m *outboxMover) begin(t *Txn, r *outbox) error {
	s := m.s
	for tries := 0; ; tries++ {
		mask := uint64(1) << s.shardOf(r.stream.Slot)
		for i := range r.queues {
			if r.queues[i].waiting.Load() > 0 {
				mask |= 1 << i
			}
		}
		for rest := mask; rest != 0; rest &= rest - 1 {
			s.shards[bits.TrailingZeros64(rest)].mu.yield()
		}
		s.lock(t, mask)
		t.takeInstant()
		if s.resident(r.stream) {
			return nil
		}
		if tries == loadTries {
			err := t.Load(r.stream)
			if err != nil {
				t.End()
			}
			return err
		}
		t.End()
		if err := s.loads.loadKey(r.stream); err != nil && !errors.Is(err, errBusy) {
			s.loads.failed(r.stream, err)
			return err
		}
	}
}

// take says how much to move.
type take struct {
	last int64 // deadline
	all  bool  // however long it takes
}

// outboxHead is a queue that is being taken from.
type outboxHead struct {
	q     *outboxQueue
	l     List
	taken int
	size  int64    // of those
	next  [][]byte // entries behind those taken
}

// look gives the next entry, nil at the end.
func (h *outboxHead) look() []byte {
	if len(h.next) == 0 {
		h.l.Value().Each(h.taken, false, func(_ int, _ int64, entry []byte) bool {
			h.next = append(h.next, entry)
			return len(h.next) < 2*outboxLooks
		})
		if len(h.next) == 0 {
			return nil
		}
	}
	return h.next[0]
}

// fill moves entries. The transaction has the shards of the stream and of the queues that it may
// take from locked. With an error nothing has changed.
func (m *outboxMover) fill(t *Txn, r *outbox, how take) (moved int, err error) {
	s, n := m.s, 0
	t.Exempt, t.NoTouch = true, true
	st, err := t.Stream(r.stream)
	if err != nil {
		return 0, errOutboxType
	}
	if o := st.object(); o != nil && o.pinned() {
		return 0, errOutboxPinned
	}
	var heads []*outboxHead
	for i := range r.queues {
		if q := &r.queues[i]; t.mask>>i&1 != 0 && q.waiting.Load() > 0 {
			if err := t.Load(q.key); err != nil {
				return 0, err
			}
			l, err := t.List(q.key)
			if err != nil {
				return 0, err
			}
			heads = append(heads, &outboxHead{q: q, l: l})
		}
	}
	began, micros, size, taken := s.clock.Mono(), s.Micros(), 0, 0
	var w entryWriter
	name := []byte(r.Name)
	for {
		var from *outboxHead
		var entry []byte
		for _, h := range heads {
			if e := h.look(); e != nil && (entry == nil || entryDeadline(e) < entryDeadline(entry)) {
				from, entry = h, e
			}
		}
		if entry == nil || entryDeadline(entry) > how.last {
			break
		}
		if e, ok := parseEntry(entry); ok {
			last := st.Value().LastID()
			id := object.StreamID{Ms: uint64(t.now)}
			if id.Compare(last) <= 0 {
				if id, ok = last.Next(); !ok {
					err = errOutboxIDs
					break
				}
			}
			st.Add(id, w.fields(name, &e))
			t.Notify(r.stream, eventXAdd)
			if e.deadline >= s.reapFrom {
				s.outbox.late.Observe(micros - e.deadline*1000)
			}
			n++
		} else {
			s.options.Logger.Error("an entry of an outbox is damaged and left out", "rule", strconv.Quote(r.Name))
		}
		from.taken, from.size, from.next = from.taken+1, from.size+int64(len(entry)), from.next[1:]
		taken++
		if size += len(entry); how.all {
			continue
		}
		if size >= outboxBytes || taken%outboxLooks == 0 && (s.clock.Mono()-began >= outboxBudget || s.wanted(t.mask)) {
			break
		}
	}
	for _, h := range heads {
		if h.taken > 0 {
			h.l.RemoveRange(0, h.taken)
		}
	}
	r.written.Add(int64(n))
	if n > 0 {
		r.trim(t, &st, n+outboxTrim)
	}
	for _, h := range heads {
		r.recount(h.q, h.l.Value(), h.q.bytes.Load()-h.size)
	}
	t.FlushValues()
	if s.outbox.anyFull.Load() {
		s.outbox.measure()
	}
	if taken > 0 {
		return taken, nil // the rest fails next time
	}
	return 0, err
}

// wanted reports whether a command waits for one of some shards.
func (s *Store) wanted(mask uint64) bool {
	for ; mask != 0; mask &= mask - 1 {
		if s.shards[bits.TrailingZeros64(mask)].mu.wanted() {
			return true
		}
	}
	return false
}

// trim removes entries from the stream's begin, at most most of them: with MaxLen those that are
// too many, otherwise those that all groups have acknowledged, if there are groups.
func (r *outbox) trim(t *Txn, st *Stream, most int) (n int) {
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

// readable returns how many of the first n entries of the stream can be removed. If a run that
// would lose a part cannot be read, only whole runs count.
func (r *outbox) readable(t *Txn, v *object.Stream, n int) int {
	if t.loadRuns(Runs{r.stream, v.WantedTrim(nil, n)}) != nil {
		return v.WholeNodes(n)
	}
	return n
}

// notAcked is how many of the first n entries some group has not acknowledged.
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

// tidy trims the streams of all rules. Housekeeping calls it.
func (c *outboxControl) tidy() {
	rules := c.rules.Load()
	if rules == nil || c.s.Full() || c.s.Err() != nil {
		return
	}
	t := c.s.NewTxn()
	for _, r := range rules.all {
		for more := true; more && c.s.quit.Err() == nil; {
			more = c.tidyStream(t, r)
		}
	}
}

// tidyStream trims some entries, and reports whether there may be more to trim.
func (c *outboxControl) tidyStream(t *Txn, r *outbox) (more bool) {
	s := c.s
	if !s.lockBehind(t, s.shards[s.shardOf(r.stream.Slot)], false) {
		return false
	}
	defer t.End()
	t.takeInstant()
	p, cell := t.look(r.stream)
	if !s.resident(r.stream) || !exists(cell) || s.Follower() {
		return false
	}
	o := p.objectOf(*cell)
	if o == nil || o.pinned() || o.val.Type() != object.TypeStream {
		return false
	}
	v := o.val.(*object.Stream)
	if r.MaxLen == 0 && v.Acked(1) == 0 || r.MaxLen > 0 && int64(v.Entries()) <= r.MaxLen {
		return false
	}
	t.Exempt, t.NoTouch = true, true
	st, err := t.Stream(r.stream)
	return err == nil && r.trim(t, &st, outboxTrim) == outboxTrim
}

func (r *outbox) failed(s *Store, err error) {
	text := err.Error()
	if was := r.failure.Swap(&text); was == nil {
		s.options.Logger.Warn("entries of an outbox wait, as its stream cannot be written", "rule", r.Name, "db", r.DB, "stream", clip(r.Stream), "error", err)
	}
}

func (r *outbox) succeeded() {
	if r.failure.Load() != nil {
		r.failure.Store(nil)
	}
}

// The fields of an entry.
var (
	fieldRule, fieldDB, fieldKey, fieldElement, fieldType = []byte("rule"), []byte("db"), []byte("key"), []byte("element"), []byte("type")
	fieldDeadline, fieldRemoved, fieldValue, fieldSize    = []byte("deadline"), []byte("removed"), []byte("value"), []byte("value-bytes")
)

// entryWriter makes the fields of a stream's entry.
type entryWriter struct {
	list    [][]byte
	numbers []byte
}

// fields alternates names and values; they are valid until the next call.
func (w *entryWriter) fields(rule []byte, e *outEntry) [][]byte {
	w.list, w.numbers = w.list[:0], w.numbers[:0]
	if w.numbers == nil {
		w.numbers = make([]byte, 0, 128) // four numbers of up to 20 bytes: it does not grow
	}
	text := func(name, value []byte) { w.list = append(w.list, name, value) }
	number := func(name []byte, n int64) {
		from := len(w.numbers)
		w.numbers = strconv.AppendInt(w.numbers, n, 10)
		text(name, w.numbers[from:])
	}
	text(fieldRule, rule)
	number(fieldDB, int64(e.db))
	text(fieldKey, e.key)
	if e.hasElement {
		text(fieldElement, e.element)
	}
	text(fieldType, []byte(e.typ.String()))
	number(fieldDeadline, e.deadline)
	number(fieldRemoved, e.removed)
	if e.hasValue {
		text(fieldValue, e.value)
	}
	if e.size != 0 {
		number(fieldSize, int64(e.size))
	}
	return w.list
}
