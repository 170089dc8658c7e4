package storage

import (
	"fmt"
	"testing"

	"keyp/internal/testkit/await"
	"keyp/ttl"
)

// TestLoadInStretches: a large value is read in several transactions, and other work goes on
// between them. The load reflects changes of the key made meanwhile.
func TestLoadInStretches(t *testing.T) {
	k := Key{}
	evict := func(h *harness) { (&machine{h: h}).evict(nil) }
	for name, c := range map[string]struct {
		meanwhile func(h *harness)
		fields    int
	}{
		"nothing": {func(*harness) {}, 2001},
		"flush": {func(h *harness) { h.doAll(func(x *Txn) { x.FlushDB(0) }); h.s.Checkpoint() },
			0},
		"swap": {func(h *harness) { h.doAll(func(x *Txn) { x.SwapDB(0, 1) }) }, 0},
		"change": {func(h *harness) {
			h.load([]Key{k})
			h.hash(k, func(_ *Txn, v *Hash) {
				for i := range 500 {
					v.Delete(fmt.Appendf(nil, "field%d", i))
				}
			})
			if err := h.s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			evict(h)
		}, 1501},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.portions = true
			h.reopen()
			k = h.s.Key(0, []byte("k"))
			h.fields(k, 2000, 100_000)
			h.reopen()
			stretches := 0
			h.s.options.Testing.onStretch = func() {
				if stretches++; stretches == 5 {
					c.meanwhile(h)
				}
			}
			h.load([]Key{k})
			if stretches < 5 {
				t.Errorf("%d stretches", stretches)
			}
			h.s.options.Testing.onStretch = nil
			h.hash(k, func(_ *Txn, v *Hash) {
				if n := v.Value().Len(); n != c.fields {
					t.Errorf("%d fields are there, want %d", n, c.fields)
				}
			})
			h.check()
			_ = h.s.Close(false)
		})
	}
}

// TestLoadSlotInFlux: an interrupted checkpoint left a record with a wrong count of elements. The
// rest of its slot can still be loaded.
func TestLoadSlotInFlux(t *testing.T) {
	h := newHarness(t)
	h.portions = true
	h.reopen()
	k, beside := h.s.Key(0, []byte("{1}large")), h.s.Key(0, []byte("{1}small"))
	h.do(func(x *Txn) { x.SetString(beside, []byte("v"), ttl.Deadline{}, Event{}) }, beside)
	h.fields(k, 2000, 100_000)
	h.commit()
	portions := 0
	h.s.options.Testing.OnStep = only(StepPortion, func() error {
		if portions++; portions == 20 {
			return errInterrupted
		}
		return nil
	})
	if err := h.s.Checkpoint(); err != errInterrupted {
		t.Fatal(err)
	}
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.s.loads.loadAll()
	if st := h.s.Stats(); st.PartialSlots != 0 || st.LoadErrors != 0 {
		t.Fatalf("%d slots are partial, %d errors", st.PartialSlots, st.LoadErrors)
	}
	h.check()
	_ = h.s.Close(false)
}

// TestLoadsAtOnce: many requests at once are all answered, even those in a batch with a large or
// damaged value. No request waits for ever after Close.
func TestLoadsAtOnce(t *testing.T) {
	h := newHarness(t)
	large := h.s.Key(0, []byte("large"))
	h.fields(large, 2000, 100_000)
	wants := [][]Key{{large}}
	for i := range 500 {
		k, missing := h.s.Key(0, fmt.Appendf(nil, "k%d", i)),
			h.s.Key(i%2, fmt.Appendf(nil, "none%d", i))
		h.do(func(x *Txn) { x.SetString(k, k.Name, ttl.Deadline{}, Event{}) }, k)
		wants = append(wants, []Key{k}, []Key{missing}, []Key{k, missing, large})
	}
	h.reopen()
	h.evict()
	for range loadWorkers {
		h.s.goBackground(h.s.loads.loop)
	}
	done := make(chan error, len(wants))
	for _, keys := range wants {
		h.s.Load(keys, func(err error) { done <- err })
	}
	for range wants {
		if err := await.For(t, "the load ends", done); err != nil {
			t.Fatal(err)
		}
	}
	for _, keys := range wants {
		if !h.s.Begin(h.txn, keys) {
			t.Fatalf("%q is not in memory", keys[0].Name)
		}
		for _, k := range keys {
			if _, ok := h.txn.Peek(k); ok != (k.Name[0] != 'n') {
				t.Errorf("%q is there: %v", k.Name, ok)
			}
		}
		h.txn.End()
	}
	h.check()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	h.s.Load([]Key{large}, func(err error) { done <- err })
	if err := await.For(t, "the load ends", done); err != ErrClosed {
		t.Errorf("after Close a load gives %v", err)
	}
}
