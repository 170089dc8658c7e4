package server

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// silentTarget starts a server that accepts connections and never replies. It returns a MIGRATE
// command that sends the key k to that server, with a timeout of an hour.
func silentTarget(t *testing.T) string {
	migrate, _ := countingTarget(t)
	return migrate
}

// countingTarget does the same as silentTarget, and counts the connections.
func countingTarget(t *testing.T) (migrate string, connections *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connections = &atomic.Int64{}
	go func() {
		var open []net.Conn // which the collector would close otherwise
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
			connections.Add(1)
		}
		for _, c := range open {
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "MIGRATE 127.0.0.1 " + port + " k 0 3600000\n", connections
}

// migrations waits until n tasks that wait for other servers are running.
func (ts *testServer) migrations(n int) {
	ts.t.Helper()
	await.Until(ts.t, fmt.Sprint(n, " tasks wait for another server"), func() (yes bool) {
		ts.onLoop(func(l *loop) { yes = len(l.tasks.lanes[commands.Elsewhere].running) == n })
		return yes
	})
}

// TestElsewhereTakesNoPlace: however many tasks wait for a silent server, other clients' commands
// go on. CLIENT LIST shows all of the waiting clients.
func TestElsewhereTakesNoPlace(t *testing.T) {
	ts := start(t)
	other := ts.dial()
	other.do("SET k v")
	migrate := silentTarget(t)
	for range maxUnlocked + 1 {
		ts.dial().send(migrate)
	}
	ts.migrations(maxUnlocked)
	for command, want := range map[string]string{
		"SCAN 0": "*2 0 *1 k", "KEYS *": "*1 k", "RANDOMKEY": "k", "SAVE": "+OK", "SET k w": "+OK",
		"CONFIG REWRITE": "-ERR The server is running without a config file",
	} {
		if got := other.do(command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	if got := other.do("CLIENT LIST"); strings.Count(got, "cmd=migrate ") != maxUnlocked+1 {
		t.Errorf("CLIENT LIST: %s", got)
	}
}

// TestOperatorsHaveAPlace: a task of an operator begins even if as many tasks of clients run as may
// run at a time.
func TestOperatorsHaveAPlace(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use, func(e *commands.Env) {
		e.Table.Lookup([]byte("SAVE")).Flags |= commands.Admin
	})
	g.fill(ts)
	defer close(g.gate)
	if got := ts.dial().do("DEBUG DIGEST"); got != "+"+strings.Repeat("0", 40) {
		t.Errorf("DEBUG DIGEST: %s", got)
	}
	ts.dial().send("SAVE\n")
	await.For(t, "SAVE runs", g.runs)
}

// TestElsewhereEndsWithItsClient: a task that waits for another server ends when its client leaves
// or is killed. Then the next queued task begins.
func TestElsewhereEndsWithItsClient(t *testing.T) {
	for name, leave := range map[string]func(ts *testServer, c *client){
		"closed": func(_ *testServer, c *client) { _ = c.Close() },
		"reset":  func(_ *testServer, c *client) { reset(c) },
		"killed": func(ts *testServer, c *client) {
			ts.dial().do("CLIENT KILL ADDR " + c.LocalAddr().String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t)
			other := ts.dial()
			other.do("SET k v")
			migrate := silentTarget(t)
			var clients []*client
			for range maxUnlocked + 2 {
				clients = append(clients, ts.dial())
				clients[len(clients)-1].send(migrate)
			}
			ts.migrations(maxUnlocked)
			for _, c := range clients {
				leave(ts, c)
			}
			ts.noTaskRuns()
			if got := other.do("GET k"); got != "v" {
				t.Errorf("the key: %s", got)
			}
		})
	}
}

// TestLeftWaitBehindOthers: when a task ends, a queued task of a connected client begins next. Many
// tasks of clients that have left may be before it in the queue.
func TestLeftWaitBehindOthers(t *testing.T) {
	ts := start(t)
	migrate := silentTarget(t)
	ts.dial().do("SET k v")
	var running []*client
	for range maxUnlocked {
		running = append(running, ts.dial())
		running[len(running)-1].send(migrate)
	}
	ts.migrations(maxUnlocked)
	const left = 2 * maxUnlocked
	for range left {
		c := ts.dial()
		c.send(migrate)
		shut(c)
	}
	queued := func(l *loop) (all, left int) {
		for _, j := range l.tasks.lanes[commands.Elsewhere].queue {
			if all++; j.s.left() {
				left++
			}
		}
		return all, left
	}
	await.Until(t, "the clients that have left are seen", func() (yes bool) {
		ts.onLoop(func(l *loop) { _, n := queued(l); yes = n == left })
		return yes
	})
	ts.dial().send(migrate)
	await.Until(t, "the client that is there waits", func() (yes bool) {
		ts.onLoop(func(l *loop) { all, _ := queued(l); yes = all == left+1 })
		return yes
	})
	_ = running[0].Close()
	await.Until(t, "the next task has begun", func() (yes bool) {
		ts.onLoop(func(l *loop) {
			all, n := queued(l)
			if yes = all == left; yes && n != left {
				t.Error("it is that of a client that has left")
			}
		})
		return yes
	})
}

// TestElsewhereForHalfAConnection: a client that closes its side after sending MIGRATE still gets
// the reply, if the target replies.
func TestElsewhereForHalfAConnection(t *testing.T) {
	ts, target := start(t), start(t)
	_, port, _ := net.SplitHostPort(target.Addrs()[0])
	c := ts.dial()
	c.do("SET k v")
	c.send("MIGRATE 127.0.0.1 " + port + " k 0 3600000\n")
	shut(c)
	c.expect("+OK", "(eof)")
	if got := target.dial().do("GET k"); got != "v" {
		t.Errorf("there: %s", got)
	}
}

// TestPauseEndsElsewhere: neither CLIENT PAUSE nor a stop waits for another server for more than a
// moment.
func TestPauseEndsElsewhere(t *testing.T) {
	ts := start(t)
	migrate := silentTarget(t)
	other, moves := ts.dial(), ts.dial()
	other.do("SET k v")
	const ended = "-IOERR ended before the target had replied, since its client has left, or CLIENT PAUSE or a stop waited for it: keys that are still here may be there, too"
	moves.send(migrate)
	ts.migrations(1)
	if got := other.do("CLIENT PAUSE 1000000 WRITE"); got != "+OK" {
		t.Error(got)
	}
	moves.expect(ended)
	if got := other.do("GET k"); got != "v" {
		t.Error(got)
	}
	other.do("CLIENT UNPAUSE")
	moves.send(migrate)
	ts.migrations(1)
	ts.onLoop(func(l *loop) {
		l.stop()
		l.hurry()
	})
	moves.expect(ended)
}

// TestPauseComesBeforeQueued: while a CLIENT PAUSE waits for the running tasks, no queued task
// begins.
func TestPauseComesBeforeQueued(t *testing.T) {
	ts := start(t)
	migrate, connections := countingTarget(t)
	other := ts.dial()
	other.do("SET k v")
	for range 4 * maxUnlocked {
		ts.dial().send(migrate)
	}
	await.Until(t, "all wait or run", func() (yes bool) {
		ts.onLoop(func(l *loop) {
			yes = len(l.tasks.lanes[commands.Elsewhere].queue) == 3*maxUnlocked
		})
		return yes && connections.Load() == maxUnlocked
	})
	if got := other.do("CLIENT PAUSE 1000000 WRITE"); got != "+OK" {
		t.Error(got)
	}
	ts.noTaskRuns()
	if n := connections.Load(); n != maxUnlocked {
		t.Errorf("%d connections to the target, of %d tasks that ran", n, maxUnlocked)
	}
	other.do("CLIENT UNPAUSE")
	ts.migrations(maxUnlocked)
}

// TestPauseComesBeforeThoseReleasedWithIt: a CLIENT PAUSE is released, and after it a write in the
// same iteration of the loop. The pause comes before the write. First the tasks that the pause
// waits for end, and then a queued task, whose command has to run again. The loop learns of all of
// them at once.
func TestPauseComesBeforeThoseReleasedWithIt(t *testing.T) {
	// The number of the call before the queued task. It follows one call before each running task,
	// and one at the end of a task.
	const next = maxUnlocked + 2
	var calls atomic.Int64
	late := make(chan struct{})
	ts := start(t, func(l *loop) {
		l.tasks.waiting.run = func() {} // the test ends them
		l.seams.besideLoop = func() {
			if calls.Add(1) == next {
				<-late
			}
		}
	})
	migrate, connections := countingTarget(t)
	other := ts.dial()
	other.do("SET k v")
	for range maxUnlocked {
		ts.dial().send(migrate)
	}
	ts.migrations(maxUnlocked)
	await.Until(t, "all run", func() bool { return connections.Load() == maxUnlocked })
	queued, pauses := ts.dial(), ts.dial()
	queued.send(migrate)
	ts.waits(queued, forOwnTask)
	pauses.send("CLIENT PAUSE 1000000 WRITE\n")
	ts.waits(pauses, forTask)
	ts.onLoop(func(l *loop) { l.tasks.lanes[commands.Elsewhere].running[0].ctx.Cancel() })
	await.Until(t, "the queued task has begun", func() bool { return calls.Load() == next })
	ts.waits(pauses, forTask)

	goOn := make(chan struct{})
	ts.loop.box.post(func() {
		for _, j := range ts.loop.tasks.lanes[commands.Elsewhere].running {
			j.ctx.Cancel()
		}
		<-goOn
	})
	posted := func(n int) {
		await.Until(t, fmt.Sprint(n, " tasks have ended"), func() bool {
			box := &ts.loop.box
			box.mu.Lock()
			defer box.mu.Unlock()
			return len(box.mu.posts) >= n
		})
	}
	posted(maxUnlocked - 1)
	close(late)
	posted(maxUnlocked)
	close(goOn)
	ts.passes()
	s := ts.sessionOf(queued)
	ts.onLoop(func(*loop) {
		if s.state != forPause {
			t.Errorf("the queued command did not wait for the pause, but is in state %s",
				stateNames[s.state])
		}
	})
	if !t.Failed() {
		pauses.expect("+OK")
	}
}
