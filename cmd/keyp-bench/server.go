package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// This file starts and stops the servers that the benchmark compares. It also reads their memory
// and processor time.

const (
	// killTimeout bounds the wait for the end of a killed server.
	killTimeout = 20 * time.Second
	// exitGrace bounds the wait for the server's end after an error, because the end explains the
	// error. The server's sockets close before its process ends.
	exitGrace = 300 * time.Millisecond
	// tailBytes is the number of bytes of a program's output that an error message shows.
	tailBytes = 2000
	// idleWait bounds the wait for the end of background work. Work that takes longer counts as
	// permanent, and is part of the measurement.
	idleWait = 30 * time.Second
)

// server has a temporary directory and a free loopback port. A shell runs its command line with
// exec, so the server takes the shell's process id. A wrapper script must also exec the server, or
// only the script is stopped.
//
//	keyp-bench-123456/      removed by close
//	    data/               {dir}, kept over start … stop … start
//	    log                 what the server printed, for error messages
type server struct {
	side
	base    string
	line    string // what sh executes
	addr    string
	timeout time.Duration
	cmd     *exec.Cmd     // nil before the first start
	exited  chan struct{} // closed once cmd has ended
}

// open starts a side's server. A limited Keyp gets --maxmemory; a peer would evict keys.
func (b *bench) open(ctx context.Context, number int, limited bool) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().(*net.TCPAddr)
	base, err := os.MkdirTemp(b.dir, "keyp-bench-")
	if err = errors.Join(err, listener.Close()); err != nil {
		return nil, err
	}
	from := &b.sides[number]
	s := &server{side: *from, base: base, addr: addr.String(), timeout: b.timeout,
		line: fillIn(from.command, addr.Port, filepath.Join(base, "data"))}
	if limited && s.name != "peer" {
		s.line += " --maxmemory " + b.maxmemory
	}
	if err := os.Mkdir(filepath.Join(base, "data"), 0o700); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(s.explain(ctx, err), s.close())
	}
	from.product = s.version(ctx)
	return s, nil
}

// fillIn replaces {port} and {dir} in a command line for sh.
func fillIn(command string, port int, dir string) string {
	quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	return strings.NewReplacer("{port}", strconv.Itoa(port), "{dir}", quoted).Replace(command)
}

// start runs the process and waits until the server answers PING with PONG. The server has its own
// process group, so Ctrl-C reaches only this program, which then stops the server. If this program
// is killed, the kernel kills the server on Linux (package childproc).
func (s *server) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.base, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/bin/sh", "-c", "exec "+s.line)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := childproc.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.line, err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // see cmd.ProcessState
		close(exited)
	}()
	return s.ready(ctx)
}

// ready sends PING about every millisecond, each time over a new connection.
func (s *server) ready(ctx context.Context) error {
	for until := clock.System.Mono() + s.timeout; clock.System.Mono() < until; {
		client := s.dial()
		err := client.Ping(ctx).Err()
		_ = client.Close() // it has only sent PING
		refused := redis.Error(nil)
		if err == nil ||
			errors.As(err, &refused) && !redis.HasErrorPrefix(err, "LOADING") {
			return err
		}
		select {
		case <-s.exited:
			return errors.New("no answer to PING")
		default:
		}
		if err := pause(ctx, clock.System.Now()+1); err != nil {
			return err
		}
	}
	return fmt.Errorf("not ready after %v", s.timeout)
}

// silent replaces go-redis's log. A starting server refuses connections, and all errors are
// returned.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silent{}) }

// dial returns a client with one connection, made at its first command. It never repeats a command,
// and waits for each reply at most for timeout.
func dial(addr string, timeout time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
	})
}

func (s *server) dial() *redis.Client { return dial(s.addr, s.timeout) }

// explain adds the side's command, its exit and the end of its output to an error. An error reply
// becomes errWrong. Wrong answers, and errors after the user has ended the run, stay as they are.
func (s *server) explain(ctx context.Context, err error) error {
	if refused := redis.Error(nil); errors.As(err, &refused) {
		err = fmt.Errorf("%w: %w", errWrong, err)
	}
	if err == nil || errors.Is(err, errWrong) || ctx.Err() != nil {
		return err
	}
	select {
	case <-s.exited:
		err = fmt.Errorf("%w (the server has ended: %v)", err, s.cmd.ProcessState)
	case <-time.After(exitGrace):
	}
	log, readErr := os.ReadFile(filepath.Join(s.base, "log"))
	return errors.Join(fmt.Errorf("%w\ncommand: %s\nlast output:\n%s", err, s.line, tail(log)),
		readErr)
}

func tail(text []byte) []byte { return bytes.TrimSpace(text[max(len(text)-tailBytes, 0):]) }

// stop sends sig and waits for the end of the process. After timeout it kills the process and
// returns an error. It does nothing if no process runs.
func (s *server) stop(sig syscall.Signal, timeout time.Duration) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v: %w", sig, err)
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(timeout):
	}
	_ = s.cmd.Process.Kill() // fails only if it has ended
	<-s.exited
	return fmt.Errorf("did not end within %v of %v and was killed", timeout, sig)
}

// close kills the server and removes its directory. A clean stop would take seconds or minutes, to
// save data that is removed anyway.
func (s *server) close() error {
	return errors.Join(s.stop(syscall.SIGKILL, killTimeout), os.RemoveAll(s.base))
}

// rssAnon returns the process's anonymous resident memory in bytes. It returns 0 if the system has
// no /proc.
func (s *server) rssAnon() int64 {
	var kb int64
	_, text, _ := strings.Cut(s.proc("status"), "\nRssAnon:")
	_, _ = fmt.Sscanf(text, "%d kB", &kb) // 0 if there is none
	return kb << 10
}

// cpu returns the processor time of all threads of the process, or 0 if the system has no /proc.
func (s *server) cpu() time.Duration {
	const ticks = 100 // in a second; Linux reports all such times in this unit
	stat := s.proc("stat")
	// The name of the program, in brackets, may contain anything. Times are the fields 14 and 15.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11]) // the kernel writes numbers
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

// proc returns a file of the process under /proc, or "" if there is no such file.
func (s *server) proc(name string) string {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), name))
	return string(text)
}

// version returns the server's name and version, or "" if the server does not report them.
func (s *server) version(ctx context.Context) string {
	client := s.dial()
	defer client.Close()
	info := client.Info(ctx, "server").Val()
	for _, name := range []string{"Keyp", "Valkey", "Redis"} {
		_, text, found := strings.Cut(info, strings.ToLower(name)+"_version:")
		if fields := strings.Fields(text); found && len(fields) > 0 {
			return name + " " + fields[0]
		}
	}
	return ""
}

// waitIdle waits until the server neither rewrites its log nor saves, for idleWait at most.
// Background work of one server must not slow down the next measurement.
func (s *server) waitIdle(ctx context.Context) error {
	client := s.dial()
	defer client.Close()
	for until := clock.System.Mono() + idleWait; clock.System.Mono() < until; {
		// A server reports aof_rewrite_in_progress and rdb_bgsave_in_progress.
		info, err := client.Info(ctx, "persistence").Result()
		if err != nil || !strings.Contains(info, "_in_progress:1") {
			return err
		}
		if err := pause(ctx, clock.System.Now()+20); err != nil {
			return err
		}
	}
	return nil
}

// pause waits until the wall clock shows ms. It returns the cause if ctx ends.
func pause(ctx context.Context, ms int64) error {
	for clock.System.Now() < ms && ctx.Err() == nil {
		reached, release := clock.System.Until(ms)
		select {
		case <-reached:
		case <-ctx.Done():
		}
		release()
	}
	return context.Cause(ctx)
}
