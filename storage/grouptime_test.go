package storage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"keyp/storage/clockguard"
	"keyp/ttl"
)

const hourMs = int64(time.Hour / time.Millisecond)

// groupMember makes the store of a group's leading member, with a clock guard as in a server.
func groupMember(t testing.TB) *harness {
	h, _ := memberHarness(t)
	h.jumpLimit, h.jumpPatience = 10*time.Minute, time.Hour
	h.open()
	h.s.Manual().KeepClock()
	t.Cleanup(func() { _ = h.s.Close(false) })
	return h
}

// timeIs expects the store's time, in ms after the instant start.
func (h *harness) timeIs(when string, start, want int64) {
	h.t.Helper()
	if got := h.s.Now() - start; got != want {
		h.t.Errorf("%s: the store's time is %d, want %d", when, got, want)
	}
}

// step moves the wall clock by a number of ms.
func (h *harness) step(ms int64) { h.clock.Set(h.clock.Now() + ms) }

// TestGroupTimeFollower: a follower's time is the last one that its leader has sent, plus the boot
// time since, whatever the follower's wall clock does. A key is gone by that time, not earlier.
func TestGroupTimeFollower(t *testing.T) {
	for _, off := range []int64{0, 3 * hourMs, -3 * hourMs} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			h := groupMember(t)
			start := h.clock.Now()
			h.puts(0, "k", "v", start+hourMs)
			h.s.SetFollower(true)
			h.step(off)
			h.timeIs("the leader has sent nothing yet", start, 0)
			h.s.FollowTime(start + 10)
			h.timeIs("heard", start, 10)
			h.clock.Advance(time.Second)
			h.timeIs("a second later", start, 1010)
			h.s.FollowTime(start + 1000) // it took longer
			h.timeIs("a late message", start, 1010)
			h.step(-2 * off)
			h.clock.Advance(10 * time.Millisecond)
			h.timeIs("its clock steps", start, 1010)
			h.clock.Advance(time.Hour - 1011*time.Millisecond)
			h.lives("a millisecond before", "k", true)
			h.clock.Advance(time.Millisecond)
			h.lives("in the end", "k", false)
			if c := h.s.ClockGuard(); c.Since != 0 || c.Ahead != c.Wall-c.Now ||
				max(c.Ahead+off, -c.Ahead-off) > 1000 {
				t.Errorf("a follower shows %+v, and its clock is %d ms ahead", c, -off)
			}
		})
	}
}

// TestGroupTimeStarts: a member that has heard of no leader yet uses its wall clock. The leader's
// time counts as soon as it arrives, and keys that were hidden before are visible again.
func TestGroupTimeStarts(t *testing.T) {
	h := groupMember(t)
	start := h.clock.Now()
	k := h.s.Key(0, []byte("h"))
	h.puts(0, "k", "v", start+hourMs)
	h.hash(k, func(_ *Txn, v *Hash) {
		v.Set([]byte("f"), []byte("1"), ttl.At(start+hourMs))
		v.Set([]byte("g"), []byte("2"), ttl.Deadline{})
	})
	h.saved()
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	h.follower = true
	h.open()
	h.step(2 * hourMs)
	h.lives("nobody was heard", "k", false)
	if got := h.fieldNames(k); !slices.Equal(got, []string{"g"}) {
		t.Errorf("before anybody was heard the hash has %q", got)
	}
	if at, known := h.s.GroupTime(); known {
		t.Errorf("the group's time is known as %d before anybody was heard", at-start)
	}
	h.s.AdviseTime(start + 4)
	h.s.background.Wait()
	h.timeIs("advised", start, 4)
	h.s.AdviseTime(start + 5)
	h.timeIs("advised again", start, 4)
	h.s.FollowTime(start + 6)
	h.timeIs("heard", start, 6)
	h.lives("heard", "k", true)
	if got := h.fieldNames(k); !slices.Equal(got, []string{"f", "g"}) {
		t.Errorf("when the leader was heard the hash has %q", got)
	}
	// A late message, sent before the leader's time was set back, is corrected by the next one.
	h.s.FollowTime(start + 2*hourMs)
	h.lives("a wrong message", "k", false)
	h.s.FollowTime(start + 7)
	h.s.Manual().KeepClock()
	h.s.Manual().KeepClock()
	h.timeIs("two rounds of housekeeping later", start, 7)
	h.lives("two rounds of housekeeping later", "k", true)
}

// TestGroupTimeLeads: a member that becomes the leader continues the group's time, whatever its
// wall clock shows. A key lives as long as it was given, within a tolerance of a second, and its
// expiry has one entry.
func TestGroupTimeLeads(t *testing.T) {
	for _, c := range []struct{ off, error int64 }{{0, 0}, {700, -700}, {-700, 0}, {5000, 0},
		{-5000, 0}, {3 * hourMs, 0}, {-3 * hourMs, 0}} {
		t.Run(fmt.Sprint(c.off), func(t *testing.T) {
			h := groupMember(t)
			start := h.clock.Now()
			h.record(true)
			h.puts(0, "k", "v", start+hourMs)
			h.s.SetFollower(true)
			h.step(c.off)
			h.s.FollowTime(start)
			h.clock.Advance(time.Second)
			h.s.SetFollower(false)
			h.s.Manual().AwaitClock()
			h.timeIs("leads", start, 1000+max(0, -c.error))
			if guarded := h.s.ClockGuard().Since != 0; guarded != (max(c.off,
				-c.off) > clockguard.StepTolerance) {
				t.Errorf("time is guarded: %t", guarded)
			}
			h.s.HoldClock(true)
			for range 50 {
				h.clock.Advance(time.Minute)
				h.restless()
			}
			h.lives("with time left", "k", true)
			left := start + hourMs - h.s.Now()
			h.clock.Advance(time.Duration(left-1) * time.Millisecond)
			h.restless()
			h.lives("a millisecond before", "k", true)
			h.clock.Advance(time.Millisecond)
			h.restless()
			h.lives("in the end", "k", false)
			h.wantRecorded("leader", fmt.Sprintf("key=k type=string deadline=%d value=v", hourMs))
			if lived := h.clock.Boot(); lived < hourMs-1000 || lived > hourMs+1000 {
				t.Errorf("the key lived for %d ms, want an hour", lived)
			}
			h.commit()
			h.check()
		})
	}
}

// TestGroupTimeGuard: the guard of a leader whose clock is wrong ends in three ways: the clock
// becomes right, an operator confirms it, or nobody's clock agrees with the group's time for the
// whole patience.
func TestGroupTimeGuard(t *testing.T) {
	for _, off := range []int64{3 * hourMs, -3 * hourMs} {
		lead := func(t *testing.T) (h *harness, start int64) {
			h = groupMember(t)
			start = h.clock.Now()
			h.puts(0, "soon", "v", start+hourMs/2)
			h.puts(0, "later", "v", start+9*hourMs)
			h.s.SetFollower(true)
			h.step(off)
			h.s.FollowTime(start)
			h.s.SetFollower(false)
			h.s.Manual().KeepClock()
			h.timeIs("leads", start, 0)
			return h, start
		}
		t.Run(fmt.Sprint(off, " right"), func(t *testing.T) {
			h, start := lead(t)
			h.step(-off + 300)
			h.s.Manual().KeepClock()
			h.s.Manual().AwaitClock()
			h.timeIs("right", start, 300)
			if h.s.ClockGuard().Since != 0 {
				t.Error("time is still guarded")
			}
		})
		ended := func(h *harness) {
			h.t.Helper()
			h.s.Manual().AwaitClock()
			if got := h.s.Now(); got != h.clock.Now() || h.s.ClockGuard().Since != 0 {
				h.t.Errorf("time is %d ms behind the wall clock", h.clock.Now()-got)
			}
			h.lives("ended", "soon", off < 0 && h.clock.Boot() < hourMs/2)
			h.lives("ended", "later", true)
		}
		t.Run(fmt.Sprint(off, " confirmed"), func(t *testing.T) {
			h, _ := lead(t)
			if err := h.s.ConfirmClock(); err != nil {
				t.Fatal(err)
			}
			ended(h)
		})
		t.Run(fmt.Sprint(off, " patience"), func(t *testing.T) {
			h, start := lead(t)
			h.s.HoldClock(true)
			h.clock.Advance(2 * time.Hour)
			h.s.Manual().KeepClock()
			h.timeIs("held", start, 2*hourMs)
			if c := h.s.ClockGuard(); c.Patience != -1 {
				t.Errorf("while another member agrees patience lasts for %d ms", c.Patience)
			}
			h.s.HoldClock(false)
			h.s.Manual().KeepClock()
			ended(h)
		})
	}
}

// TestGroupTimeSetBack: a leader whose wall clock is set back continues by boot time, and so does
// the next leader. A server without a group would go back.
func TestGroupTimeSetBack(t *testing.T) {
	h := groupMember(t)
	start := h.clock.Now()
	h.puts(0, "k", "v", start+hourMs)
	h.step(-2 * hourMs)
	h.timeIs("at once", start, 0)
	h.clock.Advance(time.Minute)
	h.timeIs("a minute later", start, 60_000)
	h.restless()
	h.s.SetFollower(true)
	h.timeIs("deposed", start, 60_000)
	h.clock.Advance(time.Minute)
	h.timeIs("deposed, a minute later", start, 120_000)
	h.s.SetFollower(false)
	h.clock.Advance(58*time.Minute - time.Millisecond)
	h.restless()
	h.lives("a millisecond before", "k", true)
	h.clock.Advance(time.Millisecond)
	h.restless()
	h.lives("in the end", "k", false)
	h.commit()
	h.check()
}
