package storage

import "keyp/storage/object"

// Limit is a key's limits within a transaction. The value's method of the same name describes each change. One that
// changes something is followed by Settle.
type Limit struct{ handle }

// Limit opens a key's limits. ErrWrongType: the key has another type.
func (t *Txn) Limit(k Key) (Limit, error) {
	h, err := t.open(k, object.TypeLimit)
	return Limit{h}, err
}

var noLimit = &object.Limit{}

// Value is the limits, for reading only and until the next change.
func (l *Limit) Value() *object.Limit {
	if o := l.object(); o != nil {
		return o.val.(*object.Limit)
	}
	return noLimit
}

// edit gives the value, made if missing, as one that this command changes.
func (l *Limit) edit() *object.Limit {
	l.t.limits.Clear()
	return l.change().val.(*object.Limit)
}

// log logs what edit's value says that it changed; a reservation among it has this deadline.
func (l *Limit) log(deadline int64) {
	for i := range l.t.limits.Len() {
		switch elem, val := l.t.limits.At(i); {
		case val == nil:
			l.gone(elem)
		case elem[0] == object.LimitTagHeld:
			l.put(l.o, elem, val, deadline)
		default:
			l.put(l.o, elem, val, 0)
		}
	}
}

// Admit counts a cost that the limits have room for.
func (l *Limit) Admit(rules []object.LimitRule, cost int64) {
	l.edit().Admit(rules, l.t.now, cost, &l.t.limits)
	l.log(0)
}

// Hold reserves a cost that the limits have room for, until a deadline that counts from now.
func (l *Limit) Hold(id []byte, rules []object.LimitRule, cost, deadline int64) {
	l.edit().Hold(id, rules, cost, deadline, &l.t.limits)
	l.t.Relative(deadline)
	l.log(deadline)
}

// Return ends a reservation; false: there is none of that id.
func (l *Limit) Return(id []byte) bool {
	if !l.Value().Held(id) {
		return false
	}
	l.edit().Return(id, &l.t.limits)
	l.log(0)
	return true
}

// Confirm ends a reservation whose cost counts as admitted now; false: there is none of that id.
func (l *Limit) Confirm(id []byte) bool {
	if !l.Value().Held(id) {
		return false
	}
	l.edit().Confirm(id, l.t.now, &l.t.limits)
	l.log(0)
	return true
}

// Settle gives the key the deadline at which nothing of it counts any more, or deletes it if that has come.
func (l *Limit) Settle() {
	o := l.object()
	switch at := l.Value().FreshAt(); {
	case o == nil:
	case at <= l.t.now:
		l.t.FlushValues() // which deletes it where it has no elements
		l.t.Delete(l.k, Deleted)
	case at != o.deadline || l.Value().HeldLen() > 0 && l.t.s.guard.since.Load() != 0: // moves with the reservations then
		l.t.Relative(at)
		l.t.SetDeadline(l.k, at, Event{})
	}
}
