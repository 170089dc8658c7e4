// Package await contains the ways in which tests wait. A test waits for a condition, and one bound
// ends every wait without result. The bound is so long that even a busy machine meets it, so a test
// fails only if the condition never holds. Nothing else in tests sleeps or sets a limit of time
// (internal/layout checks that).
package await

import (
	"context"
	"runtime"
	"testing"
	"time"
)

const (
	// Bound is the limit of every wait: over ten times the longest wait on a quiet machine.
	Bound = 3 * time.Minute
	// pollMost is the longest pause between two checks; the first ones are shorter.
	pollMost = 2 * time.Millisecond
)

// Failer is the part of testing.TB and *rapid.T that a failed wait needs.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Until calls done again and again until it returns true. After Bound the test fails with the text
// what, and with all stacks: they show whether something is blocked.
func Until(t Failer, what string, done func() bool) {
	t.Helper()
	if !Reached(done) {
		fail(t, what)
	}
}

// Reached is like Until, but returns false after Bound instead of failing the test.
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

// For receives from c, which may also be closed. If nothing comes, the test fails as in Until.
func For[T any](t Failer, what string, c <-chan T) T {
	t.Helper()
	v, _ := Next(t, what, c)
	return v
}

// Next is like For, but also returns ok, which is false if c is closed.
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

// Over returns a channel that receives after Bound, for a select that waits for several things.
func Over() <-chan time.Time { return time.After(Bound) }

// Context returns a context that ends after Bound, and with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	t.Cleanup(cancel)
	return ctx
}

// Hurried returns a context that ends after d, for clients that give up early. It is no bound: the
// test expects the context's end.
func Hurried(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Pass lets time pass. It is for tests about time itself: a real server's clock reaches a deadline,
// or an event comes at a random moment. The later checks of such a test must hold even if Pass
// takes longer.
func Pass(d time.Duration) { time.Sleep(d) }

// PassUntil is like Pass, until an instant.
func PassUntil(at time.Time) { time.Sleep(time.Until(at)) }
