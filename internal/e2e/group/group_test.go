package group

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// This file tests groups of servers as a whole. Members join, leave and fail while clients write.
// No acknowledged write may be lost.

func init() { redis.SetLogger(silent{}) } // go-redis logs each failure to reach a server

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// group is a group of servers with working clients.
type group struct{ *members.Group }

// fill writes values of all kinds.
func fill(t *testing.T, c redis.Cmdable, from, to int) {
	t.Helper()
	ctx := await.Context(t)
	for i := from; i < to; i++ {
		p := c.Pipeline()
		n := strconv.Itoa(i)
		p.Set(ctx, "s"+n, strings.Repeat("v", 10+i%500), 0)
		p.Set(ctx, "e"+n, n, time.Hour+time.Duration(i)*time.Second)
		p.RPush(ctx, "l"+n, n, "b", "c")
		p.HSet(ctx, "h"+n, "a", n, "b", "2")
		p.HExpire(ctx, "h"+n, time.Hour, "b")
		p.ZAdd(ctx, "z"+n, redis.Z{Score: float64(i), Member: n}, redis.Z{Score: 2, Member: "x"})
		p.XAdd(ctx, &redis.XAddArgs{Stream: "x" + n, Values: []string{"n", n}})
		p.SAdd(ctx, "m"+n, n, i*2)
		if _, err := p.Exec(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGroup goes through the life of a group. All members have the data that the leader was asked
// to write, even if members are killed, stopped, removed or added.
func TestGroup(t *testing.T) {
	g := group{members.New(t, 3)}
	if out := g.Tool(append([]string{"create"}, g.Addrs()...)...); !strings.Contains(out,
		"3 members") {
		// Again.
		t.Errorf("%s", out)
	}
	ctx, c := await.Context(t), g.Client()
	fill(t, c, 0, 100)
	before := g.Agree()

	first := g.Leader()
	first.Kill()
	fill(t, c, 100, 120)
	if got := c.PExpireTime(ctx, "e1").Val(); got <= 0 {
		t.Errorf("a deadline is %v", got)
	}
	second := g.Leader()
	if second == first {
		t.Fatal("who was killed leads")
	}
	first.Start()
	after := g.Agree()
	if after == before {
		t.Error("what was written after the kill is not there")
	}

	// A removed member serves no more commands. It is added again without its keys, and gets all
	// data.
	out := g.Tool("remove", first.Addr(), second.Addr())
	if !strings.Contains(out, "is no member any more") {
		t.Error(out)
	}
	if err := second.Client(2).Do(ctx, "cluster", "reset", "hard").Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "who has left is alone", func() bool {
		return second.Client(2).DBSize(ctx).Val() == 0 &&
			members.Field(second, "connected_slaves") == "0"
	})
	g.Tool("add", first.Addr(), second.Addr())
	if got := g.Agree(); got != after {
		t.Errorf("the digest was %s, and is %s", after, got)
	}

	// A member whose disk is lost starts empty, and is replaced.
	leader := g.Leader()
	lost := g.Servers[0]
	if lost == leader {
		lost = g.Servers[1]
	}
	lost.Kill()
	if err := os.RemoveAll(lost.Dir()); err != nil {
		t.Fatal(err)
	}
	lost.Start()
	for range 2 { // it may be repeated
		out = g.Tool("replace", leader.Addr(), lost.Addr())
	}
	if !strings.Contains(out, "is a member already") {
		t.Error(out)
	}
	if got := g.Agree(); got != after {
		t.Errorf("the digest was %s, and is %s", after, got)
	}
	for _, wrong := range [][]string{
		// A working member is not removed, and no member is added by mistake.
		{leader.Addr(), leader.Addr(), lost.Addr()}, {leader.Addr(), strings.Repeat("0", 40),
			"127.0.0.1:1"}, {leader.Addr(), strings.Repeat("0", 40)},
	} {
		args := append([]string{"cluster", "replace"}, wrong...)
		if out, err := exec.Command(testkit.Binary(t), args...).CombinedOutput(); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
	out = g.Tool("status", lost.Addr())
	if strings.Count(out, "  ok  ") != len(g.Servers) || strings.Count(out, "  leader  ") != 1 {
		t.Errorf("the status is\n%s", out)
	}

	// A member without a majority shows no leader, neither itself nor a dead member.
	leader = g.Leader()
	for _, s := range g.Servers {
		if s != leader {
			s.Kill()
		}
	}
	await.Until(t, "the status fails", func() bool {
		text, err := exec.Command(testkit.Binary(t), "cluster", "status",
			leader.Addr()).CombinedOutput()
		out = string(text)
		return err != nil && !strings.Contains(out, "  leader  ")
	})
	if strings.Count(out, "  does not answer  ") != 2 || !strings.Contains(out, "no member leads") {
		t.Errorf("the status is\n%s", out)
	}

	// All members restart at once.
	leader.Kill()
	for _, s := range g.Servers {
		s.Start()
	}
	if got := g.Agree(); got != after {
		t.Errorf("the digest was %s, and is %s", after, got)
	}
	fill(t, c, 200, 210)
	g.Agree()
}

// counter makes clients increment counters and push to lists, and records what was acknowledged.
type counter struct {
	t     *testing.T
	stop  context.CancelFunc
	done  sync.WaitGroup
	acked [8]atomic.Int64
	fails atomic.Int64
	text  atomic.Value
}

func (g group) count(t *testing.T) *counter {
	ctx, cancel := context.WithCancel(t.Context()) // not a wait's: the whole test may take longer
	w := &counter{t: t, stop: cancel}
	c := g.Client()
	for i := range w.acked {
		w.done.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				// If the reply to a command is lost, it is not known whether the command ran. So
				// each command sets the next value.
				err := c.Set(ctx, fmt.Sprint("n", i), n, 0).Err()
				switch {
				case err == nil:
					w.acked[i].Store(n)
				case ctx.Err() == nil:
					w.fails.Add(1)
					w.text.Store(err.Error())
				}
			}
		})
	}
	return w
}

// end stops the clients and checks that nothing is lost.
func (w *counter) end(c *redis.ClusterClient) {
	w.t.Helper()
	w.stop()
	w.done.Wait()
	for i := range w.acked {
		got, err := c.Get(await.Context(w.t), fmt.Sprint("n", i)).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			w.t.Fatal(err)
		}
		if acked := w.acked[i].Load(); got < acked || acked == 0 {
			w.t.Errorf("%d was acknowledged, and %d is there", acked, got)
		}
	}
}

// progress waits until each client has got more acknowledgements.
func (w *counter) progress() {
	w.t.Helper()
	var from [len(w.acked)]int64
	for i := range from {
		from[i] = w.acked[i].Load()
	}
	await.Until(w.t, "all clients go on", func() bool {
		for i := range from {
			if w.acked[i].Load() < from[i]+20 {
				return false
			}
		}
		return true
	})
}

// TestFailovers: no acknowledged write is lost when leaders are killed. A killed leader does not
// lead again before it has the writes of the others.
func TestFailovers(t *testing.T) {
	g := group{members.New(t, 3)}
	w, c := g.count(t), g.Client()
	rounds := 4
	if testkit.Long() {
		rounds = 40
	}
	for i := range rounds {
		w.progress()
		s := g.Leader()
		if i%4 == 3 {
			s = g.Follower()
		}
		s.Kill()
		w.progress()
		s.Start()
		await.Until(t, "the member is back", func() bool {
			return members.Field(s, "master_link_status") == "up" || members.Role(s) == "master"
		})
	}
	w.end(c)
	g.Agree()
}

// TestFailoverTimes reports how long a client finds no leader after the leader is killed.
// KEYP_FAILOVERS is the number of kills. The test asserts nothing about time.
func TestFailoverTimes(t *testing.T) {
	rounds := int(testkit.Number(t, "KEYP_FAILOVERS", 0))
	if rounds == 0 {
		t.Skip("KEYP_FAILOVERS says how often")
	}
	g := group{members.New(t, 3)}
	ctx, c := await.Context(t), g.Client()
	var took, led []time.Duration
	for i := range rounds {
		if err := c.Set(ctx, "a", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		s := g.Leader()
		s.Kill()
		began := time.Now()
		elected := make(chan time.Duration, 1)
		go func() {
			await.Until(t, "another member leads", func() bool {
				return slices.ContainsFunc(g.Servers, func(o *testkit.Server) bool {
					return o != s && members.Role(o) == "master"
				})
			})
			elected <- time.Since(began)
		}()
		if err := c.Set(ctx, "a", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		took, led = append(took, time.Since(began)),
			append(led, await.For(t, "it is known when a member leads", elected))
		s.Start()
		await.Until(t, "the member is back", func() bool {
			return members.Field(s, "master_link_status") == "up"
		})
		g.Agree()
	}
	for what, list := range map[string][]time.Duration{"until a client is served": took,
		"until a member leads": led} {
		slices.Sort(list)
		t.Logf("%d failovers, %s: median %v, p99 %v, longest %v", rounds, what, list[rounds/2],
			list[(rounds*99+99)/100-1], list[rounds-1])
	}
}

// TestHandOver: a leader that is stopped, or replaced by another member, loses nothing, and clients
// see no error.
func TestHandOver(t *testing.T) {
	g := group{members.New(t, 3)}
	w, c := g.count(t), g.Client()
	for i := range 3 {
		w.progress()
		// A follower that has become the leader in the meantime refuses the command.
		await.Until(t, "another member takes over", func() bool {
			return g.Follower().Client(2).Do(await.Context(t), "cluster", "failover").Err() == nil
		})
		w.progress()
		s := g.Leader()
		if i == 1 {
			_ = s.Client(2).Do(await.Context(t), "shutdown").Err() // the connection ends
			s.Wait()
		} else {
			s.Stop()
		}
		w.progress()
		s.Start()
		await.Until(t, "the member is back", func() bool {
			return members.Field(s, "master_link_status") == "up"
		})
	}
	if n := w.fails.Load(); n > 0 {
		t.Errorf("%d commands failed, one with %v", n, w.text.Load())
	}
	w.end(c)
	g.Agree()
}

// TestReadsAtFollowers: a client that has sent READONLY can read at a follower. It never sees keys
// that are due, and never goes back in time.
func TestReadsAtFollowers(t *testing.T) {
	g := group{members.New(t, 3)}
	ctx, c := await.Context(t), g.Client()
	follower := g.Follower()
	conn := follower.Client(2).Conn()
	defer conn.Close()
	if err := conn.Do(ctx, "readonly").Err(); err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for i := range int64(200) {
		if err := c.Set(ctx, "a", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := conn.Get(ctx, "a").Int64()
		if err != nil && !errors.Is(err, redis.Nil) || got < last || got > i {
			t.Fatalf("%d was written, %d was read before, and now %d: %v", i, last, got, err)
		}
		last = got
	}
	await.Until(t, "the follower has the last value", func() bool {
		return conn.Get(ctx, "a").Val() == "199"
	})
	err := conn.Set(ctx, "a", "b", 0).Err()
	follows := members.Role(follower) == "slave" // nothing promises that it still does
	if follows && (err == nil || !strings.HasPrefix(err.Error(), "MOVED ")) {
		t.Errorf("SET at a follower: %v", err)
	}
	if err := c.Set(ctx, "a", "b", 50*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the key has expired at the follower", func() bool {
		return errors.Is(conn.Get(ctx, "a").Err(), redis.Nil)
	})
}

// TestPasswordOfGroup: if CONFIG SET requirepass sets a password at the leader, that is the
// password of all members, including the next leader.
func TestPasswordOfGroup(t *testing.T) {
	g := group{members.New(t, 3)}
	ctx := await.Context(t)
	follower := g.Follower()
	before := follower.Client(2).Conn() // which needs no password later on
	defer before.Close()
	if err := before.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	var leader *testkit.Server
	await.Until(t, "who leads has the password", func() bool {
		leader = g.Leader()
		return leader.Client(2).ConfigSet(ctx, "requirepass", "secret").Err() == nil
	})
	err := before.ConfigSet(ctx, "requirepass", "secret").Err()
	follows := strings.Contains(before.Info(ctx, "replication").Val(), "role:slave\r\n")
	if follows && (err == nil || !strings.HasPrefix(err.Error(), "READONLY ")) {
		t.Errorf("CONFIG SET requirepass at a follower: %v", err)
	}
	clients := map[*testkit.Server]*redis.Client{}
	for _, s := range g.Servers {
		c := testkit.NewClient(t, &redis.Options{Addr: s.Addr(), Password: "secret"})
		clients[s] = c
		await.Until(t, "each member accepts the password", func() bool {
			return c.Ping(ctx).Err() == nil
		})
		await.Until(t, "each member refuses connections without it", func() bool {
			// A server that needs no password accepts any, so this tries a new connection without
			// one.
			err := testkit.NewClient(t, &redis.Options{Addr: s.Addr()}).Ping(ctx).Err()
			return err != nil && strings.HasPrefix(err.Error(), "NOAUTH ")
		})
	}
	leader.Kill()
	delete(clients, leader)
	await.Until(t, "the next leader accepts the password", func() bool {
		for _, c := range clients {
			if c.Set(ctx, "k", "v", 0).Err() == nil {
				return true
			}
		}
		return false
	})
}

// TestTimeAsDataInGroup: leases, limits, delayed jobs, users, functions and policies continue at
// the new leader.
func TestTimeAsDataInGroup(t *testing.T) {
	g := group{members.New(t, 3)}
	ctx, c := await.Context(t), g.Client()
	do := func(args ...any) any {
		t.Helper()
		v, err := c.Do(ctx, args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return v
	}
	lease := do("KEYP.LEASE", "ACQUIRE", "lock", "me", 3_600_000)
	do("KEYP.LIMIT", "TAKE", "limit", 3, "WINDOW", 3, 3_600_000)
	do("KEYP.DELAY", "ADD", "jobs", "j1", 0, "payload")
	do("FUNCTION", "LOAD",
		"#!lua name=lib\nredis.register_function('three', function() return 3 end)")
	do("KEYP.POLICY", "SET", "short", "PATTERN", "temporary:*", "ENFORCE", "DEFAULT", "100s")
	do("ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all")
	if err := g.Follower().Client(2).Do(ctx, "ACL", "SETUSER", "bob").Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "READONLY ") {
		t.Errorf("ACL SETUSER at a follower: %v", err)
	}
	for _, s := range g.Servers {
		await.Until(t, "all members know the user, the function and the policy", func() bool {
			c := s.Client(2)
			return strings.Contains(fmt.Sprint(c.Do(ctx, "ACL", "LIST").Val()), "user ann on") &&
				len(c.FunctionList(ctx, redis.FunctionListQuery{}).Val()) == 1 &&
				strings.Contains(fmt.Sprint(c.Do(ctx, "KEYP.POLICY", "LIST").Val()), "short")
		})
	}
	g.Leader().Kill()
	if got := do("KEYP.LEASE", "ACQUIRE", "lock", "me",
		3_600_000); fmt.Sprint(got.([]any)[0]) != fmt.Sprint(lease.([]any)[0]) {
		t.Errorf("the lease was %v, and is %v", lease, got)
	}
	if got := do("KEYP.LIMIT", "TAKE", "limit", 1, "WINDOW", 3,
		3_600_000).([]any); fmt.Sprint(got[0]) != "0" {
		t.Errorf("a fourth one is admitted: %v", got)
	}
	if got := do("FCALL", "three", 0); got != int64(3) {
		t.Errorf("the function gives %v", got)
	}
	do("SET", "temporary:1", 1)
	if got := c.TTL(ctx, "temporary:1").Val(); got <= 0 {
		t.Errorf("a policy does not decide: the time to live is %v", got)
	}
	if got := do("KEYP.DELAY", "POP", "jobs", "VISIBILITY",
		1000); !strings.Contains(fmt.Sprint(got), "j1") {
		t.Errorf("the job is %v", got)
	}
}
