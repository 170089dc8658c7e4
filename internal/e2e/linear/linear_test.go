package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

const (
	// killsByDefault is how often servers are killed in all; KEYP_KILLS changes it.
	killsByDefault = 2
	// killsEach is how often within one history.
	killsEach = 4
)

// settings are those of the servers, in turn. Replies wait for the log in all of them.
var settings = [][]string{
	{"--wal-segment-size", "64kb", "--checkpoint-log-size", "1mb"},
	{"--wal-segment-size", "256kb", "--checkpoint-log-size", "1mb", "--maxmemory", "1mb", "--shards", "4"},
	{"--wal-segment-size", "1mb"},
}

// TestLinearizable has clients at work on few keys while the server is killed and started
// again, and checks that all replies, over all kills, can be explained by one order.
func TestLinearizable(t *testing.T) {
	kills := testkit.Number(t, "KEYP_KILLS", killsByDefault)
	seed := testkit.Seed(t)
	var total tally
	for i := 0; total.kills < int(kills); i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			history := record(t, rng, settings[i%len(settings)], min(killsEach, int(kills)-total.kills), &total)
			began := time.Now()
			verdict, info := porcupine.CheckOperationsVerbose(model, history, await.Bound)
			total.search = max(total.search, time.Since(began))
			if verdict != porcupine.Ok {
				path := filepath.Join(os.TempDir(), fmt.Sprintf("keyp-history-%d-%d.html", seed, i))
				t.Fatalf("KEYP_SEED=%d: %s; %s shows the history (%v)", seed, verdict, path, porcupine.VisualizePath(model, info, path))
			}
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d kills, %d operations, %d of them lost, %d misses; the longest search took %v",
		total.kills, total.operations, total.lost, total.misses, total.search.Round(time.Millisecond))
	if total.operations == 0 || total.misses == 0 {
		t.Error("nothing was done")
	}
}

// tally is for the log.
type tally struct {
	kills, operations, lost, misses int
	search                          time.Duration
}

// record gives the history of clients whose server is killed some times.
func record(t *testing.T, rng *rand.Rand, args []string, kills int, total *tally) []porcupine.Operation {
	s := testkit.Keyp(t, args...)
	rec := &recorder{began: time.Now()}
	var team []*client
	for id := range clients {
		team = append(team, &client{id: id, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), rec: rec})
	}
	pad(t, s)
	for range kills {
		var all sync.WaitGroup
		for _, c := range team {
			all.Go(func() { c.work(s) })
		}
		if rng.IntN(2) == 0 {
			all.Go(func() { s.RepeatUntilGone("BGSAVE") })
		}
		await.Pass(time.Duration(50+rng.IntN(400)) * time.Millisecond)
		s.Kill()
		killed := time.Now()
		all.Wait()
		for _, c := range team {
			c.ended(killed)
		}
		s.Start()
	}
	final(t, s, rec)
	s.Stop()
	total.add(rec.history, kills)
	return rec.history
}

// pad adds keys that nobody asks for, so that with little memory the others leave it.
func pad(t *testing.T, s *testkit.Server) {
	_, err := s.Client(3).Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 300 {
			p.Set(ctx, fmt.Sprint("padding:", i), strings.Repeat("x", 4000), 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// final reads every key after the last restart.
func final(t *testing.T, s *testkit.Server, rec *recorder) {
	c := &client{id: clients, rec: rec}
	conn := s.Client(3).Conn()
	defer conn.Close()
	for group := range groups {
		op := call{group: group, way: "EXEC"}
		for key := range groupKeys {
			op.commands = append(op.commands, command{verb: "GET", key: key}, command{verb: "PEXPIRETIME", key: key})
		}
		from := time.Now()
		o := c.send(conn, op)
		if o.lost {
			t.Fatal("the server does not answer")
		}
		rec.add(c.id, op, o, from, time.Now())
	}
}

func (n *tally) add(history []porcupine.Operation, kills int) {
	n.kills += kills
	n.operations += len(history)
	for _, op := range history {
		o := op.Output.(outcome)
		if o.lost {
			n.lost++
		}
		if slices.Contains(o.replies, nil) {
			n.misses++
		}
	}
}

// Connections break here on purpose: go-redis need not say so.
func init() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
