package e2e

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestGoRedisAdmin(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "modules", run: noModules},
		{name: "replication", run: noReplication},
		{name: "cluster", run: func(t *testing.T, c subject) {
			noCluster(t, c, "ADDSLOTS 1", "ADDSLOTSRANGE 1 2", "DELSLOTS 1", "DELSLOTSRANGE 1 2",
				"FLUSHSLOTS", "BUMPEPOCH", "SET-CONFIG-EPOCH 1", "SAVECONFIG", "RESET",
				"MEET 127.0.0.1 7000", "FORGET x", "REPLICATE x", "FAILOVER", "REPLICAS x",
				"SLAVES x", "COUNT-FAILURE-REPORTS x",
				"INFO", "NODES", "SLOTS", "SHARDS", "LINKS", "MYID", "HELP", "KEYSLOT k",
				"COUNTKEYSINSLOT 1", "GETKEYSINSLOT 1 10")
		}},
		{name: "CLUSTER MYSHARDID", run: func(t *testing.T, c subject) {
			noCluster(t, c, "MYSHARDID")
		}, newer: "7.2"},
		{name: "CLUSTER FOUND", run: func(t *testing.T, c subject) {
			noCluster(t, c, "FOUND")
		}, newer: "Keyp's own"},
		{name: "WAITAOF", run: waitAOF, newer: "7.2"},
		{name: "OBJECT FREQ", run: objectFreq},
	})
}

// first returns the first item of a list.
func first(list any, err error) (any, error) {
	if items, ok := list.([]any); ok && len(items) > 0 {
		return items[0], err
	}
	return list, err
}

func noModules(t *testing.T, c subject) {
	is[any](t, []any{})(c.do("MODULE", "LIST"))
	for _, line := range []string{"MODULE LOAD /nowhere.so", "MODULE LOADEX /nowhere.so",
		"MODULE UNLOAD nosuch"} {
		if err := c.Do(ctx, words(line)...).Err(); err == nil ||
			!strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("%s: %v", line, err)
		}
	}
	is[any](t, "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")(
		first(c.do("MODULE", "HELP")))
}

// noCluster checks that commands for nodes of a cluster are refused.
func noCluster(t *testing.T, c subject, asked ...string) {
	for _, line := range asked {
		fails(t, "ERR This instance has cluster support disabled",
			c.Do(ctx, words("CLUSTER "+line)...))
	}
	for _, name := range []string{"READONLY", "READWRITE", "ASKING"} {
		fails(t, "ERR This instance has cluster support disabled", c.Do(ctx, name))
	}
}

func noReplication(t *testing.T, c subject) {
	is(t, "OK")(c.ReplicaOf(ctx, "NO", "ONE").Result())
	is[any](t, "OK")(c.do("SLAVEOF", "no", "one"))
	is[any](t, "master")(first(c.do("ROLE")))
}

func waitAOF(t *testing.T, c subject) {
	conn := c.conn(t)
	is(t, "OK")(conn.Set(ctx, "k", "v", 0).Result())
	is[any](t, []any{int64(1), int64(0)})(conn.Do(ctx, "WAITAOF", 1, 0, 0).Result())
	is(t, "OK")(c.ConfigSet(ctx, "appendfsync", "no").Result())
	is(t, "OK")(conn.Set(ctx, "k", "w", 0).Result())
	is[any](t, []any{int64(1), int64(0)})(conn.Do(ctx, "WAITAOF", 1, 0, 0).Result())
	is(t, "OK")(c.ConfigSet(ctx, "appendfsync", "always").Result())
	var nested *redis.Cmd
	if _, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "k", "x", 0)
		nested = p.Do(ctx, "WAITAOF", 1, 0, 0)
		return nil
	}); err != nil || len(nested.Val().([]any)) != 2 {
		t.Errorf("WAITAOF in EXEC: %v, %v", nested, err)
	}
	fails(t, "ERR value is out of range, must be between 0 and 1", conn.Do(ctx, "WAITAOF", 2, 0, 0))
}

func objectFreq(t *testing.T, c subject) {
	is(t, "OK")(c.ConfigSet(ctx, "maxmemory-policy", "allkeys-lfu").Result())
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, int64(5))(c.ObjectFreq(ctx, "k").Result())
	is(t, "v")(c.Get(ctx, "k").Result())
	is(t, int64(6))(c.ObjectFreq(ctx, "k").Result())
	missing(t, c.ObjectFreq(ctx, "none"))
	is(t, "OK")(c.ConfigSet(ctx, "maxmemory-policy", "noeviction").Result())
}
