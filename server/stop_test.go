package server

import (
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// TestStopEndsScript: a script that has run for less than busy-reply-threshold when the server is to stop, and goes on,
// is ended before the time for that is up, so the stop is a clean one.
func TestStopEndsScript(t *testing.T) {
	ts := start(t) // an hour
	c := ts.dial()
	c.raw(multibulk("EVAL", "while true do end", "0"))
	await.Until(t, "the script runs", func() (runs bool) {
		ts.onLoop(func(l *loop) { runs = l.jobs.global != nil })
		return runs
	})
	ts.stop()
	await.Until(t, "the server begins to stop", func() (stopping bool) {
		ts.onLoop(func(l *loop) { stopping = l.stopping })
		return stopping
	})
	ts.onLoop(func(l *loop) { l.hurry() })
	if got := c.reply(); !strings.HasPrefix(got, "-ERR Script killed by user") {
		t.Errorf("the script ends with %q", got)
	}
	if err := await.For(t, "the server stops", ts.done); err != nil {
		t.Errorf("the stop: %v", err)
	}
	ts.done <- nil
}
