package server

import (
	"net"
	"strings"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// reset closes a connection in such a way that the server knows that it cannot send any more.
func reset(c *client) {
	c.t.Helper()
	if err := c.Conn.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits until the session is closed.
func (ts *testServer) ends(s *session) {
	ts.t.Helper()
	await.Until(ts.t, "the session is closed", func() (gone bool) {
		ts.onLoop(func(*loop) { gone = s.state == closed })
		return gone
	})
}

// TestLeavesInPause: if a client leaves during CLIENT PAUSE, its delayed commands do not run, as
// with Redis. That holds whether it leaves before or after the server sees the command. It still
// gets the earlier replies.
func TestLeavesInPause(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	closes, resets, half, late := ts.dial(), ts.dial(), ts.dial(), ts.dial()
	c.do("CLIENT PAUSE 3600000 WRITE")
	var sessions []*session
	for i, w := range []*client{closes, resets, half} {
		w.send("ECHO before\n" + "SET " + string(rune('a'+i)) + " 1\n")
		w.expect("before")
		ts.waits(w, forPause)
		sessions = append(sessions, ts.sessionOf(w))
	}
	if list := c.do("CLIENT LIST"); strings.Count(list, "flags=b") != 3 {
		t.Errorf("CLIENT LIST:\n%s", list)
	}
	if err := closes.Close(); err != nil {
		t.Fatal(err)
	}
	reset(resets)
	shut(half)
	half.expect("(eof)")
	late.raw("ECHO before\r\nSET d 1\r\n")
	shut(late)
	late.expect("before", "(eof)")
	for _, s := range sessions {
		ts.ends(s)
	}
	c.do("CLIENT UNPAUSE")
	if got := c.do("EXISTS a b c d"); got != ":0" {
		t.Errorf("%s commands of clients that had left have run", got)
	}
}

// TestLeavesAreForgotten: a client that leaves during a long pause takes no memory until the end of
// the pause.
func TestLeavesAreForgotten(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.do("CLIENT PAUSE 3600000 WRITE")
	stays := ts.dial()
	stays.send("SET k 1\n")
	ts.waits(stays, forPause)
	for range 50 {
		w := ts.dial()
		w.send("SET l 1\n")
		ts.waits(w, forPause)
		s := ts.sessionOf(w)
		_ = w.Close()
		ts.ends(s)
	}
	ts.onLoop(func(l *loop) {
		if len(l.waitlist) > 5 {
			t.Errorf("%d sessions are listed, one waits", len(l.waitlist))
		}
	})
	c.do("CLIENT UNPAUSE")
	stays.expect("+OK")
}

// unlockedGate makes RANDOMKEY, which only reads, and SAVE wait until the gate opens. runs receives
// an element for each command that has begun.
type unlockedGate struct{ runs, gate chan struct{} }

func (g *unlockedGate) use(s *commands.Env) {
	g.runs, g.gate = make(chan struct{}, 100), make(chan struct{})
	for _, name := range []string{"RANDOMKEY", "SAVE"} {
		spec := s.Table.Lookup([]byte(name))
		if spec.Scope != commands.Unlocked || spec.Is(commands.ReadOnly) != (name == "RANDOMKEY") {
			panic(name + " does not serve the test any more")
		}
		spec.Flags &^= commands.Admin // which would give it another place
		spec.Run = func(c *commands.Ctx) error {
			g.runs <- struct{}{}
			<-g.gate
			c.Out.OK()
			return nil
		}
	}
}

// unlocked returns the number of running tasks of scope Unlocked.
func (l *loop) unlocked() (n int) {
	for _, p := range l.tasks.lanes {
		n += len(p.running)
	}
	return n
}

// fill starts as many tasks as may run at a time.
func (g *unlockedGate) fill(ts *testServer) (clients []*client) {
	ts.t.Helper()
	for range maxUnlocked {
		c := ts.dial()
		c.send("RANDOMKEY\n")
		await.For(ts.t, "the task runs", g.runs)
		clients = append(clients, c)
	}
	return clients
}

// queued waits until n tasks are queued.
func (ts *testServer) queued(n int) {
	ts.t.Helper()
	await.Until(ts.t, "tasks wait for others", func() (yes bool) {
		ts.onLoop(func(l *loop) {
			yes = len(l.tasks.lanes[0].queue) == n && len(l.tasks.lanes[0].running) == maxUnlocked
		})
		return yes
	})
}

// TestLeavesQueuedTask: a queued task is dropped if its client was killed, or if its client has
// left and the task changes nothing. If the client has only closed its side, it gets the reply. A
// task that changes data still runs. Redis does the same.
func TestLeavesQueuedTask(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use)
	running := g.fill(ts)
	reads, killed, half, saves := ts.dial(), ts.dial(), ts.dial(), ts.dial()
	id := killed.do("CLIENT ID")[1:]
	var sessions []*session
	for i, w := range []*client{reads, killed, half, saves} {
		sessions = append(sessions, ts.sessionOf(w))
		w.send([]string{"RANDOMKEY\n", "SAVE\n", "RANDOMKEY\n", "SAVE\n"}[i])
		ts.waits(w, forOwnTask)
	}
	ts.queued(4)
	reset(reads)
	ts.ends(sessions[0])
	ts.queued(3)
	ts.dial().do("CLIENT KILL ID " + id)
	ts.ends(sessions[1])
	ts.queued(2)
	shut(half)
	reset(saves)
	close(g.gate)
	for _, c := range running {
		c.expect("+OK")
	}
	half.expect("+OK", "(eof)")
	ts.ends(sessions[3])
	if n := len(g.runs); n != 2 {
		t.Errorf("%d of the tasks began that had waited, not 2", n)
	}
}

// TestBusyRefusesQueued: a command with a queued task is refused once a script has run for too
// long, like any other command.
func TestBusyRefusesQueued(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use, "busy-reply-threshold=50")
	running := g.fill(ts)
	reads, saves, script := ts.dial(), ts.dial(), ts.dial()
	reads.send("RANDOMKEY\n")
	saves.send("SAVE\n")
	ts.queued(2)
	script.raw(multibulk("EVAL", "while true do end", "0"))
	const busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	reads.expect(busy)
	saves.expect(busy)
	ts.queued(0)
	ts.dial().do("SCRIPT KILL")
	script.reply()
	close(g.gate)
	for _, c := range running {
		c.expect("+OK")
	}
	reads.send("RANDOMKEY\n")
	reads.expect("+OK")
}

// TestLeavesRunningTask: a running task ends by itself if its client resets the connection. The
// session is closed at once if the task only reads, otherwise after the task.
func TestLeavesRunningTask(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use)
	reads, saves := ts.dial(), ts.dial()
	reads.send("RANDOMKEY\n")
	saves.send("SAVE\n")
	await.For(t, "the task runs", g.runs)
	await.For(t, "the task runs", g.runs)
	r, s := ts.sessionOf(reads), ts.sessionOf(saves)
	reset(reads)
	reset(saves)
	ts.ends(r)
	ts.onLoop(func(l *loop) {
		if s.state != forOwnTask || l.unlocked() != 2 {
			t.Errorf("%s, %d tasks run", stateNames[s.state], l.unlocked())
		}
	})
	close(g.gate)
	ts.ends(s)
	ts.noTaskRuns()
}

// TestLeavesDelayed: several clients leave while their commands wait for a task's end. Commands
// that change data still run, as Redis would have read them. The others are dropped.
func TestLeavesDelayed(t *testing.T) {
	h := &hog{}
	ts := start(t, h.use)
	hogs, reads, writes, half := ts.dial(), ts.dial(), ts.dial(), ts.dial()
	hogs.send("LOLWUT\n")
	await.For(t, "the task runs", h.runs)
	reads.send("GET k\n")
	writes.send("SET k 1\n")
	half.send("GET log\n")
	ts.waiting(3)
	r, w := ts.sessionOf(reads), ts.sessionOf(writes)
	reset(reads)
	ts.ends(r)
	reset(writes)
	shut(half)
	h.end <- struct{}{}
	hogs.expect("+PONG")
	half.expect("hog", "(eof)")
	ts.ends(w)
	if got := ts.dial().do("GET k"); got != "1" {
		t.Errorf("GET: %q", got)
	}
}
