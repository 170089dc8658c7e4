package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/redcon"

	"keyp/cmd/keyp-bench/internal/redisbench"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

const (
	redisDurable = `redis-server --port {port} --bind 127.0.0.1 --dir {dir} --appendonly yes --appendfsync always --save ''`
	redisForgets = `redis-server --port {port} --bind 127.0.0.1 --dir {dir} --appendonly no --save ''`
)

// keyp returns the command that runs Keyp, built from this tree.
func keyp(t *testing.T) string {
	t.Helper()
	return "'" + testkit.Binary(t) + "' --port {port} --bind 127.0.0.1 --dir {dir}"
}

func needRedis(t *testing.T) {
	t.Helper()
	testkit.Program(t, "redis-server")
}

// runBench runs the program. Its temporary directories must be gone afterwards.
func runBench(t *testing.T, ctx context.Context,
	args ...string) (status int, stdout, stderr string) {
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

// TestMain lets the test binary also run as the process of readers.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == readersArg {
		main()
	}
	os.Exit(m.Run())
}

func TestHelp(t *testing.T) {
	status, stdout, stderr := runBench(t, t.Context(), "--help")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	for _, w := range allWorkloads {
		if !strings.Contains(stdout, "\n  "+w.name+" ") {
			t.Errorf("help does not name workload %s", w.name)
		}
	}
	for name := range quickValues {
		if !strings.Contains(stdout, "--"+name+" ") {
			t.Errorf("help does not name --%s", name)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 &&
			!strings.Contains(line, "redis-server") {
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
		{[]string{"--keyp", "x", "--addr", "y:1"}, "not both"},
		{[]string{"--keyp", "x", "--peer", "y", "--before", "z"}, "--before"},
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
		{[]string{"--keyp", "x", "--length", "-1s"}, "--length"},
		{[]string{"--addr", "x:1", "--workload", "restart"}, "restart"},
		{[]string{"--keyp", "x", "--peer-addr", "x:1", "--workload", "slow"}, "restart"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), tt.args, &stdout, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), tt.says) || stdout.Len() > 0 {
			t.Errorf("%q: status %d, stderr %q, want %d and %q", tt.args, status, stderr.String(),
				exitUsage, tt.says)
		}
	}
}

func TestParse(t *testing.T) {
	c, err := parse([]string{"--keyp", "x", "--quick", "--clients", "7", "--pipeline", "4, 4,2",
		"--workload", "expire-burst,get,one,get"})
	if err != nil {
		t.Fatal(err)
	}
	if c.clients != 7 || c.rounds != 1 || c.duration != 100*time.Millisecond {
		t.Errorf("--quick and --clients: %d clients, %d rounds, %v", c.clients,
			c.rounds, c.duration)
	}
	var lines []string
	for _, l := range c.lines() {
		lines = append(lines, l.String())
	}
	if got := strings.Join(lines,
		"; "); got != "expire-burst, 5000 keys; get, pipeline 4; get, pipeline 2; one, 1 connections" {
		t.Errorf("lines: %s", got)
	}
}

// TestEverything runs the measurements that take seconds, and compares with Redis if it is
// installed. With KEYP_LONG=1 it runs the longest ones too.
func TestEverything(t *testing.T) {
	testkit.Program(t, redisbench.Program)
	_, redis := testkit.Find(t, "redis-server")
	workloads := short("set,restart,expire-burst", "standard,slow")
	args := []string{"--quick", "--json", "--workload", workloads, "--pipeline", "4",
		"--length", "100ms",
		"--keys", "1000", "--ttl-keys", "1000", "--rounds", "2", "--keyp", keyp(t)}
	if redis {
		args = append(args, "--peer", redisDurable)
	} else {
		t.Log("redis-server is not installed: Keyp is measured alone")
	}
	status, stdout, stderr := runBench(t, t.Context(), args...)
	if status != exitOK {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	if !strings.Contains(stderr, "] set, pipeline 4, keyp, round 1/2\n") {
		t.Errorf("progress: %q", stderr)
	}
	checkEverything(t, stdout, workloads)
}

// An earlier Keyp is measured like Keyp, with Keyp's own options.
func TestBefore(t *testing.T) {
	const workloads = "bigger-than-memory"
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--json",
		"--workload", workloads,
		"--ttl-keys", "1000", "--maxmemory", "100mb", "--keyp", keyp(t), "--before", keyp(t))
	if status != exitOK {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	checkEverything(t, stdout, workloads)
}

// short returns the workloads of a test, or with KEYP_LONG=1 more of them.
func short(some, more string) string {
	if testkit.Long() {
		return more
	}
	return some
}

// checkEverything checks the JSON document of a run, and its table.
func checkEverything(t *testing.T, document, workloads string) {
	t.Helper()
	var got report
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	wanted, err := chosen(workloads)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, row := range got.Rows {
		name, _, _ := strings.Cut(row.Line, ",")
		seen[name]++
		for i, side := range row.Sides {
			if len(side.Rounds) == 0 {
				// Less than the kernel counts.
				short := strings.HasPrefix(row.Name, "processor time")
				if !short {
					t.Errorf("%s, %s: side %d has no figures", row.Line, row.Name, i)
				}
				continue
			}
			if slices.Min(side.Rounds) < 0 || row.Name == "rate" && slices.Min(side.Rounds) <= 0 {
				t.Errorf("%s, %s: side %d: %v", row.Line, row.Name, i, side.Rounds)
			}
		}
		if len(row.Sides) > 1 && (row.Ratio <= 0 || len(row.Ratios) == 0) &&
			row.Sides[1].Median > 0 && row.Sides[0].Median > 0 {
			t.Errorf("%s, %s: ratio %v, of the rounds %v", row.Line, row.Name,
				row.Ratio, row.Ratios)
		}
	}
	for _, w := range wanted {
		if seen[w.name] == 0 {
			t.Errorf("%s has no figures", w.name)
		}
	}
	var table bytes.Buffer
	if err := got.writeTable(&table); err != nil ||
		!strings.Contains(table.String(), "\n- Keyp: Keyp ") {
		t.Fatalf("%v, the table:\n%s", err, table.String())
	}
}

// Tests of redis-benchmark that use commands unknown to the server fail, and the run continues.
func TestTypes(t *testing.T) {
	needRedis(t)
	testkit.Program(t, redisbench.Program)
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload",
		"set,incr,get", "--pipeline", "4",
		"--addr", startFake(t, nil), "--peer", redisDurable)
	if status != exitFailed || !strings.Contains(stderr, "incr, pipeline 4, keyp, round 1: ") ||
		!strings.Contains(stderr, "unknown command 'INCR'") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	for _, want := range []string{"\n| set, pipeline 4: rate ", "\n| incr, pipeline 4: rate ",
		"\n| get, pipeline 4: rate "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table has no line %q:\n%s", want, stdout)
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
		t.Errorf("stderr does not show what the server printed:\n%s", stderr)
	}
}

// runUntilMeasuring runs SETs for longer than any test may take, calls then when
// the measurement begins, and returns how the run ended.
func runUntilMeasuring(t *testing.T, ctx context.Context, command string,
	then func(dir string)) error {
	t.Helper()
	testkit.Program(t, redisbench.Program)
	dir := t.TempDir()
	cfg, err := parse([]string{"--workload", "set", "--duration", "1h", "--dir", dir, "--keys",
		"1000", "--keyp", command})
	if err != nil {
		t.Fatal(err)
	}
	out := &watchedBuffer{until: "set, pipeline 1, keyp, round 1", then: sync.OnceFunc(func() {
		then(dir)
	})}
	b := &bench{config: cfg, stderr: out, report: newReport(cfg)}
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx) }()
	err = await.For(t, "the run ends", ended)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d directories stayed behind, %v", len(left), err)
	}
	return err
}

func TestServerThatDies(t *testing.T) {
	needRedis(t)
	err := runUntilMeasuring(t, t.Context(), redisForgets+" --pidfile {dir}/pid", func(dir string) {
		killByFile(t, dir)
	})
	if err == nil {
		t.Fatal("the run passed")
	}
	for _, want := range []string{"set, pipeline 1: keyp: ", "signal: killed",
		"Ready to accept connections"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
}

// killByFile kills the server whose process id is in a file pid of its directory.
func killByFile(t *testing.T, dir string) {
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
	testkit.Program(t, redisbench.Program)
	status, _, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "restart,set",
		"--pipeline", "1", "--keyp", redisForgets)
	if status != exitFailed || !strings.Contains(stderr, "after kill -9") ||
		!strings.Contains(stderr, "not its value") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
}

// startFake starts a server for the commands of the measurements, with a map whose keys never
// expire. A command for which answer returns true is not handled further.
func startFake(t *testing.T, answer func(conn redcon.Conn, name string) bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	values := map[string]string{}
	server := redcon.NewServer(listener.Addr().String(),
		func(conn redcon.Conn, cmd redcon.Command) {
			mu.Lock()
			defer mu.Unlock()
			name := strings.ToUpper(string(cmd.Args[0]))
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
			case name == "INFO":
				conn.WriteBulkString("# Persistence\r\nloading:0\r\n")
			case name == "PING":
				conn.WriteString("PONG")
			default:
				conn.WriteError("ERR unknown command '" + name + "'")
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

// An error reply is reported, and the other workloads are measured.
func TestErrorReplyIsReported(t *testing.T) {
	testkit.Program(t, redisbench.Program)
	addr := startFake(t, func(conn redcon.Conn, name string) bool {
		if name == "SET" {
			conn.WriteError("OOM no more")
		}
		return name == "SET"
	})
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--json", "--workload",
		"set,get", "--pipeline", "1", "--addr", addr)
	if status != exitFailed || !strings.Contains(stderr, "OOM no more") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Failures) != 1 || got.Failures[0].Line != "set, pipeline 1" ||
		got.Failures[0].Side != "keyp" ||
		got.Failures[0].Count == 0 || !strings.Contains(got.Failures[0].First, "OOM no more") {
		t.Errorf("failures: %+v", got.Failures)
	}
	for _, row := range got.Rows {
		if row.Name == "rate" &&
			(len(row.Sides) != 1 || (row.Sides[0].Median > 0) != (row.Line == "get, pipeline 1")) {
			t.Errorf("%s: %+v", row.Line, row.Sides)
		}
	}
}

func TestLoadingThatFailsIsReported(t *testing.T) {
	addr := startFake(t, func(conn redcon.Conn, name string) bool {
		if name == "MSET" {
			conn.WriteError("ERR unknown command 'MSET'")
		}
		return name == "MSET"
	})
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet",
		"--workload", "get,set",
		"--pipeline", "1", "--addr", addr)
	if status != exitFailed || !strings.Contains(stderr, "loading keys: ") ||
		!strings.Contains(stderr, "unknown command 'MSET'") || stdout != "" {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
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
		status, _, stderr := runBench(t, t.Context(), "--quick", "--quiet",
			"--workload", "expire-burst",
			"--keys", "10", "--ttl-keys", "100", "--addr", startFake(t, tt.answer))
		if status != exitFailed || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: status %d, stderr:\n%s", tt.name, status, stderr)
		}
	}
}

// For each abuse the latency of GETs is measured, and no abuse is refused.
func TestAbuse(t *testing.T) {
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--json",
		"--ttl-keys", "200",
		"--workload", short("abuse-input", "abuse-read,abuse-large,abuse-input"), "--keyp", keyp(t))
	if status != exitOK {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := 3 * len(inputAbuses)
	if testkit.Long() {
		want += 3 * (len(readAbuses) + len(largeAbuses))
	}
	if len(got.Rows) != want {
		t.Errorf("%d figures, want %d", len(got.Rows), want)
	}
	for _, row := range got.Rows {
		if strings.HasSuffix(row.Name, "GET max") && row.Sides[0].Median <= 0 {
			t.Errorf("%s: %+v", row.Name, row.Sides)
		}
	}
}
