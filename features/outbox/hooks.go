package outbox

import (
	"bytes"
	"slices"
	"sort"
	"strconv"
	"strings"

	"keyp/internal/glob"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/object"
)

// This file contains the hooks that the store calls when keys or elements expire. For each rule
// that applies, a hook adds an entry about the expiry to a queue in the key's shard. It does so in
// the batch of the log that removes the key or the element. Later the mover moves the entries to
// the rule's stream.

// takes reports whether the rule applies to a key.
func (r *outbox) takes(name []byte, typ object.Type) bool {
	return (r.Type == object.None || r.Type == typ) && glob.Match(r.Pattern, name)
}

// Wants reports whether a database has rules.
func (o *Outboxes) Wants(db int) bool { return len(o.rules.Load().of(db)) > 0 }

// WantsValue reports whether a rule for the key needs its value, or its elements that were due.
func (o *Outboxes) WantsValue(k storage.Key, typ object.Type, at format.Times) bool {
	elements := at.Due() != at.Deadline
	return slices.ContainsFunc(o.rules.Load().of(k.DB), func(r *outbox) bool {
		return (r.MaxValue > 0 || r.Elements && elements) && r.takes(k.Name, typ)
	})
}

// noted are the entries that a transaction has yet to put in their queues.
type noted struct {
	list    []outgoing
	entries []byte
}

// outgoing is one of these entries.
type outgoing struct {
	r        *outbox
	shard    int
	from, to int // in noted.entries
}

// maxKept bounds the bytes that noted keeps between transactions.
const maxKept = 1 << 20

// Bytes returns the size of the entries, in bytes.
func (n *noted) Bytes() int { return len(n.entries) }

// notedIn returns the entries that a transaction has noted.
func notedIn(t *storage.Txn) *noted {
	n, ok := t.Noted.(*noted)
	if !ok {
		n = &noted{}
		t.Noted = n
	}
	return n
}

// KeyExpired notes the expiry of a key for the rules that apply to it. It first reports elements
// that were due earlier and that nobody has removed.
func (o *Outboxes) KeyExpired(t *storage.Txn, k storage.Key, typ object.Type, deadline int64,
	item storage.Item) {
	if v := item.Value(); v != nil && format.Earlier(v.Earliest(), deadline) != deadline {
		o.reportElements(t, k, v, deadline-1)
	}
	for _, r := range o.rules.Load().of(k.DB) {
		if r.takes(k.Name, typ) {
			o.report(t, r, k, entry{deadline: deadline, typ: typ}, item)
		}
	}
}

// reportElements notes the expiry of all elements of a key that are due by an instant.
func (o *Outboxes) reportElements(t *storage.Txn, k storage.Key, v object.Value, by int64) {
	hook := o.Elements(k, v.Type())
	if hook == nil {
		return
	}
	v.Walk(func(elem, val []byte, deadline int64) bool {
		if deadline != 0 && deadline <= by {
			hook.Expired(t, k, v.Type(), elem, val, deadline)
		}
		return true
	})
}

// report notes an entry for a key, with the item's value if an item is given.
func (o *Outboxes) report(t *storage.Txn, r *outbox, k storage.Key, e entry, item storage.Item) {
	e.db, e.key, e.removed = k.DB, k.Name, max(t.Now(), e.deadline)
	if r.MaxValue > 0 && !item.IsZero() {
		e.value, e.hasValue, e.size = o.reportedValue(item, r.MaxValue)
	}
	n := notedIn(t)
	from := len(n.entries)
	n.entries = e.append(n.entries)
	n.list = append(n.list, outgoing{r, o.s.ShardOf(k), from, len(n.entries)})
}

// reportedValue returns the part of a value that an entry contains. For a string that is its
// beginning. For other types it is DUMP's reply, unless that is too long. size is 0 if the result
// is the whole value. Otherwise it is the size of the whole value in bytes; for a large value, its
// size in memory.
func (o *Outboxes) reportedValue(item storage.Item, most int) (value []byte, has bool, size int) {
	if text, err := item.String(); err == nil {
		if len(text) > most {
			return text[:most], true, len(text)
		}
		return text, true, 0
	}
	const overhead = 1 << 10 // in memory
	size = item.Value().Bytes()
	if o.dump != nil && size <= 4*most+overhead {
		payload := o.dump(item)
		if payload != nil && len(payload) <= most {
			return payload, true, 0
		}
		size = len(payload)
	}
	return nil, false, max(size, 1)
}

// elementRules are the rules that report the elements of a key.
type elementRules struct {
	o    *Outboxes
	list []*outbox
}

// Elements returns the rules that report the elements of a key, or nil if there are none. An outbox
// does not report the aging of entries of its own stream.
func (o *Outboxes) Elements(k storage.Key, typ object.Type) storage.ElementHook {
	var list []*outbox
	for _, r := range o.rules.Load().of(k.DB) {
		if r.Elements && r.takes(k.Name, typ) &&
			(typ != object.TypeStream || !bytes.Equal(k.Name, r.Stream)) {
			list = append(list, r)
		}
	}
	if list == nil {
		return nil
	}
	return elementRules{o, list}
}

// Bytes returns how many bytes of a value the entries of the rules contain together.
func (e elementRules) Bytes(value int) (n int) {
	for _, r := range e.list {
		n += min(r.MaxValue, value)
	}
	return n
}

// Expired notes the expiry of an element.
func (e elementRules) Expired(t *storage.Txn, k storage.Key, typ object.Type, elem, val []byte,
	deadline int64) {
	for _, r := range e.list {
		n := entry{deadline: deadline, typ: typ, element: elem, hasElement: true}
		if typ == object.TypeLimit {
			n.element = object.LimitHeldID(elem)
		}
		if r.MaxValue > 0 {
			switch typ {
			case object.TypeHash:
				n.value, n.hasValue = val, true
			case object.TypeZSet:
				n.value, n.hasValue = strconv.AppendFloat(nil, object.ScoreOf(val), 'g', -1, 64),
					true
			}
			if len(n.value) > r.MaxValue {
				n.value, n.size = n.value[:r.MaxValue], len(n.value)
			}
		}
		e.o.report(t, r, k, n, storage.Item{})
	}
}

// Ending puts the transaction's entries into their queues.
func (o *Outboxes) Ending(t *storage.Txn) {
	out, ok := t.Noted.(*noted)
	if !ok || len(out.list) == 0 {
		return
	}
	over := false
	var l storage.List
	var of *queue
	for i := range out.list {
		next := &out.list[i]
		q := &next.r.queues[next.shard]
		if q != of {
			var err error
			if of = q; t.Load(q.key) != nil {
				// It was loaded at the start, and stays in memory.
				drop(t, q.key)
			}
			if l, err = t.List(q.key); err != nil {
				panic(err) // impossible: countQueue has seen it
			}
		}
		q.add(&l, out.entries[next.from:next.to])
		next.r.waiting.Add(1)
		next.r.bytes.Add(int64(next.to - next.from))
		over = over || next.r.tooMany(o.backlog.Load())
	}
	if over {
		o.measure()
	}
	clear(out.list)
	out.list, out.entries = out.list[:0], out.entries[:0]
	if cap(out.entries) > maxKept {
		out.entries = nil
	}
	o.mover.wake()
}

// add puts an entry after those with its deadline.
func (q *queue) add(l *storage.List, entry []byte) {
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

// Loop moves entries and trims streams.
func (o *Outboxes) Loop() { o.mover.loop() }

// Leads counts the waiting entries of all queues.
func (o *Outboxes) Leads(t *storage.Txn) {
	if rs := o.rules.Load(); rs != nil {
		for _, r := range rs.all {
			for i := range r.queues {
				o.countQueue(t, r, &r.queues[i])
			}
		}
		o.measure()
	}
}

// Led wakes the mover, which rests at a follower.
func (o *Outboxes) Led() { o.mover.wake() }

// Removed is called when something that was due may have been removed. It wakes the mover if
// entries wait until everything that was due before them is removed.
func (o *Outboxes) Removed() {
	if o.mover.held.Load() {
		o.mover.wake()
	}
}

// KeepsSystem reports whether there are rules. If so, the queues must stay in memory, because each
// expiry may need them.
func (o *Outboxes) KeepsSystem() bool { return o.rules.Load() != nil }

// ChangesRules reports whether name is the key of a rule.
func (o *Outboxes) ChangesRules(name string) bool { return strings.HasPrefix(name, ruleKey) }

// Follow updates the rules, and the counts of queues, after a batch has written their keys.
func (o *Outboxes) Follow(t *storage.Txn, names []string) {
	for _, name := range names {
		if rule, ok := strings.CutPrefix(name, ruleKey); ok {
			o.reread(t, rule)
		}
	}
	if rs := o.rules.Load(); rs != nil {
		for _, name := range names {
			if strings.HasPrefix(name, queueKey) {
				rs.follow(t, name)
			}
		}
	}
}

// reread updates a rule from the present value of its key. All shards are locked.
func (o *Outboxes) reread(t *storage.Txn, name string) {
	rs, k := o.rules.Load(), o.s.SystemKey(ruleKey+name)
	if _, ok := t.Peek(k); !ok {
		o.use(rs.without(name))
		return
	}
	r, err := o.read(t, k)
	if err != nil {
		o.notUnderstood(name, err)
		o.use(rs.without(name))
		return
	}
	st := &state{}
	if old := rs.named(name); old != nil {
		st = old.state
	}
	b := o.newOutbox(r, st)
	for i := range b.queues {
		b.followQueue(t, &b.queues[i])
	}
	o.use(rs.with(b))
}

// follow updates the counts of a queue after a batch has written it.
func (rs *rules) follow(t *storage.Txn, name string) {
	for _, r := range rs.all {
		for i := range r.queues {
			if q := &r.queues[i]; string(q.key.Name) == name {
				r.followQueue(t, q)
				return
			}
		}
	}
}

var noList = &object.List{}

// followQueue counts the entries of a queue that is in memory. It does not change the number of
// bytes, which only a leader needs. A leader counts the bytes itself.
func (r *outbox) followQueue(t *storage.Txn, q *queue) {
	l := noList
	if item, ok := t.Peek(q.key); ok {
		if v, ok := item.Value().(*object.List); ok {
			l = v
		}
	}
	r.recount(q, l, q.bytes.Load())
}
