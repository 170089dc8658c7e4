package server

import (
	"context"
	"errors"
	"maps"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/commands"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/fakegroup"
)

// inGroup is a setting that makes the server a member of a fake group.
func inGroup(g *fakegroup.Group) setting {
	return func(e *commands.Env) {
		if err := e.LoadCluster(); err != nil {
			panic(err)
		}
		e.SetMembership(g)
	}
}

// startMember starts a member with a role in a group of three. The other two do not exist.
func startMember(t *testing.T, role commands.Role, leader uint64,
	settings ...setting) (*testServer, *fakegroup.Group) {
	g := fakegroup.New(1)
	ts := start(t, append([]setting{"cluster-enabled=yes", inGroup(g)}, settings...)...)
	g.Join(ts.Port(), 7002, 7003)
	g.Lease.Store(1)
	g.Become(role, leader, 1)
	return ts, g
}

const (
	toSecond        = "-MOVED 15495 127.0.0.1:7002"
	clusterDown     = "-CLUSTERDOWN The cluster is down"
	readOnlyReplica = "-READONLY You can't write against a read only replica."
)

// TestGroupWaits: while no leader is known, commands that use data wait, and others are served.
// When a leader is known, the commands run, or their clients are sent to the new leader.
func TestGroupWaits(t *testing.T) {
	t.Parallel()
	for _, role := range []commands.Role{commands.Rising, commands.Resigning, commands.Tentative,
		commands.Follower} {
		t.Run(role.String(), func(t *testing.T) {
			t.Parallel()
			clk, _ := stopped(t)
			ts, g := startMember(t, commands.Leader, 1, clk)
			other, c, flushes := ts.dial(), ts.dial(), ts.dial()
			g.Become(role, 0, 2)
			c.send("SET a 1\n")
			ts.waits(c, forGroup)
			slots := ts.dial()
			slots.send("CLUSTER SLOTS\n") // clients ask it where to go
			ts.waits(slots, forGroup)
			flushes.send("FLUSHALL\n")
			ts.waits(flushes, forGroup)
			for _, command := range []string{"PING", "INFO replication", "CLUSTER INFO",
				"CONFIG GET port", "ACL WHOAMI", "CLIENT ID"} {
				if got := other.do(command); strings.HasPrefix(got, "-") {
					t.Errorf("%s: %s", command, got)
				}
			}
			g.Lease.Store(3)
			g.Become(commands.Leader, 1, 3)
			c.expect("+OK")
			if got := slots.reply(); !strings.HasPrefix(got, "*1 *5 :0 :16383 ") {
				t.Errorf("CLUSTER SLOTS: %s", got)
			}
			flushes.expect("+OK")
			g.Become(role, 0, 4)
			c.send("GET a\n")
			ts.waits(c, forGroup)
			flushes.send("FLUSHALL\n")
			ts.waits(flushes, forGroup)
			g.Become(commands.Follower, 2, 5)
			c.expect(toSecond)
			flushes.expect(readOnlyReplica)
		})
	}
}

// TestGroupPatience: after a second without a leader, waiting commands fail, and so do new ones.
func TestGroupPatience(t *testing.T) {
	t.Parallel()
	clk, goOn := stopped(t)
	ts, g := startMember(t, commands.Leader, 1, clk, "replica-serve-stale-data=no")
	c, reads, lists := ts.dial(), ts.dial(), ts.dial()
	reads.send("READONLY\n")
	reads.expect("+OK")
	g.Become(commands.Follower, 0, 2)
	c.send("SET a 1\n")
	ts.waits(c, forGroup)
	if got := reads.do("GET a"); got != "$-1" { // it has not been without a leader for long
		t.Error(got)
	}
	goOn()
	c.expect(clusterDown)
	await.Until(t, "reads are refused", func() bool {
		return strings.HasPrefix(reads.do("GET a"), "-MASTERDOWN Link with MASTER is down")
	})
	if got := lists.do("DBSIZE"); !strings.HasPrefix(got, "-MASTERDOWN ") {
		t.Error(got)
	}
	if got := lists.do("CONFIG SET replica-serve-stale-data yes"); got != "+OK" {
		t.Error(got)
	}
	if got := reads.do("GET a"); got != "$-1" {
		t.Error(got)
	}
	if got := lists.do("CLUSTER NODES"); !strings.Contains(got, " myself,") {
		t.Errorf("CLUSTER NODES: %s", got)
	}
	for command, want := range map[string]string{"SET a 1": clusterDown,
		"FLUSHALL": readOnlyReplica, "PING": "+PONG", "DBSIZE": ":0"} {
		if got := lists.do(command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	g.Become(commands.Tentative, 0, 2)
	if got := reads.do("GET a"); got != clusterDown {
		t.Error(got)
	}
	g.Become(commands.Leader, 1, 3)
	g.Lease.Store(3)
	if got := c.do("SET a 1"); got != "+OK" {
		t.Error(got)
	}
}

// TestGroupWithoutData: a member without data yet refuses reads, and sends writers to the leader.
func TestGroupWithoutData(t *testing.T) {
	t.Parallel()
	for _, role := range []commands.Role{commands.Joining, commands.Rebuilding} {
		ts, _ := startMember(t, role, 2)
		c := ts.dial()
		for _, step := range [][2]string{
			{"GET a", toSecond}, {"SET a 1", toSecond},
			{"DBSIZE", "-LOADING Redis is loading the dataset in memory"},
			{"KEYP.BACKUP BEGIN", "-LOADING Redis is loading the dataset in memory"},
			{"READONLY", "+OK"}, {"GET a", "-LOADING Redis is loading the dataset in memory"},
			{"SET a 1", toSecond}, {"PING", "+PONG"},
		} {
			if got := c.do(step[0]); got != step[1] {
				t.Errorf("%v: %s: %s", role, step[0], got)
			}
		}
	}
}

// TestLease: a reply that shows data is sent only when it is certain that the server was the leader
// when it made the reply. Other replies need not wait.
func TestLease(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Leader, 1)
	c, other := ts.dial(), ts.dial()
	if got := c.do("SET a 1"); got != "+OK" {
		t.Fatal(got)
	}
	g.Lease.Store(0)
	for _, command := range []string{"GET a", "DBSIZE", "EVAL 'return 1' 0", "SETNX a 2"} {
		c.send(command + "\n")
	}
	c.send("PING\n")
	c.silent(ts)
	if got := other.do("PING"); got != "+PONG" {
		t.Error(got)
	}
	g.Lease.Store(1)
	c.expect("1", ":1", ":1", ":0", "+PONG")
	if got := c.do("GET a"); got != "1" {
		t.Error(got)
	}
	g.Lease.Store(0)
	c.send("GET a\nQUIT\n") // a client that leaves gets what it asked for
	c.silent(ts)
	g.Lease.Store(1)
	c.expect("1", "+OK", "(eof)")
}

// TestGroupBackup: a leader returns a backup only when it is certain that the backup has everything
// acknowledged. A backup of a follower tells how old its data may be.
func TestGroupBackup(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Leader, 1)
	c := ts.dial()
	g.Lease.Store(0)
	c.send("KEYP.BACKUP BEGIN\n")
	c.silent(ts) // its task has begun
	await.Until(t, "the task is over", func() (over bool) {
		ts.onLoop(func(l *loop) { over = l.tasks.count == 0 })
		return over
	})
	c.silent(ts)
	g.Lease.Store(1)
	if got := c.reply(); !strings.HasPrefix(got, "*14 id ") {
		t.Errorf("a backup is %s", got)
	}
	if got := c.do("KEYP.BACKUP END"); got != "+OK" {
		t.Error(got)
	}
	g.Become(commands.Follower, 2, 2)
	g.Set(func(p *commands.GroupProgress) { p.Heard = time.Hour })
	got, now := c.do("KEYP.BACKUP BEGIN"), strings.Fields(c.do("TIME"))
	words := strings.Fields(got)
	i := slices.Index(words, "time") + 1
	if i == 0 || i == len(words) || len(now) != 3 {
		t.Fatalf("a backup is %s, at %s", got, now)
	}
	at, err := strconv.ParseInt(words[i][1:], 10, 64)
	seconds, bad := strconv.ParseInt(now[1], 10, 64)
	if err = errors.Join(err, bad); err != nil || at > (seconds+1)*1000-time.Hour.Milliseconds() {
		t.Errorf("it is %d, nothing was heard for an hour, and a backup is of %d: %v",
			seconds, at, err)
	}
}

// TestLeaseLost: a reply that waits for a lease is never sent if the server stops leading, or leads
// again in another term.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*fakegroup.Group){
		"follows": func(g *fakegroup.Group) { g.Become(commands.Follower, 2, 2) },
		"leads again": func(g *fakegroup.Group) {
			g.Lease.Store(3)
			g.Become(commands.Leader, 1, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts, g := startMember(t, commands.Leader, 1)
			c, idle := ts.dial(), ts.dial()
			if got := c.do("SET a 1") + idle.do("PING"); got != "+OK+PONG" {
				t.Fatal(got)
			}
			g.Lease.Store(0)
			c.send("GET a\n")
			c.silent(ts)
			lose(g)
			c.expect("(eof)")
			if got := idle.do("PING"); got != "+PONG" {
				t.Error(got)
			}
		})
	}
}

// TestElectedWithinPass: replies of a term that began and ended within one iteration of the loop
// are never sent, even if the server leads again.
func TestElectedWithinPass(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Follower, 2)
	g.Lease.Store(0)
	c := ts.dial()
	id := strings.TrimPrefix(c.do("CLIENT ID"), ":")
	ts.onSession(id, func(l *loop, s *session) {
		g.Become(commands.Leader, 1, 2)
		l.isolate(s, func(s *session) { l.runCommand(s, [][]byte{[]byte("GET"), []byte("a")}) })
		g.Become(commands.Follower, 2, 3)
	})
	g.Lease.Store(4)
	g.Become(commands.Leader, 1, 4)
	c.expect("(eof)")
	// The same holds if the next term begins in that iteration as well. A reply of the new term
	// does not belong to the term before.
	next, other := ts.dial(), ts.dial()
	id = strings.TrimPrefix(next.do("CLIENT ID"), ":")
	ts.onSession(id, func(l *loop, s *session) {
		g.Lease.Store(0)
		get := func(s *session) { l.runCommand(s, [][]byte{[]byte("GET"), []byte("a")}) }
		l.isolate(s, get)
		g.Become(commands.Leader, 1, 6)
		l.isolate(s, get)
	})
	g.Lease.Store(6)
	next.expect("(eof)")
	if got := other.do("GET a"); got != "$-1" {
		t.Error(got)
	}
}

// TestDeposedWrites: the reply to a write is sent only when the write is committed, even if the
// server has stopped leading.
func TestDeposedWrites(t *testing.T) {
	t.Parallel()
	r := &replicated{}
	ts, g := startMember(t, commands.Leader, 1, r.use)
	c, other := ts.dial(), ts.dial()
	release := r.hold()
	t.Cleanup(release)
	c.send("SET a 1\nINCR a\n")
	c.silent(ts)
	g.Become(commands.Tentative, 0, 1)
	c.silent(ts)
	g.Become(commands.Follower, 2, 2)
	c.silent(ts)
	if got := other.do("GET a"); got != toSecond {
		t.Error(got)
	}
	release() // the new leader has it
	c.expect("+OK", ":2")
}

// TestWritesWithoutLeader: after a second without a leader, clients whose writes may or may not
// survive are closed. Other clients are not.
func TestWritesWithoutLeader(t *testing.T) {
	t.Parallel()
	r := &replicated{}
	clk, goOn := stopped(t)
	ts, g := startMember(t, commands.Leader, 1, clk, r.use)
	c, other := ts.dial(), ts.dial()
	release := r.hold()
	t.Cleanup(release)
	c.send("SET a 1\n")
	c.silent(ts)
	other.do("PING")
	g.Become(commands.Tentative, 0, 1)
	c.silent(ts)
	goOn()
	c.expect("(eof)")
	if got := other.do("PING"); got != "+PONG" {
		t.Error(got)
	}
	if got := other.do("GET a"); got != clusterDown {
		t.Error(got)
	}
}

// TestQuorumReads: with cluster-reads quorum, a majority confirms the reads of each iteration of
// the loop. The lease does not matter.
func TestQuorumReads(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Leader, 1, "cluster-reads=quorum")
	c := ts.dial()
	confirmed := func(leads bool) {
		t.Helper()
		await.Until(t, "a majority is asked", func() bool { return g.Answer(leads) > 0 })
	}
	c.send("SET a 1\n")
	confirmed(true)
	c.expect("+OK")
	c.send("GET a\n")
	c.silent(ts)
	confirmed(false)
	c.silent(ts)
	confirmed(true)
	c.expect("1")
	// The answer to a question does not confirm reads after the question.
	c.send("GET a\n")
	await.Until(t, "a majority is asked", func() bool {
		return g.Asked() == 1
	})
	c.send("PING\nGET a\n")
	await.Until(t, "it has run", func() bool { return ts.commandsOf(1) == 5 })
	confirmed(true)
	c.expect("1")
	confirmed(true)
	c.expect("+PONG", "1")
}

// commandsOf returns how many commands a client has run.
func (ts *testServer) commandsOf(id uint64) (n uint64) {
	ts.onLoop(func(l *loop) {
		if c := l.env.Clients[id]; c != nil {
			n = c.Commands
		}
	})
	return n
}

// TestDeposedBlocked: if a leader is deposed, its blocked clients are sent to the new leader.
// Clients that wait for its log get an error, because it does not lead any more.
func TestDeposedBlocked(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Leader, 1)
	pops, reads, waits, leases, kept := ts.dial(), ts.dial(), ts.dial(), ts.dial(), ts.dial()
	if got := kept.do("READONLY") + kept.do("PING"); got != "+OK+PONG" {
		t.Fatal(got)
	}
	if got := waits.do("KEYP.LEASE ACQUIRE a1 me 100000"); strings.HasPrefix(got, "-") {
		t.Fatal(got)
	}
	pops.send("BLPOP a 0\n")
	reads.send("XREAD BLOCK 0 STREAMS a 0\n")
	kept.send("XREAD BLOCK 0 STREAMS a 0\n")
	waits.send("WAIT 2 0\n")
	leases.send("KEYP.LEASE ACQUIRE a1 you 1000 WAIT 0\n")
	for _, c := range []*client{pops, reads, kept, waits, leases} {
		ts.waits(c, forUnblock)
	}
	g.Become(commands.Tentative, 0, 1)
	waits.expect("-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
	if n := g.Waiters(); n != 0 {
		t.Errorf("%d are still awaited", n)
	}
	pops.silent(ts)
	g.Become(commands.Follower, 2, 2)
	pops.expect(toSecond)
	reads.expect(toSecond)
	if got := leases.reply(); !strings.HasPrefix(got, "-MOVED ") ||
		!strings.HasSuffix(got, " 127.0.0.1:7002") {
		t.Error(got)
	}
	ts.waits(kept, forUnblock) // it has said READONLY
	if got := pops.do("PING"); got != "+PONG" {
		t.Error(got)
	}
}

// TestDeposedScript: a script ends when the server stops leading, even if the script has written.
func TestDeposedScript(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"reads":       "redis.call('GET', KEYS[1]) while true do end",
		"has written": "redis.call('SET', KEYS[1], 1) redis.call('GET', KEYS[1]) while true do end",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts, g := startMember(t, commands.Leader, 1)
			c, other := ts.dial(), ts.dial()
			c.raw(multibulk("EVAL", script, "1", "a"))
			await.Until(t, "the script runs", func() bool {
				return ts.env.Stats.Hits.Load()+ts.env.Stats.Misses.Load() > 0
			})
			g.Become(commands.Follower, 2, 2)
			c.expect("(eof)") // what it would reply is not the group's
			if got := other.do("GET a"); got != toSecond {
				t.Error(got)
			}
		})
	}
}

// TestGroupWait: WAIT and WAITAOF wait until other members have the client's writes on disk.
func TestGroupWait(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Leader, 1)
	c := ts.dial()
	if got := c.do("WAIT 5 1") + c.do("WAIT 0 0"); got != ":0:0" {
		t.Error(got)
	}
	if got := c.do("SET a 1"); got != "+OK" {
		t.Fatal(got)
	}
	end := ts.store.Log().End()
	c.send("WAIT 1 0\n")
	ts.waits(c, forUnblock)
	g.SyncTo(2, end-1)
	c.silent(ts)
	g.SyncTo(2, end)
	c.expect(":1")
	if got := c.do("WAIT 1 0") + c.do("WAIT 2 1"); got != ":1:1" {
		t.Error(got)
	}
	c.send("WAITAOF 1 2 0\n")
	ts.waits(c, forUnblock)
	g.SyncTo(3, end+1000)
	c.expect("*2 :1 :2")
	if got := c.do("WAITAOF 1 3 1"); got != "*2 :1 :2" {
		t.Error(got)
	}
	if got := c.do("EVAL \"return redis.call('WAIT', 9, 0)\" 0"); got != ":2" {
		t.Error(got)
	}
	if n := g.Waiters(); n != 0 {
		t.Errorf("%d are still awaited", n)
	}
	g.Become(commands.Follower, 2, 2)
	for _, command := range []string{"WAIT 1 0", "WAITAOF 0 0 0"} {
		if got := c.do(command); !strings.Contains(got, "cannot be used with replica instances") {
			t.Errorf("%s: %s", command, got)
		}
	}
}

// TestGroupActions: commands that change the group are passed to the member, and its answer is the
// reply.
func TestGroupActions(t *testing.T) {
	t.Parallel()
	ts, g := startMember(t, commands.Alone, 0)
	c := ts.dial()
	do := func(command, want string, err error, reply string) {
		t.Helper()
		c.send(command + "\n")
		if want != "" {
			ts.waits(c, forUnblock)
			g.Acted(t, want, err)
		}
		c.expect(reply)
	}
	do("CLUSTER FAILOVER", "", nil, "-ERR This server is alone, and no member of a group")
	do("CLUSTER FOUND", "found", nil, "+OK")
	do("CLUSTER MEET 127.0.0.1 7002", "meet 127.0.0.1 7002 0", nil, "+OK")
	do("CLUSTER MEET 127.0.0.1 7002 99", "meet 127.0.0.1 7002 99",
		errors.New("nobody answers at 127.0.0.1:99"), "-ERR nobody answers at 127.0.0.1:99")
	do("CLUSTER REPLICATE "+fakegroup.NodeID(2), "replicate "+fakegroup.NodeID(2), nil, "+OK")
	g.Become(commands.Leader, 1, 1)
	do("CLUSTER FOUND", "", nil, "-ERR This server is a member of a group already")
	do("CLUSTER FORGET "+fakegroup.NodeID(3), "forget "+fakegroup.NodeID(3),
		commands.Error("NOTYET wait"), "-NOTYET wait")
	do("CLUSTER FAILOVER", "", nil, "-ERR You should send CLUSTER FAILOVER to a replica")
	do("MULTI", "", nil, "+OK")
	do("CLUSTER FORGET "+fakegroup.NodeID(3), "", nil, "+QUEUED")
	do("EXEC", "", nil,
		"*1 -ERR The members of a group can't be changed within a transaction or a script")
	g.Become(commands.Follower, 2, 2)
	do("CLUSTER FAILOVER", "failover false", nil, "+OK")
	do("CLUSTER FAILOVER FORCE", "failover true", nil, "+OK")
	do("CLUSTER RESET HARD", "reset true", nil, "+OK")
}

// TestGroupAsRedis: members of a group answer like a master of redis-server in cluster mode and its
// replica.
func TestGroupAsRedis(t *testing.T) {
	t.Parallel()
	master, replica := redisPair(t)
	t.Run("replica", func(t *testing.T) { replicaAsRedis(t, master, replica) })
	t.Run("leader", func(t *testing.T) { leaderAsRedis(t, master, replica) })
}

// replicaAsRedis: a follower refuses, redirects and serves commands as a replica does.
func replicaAsRedis(t *testing.T, master, replica *testkit.Server) {
	ts, g := startMember(t, commands.Follower, 2)
	g.Join(ts.Port(), port(t, master))
	g.Become(commands.Follower, 2, 1)
	ids := map[string]string{fakegroup.NodeID(1): "<replica>", fakegroup.NodeID(2): "<master>",
		askRedis(t, master, "CLUSTER", "MYID"):  "<master>",
		askRedis(t, replica, "CLUSTER", "MYID"): "<replica>"}
	for _, id := range []*testkit.Server{master, replica} {
		ids[strconv.Itoa(port(t, id))] = "<port of " + ids[askRedis(t, id, "CLUSTER", "MYID")] + ">"
	}
	ids[strconv.Itoa(ts.Port())] = "<port of <replica>>"
	keyp, redis := ts.dial(), dial(t, "tcp", replica.Addr())
	compare(t, keyp, redis, ids, `
		GET a
		SET a 1
		MGET {a}1 {b}1
		DBSIZE
		KEYS x
		SCAN 0
		RANDOMKEY
		FLUSHALL
		FLUSHDB
		PUBLISH a b
		SPUBLISH a b
		SELECT 1
		SWAPDB 0 1
		MOVE a 1
		WATCH a
		REPLICAOF NO ONE
		REPLICAOF 127.0.0.1 1
		WAIT 1 1
		FUNCTION FLUSH
		FUNCTION LIST
		PING
		CONFIG SET maxmemory 0
		SSUBSCRIBE x
		SUNSUBSCRIBE x
		READONLY
		GET a
		EXISTS a
		SET a 1
		PFCOUNT a
		GETEX a
		SORT a
		SORT_RO a
		BLPOP a 1
		GEORADIUS a 1 1 1 m
		MULTI
		GET a
		EXEC
		MULTI
		SET a 1
		EXEC
		MULTI
		GET {a}1
		GET {b}1
		EXEC
		MULTI
		PING
		FLUSHALL
		EXEC
		WATCH a
		UNWATCH
		XREAD BLOCK 1 STREAMS a 0
		EVAL return~redis.call('get','a') 0
		EVAL return~redis.call('set','a',1) 0
		EVAL return~redis.pcall('set','a',1) 0
		EVAL return~redis.call('get',KEYS[1]) 1 a
		EVAL return~redis.call('set',KEYS[1],1) 1 a
		EVAL return~redis.call('flushall') 0
		EVAL return~redis.call('dbsize') 0
		EVAL #!lua^return~1 0
		EVAL #!lua^return~1 1 a
		EVAL #!lua~flags=no-writes^return~redis.call('get',KEYS[1]) 1 a
		READWRITE
		GET a
		MULTI
		GET a
		EXEC
		MULTI
		PING
		EXEC
		EVAL return~redis.call('get','a') 0
		EVAL return~redis.call('set','a',1) 0
		EVAL return~redis.call('get',KEYS[1]) 1 a
		EVAL return~redis.call('flushall') 0
		EVAL #!lua^return~1 0
		RESET
		GET a
		CLUSTER NODES
		CLUSTER SHARDS
		CLUSTER MYID
		CLUSTER ADDSLOTS 5
		CLUSTER SET-CONFIG-EPOCH 7
		CLUSTER REPLICAS `+fakegroup.NodeID(2)+`
		CLUSTER REPLICAS `+fakegroup.NodeID(1)+`
		CLUSTER FORGET `+fakegroup.NodeID(2)+`
		CLUSTER FORGET `+fakegroup.NodeID(1)+`
		CLUSTER FORGET x
		CLUSTER REPLICATE `+fakegroup.NodeID(1)+`
		CLUSTER REPLICATE x
		CLUSTER COUNT-FAILURE-REPORTS `+fakegroup.NodeID(2)+`
		CLUSTER FAILOVER x
		CLUSTER MEET x
		CLUSTER MEET 127.0.0.1 x
		CLUSTER MEET 127.0.0.1 1 x
		CLUSTER MEET nohost 5
		CLUSTER RESET x
		ROLE
	`)
	fields(t, keyp, redis, "INFO replication")
	cluster := func(c *client) string { return c.do("CLUSTER INFO") }
	for line := range strings.Lines(cluster(redis)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); !strings.HasPrefix(name,
			"cluster_stats_messages_") && !strings.HasSuffix(name, "_epoch") &&
			!strings.Contains(cluster(keyp), name+":"+value) {
			t.Errorf("CLUSTER INFO lacks %s:%s", name, value)
		}
	}
}

// leaderAsRedis: a leader shows its group as a master shows its replicas.
func leaderAsRedis(t *testing.T, master, replica *testkit.Server) {
	ts, g := startMember(t, commands.Leader, 1)
	g.Join(ts.Port(), port(t, replica))
	g.Become(commands.Leader, 1, 1)
	g.SyncTo(2, math.MaxInt64)
	ids := map[string]string{fakegroup.NodeID(1): "<master>", fakegroup.NodeID(2): "<replica>",
		askRedis(t, master, "CLUSTER", "MYID"):  "<master>",
		askRedis(t, replica, "CLUSTER", "MYID"): "<replica>",
		strconv.Itoa(ts.Port()):                 "<port>", master.Port(): "<port>"}
	keyp, redis := ts.dial(), dial(t, "tcp", master.Addr())
	compare(t, keyp, redis, ids, `
		SET a 1
		GET a
		FLUSHALL
		WAIT 1 0
		CLUSTER NODES
		CLUSTER SLOTS
		CLUSTER SHARDS
		CLUSTER LINKS
		CLUSTER REPLICAS `+fakegroup.NodeID(1)+`
		CLUSTER REPLICAS `+fakegroup.NodeID(2)+`
		CLUSTER FORGET `+fakegroup.NodeID(1)+`
		CLUSTER ADDSLOTS 5
		CLUSTER SET-CONFIG-EPOCH 7
		CLUSTER FAILOVER
		CLUSTER REPLICATE `+fakegroup.NodeID(1)+`
		ROLE
	`)
	fields(t, keyp, redis, "INFO replication")
}

// compare sends the same commands to both servers, and compares their replies. In the script ~ is a
// space within a word, and ^ is the end of a line.
func compare(t *testing.T, keyp, redis *client, ids map[string]string, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		for i := range words {
			words[i] = strings.NewReplacer("~", " ", "^", "\n").Replace(words[i])
		}
		keyp.raw(multibulk(words...))
		theirs := slices.Clone(words)
		for i := range theirs { // Redis's node has another id
			for id, name := range ids {
				if ids[words[i]] == name && id != words[i] && len(id) == 40 {
					theirs[i] = id
				}
			}
		}
		redis.raw(multibulk(theirs...))
		got, want := plain(keyp.reply(), ids), plain(redis.reply(), ids)
		if got != want {
			t.Errorf("%s:\nkeyp  %s\nredis %s", strings.TrimSpace(line), got, want)
		}
	}
}

var (
	// times matches whole words, so it does not match a part of a node's ID.
	times   = regexp.MustCompile(`\b1[0-9]{12}\b`)
	buses   = regexp.MustCompile(`@[0-9]+`)
	epochs  = regexp.MustCompile(` (0|<time>) (0|<time>) [0-9]+ connected`)
	offsets = regexp.MustCompile(`replication-offset :[0-9]+`)
	roles   = regexp.MustCompile(`(\*3 127.0.0.1 \S+) [0-9]+|connected :[0-9]+|(master) :[0-9]+`)
	script  = regexp.MustCompile(` script: .*`)
	buffers = regexp.MustCompile(`(send-buffer-[a-z]+) :[0-9]+|(events) rw?`)
)

// plain returns a reply without the parts that differ between servers. It sorts the lines of a
// text.
func plain(reply string, ids map[string]string) string {
	reply = times.ReplaceAllString(reply, "<time>") // before what may be a part of one
	for _, id := range slices.SortedFunc(maps.Keys(ids), func(a, b string) int {
		return len(b) - len(a)
	}) {
		reply = strings.ReplaceAll(reply, id, ids[id])
	}
	reply = buses.ReplaceAllString(reply, "@<bus>")
	reply = epochs.ReplaceAllString(reply, " <ping> <pong> <epoch> connected")
	reply = roles.ReplaceAllString(offsets.ReplaceAllString(reply, "replication-offset"), "$1$2")
	reply = buffers.ReplaceAllString(script.ReplaceAllString(reply, ""), "$1$2")
	lines := strings.Split(strings.TrimSpace(reply), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// fields compares the names of INFO's fields.
func fields(t *testing.T, keyp, redis *client, command string) {
	t.Helper()
	names := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			list = append(list, name)
		}
		return list
	}
	got, want := names(keyp.do(command)), names(redis.do(command))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\nkeyp  %v\nredis %v", command, got, want)
	}
}

func port(t *testing.T, s *testkit.Server) int {
	t.Helper()
	n, err := strconv.Atoi(s.Port())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func askRedis(t *testing.T, s *testkit.Server, args ...string) string {
	t.Helper()
	c := dial(t, "tcp", s.Addr())
	defer c.Close()
	c.raw(multibulk(args...))
	return c.reply()
}

// redisPair returns a master of redis-server with all slots, and its replica.
func redisPair(t *testing.T) (master, replica *testkit.Server) {
	t.Helper()
	master, replica = testkit.Redis(t, "--cluster-enabled", "yes"),
		testkit.Redis(t, "--cluster-enabled", "yes")
	id := askRedis(t, master, "CLUSTER", "MYID")
	for _, got := range []string{askRedis(t, master, "CLUSTER", "ADDSLOTSRANGE", "0", "16383"),
		askRedis(t, replica, "CLUSTER", "MEET", "127.0.0.1", master.Port())} {
		if got != "+OK" {
			t.Fatal(got)
		}
	}
	await.Until(t, "the replica knows its master", func() bool {
		return askRedis(t, replica, "CLUSTER", "REPLICATE", id) == "+OK"
	})
	await.Until(t, "it is connected", func() bool {
		return strings.Contains(askRedis(t, replica, "INFO", "replication"),
			"master_link_status:up") && strings.Contains(askRedis(t, replica, "CLUSTER", "INFO"),
			"cluster_state:ok") &&
			strings.Contains(askRedis(t, master, "CLUSTER", "NODES"), "slave "+id) &&
			strings.Contains(askRedis(t, master, "INFO", "replication"), "state=online") &&
			strings.Contains(askRedis(t, master, "CLUSTER", "INFO"), "cluster_state:ok") &&
			offsetsKnown(askRedis(t, master, "CLUSTER", "SLOTS"))
	})
	return master, replica
}

// offsetsKnown reports whether CLUSTER SLOTS of a master includes its replica. The master includes
// it once it has heard the replica's offset.
func offsetsKnown(slots string) bool { return strings.HasPrefix(slots, "*1 *4 ") }

// clientFrom returns a cluster client that asks the server first, and waits even if the server is
// slow.
func clientFrom(ts *testServer, readOnly bool) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: ts.Addrs()[:1], ReadOnly: readOnly,
		DialTimeout: await.Bound, ReadTimeout: await.Bound, WriteTimeout: await.Bound,
	})
}

// TestGroupClients: go-redis's cluster client finds the leader, reads from followers, and goes on
// when another member leads.
func TestGroupClients(t *testing.T) {
	t.Parallel()
	var (
		servers []*testServer
		groups  []*fakegroup.Group
		ports   []int
	)
	// The clock stands still, so the time without a leader never reaches a second. Otherwise the
	// client would get CLUSTERDOWN.
	clk, _ := stopped(t)
	for id := range uint64(3) {
		g := fakegroup.New(id + 1)
		ts := start(t, clk, "cluster-enabled=yes", inGroup(g))
		servers, groups, ports = append(servers, ts), append(groups, g), append(ports, ts.Port())
	}
	lead := func(leader, term uint64) {
		for _, g := range groups {
			g.Join(ports...)
			role := commands.Follower
			if g.ID == leader {
				role = commands.Leader
				g.Lease.Store(term)
			}
			g.Become(role, leader, term)
		}
	}
	lead(1, 1)
	ctx := context.Background()
	for _, addr := range []int{0, 1, 2} {
		c := clientFrom(servers[addr], false)
		defer c.Close()
		if err := c.Set(ctx, "k", addr, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got := c.Get(ctx, "k").Val(); got != strconv.Itoa(addr) {
			t.Errorf("k is %q", got)
		}
		masters, replicas := 0, 0
		if err := errors.Join(
			c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error {
				masters++
				return m.Ping(ctx).Err()
			}),
			c.ForEachSlave(ctx, func(ctx context.Context, r *redis.Client) error {
				return r.Ping(ctx).Err()
			}),
		); err != nil || masters != 1 {
			t.Errorf("%d masters, %v", masters, err)
		}
		if slots, err := c.ClusterShards(ctx).Result(); err != nil || len(slots) != 1 ||
			len(slots[0].Nodes) != 3 {
			t.Errorf("CLUSTER SHARDS: %v, %v", slots, err)
		} else {
			replicas = len(slots[0].Nodes) - 1
		}
		if replicas != 2 {
			t.Errorf("%d replicas", replicas)
		}
	}
	reader := clientFrom(servers[1], true)
	defer reader.Close()
	for range 20 {
		if err := reader.Get(ctx, "k").Err(); err != nil && err != redis.Nil {
			t.Error(err)
		}
	}
	if servers[1].env.Stats.Misses.Load()+servers[2].env.Stats.Misses.Load() == 0 {
		t.Error("no follower was asked")
	}
	if program, found := testkit.Find(t, "redis-cli"); found {
		redisCLI(t, program, ports[1])
	}
	writer := clientFrom(servers[0], false)
	defer writer.Close()
	if err := writer.Set(ctx, "k", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	groups[0].Become(commands.Tentative, 0, 1)
	done := make(chan error, 1)
	go func() { done <- writer.Set(ctx, "k", "y", 0).Err() }()
	await.Until(t, "it waits at the old leader", func() bool {
		waits := false
		servers[0].onLoop(func(l *loop) {
			waits = slices.ContainsFunc(l.sessions, func(s *session) bool {
				return s != nil && s.state == forGroup
			})
		})
		return waits
	})
	lead(3, 2)
	if err := await.For(t, "the write", done); err != nil {
		t.Fatal(err)
	}
	if got := writer.Get(ctx, "k").Val(); got != "y" {
		t.Errorf("k is %q at the new leader", got)
	}
}

// redisCLI checks that redis-cli follows a follower's redirection.
func redisCLI(t *testing.T, program string, port int) {
	t.Helper()
	out, err := exec.Command(program, "-c", "-p", strconv.Itoa(port), "GET", "k").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "2" {
		t.Errorf("redis-cli -c: %q, %v", got, err)
	}
}
