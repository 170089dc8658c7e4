package object

import (
	"bytes"
	"testing"
)

// TestLease: a lease is stored as one element. A lease read from that element is equal, and any
// other element is refused.
func TestLease(t *testing.T) {
	l := &Lease{Owner: []byte("worker-1"), Token: 1 << 60, Delay: 1500}
	elem, _, ok := l.Element(nil)
	if !ok || l.Len() != 1 || l.LenAt(1) != 1 {
		t.Fatalf("it has %d elements, %v", l.Len(), ok)
	}
	same := &Lease{}
	visits := 0
	see := func(name, val []byte, deadline int64) {
		visits++
		if len(name) > 0 || deadline != 0 || !bytes.Equal(val, elem) {
			t.Errorf("element %q: %q until %d", name, val, deadline)
		}
		if err := same.Put(name, val, deadline); err != nil {
			t.Error(err)
		}
		clear(val) // it is part of a buffer that is used again
	}
	l.Walk(func(name, val []byte, deadline int64) bool { see(name, val, deadline); return true })
	if next := l.Scan(0, 1, see); next != 0 || visits != 2 {
		t.Errorf("a scan goes on at %d, after %d visits", next, visits)
	}
	copied := l.Clone().(*Lease)
	l.Owner[0] = 'W'
	for _, other := range []*Lease{same, copied} {
		if string(other.Owner) != "worker-1" || other.Token != 1<<60 || other.Delay != 1500 {
			t.Errorf("the same lease is %+v", other)
		}
	}
	for _, bad := range [][]byte{nil, {1}, {0, 0, 'o'}, {1, 0}, {0x80}, {1, 0x80},
		append([]byte{1, 0}, make([]byte, MaxOwner+1)...),
		(&Lease{Owner: []byte("o"), Token: 1, Delay: MaxDelay + 1}).append(nil)} {
		if (&Lease{}).Put(nil, bad, 0) == nil {
			t.Errorf("%q passes for a lease", bad)
		}
	}
	if (&Lease{}).Put([]byte("x"), elem, 0) == nil || TypeLease.Names([]byte("x")) ||
		!TypeLease.Names(nil) {
		t.Error("it has an element with a name")
	}
	if same.Remove([]byte("x")); same.Len() != 1 {
		t.Error("another element's removal removes it")
	}
	same.Remove(nil)
	if _, _, ok := same.Element(nil); ok || same.Len() != 0 || same.Scan(0, 1, see) != 0 ||
		visits != 2 {
		t.Error("it stays when it is removed")
	}
}
