package server

import (
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// TestMultiQueueLimit: queued commands count as input. So a client cannot make the server keep more
// of them than client-query-buffer-limit.
func TestMultiQueueLimit(t *testing.T) {
	ts := start(t, "client-query-buffer-limit=1mb")
	c := ts.dial()
	c.send("MULTI\n")
	c.expect("+OK")
	value := strings.Repeat("x", 100<<10)
	queued := 0
	for range 20 {
		if _, err := c.Write([]byte(multibulk("SET", "k", value))); err != nil {
			break
		}
		if c.reply() != "+QUEUED" {
			break
		}
		queued++
	}
	if queued < 8 || queued > 11 {
		t.Errorf("%d commands of 100 kB were queued", queued)
	}
	if got := ts.dial().do("EXISTS k"); got != ":0" {
		t.Errorf("EXISTS: %s", got)
	}
	if n := ts.env.Stats.QueryBufferLimit.Load(); n != 1 {
		t.Errorf("%d clients were cut", n)
	}
}

// TestMultiPublishes: messages that EXEC publishes are sent after its own reply, both from the loop
// and from a global task.
func TestMultiPublishes(t *testing.T) {
	ts := start(t)
	a, b := ts.dial(), ts.dial()
	b.do("SUBSCRIBE ch")
	a.do("HELLO 3")
	a.do("SUBSCRIBE ch")
	for _, with := range []string{"PING", "RANDOMKEY"} {
		a.send("MULTI\nPUBLISH ch hi\n" + with + "\nSET k 1\nEXEC\nPING\n")
		a.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED")
		if got := a.reply(); !strings.HasPrefix(got, "*3 :2 ") {
			t.Errorf("EXEC: %s", got)
		}
		a.expect(">3 message ch hi", "+PONG")
		b.expect("*3 message ch hi")
	}
}

// TestMultiLeaves: when a client leaves, its transaction and its watched keys are dropped.
func TestMultiLeaves(t *testing.T) {
	ts := start(t)
	a := ts.dial()
	a.send("WATCH k l\nMULTI\nSET k 1\n")
	a.expect("+OK", "+OK", "+QUEUED")
	b := ts.dial()
	if got := b.do("INFO clients"); !strings.Contains(got, "watching_clients:1\r\n") ||
		!strings.Contains(got, "total_watched_keys:2\r\n") {
		t.Error(got)
	}
	_ = a.Close()
	await.Until(t, "nobody watches", func() bool {
		return strings.Contains(b.do("INFO clients"), "watching_clients:0\r\n")
	})
	if got := b.do("EXISTS k"); got != ":0" {
		t.Errorf("EXISTS: %s", got)
	}
}

// TestStopWithScript: a stop does not wait for a script that has run for too long.
func TestStopWithScript(t *testing.T) {
	ts := start(t, "busy-reply-threshold=20", neverGiveUp)
	a, b := ts.dial(), ts.dial()
	a.raw(multibulk("EVAL", "while true do end", "0"))
	await.Until(t, "others are refused", func() bool {
		return strings.HasPrefix(b.do("PING"), "-BUSY")
	})
	b.send("SHUTDOWN NOSAVE\n")
	if err := await.For(t, "the server stops", ts.done); err != nil {
		t.Errorf("Run: %v", err)
	}
	ts.done <- nil
}
