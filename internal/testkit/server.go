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

// tailBytes is how much of what a server printed a failure shows.
const tailBytes = 8 << 10

// Options are how to run a server.
type Options struct {
	// Dir is the data directory; empty: a fresh one, removed after the test.
	Dir string
	// Port is where to listen; 0: a free one.
	Port int
	// TLS makes the server listen on a second port, with TLS and a certificate of that authority;
	// nil: it does not.
	TLS *Authority
	// Config is a file of options, which CONFIG REWRITE changes; empty: none.
	Config string
	// Args are further flags.
	Args []string
	// Env are further environment variables, NAME=VALUE.
	Env []string
	// Under is a command that runs the server in its own place, with the arguments that come
	// before the server's name.
	Under []string
}

// Server is a place for one server: an address and a data directory. The process in it
// comes and goes. Its methods fail the test when something goes wrong, and are called
// from the test's goroutine unless they say otherwise.
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

// Keyp starts a keyp with further flags and waits until it answers.
func Keyp(t testing.TB, args ...string) *Server {
	t.Helper()
	s := NewKeyp(t, Options{Args: args})
	s.Start()
	return s
}

// NewKeyp prepares a keyp that does not run yet.
func NewKeyp(t testing.TB, o Options) *Server {
	t.Helper()
	return prepare(t, "keyp", Binary(t), o, func(s *Server) []string {
		args := []string{"--port", strconv.Itoa(s.port), "--dir", s.o.Dir}
		if s.o.Config != "" {
			args = append([]string{s.o.Config}, args...)
		} else {
			// The usual one takes longer to prepare than most tests.
			args = append(args, "--wal-segment-size", "4mb")
		}
		if s.o.TLS != nil {
			args = append(append(args, "--tls-port", strconv.Itoa(s.tlsPort)),
				s.o.TLS.ServerArgs()...)
		}
		return append(args, s.o.Args...)
	})
}

// Redis starts a real redis-server, which saves nothing unless args say otherwise, and
// waits until it answers. Without one installed the test is skipped, or fails when
// KEYP_REQUIRE_REDIS is 1.
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

// Program finds one of Redis's programs. Without it the test is skipped, or fails when
// KEYP_REQUIRE_REDIS is 1.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, found := Find(t, name)
	if !found {
		t.Skipf("SKIPPED: %s is not installed, so nothing is compared with Redis here", name)
	}
	return path
}

// Find finds one of Redis's programs for a test that can do a part of its work without it. No
// other function of the tests looks for them, so KEYP_REQUIRE_REDIS=1 holds for all: without the
// program the test fails then.
func Find(t testing.TB, name string) (path string, found bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("KEYP_REQUIRE_REDIS") == "1" {
		t.Fatalf("%s is not installed, and KEYP_REQUIRE_REDIS=1 asks for it", name)
	}
	return path, err == nil
}

// FindTool finds a program that a test can do without, and that is none of Redis's.
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

// FreePort gives a loopback port that is free now, and that no other call gives until the test
// ends, whichever process it is in: the port's namesake of UDP is taken for that long. It is below
// those that systems give to outgoing connections, so that it is still free when the server
// restarts.
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

// Addr is where the server listens: host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.Port()) }

// TLSAddr is where it listens with TLS, if Options.TLS has it do so: host:port.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }

// Port is its port.
func (s *Server) Port() string { return strconv.Itoa(s.port) }

// Dir is its data directory.
func (s *Server) Dir() string { return s.o.Dir }

// Pid is the process id of the server, 0 when none runs.
func (s *Server) Pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Log is all that the server has printed, over restarts too. Any goroutine may ask.
func (s *Server) Log() string { return s.output.String() }

// SetArgs replaces the further flags from the next start on.
func (s *Server) SetArgs(args ...string) { s.o.Args = args }

// Args are the arguments of the next start.
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
		// Between the look at the port and its use somebody else may have taken it.
		taken := strings.Contains(s.output.String()[from:], "ddress already in use")
		if !taken || s.o.Port != 0 || try == 10 {
			s.t.Fatalf("%s: %v", s.name, err)
		}
		s.port, s.tlsPort = FreePort(s.t), FreePort(s.t)
	}
}

// launch runs the process and returns at once.
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

// Environ is the environment of this process, without what Keyp would take for its options and
// what the tests have Go's collector do: programs run as they do elsewhere. But servers do not take
// the usual port for HTTP from each other.
func Environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(text string) bool {
		return strings.HasPrefix(text, "KEYP_") || strings.HasPrefix(text, "GOGC=")
	})
	return append(env, "KEYP_HTTP_ADDR=")
}

// ready waits for PONG. An error means that there is no process any more.
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

// ping says whether this very process, and not another one on its port, answers PING.
// When it wants a password first, that has to do.
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

// Refuses runs the server and waits for its end, which is expected: it gives the exit
// status and what this process printed.
func (s *Server) Refuses() (status int, printed string) {
	s.t.Helper()
	from := s.output.size()
	s.launch()
	await.For(s.t, s.name+" refuses to start", s.exited)
	status = s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	return status, s.output.String()[from:]
}

// StartsOrEnds is Start of a server that may also end by itself instead, and says whether it
// serves.
func (s *Server) StartsOrEnds() bool {
	s.t.Helper()
	s.launch()
	return s.ready() == nil
}

// Ended waits for the end of the process, which may have any status, and gives that.
func (s *Server) Ended() (status int) {
	s.t.Helper()
	await.For(s.t, s.name+" ends", s.exited)
	status = s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	return status
}

// Running says whether the process has been started and has not ended.
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

// Exited is closed when the process of the last start has ended. Any goroutine may
// wait for it.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Kill ends the process as kill -9 does.
func (s *Server) Kill() {
	s.t.Helper()
	s.mustRun()
	_ = s.end(syscall.SIGKILL) // says only that it was killed
}

// WaitKilled waits until somebody else ends the process as kill -9 does: the kernel.
func (s *Server) WaitKilled() {
	s.t.Helper()
	await.For(s.t, "somebody kills "+s.name, s.exited)
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok ||
		status.Signal() != syscall.SIGKILL {
		s.t.Fatalf("%s ended by itself: %v", s.name, s.result)
	}
	s.cmd = nil
}

// KillStarting starts the server and ends it as kill -9 does after d, ready or not.
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

// Wait waits until the process ends, as a command has it do; a status other than 0 fails
// the test.
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

// Restart is Stop and Start.
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

// end sends sig and waits for the end of the process. The error is the process's, or
// says that it had to be killed.
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
	// The stacks say what it waits for.
	_ = cmd.Process.Signal(syscall.SIGQUIT) // it may end just now
	select {
	case <-s.exited:
	case <-await.Over():
		_ = cmd.Process.Kill() // likewise
		<-s.exited
	}
	return fmt.Errorf("did not end within %v of %v", await.Bound, sig)
}

// raced says whether the race detector has spoken.
func (s *Server) raced() bool { return strings.Contains(s.output.String(), "WARNING: DATA RACE") }

// Client gives a go-redis client that speaks RESP2 or RESP3 (proto 2 or 3), closed
// after the test. It never sends a command a second time, and its deadlines are long.
func (s *Server) Client(proto int) *redis.Client {
	return s.ClientDB(proto, 0)
}

// ClientDB is Client on another database.
func (s *Server) ClientDB(proto, db int) *redis.Client {
	return NewClient(s.t, &redis.Options{Addr: s.Addr(), Protocol: proto, DB: db})
}

// ClientTLS is Client over TLS.
func (s *Server) ClientTLS(proto int, cfg *tls.Config) *redis.Client {
	return NewClient(s.t, &redis.Options{Addr: s.TLSAddr(), Protocol: proto, TLSConfig: cfg})
}

// NewClient is Server.Client with further options. By itself go-redis gives up after some seconds
// and sends the command again, which a slow machine makes it do (internal/layout sees to it that
// tests make no client in another way).
func NewClient(t testing.TB, o *redis.Options) *redis.Client {
	patient := *o
	patient.MaxRetries, patient.DialerRetries = -1, 1
	patient.DialTimeout, patient.ReadTimeout, patient.WriteTimeout,
		patient.PoolTimeout = await.Bound, await.Bound, await.Bound, await.Bound
	c := redis.NewClient(&patient)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// Dial gives a raw connection, closed after the test.
func (s *Server) Dial() *await.Conn {
	s.t.Helper()
	conn, err := await.Dial("tcp", s.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	return conn
}

// RepeatUntilGone sends a command again and again, whatever it replies, until the server is
// gone. Any goroutine may call it.
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

// Output collects what a process prints, and may be read meanwhile.
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

// String is all of it so far.
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

// tail is the end of the text.
func (o *Output) tail() string {
	text := o.String()
	if len(text) > tailBytes {
		return "…" + text[len(text)-tailBytes:]
	}
	return text
}
