package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// held makes three commands run as tasks beside the event loop, and stops each of them before it
// writes, until the channel gate is closed. The three hold different things meanwhile. SUNIONSTORE
// prevents changes of its keys, UNLINK holds nothing, and EVAL has locked the whole keyspace.
type held struct{ runs, gate chan struct{} }

func (h *held) use(e *commands.Env) {
	h.runs, h.gate = make(chan struct{}, 10), make(chan struct{})
	e.Table.Lookup([]byte("SUNIONSTORE")).Offload = func(*commands.Ctx) bool { return true }
	beside(e, "UNLINK")
	for _, name := range []string{"SUNIONSTORE", "UNLINK", "EVAL"} {
		spec := e.Table.Lookup([]byte(name))
		run := spec.Run
		spec.Run = func(c *commands.Ctx) error {
			if c.Scope > commands.KeysOnly { // and not before it is a task
				h.runs <- struct{}{}
				<-h.gate
			}
			return run(c)
		}
	}
}

// beside makes a command run as a task of scope Unlocked in a transaction of its own, as MIGRATE
// does.
func beside(e *commands.Env, name string) {
	spec := e.Table.Lookup([]byte(name))
	run := spec.Run
	spec.Escalate = func(*commands.Ctx) commands.Scope { return commands.Unlocked }
	spec.Run = func(c *commands.Ctx) error {
		c.Txn = e.Store.NewTxn()
		e.Store.BeginAll(c.Txn)
		defer func() {
			c.LSN = max(c.LSN, c.Txn.End())
			c.Txn = nil
		}()
		return run(c)
	}
}

// heldCalls lists calls of these commands, their replies, and the reply to a GET k that follows.
var heldCalls = []struct{ call, reply, k string }{
	{"SUNIONSTORE to a b", ":3", "v"},
	{"UNLINK k", ":1", "$-1"},
	{"EVAL 'return redis.call(\"APPEND\", KEYS[1], \"w\")' 1 k", ":2", "vw"},
}

// TestPauseAwaitsWriters: CLIENT PAUSE replies when the commands that were writing beside the loop
// have ended. From then on nothing is written: writes that came meanwhile, or come later, wait for
// the end of the pause.
func TestPauseAwaitsWriters(t *testing.T) {
	for _, tt := range heldCalls {
		for _, pause := range []string{"CLIENT PAUSE 1000000 WRITE\n",
			"MULTI\nCLIENT PAUSE 1000000 WRITE\nEXEC\n", "CLIENT PAUSE 1000000 ALL\n"} {
			h := &held{}
			ts := start(t, h.use)
			writer, again, pauses, other := ts.dial(), ts.dial(), ts.dial(), ts.dial()
			other.send("SADD a 1 2\nSADD b 2 3\nSET k v\n")
			other.expect(":2", ":2", "+OK")
			writer.send(tt.call + "\n")
			await.For(t, "the task runs", h.runs)
			pauses.send(pause)
			if strings.HasPrefix(pause, "MULTI") {
				pauses.expect("+OK", "+QUEUED")
			}
			ts.waits(pauses, forTask)
			again.send(tt.call + "\n")
			ts.waits(again, forTask)
			if got := ts.dial().do("ECHO x"); got != "x" {
				t.Errorf("beside it: %s", got)
			}
			close(h.gate)
			writer.expect(tt.reply)
			if got := pauses.reply(); got != "+OK" && got != "*1 +OK" {
				t.Fatalf("%s: %s", pause, got)
			}
			ts.waits(again, forPause)
			other.send("SET k2 v\n")
			ts.waits(other, forPause)
			if strings.HasSuffix(pause, "WRITE\n") {
				for range 2 {
					if got := ts.dial().do("GET k"); got != tt.k {
						t.Errorf("%s: in the pause k is %s", tt.call, got)
					}
				}
			}
			ts.noTaskRuns()
			if got := ts.dial().do("CLIENT UNPAUSE"); got != "+OK" {
				t.Error(got)
			}
			other.expect("+OK")
			if got := again.reply(); got[0] != ':' {
				t.Errorf("%s, behind the pause: %s", tt.call, got)
			}
			ts.noTasks()
		}
	}
}

// noTaskRuns waits until no task runs or is queued. Clients may still be waiting.
func (ts *testServer) noTaskRuns() {
	ts.t.Helper()
	await.Until(ts.t, "no task runs", func() (none bool) {
		ts.onLoop(func(l *loop) { none = l.tasks.count == 0 && l.unlocked() == 0 })
		return none
	})
}

// writesBehindPause checks that a write waits for the end of the pause together with as many keys
// as given, and runs then.
func (ts *testServer) writesBehindPause(writer, other *client, keys int) {
	ts.t.Helper()
	ts.waits(writer, forPause)
	ts.noTaskRuns()
	if got := other.do("DBSIZE"); got != fmt.Sprint(":", keys) {
		ts.t.Errorf("while CLIENT PAUSE delays writes, there are keys: %s, not %d", got, keys)
	}
	other.do("CLIENT UNPAUSE")
	writer.expect("+OK")
}

// TestWritersWaitBehindPause: while CLIENT PAUSE waits, no write overtakes it, however small, so it
// does not wait for ever. Reads go on, and a transaction can still be queued.
func TestWritersWaitBehindPause(t *testing.T) {
	h := &held{}
	ts := start(t, h.use)
	writer, pauses, multi := ts.dial(), ts.dial(), ts.dial()
	multi.do("SET k v")
	writer.send("UNLINK k\n")
	await.For(t, "the task runs", h.runs)
	pauses.send("CLIENT PAUSE 1000000 WRITE\n")
	ts.waits(pauses, forTask)
	replies := ts.behindTask("SET small 1", "PUBLISH c m", "UNLINK k", "EVAL 'return 1' 0",
		"MSET m 1 n 2")
	multi.send("MULTI\nSET q 1\nGET k\nEXEC\n")
	multi.expect("+OK", "+QUEUED", "+QUEUED")
	ts.waits(multi, forTask)
	reader := ts.dial()
	reader.send("GET k\nDBSIZE\nEVAL_RO 'return redis.call(\"GET\", \"k\")' 0\n")
	reader.expect("v", ":1", "v")
	close(h.gate)
	writer.expect(":1")
	pauses.expect("+OK")
	if got := reader.do("DBSIZE"); got != ":0" {
		t.Errorf("in the pause there come keys: %s", got)
	}
	reader.do("CLIENT UNPAUSE")
	replies("+OK", ":0", ":0", ":1", "+OK")
	multi.expect("*2 +OK $-1")
	ts.noTasks()
}

// TestUnpauseBehindPause: a CLIENT PAUSE that waits begins its pause before a later CLIENT UNPAUSE
// runs, so the latter ends the pause. If no CLIENT PAUSE waits, CLIENT UNPAUSE waits for nobody.
func TestUnpauseBehindPause(t *testing.T) {
	h := &held{}
	ts := start(t, h.use)
	writer, pauses, ends := ts.dial(), ts.dial(), ts.dial()
	writer.send("UNLINK k\n")
	await.For(t, "the task runs", h.runs)
	if got := ends.do("CLIENT UNPAUSE"); got != "+OK" {
		t.Error(got)
	}
	pauses.send("CLIENT PAUSE 1000000 ALL\n")
	ts.waits(pauses, forTask)
	ends.send("CLIENT UNPAUSE\n")
	ts.waits(ends, forTask)
	close(h.gate)
	writer.expect(":0")
	pauses.expect("+OK")
	ends.expect("+OK")
	if got := ts.dial().do("SET k v"); got != "+OK" {
		t.Error(got)
	}
}

// TestLeavesBeforePause: a client that is killed while its CLIENT PAUSE waits begins no pause, and
// nobody waits for it any more. If the client only disconnects, the pause begins all the same, as
// in Redis, which runs the commands already sent.
func TestLeavesBeforePause(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		h := &held{}
		ts := start(t, h.use)
		writer, pauses, small := ts.dial(), ts.dial(), ts.dial()
		writer.send("UNLINK k\n")
		await.For(t, "the task runs", h.runs)
		pauses.send("CLIENT PAUSE 1000000 WRITE\n")
		ts.waits(pauses, forTask)
		small.send("SET k v\n")
		ts.waits(small, forTask)
		s := ts.sessionOf(pauses)
		if leaves {
			reset(pauses)
		} else if got := ts.dial().do(fmt.Sprint("CLIENT KILL ID ", s.client.ID)); got != ":1" {
			t.Fatal(got)
		}
		close(h.gate)
		writer.expect(":0")
		ts.ends(s)
		if leaves {
			ts.waits(small, forPause)
			ts.dial().do("CLIENT UNPAUSE")
		}
		small.expect("+OK")
		ts.noTasks()
	}
}

// TestPauseTimeBegins: the duration of a pause counts from the reply to CLIENT PAUSE, however long
// the command has waited.
func TestPauseTimeBegins(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	h := &held{}
	ts := start(t, h.use, func(o *storage.Options) { o.Clock = clk })
	writer, pauses, small := ts.dial(), ts.dial(), ts.dial()
	writer.send("UNLINK k\n")
	await.For(t, "the task runs", h.runs)
	pauses.send("CLIENT PAUSE 1000 WRITE\n")
	ts.waits(pauses, forTask)
	clk.Advance(5 * time.Second)
	ts.onLoop(func(*loop) {})
	close(h.gate)
	writer.expect(":0")
	pauses.expect("+OK")
	small.send("SET k v\n")
	ts.waits(small, forPause)
	clk.Advance(999 * time.Millisecond)
	ts.onLoop(func(*loop) {})
	ts.waits(small, forPause)
	clk.Advance(time.Millisecond)
	ts.onLoop(func(*loop) {})
	small.expect("+OK")
}

// TestPauseWhileBusy: CLIENT PAUSE is refused while a script runs for too long, even if the command
// has already waited for that script. Other clients then do not wait for it.
func TestPauseWhileBusy(t *testing.T) {
	ts := start(t)
	script, pauses, inMulti := ts.dial(), ts.dial(), ts.dial()
	script.raw(multibulk("EVAL", "redis.call('GET', KEYS[1]) while true do end", "1", "k"))
	await.Until(t, "the script runs", func() (runs bool) {
		ts.onLoop(func(l *loop) { runs = l.globalRuns() })
		return runs
	})
	pauses.send("CLIENT PAUSE 1000000 WRITE\n")
	ts.waits(pauses, forTask)
	inMulti.send("MULTI\nCLIENT PAUSE 1000000 WRITE\nEXEC\n")
	inMulti.expect("+OK", "+QUEUED")
	ts.waits(inMulti, forTask)
	ts.onLoop(func(l *loop) {
		if err := ts.cfg.Set(config.Pair{Name: "busy-reply-threshold", Value: "1"}); err != nil {
			t.Error(err)
		}
	})
	await.Until(t, "the server is busy", func() (busy bool) {
		ts.onLoop(func(l *loop) {
			l.checkScript()
			busy = l.env.Busy != ""
		})
		return busy
	})
	pauses.expect(busyScript)
	if got := inMulti.reply(); !strings.HasPrefix(got, "-EXECABORT") {
		t.Error(got)
	}
	other := ts.dial()
	if got := other.do("SCRIPT KILL"); got != "+OK" {
		t.Error(got)
	}
	script.reply()
	if got := other.do("SET k v"); got != "+OK" {
		t.Error(got)
	}
}

// TestStopWithPauseThatWaits: while the server stops, a waiting CLIENT PAUSE does not begin its
// pause, as the clients after it would wait for that.
func TestStopWithPauseThatWaits(t *testing.T) {
	h := &held{}
	ts := start(t, h.use, neverGiveUp)
	writer, pauses, small := ts.dial(), ts.dial(), ts.dial()
	writer.send("UNLINK k\n")
	await.For(t, "the task runs", h.runs)
	pauses.send("CLIENT PAUSE 1000000 WRITE\n")
	ts.waits(pauses, forTask)
	small.send("SET k v\n")
	ts.waits(small, forTask)
	ts.stop()
	await.Until(t, "the server stops", func() (stops bool) {
		ts.onLoop(func(l *loop) { stops = l.stopping })
		return stops
	})
	close(h.gate)
	writer.expect(":0", "(eof)")
	pauses.expect("+OK", "(eof)")
	small.expect("+OK", "(eof)")
}

// TestPauseDelays: a pause delays each command that may write, as in Redis, even if the command is
// not declared to write. It does not delay commands that only read.
func TestPauseDelays(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.send("PFADD h a\nSCRIPT LOAD 'return 1'\n")
	c.expect(":1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
	c.raw(multibulk("FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function{function_name = 'f', callback = function() return 1 end, flags = {'no-writes'}}"))
	c.expect("l")
	const sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0"
	calls := []string{"EVAL 'return 1' 0", "EVALSHA " + sha, "FCALL f 0", "PUBLISH c m",
		"SPUBLISH c m", "PFCOUNT h"}
	var delayed []*client
	for _, call := range calls {
		queued := ts.dial()
		queued.send("MULTI\n" + call + "\n")
		queued.expect("+OK", "+QUEUED")
		delayed = append(delayed, queued)
	}
	c.do("CLIENT PAUSE 1000000 WRITE")
	for i, call := range calls {
		delayed[i].send("EXEC\n")
		d := ts.dial()
		d.send(call + "\n")
		delayed = append(delayed, d)
	}
	for _, d := range delayed {
		ts.waits(d, forPause)
	}
	c.send("EVAL_RO 'return 1' 0\nEVALSHA_RO " + sha + "\nFCALL_RO f 0\nEXISTS h\n")
	c.expect(":1", ":1", ":1", ":1")
	c.do("CLIENT UNPAUSE")
	for _, d := range delayed {
		if got := d.reply(); got[0] == '-' {
			t.Error(got)
		}
	}
}

// fillers starts tasks that do not write, and lets them run until end is called. MSET is a task,
// too.
func fillers() (use func(*commands.Env), fill func(ts *testServer, n int), end func()) {
	runs, gate := make(chan struct{}, maxUnlocked), make(chan struct{})
	use = func(e *commands.Env) {
		beside(e, "MSET")
		spec := e.Table.Lookup([]byte("LOLWUT"))
		spec.Scope = commands.Unlocked
		spec.Run = func(c *commands.Ctx) error {
			runs <- struct{}{}
			<-gate
			c.Out.OK()
			return nil
		}
	}
	fill = func(ts *testServer, n int) {
		ts.t.Helper()
		for range n {
			ts.dial().send("LOLWUT\n")
			await.For(ts.t, "the task runs", runs)
		}
	}
	return use, fill, sync.OnceFunc(func() { close(gate) })
}

// writesMany sends an MSET, which is a task that waits in the queue.
func (ts *testServer) writesMany() *client {
	ts.t.Helper()
	c := ts.dial()
	call := []string{"MSET"}
	for i := range 10_000 {
		call = append(call, fmt.Sprint("key:", i), "v")
	}
	c.raw(multibulk(call...))
	ts.queued(1)
	return c
}

// TestPauseBesideQueue: CLIENT PAUSE does not wait for a task that has not begun. The task waits
// for the end of the pause.
func TestPauseBesideQueue(t *testing.T) {
	use, fill, end := fillers()
	ts := start(t, use)
	fill(ts, maxUnlocked)
	writer, other := ts.writesMany(), ts.dial()
	if got := other.do("CLIENT PAUSE 1000000 WRITE"); got != "+OK" {
		t.Fatal(got)
	}
	end()
	ts.writesBehindPause(writer, other, 0)
}

// TestPauseBeforeQueue: a task that has not begun waits for CLIENT PAUSE even while CLIENT PAUSE
// waits for the end of a running task.
func TestPauseBeforeQueue(t *testing.T) {
	h := &held{}
	use, fill, end := fillers()
	ts := start(t, use, h.use)
	defer end()
	running, pauses, other := ts.dial(), ts.dial(), ts.dial()
	running.send("UNLINK none\n")
	await.For(t, "the task runs", h.runs)
	fill(ts, maxUnlocked-1)
	writer := ts.writesMany()
	pauses.send("CLIENT PAUSE 1000000 WRITE\n")
	ts.waits(pauses, forTask)
	close(h.gate)
	running.expect(":0")
	pauses.expect("+OK")
	end()
	ts.writesBehindPause(writer, other, 0)
}

// TestPauseInExecBesideQueue: a queued task does not begin while a transaction runs that may still
// begin a pause.
func TestPauseInExecBesideQueue(t *testing.T) {
	h := &held{}
	use, fill, end := fillers()
	ts := start(t, use, h.use)
	fill(ts, maxUnlocked)
	writer, exec := ts.writesMany(), ts.dial()
	exec.send("MULTI\nEVAL 'return 1' 0\nCLIENT PAUSE 1000000 WRITE\nSET k v\nEXEC\n")
	exec.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED")
	await.For(t, "the transaction runs", h.runs)
	end()
	ts.waits(writer, forTask)
	close(h.gate)
	exec.expect("*3 :1 +OK +OK")
	ts.writesBehindPause(writer, exec, 1)
}
