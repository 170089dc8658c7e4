package storage

import (
	"bytes"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// handle is the collection of a key within a transaction. If the key is missing or expired, the
// collection is empty, and its first element creates the key. Several handles may be open at once,
// on one key or many. The element counts and the index of deadlines are updated when the command
// ends (FlushValues).
type handle struct {
	t   *Txn
	k   Key
	o   *Object // nil: there was no key
	typ object.Type
}

// opened is a value that the present command has changed.
type opened struct {
	k    Key // its name is the object's
	o    *Object
	made bool // there was no key before
	// deadline is the key's new deadline when the command ends; 0: the key keeps its own. It
	// counts from the transaction's instant.
	deadline int64
}

// open finds a collection and marks it as accessed. It returns ErrWrongType for a key of another
// type.
func (t *Txn) open(k Key, typ object.Type) (handle, error) {
	h := handle{t: t, k: k, typ: typ}
	item, ok := t.Get(k)
	if !ok {
		return h, nil
	}
	if item.o == nil || item.o.val.Type() != typ {
		return h, ErrWrongType
	}
	h.o = item.o
	return h, nil
}

// object returns the key's present value, nil if there is none: another handle or operation may
// have created or replaced it.
func (h *handle) object() *Object {
	if !h.t.Offloaded() && (h.o == nil || h.o.is(stateGone)) {
		h.o = nil
		if p, _, c := h.t.live(h.k, false); exists(c) {
			if o := p.objectOf(*c); o != nil && o.val.Type() == h.typ {
				h.o = o
			}
		}
	}
	return h.o
}

// Exists reports whether the collection has an element.
func (h *handle) Exists() bool {
	o := h.object()
	return o != nil && o.val.Len() > 0
}

// change returns the collection for a change by this command. It creates a missing key, and makes
// FlushValues update the collection when the command ends.
func (h *handle) change() *Object {
	o, made := h.object(), false
	if o == nil {
		o, made = h.t.create(h.k, object.New(h.typ)), true
		h.o = o
	}
	if !o.is(stateOpen) {
		o.state |= stateOpen
		k := h.k
		k.Name = o.name()
		h.t.opened = append(h.t.opened, opened{k: k, o: o, made: made})
	}
	return o
}

// create makes a key with a value that is still empty.
func (t *Txn) create(k Key, v object.Value) *Object {
	if !v.Type().OwnDeadline() {
		t.mayCreate(k)
	}
	p, sl, c := t.live(k, true)
	o := t.newObject(k, v)
	c = p.putObject(t, sl, c, k, o, 0)
	p.setHeader(*c, 0, 0, t.s.firstAccess(t.now))
	t.logObject(p, o, 0, 0)
	return o
}

// put logs the present state of an element of the value.
func (h *handle) put(o *Object, elem, val []byte, deadline ttl.Deadline) {
	p := h.t.s.part(h.k)
	h.t.s.guard.noteElement(h.t, p.space, h.k, elem, deadline)
	if h.t.regenerate(p, o) {
		return
	}
	h.t.element(p, o, elem, val, deadline.At)
	o.change(elem)
}

// renew replaces the whole value of the key by v and logs v. The old elements in the log and on
// disk no longer count. The deadline and the access time stay.
func (h *handle) renew(v object.Value) {
	o := h.object()
	h.t.install(h.k, v, ttl.At(o.deadline), o.created, o.access)
	h.change() // it may be empty
}

// manyGone is the smallest number of removed elements that may be logged in another way. If they
// are more than half of the value, the log gets the remaining elements instead. It takes about as
// long to log a removed element as to log a remaining one.
const manyGone = 100

// gone logs that an element is removed.
func (h *handle) gone(elem []byte) {
	o := h.change()
	h.t.removed(h.t.s.part(h.k), o, elem)
	o.change(elem)
}

// FlushValues ends a command: it updates counts and expiration index for the collections that the
// command changed, and deletes keys without elements, with the event Deleted. End calls it too.
func (t *Txn) FlushValues() {
	for i := 0; i < len(t.opened); i++ {
		t.flushValue(t.opened[i])
	}
	clear(t.opened)
	t.opened = t.opened[:0]
}

// flushWith is FlushValues. It also sets the deadline of the key of a value that the command has
// changed. The deadline counts from now.
func (t *Txn) flushWith(o *Object, deadline int64) {
	for i := range t.opened {
		if t.opened[i].o == o {
			t.opened[i].deadline = deadline
		}
	}
	t.FlushValues()
}

func (t *Txn) flushValue(w opened) {
	p := t.s.part(w.k)
	if w.o.is(stateGone) || p == nil {
		return
	}
	sl := p.slot(w.k)
	c := p.find(sl, w.k)
	if c == nil || p.objectOf(*c) != w.o {
		return
	}
	t.governStream(w.k, w.o)
	w.o.state &^= stateOpen
	p.recount(t, sl, c, w.o)
	t.wrotePut(p, sl, *c)
	if w.o.val.Len() == 0 {
		ev := Deleted
		if w.made {
			ev = Event{}
		}
		t.Delete(w.k, ev)
		return
	}
	if w.deadline != 0 {
		t.changeDeadline(p, sl, c, w.k, ttl.In(w.deadline), t.createdAt(w.deadline))
		return
	}
	t.Govern(w.k)
}

// Hash is a key's hash within a transaction.
type Hash struct{ members }

// Hash opens a key's hash, which is empty for a missing or expired key. It returns ErrWrongType for
// a key of another type.
func (t *Txn) Hash(k Key) (Hash, error) {
	h, err := t.open(k, object.TypeHash)
	return Hash{members{h}}, err
}

var noHash = &object.Hash{}

// Value returns the hash, for reading only and until the next change.
func (h *Hash) Value() *object.Hash {
	if o := h.object(); o != nil {
		return o.val.(*object.Hash)
	}
	return noHash
}

// Reserve prepares for n fields that the command will set (object.Hash.Reserve).
func (h *Hash) Reserve(n int) { h.change().val.(*object.Hash).Reserve(n) }

// Set gives a field a value and a deadline, and returns whether it is new.
func (h *Hash) Set(field, val []byte, deadline ttl.Deadline) (created bool) {
	o := h.change()
	created = o.val.(*object.Hash).Set(field, val, deadline.At)
	h.put(o, field, val, deadline)
	return created
}

// Delete removes a field and returns whether there was one.
func (h *Hash) Delete(field []byte) bool {
	v := h.Value()
	if _, _, ok := v.Get(field); !ok {
		return false
	}
	h.gone(field)
	return v.Delete(field)
}

// Set is a key's set within a transaction.
type Set struct{ members }

// Set opens a key's set, which is empty for a missing or expired key. It returns ErrWrongType for a
// key of another type.
func (t *Txn) Set(k Key) (Set, error) {
	h, err := t.open(k, object.TypeSet)
	return Set{members{h}}, err
}

var noSet = &object.Set{}

// Value returns the set, for reading only and until the next change.
func (s *Set) Value() *object.Set {
	if o := s.object(); o != nil {
		return o.val.(*object.Set)
	}
	return noSet
}

// Reserve prepares for n members that the command will add (object.Set.Reserve).
func (s *Set) Reserve(n int, first []byte) { s.change().val.(*object.Set).Reserve(n, first) }

// Add adds a member without a deadline and returns whether it is new. An existing member keeps its
// deadline.
func (s *Set) Add(member []byte) bool {
	if _, ok := s.Value().Has(member); ok {
		return false
	}
	s.add(member, 0)
	return true
}

func (s *Set) add(member []byte, deadline int64) {
	o := s.change()
	o.val.(*object.Set).Add(member, deadline)
	s.put(o, member, nil, ttl.At(deadline))
}

// Remove takes a member away and returns whether there was one.
func (s *Set) Remove(member []byte) bool {
	if _, ok := s.Value().Has(member); !ok {
		return false
	}
	s.Drop(member)
	return true
}

// Drop is Remove of a member that exists.
func (s *Set) Drop(member []byte) {
	s.gone(member)
	s.Value().Delete(member)
}

// ZSet is a key's sorted set within a transaction.
type ZSet struct{ members }

// ZSet opens a key's sorted set, which is empty for a missing or expired key. It returns
// ErrWrongType for a key of another type.
func (t *Txn) ZSet(k Key) (ZSet, error) {
	h, err := t.open(k, object.TypeZSet)
	return ZSet{members{h}}, err
}

var noZSet = &object.ZSet{}

// Value returns the sorted set, for reading only and until the next change.
func (z *ZSet) Value() *object.ZSet {
	if o := z.object(); o != nil {
		return o.val.(*object.ZSet)
	}
	return noZSet
}

// Reserve prepares for n members that the command will add, the longest of size bytes
// (object.ZSet.Reserve).
func (z *ZSet) Reserve(n, size int) { z.change().val.(*object.ZSet).Reserve(n, size) }

// Set gives a member a score, which is not NaN, and returns whether it is new. Its deadline
// stays.
func (z *ZSet) Set(member []byte, score float64) (created bool) {
	old, deadline, ok := z.Value().Score(member)
	if !ok || old != score {
		z.set(member, score, deadline)
	}
	return !ok
}

func (z *ZSet) set(member []byte, score float64, deadline int64) {
	o := z.change()
	o.val.(*object.ZSet).Set(member, score, deadline)
	var val [8]byte
	z.put(o, member, object.AppendScore(val[:0], score), ttl.At(deadline))
}

// Remove takes a member away and returns whether there was one.
func (z *ZSet) Remove(member []byte) bool {
	v := z.Value()
	if _, _, ok := v.Score(member); !ok {
		return false
	}
	z.gone(member)
	return v.Delete(member)
}

// RemoveRange removes the members of ranks from up to but not including to.
func (z *ZSet) RemoveRange(from, to int) {
	v := z.Value()
	from, to = max(from, 0), min(to, v.Len())
	if n := to - from; n >= manyGone && n > v.Len()-n {
		z.renew(v.Except(from, to))
		return
	}
	v.RemoveRange(from, to, z.gone)
}

// List is a key's list within a transaction.
type List struct{ handle }

// List opens a key's list, which is empty for a missing or expired key. It returns ErrWrongType for
// a key of another type.
func (t *Txn) List(k Key) (List, error) {
	h, err := t.open(k, object.TypeList)
	return List{h}, err
}

var noList = &object.List{}

// Value returns the list, for reading only and until the next change.
func (l *List) Value() *object.List {
	if o := l.object(); o != nil {
		return o.val.(*object.List)
	}
	return noList
}

// PushFront adds an element at the head.
func (l *List) PushFront(val []byte) {
	o := l.change()
	number, moved := o.val.(*object.List).PushFront(val)
	l.pushed(o, number, moved, val)
}

// PushBack adds an element at the tail.
func (l *List) PushBack(val []byte) {
	o := l.change()
	number, moved := o.val.(*object.List).PushBack(val)
	l.pushed(o, number, moved, val)
}

// Insert puts an element before the one at an index, or at the tail if the index is Len.
func (l *List) Insert(index int, val []byte) {
	o := l.change()
	number, moved := o.val.(*object.List).Insert(index, val)
	l.pushed(o, number, moved, val)
}

// pushed logs a new element, and the elements that were renumbered for it. A renumbered element may
// get another's old number, so all removals are logged before any addition.
func (l *List) pushed(o *Object, number int64, moved []object.Move, val []byte) {
	for _, m := range moved {
		key := object.ListKey(m.From)
		l.gone(key[:])
	}
	for _, m := range moved {
		key := object.ListKey(m.To)
		if val, _, ok := o.val.Element(key[:]); ok {
			l.put(o, key[:], val, ttl.Deadline{})
		}
	}
	key := object.ListKey(number)
	l.put(o, key[:], val, ttl.Deadline{})
}

// SetAt replaces the element at an index, which must exist.
func (l *List) SetAt(index int, val []byte) {
	o := l.change()
	key := object.ListKey(o.val.(*object.List).Set(index, val))
	l.put(o, key[:], val, ttl.Deadline{})
}

// RemoveRange removes the elements of indexes from up to but not including to. If there are
// several, the log gets only the first and the last number.
func (l *List) RemoveRange(from, to int) {
	v := l.Value()
	from, to = max(from, 0), min(to, v.Len())
	if from >= to {
		return
	}
	o := l.change()
	first, _ := v.At(from)
	last, _ := v.At(to - 1)
	l.t.cut(l.t.s.part(l.k), o, first, last)
	v.RemoveRange(from, to, o.changeRun)
}

// RemoveEqual removes elements that equal val, and returns how many. It removes the first count of
// them, the last ones if count is negative, and all if count is 0.
func (l *List) RemoveEqual(val []byte, count int) int {
	return l.Value().RemoveEqual(val, count, l.goneNumber)
}

func (l *List) goneNumber(number int64) {
	key := object.ListKey(number)
	l.gone(key[:])
}

// maxShed is how many due elements of a key a command removes by itself.
const maxShed = 1000

// overdue reports whether a key has more due elements than a command should remove by itself; its
// shard is locked.
func (s *Store) overdue(k Key, now int64) bool {
	sh := s.shards[s.shardOf(k.Slot)]
	p := sh.mu.parts[k.DB]
	if sh.nextDue.Load() > now || p == nil {
		return false
	}
	c := p.find(p.slot(k), k)
	if !exists(c) {
		return false
	}
	o := p.objectOf(*c)
	if o == nil || o.side == nil || o.side.due == 0 || o.side.due > now {
		return false
	}
	left := o.val.LenAt(now)
	return o.val.Len()-left > maxShed && (left > 0 || !s.Follower())
}

// shed removes at most limit due elements, and the key with its last element. The records name each
// element.
func (t *Txn) shed(p *part, sl *slot, c *cell, k Key, limit int) (n int) {
	o := p.objectOf(*c)
	o.unhide()
	ev := membersExpired(o.val.Type())
	var fields [][]byte
	hears := t.HearsFields(ev)
	due := t.goneElements(k, o.val.Type())
	if v, ok := o.val.(*object.Stream); ok {
		n = t.shedEntries(p, o, v, t.instant(p, *c), limit, &due)
	} else {
		n = o.val.Due(t.instant(p, *c), limit, func(elem, val []byte, deadline int64) {
			t.removed(p, o, elem)
			o.change(elem)
			due.gone(elem, val, deadline, true)
			if hears {
				fields = append(fields, bytes.Clone(elem))
			}
		})
	}
	if !due.own {
		t.s.stats.ExpiredElements.Add(int64(n))
	}
	p.recount(t, sl, c, o)
	t.wrotePut(p, sl, *c)
	if n > 0 {
		t.NotifyFields(k, ev, fields...)
	}
	if o.val.Len() == 0 {
		t.keyRecord(format.RecDelete, p, o.name())
		t.remove(p, sl, c)
		t.Notify(k, Deleted)
	}
	return n
}

// shedAll removes all due elements of a key, or hides them at a follower, in steps between which
// commands may lock the shard.
func (s *Store) shedAll(k Key) {
	t, keys := s.NewTxn(), []Key{k}
	for more := true; more && s.quit.Err() == nil; {
		if !s.lockKeys(t, keys) {
			return // the global transaction removes them itself
		}
		if more = s.overdue(k, t.now); more {
			p := s.part(k)
			sl := p.slot(k)
			c := p.find(sl, k)
			if o := p.objectOf(*c); s.Follower() {
				o.hide(t.now, maxShed/4)
			} else {
				t.shed(p, sl, c, k, t.shedStep(k, o, maxShed/4))
			}
		}
		t.End()
	}
}
