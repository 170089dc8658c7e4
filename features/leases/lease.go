package leases

import (
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// Lease is the lease of a key at the instant of a transaction. Owner is valid until the lease
// changes next.
type Lease struct {
	Owner    []byte
	Token    uint64
	Delay    int64 // ms
	Deadline int64 // Unix ms, until when it is held; 0: until somebody ends it
	Held     bool  // the deadline has not come; otherwise the key is not free yet
}

// FreeAt returns when a lease's key becomes free if nobody changes the lease, in Unix ms. 0 means
// never.
func (l *Lease) FreeAt() int64 {
	if l.Deadline == ttl.None {
		return ttl.None
	}
	return l.Deadline + l.Delay
}

// Of returns the lease of an item at the instant now (Unix ms), and false if the item is no lease.
func Of(item storage.Item, now int64) (Lease, bool) {
	v, ok := item.Value().(*object.Lease)
	if !ok {
		return Lease{}, false
	}
	l := Lease{Owner: v.Owner, Token: v.Token, Delay: v.Delay, Held: true}
	if d := item.Deadline(); d != ttl.None {
		l.Deadline = d - v.Delay
		l.Held = now < l.Deadline
	}
	return l, true
}

// Find returns the lease of a key, and marks the key as accessed. It returns false for a missing or
// expired key, and storage.ErrWrongType for a key of another type.
func Find(t *storage.Txn, k storage.Key) (l Lease, ok bool, err error) {
	item, ok := t.Peek(k)
	if !ok {
		return l, false, nil
	}
	if l, ok = Of(item, t.Now()); !ok {
		return l, false, storage.ErrWrongType
	}
	t.Get(k)
	return l, true, nil
}

// Grant creates a lease at a missing key and returns its token. The lease is held until the
// deadline (Unix ms), which counts from now. Policies do not apply to it.
func (l *Leases) Grant(t *storage.Txn, k storage.Key, owner []byte, deadline, delay int64,
	ev storage.Event) (token uint64) {
	// Replace calls Arriving, which gives the lease its token and copies the owner. 1 is a valid
	// token, below all others.
	t.Replace(k, &object.Lease{Owner: owner, Token: 1, Delay: delay}, ttl.In(deadline+delay), ev)
	item, _ := t.Peek(k)
	return item.Value().(*object.Lease).Token
}

// Extend sets another deadline (Unix ms), counted from now, for an existing lease. Policies do not
// apply to it.
func Extend(t *storage.Txn, k storage.Key, deadline int64, ev storage.Event) {
	item, _ := t.Peek(k)
	exempt := t.Exempt
	t.Exempt = true
	t.SetDeadline(k, ttl.In(deadline+item.Value().(*object.Lease).Delay), ev)
	t.Exempt = exempt
}
