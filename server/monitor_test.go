package server

import (
	"fmt"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// shown reads n lines of MONITOR and returns the commands.
func (c *client) shown(n int) (commands []string) {
	c.t.Helper()
	for range n {
		line := c.reply()
		_, command, found := strings.Cut(line, "] ")
		if line[0] != '+' || !found {
			c.t.Fatalf("%q is not a command that was run", line)
		}
		commands = append(commands, command)
	}
	return commands
}

// TestMonitorShowsAll: MONITOR shows the commands of all connections in the order in which they
// ran, including those in tasks. Its own commands appear after their replies.
func TestMonitorShowsAll(t *testing.T) {
	ts := start(t)
	m, a, b := ts.dial(), ts.dial(), ts.dial()
	m.send("MONITOR\nPING\n")
	m.expect("+OK", "+PONG")
	if got := m.shown(1)[0]; got != `"PING"` {
		t.Errorf("shown %s", got)
	}
	var want []string
	for i := range 100 {
		for _, c := range []*client{a, b} {
			command := fmt.Sprintf("INCRBY n %d", i)
			c.do(command)
			want = append(want, fmt.Sprintf(`"INCRBY" "n" "%d"`, i))
		}
	}
	a.do("KEYS *")
	want = append(want, `"KEYS" "*"`)
	if got := m.shown(len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("shown %v", got)
	}
	m.send("RESET\nGET n\n")
	m.expect("+RESET", "9900")
}

// TestMonitorIsNotIdle: a client in MONITOR may be silent for any time.
func TestMonitorIsNotIdle(t *testing.T) {
	ts := start(t)
	m := ts.dial()
	m.do("MONITOR")
	ts.mayRest(m)
}

// TestMonitorWaitsForTheLog: a command that a crash may undo is not shown.
func TestMonitorWaitsForTheLog(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	m, writer := ts.dial(), ts.dial()
	s := ts.sessionOf(m)
	slowDisk(t, ts, d)
	m.do("MONITOR")
	release := d.hold()
	writer.send("SET a 1\n")
	await.Until(t, "the command waits", func() (waits bool) {
		ts.onLoop(func(l *loop) {
			waits = len(s.out.needs) > 0 && len(s.out.ready(l.durable)) == 0
		})
		return waits
	})
	release()
	if got := m.shown(1)[0]; got != `"SET" "a" "1"` {
		t.Errorf("shown %s", got)
	}
	writer.expect("+OK")
}
