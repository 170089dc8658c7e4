package server

import (
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// TestLargeReplyBeforeClose: a client that asks for 64 MB and then sends QUIT gets the whole reply.
func TestLargeReplyBeforeClose(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	large := strings.Repeat("0123456789abcdef", 4<<20)
	c.raw(multibulk("SET", "large", large) + multibulk("GET", "large") + "QUIT\r\n")
	c.expect("+OK", large, "+OK", "(eof)")

	ts.onLoop(func(l *loop) {
		if size := l.buffers.size; size > pooledOutput {
			t.Errorf("the pool keeps %d bytes", size)
		}
	})
}

// TestClientThatNeverReads: a client sends many commands and does not read the replies. Its memory
// is limited, others are served, and it gets every reply when it finally reads.
func TestClientThatNeverReads(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	const commandCount = 100_000
	value := strings.Repeat("v", 1000)
	c.raw(multibulk("SET", "k", value))
	c.expect("+OK")
	base := heapInUse()
	sent := make(chan error, 1)
	go func() { // 100 MB of replies, and 100 MB of commands
		get := multibulk("ECHO", value)
		var err error
		for i := 0; i < commandCount && err == nil; i++ {
			_, err = io.WriteString(c, get)
		}
		sent <- err
	}()
	var held *session
	await.Until(t, "the server stops reading", func() (stalled bool) {
		ts.onLoop(func(l *loop) {
			for _, s := range l.sessions {
				if s != nil && s.stalled && s.full {
					held, stalled = s, true
				}
			}
		})
		return stalled
	})
	select {
	case err := <-sent:
		t.Fatalf("everything was taken in: %v", err)
	default:
	}
	ts.onLoop(func(*loop) {
		if out := held.out.pending(); out > outputPause+64<<10 {
			t.Errorf("%d bytes of output wait", out)
		}
		if in, _ := held.QueryBuffer(); in > turnBytes {
			t.Errorf("%d bytes of input wait", in)
		}
		if total := held.Memory(); total > 4<<20 {
			t.Errorf("the connection takes %d bytes", total)
		}
	})
	if grown := heapInUse() - base; grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if got := ts.dial().do("PING"); got != "+PONG" {
		t.Fatalf("another client got %q", got)
	}
	for range commandCount {
		c.expect(value)
	}
	if err := await.For(t, "all is sent", sent); err != nil {
		t.Fatal(err)
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	for range 3 { // what a sync.Pool has goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestQueryBufferLimit(t *testing.T) {
	ts := start(t, "client-query-buffer-limit=1mb")
	c := ts.dial()
	go func() {
		_, _ = io.WriteString(c, "*2\r\n$4\r\nECHO\r\n$9000000\r\n"+strings.Repeat("x", 3<<20))
	}()
	if got := c.reply(); got[0] != '(' {
		t.Fatalf("got %.100q", got)
	}
	if n := ts.env.Stats.QueryBufferLimit.Load(); n != 1 {
		t.Fatalf("%d clients counted", n)
	}
	if got := ts.dial().do("ECHO hi"); got != "hi" {
		t.Fatal(got)
	}
}

func TestOutputBufferHardLimit(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.raw(multibulk("SET", "k", strings.Repeat("x", 200_000)))
	c.expect("+OK")
	c.raw(multibulk("CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0"))
	c.expect("+OK")
	await.Until(t, "the limit is read", func() (known bool) {
		ts.onLoop(func(l *loop) { known = l.settings.normal.hard == 100_000 })
		return known
	})
	c.raw(multibulk("GET", "k"))
	if got := c.reply(); got[0] != '(' {
		t.Fatalf("got %.100q", got)
	}
	if n := ts.env.Stats.OutputBufferLimit.Load(); n != 1 {
		t.Fatalf("%d clients counted", n)
	}
}

func TestOutputBufferSoftLimit(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.raw(multibulk("SET", "k", strings.Repeat("x", 16<<20)))
	c.expect("+OK")
	if got := ts.dial(); got.do(
		`CONFIG SET client-output-buffer-limit "normal 0 1000 0"`) != "+OK" {
		t.Fatal("CONFIG SET")
	}
	c.raw(multibulk("GET", "k"))
	await.Until(t, "the client is cut", func() bool {
		return ts.env.Stats.OutputBufferLimit.Load() == 1
	})
}

// TestGuestThatNeverReads: before authentication, only about 1 KB of a client's replies may be
// pending. Beyond that it is closed. A client that reads its replies may send any number of
// commands.
func TestGuestThatNeverReads(t *testing.T) {
	ts := start(t, "requirepass=secret")
	c := ts.dial()
	s := ts.sessionOf(c)
	most := 0
	ts.onLoop(func(l *loop) {
		l.env.Table.Lookup([]byte("AUTH")).Run = func(c *commands.Ctx) error {
			// Run is called for each reply.
			most = max(most, s.out.pending())
			return commands.Error("ERR no")
		}
	})
	asks := make([]byte, 0, 1<<20)
	for len(asks) < 1<<20 {
		asks = append(asks, "AUTH x\r\n"...)
	}
	go func() {
		for {
			if _, err := c.Write(asks); err != nil {
				return
			}
		}
	}()
	await.Until(t, "the client is closed", func() (gone bool) {
		ts.onLoop(func(*loop) { gone = s.state == closed })
		return gone
	})
	ts.onLoop(func(*loop) {
		if most > guestOutput+100 {
			t.Errorf("%d bytes waited for a client without a password", most)
		}
	})
	reads := ts.dial()
	reads.send(strings.Repeat("PING\n", 3000))
	for range 3000 {
		reads.expect("-NOAUTH Authentication required.")
	}
}

func TestMaxClients(t *testing.T) {
	ts := start(t, "maxclients=3")
	var list []*client
	for range 3 {
		c := ts.dial()
		c.do("PING")
		list = append(list, c)
	}
	ts.dial().expect("-ERR max number of clients reached", "(eof)")
	if got := list[0].do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	if err := list[1].Close(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "there is room again", func() bool { return ts.dial().do("PING") == "+PONG" })
	if ts.env.Stats.Rejected.Load() == 0 {
		t.Fatal("no rejected connection was counted")
	}
}

// TestIdleTimeout: the option timeout counts real time, whatever steps the wall clock makes.
func TestIdleTimeout(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, "timeout=10", func(o *storage.Options) { o.Clock = clk })
	c, busy := ts.dial(), ts.dial()
	c.do("PING")
	passes := func() {
		for range 3 {
			ts.onLoop(func(*loop) {})
		}
	}
	for _, step := range []int64{3_600_000, -3_600_000} {
		busy.do("PING")
		clk.Set(clk.Now() + step)
		clk.Advance(4 * time.Second)
		passes()
		if got := busy.do("CLIENT LIST"); strings.Count(got, "\n") != 2 ||
			!strings.Contains(got, "age=") {
			t.Fatalf("a step of %d ms closed clients: %s", step, got)
		}
	}
	if got := busy.do("CLIENT LIST ID 1"); !strings.Contains(got, " age=8 idle=8 ") {
		t.Fatal(got)
	}
	clk.Advance(2 * time.Second)
	passes()
	c.expect("(eof)")
	if got := busy.do("PING"); got != "+PONG" {
		t.Fatalf("a client that was silent for 2 s got %q", got)
	}
}

// TestPauseOverClockSteps: the time of CLIENT PAUSE also counts real time.
func TestPauseOverClockSteps(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	for _, step := range []int64{3_600_000, -3_600_000} {
		if got := c.do("CLIENT PAUSE 10000 WRITE") +
			c.do("CLIENT PAUSE 5000 ALL"); got != "+OK+OK" {
			t.Fatal(got)
		}
		c.send("PING\n")
		clk.Set(clk.Now() + step)
		clk.Advance(9999 * time.Millisecond)
		ts.onLoop(func(*loop) {})
		c.silent(ts)
		clk.Advance(time.Millisecond)
		ts.onLoop(func(*loop) {})
		c.expect("+PONG")
	}
}

// TestFairness runs one client with an endless pipeline. Other clients need not wait for its end.
func TestFairness(t *testing.T) {
	ts := start(t)
	greedy := ts.dial()
	go func() {
		lot := strings.Repeat("SET a 1\r\n", 50_000)
		for {
			if _, err := io.WriteString(greedy, lot); err != nil {
				return
			}
		}
	}()
	go func() { _, _ = io.Copy(io.Discard, greedy) }()
	c := ts.dial()
	for range 100 {
		if got := c.do("INCR n"); got[0] != ':' {
			t.Fatal(got)
		}
	}
	if err := greedy.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestIdleConnectionIsSmall limits the memory of a connection that was used and is now silent,
// between commands or within one.
func TestIdleConnectionIsSmall(t *testing.T) {
	ts := start(t)
	const n = 300
	ts.dial().do("SET k v") // what the store itself takes
	base := heapInUse()
	var list []*client
	for i := range n {
		c := ts.dial()
		c.raw(multibulk("GET", "k") + "*2\r\n$4\r\nECHO\r\n$2\r\n"[:i%3*9])
		c.expect("v")
		c.r = nil // the test's own buffer is no part of the measure
		list = append(list, c)
	}
	await.Until(t, "buffers are given back", func() bool {
		most := 0
		ts.onLoop(func(l *loop) {
			for _, s := range l.sessions {
				if s != nil {
					most = max(most, s.Memory())
				}
			}
		})
		return most < 1024
	})
	most := int64(2500) // the client's end takes about 1000
	if testkit.Race {
		// With the race detector each of the smallest objects takes 16 bytes, and pools drop their
		// objects.
		most += 1000
	}
	if per := (heapInUse() - base) / n; per > most {
		t.Errorf("%d bytes of heap for a connection, both ends together", per)
	}
	runtime.KeepAlive(list)
}

// TestNoAllocationPerCommand runs commands through the loop's own code.
func TestNoAllocationPerCommand(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	ts, err := prepareServer(t, t.TempDir(), []string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	l := ts.loop
	s := &session{loop: l, fd: -1}
	s.client = commands.Client{ID: 1, Conn: s}
	l.env.Reset(&s.client)
	input := strings.Repeat(multibulk("SET", "key", "value")+multibulk("GET", "key")+
		multibulk("GET", "nokey"), 5)
	round := func() {
		l.pass++
		s.reader = l.readers.get()
		room := s.reader.Space(len(input))
		s.reader.Advance(copy(room, input))
		left := turnCommands
		l.turnEnd = math.MaxInt64
		l.isolate(s, func(s *session) { l.runInput(s, &left) })
		if left != turnCommands-15 {
			t.Fatalf("%d commands ran", turnCommands-left)
		}
		if err := l.log.Commit(); err != nil {
			t.Fatal(err)
		}
		l.durable = l.log.Durable()
		if len(s.out.ready(l.durable)) != s.out.pending() {
			t.Fatal("replies are held back after a commit")
		}
		s.out.drop(&l.buffers)
		l.readers.put(s.reader, 0)
	}
	round()
	// The store's goroutines sometimes allocate, more often on a busy machine. The test checks that
	// no allocation is needed, so the best of several measurements counts.
	least := math.Inf(1)
	for range 20 {
		if least = min(least, testing.AllocsPerRun(200, round)); least == 0 {
			break
		}
	}
	if least > 0 {
		t.Errorf("%v allocations for 15 commands", least)
	}
	l.shut()
	if err := ts.store.Close(false); err != nil {
		t.Fatal(err)
	}
}

// mayRest checks that a client is not closed as idle, however long it is silent.
func (ts *testServer) mayRest(c *client) {
	ts.t.Helper()
	s := ts.sessionOf(c)
	ts.onLoop(func(l *loop) {
		l.settings.idle = 1
		s.client.LastActive -= time.Second
		l.armIdle(s)
		if l.checkIdle(s); s.state == closed {
			ts.t.Error("it was closed as idle")
		}
		l.settings.idle = 0
	})
}
