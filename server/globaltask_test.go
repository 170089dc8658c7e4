package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/testkit/await"
	"keyp/resp"
	"keyp/storage"
)

// callOf builds a valid call of a command from its grammar, without optional arguments.
func callOf(spec *commands.Spec) []string {
	words := strings.Split(spec.FullName(), "|")
	var add func(args []commands.Arg)
	add = func(args []commands.Arg) {
		for _, arg := range args {
			if arg.Optional && len(words) >= max(spec.Arity, -spec.Arity) {
				continue
			}
			if arg.Token != "" {
				words = append(words, arg.Token)
			}
			switch arg.Type {
			case commands.ArgToken:
			case commands.ArgBlock:
				add(arg.Args)
			case commands.ArgOneOf:
				add(arg.Args[:1])
			case commands.ArgKey:
				words = append(words, fmt.Sprint("key", len(words)))
			case commands.ArgString, commands.ArgPattern:
				words = append(words, "x")
			case commands.ArgDouble: // of DEBUG SLEEP, too
				words = append(words, "0")
			default:
				words = append(words, "1")
			}
		}
	}
	add(spec.Args)
	for len(words) < max(spec.Arity, -spec.Arity) {
		words = append(words, "1")
	}
	return words
}

// queueable returns the commands that MULTI queues.
func queueable(t *commands.Table) (list []*commands.Spec) {
	for _, spec := range t.All() {
		for i := range spec.Sub {
			list = append(list, &spec.Sub[i])
		}
		if spec.Run != nil {
			list = append(list, spec)
		}
	}
	kept := list[:0]
	for _, spec := range list {
		if !spec.Is(commands.Unqueued) && !spec.Is(commands.NoMulti) {
			kept = append(kept, spec)
		}
	}
	return kept
}

// TestEveryCommandInExec runs each command inside EXEC, once with only its keys locked and once as
// part of a global task. Meanwhile other clients use the same keys and read data about all clients
// and keys. No command may hang, fail internally or race.
func TestEveryCommandInExec(t *testing.T) {
	ts := start(t, "enable-debug-command=yes")
	stop := make(chan struct{})
	var beside sync.WaitGroup
	defer beside.Wait()
	defer close(stop)
	for _, commands := range []string{"CLIENT LIST", "INFO everything", "SET key1 1",
		"DEL key1 key2 key3", "DBSIZE", "WATCH key1", "KEYS *", "CLIENT UNPAUSE"} {
		c := ts.dial()
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					await.Pass(time.Millisecond)
				}
				if _, err := fmt.Fprintf(c, "%s\r\n", commands); err != nil {
					return
				}
				if _, err := readReply(c.r); err != nil {
					t.Errorf("beside, %s: %v", commands, err)
					return
				}
			}
		})
	}
	for _, spec := range queueable(ts.env.Table) {
		call := callOf(spec)
		if call[0] == "debug" && call[1] == "panic" {
			continue
		}
		for _, with := range []string{"PING", "RANDOMKEY"} {
			c := ts.dial()
			c.send("HELLO 3\n")
			c.reply()
			c.raw("MULTI\r\n" + multibulk(call...) + with + "\r\n")
			c.expect("+OK", "+QUEUED", "+QUEUED")
			c.send("EXEC\n")
			if got := c.reply(); strings.Contains(got, "-ERR internal error") ||
				!strings.HasPrefix(got, "*2 ") && spec.Flags&commands.Pushes == 0 &&
					call[0] != "client" {
				t.Errorf("%q with %s: %.200q", call, with, got)
			}
			_ = c.Close()
		}
	}
	ts.onLoop(func(l *loop) {
		if l.tasks.global != nil || len(l.waitlist) > 0 {
			t.Error("a task has not ended")
		}
	})
}

// hog is a command that replaces LOLWUT. It keeps the keyspace locked until the test ends it.
type hog struct {
	runs, end chan struct{}
}

// use installs the command. It appends to the key log, waits, and then replies with the result of
// PING, which the event loop runs.
func (h *hog) use(e *commands.Env) {
	h.runs, h.end = make(chan struct{}, 1), make(chan struct{})
	spec := e.Table.Lookup([]byte("LOLWUT"))
	spec.Scope = commands.Global
	spec.Run = func(c *commands.Ctx) error {
		appends, ping := e.Table.Lookup([]byte("APPEND")), e.Table.Lookup([]byte("PING"))
		out := resp.Writer{Proto: 2}
		c.Call(appends, c.Client, [][]byte{[]byte("APPEND"), []byte("log"), []byte("hog")}, &out)
		h.runs <- struct{}{}
		<-h.end
		c.Call(ping, c.Client, [][]byte{[]byte("PING")}, c.Out)
		return nil
	}
}

// waiting waits until n sessions wait for the end of the task.
func (ts *testServer) waiting(n int) {
	ts.t.Helper()
	await.Until(ts.t, fmt.Sprintf("%d sessions wait", n), func() (ok bool) {
		ts.onLoop(func(l *loop) { ok = len(l.waitlist) == n })
		return ok
	})
}

// TestGlobalTask: while a global task runs, commands wait. Afterwards they run in the order in
// which they came, including commands of further tasks. Commands that do not use the keyspace get
// their replies at once.
func TestGlobalTask(t *testing.T) {
	h := &hog{}
	ts := start(t, h.use)
	a, b, c, d := ts.dial(), ts.dial(), ts.dial(), ts.dial()
	d.do("GET log") // it has been read before: the hog does not wait for it
	a.send("LOLWUT\n")
	await.For(t, "the task runs", h.runs)
	b.send("APPEND log b\n")
	ts.waiting(1)
	c.send("MULTI\nAPPEND log c\nKEYS l*\nEXEC\n")
	c.expect("+OK")
	ts.waiting(2)
	d.send("WATCH log\n")
	ts.waiting(3)
	e := ts.dial()
	e.send("LOLWUT\n")
	ts.waiting(4)
	f := ts.dial()
	f.send("GET log\n")
	ts.waiting(5)
	h.end <- struct{}{}
	a.expect("+PONG")
	b.expect(":4")
	c.expect("+QUEUED", "+QUEUED", "*2 :5 *1 log")
	await.For(t, "the task runs", h.runs) // the second one
	ts.onLoop(func(l *loop) {
		if l.tasks.global == nil {
			t.Error("no task runs")
		}
	})
	h.end <- struct{}{}
	d.expect("+OK")
	e.expect("+PONG")
	// On a busy machine the task may not have reached the key yet when the event loop moves to
	// another goroutine. Then f comes before the task.
	if got := f.reply(); !slices.Contains([]string{"hogb", "hogbc", "hogbchog"}, got) {
		t.Errorf("behind the tasks the log is %q", got)
	}
	if got := a.do("APPEND log a"); got != ":9" {
		t.Errorf("at the end the log has %s bytes", got)
	}
	if got := f.do("GET log"); got != "hogbchoga" {
		t.Errorf("at the end the log is %q", got)
	}
}

// TestLendIsWatched: the loop runs a task itself, and then executes a command for it. Meanwhile no
// other goroutine takes the task over, no lock is held, and the supervisor may sleep. Afterwards
// the supervisor watches the task again.
func TestLendIsWatched(t *testing.T) {
	var l *loop
	runs, end := make(chan struct{}), make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		ping := e.Table.Lookup([]byte("PING"))
		ping.Run = func(c *commands.Ctx) error {
			await.Until(t, "the supervisor sleeps", func() bool {
				l.tasks.mu.Lock()
				defer l.tasks.mu.Unlock()
				return !l.tasks.mu.armed
			})
			c.Out.OK()
			return nil
		}
		spec := e.Table.Lookup([]byte("LOLWUT"))
		spec.Scope = commands.Global
		spec.Run = func(c *commands.Ctx) error {
			c.Call(ping, c.Client, [][]byte{[]byte("PING")}, c.Out)
			runs <- struct{}{}
			<-end
			return nil
		}
	}, func(of *loop) { l = of })
	a, b := ts.dial(), ts.dial()
	a.send("LOLWUT\n")
	await.For(t, "the task runs", runs)
	if got := b.do("CLIENT GETNAME"); got != "$-1" {
		t.Errorf("beside the task: %s", got)
	}
	close(end)
	a.expect("+OK")
}

// TestGlobalTaskGone: a task runs to its end even if its client leaves.
func TestGlobalTaskGone(t *testing.T) {
	h := &hog{}
	ts := start(t, h.use)
	a, b := ts.dial(), ts.dial()
	s := ts.sessionOf(a)
	a.send("LOLWUT\n")
	await.For(t, "the task runs", h.runs)
	b.send("GET log\n")
	ts.waiting(1)
	c := ts.dial()
	c.send("GET log\n")
	ts.waiting(2)
	_ = a.Close()
	_ = c.Close()
	ts.onLoop(func(l *loop) { l.close(s) })
	h.end <- struct{}{}
	b.expect("hog")
}

// TestGlobalTaskStop: a clean stop waits for a task, but only for a limited time.
func TestGlobalTaskStop(t *testing.T) {
	for _, patient := range []bool{true, false} {
		h := &hog{}
		ts := start(t, h.use)
		a := ts.dial()
		a.send("LOLWUT\n")
		await.For(t, "the task runs", h.runs)
		ts.stop()
		await.Until(t, "the server begins to stop", func() (stopping bool) {
			ts.onLoop(func(l *loop) { stopping = l.stopping })
			return stopping
		})
		if !patient {
			ts.onLoop(func(l *loop) { l.giveUp, l.busy = true, true })
			if err := await.For(t, "the server stops", ts.done); err == nil {
				t.Error("it stops as if the task had ended")
			}
			ts.done <- nil
		}
		h.end <- struct{}{}
		if patient {
			a.expect("+PONG")
		}
	}
}

// TestBusy: while a script runs for too long, other clients' commands are refused, also those that
// waited before. Only commands that can end the script, and a few others such as MULTI and UNWATCH,
// run.
func TestBusy(t *testing.T) {
	const busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	ts := start(t, "busy-reply-threshold=50")
	b, c := ts.dial(), ts.dial()
	c.do("WATCH k")
	a := ts.loops("", "k") // a script that has not come to its first command shares k, too
	a.send("PING\n")
	b.send("GET k\nPING\nMULTI\nGET k\nEXEC\nEXEC\nMULTI\nNOSUCH\nDISCARD\nWATCH k\n")
	b.expect("-"+busy, "-"+busy, "+OK", "-"+busy, "-EXECABORT Transaction discarded because of: "+
		busy,
		"-EXECABORT Transaction discarded because of: "+busy, "+OK",
		"-ERR unknown command 'NOSUCH', with args beginning with: ", "+OK")
	c.send("UNWATCH\nDBSIZE\nINFO\nSCRIPT KILL\n")
	c.expect("+OK", "-"+busy, "-"+busy, "+OK")
	if got := a.reply(); !strings.HasPrefix(got, "-ERR Script killed by user") {
		t.Errorf("the script's client hears %q", got)
	}
	a.expect("+PONG")
	b.expect("+OK")
	if got := c.do("GET k"); got != "$-1" {
		t.Errorf("behind the script: %q", got)
	}
}

// TestShareBeforeBegin: on a busy machine, a script's transaction may not have begun when the loop
// wants to share the keyspace with it. Then the loop shares later. In this test the transaction
// begins after the loop's first attempt.
func TestShareBeforeBegin(t *testing.T) {
	ts := start(t)
	j := &task{txn: ts.store.NewTxn()}
	ts.onLoop(func(l *loop) {
		l.tasks.global = j
		l.shareOut()
	})
	await.Until(t, "the loop comes again", func() (again bool) {
		ts.onLoop(func(l *loop) { again = l.tasks.share.at > 0 })
		return again
	})
	ts.store.BeginGlobal(j.txn, nil)
	j.txn.Yield()
	if got := ts.dial().do("SET k v"); got != "+OK" {
		t.Error(got)
	}
	j.txn.Resume()
	j.txn.End()
	ts.onLoop(func(l *loop) {
		l.tasks.global = nil
		l.timers.stop(&l.tasks.share)
	})
}

// globalRuns reports whether the global task has locked the key k. A task that has not locked the
// key yet lets others go first.
func (l *loop) globalRuns() bool {
	if l.tasks.global == nil {
		return false
	}
	t := l.env.Store.NewTxn()
	if l.env.Store.Begin(t, []storage.Key{l.env.Store.Key(0, []byte("k"))}) {
		t.End()
		return false
	}
	return t.BlockedByGlobal()
}

// TestBusyTransaction: a long transaction makes other clients wait. A long script in a transaction
// makes the server refuse their commands.
func TestBusyTransaction(t *testing.T) {
	still, goOn := stopped(t)
	ts := start(t, "busy-reply-threshold=20", "enable-debug-command=yes", still)
	a, b := ts.dial(), ts.dial()
	a.send("MULTI\nDEBUG SLEEP 0.2\nSET k 1\nEXEC\n")
	a.expect("+OK", "+QUEUED", "+QUEUED")
	await.Until(t, "the transaction runs", func() (runs bool) {
		ts.onLoop(func(l *loop) { runs = l.globalRuns() })
		return runs
	})
	b.send("GET k\n")
	goOn()
	b.expect("1")
	a.expect("*2 +OK +OK")
	a.send("MULTI\nSET k 2\n")
	a.raw(multibulk("EVAL", "while true do end", "0"))
	a.send("SET l 3\nEXEC\n")
	a.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED")
	await.Until(t, "others are refused", func() bool {
		return strings.HasPrefix(b.do("GET k"), "-BUSY")
	})
	if got := b.do("SCRIPT KILL"); got != "+OK" {
		t.Errorf("SCRIPT KILL: %q", got)
	}
	if got := a.reply(); !strings.HasPrefix(got, "*3 +OK -ERR") || !strings.HasSuffix(got, "+OK") {
		t.Errorf("EXEC gives %q", got)
	}
	if got := b.do("MGET k l"); got != "*2 2 3" {
		t.Errorf("behind it there is %q", got)
	}
}

// TestTakeOver: tasks end before, while and after the event loop moves to another goroutine.
// Several clients run them, beside other clients with pipelines. No command is lost, and none runs
// twice.
func TestTakeOver(t *testing.T) {
	ts := start(t, "enable-debug-command=yes")
	const each = 30
	var all sync.WaitGroup
	for i := range 6 {
		c := ts.dial()
		all.Go(func() {
			for n := range each {
				seconds := []string{"0", "0.001", "0.003", "0.004", "0.006"}[(i+n)%5]
				c.send("INCR n\nMULTI\nINCR n\nDEBUG SLEEP " + seconds +
					"\nCLIENT ID\nINCR n\nEXEC\nINCR n\n")
				for range 8 {
					if got := c.reply(); got[0] == '-' || got[0] == '(' {
						t.Errorf("reply %q", got)
						return
					}
				}
			}
		})
	}
	for range 3 {
		c := ts.dial()
		all.Go(func() {
			for range each {
				c.send(strings.Repeat("INCR n\n", 20))
				for range 20 {
					if got := c.reply(); got[0] != ':' {
						t.Errorf("reply %q", got)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if got, want := ts.dial().do("GET n"), fmt.Sprint(6*each*4+3*each*20); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

// TestBusyExec: a transaction is refused as a whole if it is executed after a script has run for
// too long. That holds even if it uses other keys than the script.
func TestBusyExec(t *testing.T) {
	ts := start(t, "busy-reply-threshold=20")
	a, b := ts.dial(), ts.dial()
	b.send("MULTI\nSET other 1\n")
	b.expect("+OK", "+QUEUED")
	a.raw(multibulk("EVAL", "while true do end", "0"))
	c := ts.dial()
	await.Until(t, "others are refused", func() bool {
		return strings.HasPrefix(c.do("DBSIZE"), "-BUSY")
	})
	if got := b.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") ||
		!strings.Contains(got, "BUSY") {
		t.Errorf("EXEC: %q", got)
	}
	c.send("SCRIPT KILL\n")
	c.expect("+OK")
	if got := b.do("GET other"); got != "$-1" {
		t.Errorf("the transaction has run: %q", got)
	}
}

// TestOwnQueryBuffer: CLIENT LIST counts its own command as input.
func TestOwnQueryBuffer(t *testing.T) {
	c := start(t).dial()
	for _, want := range []struct{ raw, field string }{
		{multibulk("client", "list"), " qbuf=26 "},
		{multibulk("client", "list") + "PING\r\n", " qbuf=32 "},
		{"client list\r\n", " qbuf=13 "},
	} {
		c.raw(want.raw)
		if got := c.reply(); !strings.Contains(got, want.field) {
			t.Errorf("%q: %q", want.raw, got)
		}
		if strings.HasSuffix(want.raw, "PING\r\n") {
			c.expect("+PONG")
		}
	}
}
