package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/redcon"
	"pgregory.net/rapid"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

// These tests compare with a real redis-server, which listens on a Unix socket only.

// startRedis runs a redis-server for the test and returns its socket.
func startRedis(t *testing.T, args ...string) string {
	t.Helper()
	program := testkit.Program(t, "redis-server")
	dir, err := os.MkdirTemp("", "resp") // t.TempDir can be too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(program, append([]string{"--port", "0", "--unixsocket", socket,
		"--dir", dir, "--save", "", "--appendonly", "no"}, args...)...)
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // its error is that the process was killed
	})
	await.Until(t, "redis-server listens", func() bool {
		conn, err := await.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return socket
}

// ask sends input, closes that direction and returns everything that Redis answers.
func ask(t interface{ Fatal(...any) }, socket, input string) string {
	conn, err := await.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// After a protocol error Redis closes the connection without reading the rest, so writing
	// a long input fails. Its answer can still be read.
	if _, err := io.WriteString(conn, input); err != nil && !errors.Is(err, syscall.EPIPE) &&
		!errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	_ = conn.CloseWrite() // fails when Redis has closed already
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return string(answer)
}

// answer returns the replies of Redis to the commands that a Reader has parsed. The only known
// command is PING.
func answer(p parsed) string {
	var w Writer
	for _, c := range p.commands {
		switch {
		case !strings.EqualFold(c[0], "PING"):
			w.Error(unknown(c))
		case len(c) == 1:
			w.Simple("PONG")
		case len(c) == 2:
			w.BulkString(c[1])
		default:
			w.Error("ERR wrong number of arguments for 'ping' command")
		}
	}
	if p.err != "" {
		w.Error("ERR " + (&ProtocolError{Text: p.err}).Error())
	}
	return string(w.Buf)
}

// unknown is Redis's text for an unknown command, with 128 bytes of its arguments.
func unknown(c []string) string {
	var args string
	for _, a := range c[1:] {
		if len(args) >= 128 {
			break
		}
		args += "'" + a[:min(len(a), 128-len(args))] + "' "
	}
	return fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: %s", c[0], args)
}

func TestRedisProtocolCases(t *testing.T) {
	socket := startRedis(t)
	for _, tt := range protocolCases {
		if tt.here != "" {
			continue
		}
		want := answer(parsed{tt.commands, tt.err})
		if got := ask(t, socket, tt.input); got != want {
			t.Errorf("%s: Redis says %.200q, we %.200q", brief(tt.input), got, want)
		}
	}
}

func TestRedisUnauthenticated(t *testing.T) {
	socket := startRedis(t, "--requirepass", "secret")
	for _, tt := range unauthenticatedCases {
		var w Writer
		for range tt.commands {
			w.Error("NOAUTH Authentication required.")
		}
		if tt.err != "" {
			w.Error("ERR Protocol error: " + tt.err)
		}
		if got := ask(t, socket, tt.input); got != string(w.Buf) {
			t.Errorf("%s: Redis says %.200q, we %.200q", brief(tt.input), got, w.Buf)
		}
	}
}

// fragments are parts of the protocol, right and wrong. They contain no NUL, at which Redis stops.
var fragments = []string{
	"*1\r\n", "*2\r\n", "*3\r\n", "*0\r\n", "*-1\r\n", "*1\n", "*", "$4\r\nPING\r\n",
	"$4\r\nPING\r\n",
	"$0\r\n\r\n", "$3\r\na\r\n\r\n", "$1\r\nxyz", "$1\r", "$", "$-1\r\n", "\r\n", "\n", "\r",
	"PING ", "ping\r\n",
	"'a b' ", "\"\\x41\\n\"", "\"", "'", "\\", " ", "\t", "\v", "x", "1", "0", "é", ping, ping,
	multibulk("PING", "a"),
}

// TestRedisSameAnswers: Redis and Reader find the same commands and the same error in any mixture
// of fragments.
func TestRedisSameAnswers(t *testing.T) {
	socket := startRedis(t)
	rapid.Check(t, func(t *rapid.T) {
		input := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 1, 20).Draw(t, "input"),
			"")
		p := feed(new(Reader), nil, input, bytewise)
		if got, want := ask(t, socket, input), answer(p); got != want {
			t.Fatalf("%q: Redis says %q, we %q", input, got, want)
		}
	})
}

// redisConn asks one command after another.
type redisConn struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(t *testing.T, socket string) *redisConn {
	conn, err := await.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &redisConn{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// do returns the text of a status, an error or a bulk string.
func (c *redisConn) do(args ...string) string {
	if _, err := io.WriteString(c.conn, multibulk(args...)); err != nil {
		c.t.Fatal(err)
	}
	var raw []byte
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		raw = append(raw, line...)
		if n, reply := redcon.ReadNextRESP(raw); n > 0 {
			return reply.String()
		}
	}
}

// floats generates texts that are, or nearly are, floating point numbers.
var floats = rapid.OneOf(
	rapid.Map(rapid.Float64(), func(f float64) string {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}),
	rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) string {
		return strconv.FormatFloat(f, 'f', 5, 64)
	}),
	rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
	rapid.StringMatching(`[-+]?[0-9]{0,25}(\.[0-9]{0,25})?([eE][-+]?[0-9]{1,4})?`),
	rapid.StringMatching(`[-+]?0[xX][0-9a-fA-F]{0,20}(\.[0-9a-fA-F]{0,20})?([pP][-+]?[0-9]{1,5})?`),
	rapid.StringMatching(`[-+ ]?(inf|INFINITY|nan|0x|[0-9a-fx.]{0,6})[ ]?`),
)

// TestRedisLongDouble: INCRBYFLOAT returns the same texts as LongDouble and has the same limits, on
// machines with 80-bit long doubles.
func TestRedisLongDouble(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the C compiler's long double is another type here")
	}
	c := dialRedis(t, startRedis(t))
	ours := func(a, b string) string {
		x, ok1 := ParseLongDouble([]byte(a))
		y, ok2 := ParseLongDouble([]byte(b))
		if !ok1 || !ok2 {
			return "ERR value is not a valid float"
		}
		sum, ok := x.Add(y)
		if !ok {
			return "ERR increment would produce NaN or Infinity"
		}
		return sum.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := floats.Draw(t, "a"), floats.Draw(t, "b")
		c.do("SET", "k", a)
		if got, want := c.do("INCRBYFLOAT", "k", b), ours(a, b); got != want {
			t.Fatalf("%q + %q: Redis %s, we %s", a, b, got, want)
		}
	})
}

// TestRedisDoubleValue: Redis 7.0 writes scores with other digits than AppendDouble, but for the
// same number.
func TestRedisDoubleValue(t *testing.T) {
	c := dialRedis(t, startRedis(t))
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		if math.IsNaN(f) {
			t.Skip("not a score")
		}
		c.do("ZADD", "z", string(AppendDouble(nil, f)), "m")
		text := c.do("ZSCORE", "z", "m")
		if back, err := strconv.ParseFloat(text, 64); err != nil || back != f {
			t.Fatalf("%s was stored as %s (%v)", string(AppendDouble(nil, f)), text, err)
		}
	})
}
