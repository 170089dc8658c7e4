package storage

import (
	"testing"

	"keyp/ttl"
)

// TestReadsAskNoPolicy: a read is compared with patterns only if a policy slides deadlines.
func TestReadsAskNoPolicy(t *testing.T) {
	h := newHarness(t)
	k, asked := h.s.Key(0, []byte("k")), 0
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), x.Now()+1000, Event{}) }, k)
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
