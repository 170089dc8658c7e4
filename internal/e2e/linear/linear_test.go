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

// This file records what clients see of a server that is killed again and again. It then searches
// for one order of the operations that explains all replies.

const (
	// killsByDefault is the total number of kills. KEYP_KILLS changes it.
	killsByDefault = 2
	// killsEach is the number of kills in one history.
	killsEach = 4
	// leastWork is the least number of operations before each kill.
	leastWork = 300
	// lastShown is the number of operations that a failure shows before the point where the search
	// is stuck.
	lastShown = 10
)

// settings has the servers' settings, which are used in turn. In all of them replies wait for the
// log.
var settings = [][]string{
	{"--wal-segment-size", "64kb", "--checkpoint-log-size", "1mb"},
	{"--wal-segment-size", "256kb", "--checkpoint-log-size", "1mb", "--maxmemory", "1mb",
		"--shards", "4"},
	{"--wal-segment-size", "1mb"},
}

// TestLinearizable: clients use few keys while the server is killed and started again. One order
// must explain all replies, across all kills.
func TestLinearizable(t *testing.T) {
	total := check(t, trial{model: model, fresh: func() workload { return keyed{} }})
	if total.operations == 0 || total.misses == 0 {
		t.Error("nothing was done")
	}
}

// TestRulesLinearizable does the same under policies and outboxes. Each expiry in the order has one
// entry, with its value and deadline, and no entry is left over.
func TestRulesLinearizable(t *testing.T) {
	fresh := func() workload { return ruled{} }
	check(t, trial{model: model, fresh: fresh, verbs: []string{allReported}})
}

// TestStreamsLinearizable does the same with streams and their groups.
func TestStreamsLinearizable(t *testing.T) {
	check(t, trial{model: streamModel, fresh: func() workload {
		return &streamed{}
	}, verbs: streamVerbs})
}

// trial has the workload of the clients and the model that explains their replies.
type trial struct {
	model porcupine.Model
	fresh func() workload // of a client
	verbs []string        // each of them must have found something to do
	steps bool            // the clock of the servers steps
	// These fields are for groups. faults has the leaders' faults, nil for the usual ones. weather
	// is true if the lines between members change before each fault. apart is true if the members'
	// clocks are hours apart.
	faults  []fault
	weather bool
	apart   bool
}

// check records and checks histories. It continues until each of the verbs has had an effect.
func check(t *testing.T, what trial) (total tally) {
	total.done = map[string]int{}
	kills := testkit.Number(t, "KEYP_KILLS", killsByDefault)
	seed := testkit.Seed(t)
	for i := 0; total.kills < int(kills) ||
		total.lacks(what.verbs) && total.kills < 20*int(kills); i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			history := record(t, rng, what, settings[i%len(settings)],
				max(1, min(killsEach, int(kills)-total.kills)), &total)
			explain(t, what.model, history, seed, &total)
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d kills, %d operations, %d of them lost, %d misses; the longest search took %v",
		total.kills, total.operations, total.lost, total.misses,
		total.search.Round(time.Millisecond))
	total.worth(t, what.verbs)
	return total
}

// searchMost is the limit of a search. Most searches take milliseconds. A search takes too long if
// many operations overlap, as on a slow machine, or if many replies are lost. Such a history stays
// undecided.
const searchMost = 20 * time.Second

// explain searches for an order that explains all replies.
func explain(t *testing.T, model porcupine.Model, history []porcupine.Operation,
	seed uint64, total *tally) {
	t.Helper()
	began := time.Now()
	verdict, info := porcupine.CheckOperationsVerbose(model, history, searchMost)
	total.search = max(total.search, time.Since(began))
	switch verdict {
	case porcupine.Unknown:
		t.Logf("KEYP_SEED=%d: not decided within %v", seed, searchMost)
	case porcupine.Illegal:
		path := filepath.Join(os.TempDir(),
			fmt.Sprintf("keyp-history-%s-%d.html", strings.ReplaceAll(t.Name(), "/", "-"), seed))
		t.Fatalf("KEYP_SEED=%d: %s; %s shows the history (%v)%s", seed, verdict, path,
			porcupine.VisualizePath(model, info, path), stuck(model, info, history))
	}
}

// stuck describes, for each group without an order that explains all replies, where the longest
// partial order ends.
func stuck(model porcupine.Model, info porcupine.LinearizationInfo,
	history []porcupine.Operation) string {
	var b strings.Builder
	for i, orders := range info.PartialLinearizationsOperations() {
		rest := slices.Clone(model.Partition(history)[i])
		longest := slices.MaxFunc(orders, func(a, b []porcupine.Operation) int {
			return len(a) - len(b)
		})
		if len(longest) == len(rest) {
			continue
		}
		state := model.Init()
		for _, op := range longest {
			_, state = model.Step(state, op.Input, op.Output)
			rest = slices.DeleteFunc(rest, func(o porcupine.Operation) bool {
				return o.ClientId == op.ClientId && o.Call == op.Call
			})
		}
		fmt.Fprintf(&b, "\nafter %d operations\n", len(longest))
		for _, op := range longest[max(0, len(longest)-lastShown):] {
			fmt.Fprintf(&b, "  %s\n", model.DescribeOperation(op.Input, op.Output))
		}
		fmt.Fprintf(&b, "the state is %s, and none of these can be the next:\n",
			model.DescribeState(state))
		first := slices.MinFunc(rest, func(a, b porcupine.Operation) int {
			return int(a.Return - b.Return)
		})
		for _, op := range rest {
			if op.Call <= first.Return {
				fmt.Fprintf(&b, "  %s\n", model.DescribeOperation(op.Input, op.Output))
			}
		}
		if o := first.Input.(call).outbox; o != nil {
			fmt.Fprintf(&b, "the outbox has %+v\n", *o)
		}
	}
	return b.String()
}

// tally counts what happened, for the log.
type tally struct {
	kills, operations, lost, misses int
	done                            map[string]int // commands by verb that found something to do
	search                          time.Duration
}

// lacks returns true if one of the commands has had no effect yet, which may happen on a slow
// machine.
func (n *tally) lacks(verbs []string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return n.done[verb] == 0 })
}

// worth fails the test if one of the commands has had no effect.
func (n *tally) worth(t *testing.T, verbs []string) {
	for _, verb := range verbs {
		if n.done[verb] == 0 && !t.Failed() {
			t.Errorf("%s has never done anything", verb)
		}
	}
}

// record returns the history of clients whose server is killed several times.
func record(t *testing.T, rng *rand.Rand, what trial, args []string, kills int,
	total *tally) []porcupine.Operation {
	if what.steps {
		args = append(slices.Clone(args), steppedArgs...)
	}
	s := testkit.Keyp(t, args...)
	rec := &recorder{began: time.Now()}
	var team []*client
	for id := range clients {
		team = append(team, &client{workload: what.fresh(), id: id,
			rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), rec: rec})
	}
	pad(t, s)
	w := what.fresh()
	if r, ok := w.(ruled); ok {
		r.makeRules(t, s)
	}
	each(t, s, rec, w, w.first())
	for range kills {
		var all sync.WaitGroup
		for _, c := range team {
			all.Go(func() { c.work(s) })
		}
		if rng.IntN(2) == 0 {
			all.Go(func() { s.RepeatUntilGone("BGSAVE") })
		}
		enough := rec.size() + leastWork
		if what.steps {
			await.Until(t, "the clients work", func() bool {
				return rec.size() >= enough-leastWork/2
			})
			rec.stepClock(t, s, drawOffset(rng, rec.offset()))
		}
		await.Pass(time.Duration(50+rng.IntN(400)) * time.Millisecond)
		await.Until(t, "the clients work", func() bool { return rec.size() >= enough })
		s.Kill()
		killed := time.Now()
		all.Wait()
		for _, c := range team {
			c.ended(killed)
		}
		if what.steps {
			offset := drawOffset(rng, rec.offset())
			s.SetArgs(steppedAt(args, offset)...)
			rec.step(killed, offset, func() { s.Start(); followed(t, s, offset) })
		} else {
			s.Start()
		}
	}
	each(t, s, rec, w, w.last())
	if r, ok := w.(ruled); ok {
		r.readOutboxes(t, s, rec)
	}
	s.Stop()
	rec.place()
	total.add(rec.history, kills)
	return rec.history
}

// pad adds unused keys, so that with little memory the other keys leave it.
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

// each runs the commands for each group, while no other client runs.
func each(t *testing.T, s *testkit.Server, rec *recorder, w workload, commands []command) {
	if len(commands) == 0 {
		return
	}
	c := &client{workload: w, id: clients, rec: rec}
	conn := s.Client(3).Conn()
	defer conn.Close()
	for group := range groups {
		op := call{group: group, way: "EXEC", commands: commands}
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
		for i, reply := range o.replies {
			if did(reply) {
				n.done[op.Input.(call).commands[i].verb]++
			}
		}
	}
}

// Connections break on purpose here, so go-redis need not log it.
func init() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
