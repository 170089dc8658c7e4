package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"keyp/ttl"
)

// TestCrashBetweenPortions: a checkpoint stops after some portions of a large value. The value was
// new, or small on disk, or large on disk and changed everywhere. After the crash, and after the
// next checkpoint, the value is exact: elements removed meanwhile are not on disk.
func TestCrashBetweenPortions(t *testing.T) {
	names := map[name]bool{{0, "k"}: true}
	for _, before := range []int{0, 50, 2000} {
		for after := range 8 {
			h := newHarness(t)
			h.portions = true
			h.reopen()
			k := h.s.Key(0, []byte("k"))
			fill := func(n int, val string) {
				h.hash(k, func(_ *Txn, v *Hash) {
					for i := range n {
						v.Set(fmt.Appendf(nil, "field%d", i), []byte(val), ttl.Deadline{})
					}
				})
			}
			fill(before, "old")
			h.reopen()
			h.hash(k, func(_ *Txn, v *Hash) { v.Delete([]byte("field1")) })
			fill(2000, "new")
			h.hash(k, func(_ *Txn, v *Hash) { v.Delete([]byte("field2")) })
			h.model = h.state(names)
			h.commit()
			left := after * 3
			h.s.options.Testing.OnStep = only(StepPortion, func() error {
				if left--; left < 0 {
					return errInterrupted
				}
				return nil
			})
			if err := h.s.Checkpoint(); err != errInterrupted {
				t.Fatalf("the checkpoint ended with %v", err)
			}
			h.crash(rand.New(rand.NewPCG(1, 1)), names)
			if n := len(h.model[name{0, "k"}].coll.elems); n != 1999 {
				t.Fatalf("%d fields came back", n)
			}
			h.hash(k, func(_ *Txn, v *Hash) {
				for i := range 1000 { // half of what the checkpoint left of it
					v.Delete(fmt.Appendf(nil, "field%d", 2*i))
				}
			})
			h.model = h.state(names)
			h.reopen()
			h.verify(names)
			_ = h.s.Close(false)
		}
	}
}

// TestRenameBetweenPortions: while a checkpoint copies a large value, the value moves to a key that
// the checkpoint has already passed, or databases are swapped.
func TestRenameBetweenPortions(t *testing.T) {
	t.Parallel()
	for _, swap := range []bool{false, true} {
		h := newHarness(t)
		h.portions = true
		h.reopen()
		from, to := h.s.Key(0, []byte("{1}from")), h.s.Key(0, []byte("{1}to"))
		h.fields(from, 2000, 100_000)
		h.do(func(x *Txn) {
			x.SetString(to, []byte(strings.Repeat("v", 100)), ttl.Deadline{}, Event{})
		}, to)
		portions := 0
		h.s.options.Testing.OnStep = only(StepPortion, func() error {
			if portions++; portions == 5 {
				if swap {
					h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
					from.DB, to.DB = 1, 1
				}
				h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
			}
			return nil
		})
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if portions < 20 {
			t.Fatalf("%d portions", portions)
		}
		h.check()
		n := name{to.DB, string(to.Name)}
		names := map[name]bool{n: true, {from.DB, string(from.Name)}: true}
		h.model = h.state(names)
		if len(h.model) != 1 || len(h.model[n].coll.elems) != 2001 {
			t.Fatalf("the store has %v", h.model)
		}
		h.commit()
		h.crash(rand.New(rand.NewPCG(1, 1)), names)
		h.reopen()
		h.verify(names)
		_ = h.s.Close(false)
	}
}

// TestChangeBetweenPortions: an element that changes after its portion has been copied must be
// copied by the next checkpoint, which releases the log that has the change. The test covers the
// first copy of a value, and a copy of changed elements.
func TestChangeBetweenPortions(t *testing.T) {
	const many = 2000
	for _, first := range []bool{true, false} {
		h := newHarness(t)
		h.portions = true
		h.reopen()
		k := h.s.Key(0, []byte("k"))
		set := func(n int, val string) {
			h.hash(k, func(_ *Txn, v *Hash) {
				for i := range n {
					v.Set(fmt.Appendf(nil, "field%d", i), []byte(val), ttl.Deadline{})
				}
			})
		}
		set(many, "old")
		if !first {
			h.saved()
			set(many, "new")
		}
		portions := 0
		h.s.options.Testing.OnStep = only(StepPortion, func() error {
			if portions++; portions == 3 { // some of all have been copied
				set(many, "last")
			}
			return nil
		})
		h.saved()
		h.s.options.Testing.OnStep = nil
		if portions < 4 {
			t.Fatalf("%d portions", portions)
		}
		h.check()
		h.saved()
		names := map[name]bool{{0, "k"}: true}
		h.model = h.state(names)
		h.reopen()
		h.verify(names)
		h.hash(k, func(_ *Txn, v *Hash) {
			for i := range many {
				if val, _, _ := v.Value().Get(fmt.Appendf(nil, "field%d", i)); string(
					val) != "last" {
					t.Fatalf("first copy %v: field%d is %q after a restart", first, i, val)
				}
			}
		})
		_ = h.s.Close(false)
	}
}
