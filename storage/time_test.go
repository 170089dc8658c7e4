package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// TestWalksLogTime: a walk such as SCAN skips a key that is due, so a client learns that it has
// expired. The time is then logged, so that the key does not come back after a crash. Later walks
// do not log it again until something else is due.
func TestWalksLogTime(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		t.Run(fmt.Sprint("evicted ", evicted), func(t *testing.T) {
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			start := h.clock.Now()
			for i := range 20 {
				k := h.s.Key(0, fmt.Appendf(nil, "k%d", i))
				h.do(func(x *Txn) {
					x.SetString(k, []byte("v"), ttl.At(start+1000+int64(i%2)*1000), eventSet)
				}, k)
			}
			k := h.s.Key(0, []byte("h")) // its last field is due after its first
			h.hash(k, func(_ *Txn, v *Hash) {
				v.Set([]byte("f"), []byte("v"), ttl.At(start+1000))
				v.Set([]byte("g"), []byte("v"), ttl.At(start+3000))
			})
			h.saved()
			if evicted {
				h.evict()
			}
			walks := func(want int) {
				t.Helper()
				end, records := h.s.Log().End(), 0
				for range 5 {
					h.looks()
					if now := h.s.Log().End(); now != end {
						end = now
						records++
					}
					h.clock.Advance(10 * time.Millisecond)
				}
				if records != want {
					t.Errorf("at %d walks have logged something %d times, want %d",
						h.clock.Now()-start, records, want)
				}
			}
			walks(0) // nothing is due
			for _, at := range []int64{1000, 2000, 3000} {
				h.clock.Set(start + at)
				walks(1)
			}
			h.commit()
			h.clock.Set(start)
			h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
			if n, _ := h.s.Count(0); n != 0 {
				t.Errorf("%d keys are there after a crash, which walks have not shown", n)
			}
			walks(0)
			h.check()
		})
	}
}

// looks runs all kinds of walks. Each of them would log the time if the first one did not.
func (h *harness) looks() {
	visit := func([]byte, object.Type) {}
	if _, err := h.s.Scan(0, 0, 1000, visit); err != nil {
		h.t.Error(err)
	}
	if err := h.s.Walk(0, func([]byte, object.Type) bool { return true }); err != nil {
		h.t.Error(err)
	}
	if _, _, err := h.s.RandomKey(0); err != nil {
		h.t.Error(err)
	}
	h.doAll(func(x *Txn) {
		if _, err := x.View().Scan(0, 0, 1000, visit); err != nil {
			h.t.Error(err)
		}
	})
}

// TestTimeIsForgotten: after the store's time has followed a clock that stepped back, new keys live
// by the new time. This holds after a crash, too, whatever walks have shown before.
func TestTimeIsForgotten(t *testing.T) {
	for _, saved := range []bool{false, true} {
		h := newHarness(t)
		start := h.clock.Now()
		k, n := h.s.Key(0, []byte("k")), name{0, "k"}
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(start+1000), eventSet) }, k)
		h.clock.Advance(time.Hour)
		h.looks()
		if saved {
			h.saved()
		}
		h.stepTo(start)
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(start+1000), eventSet) }, k)
		h.model[n] = value{data: "v", deadline: start + 1000}
		h.commit()
		h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{n: true})
		h.verify(map[name]bool{n: true})
		_ = h.s.Close(false)
	}
}

// TestStopAmidStepBack: the clock steps back, and the store stops before it has removed all due
// keys. Its time does not change then.
func TestStopAmidStepBack(t *testing.T) {
	h := newHarness(t)
	start := h.clock.Now()
	k, n := h.s.Key(0, []byte("k")), name{0, "k"}
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(start+1000), eventSet) }, k)
	h.clock.Advance(time.Hour)
	h.looks()
	h.s.stop()
	late := h.s.instant.Load()
	h.clock.Set(start)
	h.s.stepBack()
	if now := h.s.instant.Load(); now != late {
		t.Errorf("the store's time is %d, and was %d", now, late)
	}
	h.commit()
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{n: true})
	h.verify(map[name]bool{n: true})
	_ = h.s.Close(false)
}

// TestStateWithoutTime: a state written by an earlier version has no time, or no count of the keys
// with an element that has a deadline.
func TestStateWithoutTime(t *testing.T) {
	st := format.State{First: 3, Generation: 4, NextSpace: 5, Shards: 4, Spaces: []uint32{1, 2},
		Counts: []format.PartCounts{{Space: 1, Shard: 2, Keys: 3, Expires: 4, Timed: 1}}}
	b := st.Append(nil)
	if got, err := format.ParseState(b); err != nil || got.Counts[0].Timed != 1 {
		t.Errorf("%v, %v", got, err)
	}
	b = b[:len(b)-2] // without flags
	for want, b := range map[int64][]byte{0: b[:len(b)-1], 77: append(b[:len(b)-1:len(b)-1], 77)} {
		if got, err := format.ParseState(b); err != nil || got.Time != want ||
			len(got.Counts) != 1 || got.Counts[0].Timed != format.Unknown {
			t.Errorf("%v, %v; want time %d", got, err, want)
		}
	}
}

// TestWalksHeedMemory: if a key is in memory, a walk ignores its deadline in the data file. So the
// walk does not hide the key, and logs nothing.
func TestWalksHeedMemory(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	set := func(name string, deadline int64) {
		k := h.s.Key(0, []byte(name))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(deadline), eventSet) }, k)
	}
	set("{tag}renewed", start+1000)
	set("{tag}deleted", start+1000)
	set("{tag}stays", 0)
	h.saved()
	h.evict()
	set("{tag}renewed", 0)
	gone := h.s.Key(0, []byte("{tag}deleted"))
	h.do(func(x *Txn) { x.Delete(gone, Deleted) }, gone)
	if p := h.s.part(gone); !p.slot(gone).partial {
		t.Fatal("all of the slot is in memory")
	}
	h.clock.Advance(2 * time.Second)
	end := h.s.Log().End()
	h.looks()
	if h.s.Log().End() != end {
		t.Error("walks have logged that something was due")
	}
}
