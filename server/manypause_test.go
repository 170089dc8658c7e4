package server

import (
	"fmt"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// TestPauseBesideManyKeys: once CLIENT PAUSE has replied, nothing of a command that writes very many keys comes, also if
// its job has begun, or waits in queue; it runs when the pause has ended.
func TestPauseBesideManyKeys(t *testing.T) {
	runs, end := make(chan struct{}, maxUnlocked), make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("LOLWUT"))
		spec.Scope = commands.Unlocked
		spec.Run = func(c *commands.Ctx) error {
			runs <- struct{}{}
			<-end
			c.Out.OK()
			return nil
		}
	})
	for range maxUnlocked {
		ts.dial().send("LOLWUT\n")
		await.For(t, "the job runs", runs)
	}
	writer, other := ts.dial(), ts.dial()
	call := []string{"MSET"}
	for i := range 10_000 {
		call = append(call, fmt.Sprint("key:", i), "v")
	}
	writer.raw(multibulk(call...))
	await.Until(t, "the job waits", func() (ok bool) {
		ts.onLoop(func(l *loop) { ok = len(l.jobs.queue) == 1 })
		return ok
	})
	if got := other.do("CLIENT PAUSE 1000000 WRITE"); got != "+OK" {
		t.Fatal(got)
	}
	close(end)
	await.Until(t, "the jobs end", func() (ok bool) {
		ts.onLoop(func(l *loop) { ok = l.jobs.count == 0 })
		return ok
	})
	if got := other.do("DBSIZE"); got != ":0" {
		t.Errorf("while CLIENT PAUSE delays writes, there come keys: %s", got)
	}
	other.do("CLIENT UNPAUSE")
	writer.expect("+OK")
}
