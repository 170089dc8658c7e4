package storage

import (
	"keyp/storage/object"
	"keyp/ttl"
)

// A Txn is the ttl.Transaction of keys, Members that of the elements of one key.
var (
	_ ttl.Transaction[Key] = (*Txn)(nil)
	_ ttl.Transaction[Key] = Members{}
)

// Deadline is the deadline of a key, 0 without one; false for a missing or expired key. It
// does not count as an access.
func (t *Txn) Deadline(k Key) (deadline int64, exists bool) {
	item, ok := t.Peek(k)
	if !ok {
		return 0, false
	}
	return item.Deadline(), true
}

// Expire gives a key a deadline, which is not none, or deletes the key when the deadline has
// passed. It returns false for a missing or expired key, and when cond forbids it.
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

// Persist removes the deadline of a key; false for a missing or expired key, and when it has
// no deadline.
func (t *Txn) Persist(k Key) bool {
	item, ok := t.touch(k)
	return ok && item.Deadline() != 0 && t.SetDeadline(k, ttl.Deadline{}, DeadlineRemoved)
}

// Members gives deadlines to one field of a hash, or one member of a set or sorted set. A
// key of another type has no members.
type Members struct {
	t    *Txn
	name []byte
}

// Members addresses the member of this name in the key given to each method.
func (t *Txn) Members(name []byte) Members { return Members{t, name} }

// Now is the instant of the transaction.
func (m Members) Now() int64 { return m.t.now }

// Deadline is the deadline of the member, 0 without one; false if there is no such member. It
// does not count as an access.
func (m Members) Deadline(k Key) (deadline int64, exists bool) {
	item, ok := m.t.Peek(k)
	if !ok || !object.HasMembers(item.Type()) {
		return 0, false
	}
	_, deadline, exists = item.Value().Element(m.name)
	return deadline, exists
}

// Expire gives the member a deadline, or removes the member when the deadline has passed. It
// returns false if there is no such member, and when cond forbids it. A new deadline raises no
// event, as in KeyDB.
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

// Persist removes the deadline of the member; false if there is no such member or it has none.
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

// openOf is open for the types that may says.
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

// memberRemoved is the event of a command that removes members.
func memberRemoved(t object.Type) Event {
	if t == object.TypeHash {
		return Event{EventHash, "hdel"}
	}
	return membersExpired(t)
}

// members is the handle of a value whose elements can have deadlines.
type members struct{ handle }

// ReportPassed is Txn.ReportPassedElement for an element that is there.
func (h *members) ReportPassed(elem []byte, deadline int64) {
	if hook := h.t.s.hooks.Elements(h.k, h.typ); hook != nil {
		if val, _, ok := h.object().val.Element(elem); ok {
			hook.Expired(h.t, h.k, h.typ, elem, val, deadline)
		}
	}
}

// SetDeadline gives a field or member a deadline, or removes it with none; false if there is no
// such element.
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
