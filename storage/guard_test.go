package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage/clockguard"
	"keyp/ttl"
)

// This file tests the clock guard. If the machine's clock jumps too far, the guard keeps the
// store's time as before, so that keys do not expire wrongly.

const (
	minute   = 60_000 // in ms
	testJump = 10 * minute
)

// guardedHarness returns a harness whose store has a clock guard.
func guardedHarness(t testing.TB, patience time.Duration) *harness {
	h := closedHarness(t)
	h.jumpLimit, h.jumpPatience = 10*time.Minute, patience
	h.open()
	h.s.Manual().KeepClock()
	return h
}

// isAhead expects the wall clock to be ahead of the store's time by the given number of ms.
func (h *harness) isAhead(when string, ms int64) {
	h.t.Helper()
	now := h.s.now()
	if got := h.clock.Now() - now; got != ms {
		h.t.Errorf("%s: the wall clock is %d ms ahead of the store's time, want %d", when, got, ms)
	}
	if c := h.s.ClockGuard(); (c.Since != 0) != (ms != 0) || c.Ahead != ms {
		h.t.Errorf("%s: %+v, want %d ms ahead", when, c, ms)
	}
}

// lives checks whether a key of database 0 exists.
func (h *harness) lives(when, name string, want bool) {
	h.t.Helper()
	k := h.s.Key(0, []byte(name))
	h.do(func(x *Txn) {
		if _, got := x.Peek(k); got != want {
			h.t.Errorf("%s: %s is there: %t, want %t", when, name, got, want)
		}
	}, k)
}

// due returns the deadline of a key, or of one of its members.
func (h *harness) due(name, member string) (due int64) {
	k := h.s.Key(0, []byte(name))
	h.do(func(x *Txn) {
		if member == "" {
			due, _ = x.Deadline(k)
		} else {
			due, _ = x.Members([]byte(member)).Deadline(k)
		}
	}, k)
	return due
}

// set sets a string whose deadline is ms from now, or at ms if absolute is set.
func (h *harness) set(name string, ms int64, absolute bool) {
	k := h.s.Key(0, []byte(name))
	h.do(func(x *Txn) {
		deadline := ttl.At(ms)
		if !absolute {
			deadline = ttl.In(ms + x.Now())
		}
		x.SetString(k, []byte("v"), deadline, eventSet)
	}, k)
}

// again closes the store or cuts its power, calls meanwhile, and opens the store again.
func (h *harness) again(kill bool, meanwhile func()) {
	h.t.Helper()
	h.commit()
	if kill {
		h.cutPower(1)
	} else if err := h.s.Close(true); err != nil {
		h.t.Fatal(err)
	}
	meanwhile()
	h.open()
}

// cutPower ends the store. The seed decides how much of the unsynced data the disk keeps.
func (h *harness) cutPower(seed uint64) {
	h.t.Helper()
	h.s.stop()
	h.s.background.Wait()
	crashed := h.fs.Crash(rand.New(rand.NewPCG(seed, 1)))
	_ = h.s.log.Close() // what it writes now goes nowhere
	if err := h.s.release(); err != nil {
		h.t.Fatal(err)
	}
	h.fs = crashed
}

// A step of the clock forward expires no keys while the guard is active. Time in which the machine
// sleeps, and long pauses between two readings, do not count as steps.
func TestClockGuard(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	h.set("soon", 5*minute, false)
	h.set("later", 60*minute, false)
	h.clock.Set(start + testJump)
	h.isAhead("a step of as much as the limit", 0)
	h.lives("a step of as much as the limit", "soon", false)

	h.set("soon", 5*minute, false)
	start = h.clock.Now()
	h.clock.Set(start + testJump + 1)
	h.isAhead("a step of more", testJump+1)
	h.lives("a step of more", "soon", true)
	h.clock.Advance(5*time.Minute - time.Millisecond)
	h.s.Reap()
	h.lives("before its time has passed", "soon", true)
	h.clock.Advance(time.Millisecond)
	h.lives("when its time has passed", "soon", false)
	h.lives("then", "later", true)
	h.clock.Set(h.clock.Now() + 10*hour)
	h.isAhead("another step", testJump+1+10*hour)
	h.clock.Set(start + 6*minute)
	h.s.Manual().KeepClock()
	h.isAhead("back", 0)
	h.clock.Suspend(20 * time.Minute)
	h.isAhead("after a sleep", 0)
	h.clock.Advance(20 * time.Minute)
	h.isAhead("after a pause", 0)
	h.lives("after both", "later", true)
	h.clock.Advance(20 * time.Minute)
	h.lives("at the end", "later", false)
	if c := h.s.ClockGuard(); c.Began != 1 {
		t.Errorf("the guard began %d times, want 1", c.Began)
	}
	h.check()
}

// Time follows several steps if each of them is within the limit.
func TestClockGuardFollowsSmallSteps(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	for i := range 20 {
		h.clock.Set(h.clock.Now() + 9*minute)
		h.isAhead(fmt.Sprint("step ", i), 0)
	}
	h.clock.Set(h.clock.Now() - hour)
	h.s.Manual().AwaitClock()
	h.isAhead("a step back", 0)
	h.clock.Set(h.clock.Now() + 11*minute)
	h.isAhead("forward again, not as far", 11*minute)
}

// ends lists the ways in which a step is accepted as right.
var ends = map[string]func(h *harness){
	"confirmed": func(h *harness) {
		if err := h.s.ConfirmClock(); err != nil {
			h.t.Fatal(err)
		}
	},
	"patience": func(h *harness) {
		h.s.SetClockGuard(10*time.Minute, time.Millisecond)
		h.clock.Advance(time.Millisecond)
		h.s.Manual().KeepClock()
		h.s.SetClockGuard(10*time.Minute, time.Hour)
	},
	"without a limit": func(h *harness) {
		h.s.SetClockGuard(0, time.Hour)
		h.s.Manual().KeepClock()
		h.s.SetClockGuard(10*time.Minute, time.Hour)
	},
}

// When the step is confirmed, deadlines that count from guarded time move by exactly the step, and
// others do not move. This holds wherever the keys are by then and whatever happened to them.
func TestClockConfirm(t *testing.T) {
	for why, end := range ends {
		for _, evicted := range []bool{false, true} {
			for _, kill := range []int{0, 1, 2} {
				t.Run(fmt.Sprint(why, " evicted ", evicted, " restart ", kill), func(t *testing.T) {
					confirmStep(t, end, evicted, kill)
				})
			}
		}
	}
}

func confirmStep(t *testing.T, end func(*harness), evicted bool, kill int) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	const day = 24 * hour
	h.set("before", day+hour, false)
	h.set("short", hour, false)
	h.clock.Set(h.clock.Now() + day)
	h.isAhead("a step", day)
	now := h.s.now()
	for _, name := range []string{"relative", "kept", "gone", "renewed", "persistent", "exchanged",
		"renamed", "copied", "overwritten"} {
		h.set(name, hour, false)
	}
	h.set("absolute", now+2*day, true)
	h.set("far", 3*day, false) // its note is not due by the wall clock
	h.hash(h.s.Key(0, []byte("h")), func(x *Txn, v *Hash) {
		v.Set([]byte("relative"), []byte("v"), ttl.In(now+hour))
		v.Set([]byte("absolute"), []byte("v"), ttl.At(now+2*day))
		v.Set([]byte("none"), []byte("v"), ttl.Deadline{})
	})
	h.do(func(x *Txn) {
		x.SetString(h.s.Key(0, []byte("kept")), []byte("w"), ttl.At(now+hour), eventSet)
	}, h.s.Key(0, []byte("kept")))
	h.do(func(x *Txn) { x.Delete(h.s.Key(0, []byte("gone")), Deleted) }, h.s.Key(0, []byte("gone")))
	h.set("renewed", now+2*day, true)
	h.do(func(x *Txn) { x.Persist(h.s.Key(0, []byte("persistent"))) },
		h.s.Key(0, []byte("persistent")))
	h.set("overwritten", now+hour+1, true)
	for from, to := range map[string]string{"renamed": "renamed again", "h": "h again"} {
		a, b := h.s.Key(0, []byte(from)), h.s.Key(0, []byte(to))
		h.do(func(x *Txn) { x.Rename(a, b) }, a, b)
	}
	for from, to := range map[string]string{"copied": "copy", "h again": "h copied"} {
		a, b := h.s.Key(0, []byte(from)), h.s.Key(0, []byte(to))
		h.do(func(x *Txn) { x.Copy(a, b) }, a, b)
	}
	h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
	h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
	h.doAll(func(x *Txn) { x.SwapDB(0, 2) })
	if evicted {
		h.saved()
		h.evict()
	}
	if kill > 0 {
		h.again(kill == 2, func() { h.clock.Advance(time.Minute) })
		h.isAhead("after a restart", day)
	}
	end(h)
	h.isAhead("confirmed", 0)
	for name, want := range map[string]int64{
		"before": now + day + hour, "relative": now + hour + day, "kept": now + hour + day,
		"exchanged":     now + hour + day,
		"renamed again": now + hour + day, "copied": now + hour + day, "copy": now + hour + day,
		"far": now + 4*day, "absolute": now + 2*day, "renewed": now + 2*day, "persistent": 0,
		"gone": 0, "short": 0, "overwritten": 0, "renamed": 0,
	} {
		if got := h.due(name, ""); got != want {
			t.Errorf("%s is due at %d, want %d", name, got-now, want-now)
		}
	}
	for _, name := range []string{"h again", "h copied"} {
		if r, a, n := h.due(name, "relative"), h.due(name, "absolute"),
			h.due(name, "none"); r != now+hour+day || a != now+2*day || n != 0 {
			t.Errorf("the fields of %s are due at %d, %d and %d", name, r-now, a-now, n)
		}
	}
	h.lives("afterwards", "short", false)
	h.lives("afterwards", "persistent", true)
	if err := h.s.ConfirmClock(); !errors.Is(err, ErrNoClockStep) {
		t.Errorf("a second time: %v", err)
	}
	h.noNotes()
	left := h.due("relative", "") - h.s.now()
	h.again(true, func() {})
	h.isAhead("after another restart", 0)
	h.clock.Advance(time.Duration(left-1) * time.Millisecond)
	h.lives("before its time", "relative", true)
	h.clock.Advance(time.Millisecond)
	h.lives("at its time", "relative", false)
	if err := h.s.Check(); err != nil {
		t.Error(err)
	}
}

// noNotes expects that the guard has no notes of deadlines left.
func (h *harness) noNotes() {
	h.t.Helper()
	for i, k := range h.s.guard.notes {
		h.do(func(x *Txn) {
			if _, ok := x.Peek(k); ok {
				h.t.Errorf("shard %d still has notes", i)
			}
		}, k)
	}
}

// When the clock goes back no deadlines move, and the notes are removed.
func TestClockGoesBack(t *testing.T) {
	for _, kill := range []bool{false, true} {
		h := guardedHarness(t, time.Hour)
		start := h.clock.Now()
		h.clock.Set(start + 24*hour)
		h.isAhead("a step", 24*hour)
		h.set("relative", hour, false)
		h.s.Manual().KeepClock()
		back := func() { h.clock.Set(start + 5*minute) }
		if kill {
			h.again(true, back)
		} else {
			back()
		}
		h.s.Manual().KeepClock()
		h.isAhead("back", 0)
		if got := h.due("relative", ""); got != start+hour {
			t.Errorf("due %d ms after the start, want an hour", got-start)
		}
		h.noNotes()
		_ = h.s.Close(false)
	}
}

// A start detects a step that happened while the server was down, unless the machine was restarted.
// The downtime itself is no step.
func TestClockGuardAtStart(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.set("soon", 24*hour, false)
	h.again(false, func() { h.clock.Advance(7 * time.Hour) })
	h.isAhead("after hours", 0)
	h.again(true, func() { h.clock.Suspend(7 * time.Hour) })
	h.isAhead("after a sleep", 0)
	h.again(true, func() { h.clock.Advance(time.Hour); h.clock.Set(h.clock.Now() + 24*hour) })
	h.isAhead("after a step", 24*hour)
	h.lives("after a step", "soon", true)
	h.s.Manual().KeepClock()

	now := h.s.now()
	h.again(true, func() { h.clock.Reboot(20 * time.Minute) })
	if got := h.s.now(); got != now {
		t.Errorf("the machine restarts while time is guarded: it goes on %d ms after where it was",
			got-now)
	}
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	h.isAhead("confirmed", 0)
	h.lives("confirmed", "soon", false)
	h.again(false, func() { h.clock.Reboot(24 * time.Hour) })
	h.isAhead("after a restart of the machine", 0)
}

// The server ended so early that the log has the guard's notes but no record of the guard. If the
// clock is back at the next start, the notes are removed.
func TestClockGuardNotesOfNoGuard(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	h.clock.Set(start + 24*hour)
	h.set("relative", hour, false)
	h.again(true, func() { h.clock.Set(start) })
	h.isAhead("back", 0)
	h.noNotes()
}

// A confirmation is interrupted at any point. After the next start the step is either confirmed for
// all deadlines or not at all. If the confirmation was replied, the step is confirmed.
func TestClockConfirmInterrupted(t *testing.T) {
	const day, keys = 24 * hour, 300
	confirmed, not := 0, 0
	for stop, reached := 1, true; reached; stop++ {
		for seed := range uint64(4) {
			h := closedHarness(t)
			h.jumpLimit, h.jumpPatience = 10*time.Minute, time.Hour
			var failAt, ops atomic.Int64
			h.onLog = func(op vfs.Op, _ string, _ int64, _ int) error {
				if at := failAt.Load(); at != 0 && op != vfs.OpRead && ops.Add(1) >= at {
					return syscall.EIO
				}
				return nil
			}
			h.open()
			h.clock.Set(h.clock.Now() + day)
			now := h.s.now()
			for i := range keys {
				h.set(fmt.Sprint("k", i), hour+int64(i), false)
			}
			h.hash(h.s.Key(0, []byte("h")), func(x *Txn, v *Hash) {
				v.Set([]byte("f"), []byte("v"), ttl.In(now+hour))
			})
			h.s.Manual().KeepClock()
			h.commit()
			failAt.Store(int64(stop))
			err := h.s.ConfirmClock()
			reached = ops.Load() >= int64(stop)
			h.cutPower(seed)
			failAt.Store(0)
			h.open()
			moved := int64(0)
			if h.s.ClockGuard().Since == 0 {
				moved, confirmed = day, confirmed+1
			} else {
				not++
			}
			if err == nil && moved == 0 {
				t.Errorf("stop %d: the confirmation was replied, and is forgotten", stop)
			}
			h.isAhead(fmt.Sprint("stop ", stop), day-moved)
			for i := range keys {
				if got, want := h.due(fmt.Sprint("k", i), ""),
					now+moved+hour+int64(i); got != want {
					t.Fatalf("stop %d: key %d is due at %d, want %d", stop, i, got-now, want-now)
				}
			}
			if got := h.due("h", "f"); got != now+moved+hour {
				t.Fatalf("stop %d: the field is due at %d", stop, got-now)
			}
			if moved == 0 {
				if err := h.s.ConfirmClock(); err != nil {
					t.Fatal(err)
				}
				if got := h.due("k0", ""); got != now+day+hour {
					t.Errorf("stop %d: then it is confirmed, and a key is due at %d", stop, got-now)
				}
			}
			h.check()
			_ = h.s.Close(false)
		}
	}
	if confirmed == 0 || not == 0 {
		t.Errorf("%d times it was confirmed, %d times not", confirmed, not)
	}
}

// A store that has too many deadlines to note reports that, and moves only the deadlines that it
// has noted.
func TestClockGuardBound(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	const keys = 100
	h.s.bounds.notes = 20
	h.clock.Set(h.clock.Now() + 24*hour)
	for i := range keys {
		h.set(fmt.Sprint("k", i), 48*hour, false)
	}
	now := h.s.now()
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	var moved int64
	for i := range keys {
		if h.due(fmt.Sprint("k", i), "") == now+72*hour {
			moved++
		}
	}
	if c := h.s.ClockGuard(); moved != 20 || c.Moved != moved || c.Unmoved != keys-moved {
		t.Errorf("%d moved: %+v", moved, c)
	}
}

// Deadlines that have passed make room for the notes of others, and do not count as expired
// elements.
func TestClockGuardNotesGo(t *testing.T) {
	h := guardedHarness(t, 10*time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.s.bounds.notes = 20
	h.clock.Set(h.clock.Now() + 24*hour)
	for i := range 200 {
		h.set(fmt.Sprint("k", i), minute, false)
		h.clock.Advance(time.Minute)
		if i%2 == 0 {
			h.s.Reap()
		}
	}
	if c := h.s.ClockGuard(); c.Unmoved != 0 || h.s.Stats().ExpiredElements != 0 {
		t.Errorf("%+v, %d elements expired", c, h.s.Stats().ExpiredElements)
	}
	h.check()
}

// A transaction has one instant, even if the guard begins in the middle of it. Deadlines that the
// transaction sets from this instant move.
func TestClockGuardAmidTransaction(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	k, other := h.s.Key(0, []byte("k")), h.s.NewTxn()
	var now int64
	h.do(func(x *Txn) {
		now = x.Now()
		h.clock.Set(h.clock.Now() + 24*hour)
		if h.s.now() != now || h.s.ClockGuard().Since == 0 {
			t.Error("time is not guarded")
		}
		if x.Now() != now || x.Micros() < now*1000 || x.Micros() > now*1000+999 {
			t.Errorf("the transaction's instant is %d ms and %d µs later", x.Now()-now,
				x.Micros()-now*1000)
		}
		x.SetString(k, []byte("v"), ttl.In(now+hour), eventSet)
	}, k)
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	h.s.BeginAll(other)
	if other.Now() != now+24*hour {
		t.Errorf("the next one's instant is %d ms later", other.Now()-now)
	}
	other.End()
	if got := h.due("k", ""); got != now+25*hour {
		t.Errorf("the key is due %d ms later", got-now)
	}
	h.check()
}

// A task read the time while it was guarded, and stores a large value beside the loop after the
// step was confirmed. It must run again.
func TestClockConfirmBesideTask(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.clock.Set(h.clock.Now() + 24*hour)
	k, task, pins := h.s.Key(0, []byte("k")), h.s.NewTxn(), &Pins{}
	if !h.s.Begin(h.txn, []Key{k}) {
		t.Fatal("not in memory")
	}
	pins.Pin(h.txn, []Key{k}, task)
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	due := task.Now() + hour
	task.SetString(k, make([]byte, 2<<20), ttl.In(due), eventSet)
	if !task.Conflicted() {
		t.Error("it stored a value that was due when it was stored")
	}
	task.End()
	pins.Unpin(task)
	h.check()
}

// A confirmation moves the deadlines of values that are being read beside the loop. Their readers
// keep seeing the old deadlines.
func TestClockConfirmBesideReaders(t *testing.T) {
	h := guardedHarness(t, time.Hour)
	defer func() { _ = h.s.Close(false) }()
	h.clock.Set(h.clock.Now() + 24*hour)
	now := h.s.now()
	k, task, pins := h.s.Key(0, []byte("h")), h.s.NewTxn(), &Pins{}
	h.hash(k, func(x *Txn, v *Hash) {
		v.Set([]byte("f"), []byte("v"), ttl.In(now+hour))
		v.Set([]byte("g"), []byte("v"), ttl.In(now+hour))
	})
	if !h.s.Begin(h.txn, []Key{k}) {
		t.Fatal("not in memory")
	}
	pins.Pin(h.txn, []Key{k}, task)
	if err := h.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	item, _ := task.Peek(k)
	if _, d, _ := item.Value().Element([]byte("f")); d != now+hour {
		t.Errorf("the task sees the deadline %d", d-now)
	}
	task.End()
	pins.Unpin(task)
	for _, f := range []string{"f", "g"} {
		if got := h.due("h", f); got != now+25*hour {
			t.Errorf("field %s is due at %d", f, got-now)
		}
	}
	h.check()
}

// Many clients set deadlines while a step is being confirmed. Afterwards each deadline is as far
// away as it was set. It either counts from guarded time and moves, or counts from the wall clock.
func TestClockConfirmBesideWriters(t *testing.T) {
	h := closedHarness(t)
	machine := &clock.Machine{}
	o := h.options()
	o.Clock, o.NoBackground, o.ClockJumpLimit, o.ClockJumpPatience = machine, false,
		10*time.Minute, time.Hour
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(false) }()
	const rounds, writers, keys, field = 20, 4, 200, "f"
	for round := range rounds {
		machine.Shift(machine.Now() - time.Now().UnixMilli() + 24*hour)
		if s.now(); s.ClockGuard().Since == 0 {
			t.Fatal("time is not guarded")
		}
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				x := s.NewTxn()
				for i := range keys {
					k := s.Key(0, fmt.Appendf(nil, "%d:%d:%d", round, w, i))
					if !s.Begin(x, []Key{k}) {
						t.Error("not in memory")
						return
					}
					due := x.Now() + hour
					if i%2 == 0 {
						x.SetString(k, []byte("v"), ttl.In(due), eventSet)
					} else if v, err := x.Hash(k); err == nil {
						v.Set([]byte(field), nil, ttl.In(due))
					}
					x.End()
				}
			})
		}
		await.Pass(time.Duration(round) * 100 * time.Microsecond)
		if err := s.ConfirmClock(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		now, x := s.now(), s.NewTxn()
		for w := range writers {
			for i := range keys {
				k := s.Key(0, fmt.Appendf(nil, "%d:%d:%d", round, w, i))
				if err := s.BeginBeside(x, []Key{k}); err != nil {
					t.Fatal(err)
				}
				due, _ := x.Deadline(k)
				if i%2 == 1 {
					due, _ = x.Members([]byte(field)).Deadline(k)
				}
				x.End()
				if left := due - now; left > hour || left < hour-10*minute {
					t.Fatalf("round %d: %d ms are left of the hour of %s", round, left, k.Name)
				}
			}
		}
	}
	if c := s.ClockGuard(); c.Moved == 0 || c.Moved == rounds*writers*keys {
		t.Errorf("%d deadlines moved", c.Moved)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// clockModel is a model of the store's time and of the keys' deadlines.
type clockModel struct {
	h                                        *harness
	lead                                     int64
	since                                    int64 // 0: time is not guarded
	newest                                   int64 // the store's time
	patience                                 int64
	keys                                     map[string]modelKey
	guards, moved, confirmed, backs, expired int
}

type modelKey struct {
	due      int64
	relative bool // it counts from guarded time
}

func (k modelKey) deadline() ttl.Deadline { return ttl.Deadline{At: k.due, FromNow: k.relative} }

// look updates the model from the clocks.
func (m *clockModel) look() {
	wall, boot := m.h.clock.Now(), m.h.clock.Boot()
	if m.since == 0 {
		m.lead = max(m.lead, m.newest-boot)
	}
	switch ahead := wall - boot - m.lead; {
	case ahead > testJump && m.since == 0:
		m.since = boot + m.lead
		m.guards++
	case ahead <= testJump:
		if m.since != 0 {
			m.backs++
			m.expire(max(m.newest, boot+m.lead)) // guarded time comes to where it stands first
		}
		m.since, m.lead = 0, wall-boot
		for name, k := range m.keys { // nobody moves them any more
			k.relative = false
			m.keys[name] = k
		}
	}
	now := boot + m.lead
	m.expire(max(m.newest, now))
	m.newest = now // what was due has gone by then
	if m.since != 0 && now-m.since >= m.patience {
		m.confirm()
	}
}

func (m *clockModel) expire(now int64) {
	for name, k := range m.keys {
		if k.due <= now {
			delete(m.keys, name)
			m.expired++
		}
	}
}

func (m *clockModel) confirm() {
	shift := m.h.clock.Now() - m.h.clock.Boot() - m.lead
	for name, k := range m.keys {
		if k.relative {
			m.keys[name] = modelKey{due: k.due + shift}
			m.moved++
		}
	}
	m.since = 0
	m.lead += shift
	m.newest += shift
	m.expire(m.newest)
	m.confirmed++
}

// step changes something about the machine, the store or its keys.
func (m *clockModel) step(rng *rand.Rand) {
	h := m.h
	span := time.Duration(rng.Int64N(20*minute)) * time.Millisecond
	switch rng.IntN(16) {
	case 0, 1:
		h.clock.Advance(span)
	case 2:
		h.clock.Suspend(span)
	case 3, 4:
		h.clock.Set(h.clock.Now() + rng.Int64N(2*testJump))
	case 5:
		h.clock.Set(h.clock.Now() + rng.Int64N(48*hour))
	case 6:
		h.clock.Set(h.clock.Now() - 2*clockguard.StepTolerance - rng.Int64N(24*hour))
	case 7:
		h.clock.Set(h.clock.Boot() + m.lead + rng.Int64N(testJump)) // back to about where it was
	case 8:
		if err := h.s.ConfirmClock(); (err == nil) != (m.since != 0) {
			h.t.Fatalf("confirmed: %v, guarded since %d", err, m.since)
		}
		if m.since != 0 {
			m.confirm()
		}
	case 9:
		h.again(true, func() { h.clock.Advance(span) })
	case 10:
		h.again(false, func() { h.clock.Set(h.clock.Now() + rng.Int64N(48*hour)) })
	case 11:
		at := h.s.guard.turn.written.At() // its record is at most a second old
		h.again(rng.IntN(2) == 0, func() { h.clock.Reboot(span) })
		if m.since != 0 {
			m.lead = at
		} else {
			m.lead = h.clock.Now()
		}
		m.newest = 0
	case 12:
		h.saved()
		h.evict()
	default:
		name, k := fmt.Sprint("k", rng.IntN(12)), modelKey{relative: rng.IntN(2) == 0}
		k.due = m.newest + rng.Int64N(30*hour) + 1
		if key := h.s.Key(0, []byte(name)); rng.IntN(2) == 0 {
			h.do(func(x *Txn) { x.SetString(key, []byte("v"), k.deadline(), eventSet) }, key)
		} else {
			h.do(func(x *Txn) { x.Delete(key, Deleted) }, key)
			h.hash(key, func(x *Txn, v *Hash) { v.Set([]byte("f"), []byte("v"), k.deadline()) })
		}
		k.relative = k.relative && m.since != 0
		m.keys[name] = k
	}
}

// TestClockGuardModel: whatever the clocks, the machine and the server do, the store's time, the
// existing keys and their deadlines agree with a small model.
func TestClockGuardModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	var sum clockModel
	for range 20 {
		h := guardedHarness(t, 3*time.Hour)
		m := &clockModel{h: h, patience: 3 * hour, lead: h.clock.Now() - h.clock.Boot(),
			keys: map[string]modelKey{}}
		for i := range 60 {
			m.step(rng)
			m.look()
			for range 2 { // the clock may be further back than the guarded time
				h.s.Manual().AwaitClock()
				h.s.Manual().KeepClock()
			}
			if got := h.s.now(); got != m.newest {
				t.Fatalf("step %d: the store's time is %d, want %d more", i, got, m.newest-got)
			}
			for n := range 12 {
				name := fmt.Sprint("k", n)
				got := max(h.due(name, ""), h.due(name, "f"))
				if want := m.keys[name].due; got != want {
					t.Fatalf("step %d: %s is due at %d, want %d; the time is %d, guarded since %d",
						i, name, got, want, m.newest, m.since)
				}
			}
		}
		h.check()
		_ = h.s.Close(false)
		sum.guards, sum.moved, sum.confirmed, sum.backs, sum.expired = sum.guards+m.guards,
			sum.moved+m.moved, sum.confirmed+m.confirmed, sum.backs+m.backs, sum.expired+m.expired
	}
	t.Logf("time was guarded %d times, %d times confirmed, %d times the clock went back; %d deadlines moved, %d keys expired",
		sum.guards, sum.confirmed, sum.backs, sum.moved, sum.expired)
	if sum.guards == 0 || sum.moved == 0 || sum.backs == 0 || sum.expired == 0 {
		t.Error("that is too little")
	}
}

// BenchmarkClockConfirm confirms a step that moves a million deadlines, in memory or only on disk.
func BenchmarkClockConfirm(b *testing.B) {
	for _, evicted := range []bool{false, true} {
		b.Run(fmt.Sprint("evicted=", evicted), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				h := guardedHarness(b, time.Hour)
				h.clock.Set(h.clock.Now() + 24*hour)
				for i := range 1_000_000 {
					h.set(fmt.Sprint("session:", i), hour+int64(i), false)
				}
				if evicted {
					h.saved()
					h.evict()
				}
				b.StartTimer()
				if err := h.s.ConfirmClock(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(h.s.ClockGuard().Moved), "moved")
				_ = h.s.Close(false)
				b.StartTimer()
			}
		})
	}
}

// TestClockLooksOnceMore: the guard's end checks the clock again, as an earlier look may be
// outdated. While the wall clock is apart, only a confirmation makes time follow it.
func TestClockLooksOnceMore(t *testing.T) {
	for _, ms := range []int64{hour, 11 * minute} {
		h := guardedHarness(t, time.Hour*24)
		h.set("k", 10*minute, false)
		h.clock.Set(h.clock.Now() + ms)
		h.isAhead("a step", ms)
		g := &h.s.guard
		g.turn.Lock()
		g.end(false)
		g.turn.Unlock()
		h.isAhead("who looked before", ms)
		h.s.Manual().KeepClock()
		h.isAhead("after a round of housekeeping", ms)
		h.lives("guarded", "k", true)
		if got := g.moved.Load(); got != 0 {
			t.Errorf("%d deadlines moved", got)
		}
		if err := h.s.ConfirmClock(); err != nil {
			t.Error(err)
		}
		h.isAhead("confirmed", 0)
		_ = h.s.Close(false)
	}
}
