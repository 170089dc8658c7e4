package server

import (
	"testing"

	"keyp/internal/testkit/await"
)

// TestWaitsTakeNoPlace: commands that wait for the log or for a time (WAITAOF, DEBUG SLEEP) do not
// count as tasks, that is commands that run on another goroutine than the event loop's. However
// many such commands wait, a task begins at once.
func TestWaitsTakeNoPlace(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	slowDisk(t, ts, d)
	release := d.hold()
	writer, c := ts.dial(), ts.dial()
	writer.send("SET a 1\n")
	await.Until(t, "the write has run", func() (ran bool) {
		ts.onLoop(func(l *loop) { ran = l.log.End() > l.log.Durable() })
		return ran
	})
	var waits, sleeps []*client
	for _, n := range []int{maxUnlocked + 1, 100} {
		for len(waits) < n {
			waits = append(waits, ts.blocks("WAITAOF 1 0 0"))
			sleeps = append(sleeps, ts.blocks("DEBUG SLEEP 3600"))
		}
		if got := c.do("MEMORY PURGE"); got != "+OK" {
			t.Errorf("beside %d who wait: %s", n, got)
		}
		ts.onLoop(func(l *loop) {
			if l.tasks.count > 0 {
				t.Errorf("%d tasks", l.tasks.count)
			}
		})
	}
	timed := ts.dial()
	timed.send("WAITAOF 1 0 1\nPING\n")
	timed.expect("*2 :0 :0", "+PONG")
	unblocked := sleeps[0]
	ts.onLoop(func(l *loop) {
		for _, s := range l.sessions {
			if s != nil && s.client.Addr == unblocked.LocalAddr().String() {
				s.Unblock(true)
			}
		}
	})
	unblocked.expect("-UNBLOCKED client unblocked via CLIENT UNBLOCK")
	_ = waits[0].Close()
	release()
	for _, w := range waits[1:] {
		w.expect("*2 :1 :0")
	}
	writer.expect("+OK")
	waitBlocked(ts, len(sleeps)-1)
	ts.onLoop(func(l *loop) {
		if len(l.unsettled) > 0 || l.settles {
			t.Errorf("%d wait for the log, which has settled: %v", len(l.unsettled), l.settles)
		}
	})
}
