package restart

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestClockSteps steps the server's clock by hours in both directions, while the server runs and
// over restarts. After each step it checks keys and fields of hashes. A key that a reply or an
// event has shown as expired stays gone. A key whose deadline has not come is there. No deadline
// moves.
func TestClockSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	steps := max(6, testkit.Number(t, "KEYP_KILLS", 0)/5)
	c := newClockRun(t, rng)
	for range steps {
		c.settle()
		c.write(50)
		if rng.IntN(3) == 0 {
			c.look()
		}
		if rng.IntN(3) == 0 {
			run(t, c.server.Client(2), "SAVE")
		}
		c.step()
		if rng.IntN(3) > 0 {
			c.look()
		}
	}
	c.look()
	c.end()
}

// TestKillsInMassExpiry kills the server while thousands of keys expire at one instant and clients
// observe that. It starts the server again, half of the times with the clock set back.
func TestKillsInMassExpiry(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	rounds, keys := 2, 2000
	if n := int(testkit.Number(t, "KEYP_KILLS", 0)); n > 0 {
		rounds, keys = max(2, n/10), 10_000
	}
	c := newClockRun(t, rng)
	for range rounds {
		c.settle()
		c.write(50)
		c.expireAtOnce(keys)
		c.look()
		for name, k := range c.keys { // a share is looked at again, after all later kills
			if k.gone && rng.IntN(10) > 0 {
				delete(c.keys, name)
			}
		}
	}
	c.end()
}

// dueValue is the value of all keys and fields in TestClockSteps.
var dueValue = strings.Repeat("v", 1000)

// dueKey is a key, or the field of a hash with only this field. Each name is used once.
type dueKey struct {
	deadline int64 // 0: none
	high     int64 // the latest that the server's clock can have shown since
	gone     bool  // somebody has seen it
}

type clockRun struct {
	t      *testing.T
	rng    *rand.Rand
	args   []string
	server *testkit.Server
	offset int64 // of the server's clock
	keys   map[string]*dueKey

	mu    sync.Mutex
	heard map[string]bool // names that events reported

	// The number of names so far, and counters for the test's log.
	named, restarts, seenGone int
}

func newClockRun(t *testing.T, rng *rand.Rand) *clockRun {
	// With little memory most keys and deadlines are on disk only.
	args := []string{"--maxmemory", []string{"0", "1mb"}[rng.IntN(2)], "--wal-segment-size",
		"256kb", "--checkpoint-log-size", "1mb", "--notify-keyspace-events", "Exh",
		"--clock-jump-limit", "0"}
	c := &clockRun{t: t, rng: rng, args: args, server: testkit.Keyp(t, args...),
		keys: map[string]*dueKey{}, heard: map[string]bool{}}
	c.listen()
	return c
}

// end stops the server and checks its files.
func (c *clockRun) end() {
	c.t.Helper()
	c.expired()
	checkSize(c.t, c.server.Client(2))
	c.server.Stop()
	checkSound(c.t, c.server)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("%d restarts, %d keys and fields, %d were seen gone and %d reported", c.restarts,
		c.named, c.seenGone, len(c.heard))
}

// expired waits until something has been seen expired and reported. The steps that were drawn may
// not have had that effect.
func (c *clockRun) expired() {
	c.t.Helper()
	await.Until(c.t, "keys are seen gone, and reported", func() bool {
		c.mu.Lock()
		heard := len(c.heard)
		c.mu.Unlock()
		if c.seenGone > 0 && heard > 0 {
			return true
		}
		c.settle()
		c.write(10)
		c.look()
		return false
	})
}

// now is the time of the server's clock, apart from the duration of a request.
func (c *clockRun) now() int64 { return time.Now().UnixMilli() + c.offset }

// listen collects events until the server ends.
func (c *clockRun) listen() {
	p := c.server.Client(2).PSubscribe(ctx, "__keyevent@0__:*")
	if _, err := p.Receive(ctx); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer p.Close()
		for {
			message, err := p.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			if strings.HasSuffix(message.Channel, "expired") {
				c.mu.Lock()
				c.heard[message.Payload] = true
				c.mu.Unlock()
			}
		}
	}()
}

// settle waits until the server's time follows its clock again.
func (c *clockRun) settle() {
	client := c.server.Client(3)
	defer client.Close()
	await.Until(c.t, "the server's time follows its clock", func() bool {
		at, err := client.Time(ctx).Result()
		if err != nil {
			c.t.Fatal(err)
		}
		return at.UnixMilli() <= c.now()
	})
}

// write adds keys whose deadlines are near or hours away, and keys without a deadline.
func (c *clockRun) write(n int) {
	pipe := c.server.Client(3).Pipeline()
	for range n {
		k := &dueKey{high: c.now()}
		switch c.rng.IntN(5) {
		case 0:
		case 1:
			k.deadline = c.now() + 100 + c.rng.Int64N(400)
		default:
			k.deadline = c.now() + 100 + c.rng.Int64N(3*hour*1000)
		}
		c.send(pipe, k)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// send adds a command to pipe that writes a key or field with a new name.
func (c *clockRun) send(pipe redis.Pipeliner, k *dueKey) {
	name := fmt.Sprint("k", c.named)
	switch {
	case k.deadline == 0:
		pipe.Set(ctx, name, dueValue, 0)
	case c.rng.IntN(3) == 0:
		name = fmt.Sprint("h", c.named)
		pipe.HSet(ctx, name, "f", dueValue)
		pipe.Do(ctx, "HPEXPIREAT", name, k.deadline, "FIELDS", 1, "f")
	default:
		pipe.Do(ctx, "SET", name, dueValue, "PXAT", k.deadline)
	}
	c.keys[name] = k
	c.named++
}

// expireAtOnce makes many keys and fields expire at one instant, and kills the server at about that
// time.
func (c *clockRun) expireAtOnce(n int) {
	instant := c.now() + 300 + int64(n)/10
	pipe := c.server.Client(3).Pipeline()
	from := c.named
	for range n {
		c.send(pipe, &dueKey{deadline: instant, high: c.now()})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		c.t.Fatal(err)
	}
	await.Pass(time.Duration(instant-c.now()) * time.Millisecond) // nothing reports when it comes
	var readers sync.WaitGroup
	for range 3 {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		readers.Go(func() { c.watch(rng, from, n) })
	}
	readers.Go(func() { c.watchAll(from, n) })
	await.Pass(time.Duration(c.rng.IntN(40_000)) * time.Microsecond)
	c.server.Kill()
	readers.Wait()
	c.restart([]int64{0, -hour * 1000}[c.rng.IntN(2)])
}

// watch notes which of n keys are gone, until the server has gone.
func (c *clockRun) watch(rng *rand.Rand, from, n int) {
	client := c.server.Client(2)
	defer client.Close()
	for {
		name := fmt.Sprint("k", from+rng.IntN(n))
		err := client.Get(ctx, name).Err()
		if err != nil && err != redis.Nil {
			return
		}
		c.mu.Lock()
		if err == redis.Nil && c.keys[name] != nil { // others are fields
			c.heard[name] = true
		}
		c.mu.Unlock()
	}
}

// watchAll does the same as watch, with a scan of all keys.
func (c *clockRun) watchAll(from, n int) {
	client := c.server.Client(2)
	defer client.Close()
	for {
		list, err := client.Keys(ctx, "*").Result()
		if err != nil {
			return
		}
		there := map[string]bool{}
		for _, name := range list {
			there[name] = true
		}
		c.mu.Lock()
		for i := from; i < from+n; i++ {
			for _, name := range []string{fmt.Sprint("k", i), fmt.Sprint("h", i)} {
				if c.keys[name] != nil && !there[name] {
					c.heard[name] = true
				}
			}
		}
		c.mu.Unlock()
	}
}

// step sets the clock, by a command or over a restart.
func (c *clockRun) step() {
	offset := (c.rng.Int64N(5) - 2) * hour * 1000
	if c.rng.IntN(2) == 0 {
		do(c.t, c.server.Client(2), "DEBUG", "CLOCK-OFFSET", offset)
		c.risen()
		c.offset = offset
		// The reaper may be at any point of its work then.
		await.Pass(time.Duration(c.rng.IntN(30)) * time.Millisecond)
		return
	}
	if c.rng.IntN(3) == 0 {
		c.server.Stop()
	} else {
		c.server.Kill()
	}
	c.restart(offset)
}

// restart starts the server with another offset.
func (c *clockRun) restart(offset int64) {
	c.risen()
	c.offset = offset
	if c.rng.IntN(3) == 0 {
		checkSound(c.t, c.server)
	}
	c.server.SetArgs(append(c.args, "--debug-clock-offset", fmt.Sprint(c.offset))...)
	c.server.Start()
	c.listen()
	c.restarts++
}

// risen records, for each key, the latest time that the clock has shown.
func (c *clockRun) risen() {
	for _, k := range c.keys {
		k.high = max(k.high, c.now())
	}
}

// look compares every key and field with the test's knowledge of it.
func (c *clockRun) look() {
	c.t.Helper()
	c.mu.Lock()
	for name := range c.heard {
		k := c.keys[name]
		if k != nil && !k.gone && k.deadline > max(k.high, c.now()) {
			c.t.Errorf("%s was reported or seen to be gone %d ms before its deadline", name,
				k.deadline-k.high)
		}
		if k != nil {
			k.gone = true
		}
	}
	c.mu.Unlock()
	from := c.now()
	found := c.read()
	c.risen()
	for name, k := range c.keys {
		deadline, there := found[name]
		switch {
		case there && k.gone:
			c.t.Errorf("%s was seen to be gone, and is back", name)
		case there && deadline != k.deadline:
			c.t.Errorf("%s is due at %d, not %d", name, deadline, k.deadline)
		case there && k.deadline != 0 && k.deadline <= from:
			c.t.Errorf("%s is there %d ms after its deadline", name, from-k.deadline)
		case !there && !k.gone && (k.deadline == 0 || k.deadline > k.high):
			c.t.Errorf("%s is gone, %d ms before its deadline of %d", name, k.deadline-k.high,
				k.deadline)
		}
		if !there && !k.gone {
			k.gone = true
			c.seenGone++
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// read returns the deadlines of all existing keys and fields, 0 for those without one.
func (c *clockRun) read() map[string]int64 {
	values, deadlines := map[string]*redis.Cmd{}, map[string]*redis.Cmd{}
	pipe := c.server.Client(3).TxPipeline() // at one instant
	for name := range c.keys {
		if name[0] == 'h' {
			values[name] = pipe.Do(ctx, "HGET", name, "f")
			deadlines[name] = pipe.Do(ctx, "HPEXPIRETIME", name, "FIELDS", 1, "f")
		} else {
			values[name] = pipe.Do(ctx, "GET", name)
			deadlines[name] = pipe.Do(ctx, "PEXPIRETIME", name)
		}
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	found := map[string]int64{}
	for name := range c.keys {
		value, err := values[name].Result()
		if err == redis.Nil {
			continue
		}
		if err != nil || value != dueValue {
			c.t.Fatalf("%s is %.20v, %v", name, value, err)
		}
		reply, err := deadlines[name].Result()
		if list, ok := reply.([]any); ok {
			reply = list[0]
		}
		deadline, ok := reply.(int64)
		if err != nil || !ok {
			c.t.Fatalf("the deadline of %s is %v, %v", name, reply, err)
		}
		found[name] = max(deadline, 0)
	}
	return found
}
