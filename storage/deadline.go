package storage

import (
	"keyp/storage/object"
	"keyp/ttl"
)

// ttl.Transaction has the methods that read, set and remove a deadline. Txn implements it for keys.
// Members implements it for elements of a key.
var (
	_ ttl.Transaction[Key] = (*Txn)(nil)
	_ ttl.Transaction[Key] = Members{}
)

// Deadline returns the deadline of a key, or 0 if the key has none. exists is false for a missing
// or expired key. The call does not count as an access.
func (t *Txn) Deadline(k Key) (deadline int64, exists bool) {
	item, ok := t.Peek(k)
	if !ok {
		return 0, false
	}
	return item.Deadline(), true
}

// Expire sets the deadline of a key. deadline must not be none. If it has passed, Expire deletes
// the key instead. It returns false for a missing or expired key, and if cond forbids the change.
func (t *Txn) Expire(k Key, deadline ttl.Deadline, cond ttl.Condition) bool {
	item, ok := t.touch(k)
	switch {
	case !ok || !cond.Allows(item.Deadline(), deadline.At):
		return false
	case ttl.Expired(deadline.At, t.now):
		t.ReportPassed(k, deadline.At, nil)
		return t.Delete(k, Deleted)
	default:
		return t.SetDeadline(k, deadline, DeadlineSet)
	}
}

// Persist removes the deadline of a key. It returns false for a missing or expired key, and for a
// key without a deadline.
func (t *Txn) Persist(k Key) bool {
	item, ok := t.touch(k)
	return ok && item.Deadline() != 0 && t.SetDeadline(k, ttl.Deadline{}, DeadlineRemoved)
}

// Members reads and sets the deadline of one field of a hash, or of one member of a set or sorted
// set. Keys of other types have no members.
type Members struct {
	t    *Txn
	name []byte
}

// Members returns the Members for elements with this name. Each of its methods has the key as a
// parameter.
func (t *Txn) Members(name []byte) Members { return Members{t, name} }

// Now returns the instant of the transaction, in Unix ms.
func (m Members) Now() int64 { return m.t.now }

// Deadline returns the deadline of the member, or 0 if it has none. exists is false if there is no
// such member. The call does not count as an access.
func (m Members) Deadline(k Key) (deadline int64, exists bool) {
	item, ok := m.t.Peek(k)
	if !ok || !object.HasMembers(item.Type()) {
		return 0, false
	}
	_, deadline, exists = item.Value().Element(m.name)
	return deadline, exists
}

// Expire sets the deadline of the member. If the deadline has passed, it removes the member
// instead. It returns false if there is no such member, and if cond forbids the change. A new
// deadline raises no event, as in KeyDB.
func (m Members) Expire(k Key, deadline ttl.Deadline, cond ttl.Condition) bool {
	h, old, exists := m.open(k)
	if !exists || !cond.Allows(old, deadline.At) {
		return false
	}
	if !ttl.Expired(deadline.At, m.t.now) {
		return h.SetDeadline(m.name, deadline)
	}
	h.ReportPassed(m.name, deadline.At)
	m.t.NotifyFields(k, memberRemoved(h.typ), m.name)
	h.gone(m.name)
	h.object().val.Remove(m.name)
	return true
}

// Persist removes the deadline of the member. It returns false if there is no such member, and if
// the member has no deadline.
func (m Members) Persist(k Key) bool {
	h, old, exists := m.open(k)
	if !exists || old == 0 {
		return false
	}
	m.t.Notify(k, DeadlineRemoved)
	return h.SetDeadline(m.name, ttl.Deadline{})
}

// open finds the member, and marks its key as accessed.
func (m Members) open(k Key) (h members, deadline int64, exists bool) {
	return m.openOf(k, object.HasMembers)
}

// openOf finds the member as open does, in keys of the types for which may returns true.
func (m Members) openOf(k Key,
	may func(object.Type) bool) (h members, deadline int64, exists bool) {
	item, ok := m.t.Get(k)
	if !ok || !may(item.Type()) {
		return h, 0, false
	}
	h = members{handle{t: m.t, k: k, o: item.o, typ: item.Type()}}
	_, deadline, exists = item.Value().Element(m.name)
	return h, deadline, exists
}

// memberRemoved returns the event of a command that removes members of a type.
func memberRemoved(t object.Type) Event {
	if t == object.TypeHash {
		return Event{EventHash, "hdel"}
	}
	return membersExpired(t)
}

// members is the handle of a value whose elements can have deadlines.
type members struct{ handle }

// ReportPassed reports the expiry of an existing element, as Txn.ReportPassedElement does. For a
// missing element it does nothing.
func (h *members) ReportPassed(elem []byte, deadline int64) {
	if hook := h.t.s.hooks.Elements(h.k, h.typ); hook != nil {
		if val, _, ok := h.object().val.Element(elem); ok {
			hook.Expired(h.t, h.k, h.typ, elem, val, deadline)
		}
	}
}

// SetDeadline sets the deadline of a field or member; a deadline of none removes it. It returns
// false if there is no such element.
func (h *members) SetDeadline(elem []byte, deadline ttl.Deadline) bool {
	o := h.object()
	if o == nil {
		return false
	}
	val, _, ok := o.val.Element(elem)
	if !ok {
		return false
	}
	h.t.scratch = append(h.t.scratch[:0], val...)
	o = h.change()
	if err := o.val.Put(elem, h.t.scratch, deadline.At); err != nil {
		panic(err) // impossible: the element has this value
	}
	h.put(o, elem, h.t.scratch, deadline)
	return true
}
