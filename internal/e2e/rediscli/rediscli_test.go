package rediscli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// cli runs redis-cli against servers.
type cli struct {
	t    *testing.T
	path string
	port string
}

func newCLI(t *testing.T, server *testkit.Server) cli {
	t.Helper()
	return cli{t, testkit.Program(t, "redis-cli"), server.Port()}
}

// run returns what redis-cli prints with these arguments and this input. If redis-cli fails, the
// test fails.
func (c cli) run(input io.Reader, args ...string) string {
	c.t.Helper()
	output, err := c.try(input, args...)
	if err != nil {
		c.t.Fatalf("redis-cli %q: %v\n%s", args, err, output)
	}
	return output
}

func (c cli) try(input io.Reader, args ...string) (output string, err error) {
	c.t.Helper()
	cmd := exec.CommandContext(await.Context(c.t), c.path,
		append([]string{"-p", c.port}, args...)...)
	cmd.Stdin = input
	both, err := cmd.CombinedOutput()
	return string(both), err
}

// both runs a test on Keyp, and on redis-server to check the test itself.
func both(t *testing.T, test func(t *testing.T, s *testkit.Server)) {
	t.Run("keyp", func(t *testing.T) {
		t.Parallel()
		test(t, testkit.Keyp(t, "--wal-segment-size", "4mb"))
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		test(t, testkit.Redis(t))
	})
}

// TestCommands passes commands as arguments, with the output formats of redis-cli.
func TestCommands(t *testing.T) {
	tests := []struct {
		args   string
		input  string
		output string
	}{
		{"SET greeting hello", "", "OK\n"},
		{"GET greeting", "", "hello\n"},
		{"--no-raw GET greeting", "", "\"hello\"\n"},
		{"--no-raw GET missing", "", "(nil)\n"},
		{"--no-raw -3 GET missing", "", "(nil)\n"},
		{"--no-raw STRLEN greeting", "", "(integer) 5\n"},
		{"--no-raw MGET greeting missing", "", "1) \"hello\"\n2) (nil)\n"},
		{"--csv MGET greeting greeting", "", "\"hello\",\"hello\"\n"},
		{"-3 --json MGET greeting missing", "", "[\"hello\",null]\n"},
		{"--no-raw GETDEL", "", "(error) ERR wrong number of arguments for 'getdel' command\n"},
		{"-n 3 SET other 1", "", "OK\n"},
		{"-n 3 DBSIZE", "", "1\n"},
		{"DBSIZE", "", "1\n"},
		{"-x SET stdin", "from\x00standard\ninput", "OK\n"},
		{"--no-raw GET stdin", "", "\"from\\x00standard\\ninput\"\n"},
		{"-r 3 INCR n", "", "1\n2\n3\n"},
		{"--quoted-input SET \"q\\x01\" \"\\xff\"", "", "OK\n"},
		{"--quoted-input --no-raw GET \"q\\x01\"", "", "\"\\xff\"\n"},
		{"SET ttl 1 EX 100", "", "OK\n"},
		{"EXPIRETIME greeting", "", "-1\n"},
		{"-3 --no-raw HELLO 4", "", "(error) NOPROTO unsupported protocol version\n"},
		{"ECHO a", "", "a\n"},
	}
	both(t, func(t *testing.T, s *testkit.Server) {
		c := newCLI(t, s)
		for _, tt := range tests {
			if got := c.run(strings.NewReader(tt.input),
				strings.Fields(tt.args)...); got != tt.output {
				t.Errorf("redis-cli %s: %q, want %q", tt.args, got, tt.output)
			}
		}
	})
}

// TestSession passes lines on standard input, as in a session.
func TestSession(t *testing.T) {
	const session = `PING
SET a 1
INCR a
set "two words" 'x y'
GET "two words"
SELECT 2
GET a
SET a deux EX 1000
TTL a
MOVE a 0
MOVE a 5
SELECT 99
NOSUCH command
GET
INCR
`
	const want = `PONG
OK
2
OK
x y
OK

OK
1000
0
1
ERR DB index is out of range

ERR unknown command 'NOSUCH', with args beginning with: 'command' 

ERR wrong number of arguments for 'get' command

ERR wrong number of arguments for 'incr' command

`
	both(t, func(t *testing.T, s *testkit.Server) {
		for _, proto := range []string{"-2", "-3"} {
			c := newCLI(t, s)
			got := c.run(strings.NewReader(session), proto)
			if got != want {
				t.Errorf("%s: redis-cli printed\n%s, want\n%s", proto, got, want)
			}
			c.run(nil, "FLUSHALL")
		}
	})
}

// TestExitStatus: with -e, redis-cli's exit status shows an error.
func TestExitStatus(t *testing.T) {
	both(t, func(t *testing.T, s *testkit.Server) {
		c := newCLI(t, s)
		for args, want := range map[string]bool{"-e PING": true, "-e GET": false,
			"-e INCR a": true} {
			output, err := c.try(nil, strings.Fields(args)...)
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || (err == nil) != want {
				t.Errorf("redis-cli %s: %v\n%s", args, err, output)
			}
		}
	})
}

// TestPassword uses -a and AUTH.
func TestPassword(t *testing.T) {
	s := testkit.Keyp(t, "--requirepass", "secret", "--wal-segment-size", "1mb")
	c := newCLI(t, s)
	for _, tt := range []struct{ args, input, output string }{
		{"GET a", "", "NOAUTH Authentication required.\n\n"},
		{"-a secret --no-auth-warning SET a 1", "", "OK\n"},
		{"-3 -a secret --no-auth-warning GET a", "", "1\n"},
		{"--user default --pass secret --no-auth-warning GET a", "", "1\n"},
		{"", "AUTH wrong\nAUTH secret\nGET a\n",
			"WRONGPASS invalid username-password pair or user is disabled.\n\nOK\n1\n"},
	} {
		if got := c.run(strings.NewReader(tt.input), strings.Fields(tt.args)...); got != tt.output {
			t.Errorf("redis-cli %s: %q, want %q", tt.args, got, tt.output)
		}
	}
}

// TestPipe tests mass insertion: 100,000 commands as one stream.
func TestPipe(t *testing.T) {
	const keys = 100_000
	var stream bytes.Buffer
	for i := range keys {
		key := fmt.Sprintf("key:%d", i)
		fmt.Fprintf(&stream, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$8\r\n%08d\r\n", len(key), key, i)
	}
	s := testkit.Keyp(t)
	c := newCLI(t, s)
	if output := c.run(&stream, "--pipe"); !strings.Contains(output, "errors: 0, replies: 100000") {
		t.Fatalf("redis-cli --pipe printed:\n%s", output)
	}
	check := func() {
		t.Helper()
		if got := c.run(nil, "DBSIZE"); got != "100000\n" {
			t.Errorf("DBSIZE is %s", got)
		}
		for _, i := range []int{0, 1, 4711, keys - 1} {
			if got, want := c.run(nil, "GET", fmt.Sprint("key:", i)),
				fmt.Sprintf("%08d\n", i); got != want {
				t.Errorf("key:%d is %q, want %q", i, got, want)
			}
		}
	}
	check()
	s.Kill()
	s.Start()
	check()

	// redis-cli counts errors among the commands and goes on.
	stream.Reset()
	for i := range 1000 {
		fmt.Fprintf(&stream, "SET k%d v\r\nGET\r\n", i)
	}
	output, err := c.try(&stream, "--pipe")
	if err == nil || !strings.Contains(output, "errors: 1000, replies: 2000") {
		t.Errorf("redis-cli --pipe: %v, printed:\n%s", err, output[max(0, len(output)-300):])
	}
	s.Stop()
}

// TestKeyspaceTools runs the options of redis-cli that walk the keyspace.
func TestKeyspaceTools(t *testing.T) {
	both(t, func(t *testing.T, s *testkit.Server) {
		c := newCLI(t, s)
		var lines strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&lines, "SET user:%d:name %d\nSET session:%d %d EX 1000\n", i, i, i, i)
		}
		lines.WriteString("SET user:big " + strings.Repeat("x", 7000) +
			"\nSELECT 1\nSET elsewhere 1\n")
		c.run(strings.NewReader(lines.String()), "--pipe")

		for pattern, want := range map[string]int{"user:*": 3001, "session:1??": 100, "*": 6001,
			"elsewhere": 0, "session:[5-6]": 2} {
			keys := strings.Fields(c.run(nil, "--scan", "--pattern", pattern))
			slices.Sort(keys)
			if got := len(slices.Compact(keys)); got != want {
				t.Errorf("--scan --pattern %s finds %d keys, want %d", pattern, got, want)
			}
		}
		if keys := c.run(nil, "-n", "1", "--scan"); keys != "elsewhere\n" {
			t.Errorf("-n 1 --scan finds %q", keys)
		}
		for _, tt := range []struct{ tool, want string }{
			{"--bigkeys", `Biggest string found '?"user:big"'? has 7000 bytes`},
			{"--bigkeys", `6001 strings with \d+ bytes \(100\.00% of keys`},
			{"--memkeys", `Biggest string found '?"user:big"'? has [78]\d\d\d bytes`},
			{"--memkeys", `Sampled 6001 keys in the keyspace!`},
		} {
			if output := c.run(nil, tt.tool); !regexp.MustCompile(tt.want).MatchString(output) {
				t.Errorf("redis-cli %s printed no %q:\n%s", tt.tool, tt.want, output)
			}
		}
	})
}

// TestWatchingTools runs the options of redis-cli that watch the server.
func TestWatchingTools(t *testing.T) {
	both(t, func(t *testing.T, s *testkit.Server) {
		c := newCLI(t, s)
		c.run(strings.NewReader("SET a 1\nSET b 2 EX 1000\n"))
		if output := c.run(nil, "--latency", "--raw", "-i",
			"0.2"); !regexp.MustCompile(`^[\d.]+ [\d.]+ [\d.]+ [1-9]\d*\n$`).MatchString(output) {
			t.Errorf("--latency printed %q", output)
		}
		if output := c.run(nil, "INFO", "keyspace"); !regexp.MustCompile(
			`\ndb0:keys=2,expires=1,avg_ttl=\d+`).MatchString(output) {
			t.Errorf("INFO keyspace printed %q", output)
		}
		for _, field := range []string{"redis_version:", "process_id:", "used_memory:",
			"total_commands_processed:", "role:master"} {
			if output := c.run(nil, "INFO"); !strings.Contains(output, "\n"+field) {
				t.Errorf("INFO has no %s", field)
			}
		}
		if output := c.run(nil, "CLIENT", "LIST"); !regexp.MustCompile(
			`(?m)^id=\d+ addr=127\.0\.0\.1:\d+ .*cmd=client\|list`).MatchString(output) {
			t.Errorf("CLIENT LIST printed %q", output)
		}
		if output := c.run(nil, "CONFIG", "GET", "maxclients"); !regexp.MustCompile(
			`^maxclients\n\d+\n$`).MatchString(output) {
			t.Errorf("CONFIG GET printed %q", output)
		}
		stat(t, c)
	})
}

// stat reads some lines of --stat, which runs until it is stopped.
func stat(t *testing.T, c cli) {
	t.Helper()
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, "-p", c.port, "--stat", "-i", "0.02")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^2 +[\d.]+[BKMG] +\d+ +0 +\d+ \(\+\d+\) +\d+ *$`)
	var printed []byte
	buf := make([]byte, 4096)
	for len(line.FindAll(printed, 3)) < 3 {
		n, err := out.Read(buf)
		printed = append(printed, buf[:n]...)
		if err != nil {
			t.Errorf("--stat ended (%v) after:\n%s", err, printed)
			break
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
}
