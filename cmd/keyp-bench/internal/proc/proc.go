// Package proc runs the servers that are measured. Each server has a temporary directory and a free
// loopback port. It is stopped by its process id, never by name. A shell runs the command line with
// exec, so the server takes the shell's process id. A wrapper script must also exec the server, or
// only the script is stopped.
//
//	keyp-bench-123456/      removed by Close
//	    data/               {dir}, kept over Start … Stop … Start
//	    log                 what the server printed, for error messages
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/childproc"
	"keyp/internal/clock"
)

var (
	// ErrExited is returned if the server ended by itself.
	ErrExited = errors.New("the server exited")
	// ErrNoCommand is returned for a command line without a word.
	ErrNoCommand = errors.New("no command")
)

const (
	// killTimeout bounds the wait for the end of a killed server.
	killTimeout = 20 * time.Second
	// askTimeout bounds one PING.
	askTimeout = 5 * time.Second
	// askEvery is the pause between attempts to reach a starting server.
	askEvery = time.Millisecond
	// exitGrace is the wait after an error for the end of the server, which explains the error.
	// The server's sockets close before its process ends.
	exitGrace = 300 * time.Millisecond
	// tailBytes is the number of bytes of a server's output that an error message shows.
	tailBytes = 2000
)

// Server is a place for one server: a directory and a port. Its process runs from
// Start to Stop.
type Server struct {
	base   string
	line   string // what sh executes
	env    []string
	addr   string
	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd has ended
	result error         // of cmd, after exited
}

// Extra has the additions of one measurement to a server's command line and environment.
type Extra struct {
	Args string   // words for sh
	Env  []string // NAME=value
}

// New makes the directory under parent and chooses a free port. It replaces {port} and {dir} in
// command; sh splits the result into words.
func New(command, parent string, extra Extra) (*Server, error) {
	if strings.TrimSpace(command) == "" {
		return nil, ErrNoCommand
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp(parent, "keyp-bench-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(base, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, errors.Join(err, os.RemoveAll(base))
	}
	return &Server{
		base: base,
		line: Fill(command, strconv.Itoa(port), data) + " " + extra.Args,
		env:  extra.Env,
		addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
	}, nil
}

// Fill replaces {port} and {dir} in a command line for sh.
func Fill(command, port, dir string) string {
	quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	return strings.NewReplacer("{port}", port, "{dir}", quoted).Replace(command)
}

// Command returns a command that runs a command line in place of the shell, by exec.
func Command(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "exec "+line) }

// silent replaces go-redis's log. A starting server refuses connections, and all errors are
// returned.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silent{}) }

// Dial returns a client with one connection, made at its first command. It never repeats a command,
// and waits for each reply at most for timeout.
func Dial(addr string, timeout time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
	})
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

// Addr returns the address at which the server listens.
func (s *Server) Addr() string { return s.addr }

// Dir returns the directory that replaced {dir}.
func (s *Server) Dir() string { return filepath.Join(s.base, "data") }

// Start runs the process and returns at once; see Ready. The server has its own process group, so
// Ctrl-C reaches only this program, which then stops the server. If this program is killed, the
// kernel kills the server on Linux (package childproc).
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.base, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := Command(s.line)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := childproc.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.line, err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		s.result = cmd.Wait()
		close(exited)
	}()
	return nil
}

// Exited returns a channel that is closed when the process that Start ran has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Ready waits until the server answers PING with PONG. Its errors show the end of the server's
// output.
func (s *Server) Ready(ctx context.Context, timeout time.Duration) error {
	return s.Poll(ctx, timeout, func(client *redis.Client) (bool, error) {
		reply, err := client.Ping(ctx).Result()
		if refused := redis.Error(nil); errors.As(err, &refused) &&
			!redis.HasErrorPrefix(err, "LOADING") {
			return false, fmt.Errorf("PING: %w", err)
		}
		return err == nil && reply == "PONG", nil
	})
}

// Poll calls ask about every millisecond, each time with a new connection. It stops when ask
// reports done or fails, or when timeout has passed.
func (s *Server) Poll(ctx context.Context, timeout time.Duration,
	ask func(*redis.Client) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		client := Dial(s.addr, askTimeout)
		done, err := ask(client)
		_ = client.Close() // only ever asked
		if err != nil && ctx.Err() == nil {
			return s.WithLog(err)
		}
		if done {
			return nil
		}
		wake, release := clock.System.Until(clock.System.Now() + askEvery.Milliseconds())
		select {
		case <-wake:
		case <-s.exited:
			return s.WithLog(s.exit())
		case <-ctx.Done():
			release()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return s.WithLog(fmt.Errorf("not ready after %v", timeout))
			}
			return ctx.Err()
		}
		release()
	}
}

// exit returns an error that says how the process ended. The process must have ended.
func (s *Server) exit() error {
	if s.result == nil {
		return fmt.Errorf("%w with status 0", ErrExited)
	}
	return fmt.Errorf("%w: %w", ErrExited, s.result)
}

// WithLog adds the server's command and the end of its output to an error. If the server has ended
// by itself, it adds that too.
func (s *Server) WithLog(err error) error {
	if s.exited != nil && !errors.Is(err, ErrExited) {
		timer := time.NewTimer(exitGrace)
		defer timer.Stop()
		select {
		case <-s.exited:
			err = fmt.Errorf("%w (%w)", err, s.exit())
		case <-timer.C:
		}
	}
	tail := s.tail()
	if tail == "" {
		tail = "(nothing)\n"
	}
	return fmt.Errorf("%w\ncommand: %s\nlast output:\n%s", err, s.line, tail)
}

func (s *Server) tail() string {
	file, err := os.Open(filepath.Join(s.base, "log"))
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	tail, err := io.ReadAll(io.LimitReader(file, tailBytes))
	if err != nil {
		return ""
	}
	return string(tail)
}

// Stop sends sig and waits for the end of the process. After timeout it kills the process and
// returns an error. It does nothing if no process runs.
func (s *Server) Stop(sig syscall.Signal, timeout time.Duration) error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v: %w", sig, err)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil
	case <-timer.C:
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill: %w", err)
	}
	<-s.exited
	return s.WithLog(fmt.Errorf("did not end within %v of %v and was killed", timeout, sig))
}

// Close kills the server and removes its directory. A clean stop would take seconds or minutes to
// save data that is removed anyway.
func (s *Server) Close() error {
	return errors.Join(s.Stop(syscall.SIGKILL, killTimeout), os.RemoveAll(s.base))
}

// RSSAnon returns the process's anonymous resident memory in bytes. It returns 0 if the system has
// no /proc or no process runs.
func (s *Server) RSSAnon() int64 {
	var kb int64
	_, text, _ := bytes.Cut(s.proc("status"), []byte("\nRssAnon:"))
	if _, err := fmt.Sscanf(string(text), "%d kB", &kb); err != nil {
		return 0
	}
	return kb << 10
}

// CPU returns the processor time of all threads of the process, or 0 in the same cases as RSSAnon.
func (s *Server) CPU() time.Duration {
	const ticks = 100 // in a second; Linux reports all such times in this unit
	stat := s.proc("stat")
	// The name of the program, in brackets, may contain anything. Times are the fields 14 and 15.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * time.Second / ticks
}

// proc reads a file of the process under /proc. It returns nothing if there is no such file.
func (s *Server) proc(name string) []byte {
	if s.cmd == nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), name))
	if err != nil {
		return nil
	}
	return text
}
