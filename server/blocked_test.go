package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// waitBlocked waits until n sessions wait in a blocking command.
func waitBlocked(ts *testServer, n int) {
	ts.t.Helper()
	await.Until(ts.t, fmt.Sprint(n, " sessions wait"), func() bool { return ts.blocked() == n })
}

func (ts *testServer) blocked() (n int) {
	ts.t.Helper()
	ts.onLoop(func(l *loop) {
		for _, s := range l.sessions {
			if s != nil && s.blocked != nil {
				n++
			}
		}
	})
	return n
}

// blocks sends a command that blocks, and returns when it waits.
func (c *client) blocks(ts *testServer, command string) *client {
	c.t.Helper()
	before := ts.blocked()
	c.send(command + "\n")
	waitBlocked(ts, before+1)
	return c
}

func (ts *testServer) blocks(command string) *client {
	ts.t.Helper()
	return ts.dial().blocks(ts, command)
}

// TestBlockedInOrder: waiting clients get elements in the order in which they came.
func TestBlockedInOrder(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	first := ts.blocks("BLPOP a b 0")
	second := ts.blocks("BRPOP b a 0")
	third := ts.blocks("BLMPOP 0 2 b c LEFT COUNT 2")
	members := ts.blocks("BZPOPMIN b 0")
	if info := c.do("INFO clients"); !strings.Contains(info, "\nblocked_clients:4\r\n") ||
		!strings.Contains(info, "\ntotal_blocking_keys:3\r\n") ||
		!strings.Contains(info, "\nclients_in_timeout_table:0\r\n") {
		t.Errorf("INFO:\n%s", info)
	}
	if list := c.do("CLIENT LIST"); strings.Count(list, " flags=b ") != 4 ||
		!strings.Contains(list, " cmd=bzpopmin ") {
		t.Errorf("CLIENT LIST:\n%s", list)
	}
	c.send("RPUSH b 1 2 3 4 5\nLLEN b\n")
	c.expect(":5", ":1")
	first.expect("*2 b 1")
	second.expect("*2 b 5")
	third.expect("*2 b *2 2 3")
	c.do("DEL b")
	c.do("ZADD b 1 one 2 two")
	members.expect("*3 b one 1")

	// An element that a waiting client moves wakes the next one. Each client gets one reply.
	first.blocks(ts, "BLMOVE x y LEFT RIGHT 0")
	second.blocks(ts, "BRPOPLPUSH y x 0")
	third.blocks(ts, "BLPOP z y 0")
	c.send("LPUSH x v\nEXISTS x y\n")
	c.expect(":1", ":1")
	first.expect("v")
	second.expect("v")
	third.silent(ts)
	c.do("RENAME x y")
	third.expect("*2 y v")
	waitBlocked(ts, 0)
	if stat := c.do("INFO commandstats"); !strings.Contains(stat, "cmdstat_blpop:calls=2,") {
		t.Errorf("commandstats:\n%s", stat)
	}
}

// TestBlockedAreWoken: every command that creates a list or a sorted set wakes clients that wait
// for one.
func TestBlockedAreWoken(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	dump := func() string {
		c.do("RPUSH d v")
		return c.do("DUMP d")
	}()
	for _, w := range []struct{ waits, wakes, want string }{
		{"BLPOP k 0", "LPUSH k v", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; RPUSHX l w; RENAME l k", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; RENAMENX l k", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; COPY l k", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; LMOVE l k LEFT LEFT", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; RPOPLPUSH l k", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; SORT l ALPHA STORE k", "*2 k v"},
		{"BLPOP k 0", "RPUSH l v; SORT l BY nosort GET # STORE k", "*2 k v"},
		{"BLPOP k 0", "RESTORE k 0 dump", "*2 k v"},
		{"BLPOP k 0", "SELECT 1; RPUSH k v; MOVE k 0; SELECT 0", "*2 k v"},
		{"BLPOP k 0", "SELECT 1; RPUSH k v; SELECT 0; SWAPDB 0 1", "*2 k v"},
		{"BLPOP k 0", "SET k x; SADD s v; RPUSH l v; COPY s k REPLACE; SORT s ALPHA STORE k",
			"*2 k v"},
		{"BLPOP k 0", "ZADD k 1 x; LPUSH l v; COPY l k REPLACE", "*2 k v"},
		{"BLPOP k 0", "RPUSH k a v; LTRIM k 1 -1", "*2 k a"},
		{"BLMPOP 0 1 k RIGHT COUNT 3", "RPUSH k a b; LINSERT k BEFORE a x", "*2 k *2 b a"},
		{"BZPOPMAX k 0", "ZADD k 1 a 2 b", "*3 k b 2"},
		{"BZPOPMIN k 0", "ZINCRBY k 2 a", "*3 k a 2"},
		{"BZPOPMIN k 0", "ZADD z 1 a; ZADD y 2 a; ZUNIONSTORE k 2 z y", "*3 k a 3"},
		{"BZPOPMIN k 0", "ZADD z 1 a; ZRANGESTORE k z 0 -1", "*3 k a 1"},
		{"BZMPOP 0 2 j k MIN COUNT 2", "ZADD z 1 a 2 b; ZDIFFSTORE k 2 z none",
			"*2 k *2 *2 a 1 *2 b 2"},
		{"BZPOPMIN k 0", "SADD s a; ZINTERSTORE k 1 s", "*3 k a 1"},
		{"BZPOPMIN k 0", "ZADD z 1 a; RENAME z k", "*3 k a 1"},
		{"BLMOVE k l LEFT RIGHT 0", "LPUSH k v", "v"},
		{"BLPOP k 0", "MULTI; RPUSH k a; DEL k; RPUSH k v w; EXEC", "*2 k v"},
		{"BLPOP k 0", "MULTI; DBSIZE; RPUSH k v; EXEC", "*2 k v"}, // with the whole keyspace
		{"BLPOP k 0",
			"EVAL redis.call('set','k','x')redis.call('del','k')redis.call('rpush','k','v') 0",
			"*2 k v"},
		{"BZPOPMIN k 0",
			"EVAL redis.call('rpush','k','x');redis.call('del','k');redis.call('zadd','k',1,'v') 1 k",
			"*3 k v 1"},
		{"BRPOP k 0",
			"EVAL assert(redis.call('blpop','k',0)==false);redis.call('rpush','k','v','w');redis.call('blpop','k',0) 0",
			"*2 k w"},
		{"BRPOPLPUSH k l 0", "SET l x; LPUSH k v",
			"-WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"BLPOP j k 0", "SET j x; LPUSH k v",
			"-WRONGTYPE Operation against a key holding the wrong kind of value"},
	} {
		c.do("FLUSHALL")
		waiter := ts.blocks(w.waits)
		for _, command := range strings.Split(w.wakes, "; ") {
			args := strings.Fields(command)
			if args[len(args)-1] == "dump" {
				args[len(args)-1] = dump
			}
			c.raw(multibulk(args...))
			if got := c.reply(); got[0] == '-' {
				t.Fatalf("%s: %s", command, got)
			}
		}
		if got := waiter.reply(); got != w.want {
			t.Errorf("%s, %s: %q, want %q", w.waits, w.wakes, got, w.want)
		}
	}
	waitBlocked(ts, 0)
}

// TestBlockedAndMonitor: MONITOR shows a blocking command once, when it arrives.
func TestBlockedAndMonitor(t *testing.T) {
	ts := start(t)
	m := ts.dial()
	m.do("MONITOR")
	w := ts.blocks("BLPOP k 0")
	ts.dial().do("RPUSH k v")
	w.expect("*2 k v")
	w.do("PING")
	for _, want := range []string{`"BLPOP" "k" "0"`, `"RPUSH" "k" "v"`, `"PING"`} {
		if got := m.reply(); !strings.HasSuffix(got, want) {
			t.Errorf("MONITOR shows %s, want %s", got, want)
		}
	}
}

// TestBlockedTimeout: the timeout is exact to the millisecond, and never early.
func TestBlockedTimeout(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	two, three := ts.dial(), ts.dial()
	three.do("HELLO 3")
	for _, w := range []struct {
		command string
		ms      int
	}{
		{"BLPOP a b 0.25", 250}, {"BLMOVE a b LEFT LEFT 1.0001", 1001}, {"BRPOPLPUSH a b 1e-9", 1},
		{"BZPOPMIN a 3600", 3_600_000}, {"BLMPOP 0.5 1 a LEFT", 500}, {"BZMPOP 0.5 1 a MIN", 500},
	} {
		two.blocks(ts, w.command)
		three.blocks(ts, w.command)
		clk.Advance(time.Duration(w.ms)*time.Millisecond - 1)
		two.silent(ts)
		clk.Advance(1)
		ts.onLoop(func(*loop) {})
		two.expect("*-1")
		three.expect("_")
	}
	// The timeout of a client that was served in time has no effect.
	two.blocks(ts, "BLPOP a 1")
	ts.dial().do("RPUSH a v")
	two.expect("*2 a v")
	clk.Advance(time.Second)
	ts.onLoop(func(*loop) {})
	two.silent(ts)
	// A wait for ever does not end, nor does an extremely long one.
	two.blocks(ts, "BLPOP a 0")
	three.blocks(ts, "BLPOP a 9e15")
	clk.Advance(80 * 365 * 24 * time.Hour)
	two.silent(ts)
	three.silent(ts)
	ts.dial().do("RPUSH a x y")
	two.expect("*2 a x")
	three.expect("*2 a y")
	if stats := two.do("INFO commandstats"); !strings.Contains(stats, "cmdstat_blpop:calls=5,") {
		t.Errorf("commandstats:\n%s", stats)
	}
	if stats := two.do("INFO clients"); !strings.Contains(stats,
		"\nclients_in_timeout_table:0\r\n") {
		t.Errorf("clients:\n%s", stats)
	}
}

// TestBlockedPipeline: later commands of a blocked connection wait, and so do their replies.
func TestBlockedPipeline(t *testing.T) {
	ts := start(t)
	c, w := ts.dial(), ts.dial()
	w.send("RPUSH own 1\nBLPOP own 0\nBLPOP k 0\nSET after 1\nBLPOP k 0\nGET after\n")
	w.expect(":1", "*2 own 1")
	waitBlocked(ts, 1)
	if got := c.do("EXISTS after"); got != ":0" {
		t.Errorf("a command behind a blocking one has run: %s", got)
	}
	c.send("RPUSH k a b\nEXISTS after\n")
	c.expect(":2")
	c.reply()
	w.expect("*2 k a", "+OK", "*2 k b", "1")
	// Commands that arrive while it waits.
	w.blocks(ts, "BLPOP k 0")
	w.send("PING\nBLPOP k 0\n")
	w.silent(ts)
	c.send("RPUSH k c\nRPUSH k d\n")
	c.expect(":1")
	c.reply()
	w.expect("*2 k c", "+PONG", "*2 k d")
}

func TestClientUnblock(t *testing.T) {
	ts := start(t)
	c, w := ts.dial(), ts.dial()
	w.do("HELLO 3")
	id := strings.TrimPrefix(w.do("CLIENT ID"), ":")
	if got := c.do("CLIENT UNBLOCK " + id); got != ":0" {
		t.Errorf("one that does not wait: %s", got)
	}
	for unblock, want := range map[string]string{
		"": "_", " TIMEOUT": "_", " ERROR": "-UNBLOCKED client unblocked via CLIENT UNBLOCK",
	} {
		w.blocks(ts, "BLPOP k 0")
		c.send("CLIENT UNBLOCK " + id + unblock + "\nRPUSH k v\nLPOP k\n")
		c.expect(":1", ":1", "v")
		w.expect(want)
		if got := w.do("PING"); got != "+PONG" {
			t.Error(got)
		}
	}
	// A command that CLIENT PAUSE holds back does not count as waiting.
	c.do("CLIENT PAUSE 100000 WRITE")
	w.send("BLPOP k 0.001\n")
	await.Until(t, "it is held", func() bool {
		return strings.Contains(c.do("INFO clients"), "\nblocked_clients:1\r\n")
	})
	if got := c.do("CLIENT UNBLOCK " + id); got != ":0" {
		t.Errorf("one that is held back: %s", got)
	}
	c.do("CLIENT UNPAUSE")
	w.expect("_")
	if stats := c.do("INFO errorstats"); !strings.Contains(stats, "errorstat_UNBLOCKED:count=1") {
		t.Errorf("errorstats:\n%s", stats)
	}
}

// TestBlockedGone: a blocked client that leaves, or is killed, takes no element. It still gets its
// earlier replies.
func TestBlockedGone(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	killed, half, late, closed, stays := ts.dial(), ts.dial(), ts.dial(), ts.dial(), ts.dial()
	id := strings.TrimPrefix(killed.do("CLIENT ID"), ":")
	for _, w := range []*client{killed, half, closed, stays} {
		w.send("ECHO before\n")
		w.expect("before")
		w.blocks(ts, "BLPOP k 0")
	}
	if got := c.do("CLIENT KILL ID " + id); got != ":1" {
		t.Error(got)
	}
	killed.expect("(eof)")
	shut(half)
	half.expect("(eof)")
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	waitBlocked(ts, 1)
	late.send("ECHO before\nBLPOP k 0\nSET not 1\n")
	shut(late)
	late.expect("before", "(eof)")
	c.do("RPUSH k v")
	stays.expect("*2 k v")
	if got := c.do("EXISTS k not"); got != ":0" {
		t.Errorf("%s keys are left", got)
	}
	await.Until(t, "all are gone", func() bool {
		return strings.Contains(c.do("INFO clients"), "connected_clients:2\r\n")
	})
}

// shut closes the client's side of a connection.
func shut(c *client) {
	c.t.Helper()
	if err := c.CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// TestBlockedInPause: during CLIENT PAUSE no blocked client is served, but timeouts go on.
func TestBlockedInPause(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c, pusher := ts.dial(), ts.dial()
	w, timed := ts.blocks("BLPOP k 0"), ts.blocks("BLPOP k 5")
	c.do("CLIENT PAUSE 10000")
	pusher.send("RPUSH k v\n")
	w.silent(ts)
	clk.Advance(5 * time.Second)
	ts.onLoop(func(*loop) {})
	timed.expect("*-1")
	clk.Advance(5 * time.Second)
	ts.onLoop(func(*loop) {})
	pusher.expect(":1")
	w.expect("*2 k v")

	// An element that was there when the pause began may have expired when it ends.
	w.blocks(ts, "BLPOP k l 0")
	for _, command := range []string{"MULTI", "RPUSH k v", "PEXPIRE k 100", "RPUSH l w",
		"CLIENT PAUSE 1000"} {
		c.do(command)
	}
	if got := c.do("EXEC"); got != "*4 :1 :1 :1 +OK" {
		t.Error(got)
	}
	w.silent(ts)
	clk.Advance(time.Second)
	ts.onLoop(func(*loop) {})
	w.expect("*2 l w")
	w.blocks(ts, "BLPOP k 0")
	w.silent(ts)
}

// TestBlockedBehindATask: a global task may hold a key when blocked clients of this key could be
// served. Then the key is checked again when the task ends, although its change is reported only
// once.
func TestBlockedBehindATask(t *testing.T) {
	h := &hog{}
	ts := start(t, h.use)
	c, task := ts.dial(), ts.dial()
	w := ts.blocks("BLPOP log 0")
	c.send("MULTI\nRPUSH log v\nCLIENT PAUSE 1000000 WRITE\nEXEC\n") // so w is not served at once
	c.expect("+OK", "+QUEUED", "+QUEUED", "*2 :1 +OK")
	task.send("LOLWUT\n")
	await.For(t, "the task runs", h.runs)
	ts.onLoop(func(l *loop) {
		l.endPause()
		waited := l.env.Waiters.Waiting()
		if l.deliver(); !waited || l.tasks.global == nil {
			t.Error("the key's turn has not come while the task holds it")
		}
	})
	if n := ts.blocked(); n != 1 {
		t.Errorf("%d clients wait", n)
	}
	h.end <- struct{}{}
	task.expect("+PONG")
	w.expect("*2 log v")
}

// TestBlockedIsNotIdle: the option timeout does not close blocked clients.
func TestBlockedIsNotIdle(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, "timeout=10", func(o *storage.Options) { o.Clock = clk })
	w, idle := ts.blocks("BLPOP k 0"), ts.dial()
	idle.do("PING")
	for range 5 {
		clk.Advance(10 * time.Second)
		ts.onLoop(func(*loop) {})
	}
	idle.expect("(eof)")
	ts.dial().do("RPUSH k v")
	w.expect("*2 k v")
}

// TestBlockedWaitForTheDisk: an element that a blocked client gets is sent only when the change is
// durable in the log.
func TestBlockedWaitForTheDisk(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	slowDisk(t, ts, d)
	w, c := ts.blocks("BLPOP k 0"), ts.dial()
	release := d.hold()
	c.send("RPUSH k v\n")
	waitBlocked(ts, 0)
	w.silent(ts)
	c.silent(ts)
	release()
	c.expect(":1")
	w.expect("*2 k v")
}

// TestStopWithBlocked: a stop does not wait for blocked clients.
func TestStopWithBlocked(t *testing.T) {
	ts := start(t)
	w := ts.blocks("BLPOP k 0")
	ts.stop()
	w.expect("(eof)")
}

// TestThousandBlocked: a thousand blocked clients need no goroutines, whether they wait for one key
// or for a thousand. Each gets its own element.
func TestThousandBlocked(t *testing.T) {
	const n = 1000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 3*n {
		t.Skip("too few descriptors")
	}
	ts := start(t)
	c := ts.dial()
	for _, same := range []bool{true, false} {
		waiters := make([]*client, n)
		before := runtime.NumGoroutine()
		key := func(i int) string {
			if same {
				return "k"
			}
			return fmt.Sprint("k", i)
		}
		for i := range waiters {
			waiters[i] = ts.dial()
			waiters[i].send("BLPOP " + key(i) + " 100000\n")
			if same {
				waitBlocked(ts, i+1)
			}
		}
		waitBlocked(ts, n)
		if now := runtime.NumGoroutine(); now > before+20 {
			t.Errorf("%d goroutines, %d before", now, before)
		}
		var pushes strings.Builder
		for i := range waiters {
			fmt.Fprintf(&pushes, "RPUSH %s %d\n", key(i), i)
		}
		c.send(pushes.String())
		for i, w := range waiters {
			c.expect(":1")
			w.expect(fmt.Sprint("*2 ", key(i), " ", i))
		}
	}
	waitBlocked(ts, 0)
}

// TestBlockedKeysAreLoaded: a client whose keys must be read from disk keeps its turn. The clients
// after it wait and are served after it.
func TestBlockedKeysAreLoaded(t *testing.T) {
	ts := start(t, func(o *storage.Options) { o.MaxMemory = 1 })
	c := ts.dial()
	unload := func() {
		t.Helper()
		c.do("SAVE")
		await.Until(t, "all keys leave memory", func() bool {
			return strings.Contains(c.do("INFO memory"), "\nresident_keys:0\r\n")
		})
	}
	for range testkit.Cases(1, 5) {
		c.do("FLUSHALL")
		c.do("RPUSH to old")
		c.do("SELECT 1")
		c.do("RPUSH from a b")
		c.do("SELECT 0")
		unload()
		waiters := []*client{
			ts.blocks("BLMOVE from to LEFT RIGHT 0"), ts.blocks("BLPOP from 0"),
			ts.blocks("BLMOVE from to LEFT RIGHT 0"), ts.blocks("BZPOPMIN from 0"),
			ts.blocks("BLPOP from 0"),
		}
		ts.onLoop(func(l *loop) {
			for _, s := range l.sessions {
				if s != nil && s.blocked != nil && s.past.Loads != 0 {
					t.Errorf("%d loads of the past count", s.past.Loads)
				}
			}
		})
		unload()
		loads := ts.store.Stats().Loads
		c.do("RPUSH from x y")
		waiters[0].expect("x")
		waiters[1].expect("*2 from y")
		if ts.store.Stats().Loads == loads {
			t.Error("nothing was loaded: the test shows nothing")
		}
		unload()
		c.do("SWAPDB 0 1") // what they get is only on disk
		waiters[2].expect("a")
		waiters[4].expect("*2 from b")
		if got := c.do("LRANGE to 0 -1"); got != "*1 a" {
			t.Errorf("to is %s", got)
		}
		c.do("SELECT 1")
		c.do("DEL from")
		c.do("ZADD from 1 m")
		c.do("SELECT 0")
		unload()
		c.do("SWAPDB 0 1")
		waiters[3].expect("*3 from m 1")
		waitBlocked(ts, 0)
	}
}

// onSession runs fn on the loop, with the session of a client.
func (ts *testServer) onSession(id string, fn func(*loop, *session)) {
	ts.t.Helper()
	ts.onLoop(func(l *loop) {
		for _, s := range l.sessions {
			if s != nil && fmt.Sprint(s.client.ID) == id {
				fn(l, s)
				return
			}
		}
		ts.t.Errorf("there is no client %s", id)
	})
}

// TestBlockedEndsWhileLoading: a wait can end while keys are read from disk for it. It ends at
// once, and other clients are served.
func TestBlockedEndsWhileLoading(t *testing.T) {
	ts := start(t)
	next, c := ts.dial(), ts.dial()
	for _, end := range []struct{ how, want string }{
		{"KILL ID ", "(eof)"},
		{"UNBLOCK ", "*-1"},
		{"UNBLOCK ERROR ", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"},
	} {
		w := ts.dial()
		id := strings.TrimPrefix(w.do("CLIENT ID"), ":")
		w.blocks(ts, "BLPOP k 0")
		next.blocks(ts, "BLPOP k 0")
		late := func() {} // the load's end
		ts.onSession(id, func(l *loop, s *session) {
			b := s.blocked
			b.loads, late = true, func() { l.loadedAgain(s, b, nil) }
		})
		c.do("RPUSH k v")
		next.silent(ts)
		command := "CLIENT " + end.how + id
		if what, ok := strings.CutSuffix(end.how, "ERROR "); ok {
			command = "CLIENT " + what + id + " ERROR"
		}
		if got := c.do(command); got != ":1" {
			t.Fatalf("%s: %s", command, got)
		}
		w.expect(end.want)
		next.expect("*2 k v")
		if end.how[0] == 'U' {
			w.blocks(ts, "BLPOP k 0")
		}
		ts.onLoop(func(*loop) { late() })
		if end.how[0] == 'U' {
			w.silent(ts)
			c.do("RPUSH k v")
			w.expect("*2 k v")
		}
	}
	// A client that still waits gets the element, if it is still there.
	w := ts.dial()
	id := strings.TrimPrefix(w.do("CLIENT ID"), ":")
	w.blocks(ts, "BLPOP k 0")
	next.blocks(ts, "BLPOP k 0")
	for _, commands := range []string{"RPUSH k v; DEL k", "RPUSH k v; DEL k; SET k x",
		"SET k y; DEL k; RPUSH k a b"} {
		ts.onSession(id, func(_ *loop, s *session) { s.blocked.loads = true })
		for _, command := range strings.Split(commands, "; ") {
			c.do(command)
		}
		next.silent(ts)
		ts.onSession(id, func(l *loop, s *session) { l.loadedAgain(s, s.blocked, nil) })
		if !strings.HasSuffix(commands, "b") {
			w.silent(ts)
		}
	}
	w.expect("*2 k a")
	next.expect("*2 k b")
	// If the keys of a client cannot be read, it gets an error, and others are served.
	w.blocks(ts, "BLPOP k 0")
	next.blocks(ts, "BLPOP k 0")
	ts.onSession(id, func(_ *loop, s *session) { s.blocked.loads = true })
	c.do("RPUSH k v")
	ts.onSession(id, func(l *loop, s *session) { l.loadedAgain(s, s.blocked, storage.ErrCorrupt) })
	w.expect("-" + string(commands.ErrUnread))
	next.expect("*2 k v")
	if got := w.do("PING"); got != "+PONG" {
		t.Error(got)
	}
}

// TestBlockedTimeoutWhileLoading: the timeout of a client comes while its keys are being read, or
// while it waits for a task. It gets an element that came before the timeout, or nothing if the
// element is gone.
func TestBlockedTimeoutWhileLoading(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	pass := func(d time.Duration) {
		clk.Advance(d)
		ts.onLoop(func(*loop) {})
	}
	for _, there := range []bool{true, false} {
		w := ts.dial()
		id := strings.TrimPrefix(w.do("CLIENT ID"), ":")
		w.blocks(ts, "BLPOP k 5")
		ts.onSession(id, func(_ *loop, s *session) { s.blocked.loads = true })
		c.do("RPUSH k v")
		pass(5 * time.Second)
		w.silent(ts)
		want := "*2 k v"
		if !there {
			c.do("DEL k")
			want = "*-1"
		}
		ts.onSession(id, func(l *loop, s *session) { l.loadedAgain(s, s.blocked, nil) })
		pass(lateLook)
		w.expect(want)
	}
	// Its command needs a key that a script has locked.
	keys := ts.apart(2)
	w := ts.dial()
	id := strings.TrimPrefix(w.do("CLIENT ID"), ":")
	w.blocks(ts, "BLMOVE "+keys[0]+" "+keys[1]+" LEFT RIGHT 5")
	script := ts.loops("", keys[1])
	if got := c.do("RPUSH " + keys[0] + " v"); got != ":1" {
		t.Error(got)
	}
	await.Until(t, "its command waits for the script", func() (waits bool) {
		pass(time.Millisecond)
		ts.onSession(id, func(_ *loop, s *session) { waits = s.blocked.parked })
		return waits
	})
	pass(5 * time.Second)
	w.silent(ts)
	ts.killed(script)
	w.expect("v")
}

// TestUnblockedWithMuch: CLIENT UNBLOCK ends the wait of a client with much pending output, so that
// all clients together exceed their memory limit. No client is closed while the command runs. The
// clock stands still, so that all commands run in one turn.
func TestUnblockedWithMuch(t *testing.T) {
	still, _ := stopped(t)
	ts := start(t, still)
	c, b := ts.dial(), ts.dial()
	blocked := ts.sessionOf(b)
	c.do("SET v " + strings.Repeat("x", 30_000))
	b.do("CLIENT NO-EVICT ON")
	b.send("BLPOP l 0\n")
	ts.waits(b, forUnblock)
	message := []byte("+" + strings.Repeat("x", 1<<20) + "\r\n")
	await.Until(t, "the socket is full", func() (full bool) {
		ts.onLoop(func(*loop) {
			if full = blocked.full && blocked.out.pending() > outputPause; !full {
				blocked.Push(0, message)
			}
		})
		return full
	})
	ts.onLoop(func(l *loop) { l.memory.limit = l.memory.total + 500 })
	c.send(fmt.Sprintf("GET v\nCLIENT REPLY SKIP\nCLIENT UNBLOCK %d\n", blocked.client.ID))
	await.Until(t, "it is unblocked", func() (ended bool) {
		ts.onLoop(func(*loop) { ended = blocked.blocked == nil })
		return ended
	})
	ts.onLoop(func(l *loop) { l.memory.limit = 1 << 40 })
	if n := ts.env.Stats.Panics.Load(); n > 0 {
		t.Errorf("%d panics", n)
	}
	if got := ts.dial().do("PING"); got != "+PONG" {
		t.Error(got)
	}
}

// TestBlockedServedAtOnce: another goroutine has made a change that is not delivered yet. A command
// that starts to block is served with it before its session's turn ends.
func TestBlockedServedAtOnce(t *testing.T) {
	ts := start(t)
	mover := ts.blocks("BLMOVE x k LEFT LEFT 0")
	c := ts.dial()
	c.do("CLIENT SETNAME second")
	ts.onLoop(func(l *loop) {
		txn, x := ts.store.NewTxn(), ts.store.Key(0, []byte("x"))
		if !ts.store.Begin(txn, []storage.Key{x}) {
			t.Error("the shard is locked")
			return
		}
		list, err := txn.List(x)
		if err != nil {
			t.Error(err)
		}
		list.PushBack([]byte("v"))
		txn.End()
		c.send("BLPOP k 0\n")
		for _, s := range l.sessions {
			if s != nil && s.client.Name == "second" {
				await.Until(t, "the command has come", func() bool {
					n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, 0)
					return err == nil && n == 1
				})
				s.readable = true
				l.isolate(s, l.serve)
			}
		}
	})
	mover.expect("v")
	c.expect("*2 k v")
	if got := c.do("PING"); got != "+PONG" {
		t.Errorf("PING: %s", got)
	}
}
