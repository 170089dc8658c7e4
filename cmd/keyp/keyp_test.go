package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/childproc"
	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// runKeyp runs keyp until it ends by itself.
func runKeyp(t *testing.T, stdin string, env []string,
	args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx := await.Context(t)
	cmd := exec.CommandContext(ctx, testkit.Binary(t), args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	cmd.Dir, cmd.Env = t.TempDir(), append(testkit.Environ(), env...)
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("keyp %q does not end; it printed %s", args, errs.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), withoutProgress(errs.String())
}

// withoutProgress returns the output of a tool without the progress lines that appear on a slow
// machine.
func withoutProgress(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "time=") || !strings.Contains(line, "level=INFO") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestHelpAndVersion(t *testing.T) {
	for _, arg := range []string{"help", "--help", "-h"} {
		status, out, errs := runKeyp(t, "", nil, arg)
		if status != 0 || errs != "" || !strings.Contains(out, "Usage:") ||
			!strings.Contains(out, "keyp check DIR") {
			t.Errorf("%s: status %d, printed %q, %q", arg, status, out, errs)
		}
	}
	for topic, want := range map[string]string{"check": "usage: keyp check DIR",
		"options": "--maxmemory ", "memory": "--maxmemory ", "maxmemory": "--maxmemory "} {
		if status, out, errs := runKeyp(t, "", nil, "help", topic); status != 0 || errs != "" ||
			!strings.Contains(out, want) {
			t.Errorf("help %s: status %d, printed %q, %q", topic, status, out, errs)
		}
	}
	for _, arg := range []string{"version", "--version", "-v"} {
		status, out, errs := runKeyp(t, "", nil, arg)
		if want := "keyp " + config.Version; status != 0 || errs != "" || !regexp.MustCompile("^"+
			regexp.QuoteMeta(want)+`( \([0-9a-f]+(, \S+)?\))?\n$`).MatchString(out) {
			t.Errorf("%s: status %d, printed %q, %q", arg, status, out, errs)
		}
	}
}

// TestMistakes: a mistake is reported in one line on standard error, with status 1.
func TestMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a-file")
	if err := os.WriteFile(file, []byte("port 0\nmaxmemory much\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()[len("127.0.0.1:"):]
	running := testkit.Keyp(t)
	tests := []struct {
		name, stdin string
		env, args   []string
		want        string
	}{
		{name: "unknown option", args: []string{"--prot", "1"},
			want: "keyp: --prot: unknown option; did you mean port?"},
		{name: "bad value", args: []string{"--port", "many"},
			want: "keyp: --port: argument couldn't be parsed into an integer"},
		{name: "bad value in a file", args: []string{file}, want: "keyp: " + file +
			":2: maxmemory: argument must be a memory value"},
		{name: "bad value on standard input", args: []string{"-"}, stdin: "hz x\n",
			want: "keyp: standard input:1: hz: argument couldn't be parsed into an integer"},
		{name: "bad value in the environment", env: []string{"KEYP_TIMEOUT=x"},
			want: "keyp: KEYP_TIMEOUT: argument couldn't be parsed into an integer"},
		{name: "nearly a password in the environment", env: []string{"KEYP_REQUIREPAS=x"},
			want: "keyp: KEYP_REQUIREPAS: unknown option; did you mean KEYP_REQUIREPASS?"},
		{name: "no such file", args: []string{file + "x"},
			want: "keyp: can't read the configuration: open " + file +
				"x: no such file or directory"},
		{name: "shards", args: []string{"--shards", "3"},
			want: "keyp: --shards: argument must be a power of two"},
		{name: "port in use", args: []string{"--port", port},
			want: "keyp: cannot listen on 127.0.0.1:" + port + ": the address is in use"},
		{name: "directory not writable", args: []string{"--port", "0", "--unixsocket", "s", "--dir",
			filepath.Join(file, "data")}, want: "keyp: dir: stat " + filepath.Join(file, "data") +
			": not a directory"},
		{name: "nothing to listen on", args: []string{"--port", "0"},
			want: "keyp: nothing to listen on"},
		{name: "log file", args: []string{"--logfile", filepath.Join(file, "log")},
			want: "keyp: cannot open the log file: open"},
		{name: "debug address", args: []string{"--debug-addr", "127.0.0.1:1"},
			want: "keyp: --debug-addr: profiles are served at http-addr now"},
		{name: "HTTP address", args: []string{"--http-addr", "0.0.0.0:1"},
			want: `keyp: http-addr "0.0.0.0:1" is not a loopback address`},
		{name: "HTTP without a port", args: []string{"--http-addr", "127.0.0.1"},
			want: `keyp: http-addr "127.0.0.1" is not an IP address with a port`},
		{name: "HTTP address in use", args: []string{"--http-addr", "127.0.0.1:" + port},
			want: "keyp: cannot listen on http-addr: "},
		{name: "HTTP without a certificate", args: []string{"--http-addr", "127.0.0.1:1",
			"--http-tls", "yes", "--tls-cert-file", "x", "--tls-key-file", file,
			"--tls-auth-clients", "no"}, want: "keyp: cannot serve TLS: tls-cert-file: open "},
		{name: "health of nothing", args: []string{"health", "127.0.0.1:1"},
			want: "keyp: not ready: "},
		{name: "health of what is no address", args: []string{"health", "ftp://x"},
			want: `keyp: "ftp://x" is not an address with a port`},
		{name: "check without a directory", args: []string{"check"},
			want: "keyp: usage: keyp check DIR"},
		{name: "check of nothing", args: []string{"check", file + "x"}, want: "keyp: stat " + file +
			"x: no such file or directory"},
		{name: "check while it is held", args: []string{"check", running.Dir()},
			want: "keyp: " + running.Dir() + " cannot be checked: storage: another process"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := runKeyp(t, tt.stdin, tt.env, tt.args...)
			if status != 1 || out != "" {
				t.Errorf("status %d, printed %q", status, out)
			}
			if strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, tt.want) {
				t.Errorf("said %q, want one line that begins with %q", errs, tt.want)
			}
		})
	}
}

// process is a keyp server with a port of its own. Unlike the servers of testkit, it may end at any
// time and may take a configuration file before its flags.
type process struct {
	*exec.Cmd
	port  string
	ended chan error
}

// startKeyp runs keyp in dir on a free port, with args before the other options, and waits until it
// answers. If it still runs when the test ends, it is killed.
func startKeyp(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	var said bytes.Buffer
	return startLogging(t, &said, dir, args...)
}

// startProcess starts keyp and does not wait until it answers.
func startProcess(t *testing.T, log io.Writer, dir string, args ...string) *process {
	t.Helper()
	p := &process{port: freePort(t), ended: make(chan error, 1)}
	p.Cmd = exec.Command(testkit.Binary(t), append(args, "--port", p.port, "--dir", dir)...)
	p.Env = append(testkit.Environ(), "KEYP_MAXCLIENTS=50")
	p.Stderr = log
	if err := childproc.Start(p.Cmd); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() { _ = p.Process.Kill() }) // says only that it has ended already
	return p
}

// startLogging is like startKeyp, but writes the server's output to log.
func startLogging(t *testing.T, log io.Writer, dir string, args ...string) *process {
	t.Helper()
	p := startProcess(t, log, dir, args...)
	c := p.client(t)
	await.Until(t, "keyp answers", func() bool {
		select {
		case err := <-p.ended:
			t.Fatalf("keyp ended: %v, it said %v", err, log)
		default:
		}
		// go-redis would complain while nobody listens.
		listener, err := await.Dial("tcp", c.Options().Addr)
		if err != nil {
			return false
		}
		listener.Close()
		return c.Ping(context.Background()).Err() == nil
	})
	return p
}

// client returns a patient client. It does not retry commands or connections, because it would
// pause between two attempts.
func (p *process) client(t *testing.T) *redis.Client {
	return testkit.NewClient(t, &redis.Options{Addr: "127.0.0.1:" + p.port})
}

// status waits until the server ends, and returns its exit status.
func (p *process) status(t *testing.T) int {
	t.Helper()
	await.For(t, "keyp ends", p.ended)
	return p.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// freePort returns a port that the kernel gives to no outgoing connection, so it is still free a
// moment later.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(testkit.FreePort(t))
}

// TestLife follows a server through its life. A file, the environment and flags configure it. It
// reports that it is ready, obeys CONFIG SET and CONFIG REWRITE, and stops at SIGTERM. After a
// restart it has everything again.
func TestLife(t *testing.T) {
	dir := t.TempDir()
	file, pid, log, data := filepath.Join(dir, "keyp.conf"), filepath.Join(dir, "pid"),
		filepath.Join(dir, "log"), filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("# mine\ntimeout 100\nactiverehashing no\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := startKeyp(t, data, file, "--pidfile", pid, "--logfile", log)
	ctx, c := context.Background(), p.client(t)
	for _, cmd := range []redis.Cmder{
		c.Set(ctx, "k", "v", time.Hour), c.Set(ctx, "forever", "v", 0),
		c.ConfigSet(ctx, "timeout", "200"), c.ConfigRewrite(ctx),
	} {
		if cmd.Err() != nil {
			t.Fatal(cmd)
		}
	}
	if got := c.ConfigGet(ctx, "maxclients").Val()["maxclients"]; got != "50" {
		t.Errorf("maxclients is %q", got)
	}
	if text, err := os.ReadFile(pid); err != nil ||
		strings.TrimSpace(string(text)) != strconv.Itoa(p.Process.Pid) {
		t.Errorf("pidfile: %q, %v", text, err)
	}
	if text, err := os.ReadFile(file); err != nil ||
		!strings.HasPrefix(string(text), "# mine\ntimeout 200\n") {
		t.Errorf("the rewritten file: %q, %v", text, err)
	}
	first := p.port
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 0 {
		t.Errorf("SIGTERM: status %d", status)
	}
	if _, err := os.Stat(pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pidfile is still there: %v", err)
	}
	status, out, errs := runKeyp(t, "", nil, "check", data)
	if want := data + " is sound: 2 keys, 1 with a deadline"; status != 0 ||
		!strings.HasPrefix(out, want) {
		t.Errorf("check: status %d, %q, %q", status, out, errs)
	}
	p = startKeyp(t, data, file)
	c = p.client(t)
	if ttl := c.TTL(ctx, "k").Val(); ttl < 50*time.Minute || ttl > time.Hour {
		t.Errorf("after the restart k lives for %v", ttl)
	}
	if got := c.ConfigGet(ctx, "timeout").Val()["timeout"]; got != "200" {
		t.Errorf("timeout is %q", got)
	}
	said, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"msg=ready version=" + config.Version + " listen=127.0.0.1:" + first, "msg=ready version=" +
			config.Version + " listen=127.0.0.1:" + p.port,
		"keys=0 deadlines=0", "keys=2 deadlines=1", "msg=stopping", "msg=stopped",
		"options without effect, since they only tune Redis's own machinery: activerehashing",
	} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the log does not say %q:\n%s", want, said)
		}
	}
	if n := strings.Count(string(said),
		`msg="a new data directory was made: there was no data" dir=`+data+"\n"); n != 1 {
		t.Errorf("the log says %d times that %s is new:\n%s", n, data, said)
	}
}

// TestShutdownCommand: SHUTDOWN ends the server with status 0. The data is there after a restart.
func TestShutdownCommand(t *testing.T) {
	data := t.TempDir()
	ctx := context.Background()
	for i, how := range []string{"SAVE", "NOSAVE", "NOW"} {
		p := startKeyp(t, data)
		c := p.client(t)
		if n := c.DBSize(ctx).Val(); n != int64(i) {
			t.Errorf("before SHUTDOWN %s there are %d keys, want %d", how, n, i)
		}
		if err := c.Set(ctx, how, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		var refused redis.Error
		if err := c.Do(ctx, "SHUTDOWN", how).Err(); errors.As(err, &refused) {
			t.Errorf("SHUTDOWN %s: %v", how, err)
		}
		if status := p.status(t); status != 0 {
			t.Errorf("SHUTDOWN %s: status %d", how, status)
		}
	}
}

// TestLogReaderGone: a server continues to serve when nobody reads its log any more and its
// terminal is gone.
func TestLogReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startLogging(t, w, t.TempDir())
	if err := errors.Join(w.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	c := p.client(t)
	for range 3 { // each is logged
		if err := c.Do(context.Background(), "DEBUG", "PANIC").Err(); err == nil ||
			err.Error() != "ERR internal error" {
			t.Fatalf("DEBUG PANIC: %v", err)
		}
	}
	p.signal(t, syscall.SIGHUP)
	if err := c.Set(context.Background(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestSecondSignal: a second signal ends a server that is still stopping, with status 1.
func TestSecondSignal(t *testing.T) {
	p := startKeyp(t, t.TempDir())
	conn, err := await.Dial("tcp", "127.0.0.1:"+p.port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A long command delays the clean stop. Both commands are in one packet, so the second one runs
	// before the reply to the first one arrives.
	if _, err := conn.Write([]byte("PING\r\nDEBUG SLEEP 600\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n"))); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGINT)
	await.Until(t, "keyp stops listening", func() bool {
		probe, err := await.Dial("tcp", "127.0.0.1:"+p.port)
		if err == nil {
			probe.Close()
		}
		return err != nil
	})
	p.signal(t, syscall.SIGTERM)
	if status := p.status(t); status != 1 {
		t.Errorf("status %d", status)
	}
}

// TestFirstStart: a server whose port is taken creates no directory. A server that starts in a
// directory of Redis reports that it does not read Redis's files.
func TestFirstStart(t *testing.T) {
	running := testkit.Keyp(t)
	dir := filepath.Join(t.TempDir(), "data")
	status, _, errs := runKeyp(t, "", nil, "--port", running.Port(), "--dir", dir)
	if _, err := os.Stat(dir); status != 1 || !strings.Contains(errs, "cannot listen on 127.0.0.1:"+
		running.Port()) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("status %d, %s; the directory: %v", status, errs, err)
	}
	if status, _, errs := runKeyp(t, "", nil, "--dir", ""); status != 1 ||
		errs != "keyp: dir is empty: it names the directory of the data, such as ./keyp-data\n" {
		t.Errorf("an empty dir: status %d, %q", status, errs)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("s", 120))
	if status, _, errs := runKeyp(t, "", nil, "--port", "0", "--dir", dir, "--unixsocket",
		long); status != 1 || !strings.Contains(errs, "unixsocket: the path has ") {
		t.Errorf("a long path: status %d, %q", status, errs)
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "dump.rdb"), nil,
		0o600)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"keyp import " + filepath.Join(dir, "dump.rdb") + " --dir NEWDIR",
		""} {
		s := testkit.NewKeyp(t, testkit.Options{Dir: dir})
		s.Start()
		if got := strings.Contains(s.Log(), "keyp import"); got != (want != "") ||
			!strings.Contains(s.Log(), want) {
			t.Errorf("start %d: %s", i, s.Log())
		}
		s.Stop()
	}
}

// TestUsualHTTP: without an http-addr, the server uses one of the default ports for the dashboard,
// and names it in the ready line. If other programs use all of these ports, the dashboard is off.
func TestUsualHTTP(t *testing.T) {
	s := testkit.NewKeyp(t, testkit.Options{Under: []string{"env", "-u", "KEYP_HTTP_ADDR"}})
	s.Start()
	ready := regexp.MustCompile(`msg=ready .* http=(off|http://127\.0\.0\.1:83[78]\d/) `)
	var found []string
	await.Until(t, "the ready line", func() bool { // clients are served just before it
		found = ready.FindStringSubmatch(s.Log())
		return found != nil
	})
	if found[1] == "off" {
		if !strings.Contains(s.Log(), "HTTP is not served, since its usual ports are taken") {
			t.Error(s.Log())
		}
		return
	}
	reply, err := http.Get(found[1] + "healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || string(text) != "alive\n" {
		t.Errorf("%s, %v", text, err)
	}
}

// TestSubcommandsAreNamed: --help names all subcommands and no others.
func TestSubcommandsAreNamed(t *testing.T) {
	var named, have []string
	for _, u := range config.Uses {
		if u.Name != "" {
			named = append(named, u.Name)
		}
	}
	for _, s := range subcommands {
		have = append(have, s.name)
	}
	if !slices.Equal(named, have) {
		t.Errorf("--help names %q, there are %q", named, have)
	}
	for _, name := range have {
		for _, flag := range []string{"--help", "-h"} {
			if status, out, errs := runKeyp(t, "", nil, name, flag); status != 0 || errs != "" ||
				!strings.HasPrefix(out, "usage: keyp "+name) ||
				!strings.Contains(out, "\nexit status: 0") {
				t.Errorf("keyp %s %s: status %d, %q, %q", name, flag, status, out, errs)
			}
		}
	}
	if status, out, errs := runKeyp(t, "", nil, "completion", "bash"); status != 0 || errs != "" ||
		!strings.Contains(out, "complete -F _keyp keyp") {
		t.Errorf("completion bash: status %d, %q, %q", status, out, errs)
	}
	if status, _, errs := runKeyp(t, "", nil, "completion", "tcsh"); status != 1 ||
		errs != "keyp: usage: keyp completion bash | zsh | fish\n" {
		t.Errorf("completion tcsh: status %d, %q", status, errs)
	}
}
