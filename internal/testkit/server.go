package testkit

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/childproc"
	"keyp/internal/testkit/await"
)

// tailBytes is the maximum length in bytes of a server's output that a failure shows.
const tailBytes = 8 << 10

// Options contains the settings for running a server.
type Options struct {
	// Dir is the data directory; empty: a fresh one, removed after the test.
	Dir string
	// Port is the port to listen on; 0: a free one.
	Port int
	// TLS is the authority for the certificate of a second port, which uses TLS; nil: the
	// server has no such port.
	TLS *Authority
	// Config is a file of options, which CONFIG REWRITE changes; empty: none.
	Config string
	// Args are further flags.
	Args []string
	// Env are further environment variables, NAME=VALUE.
	Env []string
	// Under is a command that runs the server, with its own arguments. The server's command
	// line follows them.
	Under []string
}

// Server is an address and a data directory for a server process, which may end and start again.
// Its methods fail the test on any error. They must be called on the test's goroutine unless their
// comment says otherwise.
type Server struct {
	t       testing.TB
	name    string
	program string
	args    func(s *Server) []string
	o       Options
	port    int
	tlsPort int

	output Output
	cmd    *exec.Cmd     // nil: no process
	exited chan struct{} // closed once cmd has ended
	result error         // of cmd, after exited
}

// Keyp starts keyp with further flags and waits until it answers.
func Keyp(t testing.TB, args ...string) *Server {
	t.Helper()
	s := NewKeyp(t, Options{Args: args})
	s.Start()
	return s
}

// NewKeyp returns a Server for keyp without starting it.
func NewKeyp(t testing.TB, o Options) *Server {
	t.Helper()
	return prepare(t, "keyp", Binary(t), o, func(s *Server) []string {
		args := []string{"--port", strconv.Itoa(s.port), "--dir", s.o.Dir}
		if s.o.Config != "" {
			args = append([]string{s.o.Config}, args...)
		} else {
			// Creating a segment of the default size takes longer than most tests.
			args = append(args, "--wal-segment-size", "4mb")
		}
		if s.o.TLS != nil {
			args = append(append(args, "--tls-port", strconv.Itoa(s.tlsPort)),
				s.o.TLS.ServerArgs()...)
		}
		return append(args, s.o.Args...)
	})
}

// Redis starts redis-server and waits until it answers. It saves nothing unless args say otherwise.
// If it is not installed, the test is skipped, or fails if KEYP_REQUIRE_REDIS is 1.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	s := prepare(t, "redis-server", Program(t, "redis-server"), Options{Args: args},
		func(s *Server) []string {
			return append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
				"--dir", s.o.Dir,
				"--save", "", "--appendonly", "no"}, s.o.Args...)
		})
	s.Start()
	return s
}

// Program returns the path of a program of Redis. If it is not installed, the test is skipped, or
// fails if KEYP_REQUIRE_REDIS is 1.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, found := Find(t, name)
	if !found {
		t.Skipf("SKIPPED: %s is not installed, so nothing is compared with Redis here", name)
	}
	return path
}

// Find returns the path of a program of Redis, for a test that can do part of its work without it.
// If it is not installed, found is false, or the test fails if KEYP_REQUIRE_REDIS is 1. All tests
// look for these programs through Find.
func Find(t testing.TB, name string) (path string, found bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("KEYP_REQUIRE_REDIS") == "1" {
		t.Fatalf("%s is not installed, and KEYP_REQUIRE_REDIS=1 asks for it", name)
	}
	return path, err == nil
}

// FindTool returns the path of an optional program that is not part of Redis.
func FindTool(name string) (path string, found bool) {
	path, err := exec.LookPath(name)
	return path, err == nil
}

func prepare(t testing.TB, name, program string, o Options, args func(*Server) []string) *Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s := &Server{t: t, name: name, program: program, args: args, o: o, port: o.Port}
	if s.port == 0 {
		s.port = FreePort(t)
	}
	s.tlsPort = FreePort(t)
	t.Cleanup(func() {
		if s.Running() {
			_ = s.end(syscall.SIGKILL) // says only that it was killed
		} else if s.cmd != nil {
			t.Errorf("%s ended by itself: %v", s.name, s.result)
		}
		if s.raced() {
			t.Errorf("%s has a data race", s.name)
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", s.name, s.output.tail())
		}
	})
	return s
}

// FreePort returns a free loopback port. No other call returns it until the test ends, in any
// process: until then FreePort holds the UDP port of the same number. The port is below those that
// systems use for outgoing connections, so it is still free when the server restarts.
func FreePort(t testing.TB) int {
	t.Helper()
	const low, high = 20000, 32000
	for range 100 {
		port := low + rand.IntN(high-low)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		taken, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			_ = taken.Close() // another port will do
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = taken.Close() }) // nothing was sent
		return port
	}
	t.Fatalf("no free port from %d to %d", low, high)
	return 0
}

// Addr returns the server's address: host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.Port()) }

// TLSAddr returns the server's address for TLS, host:port. It is in use only with Options.TLS.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }

// Port returns the server's port.
func (s *Server) Port() string { return strconv.Itoa(s.port) }

// Dir returns the server's data directory.
func (s *Server) Dir() string { return s.o.Dir }

// Pid returns the process id of the server; 0 if it was not started or has been stopped.
func (s *Server) Pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Log returns all output of the server, over restarts too. Any goroutine may call it.
func (s *Server) Log() string { return s.output.String() }

// SetArgs replaces the further flags for the following starts.
func (s *Server) SetArgs(args ...string) { s.o.Args = args }

// Args returns the further flags for the next start.
func (s *Server) Args() []string { return slices.Clone(s.o.Args) }

// Start runs the server and waits until it answers PING with PONG.
func (s *Server) Start() {
	s.t.Helper()
	for try := 0; ; try++ {
		from := s.output.size()
		s.launch()
		err := s.ready()
		if err == nil {
			return
		}
		// Another process may have taken the port since FreePort checked it.
		taken := strings.Contains(s.output.String()[from:], "ddress already in use")
		if !taken || s.o.Port != 0 || try == 10 {
			s.t.Fatalf("%s: %v", s.name, err)
		}
		s.port, s.tlsPort = FreePort(s.t), FreePort(s.t)
	}
}

// launch starts the process and does not wait until it answers.
func (s *Server) launch() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatalf("%s runs already", s.name)
	}
	line := append(append(slices.Clone(s.o.Under), s.program), s.args(s)...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(Environ(), s.o.Env...)
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := childproc.Start(cmd); err != nil {
		s.t.Fatalf("start %s: %v", s.program, err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		s.result = cmd.Wait()
		close(exited)
	}()
}

// Environ returns the environment of this process without KEYP_ variables, which Keyp would take
// for options, and without GOGC, which the tests set. So programs run as they do elsewhere. But it
// turns HTTP off, as all servers would use the same port.
func Environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(text string) bool {
		return strings.HasPrefix(text, "KEYP_") || strings.HasPrefix(text, "GOGC=")
	})
	return append(env, "KEYP_HTTP_ADDR=")
}

// ready waits for PONG. It returns an error if the process has ended instead.
func (s *Server) ready() (err error) {
	s.t.Helper()
	await.Until(s.t, s.name+" answers PING", func() bool {
		pong := s.ping()
		select {
		case <-s.exited:
			s.cmd = nil
			err = fmt.Errorf("ended by itself (%v) instead of serving", s.result)
			return true
		default:
			return pong
		}
	})
	return err
}

// ping reports whether this process, and not another one on its port, answers PING. If the server
// requires a password, its NOAUTH error is enough.
func (s *Server) ping() bool {
	conn, err := await.Dial("tcp", s.Addr())
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\nQUIT\r\n")); err != nil {
		return false
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return false
	}
	return bytes.HasPrefix(answer, []byte("-NOAUTH")) ||
		bytes.HasPrefix(answer, []byte("+PONG\r\n")) &&
			bytes.Contains(answer, fmt.Appendf(nil, "\r\nprocess_id:%d\r\n", s.Pid()))
}

// Refuses runs the server, which must end by itself. It returns the exit status and the output of
// this process.
func (s *Server) Refuses() (status int, printed string) {
	s.t.Helper()
	from := s.output.size()
	s.launch()
	await.For(s.t, s.name+" refuses to start", s.exited)
	status = s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	return status, s.output.String()[from:]
}

// StartsOrEnds starts a server that may end by itself, and reports whether it serves.
func (s *Server) StartsOrEnds() bool {
	s.t.Helper()
	s.launch()
	return s.ready() == nil
}

// Ended waits for the end of the process and returns its status, which may be any.
func (s *Server) Ended() (status int) {
	s.t.Helper()
	await.For(s.t, s.name+" ends", s.exited)
	status = s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	return status
}

// Running reports whether the process was started and has not ended.
func (s *Server) Running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Exited returns a channel that is closed when the process of the last start has ended. Any
// goroutine may wait for it.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Kill ends the process with SIGKILL and waits for its end.
func (s *Server) Kill() {
	s.t.Helper()
	s.mustRun()
	_ = s.end(syscall.SIGKILL) // says only that it was killed
}

// WaitKilled waits until the kernel or another process ends the server with SIGKILL. Any other end
// fails the test.
func (s *Server) WaitKilled() {
	s.t.Helper()
	await.For(s.t, "somebody kills "+s.name, s.exited)
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok ||
		status.Signal() != syscall.SIGKILL {
		s.t.Fatalf("%s ended by itself: %v", s.name, s.result)
	}
	s.cmd = nil
}

// KillStarting starts the server and ends it with SIGKILL after d, ready or not.
func (s *Server) KillStarting(d time.Duration) {
	s.t.Helper()
	s.launch()
	await.Pass(d)
	s.mustRun()
	_ = s.end(syscall.SIGKILL) // says only that it was killed
}

// Stop ends the process with SIGTERM and waits; a status other than 0 fails the test.
func (s *Server) Stop() {
	s.t.Helper()
	s.mustRun()
	if err := s.end(syscall.SIGTERM); err != nil {
		s.t.Fatalf("%s after SIGTERM: %v", s.name, err)
	}
}

// Wait waits until the process ends because of a command; a status other than 0 fails the test.
func (s *Server) Wait() {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatalf("%s does not run", s.name)
	}
	await.For(s.t, s.name+" ends", s.exited)
	s.cmd = nil
	if s.result != nil {
		s.t.Fatalf("%s: %v", s.name, s.result)
	}
}

// Restart calls Stop and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

func (s *Server) mustRun() {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatalf("%s does not run", s.name)
	}
	select {
	case <-s.exited:
		s.cmd = nil
		s.t.Fatalf("%s ended by itself: %v", s.name, s.result)
	default:
	}
}

// end sends sig and waits for the end of the process. It returns the process's error, or an error
// that says that the process did not end in time.
func (s *Server) end(sig syscall.Signal) error {
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v: %w", sig, err)
	}
	select {
	case <-s.exited:
		return s.result
	case <-await.Over():
	}
	// SIGQUIT makes Go print all stacks, which show where the process hangs.
	_ = cmd.Process.Signal(syscall.SIGQUIT) // it may end just now
	select {
	case <-s.exited:
	case <-await.Over():
		_ = cmd.Process.Kill() // likewise
		<-s.exited
	}
	return fmt.Errorf("did not end within %v of %v", await.Bound, sig)
}

// raced reports whether the race detector has found a data race.
func (s *Server) raced() bool { return strings.Contains(s.output.String(), "WARNING: DATA RACE") }

// Client returns a go-redis client that uses RESP2 or RESP3 (proto 2 or 3), closed after the test.
// It never retries a command, and its timeouts are long.
func (s *Server) Client(proto int) *redis.Client {
	return s.ClientDB(proto, 0)
}

// ClientDB is like Client, but selects another database.
func (s *Server) ClientDB(proto, db int) *redis.Client {
	return NewClient(s.t, &redis.Options{Addr: s.Addr(), Protocol: proto, DB: db})
}

// ClientTLS is like Client, but uses TLS.
func (s *Server) ClientTLS(proto int, cfg *tls.Config) *redis.Client {
	return NewClient(s.t, &redis.Options{Addr: s.TLSAddr(), Protocol: proto, TLSConfig: cfg})
}

// NewClient is like Server.Client, but takes further options. With its defaults go-redis gives up
// after some seconds and sends the command again, which happens on a slow machine. internal/layout
// checks that tests make no client in another way.
func NewClient(t testing.TB, o *redis.Options) *redis.Client {
	patient := *o
	patient.MaxRetries, patient.DialerRetries = -1, 1
	patient.DialTimeout, patient.ReadTimeout, patient.WriteTimeout,
		patient.PoolTimeout = await.Bound, await.Bound, await.Bound, await.Bound
	c := redis.NewClient(&patient)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// Dial returns a raw connection, closed after the test.
func (s *Server) Dial() *await.Conn {
	s.t.Helper()
	conn, err := await.Dial("tcp", s.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	return conn
}

// RepeatUntilGone repeats a command, whatever its reply, until the server is gone. Any goroutine
// may call it.
func (s *Server) RepeatUntilGone(args ...any) {
	c := s.Client(2)
	defer c.Close()
	for {
		var refused redis.Error
		if err := c.Do(context.Background(), args...).Err(); err != nil &&
			!errors.Is(err, redis.Nil) && !errors.As(err, &refused) {
			return
		}
	}
}

// Output collects the output of a process. It may be read meanwhile.
type Output struct {
	mu struct {
		sync.Mutex
		buf bytes.Buffer
	}
}

func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.buf.Write(b)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.buf.String()
}

func (o *Output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.buf.Len()
}

// tail returns the last tailBytes of the output.
func (o *Output) tail() string {
	text := o.String()
	if len(text) > tailBytes {
		return "…" + text[len(text)-tailBytes:]
	}
	return text
}
