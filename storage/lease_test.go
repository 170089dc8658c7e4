package storage

import (
	"testing"
)

// TestLeaseKeepsNoArgument: the owner's name that a lease is granted with is part of a buffer that
// is used again.
func TestLeaseKeepsNoArgument(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.s.Key(0, []byte("l"))
	owner := []byte("worker-1")
	h.do(func(t *Txn) { t.GrantLease(k, owner, t.Now()+1000, 0, Event{}) }, k)
	clear(owner)
	h.do(func(txn *Txn) {
		if l, ok, err := txn.Lease(k); !ok || err != nil || string(l.Owner) != "worker-1" {
			t.Errorf("the owner is %q, %v, %v", l.Owner, ok, err)
		}
	}, k)
	h.commit()
	h.check()
}
