package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/storage/datafile"
	"keyp/storage/wal"
	"keyp/ttl"
)

// restless does everything that a store does by itself with due keys.
func (h *harness) restless() {
	h.t.Helper()
	h.looks()
	h.s.Reap()
	m := h.s.Manual()
	m.KeepClock()
	m.AwaitClock()
}

// fieldNames returns the names of a hash's fields in order, or nil if there is no such key.
func (h *harness) fieldNames(k Key) (names []string) {
	h.t.Helper()
	h.hash(k, func(_ *Txn, v *Hash) {
		if v.Exists() {
			v.Value().Walk(func(field, _ []byte, _ int64) bool {
				names = append(names, string(field))
				return true
			})
		}
	})
	slices.Sort(names)
	return names
}

// TestFollowerLeavesDue: a follower's store shows nothing that is due, and neither logs nor removes
// anything. When it becomes the leader's store, all due keys are removed, and each expiry is
// reported once.
func TestFollowerLeavesDue(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		t.Run(fmt.Sprint("evicted ", evicted), func(t *testing.T) {
			h := guardedHarness(t, time.Hour)
			defer func() { _ = h.s.Close(false) }()
			start := h.clock.Now()
			h.record(true)
			part, whole := h.s.Key(0, []byte("part")), h.s.Key(0, []byte("whole"))
			h.puts(0, "early", "e", start+500)
			h.puts(0, "k", "v", start+998)
			h.puts(0, "later", "l", start+10_000)
			h.hash(part, func(_ *Txn, v *Hash) {
				v.Set([]byte("f"), []byte("1"), ttl.At(start+1000))
				v.Set([]byte("g"), []byte("2"), ttl.At(start+2000))
				v.Set([]byte("h"), []byte("3"), ttl.Deadline{})
			})
			h.hash(whole, func(_ *Txn, v *Hash) {
				v.Set([]byte("f"), []byte("1"), ttl.At(start+999))
			})
			h.clock.Set(start + 500)
			h.s.Reap()
			if evicted { // otherwise what is hidden is not in the data file yet
				h.saved()
			}
			h.s.SetFollower(true)
			if evicted {
				h.evict()
			}
			keys, expires := h.s.Count(0)
			end, events := h.s.Log().End(), len(h.events)
			for _, at := range []int64{1000, 1001, 2000, 5000} {
				h.clock.Set(start + at)
				for range 2 {
					h.restless()
					h.lives("follower", "k", false)
					h.lives("follower", "whole", false)
					h.lives("follower", "later", true)
					want := []string{"g", "h"}
					if at >= 2000 {
						want = want[1:]
					}
					if got := h.fieldNames(part); !slices.Equal(got, want) {
						t.Errorf("at %d a follower's hash has %q, want %q", at, got, want)
					}
				}
			}
			if k, e := h.s.Count(0); k != keys || e != expires {
				t.Errorf("a follower counts %d and %d keys, want %d and %d", k, e, keys, expires)
			}
			if got := h.s.Log().End(); got != end {
				t.Errorf("a follower's log has grown from %d to %d", end, got)
			}
			if len(h.events) != events {
				t.Errorf("a follower has raised %v", h.events[events:])
			}
			h.saved() // without anything that is gone
			h.check()

			h.s.SetFollower(false)
			h.restless()
			h.restless()
			h.wantRecorded("leader",
				"key=early type=string deadline=500 value=e",
				"key=k type=string deadline=998 value=v",
				"key=whole element=f type=hash deadline=999 value=1",
				"key=part element=f type=hash deadline=1000 value=1",
				"key=part element=g type=hash deadline=2000 value=2")
			if k, _ := h.s.Count(0); k != 2 {
				t.Errorf("the leader counts %d keys, want 2", k)
			}
			if got := h.fieldNames(part); !slices.Equal(got, []string{"h"}) {
				t.Errorf("the leader's hash has %q", got)
			}
			h.check()
		})
	}
}

// TestFollowerTime: keys that were due for a store stay due when it becomes the leader's store and
// its clock is behind, also after a crash. While the store is a follower's, its time waits for the
// clock to catch up.
func TestFollowerTime(t *testing.T) {
	h := newHarness(t)
	start := h.clock.Now()
	h.puts(0, "k", "v", start+1000)
	h.saved()
	h.s.SetFollower(true)
	end := h.s.Log().End()
	h.clock.Set(start + 5000)
	h.restless()
	h.lives("follower", "k", false)
	h.clock.Set(start)
	h.restless()
	h.lives("the clock is back", "k", false)
	if got := h.s.Log().End(); got != end || h.s.now() != start+5000 {
		t.Errorf("a follower whose clock went back has logged %d bytes, and its time is %d",
			got-end, h.s.now()-start)
	}
	h.s.SetFollower(false)
	h.s.Manual().AwaitClock()
	if h.s.now() != start {
		t.Errorf("the time of a new leader is %d, want the clock's", h.s.now()-start)
	}
	h.lives("leader", "k", false)
	h.commit()
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	h.lives("after a crash", "k", false)
	h.check()
	_ = h.s.Close(false)
}

// TestFollowerPins: a command that reads a follower's value beside others does not see any due
// element.
func TestFollowerPins(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	k := h.s.Key(0, []byte("k"))
	h.hash(k, func(_ *Txn, v *Hash) {
		v.Set([]byte("f"), []byte("1"), ttl.At(start+1000))
		v.Set([]byte("g"), []byte("2"), ttl.At(start+9000))
	})
	h.s.SetFollower(true)
	h.clock.Set(start + 1000)
	var pins Pins
	task := h.s.NewTxn()
	if !h.s.Begin(h.txn, []Key{k}) {
		t.Fatal("the key is in memory")
	}
	pins.Pin(h.txn, []Key{k}, task)
	if v, err := task.Hash(k); err != nil || v.Value().Len() != 1 {
		t.Errorf("the task sees %d fields, %v", v.Value().Len(), err)
	}
	pins.Unpin(task)
	h.check() // the index has the value's deadlines as before
	h.restless()
	h.s.SetFollower(false)
	h.s.Reap()
	if got := h.fieldNames(k); !slices.Equal(got, []string{"g"}) {
		t.Errorf("the leader's hash has %q", got)
	}
	h.check()
}

// TestFollowerHides: due elements of a large value, which a follower's readers do not see, stay in
// its data file, even if readers look while it is written. The leader that opens the file reports
// their expiry.
func TestFollowerHides(t *testing.T) {
	h := closedHarness(t)
	h.portions = true
	h.open()
	defer func() { _ = h.s.Close(false) }()
	base := h.clock.Now()
	h.record(true)
	k := h.s.Key(0, []byte("k"))
	const fields, timed = 400, 200
	val := bytes.Repeat([]byte{'v'}, 70) // so long that fields stand by themselves
	looks := 0
	look := func() {
		h.clock.Advance(2 * time.Millisecond)
		left := fields - int(min(max(h.clock.Now()-base-999, 0), timed))
		if got := len(h.fieldNames(k)); got != left {
			t.Errorf("a follower shows %d fields, want %d", got, left)
		}
		looks++
	}
	for range 2 { // the first time all is written, the second time what has changed
		base += 10_000
		h.clock.Set(base)
		h.restless()
		h.hash(k, func(_ *Txn, v *Hash) {
			for i := range fields {
				deadline := int64(0)
				if i < timed {
					deadline = base + 1000 + int64(i)
				}
				v.Set(fmt.Appendf(nil, "f%d", i), val, ttl.At(deadline))
			}
		})
		h.commit()
		h.s.SetFollower(true)
		h.clock.Set(base + 1020)
		look()
		looks = 0
		h.s.options.Testing.OnStep = func(at datafile.Step) error {
			if at == StepPortion {
				look()
			}
			return nil
		}
		h.saved()
		h.s.options.Testing.OnStep = nil
		if looks < 5 {
			t.Fatalf("only %d looks", looks)
		}
		h.check()
		h.s.SetFollower(false)
	}
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	h.clock.Advance(5 * time.Second)
	h.restless()
	if got := len(h.recorded()); got != 2*timed {
		t.Errorf("%d expiries are recorded, want %d", got, 2*timed)
	}
	if got := len(h.fieldNames(k)); got != fields-timed {
		t.Errorf("%d fields are left", got)
	}
	h.check()
}

// TestFollowerIsChanged: a transaction that changes a follower's store makes the store fail, and
// leaves nothing in the log.
func TestFollowerIsChanged(t *testing.T) {
	h := newHarness(t)
	h.commit()
	h.s.SetFollower(true)
	end := h.s.Log().End()
	k := h.s.Key(0, []byte("k"))
	h.s.Begin(h.txn, []Key{k})
	h.txn.SetString(k, []byte("v"), ttl.Deadline{}, eventSet)
	h.txn.End()
	if err := h.s.Err(); !errors.Is(err, errFollowerChanged) {
		t.Errorf("the store's failure is %v", err)
	}
	if got := h.s.Log().End(); got != end {
		t.Errorf("the log has grown by %d bytes", got-end)
	}
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{{0, "k"}: true})
	_ = h.s.Close(false)
}

// TestFollowerOpens: a store opened as a follower's logs nothing and confirms no clock. Shown
// returns the position that it has read.
func TestFollowerOpens(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	h.puts(0, "k", "v", h.clock.Now()+1000)
	h.commit()
	var end uint64
	h.follower, h.openLog = true,
		func(o wal.Options, from LogPosition, replay func(uint64, []byte) error) (Journal, error) {
			log, err := openAlone(o, from, replay)
			if err == nil {
				end = log.End()
			}
			return log, err
		}
	h.clock.Advance(time.Hour)
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	h.restless()
	if got := h.s.Log().End(); got != end || h.s.Shown() != end {
		t.Errorf("the log ends at %d and shown is %d, want %d", got, h.s.Shown(), end)
	}
	h.s.Log().Append([]byte{1}) // not applied
	if h.s.Shown() != end {
		t.Errorf("shown is %d, want %d", h.s.Shown(), end)
	}
	if err := h.s.ConfirmClock(); !errors.Is(err, ErrFollower) {
		t.Errorf("ConfirmClock: %v", err)
	}
	_ = h.s.Close(false)
}

// TestLeaderRecordsClock: a member that becomes the leader records its own clocks, whatever the
// record says.
func TestLeaderRecordsClock(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	end := h.s.Log().End()
	h.s.Manual().KeepClock()
	if h.s.Log().End() != end {
		t.Fatal("the clock is recorded without a need")
	}
	h.s.SetFollower(true)
	h.s.SetFollower(false)
	h.s.Manual().KeepClock()
	if h.s.Log().End() == end {
		t.Error("a new leader has not recorded its clocks")
	}
	end = h.s.Log().End()
	h.s.Manual().KeepClock()
	if h.s.Log().End() != end {
		t.Error("the clock is recorded again")
	}
}

// follow makes the store a follower's for some time. Its readers must see the same as before.
func (m *machine) follow(rt *rapid.T) {
	h := m.h
	h.s.SetFollower(true)
	beside := []func(*rapid.T){m.advance, m.evict, m.leave, m.loadAll, m.checkpoint,
		m.moveBlocks, m.copyObjects,
		func(rt *rapid.T) {
			m.advance(rt)
			h.compareWalk(rapid.Bool().Draw(rt, "within"), rapid.Bool().Draw(rt, "pages"))
		},
		func(*rapid.T) { h.verify(m.names) }, func(*rapid.T) {
			h.crash(m.rng, m.names)
			h.s.SetFollower(true)
		}}
	for range rapid.IntRange(1, 6).Draw(rt, "beside") {
		counted, expires := h.s.Count(0)
		i := rapid.IntRange(0, len(beside)-1).Draw(rt, "what")
		beside[i](rt)
		if k, e := h.s.Count(0); i < len(beside)-1 && (k != counted || e != expires) {
			h.t.Fatalf("a follower counts %d and %d keys, and had %d and %d", k, e,
				counted, expires)
		}
	}
	if err := h.s.Err(); err != nil {
		h.t.Fatalf("as a follower: %v", err)
	}
	h.verify(m.names)
	h.s.SetFollower(false)
}

// TestFollowerBesideBackground: from the moment at which a store becomes a follower's, nothing in
// the background writes to the log.
func TestFollowerBesideBackground(t *testing.T) {
	h := closedHarness(t)
	o := h.options()
	o.NoBackground = false
	// A checkpoint would begin another segment of the log with an empty batch.
	o.CheckpointBytes = 1 << 40
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	h.s, h.txn = s, s.NewTxn()
	h.record(true)
	const rounds, keys = 100, 20
	for range rounds {
		for i := range keys {
			h.puts(0, fmt.Sprint("k", i), "v", h.clock.Now()+1+int64(i%2))
		}
		h.clock.Advance(time.Millisecond) // the reaper begins
		s.SetFollower(true)
		end := s.Log().End()
		h.clock.Advance(time.Millisecond)
		for i := range keys {
			h.lives("follower", fmt.Sprint("k", i), false)
		}
		if got := s.Log().End(); got != end {
			t.Fatalf("a follower has logged %d bytes", got-end)
		}
		s.SetFollower(false)
	}
	h.s.Reap()
	await.Until(t, "all expiries are recorded", func() bool {
		return len(h.recorded()) >= rounds*keys
	})
	if n := len(h.recorded()); n != rounds*keys {
		t.Errorf("%d expiries are recorded, want %d", n, rounds*keys)
	}
	h.check()
	if err := s.Close(true); err != nil {
		t.Error(err)
	}
}
