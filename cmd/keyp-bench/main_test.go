package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
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

// keyp is the command that runs Keyp as this tree has it.
func keyp(t *testing.T) string {
	t.Helper()
	return "'" + testkit.Binary(t) + "' --port {port} --bind 127.0.0.1 --dir {dir}"
}

func needRedis(t *testing.T) {
	t.Helper()
	testkit.Program(t, "redis-server")
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

// TestMain lets the test's own program be the process of the GETs beside an abuse.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == bystandersArg {
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
		if w.group == types && !strings.Contains(stdout, w.name) || w.group != types && !strings.Contains(stdout, "\n  "+w.name+" ") {
			t.Errorf("help does not tell about workload %s", w.name)
		}
	}
	for name := range quickValues {
		if !strings.Contains(stdout, "-"+name+" ") {
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
		{[]string{"--keyp", "x", "--length", "-1s"}, "--length"},
		{[]string{"--keyp", "x", "--load", "both"}, `"both"`},
		{[]string{"--keyp", "x", "--slow-keyp", "'x"}, "unfinished quote"},
		{[]string{"--keyp", "x", "--load", "own", "--workload", "types"}, "lpush"},
		{[]string{"--addr", "x:1", "--workload", "restart"}, "restart"},
		{[]string{"--keyp", "x", "--peer-addr", "x:1", "--workload", "slow"}, "sustained"},
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

// All that Keyp has, beside Redis where there is one: with the own load, and what
// redis-benchmark can do with that. Most of what takes longest is left to KEYP_LONG=1.
func TestEverything(t *testing.T) {
	_, redis := testkit.Find(t, "redis-server")
	own := "standard,tail,slow-disk,expire-burst"
	if testkit.Long() {
		own = "standard,slow"
	}
	for loadName, workloads := range map[string]string{"own": own, redisbench.Program: "standard,tail,slow-disk"} {
		t.Run(loadName, func(t *testing.T) {
			if loadName == redisbench.Program {
				testkit.Program(t, redisbench.Program)
			}
			args := []string{"--quick", "--json", "--load", loadName, "--workload", workloads, "--pipeline", "4",
				"-n", "1000", "--many-clients", "30", "--keys", "1000", "--ttl-keys", "1000", "--rounds", "2", "--keyp", keyp(t)}
			if redis {
				args = append(args, "--peer", redisDurable)
			} else {
				t.Log("redis-server is not installed: Keyp is measured alone")
			}
			status, stdout, stderr := runBench(t, t.Context(), args...)
			if status != exitOK {
				t.Fatalf("status %d, stderr:\n%s", status, stderr)
			}
			if !strings.Contains(stderr, "] standard, keyp: starting") {
				t.Errorf("progress: %q", stderr)
			}
			checkEverything(t, stdout, workloads, redis)
		})
	}
}

// checkEverything checks the JSON document of a run of two rounds, and its tables.
func checkEverything(t *testing.T, document, workloads string, withPeer bool) {
	t.Helper()
	var got report
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	if want := len(named(standard)) + 1; len(got.Throughput) != want {
		t.Errorf("%d lines of throughput, want %d", len(got.Throughput), want)
	}
	for _, line := range got.Throughput {
		sides := []*streamResult{line.Keyp}
		if withPeer {
			sides = append(sides, line.Peer)
			if line.Ratio <= 0 || len(line.Ratios) != 2 {
				t.Errorf("%s: ratio %v, of the rounds %v", line.Workload, line.Ratio, line.Ratios)
			}
		}
		for _, s := range sides {
			if s == nil || len(s.Rounds) != 2 {
				t.Fatalf("%s: not two rounds: %+v", line.Workload, s)
			}
			m := s.Result
			if m.OpsPerSec <= 0 || m.P50 <= 0 || m.P50 > m.P99 || m.P99 > m.P999 || m.P999 > m.Max ||
				m.Requests <= 0 || m.Errors != 0 {
				t.Errorf("%s: %+v", line.Workload, m)
			}
		}
	}
	seen := map[string]int{}
	for _, line := range got.Readings {
		seen[line.Workload]++
		if line.Keyp == nil || line.Keyp.Median < 0 || line.Keys != 1000 {
			t.Errorf("%s, %s: %+v, %d keys", line.Workload, line.Name, line.Keyp, line.Keys)
		}
	}
	wanted, err := chosen(workloads)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wanted {
		if w.procedure == nil {
			continue
		}
		if seen[w.name] == 0 {
			t.Errorf("%s has no readings", w.name)
		}
		for _, line := range got.Readings {
			peers := withPeer && !w.keypOnly && len(got.Skipped) == 0
			if line.Workload == w.name && peers != (line.Peer != nil) {
				t.Errorf("%s, %s: peer %+v", line.Workload, line.Name, line.Peer)
			}
		}
	}
	var table bytes.Buffer
	if err := got.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n| set ", "\n| many ", "| slow-disk, 1000 keys: GET beside it: p99 ", "\n- Keyp: Keyp "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no line %q:\n%s", want, table.String())
		}
	}
}

// Tests of redis-benchmark that the server has no command for are failures of their own.
func TestTypes(t *testing.T) {
	needRedis(t)
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "set,sadd,lrange_100", "--pipeline", "4",
		"--addr", startFake(t, nil), "--peer", redisDurable)
	if status != exitFailed || !strings.Contains(stderr, "sadd, pipeline 4, keyp, round 1: ") || !strings.Contains(stderr, "unknown command 'SADD'") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	for _, want := range []string{"\n| set ", "\n| sadd ", "\n| lrange_100 "} {
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
		t.Errorf("stderr does not show what the server said:\n%s", stderr)
	}
}

// runUntilMeasuring runs SETs for longer than any test may take, calls then when
// the measurement begins, and returns how the run ended.
func runUntilMeasuring(t *testing.T, ctx context.Context, load, command string, then func(dir string)) error {
	t.Helper()
	dir := t.TempDir()
	cfg, err := parse([]string{"--load", load, "--workload", "set", "--duration", "1h", "--dir", dir, "--keyp", command})
	if err != nil {
		t.Fatal(err)
	}
	out := &watchedBuffer{until: "measuring", then: sync.OnceFunc(func() { then(dir) })}
	progress := newProgress(out, false)
	progress.terminal = true // every step shows at once
	b := &bench{config: cfg, progress: progress, report: newReport(cfg)}
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
	for _, load := range []string{"own", redisbench.Program} {
		err := runUntilMeasuring(t, t.Context(), load, redisForgets+" --pidfile {dir}/pid", func(dir string) { killByFile(t, dir) })
		if err == nil {
			t.Fatal("the run passed")
		}
		for _, want := range []string{"set, pipeline 1: keyp: ", "signal: killed", "Ready to accept connections"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", load, want, err)
			}
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
	for _, load := range []string{"own", redisbench.Program} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := runUntilMeasuring(t, ctx, load, redisForgets, func(string) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: run = %v, want the context's end", load, err)
		}
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
	status, _, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--load", "own", "--workload", "restart,set", "--pipeline", "1",
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
			conn.WriteBulkString("")
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

// An error reply is counted and told, and the other workloads are measured.
func TestErrorReplyIsReported(t *testing.T) {
	addr := startFake(t, func(conn redcon.Conn, name string) bool {
		if name == "SET" {
			conn.WriteError("OOM no more")
		}
		return name == "SET"
	})
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--json", "--load", "own", "--workload", "set,get",
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
	if status != exitFailed || !strings.Contains(stderr, "standard, keyp: loading keys: ") ||
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
		status, _, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--workload", "expire-burst",
			"--keys", "10", "--ttl-keys", "100", "--clients", "2", "--addr", startFake(t, tt.answer))
		if status != exitFailed || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: status %d, stderr:\n%s", tt.name, status, stderr)
		}
	}
}

// What GETs notice of an abuse is measured for each, and that none of it is refused.
func TestAbuse(t *testing.T) {
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--quiet", "--json", "--ttl-keys", "200",
		"--workload", "abuse-read,abuse-input", "--keyp", keyp(t))
	if status != exitOK {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if want := 3 * (len(readAbuses) + len(inputAbuses)); len(got.Readings) != want {
		t.Errorf("%d readings, want %d", len(got.Readings), want)
	}
	for _, line := range got.Readings {
		if strings.HasSuffix(line.Name, "GET max") && (line.Keyp == nil || line.Keyp.Median <= 0) {
			t.Errorf("%s: %+v", line.Name, line.Keyp)
		}
	}
}
