package testkit

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// These tests start, kill and restart servers with package testkit. They do so with redis-server,
// whose behaviour is known.

func TestLifecycle(t *testing.T) {
	ctx := context.Background()
	s := Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client(3)
	for i, stop := range []func(){s.Kill, s.Stop} {
		if n, err := c.Incr(ctx, "n").Result(); err != nil || n != int64(i+1) {
			t.Fatalf("INCR gave %d, %v, want %d", n, err, i+1)
		}
		pid := s.Pid()
		stop()
		if s.Running() || s.Pid() != 0 {
			t.Fatal("runs after its end")
		}
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Fatalf("process %d after its end: %v", pid, err)
		}
		s.Start()
	}
	s.Restart()
	conn := s.Dial()
	if _, err := conn.Write([]byte("GET n\r\n")); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for _, want := range []string{"$1\r\n", "2\r\n"} {
		if line, err := r.ReadString('\n'); err != nil || line != want {
			t.Fatalf("read %q, %v, want %q", line, err, want)
		}
	}
	if !strings.Contains(s.Log(), "Ready to accept connections") {
		t.Errorf("the log lacks what redis-server prints:\n%s", s.Log())
	}
}

func TestRefuses(t *testing.T) {
	s := Redis(t)
	s.Stop()
	s.SetArgs("--no-such-option", "1")
	status, printed := s.Refuses()
	if status != 1 || !strings.Contains(printed, "no-such-option") ||
		strings.Contains(printed, "Ready to accept") {
		t.Errorf("status %d, printed:\n%s", status, printed)
	}
	s.SetArgs("--requirepass", "x")
	s.Start() // -NOAUTH is an answer too
}

// TestFreePort: no two calls return the same port while the tests of both run, even if nobody
// listens there yet.
func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port := FreePort(t)
		if seen[port] {
			t.Fatalf("port %d is given twice", port)
		}
		seen[port] = true
	}
	var again int
	t.Run("ended", func(t *testing.T) { again = FreePort(t) })
	taken, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", again))
	if err != nil {
		t.Fatalf("port %d of a test that has ended: %v", again, err)
	}
	if err := taken.Close(); err != nil {
		t.Error(err)
	}
}

// TestPortTaken: a server still starts if its port is taken between the choice and the start.
func TestPortTaken(t *testing.T) {
	first, second := Redis(t), Redis(t)
	second.Stop()
	second.port = first.port
	second.Start()
	if first.Addr() == second.Addr() {
		t.Error("two servers on one address")
	}
}

// recorder is a test that records its failures instead of reporting them.
type recorder struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (r *recorder) Cleanup(fn func())     { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Logf(string, ...any)   {}

func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestCleanup(t *testing.T) {
	t.Run("running", func(t *testing.T) {
		r := &recorder{TB: t}
		s := Redis(r)
		pid := s.Pid()
		r.end()
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH || r.failed {
			t.Errorf("process %d after the test: %v; failed: %v", pid, err, r.failed)
		}
	})
	t.Run("ended by itself", func(t *testing.T) {
		r := &recorder{TB: t}
		s := Redis(r)
		if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.Exited()
		r.end()
		if !r.failed {
			t.Error("nobody noticed")
		}
	})
	t.Run("race", func(t *testing.T) {
		r := &recorder{TB: t}
		s := Redis(r)
		if _, err := s.output.Write([]byte("WARNING: DATA RACE\n")); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		r.end()
		if !r.failed {
			t.Error("nobody noticed")
		}
	})
}

func TestBinaryNotMadeTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyp")
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-o", path, "./internal/testkit/testdata/tiny"}
	var first os.FileInfo
	for i := range 2 {
		if err := build(root, path, args); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 && !os.SameFile(first, info) {
			t.Error("linked again though nothing has changed")
		}
		first = info
	}
}
