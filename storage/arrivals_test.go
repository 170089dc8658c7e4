package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/testkit/await"
	"keyp/storage/datafile"
	"keyp/storage/object"
	"keyp/ttl"
)

// TestCheckpointBesideRenames: between any two steps of a checkpoint all values change and move to
// other keys. The checkpoint still ends. After that the data file and the log together have all
// values.
func TestCheckpointBesideRenames(t *testing.T) {
	for _, size := range []int{3, 200} { // elements: a portion, several
		t.Run(fmt.Sprint(size, " elements"), func(t *testing.T) {
			const values = 40
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			h.portions = true
			h.reopen()
			key := func(i, turn int) Key {
				return h.s.Key(turn%2, fmt.Appendf(nil, "%d:%d", i, turn%7))
			}
			push := func(k Key, n int) {
				h.do(func(x *Txn) {
					l, err := x.List(k)
					if err != nil {
						t.Fatal(err)
					}
					for range n {
						l.PushBack([]byte("an element of some length"))
					}
				}, k)
			}
			for i := range values {
				push(key(i, 0), size)
			}
			turn, steps, pushed := 0, 0, [values]int{}
			h.s.options.Testing.OnStep = func(datafile.Step) error {
				if steps++; steps > 50*values {
					return errors.New("the checkpoint does not end")
				}
				for i := range values {
					from, to := key(i, turn), key(i, turn+1)
					h.do(func(x *Txn) {
						if !x.Rename(from, to) {
							t.Errorf("%q is gone", from.Name)
						}
					}, from, to)
				}
				turn++
				push(key(turn%values, turn), 1)
				pushed[turn%values]++
				h.commit()
				return nil
			}
			for range 3 {
				steps = 0
				if err := h.s.Checkpoint(); err != nil {
					t.Fatalf("after %d steps: %v", steps, err)
				}
				t.Logf("%d steps", steps)
			}
			h.s.options.Testing.OnStep = nil
			check := func() {
				t.Helper()
				h.check()
				for i := range values {
					k := key(i, turn)
					h.do(func(x *Txn) {
						if l, err := x.List(k); err != nil || l.Value().Len() != size+pushed[i] {
							t.Fatalf("%d elements at %q, want %d (%v)", l.Value().Len(), k.Name,
								size+pushed[i], err)
						}
					}, k)
				}
			}
			check()
			h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
			check()
			h.reopen()
			check()
		})
	}
}

// TestCheckpointBesidePushes: while a checkpoint copies a list for the first time, more elements
// are pushed than the checkpoint copies.
func TestCheckpointBesidePushes(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.portions = true
	h.reopen()
	k := h.s.Key(0, []byte("queue"))
	pushed := 0
	push := func(n int) {
		h.do(func(x *Txn) {
			l, err := x.List(k)
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				l.PushBack(fmt.Append(nil, "an element of some length ", pushed))
				pushed++
			}
		}, k)
	}
	push(1000)
	portions := 0
	h.s.options.Testing.OnStep = only(StepPortion, func() error {
		if portions++; portions > 1000 {
			return errors.New("the checkpoint does not end")
		}
		push(2 * h.s.bounds.portion)
		return nil
	})
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	h.s.options.Testing.OnStep = nil
	h.commit()
	for range 2 {
		h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
		h.do(func(x *Txn) {
			if l, err := x.List(k); err != nil || l.Value().Len() != pushed {
				t.Fatalf("%d elements, want %d (%v)", l.Value().Len(), pushed, err)
			}
		}, k)
		h.check()
		h.saved()
	}
}

// TestRenamedWhileBatchFails: a value moves between being copied and the failure of the batch.
// The next checkpoint writes its elements at the new key.
func TestRenamedWhileBatchFails(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	from, to := h.s.Key(0, []byte("from")), h.s.Key(0, []byte("to"))
	large := strings.Repeat("v", 3*object.ChunkSize)
	h.do(func(x *Txn) { x.SetString(from, []byte(large), ttl.Deadline{}, Event{}) }, from)
	h.model[name{0, "to"}] = value{data: large}
	failed := false
	h.s.options.Testing.OnStep = func(at datafile.Step) error {
		if at != datafile.StepWrite || failed {
			return nil
		}
		failed = true
		h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
		h.commit()
		return syscall.ENOSPC
	}
	if err := h.s.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the checkpoint gave %v", err)
	}
	h.saved()
	names := map[name]bool{{0, "from"}: true, {0, "to"}: true}
	h.verify(names)
	h.crash(rand.New(rand.NewPCG(1, 1)), names)
	h.verify(names)
}

// TestBatchOfOneSlotFails: when a batch fails, everything it has copied of a slot becomes dirty
// again. That takes about as long as copying, not the square of that time.
func TestBatchOfOneSlotFails(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	const keys, many = 60_000, 1000
	var some []Key
	for i := range keys {
		if some = append(some, h.s.Key(0, fmt.Appendf(nil, "{slot}%d", i))); len(some) == many {
			h.do(func(x *Txn) {
				for _, k := range some {
					x.SetString(k, nil, ttl.Deadline{}, Event{})
				}
			}, some...)
			h.recent, some = nil, some[:0]
		}
	}
	h.commit()
	sl := h.s.part(h.s.Key(0, []byte("{slot}"))).slot(h.s.Key(0, []byte("{slot}")))
	failing := true
	h.s.options.Testing.OnStep = func(at datafile.Step) error {
		if at == datafile.StepWrite && failing {
			if sl.dirty != 0 {
				t.Errorf("%d cells are still dirty", sl.dirty)
			}
			return syscall.ENOSPC
		}
		return nil
	}
	done := make(chan error)
	go func() { done <- h.s.Checkpoint() }()
	if err := await.For(t, "a batch is taken back", done); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if sl.dirty != keys {
		t.Errorf("%d cells are dirty, want %d", sl.dirty, keys)
	}
	failing = false
	h.saved()
	h.check()
}
