package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestEverythingAtOnce: many clients send any commands, with sensible and senseless arguments,
// singly, in transactions and in scripts. Meanwhile others subscribe, monitor, track and
// disconnect. Every command gets its reply, and no handler fails internally. Nothing is left of
// clients that are gone, and the data on disk is intact.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	s := testkit.Keyp(t, bulkFlag[0], bulkFlag[1], "--maxmemory", "2mb", "--wal-segment-size",
		"256kb", "--checkpoint-log-size", "1mb",
		"--notify-keyspace-events", "KEA", "--busy-reply-threshold", "200",
		"--slowlog-log-slower-than", "50000")
	calls := callsOf(t, s)
	commands := 500
	if testkit.Long() {
		commands = often(1500)
	}
	var clients, listeners sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		listeners.Go(func() { listen(t, s, rand.New(rand.NewPCG(seed, uint64(100+i))), stop) })
	}
	for i := range 12 {
		clients.Go(func() {
			c := &chaos{t: t, s: s, calls: calls,
				gen: &gen{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}}
			c.run(commands)
		})
	}
	clients.Wait()
	logSlowest(t, s)
	close(stop)
	listeners.Wait()
	nothingLeft(t, s)
	s.Stop()
	if output, err := exec.Command(testkit.Binary(t), "check",
		s.Dir()).CombinedOutput(); err != nil || !strings.Contains(string(output), "is sound") {
		t.Errorf("keyp check: %v\n%s", err, output)
	}
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "internal error") || strings.Contains(line,
			"the data file is damaged") || strings.Contains(line, "command failed") {
			t.Error(line)
		}
	}
}

// logSlowest logs the command that took longest.
func logSlowest(t *testing.T, s *testkit.Server) {
	t.Helper()
	c := s.Client(3)
	defer c.Close()
	list, err := c.SlowLogGet(ctx, -1).Result()
	if err != nil {
		t.Error(err)
	}
	if len(list) > 0 {
		slowest := slices.MaxFunc(list, func(a, b redis.SlowLog) int {
			return cmp.Compare(a.Duration, b.Duration)
		})
		t.Logf("%v for %.200q", slowest.Duration, slowest.Args)
	}
}

// call is a command of the server's table.
type call struct {
	words    []string // its names
	arity    int
	blocking bool
}

// never has the commands that a client of this test does not send. They stop the server, delay all
// others, shut clients out, or change the replies.
var never = []string{"shutdown", "debug", "client|pause", "client|reply", "config|set", "monitor",
	"auth", "hello", "quit",
	"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe",
	"sunsubscribe", "acl|setuser"}

func callsOf(t *testing.T, s *testkit.Server) (list []call) {
	t.Helper()
	var add func(info reply)
	add = func(info reply) {
		name := info.items[0].text
		container, _, _ := strings.Cut(name, "|")
		if slices.Contains(never, name) || slices.Contains(never, container) {
			return
		}
		if subs := info.items[9].items; len(subs) > 0 {
			for _, sub := range subs {
				add(sub)
			}
			return
		}
		arity, _ := info.items[1].number()
		list = append(list, call{strings.Split(name, "|"), int(arity),
			slices.Contains(info.items[2].texts(), "blocking")})
	}
	c, err := dialWire(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	table, err := c.do("COMMAND")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range table.items {
		add(info)
	}
	return list
}

// chaos is one client.
type chaos struct {
	t     *testing.T
	s     *testkit.Server
	calls []call
	*gen
	conn *wire
	sent []string // on this connection, the latest commands
}

func (c *chaos) run(n int) {
	defer func() {
		if c.conn != nil {
			c.conn.Close()
		}
	}()
	for range n {
		if c.conn == nil {
			conn, err := dialWire(c.s.Addr())
			if err != nil {
				c.t.Error(err)
				return
			}
			c.conn, c.sent = conn, nil
			c.ask("HELLO", c.from("2", "3"))
		}
		switch {
		case c.chance(15):
			c.transaction()
		case c.chance(10):
			c.ask(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, c.any()...)...)
		case c.chance(2):
			_ = c.conn.send(encode(c.any()...)) // and be gone before the reply
			c.drop()
		default:
			c.ask(c.any()...)
		}
		if c.t.Failed() {
			return
		}
	}
}

func (c *chaos) drop() {
	c.conn.Close()
	c.conn = nil
}

func (c *chaos) transaction() {
	if c.chance(30) {
		c.ask("WATCH", c.key())
	}
	c.ask("MULTI")
	for range c.IntN(6) {
		c.ask(c.any()...)
	}
	c.ask(c.from("EXEC", "EXEC", "EXEC", "DISCARD"))
}

// ask sends a command and waits for its reply. The server may have closed the connection, since
// other clients can make it do so.
func (c *chaos) ask(args ...string) {
	if c.conn == nil {
		return
	}
	c.sent = append(c.sent[max(0, len(c.sent)-20):], fmt.Sprintf("%.200q", args))
	err := c.conn.send(encode(args...))
	for err == nil {
		var r reply
		if r, err = c.conn.receive(); err == nil && r.kind != '>' {
			return // and not what was pushed before it
		}
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() || !errors.Is(err, io.EOF) && !isReset(err) {
		c.t.Errorf("%v, after\n\t%s\nCLIENT LIST has %s", err, strings.Join(c.sent, "\n\t"),
			c.described())
	}
	c.drop()
}

// described returns the server's description of the connection.
func (c *chaos) described() string {
	other, err := dialWire(c.s.Addr())
	if err != nil {
		return err.Error()
	}
	defer other.Close()
	list, err := other.do("CLIENT", "LIST")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(list.text) {
		if strings.Contains(line, " addr="+c.conn.LocalAddr().String()+" ") {
			return line
		}
	}
	return "nothing of it"
}

// any draws a command: one as in the differential run, or any command of the table with arguments
// of all kinds.
func (c *chaos) any() []string {
	if c.chance(50) {
		return step{args: c.command()}.resolve(c.IntN(100), time.Now(), 1)
	}
	call := c.calls[c.IntN(len(c.calls))]
	args := slices.Clone(call.words)
	want := call.arity
	if want < 0 {
		want = c.IntN(4) - want
	}
	for len(args) < want {
		args = append(args, c.argument())
	}
	if call.blocking && len(args) > 1 {
		at := len(args) - 1
		if strings.HasSuffix(call.words[0], "mpop") {
			at = 1
		}
		args[at] = "0.01"
		if strings.HasPrefix(call.words[0], "wait") {
			args[at] = "10"
		}
	}
	return args
}

func (c *chaos) argument() string {
	switch c.IntN(10) {
	case 0, 1, 2, 3:
		return c.key()
	case 4, 5:
		return c.from("0", "1", "2", "3", "-1", "10", "100")
	case 6:
		return c.value()
	case 7:
		return c.odd()
	case 8:
		return c.pattern()
	}
	return c.from("LEFT", "RIGHT", "COUNT", "STORE", "GET", "WITHSCORES", "EX", "PX", "NX", "XX",
		"BYSCORE", "REPLACE", "ON", "OFF", "YES",
		"MATCH", "TYPE", "ID", "ADDR", "FIELDS", "WEIGHTS", "LIMIT", "BEFORE", "(1", "[a",
		"+inf", "{", "\x00")
}

// listen connects, subscribes to something and disconnects, again and again.
func listen(t *testing.T, s *testkit.Server, rng *rand.Rand, stop <-chan struct{}) {
	ways := [][]string{
		{"SUBSCRIBE", "a", "__keyevent@0__:set"}, {"PSUBSCRIBE", "*", "__key*"},
		{"SSUBSCRIBE", "a", "b"}, {"MONITOR"},
		{"CLIENT", "TRACKING", "ON", "BCAST"}, {"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX",
			"a", "PREFIX", "k"},
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		c, err := dialWire(s.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		if err := c.send(encode("HELLO", "3") + encode(ways[rng.IntN(len(ways))]...)); err != nil &&
			!isReset(err) {
			t.Error(err)
		}
		if rng.IntN(5) > 0 { // the others never read
			_ = c.Listen(time.Duration(rng.IntN(100)) * time.Millisecond)
			_, _ = io.Copy(io.Discard, c.in) // until then, or until somebody ends the connection
		}
		c.Close()
	}
}

// nothingLeft waits until the server has forgotten all clients except the one that asks.
func nothingLeft(t *testing.T, s *testkit.Server) {
	t.Helper()
	c := s.Client(3)
	defer c.Close()
	want := map[string]string{"connected_clients": "1", "blocked_clients": "0",
		"total_blocking_keys": "0", "tracking_clients": "0",
		"pubsub_clients": "0", "watching_clients": "0", "pubsub_channels": "0",
		"pubsub_patterns": "0", "pubsubshard_channels": "0",
		"tracking_total_keys": "0", "tracking_total_prefixes": "0"}
	var rest []string
	if !await.Reached(func() bool {
		info, err := c.Info(ctx, "clients", "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		rest = nil
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if expected, known := want[name]; known && value != expected {
				rest = append(rest, fmt.Sprint(name, ":", value))
			}
		}
		return rest == nil
	}) {
		t.Errorf("after all clients have gone: %q", rest)
	}
}
