package restart

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// This file kills or stops a server while clients write, starts it again, and compares all data
// with the replies that the clients got.

const (
	// fewWriters and manyWriters are how many clients write to a server at the same time, each to
	// its own keys, in a short and in a long run.
	fewWriters, manyWriters = 5, 50
	// allShares is the sum of the shares of all runs. KEYP_KILLS sets the number of rounds of all
	// runs together.
	allShares = 24

	evicting = "evicting"
)

// runs lists the options of the killed servers, and their shares of the rounds.
var runs = []struct {
	name  string
	share int // of 24
	args  []string
}{
	// Tiny limits make rotations, checkpoints and the recycling of segments frequent.
	{"busy", 9, []string{"--wal-segment-size", "64kb", "--checkpoint-log-size", "1mb"}},
	// With almost no memory, most keys are evicted and loaded again and again.
	{evicting, 5, []string{"--wal-segment-size", "256kb", "--checkpoint-log-size", "1mb",
		"--maxmemory", "1mb", "--shards", "4"}},
	{"defaults", 4, nil},
	{"everysec", 3, []string{"--appendfsync", "everysec", "--wal-segment-size", "1mb",
		"--checkpoint-log-size", "1mb"}},
	{"no", 3, []string{"--appendfsync", "no", "--wal-segment-size", "1mb", "--checkpoint-log-size",
		"1mb"}},
}

// TestKills kills or stops the server at random moments while clients write, also in the middle of
// a checkpoint. It compares every key, value and deadline with the acknowledged writes.
func TestKills(t *testing.T) {
	rounds := allRounds(t)
	seed := testkit.Seed(t)
	for i, run := range runs {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			k := newKiller(t, rand.New(rand.NewPCG(seed, uint64(i))), crowd(run.name), run.args)
			for round := range (rounds*run.share + allShares - 1) / allShares {
				k.round(round, round%4 == 3)
			}
			k.round(-1, true)
			k.server.Stop()
			checkSound(t, k.server)
			t.Logf("%d commands; of %d under way when the server ended %d had happened", k.sent,
				k.underWay, k.happened)
			if k.sent == 0 {
				t.Error("nothing was written")
			}
		})
	}
}

// allRounds is the number of rounds of all runs together. Three of four end with a kill.
func allRounds(t *testing.T) int {
	t.Helper()
	return int(testkit.Number(t, "KEYP_KILLS", uint64(testkit.Cases(allShares/2, allShares))))
}

// killer is one server with its writers.
type killer struct {
	t       *testing.T
	rng     *rand.Rand
	server  *testkit.Server
	writers []*writer
	// answered counts the replies that writers have got.
	answered atomic.Int64
	ends     []string // when the server ended
	// For the test's log: how many commands were sent, how many were under way when the server
	// ended, and how many of these had happened.
	sent, underWay, happened int
}

func newKiller(t *testing.T, rng *rand.Rand, writers int, args []string) *killer {
	k := &killer{t: t, rng: rng, server: testkit.Keyp(t, args...)}
	for id := range writers {
		k.writers = append(k.writers, &writer{id: id, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)),
			state: state{}, answered: &k.answered, history: map[name][]string{}})
	}
	return k
}

// round writes for a moment, stops or kills the server, starts it again and compares.
func (k *killer) round(round int, stop bool) {
	var all sync.WaitGroup
	for _, w := range k.writers {
		all.Go(func() { w.run(k.server) })
	}
	var least map[name]int64
	all.Go(func() { least = k.watch() })
	all.Go(beside(k.rng, k.server))
	k.letThemWork()
	if stop {
		k.server.Stop()
	} else {
		k.server.Kill()
	}
	k.ends = append(k.ends, fmt.Sprintf("%s stop=%v", time.Now().Format("15:04:05.000"), stop))
	all.Wait()
	for _, w := range k.writers {
		if w.failure != nil {
			k.t.Fatalf("round %d, writer %d: %v", round, w.id, w.failure)
		}
	}
	if round%5 == 1 {
		checkSound(k.t, k.server)
	}
	startAfterTrouble(k.t, k.rng, k.server)
	k.compare(round, least)
}

// letThemWork returns after a random number of replies, or after a random time if the machine is
// slow.
func (k *killer) letThemWork() {
	enough := k.answered.Load() + int64(k.rng.IntN(1500))
	deadline := time.Now().Add(time.Duration(100+k.rng.IntN(900)) * time.Millisecond)
	for k.answered.Load() < enough && time.Now().Before(deadline) {
		await.Pass(time.Duration(k.rng.IntN(2000)) * time.Microsecond)
	}
}

// watch reads the counters until the server has gone, and returns their highest values. The
// restarted server must have these values, even if their writers got no reply.
func (k *killer) watch() map[name]int64 {
	ctx := context.Background()
	c := k.server.Client(3)
	defer c.Close()
	least := map[name]int64{}
	for {
		for _, w := range k.writers {
			n, err := c.Get(ctx, w.counter().key).Int64()
			if err != nil && !errors.Is(err, redis.Nil) {
				return least
			}
			least[w.counter()] = n
		}
	}
}

// compare compares everything that the server shows with the writers' states.
func (k *killer) compare(round int, least map[name]int64) {
	k.t.Helper()
	var known []name
	for _, w := range k.writers {
		names := w.keys()
		known = append(known, names...)
		shown, at := look(k.t, k.server, names)
		if n := shown[w.counter()]; n.data != "" || least[w.counter()] > 0 {
			if high, err := strconv.ParseInt(n.data, 10, 64); err != nil ||
				high < least[w.counter()] {
				k.t.Errorf("round %d: a client has seen %d in %v, which now is %v", round,
					least[w.counter()], w.counter(), n)
			}
		}
		done, problems := w.state.settle(w.pending, w.at, shown, at)
		for _, p := range problems {
			k.t.Errorf("round %d: %s", round, p.text)
			for _, n := range p.names {
				k.t.Logf("%v: the last commands were\n\t%s", n, strings.Join(w.history[n], "\n\t"))
			}
		}
		k.sent, k.underWay, k.happened = k.sent+w.sent, k.underWay+len(w.pending), k.happened+done
	}
	checkNames(k.t, k.server, known)
	if k.t.Failed() {
		k.t.Fatalf("the server ended at %q", k.ends[max(0, len(k.ends)-4):])
	}
}

// checkSound runs keyp check, which checks that log, data file, memory and index agree. The server
// must not run meanwhile.
func checkSound(t testing.TB, s *testkit.Server) {
	t.Helper()
	output, err := exec.Command(testkit.Binary(t), "check", s.Dir()).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "is sound") {
		t.Fatalf("keyp check: %v\n%s", err, output)
	}
}
