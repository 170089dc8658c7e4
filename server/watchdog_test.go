package server

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestWatchdog: the server logs what blocks the loop.
func TestWatchdog(t *testing.T) {
	ts := start(t, func(l *loop) { l.seams.watchdogPause = 10 * time.Millisecond })
	release := make(chan struct{})
	ts.loop.box.post(func() { heldUpBy(release) })
	await.Until(t, "the report", func() bool {
		return strings.Contains(ts.log.String(), "server.heldUpBy")
	})
	close(release)
	await.Until(t, "the end of the standstill", func() bool {
		return strings.Contains(ts.log.String(), "the event loop continues")
	})
}

//go:noinline
func heldUpBy(c chan struct{}) { <-c }

// TestWatchdogReportsOnce: a standstill of the loop is reported once, and the next one only after
// some time. A loop that sleeps or makes progress is never reported.
func TestWatchdogReportsOnce(t *testing.T) {
	log := &testkit.Output{}
	l := &loop{o: &Options{Log: slog.New(slog.NewTextHandler(io.Writer(log), nil))},
		seams: seams{watchdogPause: watchdogPause}}
	l.box.asleep.Store(true)
	w := &l.watchdog
	looks := func(n int, before func()) {
		for range n {
			before()
			w.look(l)
		}
	}
	reports := func(want int, when string) {
		t.Helper()
		if n := strings.Count(log.String(), "is stuck"); n != want {
			t.Errorf("%d reports %s, not %d", n, when, want)
		}
	}
	looks(20, func() {})
	reports(0, "of a loop that sleeps")
	l.box.asleep.Store(false)
	looks(20, func() {})
	reports(1, "of a standstill")
	looks(3, func() { w.passes.Add(1) })
	looks(20, func() {})
	reports(1, "of two standstills, one soon after the other")
	looks(hangSilence, func() { w.passes.Add(1) })
	looks(20, func() {})
	reports(2, "of three standstills")
	if !strings.Contains(log.String(), "continues") {
		t.Error("the end of a standstill is not reported")
	}
}
