package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

func TestFill(t *testing.T) {
	if got := fillIn("s --port={port} {dir}/x {other}", 99,
		"/a'b c"); got != `s --port=99 '/a'\''b c'/x {other}` {
		t.Errorf("fillIn = %s", got)
	}
}

// openServer starts a server. Its directory must be gone after its close.
func openServer(t *testing.T, ctx context.Context, command string,
	timeout time.Duration) (*server, error) {
	t.Helper()
	b := &bench{config: config{sides: []side{{name: "keyp", command: command}}, timeout: timeout,
		dir: t.TempDir()}}
	s, err := b.open(ctx, 0, false)
	t.Cleanup(func() {
		if s != nil {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(b.dir); err != nil || len(left) > 0 {
			t.Errorf("%d directories stayed behind, %v", len(left), err)
		}
	})
	return s, err
}

func TestServerThatDoesNotStart(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, command string
		ctx           context.Context
		timeout       time.Duration
		says          []string
	}{
		{"no program", "./no-such-program-here {port}", t.Context(), await.Bound,
			[]string{"no-such-program-here", "exit status 127"}},
		{"it fails", `sh -c 'echo said; echo complained >&2; exit 3'`, t.Context(), await.Bound,
			[]string{"exit status 3", "said\n", "complained"}},
		{"it never listens", `sh -c 'echo waiting; exec sleep 100'`, t.Context(),
			300 * time.Millisecond, []string{"not ready after 300ms"}},
		{"interrupted", `sleep 100`, ended, await.Bound, []string{"context canceled"}},
	} {
		_, err := openServer(t, tt.ctx, tt.command, tt.timeout)
		if err == nil {
			t.Errorf("%s: it started", tt.name)
			continue
		}
		for _, want := range tt.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.name, err, want)
			}
		}
	}
}

// TestStopKillsInTheEnd: a server that ignores SIGTERM is killed, and stopping it returns an error.
func TestStopKillsInTheEnd(t *testing.T) {
	s, err := openServer(t, t.Context(), fake(t, "deaf"), await.Bound)
	if err != nil {
		t.Fatal(err)
	}
	err = s.stop(syscall.SIGTERM, 200*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Fatalf("stop = %v, want an error about the kill", err)
	}
	if err := s.cmd.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("the process still runs: %v", err)
	}
}

// TestServerComesBack: the command's process is the server itself. It can be killed, and has its
// data again after a restart.
func TestServerComesBack(t *testing.T) {
	s, err := openServer(t, t.Context(), keyp(t), await.Bound)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.version(t.Context()), "Keyp ") {
		t.Errorf("version %q", s.version(t.Context()))
	}
	if err := s.dial().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/status"); err == nil {
		await.Until(t, "the server uses processor time", func() bool {
			return s.dial().Ping(t.Context()).Err() == nil && s.cpu() > 0
		})
		if s.rssAnon() < 1<<20 {
			t.Errorf("RssAnon of a running server = %d bytes", s.rssAnon())
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := s.stop(sig, await.Bound); err != nil {
			t.Fatal(err)
		}
		if err := s.dial().Ping(t.Context()).Err(); err == nil {
			t.Fatalf("something listens after %v", sig)
		}
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.dial().Get(t.Context(), "k").Val(); got != "v" {
			t.Fatalf("GET after %v and a new start = %q", sig, got)
		}
	}
	if _, err := os.Stat(filepath.Join(s.base, "data")); err != nil {
		t.Error(err)
	}
}
