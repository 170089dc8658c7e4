// Package proc runs the servers that are measured: each in a temporary directory
// and on a free loopback port of its own, ended by its process id, never by name. A
// wrapper script must exec the server, or only the wrapper is ended.
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
	"syscall"
	"time"

	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
	"keyp/internal/tether"
)

// ErrExited is returned when the server ended by itself.
var ErrExited = errors.New("the server exited")

const (
	// killPatience is how long the end of a killed server may take.
	killPatience = 20 * time.Second
	// askPatience bounds one PING.
	askPatience = 5 * time.Second
	// askEvery is the pause between attempts to reach a starting server.
	askEvery = time.Millisecond
	// exitGrace is how long after an error a server's end still explains it: its
	// sockets close before the process is gone.
	exitGrace = 300 * time.Millisecond
	// tailBytes is how much of what a server printed an error message shows.
	tailBytes = 2000
)

// Server is a place for one server: a directory and a port. The process in it
// comes and goes with Start and Stop.
type Server struct {
	base   string
	argv   []string
	env    []string
	addr   string
	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd has ended
	result error         // of cmd, after exited
}

// Extra is what one measurement adds to a server's command line and environment.
type Extra struct {
	Args []string
	Env  []string // NAME=value
}

// New makes the directory, under parent, and picks a free port. Command is a
// command line in which {port} and {dir} are replaced.
func New(command, parent string, extra Extra) (*Server, error) {
	words, err := Split(command)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, errors.New("the server's command line is empty")
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
		argv: append(Fill(words, strconv.Itoa(port), data), extra.Args...),
		env:  extra.Env,
		addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
	}, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.addr }

// Dir is the directory that the server got for {dir}.
func (s *Server) Dir() string { return filepath.Join(s.base, "data") }

// Start runs the process and returns at once; see Ready. The server gets a
// process group of its own: Ctrl-C is for this program, which then stops it. Should this program
// be killed, the kernel kills the server, where it can (tether).
func (s *Server) Start() error {
	log, err := os.OpenFile(filepath.Join(s.base, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := tether.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.argv[0], err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		s.result = cmd.Wait()
		close(exited)
	}()
	return nil
}

// Exited is closed when the process that Start ran has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Ready waits until the server answers PING with PONG. Its errors show the end
// of what the server printed.
func (s *Server) Ready(ctx context.Context, patience time.Duration) error {
	return s.Poll(ctx, patience, func(client *wire.Client) (bool, error) {
		reply, err := client.Do("PING")
		if err != nil || reply.Kind == wire.Error && bytes.HasPrefix(reply.Text, []byte("LOADING")) {
			return false, nil
		}
		if reply.Kind != wire.Simple || string(reply.Text) != "PONG" {
			return false, fmt.Errorf("PING was answered with %v", reply)
		}
		return true, nil
	})
}

// Poll asks on fresh connections, about every millisecond, until ask says done,
// fails, or patience ends. A connection that can't be made is tried again.
func (s *Server) Poll(ctx context.Context, patience time.Duration, ask func(*wire.Client) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if client, err := wire.Dial(ctx, s.addr, askPatience); err == nil {
			done, err := ask(client)
			_ = client.Close() // only ever asked
			if err != nil {
				return s.WithLog(err)
			}
			if done {
				return nil
			}
		}
		wake, release := clock.System.Until(clock.System.Now() + askEvery.Milliseconds())
		select {
		case <-wake:
		case <-s.exited:
			return s.WithLog(s.exit())
		case <-ctx.Done():
			release()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return s.WithLog(fmt.Errorf("not ready after %v", patience))
			}
			return ctx.Err()
		}
		release()
	}
}

// exit says how the process ended. It is called after that.
func (s *Server) exit() error {
	if s.result == nil {
		return fmt.Errorf("%w with status 0", ErrExited)
	}
	return fmt.Errorf("%w: %w", ErrExited, s.result)
}

// WithLog adds the server's command and the end of what it printed to an error;
// and that it ended by itself, if it did.
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
	return fmt.Errorf("%w\ncommand: %q\nlast output:\n%s", err, s.argv, tail)
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

// Stop sends sig and waits for the end of the process, or kills it when patience
// is over, which is an error. It does nothing when no process runs.
func (s *Server) Stop(sig syscall.Signal, patience time.Duration) error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v: %w", sig, err)
	}
	timer := time.NewTimer(patience)
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
	return s.WithLog(fmt.Errorf("did not end within %v of %v and was killed", patience, sig))
}

// Close kills the server and removes its directory: a clean stop would only save, for
// seconds or minutes, what is thrown away.
func (s *Server) Close() error {
	return errors.Join(s.Stop(syscall.SIGKILL, killPatience), os.RemoveAll(s.base))
}

// RSSAnon is the process's anonymous resident memory in bytes, 0 where the
// system doesn't tell (no /proc) or no process runs.
func (s *Server) RSSAnon() int64 {
	if s.cmd == nil {
		return 0
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "status"))
	if err != nil {
		return 0
	}
	return parseRSSAnon(status)
}

func parseRSSAnon(status []byte) int64 {
	for line := range bytes.Lines(status) {
		rest, found := bytes.CutPrefix(line, []byte("RssAnon:"))
		if !found {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return 0
		}
		n, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return 0
}
