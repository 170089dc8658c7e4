package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"keyp/storage/object"
)

// aged makes a stream with a maximum age and n entries, one for each millisecond from now on.
func (h *harness) aged(k Key, n int, age int64, refs object.StreamRefs) {
	now := uint64(h.clock.Now())
	h.stream(k, func(_ *Txn, s *Stream) {
		for i := range n {
			s.Add(object.StreamID{Ms: now + uint64(i), Seq: 1}, [][]byte{[]byte("f"), []byte("v")})
		}
		s.SetAge(age, refs)
	})
}

func (h *harness) entries(k Key) (n int, first, last object.StreamID) {
	h.stream(k, func(_ *Txn, s *Stream) {
		first, _ = s.Value().First()
		n, last = s.Value().Entries(), s.Value().LastID()
	})
	return n, first, last
}

// TestReaperRemovesEntries: the reaper removes due entries in steps, and logs little. After a
// crash, and when read from the data file, the stream has the same entries.
func TestReaperRemovesEntries(t *testing.T) {
	const count = 20_000
	for _, stored := range []bool{false, true} {
		for _, refs := range []object.StreamRefs{object.KeepRefs, object.DropRefs,
			object.AckedRefs} {
			t.Run(fmt.Sprint("stored ", stored, " refs ", refs), func(t *testing.T) {
				h := newHarness(t)
				defer func() { h.s.Close(false) }()
				start := h.clock.Now()
				k := h.s.Key(0, []byte("s"))
				h.aged(k, count, 1000, refs)
				if stored {
					h.saved()
				}
				h.clock.Set(start + 1000 + count/2 - 1)
				sh := h.s.shards[h.s.shardOf(k.Slot)]
				before := h.s.Log().End()
				n, more := (&source{sh: sh, t: h.s.NewTxn()}).ReapDue(h.s.now(), 0)
				if n == 0 || n > reapLooks*shedStep || !more {
					t.Fatalf("a batch removes %d entries, more: %v", n, more)
				}
				if size := h.s.Log().End() - before; size > 1000 {
					t.Errorf("removing %d entries costs the log %d bytes", n, size)
				}
				h.commit()
				h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
				h.check()
				h.s.Reap()
				want := object.StreamID{Ms: uint64(start + count/2), Seq: 1}
				if n, first, _ := h.entries(k); n != count/2 || first != want {
					t.Errorf("%d entries from %v on are left, want %d from %v on", n,
						first, count/2, want)
				}
				h.saved()
				h.check()
				h.evict()
				h.clock.Set(start + 1000 + count)
				h.s.Reap() // it is only on disk
				n, _, last := h.entries(k)
				if want := (object.StreamID{Ms: uint64(start + count - 1), Seq: 1}); n != 0 ||
					last != want {
					t.Errorf("%d entries are left, the last ID is %v, want %v", n, last, want)
				}
				if removed := h.s.stats.ExpiredElements.Load(); removed == 0 {
					t.Error("no element is counted as expired")
				}
				h.reopen()
				if n, _, got := h.entries(k); n != 0 || got != last {
					t.Errorf("after a start: %d entries, the last ID is %v", n, got)
				}
				h.check()
			})
		}
	}
}

// TestFollowerHidesEntries: a follower's readers do not see due entries, but the stream keeps them.
// When the store becomes the leader's, each of them is reported once.
func TestFollowerHidesEntries(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	h.record(true)
	k := h.s.Key(0, []byte("s"))
	h.aged(k, 4, 1000, object.KeepRefs)
	h.saved()
	h.s.SetFollower(true)
	end := h.s.Log().End()
	shown := func() (n int, last object.StreamID) {
		h.do(func(x *Txn) {
			s, err := x.Stream(k)
			if err != nil {
				t.Fatal(err)
			}
			n, last = s.Value().Entries(), s.Value().LastID()
		}, k)
		return n, last
	}
	for at, want := range []int{4, 3, 2, 1, 0, 0} {
		h.clock.Set(start + 999 + int64(at))
		for range 2 {
			if n, last := shown(); n != want ||
				last != (object.StreamID{Ms: uint64(start + 3), Seq: 1}) {
				t.Errorf("at %d a follower has %d entries, the last ID is %v", at, n, last)
			}
		}
	}
	if got := h.s.Log().End(); got != end {
		t.Errorf("a follower's log has grown from %d to %d", end, got)
	}
	h.saved()
	h.check()
	h.s.SetFollower(false)
	h.restless()
	h.restless()
	var want []string
	for i := range 4 {
		want = append(want, fmt.Sprintf("key=s element=%d-1 type=stream deadline=%d",
			start+int64(i), 1000+i))
	}
	h.wantRecorded("leader", want...)
	h.check()
}
