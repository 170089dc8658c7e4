package storage

import (
	"slices"

	"keyp/internal/pieces"
	"keyp/storage/object"
)

// A command that reads very much would keep everybody from the shards of its keys for as long
// as it takes. Instead it takes its keys aside, and releases the shards before it begins:
//
//   - It sees each key as it was at that instant: of a small string a copy, of anything else
//     the value itself.
//   - Those values do not change meanwhile: whoever would change one has to wait until it is
//     no longer held (Holds.Meets). One whose elements have deadlines does not change by itself
//     either: what is due of it is removed as it is taken, and the expiration index does
//     not have its elements until it is released. Whoever would see one that has become due
//     waits, too (Holds.Overdue).
//   - What removes a key or gives it another value (FLUSHALL, expiry, eviction) leaves the old
//     value as it is.
//
// So it is as if the command had run at the instant at which it took its keys aside.

// Holds are the values that commands aside read. It is for one goroutine at a time.
type Holds struct {
	values map[*Object]int
	timed  int // commands' holds on values whose elements have deadlines
}

// Any says whether there are some.
func (h *Holds) Any() bool { return len(h.values) > 0 }

// aside is what a transaction has of its keys that holds no shard.
type aside struct {
	keys map[asideKey]taken
	back bool // the transaction holds the shards again: see rejoin
	lost bool // rejoin has failed
}

type asideKey struct {
	db   int
	name string
}

// taken is a key as it was taken aside.
type taken struct {
	key   Key
	item  Item    // empty for a missing key
	o     *Object // whose value item has
	timed bool    // its elements have deadlines
	space uint32
}

// Largest is how many bytes the largest of the values of these keys takes, which the transaction
// holds, with what is due of them. A missing key has none.
func (t *Txn) Largest(keys []Key) (bytes int) {
	for i, k := range keys {
		if i%PrefetchKeys == 0 && len(keys) > 1 {
			t.Prefetch(keys[i:])
		}
		if p, c := t.look(k); exists(c) {
			bytes = max(bytes, p.item(*c).Memory())
		}
	}
	return bytes
}

// RemoveDue removes what is due of these keys, which the transaction holds.
func (t *Txn) RemoveDue(keys []Key) {
	for _, k := range keys {
		t.live(k, false)
	}
}

// Meets says whether one of the values of these keys, which the transaction holds, is held:
// then it must not be changed.
func (h *Holds) Meets(t *Txn, keys []Key) bool {
	return h.Any() && slices.ContainsFunc(keys, func(k Key) bool {
		p, c := t.look(k)
		return exists(c) && h.values[p.objectOf(*c)] > 0
	})
}

// Overdue says that a held value has elements that are due, so that nobody may see it before it
// is released: one of these keys, which the transaction holds, or with all any value.
func (h *Holds) Overdue(t *Txn, keys []Key, all bool) bool {
	if h.timed == 0 {
		return false
	}
	if all {
		for o := range h.values {
			if o.elementDue(t.now) {
				return true
			}
		}
	}
	return slices.ContainsFunc(keys, func(k Key) bool {
		p, c := t.look(k)
		o := (*Object)(nil)
		if exists(c) {
			o = p.objectOf(*c)
		}
		return o != nil && h.values[o] > 0 && o.elementDue(t.now)
	})
}

// hold takes the elements' deadlines out of the index until unhold, if there are any.
func (p *part) hold(sl *slot, c *cell, o *Object) (timed bool) {
	if o.side == nil || o.side.due == 0 && o.side.held == 0 {
		return false
	}
	if o.side.held++; o.side.held == 1 {
		was := o.due()
		o.side.due = 0
		p.setIndex(p.id(sl, *c), was, o.due())
	}
	return true
}

// unhold ends a hold on the value that a key had in a keyspace.
func (s *Store) unhold(o *Object, k Key, space uint32) {
	sh := s.shards[s.shardOf(k.Slot)]
	sh.mu.lockFirst()
	defer sh.mu.Unlock()
	if o.side.held--; o.side.held > 0 || o.is(stateGone) {
		return
	}
	p := s.partOf(space, sh)
	if p == nil {
		return // emptied
	}
	sl := p.slot(k)
	if c := p.find(sl, k); c != nil && p.objectOf(*c) == o {
		was := o.due()
		o.setDue(o.val.Earliest())
		p.setIndex(p.id(sl, *c), was, o.due())
	}
}

// look finds a key as it stands, also if it is due.
func (t *Txn) look(k Key) (*part, *cell) {
	p := t.s.part(k)
	if p == nil {
		return nil, nil
	}
	return p, p.find(p.slot(k), k)
}

// Take ends t and gives to, which is idle, what t has of keys. They are not Overdue; what is due
// of them is removed.
func (h *Holds) Take(t *Txn, keys []Key, to *Txn) {
	a := &aside{keys: make(map[asideKey]taken, len(keys))}
	for _, k := range keys {
		k.Name = slices.Clone(k.Name)
		at := asideKey{k.DB, string(k.Name)}
		if _, again := a.keys[at]; again {
			continue
		}
		item, _ := t.Get(k)
		had := taken{key: k, item: item, o: item.o, space: t.s.spaces[k.DB]}
		if item.o != nil {
			if h.values == nil {
				h.values = map[*Object]int{}
			}
			h.values[item.o]++
			p, c := t.look(k)
			if had.timed = p.hold(p.slot(k), c, item.o); had.timed {
				h.timed++
			}
			seen := *item.o // the store goes on to change what it notes in the other
			seen.side = nil
			had.item.o = &seen
		} else {
			had.item.b = slices.Clone(item.b)
		}
		a.keys[at] = had
	}
	to.now, to.aside = t.now, a
	to.seen = t.End()
}

// Release ends what Take began: t, which has been ended, holds nothing any more.
func (h *Holds) Release(t *Txn) {
	for _, had := range t.aside.keys {
		if had.o == nil {
			continue
		}
		if h.values[had.o]--; h.values[had.o] == 0 {
			delete(h.values, had.o)
		}
		if had.timed {
			h.timed--
			t.s.unhold(had.o, had.key, had.space)
		}
	}
	t.aside = nil
}

// A transaction aside may give one key a new value (Replace, Copy). What takes long, making the
// value and the records that state it, comes first. Then the transaction takes the shards of its
// keys again, and if they still are as it has seen them, it is as if all had happened at that
// instant. If not, it has changed nothing, and the command is to begin anew (Lost).

// Lost says that the command's keys have changed since it took them aside, and it has done
// nothing.
func (t *Txn) Lost() bool { return t.aside != nil && t.aside.lost }

// rejoin takes the shards of the keys again, until End. It returns false if the keys are not as
// they were; a small string counts as it is, since nothing is made of it but by being replaced.
func (t *Txn) rejoin() bool {
	s, a := t.s, t.aside
	var mask uint64
	for _, had := range a.keys {
		mask |= 1 << s.shardOf(had.key.Slot)
	}
	s.lock(t, mask)
	t.takeInstant()
	for _, had := range a.keys {
		if s.spaces[had.key.DB] != had.space || !s.resident(had.key) || !t.unchanged(had) {
			s.unlock(t)
			a.lost = true
			return false
		}
	}
	a.back = true
	return true
}

func (t *Txn) unchanged(had taken) bool {
	p, c := t.look(had.key)
	there := exists(c) && (p.due(*c) == 0 || p.due(*c) > t.now)
	switch {
	case had.o != nil:
		return there && p.objectOf(*c) == had.o && !had.o.elementDue(t.now)
	case had.item.b == nil:
		return !there
	default:
		return true
	}
}

// statement is a new value with the records that state it.
type statement struct {
	o       *Object
	records []byte
	cost    int64
}

// statement makes the records for a key's new value while no shard is held.
func (t *Txn) statement(k Key, v object.Value, deadline int64, created uint32) statement {
	o := t.newObject(k, v)
	if v.Type() != object.TypeString {
		t.buf = slices.Grow(t.buf, v.Bytes())
	}
	t.stateObject(t.aside.keys[asideKey{k.DB, string(k.Name)}].space, o, deadline, created)
	st := statement{o, t.buf, t.cost}
	t.buf, t.cost, t.logged = nil, 0, 0
	return st
}

// installStated makes a value that has been stated a key's.
func (t *Txn) installStated(k Key, st statement, deadline int64, created, access uint32) {
	p, sl, c := t.live(k, true)
	c = p.putObject(t, sl, c, k, st.o, deadline)
	p.setHeader(*c, deadline, created, access)
	t.changing(p.space, k.Name)
	if len(t.buf) == 0 {
		t.buf = st.records
	} else {
		t.buf = pieces.Append(t.buf, st.records)
	}
	t.cost += st.cost
	t.logged = 0
	t.wrotePut(p, sl, *c)
}

// replaceAside is Replace for a transaction that is aside.
func (t *Txn) replaceAside(k Key, v object.Value, deadline int64, ev Event) {
	if v.Len() == 0 {
		if t.rejoin() {
			t.Delete(k, Deleted)
		}
		return
	}
	created := t.createdAt(deadline)
	st := t.statement(k, v, deadline, created)
	if !t.rejoin() {
		return
	}
	access := t.s.firstAccess(t.now)
	if v.Type() == object.TypeString {
		p, _, c := t.live(k, false)
		access = t.written(p, c)
	}
	t.installStated(k, st, deadline, created, access)
	t.Notify(k, ev)
}

// copyAside is Copy for a transaction that is aside, of a value that is no small string.
func (t *Txn) copyAside(from, to Key) bool {
	item, ok := t.Peek(from)
	if !ok || item.o == nil {
		return false
	}
	o := item.o
	st := t.statement(to, o.val.Clone(), o.deadline, o.created)
	if t.rejoin() {
		t.anew(to)
		t.installStated(to, st, o.deadline, o.created, o.access)
		t.mark(to, o.flags&flagRaw)
	}
	return true
}

// Aside says that the transaction holds no shards, but what Holds.Take gave it.
func (t *Txn) Aside() bool { return t.aside != nil && !t.aside.back }

// find gives a key as it was taken aside.
func (a *aside) find(k Key) (Item, bool) {
	item := a.keys[asideKey{k.DB, string(k.Name)}].item
	return item, item.o != nil || item.b != nil
}
