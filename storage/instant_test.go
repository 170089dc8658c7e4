package storage

import (
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/storage/clockguard"
)

// The instant of a transaction in microseconds stays the same until its end, whatever the clock
// does. It is within the millisecond that the transaction uses for deadlines.
func TestMicros(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	a := h.s.Key(0, []byte("a"))
	from := h.clock.Now() * 1000
	micros := func(before time.Duration, step func(), want int64) {
		t.Helper()
		h.clock.Advance(before)
		h.do(func(x *Txn) {
			step()
			first := x.Micros() - from
			h.clock.Advance(200 * time.Microsecond)
			if again := x.Micros() - from; first != want || again != want {
				t.Errorf("microseconds %d, then %d; want %d", first, again, want)
			}
		}, a)
	}
	none := func() {}
	micros(0, none, 0)
	micros(0, none, 200)
	micros(100*time.Microsecond, none, 500)
	micros(0, func() { h.clock.Advance(5 * time.Millisecond) }, 999)
	micros(0, none, 5900)
	micros(0, func() { h.clock.Set(from/1000 - 1000) }, 6000)
}

// steppingClock steps back right after its first reading, and the store's time follows this step.
type steppingClock struct {
	*clock.Fake
	stepped func() // nil: it has
}

func (c *steppingClock) Now() int64 {
	wall := c.Fake.Now()
	if stepped := c.stepped; stepped != nil {
		c.stepped = nil
		stepped()
	}
	return wall
}

// TestStaleReadingMovesNoInstant: a clock reading from before a step back does not move time
// forward again. Otherwise keys would expire early.
func TestStaleReadingMovesNoInstant(t *testing.T) {
	c := &steppingClock{Fake: clock.NewFake(6000)}
	s := &Store{clock: c}
	s.guard.Init(clockguard.Options{Clock: c, Newest: s.instant.Load})
	s.guard.SteppedBack() // from here on it follows the wall clock
	s.instant.Store(5000)
	c.stepped = func() {
		c.Fake.Set(1000)
		s.instant.Store(1000)
	}
	if got := s.now(); got != 1000 {
		t.Errorf("the instant is %d, want 1000", got)
	}
}
