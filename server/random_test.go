package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// crowd runs random clients. They track, monitor, subscribe and block, change keys that others
// track, and may or may not read their replies. They also change the limits, which are small.
type crowd struct {
	ts   *testServer
	mset string
	mget string
}

// TestRandomClients: whatever a crowd of clients does, the server keeps answering. When the clients
// are gone, nothing of them is left. KEYP_RANDOM_SEED sets the seed of the random choices.
func TestRandomClients(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("KEYP_RANDOM_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	ts := start(t)
	probe := ts.dial() // has id 1, which nobody names
	for _, line := range []string{"CLIENT NO-EVICT ON", "CONFIG SET notify-keyspace-events KEA"} {
		if got := probe.do(line); got != "+OK" {
			t.Fatal(got)
		}
	}
	c := &crowd{ts: ts}
	names, pairs := []string{"MGET"}, []string{"MSET"}
	for i := range 1500 {
		name := fmt.Sprintf("a-key-of-24-bytes-%06d", i)
		names, pairs = append(names, name), append(pairs, name, "v")
	}
	c.mget, c.mset = multibulk(names...), multibulk(pairs...)
	var all sync.WaitGroup
	for i := range 6 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range 40 {
				c.visit(rng)
			}
		})
	}
	gone := make(chan struct{})
	go func() {
		all.Wait()
		close(gone)
	}()
	for here := true; here; {
		if got := probe.do("PING"); got != "+PONG" {
			t.Fatalf("KEYP_RANDOM_SEED=%d: PING gets %q", seed, got)
		}
		select {
		case <-gone:
			here = false
		default:
		}
	}
	await.Until(t, "the clients are gone", func() (gone bool) {
		ts.onLoop(func(l *loop) {
			gone = l.count == 1 && l.tasks.global == nil && l.tasks.count == 0
		})
		return gone
	})
	info := probe.do("INFO clients")
	for _, none := range []string{"blocked_clients:0", "tracking_clients:0", "pubsub_clients:0",
		"total_blocking_keys:0", "total_blocking_keys_on_nokey:0"} {
		if !strings.Contains(info, none+"\r\n") {
			t.Errorf("KEYP_RANDOM_SEED=%d: not %s:\n%s", seed, none, info)
		}
	}
	ts.onLoop(func(l *loop) {
		if len(l.kept) > 0 || len(l.env.Clients) != 1 || l.memory.total > 1<<20 {
			t.Errorf("KEYP_RANDOM_SEED=%d: %d with kept messages, %d clients, %d bytes are left",
				seed, len(l.kept), len(l.env.Clients), l.memory.total)
		}
	})
	if n := ts.env.Stats.Panics.Load(); n > 0 {
		t.Errorf("KEYP_RANDOM_SEED=%d: %d panics", seed, n)
	}
}

// visit runs one connection from its beginning to its end.
func (c *crowd) visit(rng *rand.Rand) {
	conn, err := await.Dial("tcp", c.ts.Addrs()[0])
	if err != nil {
		return // there are too many at present
	}
	defer conn.Close()
	reads := rng.IntN(2) == 0
	var lines strings.Builder
	lines.WriteString("HELLO " + strconv.Itoa(2+rng.IntN(2)) + "\r\n" + c.mode(rng))
	for range 1 + rng.IntN(6) {
		lines.WriteString(c.act(rng))
		if rng.IntN(3) > 0 {
			continue
		}
		if _, err := conn.Write([]byte(lines.String())); err != nil {
			return // it was closed: limits and CLIENT KILL do that
		}
		lines.Reset()
		for room := make([]byte, 32<<10); reads; {
			if conn.Listen(time.Millisecond) != nil {
				return
			}
			if _, err := conn.Read(room); err != nil {
				break
			}
		}
	}
	_, _ = conn.Write([]byte(lines.String()))
}

// someone returns an id that a client may have, or may have had.
func someone(rng *rand.Rand) string { return strconv.Itoa(2 + rng.IntN(250)) }

// mode returns a command that sets up a client for some use.
func (c *crowd) mode(rng *rand.Rand) string {
	modes := []string{
		"CLIENT TRACKING ON", "CLIENT TRACKING ON NOLOOP", "CLIENT TRACKING ON BCAST",
		"CLIENT TRACKING ON BCAST PREFIX a- PREFIX l",
		"CLIENT TRACKING ON OPTIN\r\nCLIENT CACHING YES",
		"CLIENT TRACKING ON OPTOUT", "CLIENT TRACKING ON REDIRECT " + someone(rng),
		"CLIENT TRACKING ON BCAST REDIRECT " + someone(rng), "SUBSCRIBE __redis__:invalidate ch",
		"PSUBSCRIBE *",
		"SSUBSCRIBE ch", "MONITOR", "BLPOP l 0", "BZPOPMIN z 0.01", "BLMOVE l m LEFT RIGHT 0",
		"CLIENT REPLY OFF", "PING",
	}
	return modes[rng.IntN(len(modes))] + "\r\n"
}

// act returns a random command of a client.
func (c *crowd) act(rng *rand.Rand) string {
	switch rng.IntN(4) {
	case 0:
		return c.mset
	case 1:
		return c.mget
	}
	big := strings.Repeat("x", 1000*rng.IntN(20))
	acts := []string{
		"PUBLISH ch " + big, "SPUBLISH ch " + big, "LPUSH l 1 2 3", "ZADD z 1 a", "RPUSH m " + big,
		"FLUSHALL", "SWAPDB 0 1", "CLIENT LIST", "INFO", "RESET",
		"MULTI\r\nKEYS l*\r\nPUBLISH ch " + big + "\r\nLPUSH l 1\r\nEXEC",
		"WATCH l\r\nMULTI\r\nLPUSH l 1\r\nEXEC", "MULTI\r\nCLIENT LIST\r\nCLIENT KILL ID " +
			someone(rng) + "\r\nKEYS z*\r\nEXEC",
		`EVAL "for i = 1, 20 do redis.call('publish', 'ch', ARGV[1]) end" 0 ` + big,
		`EVAL "for i = 1, 1500 do redis.call('set', string.format('a-key-of-24-bytes-%06d', i), 'v', 'px', 1) end" 0`,
		"CLIENT KILL ID " + someone(rng), "CLIENT KILL TYPE pubsub",
		"CLIENT UNBLOCK " + someone(rng) + " ERROR", "CLIENT PAUSE 3 WRITE", "CLIENT NO-EVICT ON",
		"CLIENT REPLY SKIP", "DEBUG SLEEP 0.005",
		"CONFIG SET maxmemory-clients 300000", "CONFIG SET maxmemory-clients 0",
		`CONFIG SET client-output-buffer-limit "normal 30000 10000 1 pubsub 20000 8000 1"`,
		`CONFIG SET client-output-buffer-limit "normal 0 0 0 pubsub 0 0 0"`,
		"CONFIG SET tracking-table-max-keys 100", "CONFIG SET tracking-table-max-keys 100000",
		"UNSUBSCRIBE", "CLIENT TRACKING OFF", "QUIT",
	}
	return acts[rng.IntN(len(acts))] + "\r\n"
}
