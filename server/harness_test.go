package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// testServer is a server on a real store, with its log output.
type testServer struct {
	*Server
	t     testing.TB
	store *storage.Store
	env   *commands.Env
	cfg   *config.Config
	log   *testkit.Output
	bell  *Bell
	done  chan error
	stop  context.CancelFunc
}

// setting is an option for start: "name=value" for the configuration, or a function that changes
// the parts before the server is created.
type setting any

// withTLS is a setting that gives the server a TLS listener too, with these arguments.
type withTLS struct {
	host string
	args []string
}

// prepareServer creates a store and a server that does not run yet.
func prepareServer(t testing.TB, dir string, listen []string,
	settings ...setting) (*testServer, error) {
	ts := &testServer{t: t, log: &testkit.Output{}, bell: &Bell{}, done: make(chan error, 1)}
	log := slog.New(slog.NewTextHandler(ts.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	args := []string{"--dir", dir}
	var listenTLS []string
	storeOptions := storage.Options{
		Dir: dir, Clock: clock.System, Logger: log, OnDurable: ts.bell.Durable,
		OnFail: ts.bell.Fail, Hooks: commands.Features,
	}
	for _, s := range settings {
		switch s := s.(type) {
		case string:
			name, value, _ := strings.Cut(s, "=")
			args = append(args, "--"+name, value)
		case func(*storage.Options):
			s(&storeOptions)
		case withTLS:
			args, listenTLS = append(args, s.args...), []string{s.host + ":0"}
		}
	}
	res, err := config.Load(args, nil, nil)
	if err != nil {
		return nil, err
	}
	ts.cfg = res
	storeOptions.Sync = commands.SyncPolicy(res)
	if ts.store, _, err = storage.Open(storeOptions); err != nil {
		return nil, err
	}
	ts.env = commands.NewEnv(ts.store, ts.cfg, log, storeOptions.Clock)
	for _, s := range settings {
		if fn, ok := s.(func(*commands.Env)); ok {
			fn(ts.env)
		}
	}
	ts.Server, err = New(Options{
		Config: ts.cfg, Env: ts.env, Log: log, Clock: storeOptions.Clock, Bell: ts.bell,
		Listen: listen, ListenTLS: listenTLS,
	})
	if err != nil {
		return nil, firstError(err, ts.store.Close(false))
	}
	if testkit.Long() {
		busy(ts.loop)
	}
	for _, s := range settings {
		if fn, ok := s.(func(*loop)); ok {
			fn(ts.loop)
		}
	}
	return ts, nil
}

// start runs a server on a free loopback port until the test ends.
func start(t testing.TB, settings ...setting) *testServer {
	t.Helper()
	small := func(o *storage.Options) { o.SegmentSize = 64 << 10 } // quicker to prepare
	// A machine may be so slow that any script would otherwise be reported as busy.
	const patient = "busy-reply-threshold=3600000"
	ts, err := prepareServer(t, t.TempDir(), []string{"127.0.0.1:0"},
		append([]setting{small, patient}, settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	return ts
}

func (ts *testServer) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ts.stop = cancel
	ended := make(chan struct{})
	go func() {
		ts.done <- ts.Run(ctx)
		close(ended)
	}()
	ts.t.Cleanup(func() {
		if ts.t.Failed() {
			ts.t.Log(ts.standing())
		}
		cancel()
		await.For(ts.t, "the server stops", ended)
		if err := ts.store.Close(false); err != nil && ts.store.Err() == nil {
			ts.t.Errorf("close: %v", err)
		}
		if ts.t.Failed() {
			log := ts.log.String()
			ts.t.Logf("server log:\n%s", log[max(0, len(log)-8000):])
		}
	})
}

// stopped returns a setting with a clock that stands still until goOn is called, so that DEBUG
// SLEEP does not end. After that the clock runs until the test has ended. Call stopped before the
// server is started, so that the server ends first.
func stopped(t testing.TB) (with setting, goOn func()) {
	clk := clock.NewFake(1_700_000_000_000)
	going, ended := make(chan struct{}), make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		select {
		case <-going:
		case <-ended:
		}
		for {
			select {
			case <-ended:
				return
			default:
				clk.Advance(time.Second)
				await.Pass(time.Millisecond)
			}
		}
	})
	t.Cleanup(func() {
		close(ended)
		passing.Wait()
	})
	return func(o *storage.Options) { o.Clock = clk }, sync.OnceFunc(func() { close(going) })
}

// standing reports whether the event loop is stuck. If it is not, it reports what the sessions wait
// for. It also returns all stacks.
func (ts *testServer) standing() string {
	l := ts.loop
	from := l.watchdog.passes.Load()
	l.box.wake()
	await.Pass(time.Second)
	state := "the event loop is stuck"
	if l.box.asleep.Load() || l.watchdog.passes.Load() != from {
		state = "the event loop continues: " + ts.summary()
	}
	stacks := make([]byte, hangStacks)
	return state + "\n" + string(stacks[:runtime.Stack(stacks, true)])
}

// summary describes what the loop and its sessions wait for.
func (ts *testServer) summary() string {
	var b strings.Builder
	ts.onLoop(func(l *loop) {
		fmt.Fprintf(&b,
			"durable %d, requested %d, owed %d of %d; delay %v, busy %q; tasks %d, unlocked %d, global %t; %d delayed",
			l.log.Durable(), l.requested, l.owed, l.log.End(), l.env.Store.Throttle(), l.env.Busy,
			l.tasks.count, l.unlocked(), l.tasks.global != nil, len(l.waitlist))
		for _, s := range l.sessions {
			if s != nil {
				fmt.Fprintf(&b, "\nclient %d: %s, command %.40q, queued %t, readable %t, output %d",
					s.client.ID, stateNames[s.state], s.args, s.queued, s.readable, s.out.pending())
			}
		}
	})
	return b.String()
}

// onLoop runs fn on the loop and waits for its end.
func (ts *testServer) onLoop(fn func(*loop)) {
	ts.t.Helper()
	done := make(chan struct{})
	ts.loop.box.post(func() {
		defer close(done)
		fn(ts.loop)
	})
	await.For(ts.t, "the loop answers", done)
}

// passes waits for the end of an iteration of the loop that began after the call.
func (ts *testServer) passes() {
	ts.t.Helper()
	var first, now uint64
	ts.onLoop(func(l *loop) { first = l.pass })
	await.Until(ts.t, "the pass ends", func() bool {
		ts.onLoop(func(l *loop) { now = l.pass })
		return now > first+1
	})
}

// neverGiveUp is a setting with which a stop waits without a time limit.
func neverGiveUp(l *loop) { l.stopTimer.run = func() {} }

// busy is a setting that imitates a busy machine. With KEYP_LONG=1 all tests use it. Tasks leave
// the loop's goroutine almost at once, and begin and end late, and input is seen late. So a test
// fails if it expects an order that is not guaranteed.
func busy(l *loop) {
	l.seams.event = func(s *session, ready readiness) {
		if rand.IntN(3) > 0 {
			l.event(s, ready)
			return
		}
		go func() {
			await.Pass(time.Duration(rand.IntN(3)) * time.Millisecond)
			l.box.post(func() {
				if s.state != closed {
					l.event(s, ready)
				}
			})
		}()
	}
	l.seams.superviseEvery = 100 * time.Microsecond
	l.seams.besideLoop = func() {
		await.Pass(time.Duration(rand.IntN(4)*rand.IntN(4)) * time.Millisecond)
	}
}

// client is a raw connection.
type client struct {
	*await.Conn
	t    testing.TB
	r    *bufio.Reader
	sent atomic.Uint64 // bytes
}

func (ts *testServer) dial() *client {
	ts.t.Helper()
	return dial(ts.t, "tcp", ts.Addrs()[0])
}

func dial(t testing.TB, network, addr string) *client {
	t.Helper()
	c, err := await.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return newClient(t, c.Conn, 1<<16)
}

func newClient(t testing.TB, conn net.Conn, buffer int) *client {
	c := &await.Conn{Conn: conn}
	return &client{Conn: c, t: t, r: bufio.NewReaderSize(c, buffer)}
}

// send writes text as it is; "\n" is written as CRLF, for readable inline commands.
func (c *client) send(text string) {
	c.t.Helper()
	c.raw(strings.ReplaceAll(text, "\n", "\r\n"))
}

func (c *client) raw(text string) {
	c.t.Helper()
	n, err := io.WriteString(c, text)
	if c.sent.Add(uint64(n)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// reply reads one reply and returns it in a short form: lines joined by spaces, or "(eof)" at the
// end of the connection.
func (c *client) reply() string {
	c.t.Helper()
	text, err := readReply(c.r)
	if err == io.EOF {
		return "(eof)"
	}
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return line, nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		return string(b[:n]), nil
	case '*', '~', '>', '%':
		if line[0] == '%' {
			n *= 2
		}
		parts := []string{line}
		for range n {
			part, err := readReply(r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "), nil
	}
	return line, nil
}

// expect reads one reply per want and compares.
func (c *client) expect(wants ...string) {
	c.t.Helper()
	for i, want := range wants {
		if got := c.reply(); got != want {
			c.t.Fatalf("reply %d: got %.200q, want %.200q", i, got, want)
		}
	}
}

// do sends an inline command and returns its reply.
func (c *client) do(command string) string {
	c.t.Helper()
	c.send(command + "\n")
	return c.reply()
}

// heard reports whether a reply has come.
func (c *client) heard() bool {
	c.t.Helper()
	if err := c.Listen(time.Millisecond); err != nil {
		c.t.Fatal(err)
	}
	defer c.Patient()
	_, err := c.r.Peek(1)
	return err == nil
}

// ran waits until the server has run everything that the client has sent, or until one of the
// commands waits.
func (c *client) ran(ts *testServer) {
	c.t.Helper()
	s := ts.sessionOf(c)
	await.Until(c.t, "the server has run what was sent", func() (ran bool) {
		ts.onLoop(func(*loop) { ran = s.waiting() || s.client.NetIn == c.sent.Load() && !s.queued })
		return ran
	})
}

// silent checks that the server has run the client's commands and has sent no reply. Replies to
// earlier work of the loop have been sent by then.
func (c *client) silent(ts *testServer) {
	c.t.Helper()
	c.ran(ts)
	ts.passes()
	if c.heard() {
		c.t.Fatalf("%q comes too early", c.reply())
	}
}

// multibulk encodes a command.
func multibulk(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// TestMain lets the test binary be a server of its own process: for tests that change
// the process's limits, and for measuring by hand:
//
//	KEYP_TEST_SERVER=directory KEYP_TEST_PORT=16300 ./server.test
func TestMain(m *testing.M) {
	if dir := os.Getenv("KEYP_TEST_SERVER"); dir != "" {
		if err := serveProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveProcess(dir string) error {
	port := os.Getenv("KEYP_TEST_PORT")
	if port == "" {
		port = "0"
	}
	var settings []setting
	for _, word := range strings.Fields(os.Getenv("KEYP_TEST_SETTINGS")) {
		settings = append(settings, word)
	}
	ts, err := prepareServer(nil, filepath.Clean(dir), []string{"127.0.0.1:" + port}, settings...)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(os.Getenv("KEYP_TEST_FILES")); err == nil {
		limit := syscall.Rlimit{Cur: uint64(n), Max: uint64(n)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	startProfile()
	fmt.Println("listening", ts.Addrs()[0])
	err = ts.Run(ctx)
	stopProfile()
	fmt.Fprint(os.Stderr, ts.log.String())
	return firstError(err, ts.store.Close(ts.SaveAtExit()))
}
