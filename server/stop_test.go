package server

import (
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// TestStopEndsScript: the server stops while one script runs and a second script waits for the
// first. It ends both scripts before the time for a stop is up, although neither has reached
// busy-reply-threshold. So the stop is clean.
func TestStopEndsScript(t *testing.T) {
	ts := start(t, neverGiveUp) // an hour
	first, second := ts.dial(), ts.dial()
	first.raw(multibulk("EVAL", "while true do end", "0"))
	await.Until(t, "the script has its task", func() (runs bool) {
		ts.onLoop(func(l *loop) { runs = l.tasks.global != nil })
		return runs
	})
	second.raw(multibulk("EVAL", "while true do end", "0"))
	ts.waiting(1)
	ts.stop()
	await.Until(t, "the server begins to stop", func() (stopping bool) {
		ts.onLoop(func(l *loop) { stopping = l.stopping })
		return stopping
	})
	ts.onLoop(func(l *loop) { l.hurry() })
	for _, c := range []*client{first, second} {
		got := c.reply()
		if got[0] != '-' || !strings.Contains(got, "Script killed by user") {
			t.Errorf("the script ends with %q", got)
		}
	}
	if err := await.For(t, "the server stops", ts.done); err != nil {
		t.Errorf("the stop: %v", err)
	}
	ts.done <- nil
}
