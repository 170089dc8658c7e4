package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// gated makes SUNION run beside the loop and wait there until the gate opens.
func gated(gate chan struct{}) func(*commands.Env) {
	return func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("SUNION"))
		run := spec.Run
		spec.Offload = func(*commands.Ctx) bool { return true }
		spec.Run = func(c *commands.Ctx) error {
			<-gate
			return run(c)
		}
	}
}

// waits waits until the client's session waits for the given reason.
func (ts *testServer) waits(c *client, why state) {
	ts.t.Helper()
	s := ts.sessionOf(c)
	await.Until(ts.t, "the command waits", func() (yes bool) {
		ts.onLoop(func(*loop) { yes = s.state == why })
		return yes
	})
}

// behindTask sends commands that wait for a task, each from a client of its own. The returned
// function compares their replies.
func (ts *testServer) behindTask(commands ...string) (replies func(want ...string)) {
	ts.t.Helper()
	var waiting []*client
	for _, command := range commands {
		c := ts.dial()
		c.send(command + "\n")
		ts.waits(c, forTask)
		waiting = append(waiting, c)
	}
	return func(want ...string) {
		ts.t.Helper()
		for i, c := range waiting {
			if got := c.reply(); got != want[i] {
				ts.t.Errorf("%s gives %q, want %q", commands[i], got, want[i])
			}
		}
	}
}

// noTasks checks that no task is left, nor any trace of one.
func (ts *testServer) noTasks() {
	ts.t.Helper()
	ts.onLoop(func(l *loop) {
		if l.tasks.count > 0 || l.tasks.global != nil || len(l.waitlist) > 0 || l.env.Pins.Any() {
			ts.t.Errorf("%d tasks and %d who wait are left", l.tasks.count, len(l.waitlist))
		}
	})
}

// TestPinned: while a command that reads for long runs beside the loop, other commands go on. Only
// commands that would change the values it reads, further commands of its kind, and scripts wait
// until it ends.
func TestPinned(t *testing.T) {
	gate := make(chan struct{})
	ts := start(t, gated(gate))
	p := ts.dial()
	p.do("SADD a 1 2")
	p.do("SADD b 2 3")
	p.do("SET c x")
	reader := ts.dial()
	reader.send("SUNION a b\nEXISTS a\n")
	ts.waits(reader, forOwnTask)
	if got := p.do("SMISMEMBER a 1 3"); got != "*2 :1 :0" {
		t.Errorf("read beside it: %s", got)
	}
	if got := p.do("APPEND c y"); got != ":2" {
		t.Errorf("changed beside it: %s", got)
	}
	replies := ts.behindTask("SADD a 4", "DEL b", "SUNION a b",
		"EVAL 'return redis.call(\"GET\", \"c\")' 0")
	if got := p.do("FLUSHALL"); got != "+OK" {
		t.Errorf("FLUSHALL beside it: %s", got)
	}
	p.do("SET c z")
	close(gate)
	reader.expect("*3 1 2 3", ":1") // of what it had when it began
	replies(":1", ":0", "*1 4", "z")
	ts.noTasks()
}

// TestPinnedEstimate: PFCOUNT stores its estimate in the value, but does not change a value that is
// being read.
func TestPinnedEstimate(t *testing.T) {
	gate := make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("LCS"))
		run := spec.Run
		spec.Offload = func(*commands.Ctx) bool { return true }
		spec.Run = func(c *commands.Ctx) error {
			<-gate
			return run(c)
		}
	})
	p, reader, counts := ts.dial(), ts.dial(), ts.dial()
	p.raw(multibulk("EVAL",
		"for i = 1, 5000 do redis.call('PFADD', KEYS[1], i) end return redis.call('STRLEN', KEYS[1])",
		"1", "h"))
	p.expect(":12304")
	reader.send("LCS h h\n")
	ts.waits(reader, forOwnTask)
	counts.send("PFCOUNT h\n")
	ts.waits(counts, forTask)
	close(gate)
	reader.reply()
	if got := counts.reply(); len(got) != len(":5000") {
		t.Errorf("PFCOUNT: %s", got)
	}
	ts.noTasks()
}

// TestPinnedGone: a client that disconnects while its task runs leaves nothing behind.
func TestPinnedGone(t *testing.T) {
	gate := make(chan struct{})
	ts := start(t, gated(gate))
	p, reader, writer := ts.dial(), ts.dial(), ts.dial()
	p.do("SADD a 1 2")
	reader.send("SUNION a b\n")
	ts.waits(reader, forOwnTask)
	writer.send("SET a x\n")
	ts.waits(writer, forTask)
	id := fmt.Sprint(ts.sessionOf(reader).client.ID)
	if got := p.do("CLIENT KILL ID " + id); got != ":1" {
		t.Fatal(got)
	}
	close(gate)
	writer.expect("+OK")
	if got := p.do("GET a"); got != "x" {
		t.Error(got)
	}
}

// TestPinnedSeesOneInstant: many clients grow, trim, replace and read whole lists at once. Each
// reply shows the list as it was at one instant.
func TestPinnedSeesOneInstant(t *testing.T) {
	ts := start(t)
	const rounds, elements = 6, 1200
	fill := func(c *client, key string, round int) {
		words := make([]string, elements)
		for i := range words {
			words[i] = fmt.Sprint(round*elements + i)
		}
		c.do("RPUSH " + key + " " + strings.Join(words, " "))
	}
	setUp := ts.dial()
	fill(setUp, "l", 0)
	var all sync.WaitGroup
	for range 2 {
		reader, script := ts.dial(), ts.dial()
		all.Go(func() {
			for range rounds {
				got := strings.Fields(reader.do("LRANGE l 0 -1"))
				for i := 2; i < len(got); i++ {
					var a, b int
					fmt.Sscan(got[i-1], &a)
					if fmt.Sscan(got[i], &b); b != a+1 {
						t.Errorf("%d stands behind %d", b, a)
						return
					}
				}
				reader.do("SORT l DESC LIMIT 0 1")
				if got := reader.do("SORT l BY w:* LIMIT 0 1 GET name"); got != "*1 $-1" &&
					got != "*0" {
					t.Errorf("SORT BY gives %s", got)
				}
			}
		})
		all.Go(func() {
			for range rounds {
				if got := script.do(
					"EVAL 'return #redis.call(\"LRANGE\", \"l\", 0, -1) % 100' 0"); got != ":0" {
					t.Errorf("a script sees %s elements too many", got)
				}
			}
		})
	}
	writer := ts.dial()
	all.Go(func() {
		for round := 1; round < rounds; round++ {
			fill(writer, "l", round)
			switch round % 5 {
			case 2:
				writer.do(fmt.Sprintf("LTRIM l %d -1", elements))
			case 3:
				writer.do("SORT l STORE l")
				writer.do("COPY l m REPLACE")
				writer.do("RENAME m l")
			case 4:
				writer.do("EVAL 'redis.call(\"LTRIM\", \"l\", 100, -1)' 0")
			}
		}
	})
	all.Wait()
}

// TestPinnedStoreRunsAgain: a command that reads beside the loop stores its result only if its keys
// have not changed meanwhile.
func TestPinnedStoreRunsAgain(t *testing.T) {
	gate := make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("SUNIONSTORE"))
		run := spec.Run
		spec.Offload = func(*commands.Ctx) bool { return true }
		spec.Run = func(c *commands.Ctx) error {
			<-gate
			return run(c)
		}
	})
	open := func() {
		select {
		case gate <- struct{}{}:
		case <-await.Over():
			t.Error("nobody stands at the gate")
		}
	}
	p, storer := ts.dial(), ts.dial()
	for _, change := range []struct {
		command, reply string
		again          bool
	}{
		{"SET other x", ":3", false},
		{"FLUSHALL", ":0", true},
		{"SADD new x", ":4", true},
		{"SWAPDB 0 1", ":0", true},
	} {
		p.do("FLUSHALL")
		p.do("SADD a 1 2")
		p.do("SADD b 2 3")
		p.do("SADD d 9")
		storer.send("SUNIONSTORE d a b new\n")
		ts.waits(storer, forOwnTask)
		p.do(change.command)
		writer := ts.dial()
		if !change.again {
			writer.send("SADD d x\n")
			ts.waits(writer, forTask)
		}
		open()
		if change.again {
			open()
		}
		storer.expect(change.reply)
		if !change.again {
			writer.expect(":1")
			change.reply = ":4"
		}
		if got := p.do("SCARD d"); got != change.reply {
			t.Errorf("%s: %s members are left, want %s", change.command, got, change.reply)
		}
	}
}

// TestPinnedIsWatchedBesideAnEnd: a task of another goroutine ends while the loop's goroutine runs
// a task itself. The supervisor still watches the latter, so the loop does not wait for it.
func TestPinnedIsWatchedBesideAnEnd(t *testing.T) {
	begun, gate := make(chan struct{}), make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("SUNION"))
		spec.Offload = func(*commands.Ctx) bool { return true }
		spec.Run = func(c *commands.Ctx) error {
			if string(c.Args[1]) == "first" {
				<-begun
			} else {
				close(begun)
				<-gate
			}
			c.Out.OK()
			return nil
		}
	}, func(l *loop) { l.env.LimitTasks(2) })
	first, second, other := ts.dial(), ts.dial(), ts.dial()
	first.send("SUNION first\n")
	ts.waits(first, forOwnTask) // beside the loop, which answers
	second.send("SUNION second\n")
	first.expect("+OK")
	if got := other.do("PING"); got != "+PONG" {
		t.Error(got)
	}
	close(gate)
	second.expect("+OK")
}

// TestMessagesEndWhoRunsAgain: a task must run again, and the messages kept for its client exceed
// the client's output limit by now. The server closes that client and goes on serving others.
func TestMessagesEndWhoRunsAgain(t *testing.T) {
	gate := make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("SUNIONSTORE"))
		run := spec.Run
		spec.Offload = func(*commands.Ctx) bool { return true }
		spec.Run = func(c *commands.Ctx) error {
			<-gate
			return run(c)
		}
	})
	p, storer := ts.dial(), ts.dial()
	p.do("SADD a 1 2")
	s := ts.sessionOf(storer)
	storer.send("SUNIONSTORE d a\n")
	ts.waits(storer, forOwnTask)
	p.do("SET d x")
	ts.onLoop(func(l *loop) {
		for range 100 {
			s.Push(0, []byte(hello))
		}
		l.settings.normal.hard = 1000 // as CONFIG SET does it
	})
	close(gate)
	storer.expect("(eof)")
	if got := p.do("PING"); got != "+PONG" {
		t.Error(got)
	}
}

// TestPinnedSmallSources: BITOP runs beside the loop, and a small source changes meanwhile. BITOP
// runs again, so the change is not lost.
func TestPinnedSmallSources(t *testing.T) {
	for _, change := range []string{"SETBIT d 5 1", "DEL d", "SET d " + strings.Repeat("x", 2000),
		"SETBIT b 7 1"} {
		gate := make(chan struct{})
		ts := start(t, func(e *commands.Env) {
			spec := e.Table.Lookup([]byte("BITOP"))
			run := spec.Run
			spec.Offload = func(*commands.Ctx) bool { return true }
			spec.Run = func(c *commands.Ctx) error {
				<-gate
				return run(c)
			}
		})
		p, other := ts.dial(), ts.dial()
		p.do("SETBIT d 0 1")
		p.do("SETBIT b 1 1")
		p.do("SETBIT same 0 1")
		other.send("BITOP OR d d b\n")
		ts.waits(other, forOwnTask)
		p.do(change)
		p.do(strings.Replace(change, " d", " same", 1))
		close(gate)
		other.reply()
		p.do("BITOP OR same same b")
		if got, want := p.do("GET d"), p.do("GET same"); got != want {
			t.Errorf("%.20s: d is %.20q, want %.20q", change, got, want)
		}
	}
}
