package proc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

const patience = await.Bound

func TestSplit(t *testing.T) {
	tests := []struct {
		line string
		want []string
	}{
		{"", nil},
		{" \t\n", nil},
		{"one", []string{"one"}},
		{"  a  b\tc ", []string{"a", "b", "c"}},
		{`redis-server --save ''`, []string{"redis-server", "--save", ""}},
		{`a "" b`, []string{"a", "", "b"}},
		{`'a b' "c d"`, []string{"a b", "c d"}},
		{`pre'a b'"c d"post`, []string{"prea bc dpost"}},
		{`'a "b" \'`, []string{`a "b" \`}},
		{`"a 'b' \" \\ \$x \n"`, []string{`a 'b' " \ $x \n`}},
		{`a\ b \'`, []string{"a b", "'"}},
		{`--save "900 1"`, []string{"--save", "900 1"}},
		{`наме 'ключ é'`, []string{"наме", "ключ é"}},
		{`$HOME *`, []string{"$HOME", "*"}},
	}
	for _, tt := range tests {
		got, err := Split(tt.line)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("Split(%q) = %q, %v, want %q", tt.line, got, err, tt.want)
		}
	}
	for _, line := range []string{`'a`, `a "b`, `a\`, `"a\"`} {
		if got, err := Split(line); !errors.Is(err, ErrQuote) {
			t.Errorf("Split(%q) = %q, %v, want ErrQuote", line, got, err)
		}
	}
}

func TestFill(t *testing.T) {
	got := Fill([]string{"s", "--port={port}", "{dir}/x", "{other}"}, "99", "/a b")
	if want := []string{"s", "--port=99", "/a b/x", "{other}"}; !slices.Equal(got, want) {
		t.Errorf("Fill = %q, want %q", got, want)
	}
}

func TestParseRSSAnon(t *testing.T) {
	status := "Name:\tx\nVmRSS:\t   9000 kB\nRssAnon:\t    1234 kB\nRssFile:\t 5 kB\n"
	if got := parseRSSAnon([]byte(status)); got != 1234<<10 {
		t.Errorf("RssAnon = %d, want %d", got, 1234<<10)
	}
	for _, status := range []string{"", "RssAnon:\n", "RssAnon: x kB\n", "RssAnon: 1 MB\n"} {
		if got := parseRSSAnon([]byte(status)); got != 0 {
			t.Errorf("RssAnon of %q = %d, want 0", status, got)
		}
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
	for _, command := range []string{"", "  ", "'x"} {
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
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "no-such-program-here") {
		t.Fatalf("Start = %v, want an error that names the program", err)
	}
}

func TestServerThatFailsShowsWhatItSaid(t *testing.T) {
	s := newServer(t, `sh -c 'echo said; echo complained >&2; exit 3'`)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	err := s.Ready(context.Background(), patience)
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
	if err == nil || errors.Is(err, ErrExited) || !strings.Contains(err.Error(), "not ready after 300ms") {
		t.Fatalf("Ready = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Ready(ctx, patience); !errors.Is(err, context.Canceled) {
		t.Fatalf("Ready = %v, want the context's error", err)
	}
}

func TestExtra(t *testing.T) {
	s, err := New(`sh -c 'echo "$1 $EXTRA $2"; exit 3' sh {port}`, t.TempDir(), Extra{Args: []string{"a b"}, Env: []string{"EXTRA=c"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Addr())
	if err := s.Ready(context.Background(), patience); err == nil || !strings.Contains(err.Error(), port+" c a b\n") {
		t.Errorf("the server was started otherwise: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A server that ignores SIGTERM is killed, and that is told.
func TestStopKillsInTheEnd(t *testing.T) {
	s := newServer(t, `sh -c 'trap "" TERM; echo deaf > {dir}/started; while :; do sleep 0.05; done'`)
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
		t.Fatalf("Stop = %v, want it to tell that it killed", err)
	}
	if err := process.Signal(syscall.Signal(0)); err == nil {
		t.Fatal("the process still runs")
	}
}

func TestRedisStartsStopsAndComesBack(t *testing.T) {
	testkit.Program(t, "redis-server")
	s := newServer(t, `redis-server --port {port} --bind 127.0.0.1 --dir {dir} --appendonly yes --appendfsync always --save ''`)
	start := func() {
		t.Helper()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(context.Background(), patience); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(args ...string) string {
		t.Helper()
		client, err := wire.Dial(context.Background(), s.Addr(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		reply, err := client.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return reply.String()
	}
	start()
	if runtime.GOOS == "linux" && s.RSSAnon() < 1<<20 {
		t.Errorf("RssAnon of a running server = %d bytes", s.RSSAnon())
	}
	if got := ask("SET", "k", "v"); got != "+OK" {
		t.Fatalf("SET = %s", got)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := s.Stop(sig, patience); err != nil {
			t.Fatal(err)
		}
		if conn, err := await.Dial("tcp", s.Addr()); err == nil {
			_ = conn.Close()
			t.Fatalf("something listens after %v", sig)
		}
		start()
		if got := ask("GET", "k"); got != `$"v"` {
			t.Fatalf("GET after %v and a new start = %s", sig, got)
		}
	}
	if err := s.Stop(syscall.SIGTERM, patience); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(syscall.SIGTERM, patience); err != nil || s.RSSAnon() != 0 {
		t.Fatalf("second Stop = %v, RssAnon %d", err, s.RSSAnon())
	}
}
