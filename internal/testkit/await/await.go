// Package await is how tests wait. What they wait for is a condition, and one bound ends every
// wait without result: so long that a machine with much else to do meets it, so that only what
// never comes fails a test. Nothing else in tests sleeps or sets a limit of time
// (internal/layout enforces that).
package await

import (
	"context"
	"runtime"
	"testing"
	"time"
)

const (
	// Bound ends every wait: over ten times what anything takes on a quiet machine.
	Bound = 3 * time.Minute
	// pollMost is the longest pause between two looks; the first ones are shorter.
	pollMost = 2 * time.Millisecond
)

// Failer is what a failed wait needs of a test, of testing.TB or of *rapid.T.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Until asks done again and again until it says yes. When the bound passes before, the test
// fails with what it waited for and with all stacks: they show whether something is blocked.
func Until(t Failer, what string, done func() bool) {
	t.Helper()
	if !Reached(done) {
		fail(t, what)
	}
}

// Reached is Until for a caller that reports itself that the bound has passed.
func Reached(done func() bool) bool {
	end := time.Now().Add(Bound)
	for pause := pollMost / 64; !done(); pause = min(2*pause, pollMost) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// For receives from c, which may also be closed. When nothing comes the test fails as Until's.
func For[T any](t Failer, what string, c <-chan T) T {
	t.Helper()
	v, _ := Next(t, what, c)
	return v
}

// Next is For, and says whether the value was sent: ok is false when c is closed.
func Next[T any](t Failer, what string, c <-chan T) (v T, ok bool) {
	t.Helper()
	timer := time.NewTimer(Bound)
	defer timer.Stop()
	select {
	case v, ok = <-c:
		return v, ok
	case <-timer.C:
		fail(t, what)
		return v, false
	}
}

func fail(t Failer, what string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	t.Fatalf("not within %v: %s\n%s", Bound, what, stacks)
}

// Over receives once the bound has passed, for a select that waits for several things.
func Over() <-chan time.Time { return time.After(Bound) }

// Context ends with the bound, and with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	t.Cleanup(cancel)
	return ctx
}

// Hurried gives a context that ends after d, for clients that give up early. It is no bound:
// what a test expects then is the context's end.
func Hurried(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Pass lets time pass. It is for tests about time itself: a real server's clock
// reaches a deadline, or an event comes at a moment that is drawn at random. Whatever a test
// expects afterwards holds however much longer it took.
func Pass(d time.Duration) { time.Sleep(d) }

// PassUntil is Pass until an instant.
func PassUntil(at time.Time) { time.Sleep(time.Until(at)) }
