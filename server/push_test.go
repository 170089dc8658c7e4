package server

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

const hello = "*1\r\n$5\r\nhello\r\n"

// sessionOf returns the session of a client's connection.
func (ts *testServer) sessionOf(c *client) (found *session) {
	ts.t.Helper()
	await.Until(ts.t, "the client has a session", func() bool {
		ts.onLoop(func(l *loop) {
			for _, s := range l.sessions {
				if s != nil && s.client.Addr == c.LocalAddr().String() {
					found = s
				}
			}
		})
		return found != nil
	})
	return found
}

func TestPushFromAnywhere(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	s := ts.sessionOf(c)
	for range 100 {
		ts.Post(func() { s.Push(0, []byte(hello)) })
		c.expect("*1 hello")
	}
}

// TestPushComesBehindTheReply: a client whose command causes a message gets the message after the
// reply.
func TestPushComesBehindTheReply(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	s := ts.sessionOf(c)
	ts.onLoop(func(l *loop) {
		l.o.Config.OnChange("slowlog-max-len", func() error {
			s.Push(0, []byte(hello))
			s.Push(0, []byte(hello))
			return nil
		})
	})
	c.send("CONFIG SET slowlog-max-len 7\nGET none\nCONFIG SET slowlog-max-len 8\n")
	c.expect("+OK", "*1 hello", "*1 hello", "$-1", "+OK", "*1 hello", "*1 hello")
}

// TestPushWaitsForTheLog: a message leaves when the log is durable up to the message's LSN. No
// command is needed to have the log committed.
func TestPushWaitsForTheLog(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	c, writer := ts.dial(), ts.dial()
	s := ts.sessionOf(c)
	slowDisk(t, ts, d)
	release := d.hold()
	writer.send("SET a 1\n")
	await.Until(t, "the write has run", func() (ran bool) {
		ts.onLoop(func(l *loop) {
			if ran = l.log.End() > l.log.Durable(); ran {
				s.Push(0, []byte(hello))
				s.Push(l.log.End(), []byte(hello))
				s.Push(0, []byte(hello))
			}
		})
		return ran
	})
	c.expect("*1 hello")
	c.silent(ts)
	release()
	c.expect("*1 hello", "*1 hello")
	writer.expect("+OK")
}

// TestPushToParked: a client whose command is held back gets messages all the same.
func TestPushToParked(t *testing.T) {
	ts := start(t)
	c, other := ts.dial(), ts.dial()
	s := ts.sessionOf(c)
	other.do("CLIENT PAUSE 100000 WRITE")
	c.send("SET a 1\n")
	await.Until(t, "the write is held", func() (held bool) {
		ts.onLoop(func(*loop) { held = s.state == forPause })
		return held
	})
	ts.Post(func() { s.Push(0, []byte(hello)) })
	c.expect("*1 hello")
	other.do("CLIENT UNPAUSE")
	c.expect("+OK")
}

// runsATask makes a client run a task until the hog's end, and returns its session. Messages pushed
// to the session are kept until after its reply.
func (ts *testServer) runsATask(h *hog) *session {
	ts.t.Helper()
	c := ts.dial()
	s := ts.sessionOf(c)
	c.send("LOLWUT\n")
	await.For(ts.t, "the task runs", h.runs)
	// Registered last, so it runs before the server's end, which waits for the task.
	ts.t.Cleanup(func() { h.end <- struct{}{} })
	return s
}

// TestKeptPushesAreBounded: kept messages count as output for each limit while the task still runs.
func TestKeptPushesAreBounded(t *testing.T) {
	message := []byte("$10000\r\n" + strings.Repeat("x", 10000) + "\r\n")
	limits := map[string]struct {
		set  string // the argument of CONFIG SET
		most int    // pushes without a hard limit
		kept int    // messages that are kept before the client is closed
	}{
		"hard":          {`client-output-buffer-limit "normal 100000 0 0"`, pushMost, 9},
		"no hard limit": {`client-output-buffer-limit "normal 0 0 0"`, 200_000, 19},
		"all clients":   {`maxmemory-clients 300000`, pushMost, 29},
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			h := &hog{}
			ts := start(t, h.use, func(l *loop) { l.seams.pushMost = limit.most })
			if got := ts.dial().do("CONFIG SET " + limit.set); got != "+OK" {
				t.Fatal(got)
			}
			s := ts.runsATask(h)
			ts.onLoop(func(l *loop) {
				n := 0
				for ; s.takes() && n < 1000; n++ {
					s.Push(0, message)
				}
				if n > limit.kept+1 || n < limit.kept/2 {
					t.Errorf("%d messages were taken, not some %d", n, limit.kept)
				}
				if l.keptBytes(s) > 0 {
					t.Error("messages are kept for a client that is to be closed")
				}
			})
			ts.onLoop(func(l *loop) {
				if s.state != closed || l.tasks.global == nil {
					t.Errorf("closed %v, while its command runs %v", s.state == closed,
						l.tasks.global != nil)
				}
			})
		})
	}
}

// TestSoftLimit: the time of the soft limit begins when the waiting output, kept messages included,
// exceeds the limit. It begins again when the output exceeds the limit once more.
func TestSoftLimit(t *testing.T) {
	h := &hog{}
	ts := start(t, h.use)
	if got :=
		ts.dial().do(`CONFIG SET client-output-buffer-limit "normal 0 1000 60"`); got != "+OK" {
		t.Fatal(got)
	}
	s := ts.runsATask(h)
	ts.onLoop(func(l *loop) {
		at := func(after time.Duration) { l.mono += after; l.checkSoftLimit(s) }
		for range 3 {
			s.Push(0, []byte(strings.Repeat("x", 2000)))
			at(40 * time.Second)
			at(40 * time.Second)
			if s.softSince == 0 || !s.takes() {
				t.Errorf("over the limit since %v, closed %v", s.softSince, !s.takes())
			}
			delete(l.kept, s)
			at(time.Second)
			if s.softSince != 0 {
				t.Error("below the limit its time goes on")
			}
		}
		s.Push(0, []byte(strings.Repeat("x", 2000)))
		at(time.Second)
		at(59 * time.Second)
		if !s.takes() {
			t.Error("closed before its time was up")
		}
		if at(2 * time.Second); s.takes() {
			t.Error("not closed when its time was up")
		}
	})
}

// TestPushToTheGone: a message to a session that is closed, about to end or cut is dropped.
func TestPushToTheGone(t *testing.T) {
	ts := start(t)
	for _, end := range []func(*loop, *session){
		func(l *loop, s *session) { l.close(s) },
		func(_ *loop, s *session) { s.finish() },
		func(l *loop, s *session) { l.condemn(s) },
	} {
		s := ts.sessionOf(ts.dial())
		ts.onLoop(func(l *loop) {
			end(l, s)
			s.Push(1<<40, []byte(hello))
			if s.out.pending() > 0 || l.owed >= 1<<40 {
				t.Error("a message for a connection that is about to end was taken")
			}
			l.close(s)
		})
	}
}

// TestPushOverTheLimitCuts: cutting a client does not change the list of connected clients while
// somebody iterates over it. Memory is bounded.
func TestPushOverTheLimitCuts(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	if got := c.do(`CONFIG SET client-output-buffer-limit "normal 100000 0 0"`); got != "+OK" {
		t.Fatal(got)
	}
	s := ts.sessionOf(c)
	message := []byte("$10000\r\n" + strings.Repeat("x", 10000) + "\r\n")
	ts.onLoop(func(l *loop) {
		for range 1000 {
			s.Push(0, message)
		}
		if s.state == closed || s.out.pending() > 120_000 {
			t.Errorf("closed %v with %d bytes pending", s.state == closed, s.out.pending())
		}
	})
	await.Until(t, "the client is cut", func() (gone bool) {
		ts.onLoop(func(*loop) { gone = s.state == closed })
		return gone
	})
	if n := ts.env.Stats.OutputBufferLimit.Load(); n != 1 {
		t.Fatalf("%d clients cut", n)
	}
}
