package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/redcon"
)

const (
	redisDurable = `redis-server --port {port} --bind 127.0.0.1 --dir {dir} --appendonly yes --appendfsync always --save ''`
	redisForgets = `redis-server --port {port} --bind 127.0.0.1 --dir {dir} --appendonly no --save ''`
)

func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: there is no server to measure")
	}
}

// runBench runs the program. Its temporary directories must be gone afterwards.
func runBench(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	status = run(ctx, append([]string{"--dir", dir}, args...), &out, &errs)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%d directories stayed behind, %v", len(left), err)
	}
	return status, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	status, stdout, stderr := runBench(t, t.Context(), "--help")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	for _, w := range allWorkloads {
		if !strings.Contains(stdout, "\n  "+w.name+" ") {
			t.Errorf("help does not tell about workload %s", w.name)
		}
	}
	for name := range quickValues {
		if !strings.Contains(stdout, "--"+name) {
			t.Errorf("help does not tell about --%s", name)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "redis-server") {
			t.Errorf("line of %d columns: %s", n, line)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	tests := []struct {
		args []string
		says string
	}{
		{nil, "--keyp or --addr"},
		{[]string{"--peer", "x"}, "--keyp or --addr"},
		{[]string{"--keyp", "x", "--addr", "y:1"}, "one must do"},
		{[]string{"--keyp", "x 'y"}, "unfinished quote"},
		{[]string{"--keyp", " "}, "no command"},
		{[]string{"--keyp", "x", "extra"}, `"extra"`},
		{[]string{"--keyp", "x", "--workload", "set,nope"}, `"nope"`},
		{[]string{"--keyp", "x", "--pipeline", "1,0"}, `"0"`},
		{[]string{"--keyp", "x", "--pipeline", ""}, `""`},
		{[]string{"--keyp", "x", "--rounds", "0"}, "--rounds"},
		{[]string{"--keyp", "x", "--clients", "0"}, "--clients"},
		{[]string{"--keyp", "x", "--keys", "0"}, "--keys"},
		{[]string{"--keyp", "x", "--keys", "18446744073709551615"}, "--keys"},
		{[]string{"--keyp", "x", "--size", "-1"}, "--size"},
		{[]string{"--keyp", "x", "--duration", "0s"}, "--duration"},
		{[]string{"--keyp", "x", "--timeout", "0s"}, "--timeout"},
		{[]string{"--keyp", "x", "--dir", "/no/such/directory"}, "--dir"},
		{[]string{"--keyp", "x", "--nonsense"}, "nonsense"},
		{[]string{"--addr", "x:1", "--workload", "restart"}, "restart"},
		{[]string{"--keyp", "x", "--peer-addr", "x:1", "--workload", "all"}, "restart"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), tt.args, &stdout, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), tt.says) || stdout.Len() > 0 {
			t.Errorf("%q: status %d, stderr %q, want %d and %q", tt.args, status, stderr.String(), exitUsage, tt.says)
		}
	}
}

func TestParse(t *testing.T) {
	c, err := parse([]string{"--keyp", "x", "--quick", "--clients", "7", "--pipeline", "4, 4,2", "--workload", "get,one,get"})
	if err != nil {
		t.Fatal(err)
	}
	if c.clients != 7 || c.rounds != 1 || c.duration != 100*time.Millisecond {
		t.Errorf("--quick and --clients: %d clients, %d rounds, %v", c.clients, c.rounds, c.duration)
	}
	var lines []string
	for _, s := range c.shapes() {
		lines = append(lines, s.String())
	}
	if got := strings.Join(lines, "; "); got != "get, pipeline 4; get, pipeline 2; one, pipeline 1" {
		t.Errorf("lines: %s", got)
	}
	if one := c.shapes()[2]; one.clients != 1 {
		t.Errorf("workload one has %d clients", one.clients)
	}
	c, err = parse([]string{"--keyp", "x", "-n", "10"})
	if err != nil || c.duration != 0 || c.requests != 10 {
		t.Errorf("-n alone: %d requests, %v, %v", c.requests, c.duration, err)
	}
	c, err = parse([]string{"--keyp", "x", "-n", "10", "--duration", "1s"})
	if err != nil || c.duration != time.Second || c.requests != 10 {
		t.Errorf("-n and --duration: %d requests, %v, %v", c.requests, c.duration, err)
	}
}

// Everything, against the real thing on both sides.
func TestRedisAgainstRedis(t *testing.T) {
	needRedis(t)
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--json", "--workload", "all",
		"--pipeline", "4", "--many-clients", "30", "--duration", "30ms", "--keys", "1000", "--ttl-keys", "1000",
		"--rounds", "2", "--keyp", redisDurable, "--peer", redisDurable)
	if status != exitOK {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	var got report
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v in:\n%s", err, stdout)
	}
	if len(got.Throughput) != len(groupNames(standard)) {
		t.Errorf("%d lines of throughput, want %d", len(got.Throughput), len(groupNames(standard)))
	}
	for _, line := range got.Throughput {
		for _, s := range []*streamResult{line.Keyp, line.Peer} {
			if s == nil || len(s.Rounds) != 2 {
				t.Fatalf("%s: not two rounds: %+v", line.Workload, s)
			}
			m := s.Result
			if m.OpsPerSec <= 0 || m.P50 <= 0 || m.P50 > m.P99 || m.P99 > m.P999 || m.P999 > m.Max ||
				m.Requests <= 0 || m.Errors != 0 {
				t.Errorf("%s: %+v", line.Workload, m)
			}
		}
		if line.Ratio <= 0 {
			t.Errorf("%s: ratio %v", line.Workload, line.Ratio)
		}
	}
	seen := map[string]int{}
	for _, line := range got.Readings {
		seen[line.Workload]++
		if line.Keyp == nil || line.Peer == nil || len(line.Keyp.Rounds) != 2 || line.Keyp.Median <= 0 || line.Ratio <= 0 {
			t.Errorf("%s, %s: %+v, %+v, ratio %v", line.Workload, line.Name, line.Keyp, line.Peer, line.Ratio)
		}
	}
	if seen["expire-burst"] < 5 || seen["restart"] < 3 {
		t.Errorf("readings: %v", seen)
	}
	if !strings.Contains(stderr, "[1/40] set, pipeline 4, keyp, round 1/2: ") {
		t.Errorf("progress: %q", stderr)
	}

	var table bytes.Buffer
	if err := got.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nset ", "\nmany ", "\nrestart: clean stop ", "\nexpire-burst: all gone after "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no line %q:\n%s", want, table.String())
		}
	}
}

func TestServerThatFailsToStart(t *testing.T) {
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "set",
		"--keyp", `sh -c 'echo no such disk >&2; exit 3'`)
	if status != exitFailed || stdout != "" {
		t.Fatalf("status %d, stdout %q", status, stdout)
	}
	if !strings.Contains(stderr, "no such disk") || !strings.Contains(stderr, "exit status 3") {
		t.Errorf("stderr does not show what the server said:\n%s", stderr)
	}
}

// runUntilMeasuring runs SETs for longer than any test may take, calls then when
// the measurement begins, and returns how the run ended.
func runUntilMeasuring(t *testing.T, ctx context.Context, command string, then func(dir string)) error {
	t.Helper()
	dir := t.TempDir()
	cfg, err := parse([]string{"--workload", "set", "--duration", "1h", "--dir", dir, "--keyp", command})
	if err != nil {
		t.Fatal(err)
	}
	out := &watchedBuffer{until: "measuring", then: sync.OnceFunc(func() { then(dir) })}
	progress := newProgress(out, false)
	progress.terminal = true // every step shows at once
	began := time.Now()
	b := &bench{config: cfg, progress: progress, report: newReport(cfg)}
	err = b.run(ctx)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v to end", took)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d directories stayed behind, %v", len(left), err)
	}
	return err
}

func TestServerThatDies(t *testing.T) {
	needRedis(t)
	err := runUntilMeasuring(t, t.Context(), redisForgets+" --pidfile {dir}/pid", func(dir string) {
		files, err := filepath.Glob(filepath.Join(dir, "*", "data", "pid"))
		if err != nil || len(files) != 1 {
			t.Errorf("process id files: %q, %v", files, err)
			return
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Error(err)
			return
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || pid <= 1 {
			t.Errorf("process id %q", text)
			return
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		t.Fatal("the run passed")
	}
	for _, want := range []string{"set, pipeline 1, keyp: ", "signal: killed", "Ready to accept connections"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestInterrupt(t *testing.T) {
	needRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := runUntilMeasuring(t, ctx, redisForgets, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("run = %v, want the context's end", err)
	}
}

// watchedBuffer calls then once until has been written.
type watchedBuffer struct {
	mu    sync.Mutex
	all   bytes.Buffer
	until string
	then  func()
}

func (w *watchedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	if strings.Contains(w.all.String(), w.until) {
		w.then()
	}
	return len(p), nil
}

// A server without a log loses its keys: the run must not pass.
func TestRestartNoticesLostKeys(t *testing.T) {
	needRedis(t)
	status, _, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "restart,set", "--pipeline", "1",
		"--keyp", redisForgets)
	if status != exitFailed || !strings.Contains(stderr, "after kill -9") || !strings.Contains(stderr, "not its value") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
}

// startFake serves the commands that the measurements send from a map that knows
// no time, except those that answer takes over.
func startFake(t *testing.T, answer func(conn redcon.Conn, name string) bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	values := map[string]string{}
	server := redcon.NewServer(listener.Addr().String(), func(conn redcon.Conn, cmd redcon.Command) {
		mu.Lock()
		defer mu.Unlock()
		name := string(cmd.Args[0])
		switch {
		case answer != nil && answer(conn, name):
		case name == "GET":
			if v, ok := values[string(cmd.Args[1])]; ok {
				conn.WriteBulkString(v)
			} else {
				conn.WriteNull()
			}
		case name == "SET":
			values[string(cmd.Args[1])] = string(cmd.Args[2])
			conn.WriteString("OK")
		case name == "MSET":
			for i := 1; i+1 < len(cmd.Args); i += 2 {
				values[string(cmd.Args[i])] = string(cmd.Args[i+1])
			}
			conn.WriteString("OK")
		case name == "DBSIZE":
			conn.WriteInt(len(values))
		}
	}, nil, nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with the listener
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String()
}

// An error reply is counted and told, and the other workloads are measured.
func TestErrorReplyIsReported(t *testing.T) {
	addr := startFake(t, func(conn redcon.Conn, name string) bool {
		if name == "SET" {
			conn.WriteError("OOM no more")
		}
		return name == "SET"
	})
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--json", "--workload", "set,mset",
		"--pipeline", "1", "--addr", addr)
	if status != exitFailed || !strings.Contains(stderr, "OOM no more") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Failures) != 1 || got.Failures[0].Workload != "set" || got.Failures[0].Side != "keyp" ||
		got.Failures[0].Count == 0 || got.Failures[0].First != "OOM no more" {
		t.Errorf("failures: %+v", got.Failures)
	}
	if len(got.Throughput) != 2 || got.Throughput[0].Keyp.Result.Errors != got.Failures[0].Count ||
		got.Throughput[1].Keyp.Result.Errors != 0 || got.Throughput[1].Peer != nil {
		t.Errorf("throughput: %s", stdout)
	}
}

func TestLoadingThatFailsIsReported(t *testing.T) {
	addr := startFake(t, func(conn redcon.Conn, name string) bool {
		if name == "MSET" {
			conn.WriteError("ERR unknown command 'MSET'")
		}
		return name == "MSET"
	})
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "get,set",
		"--pipeline", "1", "--addr", addr)
	if status != exitFailed || !strings.Contains(stderr, "get, pipeline 1, keyp, round 1") ||
		!strings.Contains(stderr, "unknown command 'MSET'") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	if !strings.Contains(stdout, "\nset ") || strings.Contains(stdout, "\nget ") {
		t.Errorf("the table should have set and not get:\n%s", stdout)
	}
}

func TestExpireBurstNoticesWrongExpiry(t *testing.T) {
	gone := 0
	tests := []struct {
		name   string
		answer func(conn redcon.Conn, name string) bool
		says   string
	}{
		{"never expires", nil, "after its deadline gave"},
		{"expires too early", func(conn redcon.Conn, name string) bool {
			if name == "DBSIZE" {
				conn.WriteInt(10 + gone)
				gone++
			}
			return name == "DBSIZE"
		}, "before the keys expire"},
	}
	for _, tt := range tests {
		status, _, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "expire-burst",
			"--keys", "10", "--ttl-keys", "100", "--clients", "2", "--addr", startFake(t, tt.answer))
		if status != exitFailed || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: status %d, stderr:\n%s", tt.name, status, stderr)
		}
	}
}
