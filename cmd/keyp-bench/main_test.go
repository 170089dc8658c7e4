package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/redcon"

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

// fakeArg is the first argument of the test binary that makes it a fake server.
const fakeArg = "fake-server"

// TestMain lets the test binary also run as the readers' process, and as a fake server.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == readersArg:
		main()
	case len(os.Args) > 1 && os.Args[1] == fakeArg:
		fmt.Println(serveFake(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fake returns a command that starts a fake server with the commands that the measurements use. Its
// keys never expire. It answers the command named by refused with an error. If refused is "early",
// keys disappear too early; if it is "deaf", the server ignores SIGTERM. STRLEN returns the number
// of GETs.
func fake(t *testing.T, refused string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("'%s' %s {port} %s", self, fakeArg, refused)
}

func serveFake(port, refused string) error {
	if refused == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	var mu sync.Mutex
	values := map[string]string{}
	sizes, gets := 0, 0
	return redcon.ListenAndServe("127.0.0.1:"+port, func(conn redcon.Conn, cmd redcon.Command) {
		mu.Lock()
		defer mu.Unlock()
		switch name := strings.ToUpper(string(cmd.Args[0])); {
		case name == "STRLEN":
			conn.WriteInt(gets)
		case name == refused:
			gets++
			conn.WriteError("ERR refused " + name)
		case name == "GET":
			gets++
			if v, ok := values[string(cmd.Args[1])]; ok {
				conn.WriteBulkString(v)
			} else {
				conn.WriteNull()
			}
		case name == "SET":
			values[string(cmd.Args[1])] = string(cmd.Args[2])
			conn.WriteString("OK")
		case name == "DBSIZE" && refused == "early":
			conn.WriteInt(len(values) - sizes)
			sizes++
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
}

func TestHelp(t *testing.T) {
	status, stdout, stderr := runBench(t, t.Context(), "--help")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	for _, w := range allWorkloads() {
		if !strings.Contains(strings.ReplaceAll(stdout, "\n", " "), "  "+w.name+" ") {
			t.Errorf("help does not name workload %s", w.name)
		}
	}
	for _, name := range []string{"keyp", "peer", "before", "rounds", "dir", "quick"} {
		if !strings.Contains(stdout, "\n  --"+name) {
			t.Errorf("help does not name --%s", name)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("line of %d columns: %s", n, line)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	tests := []struct {
		args []string
		says string
	}{
		{nil, "--keyp"},
		{[]string{"--peer", "x", "--keyp", " "}, "--keyp"},
		{[]string{"--keyp", "x", "--peer", "y", "--before", "z"}, "--before"},
		{[]string{"--keyp", "x", "extra"}, `"extra"`},
		{[]string{"--keyp", "x", "--workload", "set,nope"}, `"nope"`},
		{[]string{"--keyp", "x", "--pipeline", "1,16"}, "-pipeline"},
		{[]string{"--keyp", "x", "--rounds", "0"}, "--rounds"},
		{[]string{"--keyp", "x", "--keys", "1000000001"}, "--keys"},
		{[]string{"--keyp", "x", "--duration", "-1s"}, "--duration"},
		{[]string{"--keyp", "x", "--nonsense"}, "nonsense"},
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
	testkit.Program(t, redisBenchmark)
	c, err := parse([]string{"--keyp", "x", "--clients", "7", "--quick", "--pipeline", "4",
		"--workload", "expire-burst, get,one,get"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.workloads); c.rounds != 1 || got !=
		"[expire-burst, 5000 keys get, 5000 keys, pipeline 4 one, 5000 keys, pipeline 1]" {
		t.Errorf("%d rounds of %s", c.rounds, got)
	}
	get, one := c.workloads[1], c.workloads[2]
	if get.clients != 7 || one.clients != 1 || one.length != 200*time.Millisecond {
		t.Errorf("get: %+v, one: %+v", get, one)
	}
	c, err = parse([]string{"--keyp", "x", "--peer", "y", "--workload", "standard,expire-events"})
	if err != nil || len(c.workloads) != 11 || len(c.sides) != 2 ||
		c.workloads[1].String() != "set, 1000000 keys, pipeline 16" ||
		c.workloads[10].keys != 100_000 || c.workloads[10].length != 10*time.Second {
		t.Errorf("standard: %v, %v", c.workloads, err)
	}
}

// TestEverything runs the measurements that take seconds, and compares with Redis if it is
// installed. With KEYP_LONG=1 it runs the longest ones too.
func TestEverything(t *testing.T) {
	testkit.Program(t, redisBenchmark)
	workloads := []string{"set", "restart", "expire-burst"}
	if testkit.Long() {
		workloads = append(workloads, "get", "incr", "setex", "one", "many", "expire-events")
	}
	args := []string{"--quick", "--workload", strings.Join(workloads, ","), "--pipeline", "4",
		"--duration", "100ms", "--keys", "1000", "--rounds", "2", "--keyp", keyp(t)}
	if _, redis := testkit.Find(t, "redis-server"); redis {
		args = append(args, "--peer", redisDurable)
	} else {
		t.Log("redis-server is not installed: Keyp is measured alone")
	}
	stdout, stderr := passes(t, args, workloads...)
	for _, want := range []string{"\n- keyp: Keyp ", "\n- A smoke run"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table does not contain %q:\n%s", want, stdout)
		}
	}
	// Every second round is measured in the reverse order.
	progress := strings.Split(stderr, "\n")
	if strings.Contains(stdout, "ratio") && (len(progress) < 4 ||
		progress[1] != "[2/12] set, 1000 keys, pipeline 4, peer, round 1/2" ||
		progress[2] != "[3/12] set, 1000 keys, pipeline 4, peer, round 2/2" ||
		progress[3] != "[4/12] set, 1000 keys, pipeline 4, keyp, round 2/2") &&
		!testkit.Long() {
		t.Errorf("progress: %q", stderr)
	}
}

// passes runs the program, which must succeed. Its output must have lines for each workload, and a
// number in each cell of the table that needs one.
func passes(t *testing.T, args []string, workloads ...string) (stdout, stderr string) {
	t.Helper()
	status, stdout, stderr := runBench(t, t.Context(), args...)
	if status != exitOK {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	for _, name := range workloads {
		if !strings.Contains(stdout, "\n| "+name+", ") {
			t.Errorf("%s has no figures:\n%s", name, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.Contains(line, "---") || cells[2] == " unit " {
			continue
		}
		figures := cells[3 : len(cells)-1]
		figures = figures[:min(len(figures), 2)]
		for _, cell := range figures {
			v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if strings.Contains(line, "processor time") {
				continue // it may be less than the kernel counts
			}
			if err != nil || v < 0 || v == 0 && strings.Contains(line, ": rate ") {
				t.Errorf("figure %q in %s", cell, line)
			}
		}
	}
	return stdout, stderr
}

// TestBefore: an earlier version of Keyp is measured like the current one, with Keyp's own options.
func TestBefore(t *testing.T) {
	testkit.Program(t, redisBenchmark)
	stdout, _ := passes(t, []string{"--quick", "--workload", "bigger-than-memory", "--keys",
		"1000", "--maxmemory", "100mb", "--keyp", keyp(t), "--before", keyp(t)},
		"bigger-than-memory")
	if !strings.Contains(stdout, " before | ratio |") {
		t.Errorf("the table:\n%s", stdout)
	}
}

// TestAbuse: the latency of GETs is measured during each kind of abuse, and the server refuses no
// abuse.
func TestAbuse(t *testing.T) {
	stdout, _ := passes(t, []string{"--quick", "--keys", "200", "--workload", "abuse",
		"--keyp", keyp(t)}, "abuse")
	for _, what := range abuses {
		for _, figure := range []string{"GET p99", "GET max", "memory"} {
			if !strings.Contains(stdout, "keys: "+what.name+": "+figure+" ") {
				t.Errorf("no %s of %s", figure, what.name)
			}
		}
	}
}

func TestServerThatFailsToStart(t *testing.T) {
	testkit.Program(t, redisBenchmark)
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--workload", "set",
		"--keyp", `sh -c 'echo no such disk >&2; exit 3'`)
	if status != exitFailed || stdout != "" {
		t.Fatalf("status %d, stdout %q", status, stdout)
	}
	if !strings.Contains(stderr, "no such disk") || !strings.Contains(stderr, "exit status 3") {
		t.Errorf("stderr does not show what the server printed:\n%s", stderr)
	}
}

// runUntilMeasuring runs SETs for longer than any test may take. It calls then when the measurement
// begins, and returns the error of the run.
func runUntilMeasuring(t *testing.T, ctx context.Context, command string,
	then func(dir string)) error {
	t.Helper()
	testkit.Program(t, redisBenchmark)
	dir := t.TempDir()
	cfg, err := parse([]string{"--workload", "set", "--duration", "1h", "--dir", dir, "--keys",
		"1000", "--keyp", command})
	if err != nil {
		t.Fatal(err)
	}
	out := &watchedBuffer{until: "set, 1000 keys, pipeline 1, keyp, round 1",
		then: sync.OnceFunc(func() { then(dir) })}
	b := &bench{config: cfg, stderr: out}
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
	for _, want := range []string{"set, 1000 keys, pipeline 1, keyp, round 1: ", "signal: killed",
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

// watchedBuffer calls then after each write once its content contains until.
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

// TestRestartNoticesLostKeys: a server without a log loses its keys at a restart. The run must
// fail, but the other workloads are still measured.
func TestRestartNoticesLostKeys(t *testing.T) {
	needRedis(t)
	testkit.Program(t, redisBenchmark)
	status, stdout, stderr := runBench(t, t.Context(), "--quick", "--workload", "restart,set",
		"--pipeline", "1", "--keyp", redisForgets)
	if status != exitFailed || !strings.Contains(stderr, "after kill -9") ||
		!strings.Contains(stderr, "redis: nil") {
		t.Fatalf("status %d, stderr:\n%s", status, stderr)
	}
	if !strings.Contains(stdout, "\n| set, 5000 keys, pipeline 1: rate ") {
		t.Errorf("the table:\n%s", stdout)
	}
}

// TestWrongAnswers: wrong answers are reported, and the program ends with status 1.
func TestWrongAnswers(t *testing.T) {
	testkit.Program(t, redisBenchmark)
	tests := []struct {
		name, workload, refused string
		says                    []string // on stderr
		table                   string   // "": no table
	}{
		{"an error reply", "incr,get", "INCR",
			[]string{"incr, 100 keys, pipeline 4, keyp, round 1: wrong answer: ERR refused INCR"},
			"\n| get, 100 keys, pipeline 4: rate "},
		{"loading fails", "get", "SET",
			[]string{"keyp: wrong answer: loading keys: ERR refused SET"}, ""},
		{"never expires", "expire-burst", "nothing", []string{"after its deadline gave"}, ""},
		{"expires too early", "expire-burst", "early", []string{"before the keys expire"}, ""},
	}
	for _, tt := range tests {
		status, stdout, stderr := runBench(t, t.Context(), "--quick", "--workload", tt.workload,
			"--keys", "100", "--pipeline", "4", "--keyp", fake(t, tt.refused))
		if status != exitFailed || (stdout != "") != (tt.table != "") ||
			!strings.Contains(stdout, tt.table) {
			t.Errorf("%s: status %d, stdout:\n%s", tt.name, status, stdout)
		}
		for _, want := range tt.says {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: stderr does not contain %q:\n%s", tt.name, want, stderr)
			}
		}
	}
}

// TestReadersNoticeErrors: a GET that fails during a measurement counts as a wrong answer.
func TestReadersNoticeErrors(t *testing.T) {
	for refused, wrong := range map[string]bool{"GET": true, "nothing": false} {
		s, err := openServer(t, t.Context(), fake(t, refused), await.Bound)
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{config: config{timeout: await.Bound, size: 10}}
		if err := b.load(t.Context(), s, keyPrefix, readerKeys, nil); err != nil {
			t.Fatal(err)
		}
		gets, err := b.startReaders(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		client := s.dial()
		defer client.Close()
		await.Until(t, "GETs are sent", func() bool {
			return client.StrLen(t.Context(), "gets").Val() > readerClients
		})
		noticed, err := gets.end(0)
		if errors.Is(err, errWrong) != wrong || !wrong && err != nil || noticed.Max <= 0 {
			t.Errorf("%s: %+v, %v", refused, noticed, err)
		}
	}
}
