package storage

import (
	"bytes"
	"slices"

	"keyp/storage/object"
	"keyp/ttl"
)

// A command that reads very much would lock the shards of its keys for a long time. Instead it is
// offloaded: it pins its keys, and releases the shards before it begins.
//
//   - It sees each key as it was at that instant. Of a small string it has a copy. Any other value
//     is pinned.
//   - A pinned value does not change: a transaction that would change it waits until it is unpinned
//     (Pins.Pinned). Its elements do not expire meanwhile: due elements are removed before it is
//     pinned, and the expiration index lacks its elements until it is unpinned. A command that
//     would see an element that has become due waits, too (Pins.Overdue).
//   - FLUSHALL, expiry and eviction remove the key, and leave the old value as it is. So does a
//     command that gives the key another value.
//
// The result is the same as if the command had run at the instant when its keys were pinned.
//
// An offloaded command may give one key a new value (Replace, Copy). First it makes the value and
// the log records that contain it (prepare), which may take long. Then it locks the shards of its
// keys again and compares the keys with the pinned ones (validate). If they are unchanged, the
// value is installed, as if everything had happened at the instant of pinning. If not, nothing has
// changed, and the caller runs the command again (Conflicted).

// Pins are the values that offloaded commands read. They belong to one goroutine at a time.
type Pins struct {
	values map[*Object]int // how many commands have pinned a value
	timed  int             // pins of values whose elements have deadlines
}

// Any reports whether any value is pinned.
func (ps *Pins) Any() bool { return len(ps.values) > 0 }

// pinnedKeys is the state of an offloaded transaction's keys.
type pinnedKeys struct {
	keys      map[pinnedKey]pinned
	validated bool  // the transaction has locked the shards again: see validate
	guarded   int64 // since when time was guarded (clockguard)
}

type pinnedKey struct {
	db   int
	name string
}

// pinned is one of the pinnedKeys.
type pinned struct {
	key   Key
	item  Item    // empty for a missing key
	o     *Object // the item's value
	val   object.Value
	timed bool // its elements have deadlines
	space uint32
}

// Largest is the size in bytes of the largest value of these keys, including due elements; 0 if all
// keys are missing. The transaction has the shards of the keys locked.
func (t *Txn) Largest(keys []Key) (bytes int) {
	for i, k := range keys {
		if i%PrefetchKeys == 0 && len(keys) > 1 {
			t.Prefetch(keys[i:])
		}
		if p, c := t.s.look(k); exists(c) {
			size := p.item(*c).Memory()
			if v, ok := streamIn(p.item(*c).Value()); ok {
				_, absent := v.Absent()
				size += int(absent)
			}
			bytes = max(bytes, size)
		}
	}
	return bytes
}

// RemoveDue removes the keys that are due, and the due elements of the other keys. The transaction
// has their shards locked.
func (t *Txn) RemoveDue(keys []Key) {
	for _, k := range keys {
		t.live(k, false)
	}
}

// Pinned reports whether the value of one of these keys is pinned, and so must not be changed. t
// has locked the shards of the keys.
func (ps *Pins) Pinned(t *Txn, keys []Key) bool {
	return ps.Any() && slices.ContainsFunc(keys, func(k Key) bool {
		p, c := t.s.look(k)
		return exists(c) && ps.values[p.objectOf(*c)] > 0
	})
}

// Overdue reports whether a pinned value has due elements, so that no command may see it before it
// is unpinned. If all is true, it looks at every pinned value. Otherwise it looks only at the
// values of keys, whose shards t has locked.
func (ps *Pins) Overdue(t *Txn, keys []Key, all bool) bool {
	if ps.timed == 0 {
		return false
	}
	if all {
		for o := range ps.values {
			if o.elementDue(t.now) {
				return true
			}
		}
	}
	return slices.ContainsFunc(keys, func(k Key) bool {
		p, c := t.s.look(k)
		o := (*Object)(nil)
		if exists(c) {
			o = p.objectOf(*c)
		}
		return o != nil && ps.values[o] > 0 && o.elementDue(t.now)
	})
}

// pin removes the elements' deadlines, if any, from the index until unpin. A stream is pinned in
// any case, since background work may add entries to it (Stream.Pinned).
func (p *part) pin(sl *slot, c *cell, o *Object) (timed bool) {
	o.more().readers++
	if o.val.Type() != object.TypeStream && (o.side.due == 0 && o.side.pins == 0) {
		return false
	}
	if o.side.pins++; o.side.pins == 1 {
		was := o.due()
		o.side.due = 0
		p.setIndex(p.id(sl, *c), was, o.due())
	}
	return true
}

// unpin undoes pin.
func (s *Store) unpin(had pinned) {
	o, k, space := had.o, had.key, had.space
	sh := s.shards[s.shardOf(k.Slot)]
	sh.mu.lockFirst()
	defer sh.mu.Unlock()
	if o.val != had.val {
		return // it went on as a copy (Mirror)
	}
	o.side.readers--
	if !had.timed {
		o.lean()
		return
	}
	if o.side.pins--; o.side.pins > 0 || o.is(stateGone) {
		return
	}
	p := s.partOf(space, sh)
	if p == nil {
		return // emptied
	}
	sl := p.slot(k)
	if c := p.find(sl, k); c != nil && p.objectOf(*c) == o {
		was := o.due()
		o.setDue(o.whole().Earliest())
		p.setIndex(p.id(sl, *c), was, o.due())
	}
}

// look finds a key even if it is due.
func (s *Store) look(k Key) (*part, *cell) {
	p := s.part(k)
	if p == nil {
		return nil, nil
	}
	return p, p.find(p.slot(k), k)
}

// Pin pins the keys, whose shards t has locked, for dst, which must be idle, and ends t. None of
// the keys may be Overdue. Pin removes due keys and elements.
func (ps *Pins) Pin(t *Txn, keys []Key, dst *Txn) {
	a := &pinnedKeys{keys: make(map[pinnedKey]pinned, len(keys))}
	for _, k := range keys {
		k.Name = slices.Clone(k.Name)
		at := pinnedKey{k.DB, string(k.Name)}
		if _, again := a.keys[at]; again {
			continue
		}
		item, _ := t.Get(k)
		had := pinned{key: k, item: item, o: item.o, space: t.s.spaces.ids[k.DB]}
		if item.o != nil {
			if ps.values == nil {
				ps.values = map[*Object]int{}
			}
			ps.values[item.o]++
			had.val = item.o.val
			p, c := t.s.look(k)
			if had.timed = p.pin(p.slot(k), c, item.o); had.timed {
				ps.timed++
			}
			seen := *item.o // a copy: the store goes on to change the original's notes
			seen.side = nil
			had.item.o = &seen
		} else {
			had.item.b = slices.Clone(item.b)
		}
		a.keys[at] = had
	}
	a.guarded = t.s.guard.Since()
	dst.now, dst.pinnedKeys = t.now, a
	dst.seen = t.End()
}

// Unpin releases the keys that Pin has pinned for t, which must have ended.
func (ps *Pins) Unpin(t *Txn) {
	for _, had := range t.pinnedKeys.keys {
		if had.o == nil {
			continue
		}
		if ps.values[had.o]--; ps.values[had.o] == 0 {
			delete(ps.values, had.o)
		}
		if had.timed {
			ps.timed--
		}
		t.s.unpin(had)
	}
	t.pinnedKeys, t.conflict = nil, false
}

// Conflicted reports whether the command's keys have changed since they were pinned. If so, the
// command has changed nothing and must run again.
func (r *txnReports) Conflicted() bool { return r.conflict }

// validate locks the shards of the keys again, until End. It returns false, with nothing locked, if
// the keys are not as they were.
func (t *Txn) validate() bool {
	s, a := t.s, t.pinnedKeys
	var mask uint64
	for _, had := range a.keys {
		mask |= 1 << s.shardOf(had.key.Slot)
	}
	s.lock(t, mask)
	t.takeInstant()
	guarded := s.guard.Since()
	for _, had := range a.keys {
		if guarded != a.guarded || s.spaces.ids[had.key.DB] != had.space || !s.resident(had.key) ||
			!had.unchanged(t) {
			s.unlock(t)
			t.dropEvents() // they are raised when the command runs again
			t.conflict = true
			return false
		}
	}
	a.validated = true
	return true
}

func (had *pinned) unchanged(t *Txn) bool {
	p, c := t.s.look(had.key)
	there := exists(c) && (p.due(*c) == 0 || p.due(*c) > t.now)
	switch {
	case had.o != nil:
		return there && p.objectOf(*c) == had.o && had.o.val == had.val && !had.o.elementDue(t.now)
	case had.item.b == nil:
		return !there
	case !there || p.objectOf(*c) != nil:
		return false
	default:
		return bytes.Equal(p.item(*c).b.Value(), had.item.b.Value())
	}
}

// prepared is a new value that no key has yet, with the log records that contain it.
type prepared struct {
	o       *Object
	records [][]byte
	cost    int64
}

// prepare makes the records for a key's new value while no shard is locked.
func (t *Txn) prepare(k Key, v object.Value, deadline int64, created uint32) prepared {
	o := t.newObject(k, v)
	t.stateObject(t.pinnedKeys.keys[pinnedKey{k.DB, string(k.Name)}].space, o, deadline, created)
	st := prepared{o, t.takeBatch(), t.cost}
	t.cost, t.logged = 0, 0
	return st
}

// installPrepared gives a key a prepared value.
func (t *Txn) installPrepared(k Key, st prepared, deadline ttl.Deadline, created, access uint32) {
	p, sl, c := t.live(k, true)
	c = p.putObject(t, sl, c, k, st.o, deadline.At)
	p.setHeader(*c, deadline.At, created, access)
	t.changing(p.space, k.Name)
	t.before.add(t.buf)
	t.buf = nil
	for _, piece := range st.records {
		t.before.add(piece)
	}
	t.cost += st.cost
	t.logged = 0
	t.wrotePut(p, sl, *c)
	t.s.guard.noteKey(t, p.space, k, deadline)
}

// replaceOffloaded is Replace for an offloaded transaction.
func (t *Txn) replaceOffloaded(k Key, v object.Value, deadline ttl.Deadline, ev Event) {
	if v.Len() == 0 {
		if t.validate() {
			t.Delete(k, Deleted)
		}
		return
	}
	asked := deadline
	deadline = t.governNew(k, asked)
	created := t.createdFor(k, deadline.At)
	st := t.prepare(k, v, deadline.At, created)
	if !t.validate() {
		return
	}
	access := t.s.firstAccess(t.now)
	if v.Type() == object.TypeString {
		p, _, c := t.live(k, false)
		access = t.s.written(p, c, t.now)
	}
	t.installPrepared(k, st, deadline, created, access)
	t.notifyWritten(k, ev, asked.At, deadline.At)
}

// copyOffloaded is Copy for an offloaded transaction, of a value that is no small string.
func (t *Txn) copyOffloaded(from, to Key) bool {
	item, ok := t.Peek(from)
	if !ok || item.o == nil {
		return false
	}
	o := item.o
	deadline, created := t.governMoved(to, o.val.Type(), o.deadline, o.created)
	st := t.prepare(to, o.val.Clone(), deadline.At, created)
	if t.validate() {
		t.raiseNewAgain(to)
		t.installPrepared(to, st, deadline, created, o.access)
		t.setFlags(to, o.flags&flagRaw)
		t.s.guard.carryNotes(t, from, to)
	}
	return true
}

// Offloaded reports whether the transaction has pinned keys (Pins.Pin) and no locked shards.
func (t *Txn) Offloaded() bool { return t.pinnedKeys != nil && !t.pinnedKeys.validated }

// find returns one of the pinned keys; ok is false if it is missing.
func (sn *pinnedKeys) find(k Key) (Item, bool) {
	item := sn.keys[pinnedKey{k.DB, string(k.Name)}].item
	return item, item.o != nil || item.b != nil
}
