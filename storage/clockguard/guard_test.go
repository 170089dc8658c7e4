package clockguard

import (
	"log/slog"
	"testing"
	"time"

	"keyp/internal/clock"
	_ "keyp/internal/testkit/setup"
)

const minute = 60_000

// guarded returns a Guard, its clock, and a counter of how often it began to distrust the clock. If
// the clock steps by more than ten minutes, the guard distrusts it for an hour.
func guarded(member bool, found func(*clock.Fake) Record) (*Guard, *clock.Fake, *int) {
	c, begun, newest := clock.NewFake(1_700_000_000_000), new(int), int64(0)
	g := &Guard{}
	g.Init(Options{Clock: c, Logger: slog.New(slog.DiscardHandler), Member: member,
		Limit: 10 * time.Minute, Patience: time.Hour, Newest: func() int64 { return newest },
		Begins: func() { *begun++ }})
	r := Record{}
	if found != nil {
		r = found(c)
	}
	g.Open(r)
	newest = g.Now()
	return g, c, begun
}

// A step forward beyond the limit makes the guard begin. Time then follows boot time. It follows
// the wall clock again when that is back, or when the step is accepted as right.
func TestGuard(t *testing.T) {
	g, c, begun := guarded(false, nil)
	c.Set(c.Now() + 10*minute)
	if got := g.Now(); got != c.Now() || g.Since() != 0 {
		t.Fatalf("a step of the limit: %d ms behind", c.Now()-got)
	}
	from := c.Now()
	c.Set(from + 10*minute + 1)
	c.Advance(time.Second)
	if got := g.Now(); got != from+1000 || g.Since() != from+1000 || *begun != 1 ||
		g.Ahead() != 10*minute+1 || g.Micros() != got*1000 {
		t.Fatalf("a step beyond: %d, since %d, ahead %d, begun %d", got-from, g.Since()-from,
			g.Ahead(), *begun)
	}
	if g.IsBack() || g.Over(g.Since(), g.Now()) || g.Left(g.Now()) != 60*minute {
		t.Errorf("back %t, over %t, left %d", g.IsBack(), g.Over(g.Since(), g.Now()),
			g.Left(g.Now()))
	}
	g.Hold(true)
	if at := g.Since() + 60*minute; g.Over(g.Since(), at) || g.Left(at) != -1 {
		t.Error("it ends while it is held")
	}
	g.Hold(false)
	if !g.Over(g.Since(), g.Since()+60*minute) {
		t.Error("patience has no end")
	}
	c.Set(from + 5*minute)
	g.Now()
	step := g.Step()
	if !g.IsBack() || !step.Back || step.By != 5*minute-1000 {
		t.Errorf("the clock is back: %t, %+v", g.IsBack(), step)
	}
	g.Follow(step, false)
	if got := g.Now(); got != c.Now() || g.Since() != 0 || g.Ahead() != 0 {
		t.Errorf("afterwards it is %d ms behind", c.Now()-got)
	}
}

// A member's guard begins also for a step back of more than a second.
func TestMemberStepsBack(t *testing.T) {
	for _, member := range []bool{false, true} {
		for _, back := range []int64{StepTolerance, StepTolerance + 1} {
			g, c, _ := guarded(member, nil)
			now := g.Now()
			c.Advance(2 * time.Second) // so that it looks again
			g.Now()
			c.Advance(2 * time.Second)
			c.Set(c.Now() - back)
			g.Now()
			if goes := g.GoesOn(); goes != (member && back > StepTolerance) {
				t.Errorf("member %t, %d ms back: goes on %t", member, back, goes)
			}
			if got := g.Now(); g.Since() != 0 && got != now+4000 {
				t.Errorf("guarded, it is %d, want 4000", got-now)
			}
		}
	}
}

// A record of the same run of the machine reveals a step made while the server was down. After a
// restart of the machine only the guarded time counts.
func TestRecord(t *testing.T) {
	first, c, _ := guarded(false, nil)
	c.Advance(time.Minute)
	first.Now()
	quiet := first.Record()
	c.Set(c.Now() + 24*60*minute)
	want := first.Now()
	r := first.Record()
	if parsed, err := Parse(r.Bytes()); err != nil || parsed != r || r.Near(quiet) || !r.Near(r) {
		t.Errorf("%+v is read as %+v, %v", r, parsed, err)
	}
	if _, err := Parse([]byte("x")); err == nil {
		t.Error("anything is a record")
	}
	open := func(found Record) (*Guard, int64) {
		g := &Guard{}
		g.Init(Options{Clock: c, Logger: slog.New(slog.DiscardHandler), Limit: 10 * time.Minute,
			Patience: time.Hour, Newest: func() int64 { return want }, Begins: func() {}})
		if got := g.Now(); got != want {
			t.Errorf("before it is opened the time is %d, want the newest", got-want)
		}
		g.Open(found)
		return g, g.Now()
	}
	c.Advance(time.Minute)
	for name, found := range map[string]Record{"guarded": r, "not guarded": quiet} {
		if g, now := open(found); now != want+minute || g.Since() == 0 {
			t.Errorf("%s, on the same run of the machine: %d ms, since %d", name,
				now-want, g.Since())
		}
	}
	c.Reboot(time.Minute)
	if g, now := open(r); now != want || g.Since() != r.since {
		t.Errorf("guarded, after a restart of the machine: %d ms, since %d", now-want, g.Since())
	}
	if g, now := open(quiet); now != c.Now() || g.Since() != 0 {
		t.Errorf("not guarded, after a restart of the machine: %d ms, since %d",
			now-c.Now(), g.Since())
	}
}
