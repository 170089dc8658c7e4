package linear

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// These tests set the clock of the servers forward and back, so it is ahead of or behind the test's
// own clock. The models use the servers' clock. So the test converts the times of each request and
// reply. If the clock is set between the two, the operation may have run at any time from the
// earlier reading to the later one. A deadline that passes before the clock is set back stays
// passed, even if no client saw that.

// regime is a span of the test's time during which the servers' clock is offset ms ahead of the
// machine's. Between two regimes the clock steps.
type regime struct {
	from, to time.Time // the last one has no end
	offset   int64
}

// clock lists the regimes of the servers' clock during a history, in order.
type clock []regime

// reached returns the latest instant that the clock can have shown from the regime first to the
// step before the regime last.
func (c clock) reached(first, last int) (ms int64) {
	for i := first; i < last; i++ {
		ms = max(ms, c[i+1].from.UnixMilli()+max(c[i].offset, c[i+1].offset))
	}
	return ms
}

// span is the first and the last regime that an operation may have run in.
type span struct {
	clock       clock
	first, last int
}

// moment is an instant of a model. Later operations of its regime happen at or after now.
type moment struct {
	now    int64
	regime int
}

// earliest is the first instant at which a call can run.
func (m moment) earliest(c call) int64 {
	if c.first != c.last || c.last != m.regime {
		return c.from
	}
	return max(c.from, m.now)
}

// passed returns the latest instant that the clock may have shown between the moment and a call. It
// returns 0 if the clock was not stepped between them.
func (m moment) passed(c call) int64 {
	if c.last <= m.regime {
		return 0
	}
	return c.clock.reached(m.regime, c.last)
}

// next returns the moment after a call that ran at from or later.
func (m moment) next(c call, from int64) moment {
	if c.first != c.last {
		from = 0
	}
	return moment{from, max(m.regime, c.first)}
}

// offset returns how many ms the servers' clock is ahead now.
func (r *recorder) offset() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.regimes) == 0 {
		return 0
	}
	return r.regimes[len(r.regimes)-1].offset
}

// step calls do, which steps the clock, and records the step. Operations that returned before began
// see the old offset only. Operations that start after do has returned see the new offset only.
func (r *recorder) step(began time.Time, offset int64, do func()) {
	r.mu.Lock()
	if len(r.regimes) == 0 {
		r.regimes = clock{{from: r.began}}
	}
	r.regimes[len(r.regimes)-1].to = began
	r.mu.Unlock()
	do()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.regimes = append(r.regimes, regime{from: time.Now(), offset: offset})
}

// place converts the times of all operations to the servers' clock.
func (r *recorder) place() {
	for i := range r.history {
		c := r.history[i].Input.(call)
		r.during(&c, r.began.Add(time.Duration(r.history[i].Call)),
			r.began.Add(time.Duration(r.history[i].Return)))
		r.history[i].Input = c
	}
}

// during converts the times of a call to the servers' clock.
func (r *recorder) during(c *call, from, to time.Time) {
	if c.ledBy.is() {
		c.from, c.to = c.ledBy.from, c.ledBy.to
	}
	if len(r.regimes) == 0 {
		return
	}
	c.clock = r.regimes
	c.first, c.last = len(r.regimes)-1, 0
	for c.first > 0 && from.Before(r.regimes[c.first].from) {
		c.first--
	}
	for c.last < len(r.regimes)-1 && to.After(r.regimes[c.last].to) {
		c.last++
	}
	var least, most int64
	for i, g := range r.regimes[c.first : c.last+1] {
		if i == 0 || g.offset < least {
			least = g.offset
		}
		if i == 0 || g.offset > most {
			most = g.offset
		}
	}
	c.from, c.to = c.from+least, c.to+most
}

// The servers follow a step at once, so the models need not know the clock guard.
var steppedArgs = []string{"--clock-jump-limit", "0"}

// drawOffset returns another offset. The clock stands still for less than a second, or is set back
// or forward.
func drawOffset(rng *rand.Rand, offset int64) int64 {
	by := []int64{300, 5000, 3_700_000}[rng.IntN(3)]
	if rng.IntN(2) == 0 {
		by = -by
	}
	return offset + by
}

// stepClock steps the clock of a server while clients work.
func (r *recorder) stepClock(t *testing.T, s *testkit.Server, offset int64) {
	t.Helper()
	r.step(time.Now(), offset, func() { setClock(t, s, offset); followed(t, s, offset) })
}

func setClock(t *testing.T, s *testkit.Server, offset int64) {
	t.Helper()
	c := s.Client(2)
	defer c.Close()
	// A member may be starting again.
	await.Until(t, "the clock is set", func() bool {
		return c.Do(ctx, "DEBUG", "CLOCK-OFFSET", offset).Err() == nil
	})
}

// followed waits until a server's time follows its clock.
func followed(t *testing.T, s *testkit.Server, offset int64) {
	t.Helper()
	await.Until(t, "the server's time follows its clock", func() bool { return follows(s, offset) })
}

func follows(s *testkit.Server, offset int64) bool {
	c := s.Client(2)
	defer c.Close()
	got, err := c.Time(ctx).Result()
	return err == nil && got.UnixMilli() <= time.Now().UnixMilli()+offset
}

// steppedAt returns the arguments of a server whose clock is ahead by an offset.
func steppedAt(args []string, offset int64) []string {
	return append(slices.Clone(args), "--debug-clock-offset", fmt.Sprint(offset))
}

// TestDuring: an operation that overlaps a step may run at the instants of both clocks. Any other
// may run at those of one clock.
func TestDuring(t *testing.T) {
	began := time.UnixMilli(1000)
	after := func(ms int64) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	r := &recorder{began: began}
	r.regimes = clock{{began, after(100), 0}, {after(120), after(200), -50},
		{from: after(210), offset: 70}}
	for _, tt := range []struct {
		from, to, wantFrom, wantTo int64
		first, last                int
	}{
		{10, 20, 1010, 1020, 0, 0},
		{90, 100, 1090, 1100, 0, 0},
		{90, 101, 1040, 1101, 0, 1},
		{105, 110, 1055, 1110, 0, 1},
		{110, 130, 1060, 1130, 0, 1},
		{120, 130, 1070, 1080, 1, 1},
		{190, 300, 1140, 1370, 1, 2},
		{50, 300, 1000, 1370, 0, 2},
		{210, 300, 1280, 1370, 2, 2},
	} {
		op := porcupine.Operation{Input: call{from: 1000 + tt.from, to: 1000 + tt.to},
			Call: tt.from * 1e6, Return: tt.to * 1e6}
		r.history = []porcupine.Operation{op}
		r.place()
		c := r.history[0].Input.(call)
		if c.from != tt.wantFrom || c.to != tt.wantTo || c.first != tt.first || c.last != tt.last {
			t.Errorf("%d to %d: from %d to %d in %d to %d, want %+v", tt.from, tt.to, c.from, c.to,
				c.first, c.last, tt)
		}
	}
}
