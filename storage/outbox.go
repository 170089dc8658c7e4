package storage

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"keyp/internal/glob"
	"keyp/internal/histogram"
	"keyp/storage/object"
	"keyp/ttl"
)

// An outbox is a rule that reports each expiry of certain keys, and of their elements, in a stream.
// The removal and the entry are one:
//
//   - A transaction that removes what is due writes the entry in the same batch, into a queue of
//     the rule in the same shard (ending). So an expiry locks no further shard.
//   - The mover takes entries from the queues and adds them to the stream, in one batch
//     (outboxmove.go).
//
// So after a crash an entry is in a queue or in the stream, and in one of them only. No client sees
// that these are two batches: a key that is due is invisible, removed or not.
//
// Rules and queues are among the server's own data (system.go). A queue is a list, in the order of
// deadlines: what is put in and taken out are single elements and runs of them, in memory, in the
// log, and on disk. While there are rules, queues do not leave memory.

// OutboxRule says what is reported where. It does not change.
type OutboxRule struct {
	Name     string
	DB       int
	Pattern  []byte
	Type     object.Type `json:",omitempty"` // None: any
	Elements bool        `json:",omitempty"` // those of the keys are reported, too
	Stream   []byte      // the key of the stream, in the same database
	MaxLen   int64       `json:",omitempty"` // of the stream; 0: an entry goes when all groups have acknowledged it
	MaxValue int         `json:",omitempty"` // bytes of a value that an entry has at most
}

// outbox is a rule with its state.
type outbox struct {
	OutboxRule
	stream Key
	*outboxState
}

// outboxState stays when the rule is replaced by one of the same name.
type outboxState struct {
	queues  []outboxQueue // by shard
	waiting atomic.Int64  // entries in the queues
	bytes   atomic.Int64  // that these have
	written atomic.Int64  // to the stream, since the start
	lost    atomic.Int64  // trimmed by MAXLEN before all groups had acknowledged them, since the start
	failure atomic.Pointer[string]
	full    atomic.Bool // more entries wait than there should
}

// outboxQueue are entries that wait in a shard. The numbers are written while the shard is locked,
// and read without that.
type outboxQueue struct {
	key     Key // constant
	waiting atomic.Int64
	bytes   atomic.Int64
	first   atomic.Int64 // the first deadline, if any entry waits
}

// outboxes are the rules at present.
type outboxes struct {
	all  []*outbox // by name
	byDB [][]*outbox
}

const (
	// outboxRuleKey and a rule's name are the key of the rule, outboxQueueKey with a shard's tag
	// and the rule's name that of a queue.
	outboxRuleKey  = "outbox.rule:"
	outboxQueueKey = "outbox.queue{"
	// outboxSmall is how many entries may wait that OutboxDelete writes to the stream itself.
	outboxSmall = 10_000
	// DefaultOutboxBacklog is how many entries of a rule may wait before writes are refused.
	DefaultOutboxBacklog = 1_000_000
	// outboxEntryBytes is from which size on, on average, entries count for more than they are.
	outboxEntryBytes = 1 << 10
)

// ErrOutboxWaiting: too many entries wait for the mover.
var ErrOutboxWaiting = errors.New("storage: entries of the outbox wait to be written")

// outboxControl is what the store has of outboxes.
type outboxControl struct {
	s       *Store // constant
	tags    []string
	rules   atomic.Pointer[outboxes] // nil: there is none; written while all shards are locked
	backlog atomic.Int64
	anyFull atomic.Bool // entries of some rule wait that are more than backlog
	mover   outboxMover
	late    *histogram.Histogram // from the deadline to the entry in the stream, in microseconds
}

func (c *outboxControl) init(s *Store) {
	c.s, c.late = s, histogram.New(histogram.Lateness)
	c.backlog.Store(DefaultOutboxBacklog)
	c.mover.init(s)
}

// start reads the rules and loads their queues. Nothing is removed before.
func (c *outboxControl) start() error {
	s := c.s
	for i := range s.shards {
		c.tags = append(c.tags, s.tagOf(i))
	}
	if s.options.ReadOnly {
		return nil
	}
	var rules, queues []string
	err := s.WalkSystem(func(name []byte, _ object.Type) bool {
		switch n := string(name); {
		case strings.HasPrefix(n, outboxRuleKey):
			rules = append(rules, n)
		case strings.HasPrefix(n, outboxQueueKey):
			queues = append(queues, n)
		}
		return true
	})
	if err != nil {
		return err
	}
	if len(rules)+len(queues) == 0 {
		return nil
	}
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	t.NoTouch = true // time is not known yet
	all := &outboxes{}
	for _, name := range rules {
		r, err := t.readOutbox(s.SystemKey(name))
		if err != nil {
			s.options.Logger.Error("an outbox is not understood and left out; it stays on disk", "rule", strconv.Quote(name), "error", err)
			continue
		}
		all = all.with(c.newOutbox(r, &outboxState{}))
	}
	owned := map[string]bool{}
	for _, r := range all.all {
		for i := range r.queues {
			owned[string(r.queues[i].key.Name)] = true
			t.countQueue(r, &r.queues[i])
		}
	}
	for _, name := range queues {
		if !owned[name] && len(all.all) == len(rules) { // of a rule that was never durable
			t.dropSystem(s.SystemKey(name))
		}
	}
	c.use(all)
	return nil
}

// tagOf is a tag that gives keys a slot of a shard.
func (s *Store) tagOf(shard int) string {
	for i := 0; ; i++ {
		if k := s.SystemKey("{" + strconv.Itoa(i) + "}"); s.shardOf(k.Slot) == shard {
			return strconv.Itoa(i)
		}
	}
}

func (t *Txn) readOutbox(k Key) (*OutboxRule, error) {
	if err := t.Load(k); err != nil {
		return nil, err
	}
	item, ok := t.Peek(k)
	if !ok {
		return nil, ErrCorrupt
	}
	text, err := item.String()
	if err != nil {
		return nil, err
	}
	r := &OutboxRule{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if r.DB < 0 || r.DB >= t.s.options.Databases {
		return nil, errors.New("storage: its database does not exist")
	}
	return r, nil
}

// countQueue loads a queue, or drops it where it is damaged, and counts what waits in it.
func (t *Txn) countQueue(r *outbox, q *outboxQueue) {
	if err := t.Load(q.key); err != nil { // it is logged
		t.dropSystem(q.key)
	}
	l, err := t.List(q.key)
	if err != nil {
		t.dropSystem(q.key)
		l, _ = t.List(q.key)
	}
	size := int64(0)
	l.Value().Each(0, false, func(_ int, _ int64, entry []byte) bool {
		size += int64(len(entry))
		return true
	})
	r.recount(q, l.Value(), size)
}

// leads counts what waits in all queues.
func (c *outboxControl) leads(t *Txn) {
	if rules := c.rules.Load(); rules != nil {
		for _, r := range rules.all {
			for i := range r.queues {
				t.countQueue(r, &r.queues[i])
			}
		}
		c.measure()
	}
}

// recount sets the counts of a queue to those of its list, whose entries take size bytes.
func (r *outbox) recount(q *outboxQueue, l *object.List, size int64) {
	r.bytes.Add(size - q.bytes.Swap(size))
	n := int64(l.Len())
	if n > 0 {
		_, first := l.At(0)
		q.first.Store(entryDeadline(first))
	}
	r.waiting.Add(n - q.waiting.Swap(n))
}

// dropSystem deletes a key of the server's own data, whether it can be read or not.
func (t *Txn) dropSystem(k Key) {
	if err := t.Load(k); err == nil || errors.Is(err, ErrCorrupt) {
		t.Delete(k, Event{})
	}
}

func (c *outboxControl) newOutbox(r *OutboxRule, state *outboxState) *outbox {
	b := &outbox{OutboxRule: *r, stream: c.s.Key(r.DB, r.Stream), outboxState: state}
	if state.queues == nil {
		state.queues = make([]outboxQueue, len(c.s.shards))
		for i := range state.queues {
			state.queues[i].key = c.s.SystemKey(outboxQueueKey + c.tags[i] + "}:" + r.Name)
		}
	}
	return b
}

// with gives the rules with one in place of that of its name.
func (o *outboxes) with(r *outbox) *outboxes {
	all := append(o.without(r.Name).all, r)
	slices.SortFunc(all, func(a, b *outbox) int { return strings.Compare(a.Name, b.Name) })
	return newOutboxes(all)
}

func (o *outboxes) without(name string) *outboxes {
	if o == nil {
		return &outboxes{}
	}
	return newOutboxes(slices.DeleteFunc(slices.Clone(o.all), func(r *outbox) bool { return r.Name == name }))
}

func newOutboxes(all []*outbox) *outboxes {
	o := &outboxes{all: all}
	for _, r := range all {
		for len(o.byDB) <= r.DB {
			o.byDB = append(o.byDB, nil)
		}
		o.byDB[r.DB] = append(o.byDB[r.DB], r)
	}
	return o
}

func (o *outboxes) named(name string) *outbox {
	if o != nil {
		for _, r := range o.all {
			if r.Name == name {
				return r
			}
		}
	}
	return nil
}

// of gives the rules of a database.
func (o *outboxes) of(db int) []*outbox {
	if o == nil || db < 0 || db >= len(o.byDB) {
		return nil
	}
	return o.byDB[db]
}

// use puts other rules into force. All shards are locked, or the store is being opened.
func (c *outboxControl) use(o *outboxes) {
	if len(o.all) == 0 {
		o = nil
	}
	c.rules.Store(o)
	c.measure()
	c.mover.wake()
}

// SetOutbox makes a rule, or replaces the one of its name; what waits of that one goes to the new
// one's stream. The transaction has all shards locked: so the log has the rule before all that is
// removed under it.
func (t *Txn) SetOutbox(r *OutboxRule) error {
	c := &t.s.outbox
	k := t.s.SystemKey(outboxRuleKey + r.Name)
	if err := t.Load(k); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.ending(t) // of what is removed so far, by the rules before
	rules, state := c.rules.Load(), &outboxState{}
	if old := rules.named(r.Name); old != nil {
		state = old.outboxState
	}
	t.SetString(k, text, ttl.Deadline{}, Event{})
	b := c.newOutbox(r, state)
	if state.waiting.Load() == 0 {
		for i := range b.queues { // of a rule of that name that is gone there is nothing
			t.countQueue(b, &b.queues[i])
		}
	}
	b.succeeded()
	c.use(rules.with(b))
	return nil
}

// DeleteOutbox deletes a rule, and first writes its waiting entries to the stream. If they cannot
// be written now, they are deleted with the rule. ErrOutboxWaiting: too many entries wait for that;
// the mover needs some time. It returns false if there is no rule of that name. The transaction has
// all shards locked.
func (t *Txn) DeleteOutbox(name string) (bool, error) {
	c := &t.s.outbox
	r := c.rules.Load().named(name)
	if r == nil {
		return false, nil
	}
	c.ending(t)
	if r.waiting.Load() > 0 && t.canReport(r) { // it may have failed a moment ago
		if r.tooMany(outboxSmall) {
			return true, ErrOutboxWaiting
		}
		exempt := t.Exempt
		t.Exempt = true
		_, _ = c.mover.fill(t, r, take{last: math.MaxInt64, all: true})
		t.Exempt = exempt
	}
	for i := range r.queues {
		t.dropSystem(r.queues[i].key)
	}
	t.dropSystem(t.s.SystemKey(outboxRuleKey + name))
	c.use(c.rules.Load().without(name))
	return true, nil
}

// canReport reports whether an entry can be added to the rule's stream.
func (t *Txn) canReport(r *outbox) bool {
	if t.Load(r.stream) != nil {
		return false
	}
	st, err := t.Stream(r.stream)
	if err != nil {
		return false
	}
	_, ok := st.Value().LastID().Next()
	return ok
}

// OutboxState is what there is to know of a rule.
type OutboxState struct {
	OutboxRule
	Written int64  // entries, since the start
	Waiting int64  // entries that are not in the stream yet
	Oldest  int64  // the first deadline of those, in Unix ms; 0: none waits
	Lost    int64  // entries that MAXLEN took before all groups had acknowledged them, since the start
	Failure string // why the stream cannot be written; "": it can
	Full    bool   // writes are refused
}

// OutboxNames reads the names of all rules, also of a store that is opened read-only, which has
// none at work.
func (s *Store) OutboxNames() (names []string, err error) {
	err = s.WalkSystem(func(name []byte, _ object.Type) bool {
		if rule, ok := strings.CutPrefix(string(name), outboxRuleKey); ok {
			names = append(names, rule)
		}
		return true
	})
	return names, err
}

// Outboxes gives all rules, by name.
func (s *Store) Outboxes() (list []OutboxState) {
	rules := s.outbox.rules.Load()
	if rules == nil {
		return nil
	}
	for _, r := range rules.all {
		st := OutboxState{OutboxRule: r.OutboxRule, Written: r.written.Load(), Lost: r.lost.Load(), Full: r.full.Load()}
		for i := range r.queues {
			if q := &r.queues[i]; q.waiting.Load() > 0 {
				if first := q.first.Load(); st.Waiting == 0 || first < st.Oldest {
					st.Oldest = first
				}
				st.Waiting += q.waiting.Load()
			}
		}
		if text := r.failure.Load(); text != nil {
			st.Failure = *text
		}
		list = append(list, st)
	}
	return list
}

// OutboxTotals are of all rules.
type OutboxTotals struct {
	Rules, Failing, Full   int64 // how many there are, cannot write their streams, refuse writes
	Written, Waiting, Lost int64
	Oldest                 int64 // Unix ms; 0: nothing waits
}

// OutboxTotals sums the rules up.
func (s *Store) OutboxTotals() (o OutboxTotals) {
	for _, r := range s.Outboxes() {
		o.Rules++
		o.Written, o.Waiting, o.Lost = o.Written+r.Written, o.Waiting+r.Waiting, o.Lost+r.Lost
		if r.Failure != "" {
			o.Failing++
		}
		if r.Full {
			o.Full++
		}
		if r.Waiting > 0 && (o.Oldest == 0 || r.Oldest < o.Oldest) {
			o.Oldest = r.Oldest
		}
	}
	return o
}

// SetOutboxBacklog changes how many entries of a rule may wait before writes of its keys are
// refused.
func (s *Store) SetOutboxBacklog(n int64) {
	s.outbox.backlog.Store(n)
	s.outbox.measure()
}

// measure finds out of which rules more waits than should.
func (c *outboxControl) measure() {
	anyFull := false
	if rules := c.rules.Load(); rules != nil {
		for _, r := range rules.all {
			full := r.tooMany(c.backlog.Load())
			r.full.Store(full)
			anyFull = anyFull || full
		}
	}
	c.anyFull.Store(anyFull)
}

// tooMany reports whether more waits than should, in entries or in KiB.
func (o *outboxState) tooMany(backlog int64) bool {
	return o.waiting.Load() > backlog || o.bytes.Load()/outboxEntryBytes > backlog
}

// OutboxesFull reports whether writes of some keys are refused.
func (s *Store) OutboxesFull() bool { return s.outbox.anyFull.Load() }

// OutboxFull gives the rule that has writes of a key refused, since too many of its entries wait;
// false: there is none.
func (s *Store) OutboxFull(k Key) (rule string, full bool) {
	for _, r := range s.outbox.rules.Load().of(k.DB) {
		if r.full.Load() && glob.Match(r.Pattern, k.Name) {
			return r.Name, true
		}
	}
	return "", false
}

// OutboxLateness reads how long it took from deadlines to the entries in streams, in microseconds.
func (s *Store) OutboxLateness() histogram.Reading { return s.outbox.late.Read() }

// MoveOutbox moves entries of outboxes to their streams, as far as they can be moved now.
func (m Manual) MoveOutbox() { m.s.outbox.mover.round() }

// TidyOutbox trims their streams, as housekeeping does.
func (m Manual) TidyOutbox() { m.s.outbox.tidy() }
