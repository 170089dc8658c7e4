// Package outbox reports expiries in streams.
//
// An outbox is a rule that reports each expiry of certain keys, and of their elements, in a stream.
// The removal and the entry are one:
//
//   - A transaction that removes an expired key or element writes the entry in the same batch
//     (hooks.go). The entry goes into a queue of the rule in the same shard. So an expiry locks no
//     further shard.
//   - The mover takes entries from the queues and adds them to the stream, in one batch (mover.go).
//
// So after a crash an entry is in a queue or in the stream, and in one of them only. No client sees
// that these are two batches: a key that is due is invisible, removed or not.
//
// Rules and queues are among the server's own data (Store.SystemKey). A queue is a list, in the
// order of deadlines. So single elements and runs of them are added and removed, in memory, in the
// log, and on disk. While there are rules, queues do not leave memory.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"keyp/internal/clock"
	"keyp/internal/glob"
	"keyp/internal/histogram"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// Rule says which expiries are reported, and where. It does not change.
type Rule struct {
	Name     string
	DB       int
	Pattern  []byte
	Type     object.Type `json:",omitempty"` // None: any
	Elements bool        `json:",omitempty"` // those of the keys are reported, too
	Stream   []byte      // the key of the stream, in the same database
	// MaxLen is the maximum length of the stream. 0 means that an entry is removed when all groups
	// have acknowledged it.
	MaxLen   int64 `json:",omitempty"`
	MaxValue int   `json:",omitempty"` // bytes of a value that an entry has at most
}

// outbox is a rule with its state.
type outbox struct {
	Rule
	stream storage.Key
	*state
}

// state is the state of a rule. It stays when a rule of the same name replaces the rule.
type state struct {
	queues  []queue      // by shard
	waiting atomic.Int64 // entries in the queues
	bytes   atomic.Int64 // that these have
	written atomic.Int64 // to the stream, since the start
	// Entries that MAXLEN has trimmed before all groups had acknowledged them, since the start.
	lost    atomic.Int64
	failure atomic.Pointer[string]
	full    atomic.Bool // more entries wait than there should
}

// queue has the entries that wait in a shard. The numbers are written while the shard is locked,
// and read without the lock.
type queue struct {
	key     storage.Key // constant
	waiting atomic.Int64
	bytes   atomic.Int64
	first   atomic.Int64 // the first deadline, if any entry waits
}

// rules is the set of all rules. Its methods accept nil, which means no rules.
type rules struct {
	all  []*outbox // by name
	byDB [][]*outbox
}

const (
	// ruleKey and a rule's name form the key of the rule. queueKey, a shard's tag and the
	// rule's name form that of a queue.
	ruleKey  = "outbox.rule:"
	queueKey = "outbox.queue{"
	// small is the maximum number of waiting entries that Delete writes to the stream itself.
	small = 10_000
	// DefaultBacklog is how many entries of a rule may wait before writes are refused.
	DefaultBacklog = 1_000_000
	// entryBytes is the average size in bytes from which an entry counts as more than one.
	entryBytes = 1 << 10
)

// ErrWaiting means that too many entries wait for the mover.
var ErrWaiting = errors.New("outbox: entries wait to be written")

// Outboxes has the rules of a store, and moves their entries. It is among the store's hooks.
type Outboxes struct {
	storage.NoHooks
	s     *storage.Store
	log   *slog.Logger
	clock clock.Clock
	// dump returns DUMP's reply for a value. If it is nil, entries have the values of strings
	// only.
	dump    func(storage.Item) []byte
	quit    context.Context
	tags    []string              // by shard
	rules   atomic.Pointer[rules] // nil: there is none; written while all shards are locked
	backlog atomic.Int64          // entries of a rule
	anyFull atomic.Bool           // more entries of some rule wait than backlog
	late    *histogram.Histogram  // from the deadline to the entry in the stream, in microseconds
	mover   mover
}

// New returns the outboxes of a store, for storage.Options.Hooks. dump returns DUMP's reply for a
// value, or nil if there is none. If dump is nil, entries have the values of strings only.
func New(s *storage.Store, dump func(storage.Item) []byte) *Outboxes {
	of := s.Options()
	o := &Outboxes{s: s, log: of.Logger, clock: of.Clock, dump: dump,
		late: histogram.New(histogram.Lateness)}
	o.backlog.Store(DefaultBacklog)
	o.mover.init(o)
	return o
}

// Of returns the outboxes of a store whose hooks they are, and nil for any other store.
func Of(s *storage.Store) *Outboxes {
	if hooks, ok := s.Hooks().(interface{ outboxes() *Outboxes }); ok {
		return hooks.outboxes()
	}
	return nil
}

// outboxes makes Of possible: the hooks of a store may be a type that embeds Outboxes.
func (o *Outboxes) outboxes() *Outboxes { return o }

// Names returns the names of all rules. It also works for a store that is opened read-only and has
// no Outboxes.
func Names(s *storage.Store) (names []string, err error) {
	err = s.WalkSystem(func(name []byte, _ object.Type) bool {
		if rule, ok := strings.CutPrefix(string(name), ruleKey); ok {
			names = append(names, rule)
		}
		return true
	})
	return names, err
}

// Start reads the rules and loads their queues.
func (o *Outboxes) Start(quit context.Context) error {
	s := o.s
	o.quit = quit
	for i := range s.Shards() {
		o.tags = append(o.tags, s.TagOf(i))
	}
	var found, queues []string
	err := s.WalkSystem(func(name []byte, _ object.Type) bool {
		switch n := string(name); {
		case strings.HasPrefix(n, ruleKey):
			found = append(found, n)
		case strings.HasPrefix(n, queueKey):
			queues = append(queues, n)
		}
		return true
	})
	if err != nil {
		return err
	}
	if len(found)+len(queues) == 0 {
		return nil
	}
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	t.NoTouch = true // time is not known yet
	all := &rules{}
	for _, name := range found {
		r, err := o.read(t, s.SystemKey(name))
		if err != nil {
			o.notUnderstood(name, err)
			continue
		}
		all = all.with(o.newOutbox(r, &state{}))
	}
	owned := map[string]bool{}
	for _, r := range all.all {
		for i := range r.queues {
			owned[string(r.queues[i].key.Name)] = true
			o.countQueue(t, r, &r.queues[i])
		}
	}
	for _, name := range queues {
		if !owned[name] && len(all.all) == len(found) { // of a rule that was never durable
			drop(t, s.SystemKey(name))
		}
	}
	o.use(all)
	return nil
}

func (o *Outboxes) notUnderstood(rule string, err error) {
	o.log.Error("an outbox is not understood and left out; it stays on disk", "rule",
		strconv.Quote(rule), "error", err)
}

// read reads a rule.
func (o *Outboxes) read(t *storage.Txn, k storage.Key) (*Rule, error) {
	if err := t.Load(k); err != nil {
		return nil, err
	}
	item, ok := t.Peek(k)
	if !ok {
		return nil, storage.ErrCorrupt
	}
	text, err := item.String()
	if err != nil {
		return nil, err
	}
	r := &Rule{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if r.DB < 0 || r.DB >= o.s.Databases() {
		return nil, errors.New("outbox: its database does not exist")
	}
	return r, nil
}

// countQueue loads a queue and counts its entries. It drops a damaged queue.
func (o *Outboxes) countQueue(t *storage.Txn, r *outbox, q *queue) {
	if err := t.Load(q.key); err != nil { // it is logged
		drop(t, q.key)
	}
	l, err := t.List(q.key)
	if err != nil {
		drop(t, q.key)
		l, _ = t.List(q.key)
	}
	size := int64(0)
	l.Value().Each(0, false, func(_ int, _ int64, entry []byte) bool {
		size += int64(len(entry))
		return true
	})
	r.recount(q, l.Value(), size)
}

// recount sets the counts of a queue to those of its list, whose entries take size bytes.
func (r *outbox) recount(q *queue, l *object.List, size int64) {
	r.bytes.Add(size - q.bytes.Swap(size))
	n := int64(l.Len())
	if n > 0 {
		_, first := l.At(0)
		q.first.Store(entryDeadline(first))
	}
	r.waiting.Add(n - q.waiting.Swap(n))
}

// drop deletes a key of the server's own data, whether it can be read or not.
func drop(t *storage.Txn, k storage.Key) {
	if err := t.Load(k); err == nil || errors.Is(err, storage.ErrCorrupt) {
		t.Delete(k, storage.Event{})
	}
}

func (o *Outboxes) newOutbox(r *Rule, st *state) *outbox {
	b := &outbox{Rule: *r, stream: o.s.Key(r.DB, r.Stream), state: st}
	if st.queues == nil {
		st.queues = make([]queue, len(o.tags))
		for i := range st.queues {
			st.queues[i].key = o.s.SystemKey(queueKey + o.tags[i] + "}:" + r.Name)
		}
	}
	return b
}

// with returns the rules with r in place of the rule of its name.
func (rs *rules) with(r *outbox) *rules {
	all := append(rs.without(r.Name).all, r)
	slices.SortFunc(all, func(a, b *outbox) int { return strings.Compare(a.Name, b.Name) })
	return newRules(all)
}

func (rs *rules) without(name string) *rules {
	if rs == nil {
		return &rules{}
	}
	return newRules(slices.DeleteFunc(slices.Clone(rs.all), func(r *outbox) bool {
		return r.Name == name
	}))
}

func newRules(all []*outbox) *rules {
	rs := &rules{all: all}
	for _, r := range all {
		for len(rs.byDB) <= r.DB {
			rs.byDB = append(rs.byDB, nil)
		}
		rs.byDB[r.DB] = append(rs.byDB[r.DB], r)
	}
	return rs
}

func (rs *rules) named(name string) *outbox {
	if rs != nil {
		for _, r := range rs.all {
			if r.Name == name {
				return r
			}
		}
	}
	return nil
}

// of returns the rules of a database.
func (rs *rules) of(db int) []*outbox {
	if rs == nil || db < 0 || db >= len(rs.byDB) {
		return nil
	}
	return rs.byDB[db]
}

// use replaces the rules. All shards are locked, or the store is being opened.
func (o *Outboxes) use(rs *rules) {
	if len(rs.all) == 0 {
		rs = nil
	}
	o.rules.Store(rs)
	o.measure()
	o.mover.wake()
}

// Set makes a rule, or replaces the rule of its name. Waiting entries of a replaced rule then go to
// the new stream. The transaction has all shards locked, so the log has the rule before all
// removals under it.
func (o *Outboxes) Set(t *storage.Txn, r *Rule) error {
	k := o.s.SystemKey(ruleKey + r.Name)
	if err := t.Load(k); err != nil && !errors.Is(err, storage.ErrCorrupt) {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	o.Ending(t) // of what is removed so far, by the rules before
	rs, st := o.rules.Load(), &state{}
	if old := rs.named(r.Name); old != nil {
		st = old.state
	}
	t.SetString(k, text, ttl.Deadline{}, storage.Event{})
	b := o.newOutbox(r, st)
	if st.waiting.Load() == 0 {
		for i := range b.queues { // of a rule of that name that is gone there is nothing
			o.countQueue(t, b, &b.queues[i])
		}
	}
	b.succeeded()
	o.use(rs.with(b))
	return nil
}

// Delete writes the waiting entries of a rule to the stream and deletes the rule. If the stream
// cannot be written now, the entries are deleted with the rule. If there are too many entries to
// write at once, Delete returns ErrWaiting, and the caller should retry later. It returns false if
// there is no rule of that name. The transaction has all shards locked.
func (o *Outboxes) Delete(t *storage.Txn, name string) (bool, error) {
	r := o.rules.Load().named(name)
	if r == nil {
		return false, nil
	}
	o.Ending(t)
	if r.waiting.Load() > 0 && r.canReport(t) { // it may have failed a moment ago
		if r.tooMany(small) {
			return true, ErrWaiting
		}
		exempt := t.Exempt
		t.Exempt = true
		_, _ = o.mover.fill(t, r, r.occupied(), take{last: math.MaxInt64, all: true})
		t.Exempt = exempt
	}
	for i := range r.queues {
		drop(t, r.queues[i].key)
	}
	drop(t, o.s.SystemKey(ruleKey+name))
	o.use(o.rules.Load().without(name))
	return true, nil
}

// canReport reports whether an entry can be added to the rule's stream.
func (r *outbox) canReport(t *storage.Txn) bool {
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

// State is a rule with its counts.
type State struct {
	Rule
	Written int64 // entries, since the start
	Waiting int64 // entries that are not in the stream yet
	Oldest  int64 // the first deadline of those, in Unix ms; 0: none waits
	// Entries that MAXLEN has trimmed before all groups had acknowledged them, since the start.
	Lost    int64
	Failure string // why the stream cannot be written; "": it can
	Full    bool   // writes are refused
}

// List returns all rules, by name.
func (o *Outboxes) List() (list []State) {
	rs := o.rules.Load()
	if rs == nil {
		return nil
	}
	for _, r := range rs.all {
		st := State{Rule: r.Rule, Written: r.written.Load(), Lost: r.lost.Load(),
			Full: r.full.Load()}
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

// Totals are sums over all rules.
type Totals struct {
	Rules, Failing, Full   int64 // how many there are, cannot write their streams, refuse writes
	Written, Waiting, Lost int64
	Oldest                 int64 // Unix ms; 0: nothing waits
}

// Totals returns the sums over all rules.
func (o *Outboxes) Totals() (sum Totals) {
	for _, r := range o.List() {
		sum.Rules++
		sum.Written, sum.Waiting, sum.Lost = sum.Written+r.Written, sum.Waiting+r.Waiting,
			sum.Lost+r.Lost
		if r.Failure != "" {
			sum.Failing++
		}
		if r.Full {
			sum.Full++
		}
		if r.Waiting > 0 && (sum.Oldest == 0 || r.Oldest < sum.Oldest) {
			sum.Oldest = r.Oldest
		}
	}
	return sum
}

// SetBacklog sets how many entries of a rule may wait before writes of its keys are refused.
func (o *Outboxes) SetBacklog(n int64) {
	o.backlog.Store(n)
	o.measure()
}

// measure determines which rules have too many waiting entries.
func (o *Outboxes) measure() {
	anyFull := false
	if rs := o.rules.Load(); rs != nil {
		for _, r := range rs.all {
			full := r.tooMany(o.backlog.Load())
			r.full.Store(full)
			anyFull = anyFull || full
		}
	}
	o.anyFull.Store(anyFull)
}

// tooMany reports whether more than backlog entries, or KiB of entries, wait.
func (st *state) tooMany(backlog int64) bool {
	return st.waiting.Load() > backlog || st.bytes.Load()/entryBytes > backlog
}

// AnyFull reports whether writes of some keys are refused.
func (o *Outboxes) AnyFull() bool { return o.anyFull.Load() }

// Full returns the rule that refuses writes of a key because too many of its entries wait. It
// returns false if there is none.
func (o *Outboxes) Full(k storage.Key) (rule string, full bool) {
	for _, r := range o.rules.Load().of(k.DB) {
		if r.full.Load() && glob.Match(r.Pattern, k.Name) {
			return r.Name, true
		}
	}
	return "", false
}

// Lateness returns the distribution of the time from a deadline to the entry in the stream, in µs.
func (o *Outboxes) Lateness() histogram.Reading { return o.late.Read() }
