package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/internal/progress"
	"keyp/internal/testkit/await"
)

// manager plays a service manager, with its socket.
type manager struct {
	t    *testing.T
	path string
	got  chan string
}

// socketDir returns a directory for sockets. It is short, because a socket's path has 104 bytes at
// most.
func socketDir(t *testing.T) string {
	t.Helper()
	in := os.TempDir()
	if len(in) > 80 {
		in = "/tmp"
	}
	dir, err := os.MkdirTemp(in, "keyp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, path: filepath.Join(socketDir(t), "notify"), got: make(chan string, 10_000)}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			m.got <- string(buf[:n])
		}
	}()
	return m
}

func (m *manager) want(message string) {
	m.t.Helper()
	if got := await.For(m.t, message, m.got); got != message {
		m.t.Errorf("%q, want %q", got, message)
	}
}

// TestNotify: the service manager gets a notification when the server is ready, then regularly, and
// when the server stops.
func TestNotify(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "1500000")
	p := startKeyp(t, t.TempDir())
	m.want("READY=1\nSTATUS=serving")
	for range 2 {
		m.want("WATCHDOG=1")
	}
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 0 {
		t.Errorf("status %d", status)
	}
	for {
		if message := await.For(t, "STOPPING", m.got); message != "WATCHDOG=1" {
			if message != "STOPPING=1\nSTATUS=stopping" {
				t.Errorf("%q", message)
			}
			break
		}
	}
}

// TestNotifyStuck: the watchdog gets no signs of life while the event loop is stuck, unless the
// server is stopping.
func TestNotifyStuck(t *testing.T) {
	m := newManager(t)
	env := map[string]string{"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "3000000"}
	n := newNotifier(func(name string) string { return env[name] }, slog.New(slog.DiscardHandler))
	defer n.close()
	if n.watchdog != 3*time.Second {
		t.Errorf("a sign is wanted each %v", n.watchdog)
	}
	n.loads().Show(progress.Report{What: "loading the data", Percent: 41})
	m.want("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=loading the data: 41%")
	posts, tick := make(chan func(), 10), make(chan time.Time)
	go n.watch(tick, func(fn func()) { posts <- fn })
	answer := func() { await.For(t, "a question to the loop", posts)() }
	answer()
	tick <- time.Time{}
	m.want("WATCHDOG=1")
	tick <- time.Time{}
	tick <- time.Time{} // the loop is stuck
	n.send("MARK")      // the look before this one has ended
	m.want("MARK")
	answer()
	tick <- time.Time{}
	m.want("WATCHDOG=1")
	n.stopping()
	n.stopping()
	m.want("STOPPING=1\nSTATUS=stopping")
	tick <- time.Time{}
	m.want("WATCHDOG=1")
	if len(posts) != 1 {
		t.Errorf("%d questions to the loop, which has not answered one", len(posts))
	}
}

// TestNotifyNobody: a server runs without notifications if NOTIFY_SOCKET is missing or nobody
// listens there. It ignores a watchdog that is meant for another process.
func TestNotifyNobody(t *testing.T) {
	var n *notifier
	n.loads().Show(progress.Report{})
	n.ready(nil)
	n.stopping()
	n.close()
	m := newManager(t)
	for _, tt := range []struct {
		pid  string
		want time.Duration
	}{{"1", 0}, {"", time.Second}, {fmt.Sprint(os.Getpid()), time.Second}} {
		env := map[string]string{"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "1000000",
			"WATCHDOG_PID": tt.pid}
		n := newNotifier(func(name string) string {
			return env[name]
		}, slog.New(slog.DiscardHandler))
		if n.watchdog != tt.want {
			t.Errorf("WATCHDOG_PID %q: %v", tt.pid, n.watchdog)
		}
		n.close()
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	log := filepath.Join(t.TempDir(), "log")
	p := startKeyp(t, t.TempDir(), "--logfile", log)
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 0 ||
		!strings.Contains(said(t, log), "the service manager cannot be notified") {
		t.Errorf("status %d: %s", status, said(t, log))
	}
}
