package storage

import (
	"unsafe"

	"keyp/storage/object"
	"keyp/ttl"
)

// Limit accesses the rate limits of a key (KEYP.LIMIT) within a transaction. Each method that
// changes them is documented at the method of object.Limit with the same name. After a change,
// Finish must be called before anything else changes the key. Deadline policies (KEYP.POLICY) do
// not apply to keys with limits.
type Limit struct {
	handle
	// made is the value of a missing key. Finish gives it to the key, in one record with the
	// deadline.
	made *object.Limit
	one  *oneLimit // made is in it; nil: it is not
}

// oneLimit is a key with one limit and a short name, in one piece of memory.
type oneLimit struct {
	o    Object
	v    object.OneLimit
	name [32]byte
}

// Limit opens a key's limits. ErrWrongType: the key has another type.
func (t *Txn) Limit(k Key) (Limit, error) {
	h, err := t.open(k, object.TypeLimit)
	return Limit{handle: h}, err
}

var noLimit = &object.Limit{}

// Value returns the limits, for reading only and until the next change.
func (l *Limit) Value() *object.Limit {
	if l.made != nil {
		return l.made
	}
	if o := l.present(); o != nil {
		return o.val.(*object.Limit)
	}
	return noLimit
}

// present returns the key's value, nil for none. Unlike object it expects that only this handle
// changes the key.
func (l *Limit) present() *Object {
	if l.o == nil || l.o.is(stateGone) {
		return nil
	}
	return l.o
}

// edit returns the value for a change by this command. It creates a missing key.
func (l *Limit) edit() *object.Limit {
	l.t.limits.Clear()
	return l.change().val.(*object.Limit)
}

// log logs the changes that edit's value has noted. A reservation among them has this deadline.
func (l *Limit) log(deadline ttl.Deadline) {
	for i := range l.t.limits.Len() {
		switch elem, val := l.t.limits.At(i); {
		case val == nil:
			l.gone(elem)
		case elem[0] == object.LimitTagHeld:
			l.put(l.o, elem, val, deadline)
		default:
			l.put(l.o, elem, val, ttl.Deadline{})
		}
	}
}

// Admit counts a cost that the limits have room for.
func (l *Limit) Admit(rules []object.LimitRule, cost int64) {
	if l.present() == nil {
		if l.one = nil; len(rules) == 1 && len(l.k.Name) <= len(l.one.name) {
			l.one = &oneLimit{}
			l.made = l.one.v.Limit()
		} else {
			l.made = object.NewLimit(len(rules))
		}
		l.t.limits.Clear()
		l.made.Admit(rules, l.t.now, cost, &l.t.limits)
		return
	}
	l.edit().Admit(rules, l.t.now, cost, &l.t.limits)
	l.log(ttl.Deadline{})
}

// makeObject makes the key for the value that Admit has made.
func (l *Limit) makeObject() *Object {
	if l.one == nil {
		return l.t.newObject(l.k, l.made)
	}
	o := &l.one.o
	n := copy(l.one.name[:], l.k.Name)
	o.key, o.val, o.id = unsafe.String(&l.one.name[0], n), l.made, l.t.s.generation.Add(1)
	return o
}

// Hold reserves a cost that the limits have room for, until a deadline that counts from now.
func (l *Limit) Hold(id []byte, rules []object.LimitRule, cost, deadline int64) {
	l.edit().Hold(id, rules, cost, deadline, &l.t.limits)
	l.log(ttl.In(deadline))
}

// Return ends a reservation. It returns false if there is none with this id.
func (l *Limit) Return(id []byte) bool {
	if !l.Value().Held(id) {
		return false
	}
	l.edit().Return(id, &l.t.limits)
	l.log(ttl.Deadline{})
	return true
}

// Confirm ends a reservation; its cost counts as admitted now. It returns false if there is none
// with this id.
func (l *Limit) Confirm(id []byte) bool {
	if !l.Value().Held(id) {
		return false
	}
	l.edit().Confirm(id, l.t.now, &l.t.limits)
	l.log(ttl.Deadline{})
	return true
}

// Finish sets the key's deadline to the time at which nothing of it counts any more, or deletes the
// key if that time has come. It ends a command, as FlushValues does.
func (l *Limit) Finish() {
	t, at := l.t, l.Value().FreshAt()
	if l.made != nil {
		l.o = t.installObject(l.k, l.makeObject(), ttl.In(at), t.createdAt(at),
			t.s.firstAccess(t.now))
		l.made = nil
		return
	}
	switch o := l.present(); {
	case o == nil:
	case at <= t.now:
		t.FlushValues() // which deletes it where it has no elements
		t.Delete(l.k, Deleted)
	case at != o.deadline || l.Value().HeldLen() > 0 && t.s.guard.Since() != 0:
		// Moves with the reservations then.
		t.flushWith(o, at)
	default:
		t.FlushValues()
	}
}
