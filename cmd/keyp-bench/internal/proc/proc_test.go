package proc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

const timeout = await.Bound

func TestFill(t *testing.T) {
	if got := Fill("s --port={port} {dir}/x {other}", "99",
		"/a'b c"); got != `s --port=99 '/a'\''b c'/x {other}` {
		t.Errorf("Fill = %s", got)
	}
}

func newServer(t *testing.T, command string) *Server {
	t.Helper()
	s, err := New(command, t.TempDir(), Extra{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.base); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory stayed behind: %v", err)
		}
	})
	return s
}

func TestNewRefuses(t *testing.T) {
	for _, command := range []string{"", "  "} {
		if _, err := New(command, t.TempDir(), Extra{}); err == nil {
			t.Errorf("New(%q) succeeded", command)
		}
	}
	if _, err := New("x", filepath.Join(t.TempDir(), "missing"), Extra{}); err == nil {
		t.Error("New in a directory that is not there succeeded")
	}
}

func TestProgramNotThere(t *testing.T) {
	s := newServer(t, "./no-such-program-here {port}")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context(), timeout); !errors.Is(err, ErrExited) ||
		!strings.Contains(err.Error(), "no-such-program-here") {
		t.Fatalf("Ready = %v, want an error that names the program", err)
	}
}

func TestServerThatFailsShowsItsOutput(t *testing.T) {
	s := newServer(t, `sh -c 'echo said; echo complained >&2; exit 3'`)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	err := s.Ready(context.Background(), timeout)
	if !errors.Is(err, ErrExited) {
		t.Fatalf("Ready = %v, want ErrExited", err)
	}
	for _, want := range []string{"exit status 3", "said\n", "complained\n"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Ready = %v, want it to show %q", err, want)
		}
	}
}

func TestServerThatNeverListens(t *testing.T) {
	s := newServer(t, `sh -c 'echo waiting; exec sleep 100'`)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	err := s.Ready(context.Background(), 300*time.Millisecond)
	if err == nil || errors.Is(err, ErrExited) ||
		!strings.Contains(err.Error(), "not ready after 300ms") {
		t.Fatalf("Ready = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Ready(ctx, timeout); !errors.Is(err, context.Canceled) {
		t.Fatalf("Ready = %v, want the context's error", err)
	}
}

func TestExtra(t *testing.T) {
	s, err := New(`sh -c 'echo "$1 $EXTRA $2"; exit 3' sh {port}`, t.TempDir(),
		Extra{Args: "'a b'", Env: []string{"EXTRA=c"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Addr())
	if err := s.Ready(context.Background(), timeout); err == nil ||
		!strings.Contains(err.Error(), port+" c a b\n") {
		t.Errorf("the server was started otherwise: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A server that ignores SIGTERM is killed, which is an error.
func TestStopKillsInTheEnd(t *testing.T) {
	s := newServer(t,
		`sh -c 'trap "" TERM; echo deaf > {dir}/started; while :; do sleep 0.05; done'`)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	process := s.cmd.Process
	started := filepath.Join(s.base, "data", "started")
	await.Until(t, "the server starts", func() bool {
		_, err := os.Stat(started)
		return err == nil
	})
	err := s.Stop(syscall.SIGTERM, 200*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Fatalf("Stop = %v, want an error about the kill", err)
	}
	if err := process.Signal(syscall.Signal(0)); err == nil {
		t.Fatal("the process still runs")
	}
}

func TestRedisStartsStopsAndComesBack(t *testing.T) {
	testkit.Program(t, "redis-server")
	s := newServer(t,
		`redis-server --port {port} --bind 127.0.0.1 --dir {dir} --appendonly yes --appendfsync always --save ''`)
	start := func() {
		t.Helper()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(context.Background(), timeout); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(args ...any) string {
		t.Helper()
		client := Dial(s.Addr(), timeout)
		defer client.Close()
		reply, err := client.Do(t.Context(), args...).Text()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	start()
	if runtime.GOOS == "linux" && s.RSSAnon() < 1<<20 {
		t.Errorf("RssAnon of a running server = %d bytes", s.RSSAnon())
	}
	if runtime.GOOS == "linux" {
		await.Until(t, "the server uses processor time", func() bool {
			ask("PING")
			return s.CPU() > 0
		})
	}
	if got := ask("SET", "k", "v"); got != "OK" {
		t.Fatalf("SET = %s", got)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := s.Stop(sig, timeout); err != nil {
			t.Fatal(err)
		}
		if conn, err := await.Dial("tcp", s.Addr()); err == nil {
			_ = conn.Close()
			t.Fatalf("something listens after %v", sig)
		}
		start()
		if got := ask("GET", "k"); got != "v" {
			t.Fatalf("GET after %v and a new start = %s", sig, got)
		}
	}
	if err := s.Stop(syscall.SIGTERM, timeout); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(syscall.SIGTERM, timeout); err != nil || s.RSSAnon() != 0 || s.CPU() != 0 {
		t.Fatalf("second Stop = %v, RssAnon %d, processor time %v", err, s.RSSAnon(), s.CPU())
	}
}
