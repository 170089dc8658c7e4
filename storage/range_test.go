package storage

import (
	"bytes"
	"testing"

	"keyp/ttl"
)

// TestGapIsBrief: writing a byte far after the end of a string adds next to nothing to the log,
// whatever the string was before.
func TestGapIsBrief(t *testing.T) {
	const far = 4 << 20
	h := newHarness(t)
	for name, before := range map[string]int{"missing": 0, "small": 100, "inline": 6000,
		"stored": 50_000} {
		k := h.s.Key(0, []byte(name))
		value := bytes.Repeat([]byte{'a'}, before)
		if before > 0 {
			h.do(func(x *Txn) { x.SetString(k, value, ttl.Deadline{}, Event{}) }, k)
		}
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		began := h.s.Log().End()
		h.do(func(x *Txn) {
			if n := x.WriteRange(k, far, []byte("end"), Event{}); n != far+3 {
				t.Errorf("%s: %d bytes", name, n)
			}
		}, k)
		if n := h.s.Log().End() - began; n > 20_000 {
			t.Errorf("%s: the log has grown by %d bytes", name, n)
		}
		want := append(append(value, make([]byte, far-before)...), "end"...)
		for _, again := range []func(){func() {}, h.reopen} {
			again()
			h.load([]Key{k})
			h.do(func(x *Txn) {
				item, _ := x.Get(k)
				if got, err := item.String(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes are not what was written (%v)", name, len(got), err)
				}
			}, k)
		}
		h.check()
	}
}
