package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// bothClusters starts both servers, each as the only node of a cluster, with all slots.
func bothClusters(t *testing.T, args ...string) *both {
	t.Helper()
	args = append(args, "--cluster-enabled", "yes")
	s := &both{redisServer: testkit.Redis(t, args...), keypServer: testkit.Keyp(t, args...)}
	s.keyp, s.redis = s.dial(t)
	for _, side := range s.sides() {
		s.mustDo(t, side, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		await.Until(t, "the cluster is complete", func() bool {
			return strings.Contains(s.mustDo(t, side, "CLUSTER", "INFO").text, "cluster_state:ok")
		})
	}
	return s
}

// TestDiffCluster: in cluster mode Keyp refuses and answers commands like redis-server.
func TestDiffCluster(t *testing.T) {
	t.Parallel()
	s := bothClusters(t)
	ids := [2]string{s.mustDo(t, s.keyp, "CLUSTER", "MYID").text,
		s.mustDo(t, s.redis, "CLUSTER", "MYID").text}
	ports := [2]string{s.keypServer.Port(), s.redisServer.Port()}
	for line := range strings.Lines(`
		CLUSTER KEYSLOT foo
		CLUSTER KEYSLOT {foo}bar
		CLUSTER SLOTS
		CLUSTER NODES
		CLUSTER LINKS
		CLUSTER ADDSLOTS 0
		CLUSTER ADDSLOTS 16384
		CLUSTER ADDSLOTS x
		CLUSTER ADDSLOTSRANGE 5 4
		CLUSTER ADDSLOTSRANGE 5 6 7
		CLUSTER DELSLOTS 5 5
		CLUSTER DELSLOTSRANGE 0 16384
		CLUSTER COUNTKEYSINSLOT x
		CLUSTER COUNTKEYSINSLOT 16384
		CLUSTER GETKEYSINSLOT 0 -1
		CLUSTER REPLICAS nosuch
		CLUSTER FORGET nosuch
		CLUSTER COUNT-FAILURE-REPORTS nosuch
		CLUSTER SAVECONFIG
		CLUSTER BUMPEPOCH
		CLUSTER BUMPEPOCH
		CLUSTER SET-CONFIG-EPOCH 9
		MSET {a}1 x {a}2 y
		MSET {a}1 x {b}2 y
		MGET {a}1 {a}2
		CLUSTER COUNTKEYSINSLOT 15495
		CLUSTER GETKEYSINSLOT 15495 0
		CLUSTER FLUSHSLOTS
		CLUSTER RESET
		RENAME {a}1 {b}1
		SUNIONSTORE d{a} s{a} s{b}
		XREAD STREAMS {a} {b} 0 0
		COPY {a}1 {a}3 DB 1
		COPY {a}1 {a}3
		SELECT 0
		SELECT 1
		SELECT x
		SWAPDB 0 1
		SWAPDB 0 0
		MOVE {a}1 1
		READONLY
		READWRITE
		ASKING
		PUBLISH c m
		SPUBLISH c m
		MULTI
		SET {a}1 1
		SET {b}1 1
		EXEC
		EXEC
		MULTI
		MSET {a}1 1 {b}1 2
		EXEC
		MULTI
		SET {a}1 1
		INCR {a}1
		EXEC
		WATCH {a}1 {b}1
		WATCH {a}1
		MULTI
		PING
		EXEC
		ZUNION 2 {a}z {b}z
		BLPOP {a}l {b}l 1
		SORT {a}l STORE {b}l
		EVAL return{redis.call('GET','{a}1'),redis.call('GET','{b}1')} 0
		EVAL return{redis.call('GET','{a}1'),redis.call('GET','{b}1')} 1 {b}1
		EVAL return{redis.call('GET','{a}1')} 2 {b}1 {a}1
		EVAL return{redis.pcall('SELECT',1)} 0
		CLUSTER DELSLOTS 3300
		GET {b}1
		GET {a}1
		DEL {a}1 {b}1
		DEL {b}1 {a}1
		PING
		KEYS {a}1
		EVAL return{redis.pcall('GET','{a}1')} 0
		CONFIG SET cluster-allow-reads-when-down yes
		GET {a}1
		SET {a}1 x
		EVAL return{redis.pcall('GET','{a}1')} 0
		EVAL return{redis.pcall('SET','{a}1',1)} 0
		CONFIG SET cluster-require-full-coverage no
		GET {a}1
		GET {b}1
		SET {a}1 x
		FLUSHALL
		CLUSTER FLUSHSLOTS
		CLUSTER SLOTS
		CLUSTER RESET SOFT
		CLUSTER RESET x
	`) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		if args[0] == "EVAL" {
			args[1] = strings.Replace(args[1], "return{", "return {", 1)
		}
		if strings.HasPrefix(line, "\t\tCLUSTER DELSLOTS 3300") ||
			strings.HasPrefix(line, "\t\tCONFIG") {
			for _, side := range s.sides() {
				s.mustDo(t, side, args...)
			}
			await.Until(t, "redis-server has looked at its slots", func() bool {
				// redis-server notices the change at the end of its next cycle.
				keyp, redis, err := s.ask("CLUSTER", "INFO")
				if err != nil {
					t.Fatal(err)
				}
				return clusterState(keyp.text) == clusterState(redis.text)
			})
			continue
		}
		keyp, redis, err := s.ask(args...)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range []*string{&keyp.raw, &redis.raw} {
			*text = strings.ReplaceAll(strings.ReplaceAll(*text, ids[i], "<id>"),
				ports[i], "<port>")
		}
		keyp.raw, redis.raw = withoutBus(keyp.raw), withoutBus(redis.raw)
		if keyp.raw != redis.raw {
			t.Errorf("%s:\nkeyp  %q\nredis %q", strings.TrimSpace(line), keyp.raw, redis.raw)
		}
	}
}

func clusterState(info string) string {
	state, _, _ := strings.Cut(info, "\r\n")
	return state
}

// withoutBus removes the port for other nodes, which depends on the server's port. It also removes
// the length of the text.
func withoutBus(text string) string {
	before, after, ok := strings.Cut(text, "@")
	if !ok {
		return text
	}
	_, after, _ = strings.Cut(after, " ")
	_, before, _ = strings.Cut(before, "\n")
	return before + "@ " + after
}

// TestDiffClusterCommands: generated commands to a cluster with one node get the same replies as
// from redis-server. Most replies are errors, since the keys of a command are in several slots.
// From 7.4 on, SORT refuses other patterns.
func TestDiffClusterCommands(t *testing.T) {
	t.Parallel()
	pool := slices.Concat(keyGenerators, bitmapGenerators, hllGenerators, listGenerators,
		hashGenerators, setGenerators, zsetGenerators, geoGenerators, streamGenerators)
	bothClusters(t, bulkFlag...).runOf(t, diffShare(t, 8), pool, nil)
}

// TestClusterClient: the cluster client of go-redis works with one Keyp as with one redis-server,
// also across a restart.
func TestClusterClient(t *testing.T) {
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", proto), func(t *testing.T) {
			t.Parallel()
			s := bothClusters(t)
			for _, server := range []*testkit.Server{s.keypServer, s.redisServer} {
				c := redis.NewClusterClient(&redis.ClusterOptions{
					Addrs: []string{server.Addr()}, Protocol: proto,
					// With shorter times the client would repeat commands that a slow machine has
					// not answered yet.
					DialTimeout: await.Bound, ReadTimeout: await.Bound, WriteTimeout: await.Bound,
				})
				t.Cleanup(func() { _ = c.Close() })
				clusterWork(t, c, 0)
				if server == s.keypServer {
					server.Kill()
					server.Start()
					clusterWork(t, c, 1)
				}
			}
		})
	}
}

// clusterWork uses keys of many slots. round is the number of calls before this one.
func clusterWork(t *testing.T, c *redis.ClusterClient, round int) {
	t.Helper()
	await.Until(t, "the cluster answers", func() bool { return c.Ping(ctx).Err() == nil })
	for i := range 50 {
		n, err := c.Incr(ctx, fmt.Sprint("counter", i)).Result()
		if err != nil || n != int64(round+1) {
			t.Fatalf("counter%d is %d, %v", i, n, err)
		}
	}
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 50 {
			p.Get(ctx, fmt.Sprint("counter", i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, cmd := range cmds {
		if got := cmd.(*redis.StringCmd).Val(); got != fmt.Sprint(round+1) {
			t.Errorf("counter%d is %s", i, got)
		}
	}
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "{user}name", "ann", 0)
		p.Set(ctx, "{user}mail", "ann@example.org", 0)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if got, err := c.MGet(ctx, "{user}name", "{user}mail").Result(); err != nil || len(got) != 2 ||
		got[1] != "ann@example.org" {
		t.Errorf("MGET: %v, %v", got, err)
	}
	if err := c.MGet(ctx, "a", "b").Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "CROSSSLOT ") {
		t.Errorf("MGET of two slots: %v", err)
	}
	if n, err := c.Eval(ctx, "return redis.call('STRLEN', KEYS[1])",
		[]string{"{user}name"}).Int(); err != nil || n != 3 {
		t.Errorf("EVAL: %d, %v", n, err)
	}
	if n, err := c.DBSize(ctx).Result(); err != nil || n != 52 {
		t.Errorf("DBSIZE: %d, %v", n, err)
	}
	if shards, err := c.ClusterShards(ctx).Result(); err != nil || len(shards) != 1 ||
		len(shards[0].Nodes) != 1 || shards[0].Slots[0].End != 16383 {
		t.Errorf("CLUSTER SHARDS: %v, %v", shards, err)
	}
	sub := c.SSubscribe(ctx, "news")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Error(err)
	}
	if n, err := c.SPublish(ctx, "news", "hello").Result(); err != nil || n != 1 {
		t.Errorf("SPUBLISH: %d, %v", n, err)
	}
}
