package storage

import (
	"testing"

	"keyp/ttl"
)

// TestReadsAskNoPolicy: a read is compared with patterns only if a policy slides deadlines.
func TestReadsAskNoPolicy(t *testing.T) {
	h := newHarness(t)
	k, asked := h.s.Key(0, []byte("k")), 0
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(x.Now()+1000), Event{}) }, k)
	find := func(int, []byte) *ttl.Policy {
		asked++
		return nil
	}
	for _, slides := range []bool{false, true} {
		h.s.SetPolicies(find, slides)
		asked = 0
		h.do(func(x *Txn) { x.Get(k) }, k)
		if (asked > 0) != slides {
			t.Errorf("with policies that slide: %v, a read asks for %d", slides, asked)
		}
	}
}

// TestSlideOnFullDisk: while the disk is full deadlines stay where they are, and reads go on.
func TestSlideOnFullDisk(t *testing.T) {
	h := newHarness(t)
	k := h.s.Key(0, []byte("k"))
	h.s.SetPolicies(func(int, []byte) *ttl.Policy { return &ttl.Policy{Enforce: true, Slide: 100_000} }, true)
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(x.Now()+1000), Event{}) }, k)
	for _, full := range []bool{true, false} {
		h.s.house.lowSpace.Store(full)
		h.do(func(x *Txn) {
			was := x.Now() + 1000
			item, ok := x.Get(k)
			if value, err := item.String(); !ok || err != nil || string(value) != "v" {
				t.Errorf("%q, %v, %v", value, ok, err)
			}
			item, _ = x.Peek(k)
			if moved := item.Deadline() != was; moved == full {
				t.Errorf("full: %v, the deadline moves: %v", full, moved)
			}
		}, k)
	}
}
