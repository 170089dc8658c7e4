package storage

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/ttl"
)

// Deadlines that are close to the last one there is move no further than to that.
func TestClockConfirmAtEndOfTime(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.clock.Set(h.clock.Now() + 24*hour)
	last := int64(math.MaxInt64 - hour)
	h.set("k", last-h.s.now(), false)
	h.hash(h.s.Key(0, []byte("h")), func(x *Txn, v *Hash) {
		x.Relative(ttl.MaxField - hour)
		v.Set([]byte("f"), nil, ttl.MaxField-hour)
	})
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	if k, f := h.due("k", ""), h.due("h", "f"); k != math.MaxInt64 || f != ttl.MaxField {
		t.Errorf("the key is due at %d, the field at %d", k, f)
	}
	h.check()
}

// However the guard ends, as much is left of deadlines that counted from the guarded time as before.
func TestClockGuardEndsWithinLimit(t *testing.T) {
	for how, end := range map[string]func(h *harness, start int64){
		"the clock is almost back": func(h *harness, start int64) { h.clock.Set(start + 9*minute) },
		"the limit is larger":      func(h *harness, _ int64) { h.s.SetClockGuard(48*time.Hour, time.Hour) },
	} {
		h := guardedHarness(t, time.Hour)
		start := h.clock.Now()
		h.clock.Set(start + 24*hour)
		h.set("k", 5*minute, false)
		end(h, start)
		h.s.Manual().KeepClock()
		h.isAhead(how, 0)
		if left := h.due("k", "") - h.s.now(); left != 5*minute {
			t.Errorf("%s: %d ms are left of 5 minutes", how, left)
		}
		h.noNotes()
		_ = h.s.Close(false)
	}
}

// A step that is confirmed while the store is being closed is not confirmed without its deadlines, when they, or the
// notes of them, are read from the disk in stretches, which ends with the store.
func TestClockConfirmAtClose(t *testing.T) {
	for _, fields := range []int{1, 3000} {
		h := guardedHarness(t, time.Hour)
		h.clock.Set(h.clock.Now() + 24*hour)
		now := h.s.now()
		h.hash(h.s.Key(0, []byte("h")), func(x *Txn, v *Hash) {
			for i := range 3000 {
				due := int64(0)
				if i < fields {
					due = now + hour
				}
				x.Relative(due)
				v.Set(fmt.Append(nil, "f", i), make([]byte, 20), due)
			}
		})
		h.s.Manual().KeepClock()
		h.again(false, func() {})
		h.s.stop()
		if err := h.s.ConfirmClock(); err == nil {
			t.Error("it is confirmed")
		}
		if err := h.s.Close(true); err != nil {
			t.Fatal(err)
		}
		h.open()
		h.isAhead("at the next start", 24*hour)
		if err := h.s.ConfirmClock(); err != nil {
			t.Fatal(err)
		}
		if got := h.due("h", "f0"); got != now+25*hour {
			t.Errorf("due at %d", got-now)
		}
		_ = h.s.Close(false)
	}
}

// Notes that cannot be read are reported, and the guard ends all the same.
func TestClockConfirmWithDamage(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.clock.Set(h.clock.Now() + 24*hour)
	h.set("k", 48*hour, false)
	h.s.Manual().KeepClock()
	h.again(false, func() {})
	h.alter(h.s.guard.notes[h.s.shardOf(h.s.Key(0, []byte("k")).Slot)], func(r []byte) []byte { return r[:len(r)-1] })
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	h.isAhead("confirmed", 0)
	if c := h.s.ClockGuard(); c.Unmoved == 0 {
		t.Errorf("%+v", c)
	}
}

// What a command writes as an instant of the calendar does not move, although there is a note of the same deadline; the
// last of a transaction counts, and a command that keeps a deadline says nothing about it.
func TestClockNotesOfReplacedDeadlines(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.clock.Set(h.clock.Now() + 24*hour)
	k, other, due := h.s.Key(0, []byte("k")), h.s.Key(0, []byte("other")), h.s.now()+48*hour
	give := func(x *Txn, k Key, relative bool) {
		if relative {
			x.Relative(due)
		} else {
			x.Absolute(due)
		}
		if v, err := x.Hash(k); err == nil && string(k.Name) == "h" {
			v.Set([]byte("f"), nil, due)
		} else {
			x.SetString(k, []byte("v"), due, eventSet)
		}
		x.FlushValues() // the command ends
	}
	keep := func(x *Txn) { x.SetString(k, []byte("kept"), due, eventSet) }
	for how, c := range map[string]struct {
		writes []func(*Txn)
		moves  bool
	}{
		"now, then as given":               {[]func(*Txn){func(x *Txn) { give(x, k, true) }, func(x *Txn) { give(x, k, false) }}, false},
		"as given, then now":               {[]func(*Txn){func(x *Txn) { give(x, k, false) }, func(x *Txn) { give(x, k, true) }}, true},
		"kept, and another is as given":    {[]func(*Txn){func(x *Txn) { give(x, k, true) }, func(x *Txn) { give(x, other, false); keep(x) }}, true},
		"as given, kept, and another now":  {[]func(*Txn){func(x *Txn) { give(x, k, false) }, func(x *Txn) { give(x, other, true); keep(x) }}, false},
		"deleted in between":               {[]func(*Txn){func(x *Txn) { give(x, k, true) }, func(x *Txn) { x.Delete(k, Deleted) }, func(x *Txn) { give(x, k, false) }}, false},
		"now, as given, copied from there": {[]func(*Txn){func(x *Txn) { give(x, other, true) }, func(x *Txn) { give(x, other, false); x.Copy(other, k) }}, false},
	} {
		for _, once := range []bool{false, true} {
			h.do(func(x *Txn) { x.Delete(k, Deleted); x.Delete(other, Deleted) }, k, other)
			if once {
				h.do(func(x *Txn) {
					for _, write := range c.writes {
						write(x)
					}
				}, k, other)
			} else {
				for _, write := range c.writes {
					h.do(write, k, other)
				}
			}
			h.do(func(x *Txn) {
				if got := x.isNoted(k, appendNoted(nil, h.s.spaces.ids[0], k.Name, nil, false), due); got != c.moves {
					t.Errorf("%s, in one transaction %t: it moves: %t", how, once, got)
				}
			}, k)
		}
	}
	fields := h.s.Key(0, []byte("h"))
	h.do(func(x *Txn) { give(x, fields, true) }, fields)
	h.do(func(x *Txn) { give(x, fields, false) }, fields)
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	if got := h.due("h", "f"); got != due {
		t.Errorf("the field is due %d ms later", got-due)
	}
	h.check()
}

// clockAmid is a clock that steps forward by a day when it is read for a number of times.
type clockAmid struct {
	*clock.Fake
	reads, at int
}

func (c *clockAmid) Now() int64 {
	if c.reads++; c.reads == c.at {
		c.Fake.Set(c.Fake.Now() + 24*hour)
	}
	return c.Fake.Now()
}

// openAmid opens the store with a clock that steps at a reading.
func (h *harness) openAmid(at int) (*Store, *clockAmid) {
	h.t.Helper()
	c, o := &clockAmid{Fake: h.clock, at: at}, h.options()
	o.Clock = c
	s, _, err := Open(o)
	if err != nil {
		h.t.Fatal(err)
	}
	return s, c
}

// A step that comes amid a start is not followed, whenever that is.
func TestClockStepAmidStart(t *testing.T) {
	for at, stepped := 1, true; stepped; at++ {
		h := guardedHarness(t, time.Hour)
		h.s.Manual().KeepClock()
		_ = h.s.Close(true)
		s, c := h.openAmid(at)
		if stepped = c.reads >= at; !stepped {
			c.at = 0 // nor later
		}
		s.now()
		s.Manual().KeepClock()
		if g := s.ClockGuard(); (g.Since != 0) != stepped {
			t.Errorf("reading %d, stepped %t: %+v", at, stepped, g)
		}
		_ = s.Close(false)
	}
}

// Nor is one that comes while a step back is being followed.
func TestClockStepAmidStepBack(t *testing.T) {
	for at, stepped := 1, true; stepped; at++ {
		h := closedHarness(t)
		h.jumpLimit, h.jumpPatience = 10*time.Minute, time.Hour
		s, c := h.openAmid(0)
		s.now()
		h.clock.Set(h.clock.Now() - hour)
		c.reads, c.at = 0, at
		s.Manual().AwaitClock()
		if stepped = c.reads >= at; !stepped {
			c.at = 0 // nor later
		}
		s.now()
		s.Manual().AwaitClock()
		s.Manual().KeepClock()
		if g := s.ClockGuard(); (g.Since != 0) != stepped {
			t.Errorf("reading %d, stepped %t: %+v", at, stepped, g)
		}
		_ = s.Close(false)
	}
}

// The clock is back, and steps forward again before the guard has ended: it goes on.
func TestClockStepsAgainBeforeEnd(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	start, global := h.clock.Now(), h.s.NewTxn()
	h.clock.Set(start + 24*hour)
	h.set("k", hour, false)
	h.s.Manual().KeepClock()
	h.clock.Set(start)
	h.s.BeginGlobal(global, nil)
	h.s.guard.keep() // which does not wait
	h.clock.Set(start + 48*hour)
	global.End()
	h.s.background.Wait()
	h.isAhead("stepped again", 48*hour)
	if got := h.due("k", ""); got != start+hour {
		t.Errorf("due %d ms after the start", got-start)
	}
}

// Housekeeping does not wait for a script that has all shards locked to write the record of the clock.
func TestClockRecordBesideGlobal(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.clock.Set(h.clock.Now() + 9*minute)
	h.s.now()
	global := h.s.NewTxn()
	h.s.BeginGlobal(global, nil)
	done := make(chan struct{})
	go func() { h.s.guard.keep(); close(done) }()
	await.For(t, "housekeeping goes on", done)
	global.End()
	h.s.background.Wait()
	if lead := h.s.guard.turn.written.lead; lead != h.clock.Now()-h.clock.Boot() {
		t.Errorf("the record is %d ms behind", h.clock.Now()-h.clock.Boot()-lead)
	}
}

// What has to move does not leave memory while more of that is being read.
func TestClockConfirmKeepsInMemory(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	for i := range 200 {
		h.set(fmt.Sprint("k", i), 100*hour, false)
	}
	h.saved()
	h.s.SetMaxMemory(1)
	h.clock.Set(h.clock.Now() + 24*hour)
	h.s.now()
	global := h.sharing(h.s.Key(0, []byte("k0"))) // has one shard
	var confirmed sync.WaitGroup
	confirmed.Go(func() {
		if err := h.s.ConfirmClock(); err != nil {
			t.Error(err)
		}
	})
	await.Until(t, "the confirmation waits", h.s.guard.ending.Load)
	h.s.house.round()
	if n := h.s.Stats().Evictions; n != 0 {
		t.Errorf("%d keys have left memory", n)
	}
	global.End()
	confirmed.Wait()
	h.s.background.Wait()
	h.s.house.round()
	h.s.background.Wait()
	if h.s.Stats().Evictions == 0 {
		t.Error("nothing has left memory afterwards")
	}
}

// A limit that is smaller than the comparison of the clocks is exact counts as the least that makes sense.
func TestClockLeastLimit(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.s.SetClockGuard(time.Millisecond, time.Hour)
	h.clock.Set(h.clock.Now() + leastLimit)
	h.isAhead("a step of as much", 0)
	h.clock.Set(h.clock.Now() + leastLimit + 1)
	h.isAhead("a step of more", leastLimit+1)
}

// A key that a start reads from the data file, since the log has a part of it, counts as accessed then.
func TestReplayedKeyIsAccessed(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("h"))
	h.hash(k, func(_ *Txn, v *Hash) {
		for i := range 3000 {
			v.Set(fmt.Append(nil, "f", i), make([]byte, 20), 0)
		}
	})
	h.saved()
	h.hash(k, func(_ *Txn, v *Hash) { v.Set([]byte("last"), nil, 0) })
	h.again(true, func() {})
	h.do(func(x *Txn) {
		if item, ok := x.Peek(k); !ok || int64(item.Access()) != h.clock.Now()/1000 {
			t.Errorf("there: %t, last accessed %d s ago", ok, h.clock.Now()/1000-int64(item.Access()))
		}
	}, k)
}

// BenchmarkNow reads the store's time.
func BenchmarkNow(b *testing.B) {
	for _, guarded := range []bool{false, true} {
		b.Run(fmt.Sprint("guarded=", guarded), func(b *testing.B) {
			h := closedHarness(b)
			m := &clock.Machine{}
			o := h.options()
			o.Clock, o.ClockJumpLimit, o.ClockJumpPatience = m, 10*time.Minute, time.Hour
			s, _, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			if guarded {
				m.Shift(24 * hour)
			}
			for b.Loop() {
				s.now()
			}
			_ = s.Close(false)
		})
	}
}
