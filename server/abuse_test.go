package server

import (
	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"strings"
	"testing"
)

// TestDeafMonitorIsCut: a client that uses MONITOR and does not read is closed, although its class
// has no limit. A client with as much pending output from its own command is not closed.
func TestDeafMonitorIsCut(t *testing.T) {
	const pushMost = 1 << 20
	ts := start(t, func(l *loop) { l.seams.pushMost = pushMost })
	p, deaf, asks := ts.dial(), ts.dial(), ts.dial()
	value := strings.Repeat("x", pushMost+pushMost/4)
	p.raw(multibulk("SET", "k", value))
	p.expect("+OK")
	if got := deaf.do("MONITOR"); got != "+OK" {
		t.Fatal(got)
	}
	asks.raw(multibulk("GET", "k"))
	s, line := ts.sessionOf(deaf), []byte(value[:pushMost/8])
	ts.onLoop(func(*loop) {
		for n := range 16 {
			s.Push(0, line)
			if waits := s.out.pushed(); s.takes() == (waits > pushMost) ||
				waits > pushMost+len(line) {
				t.Errorf("%d bytes wait for it after message %d, cut: %v", waits, n, !s.takes())
			}
		}
	})
	await.Until(t, "it is closed", func() bool {
		return ts.env.Stats.OutputBufferLimit.Load() == 1
	})
	if got := asks.reply(); len(got) < len(value) {
		t.Errorf("%d bytes of a reply", len(got))
	}
}

// TestComplaintsAreFew: clients cannot fill the log with messages. The log reports how many
// messages were left out.
func TestComplaintsAreFew(t *testing.T) {
	still, _ := stopped(t)
	ts := start(t, still)
	const many = 1000
	ts.onLoop(func(l *loop) {
		for range many {
			l.complain("too much", "client", 1)
		}
	})
	if n := strings.Count(ts.log.String(), "too much"); n != complaintBurst {
		t.Errorf("%d complaints", n)
	}
	ts.onLoop(func(l *loop) {
		l.mono += complaintPause
		l.complain("too much")
		l.complain("too much")
	})
	log := ts.log.String()
	if n := strings.Count(log, "too much"); n != complaintBurst+1 {
		t.Errorf("%d complaints later", n)
	}
	if !strings.Contains(log, `"more like it"=990`) {
		t.Errorf("the log does not say how many were left out")
	}
}

// TestTurnsAreBrief: if a client sends many slow commands, only a few of them run in each turn.
func TestTurnsAreBrief(t *testing.T) {
	var at *loop
	ran := map[uint64]int{} // by pass
	slow := func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("PING"))
		run := spec.Run
		spec.Run = func(c *commands.Ctx) error {
			ran[at.pass]++
			e.Clock.(*clock.Fake).Advance(turnTime / 3)
			return run(c)
		}
	}
	ts := start(t, func(o *storage.Options) { o.Clock = clock.NewFake(1_700_000_000_000) }, slow,
		func(l *loop) { at = l })
	c := ts.dial()
	const sent = 100
	c.send(strings.Repeat("PING\n", sent))
	for range sent {
		c.expect("+PONG")
	}
	ts.onLoop(func(*loop) {
		for pass, n := range ran {
			if n > 4 {
				t.Errorf("%d commands ran in pass %d", n, pass)
			}
		}
	})
}
