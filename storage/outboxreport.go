package storage

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"keyp/internal/glob"
	"keyp/storage/format"
	"keyp/storage/object"
)

// This file implements hooks for outboxes. Entries of expiries go to queues of
// the same shard, in the same batch.

// takes reports whether the rule is about a key.
func (r *outbox) takes(name []byte, typ object.Type) bool {
	return (r.Type == object.None || r.Type == typ) && glob.Match(r.Pattern, name)
}

func (c *outboxControl) wants(db int) bool { return len(c.rules.Load().of(db)) > 0 }

func (c *outboxControl) wantsValue(k Key, typ object.Type, at format.Times) bool {
	elements := at.Due() != at.Deadline
	return slices.ContainsFunc(c.rules.Load().of(k.DB), func(r *outbox) bool { return (r.MaxValue > 0 || r.Elements && elements) && r.takes(k.Name, typ) })
}

// reports are the entries that a transaction has yet to put in their queues.
type reports struct {
	list    []outgoing
	entries []byte
}

// outgoing is one of these entries.
type outgoing struct {
	r        *outbox
	shard    int
	from, to int // in reports.entries
}

// Entries of a queue:
//
//	deadline (8 bytes, in order), time of removal, database, type, flags, key [, element] [, value] [, size of the value]
const (
	entryElement = 1 << iota
	entryValue
	entrySize // of a value that is not there, or not as a whole
)

// outEntry is an expiry.
type outEntry struct {
	deadline, removed int64
	db                int
	typ               object.Type
	key               []byte
	element           []byte
	hasElement        bool
	value             []byte
	hasValue          bool
	size              int // 0: the value is there as a whole, or is not wanted
}

func (e *outEntry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.deadline)^1<<63)
	dst = binary.AppendUvarint(dst, uint64(e.removed))
	dst = binary.AppendUvarint(dst, uint64(e.db))
	flags := byte(0)
	if e.hasElement {
		flags |= entryElement
	}
	if e.hasValue {
		flags |= entryValue
	}
	if e.size != 0 {
		flags |= entrySize
	}
	dst = append(dst, byte(e.typ), flags)
	dst = format.AppendBytes(dst, e.key)
	if e.hasElement {
		dst = format.AppendBytes(dst, e.element)
	}
	if e.hasValue {
		dst = format.AppendBytes(dst, e.value)
	}
	if e.size != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.size))
	}
	return dst
}

func entryDeadline(b []byte) int64 {
	if len(b) < 8 {
		return math.MinInt64 // damaged: it goes first
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63)
}

// parseEntry reads what append writes; its slices are parts of b.
func parseEntry(b []byte) (e outEntry, ok bool) {
	if len(b) < 8 {
		return e, false
	}
	e.deadline = entryDeadline(b)
	f := format.Fields{Rest: b[8:]}
	e.removed, e.db = int64(f.Int()), int(f.Int())
	if len(f.Rest) < 2 {
		return e, false
	}
	e.typ = object.Type(f.Rest[0])
	flags := f.Rest[1]
	f.Rest = f.Rest[2:]
	e.key = f.Bytes()
	if e.hasElement = flags&entryElement != 0; e.hasElement {
		e.element = f.Bytes()
	}
	if e.hasValue = flags&entryValue != 0; e.hasValue {
		e.value = f.Bytes()
	}
	if flags&entrySize != 0 {
		e.size = int(f.Int())
	}
	return e, !f.Bad
}

// keyExpired notes the expiry of a key for the rules that it is under. Elements that were due
// earlier, and that nobody has removed, are reported first.
func (c *outboxControl) keyExpired(t *Txn, k Key, typ object.Type, deadline int64, item Item) {
	if item.o != nil && format.Earlier(item.o.val.Earliest(), deadline) != deadline {
		c.reportElements(t, k, item, deadline-1)
	}
	for _, r := range c.rules.Load().of(k.DB) {
		if r.takes(k.Name, typ) {
			t.reportEntry(r, k, outEntry{deadline: deadline, typ: typ}, item)
		}
	}
}

// reportElements notes the expiry of all elements of a key that are due by an instant.
func (c *outboxControl) reportElements(t *Txn, k Key, item Item, by int64) {
	hook := c.elements(t, k, item.Type())
	if hook == nil {
		return
	}
	item.o.val.Walk(func(elem, val []byte, deadline int64) bool {
		if deadline != 0 && deadline <= by {
			hook.expired(t, k, item.Type(), elem, val, deadline)
		}
		return true
	})
}

// reportEntry notes an entry of a key; with an item it has that one's value.
func (t *Txn) reportEntry(r *outbox, k Key, e outEntry, item Item) {
	e.db, e.key, e.removed = k.DB, k.Name, max(t.now, e.deadline)
	if r.MaxValue > 0 && (item.o != nil || item.b != nil) {
		e.value, e.hasValue, e.size = t.s.reportedValue(item, r.MaxValue)
	}
	from := len(t.reports.entries)
	t.reports.entries = e.append(t.reports.entries)
	t.reports.list = append(t.reports.list, outgoing{r, t.s.shardOf(k.Slot), from, len(t.reports.entries)})
}

// reportedValue is what an entry has of a value: of a string the begin, of other types what DUMP
// replies, if that is not too long; and the size if that is not all, of a large value that in
// memory.
func (s *Store) reportedValue(item Item, most int) (value []byte, has bool, size int) {
	if text, err := item.String(); err == nil {
		if len(text) > most {
			return text[:most], true, len(text)
		}
		return text, true, 0
	}
	const overhead = 1 << 10 // in memory
	size = item.o.val.Bytes()
	if dump := s.options.Dump; dump != nil && size <= 4*most+overhead {
		payload := dump(item)
		if payload != nil && len(payload) <= most {
			return payload, true, 0
		}
		size = len(payload)
	}
	return nil, false, max(size, 1)
}

// outboxElements are the rules that report the elements of a key.
type outboxElements []*outbox

func (c *outboxControl) elements(_ *Txn, k Key, typ object.Type) elementHook {
	var rules outboxElements
	for _, r := range c.rules.Load().of(k.DB) {
		if r.Elements && r.takes(k.Name, typ) && (typ != object.TypeStream || !bytes.Equal(k.Name, r.Stream)) {
			rules = append(rules, r)
		}
	}
	if rules == nil {
		return nil
	}
	return rules
}

func (rules outboxElements) bytes(value int) (n int) {
	for _, r := range rules {
		n += min(r.MaxValue, value)
	}
	return n
}

// expired notes the expiry of an element.
func (rules outboxElements) expired(t *Txn, k Key, typ object.Type, elem, val []byte, deadline int64) {
	for _, r := range rules {
		e := outEntry{deadline: deadline, typ: typ, element: elem, hasElement: true}
		if typ == object.TypeLimit {
			e.element = object.LimitHeldID(elem)
		}
		if r.MaxValue > 0 {
			switch typ {
			case object.TypeHash:
				e.value, e.hasValue = val, true
			case object.TypeZSet:
				e.value, e.hasValue = strconv.AppendFloat(nil, object.ScoreOf(val), 'g', -1, 64), true
			}
			if len(e.value) > r.MaxValue {
				e.value, e.size = e.value[:r.MaxValue], len(e.value)
			}
		}
		t.reportEntry(r, k, e, Item{})
	}
}

// ending puts the transaction's entries into their queues.
func (c *outboxControl) ending(t *Txn) {
	out := &t.reports
	if len(out.list) == 0 {
		return
	}
	over := false
	var l List
	var of *outboxQueue
	for i := range out.list {
		o := &out.list[i]
		q := &o.r.queues[o.shard]
		if q != of {
			var err error
			if of = q; t.Load(q.key) != nil { // it was loaded at the start, and does not leave memory
				t.dropSystem(q.key)
			}
			if l, err = t.List(q.key); err != nil {
				panic(err) // impossible: countQueue has seen it
			}
		}
		t.queue(&l, q, out.entries[o.from:o.to])
		o.r.waiting.Add(1)
		o.r.bytes.Add(int64(o.to - o.from))
		over = over || o.r.tooMany(c.backlog.Load())
	}
	if over {
		c.measure()
	}
	clear(out.list)
	out.list, out.entries = out.list[:0], out.entries[:0]
	if cap(out.entries) > maxKept {
		out.entries = nil
	}
	c.mover.wake()
}

// queue puts an entry behind those with its deadline.
func (t *Txn) queue(l *List, q *outboxQueue, entry []byte) {
	v := l.Value()
	n, deadline := v.Len(), entryDeadline(entry)
	before := func(i int) bool { _, e := v.At(i); return entryDeadline(e) <= deadline }
	if n == 0 || before(n-1) {
		l.PushBack(entry)
	} else {
		l.Insert(sort.Search(n, func(i int) bool { return !before(i) }), entry)
	}
	if q.waiting.Load() == 0 || deadline < q.first.Load() {
		q.first.Store(deadline)
	}
	q.waiting.Add(1)
	q.bytes.Add(int64(len(entry)))
}

func (c *outboxControl) loop()    { c.mover.loop() }
func (c *outboxControl) led()     { c.mover.wake() }
func (c *outboxControl) removed() { c.mover.removed() }

// keepsSystem: each expiry may need the queues.
func (c *outboxControl) keepsSystem() bool { return c.rules.Load() != nil }

func (c *outboxControl) changesRules(name string) bool { return strings.HasPrefix(name, outboxRuleKey) }

// follow updates the rules and the counts of queues to what a batch has written.
func (c *outboxControl) follow(t *Txn, names []string) {
	for _, name := range names {
		if rule, ok := strings.CutPrefix(name, outboxRuleKey); ok {
			c.reread(t, rule)
		}
	}
	if rules := c.rules.Load(); rules != nil {
		for _, name := range names {
			if strings.HasPrefix(name, outboxQueueKey) {
				rules.follow(t, name)
			}
		}
	}
}

// reread updates a rule from the present value of its key. All shards are locked.
func (c *outboxControl) reread(t *Txn, name string) {
	rules, k := c.rules.Load(), c.s.SystemKey(outboxRuleKey+name)
	if _, cell := t.look(k); !exists(cell) {
		c.use(rules.without(name))
		return
	}
	r, err := t.readOutbox(k)
	if err != nil {
		c.s.options.Logger.Error("an outbox is not understood and left out; it stays on disk", "rule", name, "error", err)
		c.use(rules.without(name))
		return
	}
	state := &outboxState{}
	if old := rules.named(name); old != nil {
		state = old.outboxState
	}
	b := c.newOutbox(r, state)
	for i := range b.queues {
		b.followQueue(t, &b.queues[i])
	}
	c.use(rules.with(b))
}

// follow updates the counts of a queue to what a batch has written.
func (o *outboxes) follow(t *Txn, name string) {
	for _, r := range o.all {
		for i := range r.queues {
			if q := &r.queues[i]; string(q.key.Name) == name {
				r.followQueue(t, q)
				return
			}
		}
	}
}

// followQueue counts what waits in a queue that memory has. How many bytes that is matters to a
// leader only, who counts them.
func (r *outbox) followQueue(t *Txn, q *outboxQueue) {
	l := noList
	if p, c := t.look(q.key); exists(c) {
		if o := p.objectOf(*c); o != nil && o.val.Type() == object.TypeList {
			l = o.val.(*object.List)
		}
	}
	r.recount(q, l, q.bytes.Load())
}
