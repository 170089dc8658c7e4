package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestGoRedisServer: for commands about the server, such as INFO and CONFIG, go-redis gets the
// right replies from Keyp and from Redis.
func TestGoRedisServer(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "TIME and ROLE", run: timeAndRole},
		{name: "INFO", run: info},
		{name: "CONFIG", run: configuration},
		{name: "COMMAND", run: commandTable},
		{name: "SAVE", run: save},
		{name: "SLOWLOG", run: slowlog},
		{name: "LATENCY", run: latency},
		{name: "MEMORY", run: memory},
		{name: "DEBUG", run: debugCommand},
		{name: "HELP", run: help},
	})
}

func timeAndRole(t *testing.T, c subject) {
	before := time.Now().Truncate(time.Microsecond)
	now, err := c.Time(ctx).Result()
	if after := time.Now(); err != nil || now.Before(before.Add(-time.Millisecond)) ||
		now.After(after) {
		t.Errorf("TIME %v, %v, want %v to %v", now, err, before, after)
	}
	is[any](t, []any{"master", int64(0), []any{}})(c.do("ROLE"))
	is[any](t, int64(0))(c.do("WAIT", 0, 0))
	if text, err := c.Do(ctx, "LOLWUT").Text(); err != nil || !strings.Contains(text, "ver") {
		t.Errorf("LOLWUT: %q, %v", text, err)
	}
}

func info(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "a", "v", time.Minute).Result())
	is(t, "OK")(c.Set(ctx, "b", "v", 0).Result())
	all, err := c.InfoMap(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	for section, fields := range infoFields {
		for _, field := range fields {
			if _, ok := all[section][field]; !ok {
				t.Errorf("INFO has no %s in section %s", field, section)
			}
		}
	}
	if got := all["Keyspace"]["db0"]; !strings.HasPrefix(got, "keys=2,expires=1,avg_ttl=") {
		t.Errorf("INFO keyspace: %q", got)
	}
	one, err := c.InfoMap(ctx, "server").Result()
	if err != nil || len(one) != 1 || one["Server"]["redis_version"] == "" {
		t.Errorf("INFO server: %v, %v", one, err)
	}
	two, err := c.InfoMap(ctx, "memory", "stats").Result()
	if err != nil || len(two) != 2 {
		t.Errorf("INFO memory stats: %d sections, %v", len(two), err)
	}
	every, err := c.InfoMap(ctx, "everything").Result()
	if err != nil || every["Commandstats"]["cmdstat_set"] == "" {
		t.Errorf("INFO everything: %v, %v", every["Commandstats"], err)
	}
	is(t, "")(c.Info(ctx, "nosuch").Result())
}

func configuration(t *testing.T, c subject) {
	is(t, map[string]string{"maxmemory-policy": "noeviction"})(c.ConfigGet(ctx,
		"maxmemory-policy").Result())
	is(t, map[string]string{})(c.ConfigGet(ctx, "nosuch*").Result())
	several, err := c.Do(ctx, "CONFIG", "GET", "max[mc]*", "databases", "Timeout").Result()
	if err != nil || !strings.Contains(fmt.Sprint(several), "maxclients") ||
		!strings.Contains(fmt.Sprint(several), "imeout") {
		t.Errorf("CONFIG GET of several: %v, %v", several, err)
	}
	is(t, "OK")(c.ConfigSet(ctx, "timeout", "100").Result())
	is(t, map[string]string{"timeout": "100"})(c.ConfigGet(ctx, "timeout").Result())
	is(t, "OK")(c.ConfigSet(ctx, "maxmemory", "100mb").Result())
	is(t, map[string]string{"maxmemory": "104857600"})(c.ConfigGet(ctx, "maxmemory").Result())
	is[any](t, "OK")(c.do("CONFIG", "SET", "maxmemory", 0, "timeout", 0))
	fails(t,
		"ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer",
		c.Do(ctx, "CONFIG", "SET", "maxmemory", "200mb", "timeout", "x"))
	is(t, map[string]string{"maxmemory": "0"})(c.ConfigGet(ctx, "maxmemory").Result())
	fails(t, "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
		c.ConfigSet(ctx, "nosuch", "1"))
	fails(t,
		"ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive",
		c.ConfigSet(ctx, "maxclients", "0"))
	fails(t,
		"ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
		c.ConfigSet(ctx, "databases", "3"))
	fails(t, "ERR The server is running without a config file", c.ConfigRewrite(ctx))
	is(t, "OK")(c.ConfigResetStat(ctx).Result())
	if n := c.InfoMap(ctx, "stats").Val()["Stats"]["total_commands_processed"]; len(n) > 1 {
		t.Errorf("after CONFIG RESETSTAT %s commands are counted", n)
	}
}

func commandTable(t *testing.T, c subject) {
	commands, err := c.Command(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	count, err := c.Do(ctx, "COMMAND", "COUNT").Int()
	if err != nil || count != len(commands) {
		t.Errorf("COMMAND COUNT %d, %v; COMMAND lists %d", count, err, len(commands))
	}
	get := commands["get"]
	if get == nil || get.Arity != 2 || get.FirstKeyPos != 1 || get.LastKeyPos != 1 ||
		get.StepCount != 1 ||
		!get.ReadOnly || !slices.Contains(get.Flags, "fast") ||
		!slices.Contains(get.ACLFlags, "@string") {
		t.Errorf("COMMAND: get is %+v", get)
	}
	list, err := c.CommandList(ctx, nil).Result()
	if err != nil || !slices.Contains(list, "get") || !slices.Contains(list, "config|get") {
		t.Errorf("COMMAND LIST: %q, %v", list, err)
	}
	is(t, []string{"setex", "setnx"})(
		sorted(c.CommandList(ctx, &redis.FilterBy{Pattern: "set[en]*"}).Val()), nil)
	is(t, []string{"a", "b"})(c.CommandGetKeys(ctx, "MSET", "a", "1", "b", "2").Result())
	is(t, []redis.KeyFlags{{Key: "k", Flags: []string{"RW", "access", "delete"}}})(
		c.CommandGetKeysAndFlags(ctx, "GETDEL", "k").Result())
	if docs, err := c.Do(ctx, "COMMAND", "DOCS", "get").Result(); err != nil ||
		!strings.Contains(fmt.Sprint(docs), "1.0.0") {
		t.Errorf("COMMAND DOCS get: %v, %v", docs, err)
	}
	if infos, err := c.Do(ctx, "COMMAND", "INFO", "get", "nosuch").Slice(); err != nil ||
		len(infos) != 2 || infos[1] != nil {
		t.Errorf("COMMAND INFO: %v, %v", infos, err)
	}
	fails(t, "ERR The command has no key arguments", c.CommandGetKeys(ctx, "ECHO", "x"))
	fails(t, "ERR Invalid command specified", c.CommandGetKeys(ctx, "NOSUCH", "a"))
	fails(t, "ERR Invalid number of arguments specified for command",
		c.CommandGetKeys(ctx, "SET", "k"))
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func save(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, "OK")(c.Save(ctx).Result())
	if last := c.LastSave(ctx).Val(); last < time.Now().Add(-time.Minute).Unix() {
		t.Errorf("LASTSAVE %d is long ago", last)
	}
	idle := func() bool {
		p := c.InfoMap(ctx, "persistence").Val()["Persistence"]
		return p["rdb_bgsave_in_progress"] == "0" && p["aof_rewrite_in_progress"] == "0"
	}
	is(t, "Background saving started")(c.BgSave(ctx).Result())
	await.Until(t, "BGSAVE ends", idle)
	is(t, "Background append only file rewriting started")(c.BgRewriteAOF(ctx).Result())
	await.Until(t, "BGREWRITEAOF ends", idle)
	is(t, "ok")(c.InfoMap(ctx, "persistence").Val()["Persistence"]["rdb_last_bgsave_status"], nil)
	fails(t, "ERR syntax error", c.Do(ctx, "BGSAVE", "NOW"))
	fails(t, "ERR syntax error", c.Do(ctx, "SHUTDOWN", "LATER"))
}

func slowlog(t *testing.T, c subject) {
	is(t, "OK")(c.ConfigSet(ctx, "slowlog-log-slower-than", "0").Result())
	is(t, "OK")(c.SlowLogReset(ctx).Result())
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	// On a busy machine any command may be slow, so the log is stopped first.
	is(t, "OK")(c.ConfigSet(ctx, "slowlog-log-slower-than", "-1").Result())
	logged, err := c.SlowLogGet(ctx, -1).Result()
	found := slices.ContainsFunc(logged, func(l redis.SlowLog) bool {
		return slices.Equal(l.Args, []string{"set", "k", "v"})
	})
	if err != nil || !found {
		t.Errorf("SLOWLOG GET: %+v, %v; want set k v", logged, err)
	}
	if n, err := c.SlowLogLen(ctx).Result(); err != nil || n < 2 {
		t.Errorf("SLOWLOG LEN %d, %v", n, err)
	}
	is(t, "OK")(c.SlowLogReset(ctx).Result())
	is(t, int64(0))(c.SlowLogLen(ctx).Result())
	fails(t, "ERR count should be greater than or equal to -1", c.Do(ctx, "SLOWLOG", "GET", "-2"))
	is(t, "OK")(c.ConfigSet(ctx, "slowlog-log-slower-than", "10000").Result())
}

func latency(t *testing.T, c subject) {
	is[any](t, []any{})(c.do("LATENCY", "LATEST"))
	is[any](t, []any{})(c.do("LATENCY", "HISTORY", "command"))
	is[any](t, int64(0))(c.do("LATENCY", "RESET"))
	fails(t, "ERR No samples available for event 'command'",
		c.Do(ctx, "LATENCY", "GRAPH", "command"))
	if text, err := c.Do(ctx, "LATENCY", "DOCTOR").Text(); err != nil || text == "" {
		t.Errorf("LATENCY DOCTOR: %q, %v", text, err)
	}
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	histogram, err := c.Do(ctx, "LATENCY", "HISTOGRAM", "set").Result()
	if text := fmt.Sprint(histogram); err != nil || !strings.Contains(text, "histogram_usec") {
		t.Errorf("LATENCY HISTOGRAM set: %s, %v", text, err)
	}
}

func memory(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", strings.Repeat("x", 10_000), 0).Result())
	if n, err := c.MemoryUsage(ctx, "k", 5).Result(); err != nil || n < 10_000 || n > 40_000 {
		t.Errorf("MEMORY USAGE of 10,000 bytes: %d, %v", n, err)
	}
	missing(t, c.MemoryUsage(ctx, "none"))
	is[any](t, "OK")(c.do("MEMORY", "PURGE"))
	if stats, err := c.Do(ctx, "MEMORY", "STATS").Result(); err != nil ||
		!strings.Contains(fmt.Sprint(stats), "keys.count") {
		t.Errorf("MEMORY STATS: %v, %v", stats, err)
	}
	for _, sub := range []string{"DOCTOR", "MALLOC-STATS"} {
		if text, err := c.Do(ctx, "MEMORY", sub).Text(); err != nil || text == "" {
			t.Errorf("MEMORY %s: %q, %v", sub, text, err)
		}
	}
	fails(t, "ERR syntax error", c.Do(ctx, "MEMORY", "USAGE", "k", "NOPE", "1"))
}

func debugCommand(t *testing.T, c subject) {
	if lines, err := c.Do(ctx, "DEBUG", "HELP").StringSlice(); err != nil || len(lines) < 4 {
		t.Errorf("DEBUG HELP: %q, %v", lines, err)
	}
	if c.keyp { // in Redis DEBUG PANIC ends the server
		is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
		at := time.Now()
		is[any](t, "OK")(c.do("DEBUG", "SLEEP", "0.03"))
		if took := time.Since(at); took < 30*time.Millisecond {
			t.Errorf("DEBUG SLEEP 0.03 took %v", took)
		}
		is[any](t, "OK")(c.do("DEBUG", "SET-ACTIVE-EXPIRE", 0))
		is[any](t, "OK")(c.do("DEBUG", "SET-ACTIVE-EXPIRE", 1))
		for _, args := range [][]any{
			{"DEBUG", "RELOAD"}, {"DEBUG", "LOADAOF"}, {"DEBUG", "HTSTATS", "0"},
			{"DEBUG", "SDSLEN", "k"}, {"DEBUG", "JMAP"}, {"DEBUG", "CHANGE-REPL-ID"},
			{"DEBUG", "DIGEST"}, {"DEBUG", "DIGEST-VALUE", "k"},
			{"DEBUG", "PROTOCOL", "string"}, {"DEBUG", "STRINGMATCH-LEN", "a*", "abc"},
		} {
			if _, err := c.do(args...); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
		fails(t, "MY text", c.Do(ctx, "DEBUG", "ERROR", "MY text"))
		if text, err := c.DebugObject(ctx, "k").Result(); err != nil ||
			!strings.Contains(text, "encoding:embstr") {
			t.Errorf("DEBUG OBJECT: %q, %v", text, err)
		}
		is[any](t, "OK")(c.do("DEBUG", "COMPACT"))
		is[any](t, "OK")(c.do("SET", "due", "v", "EX", 3600))
		fails(t, "ERR time is not guarded: there is no step of the clock to confirm",
			c.Do(ctx, "KEYP.CLOCK", "CONFIRM"))
		is[any](t, "OK")(c.do("DEBUG", "CLOCK-OFFSET", 3600_000))
		is(t, int64(1))(c.Exists(ctx, "due").Result())
		if got := fieldsOf(c.Do(ctx, "KEYP.CLOCK", "INFO").Val()); got["state"] != "guarded" ||
			!about(got["ahead"], 3600_000) {
			t.Errorf("after a step: %v", got)
		}
		is[any](t, "OK")(c.do("KEYP.CLOCK", "CONFIRM"))
		is(t, int64(0))(c.Exists(ctx, "due").Result())
		if got := fieldsOf(c.Do(ctx, "KEYP.CLOCK", "INFO").Val()); got["state"] != "follows" ||
			got["ahead"] != int64(0) {
			t.Errorf("confirmed: %v", got)
		}
		is[any](t, "OK")(c.do("DEBUG", "CLOCK-OFFSET", 0))
		is(t, int64(0))(c.Exists(ctx, "due").Result())
		fails(t, "ERR internal error", c.Do(ctx, "DEBUG", "PANIC"))
		is(t, "v")(c.Get(ctx, "k").Result())
	}
}

// fieldsOf returns the fields of a map reply, in either protocol.
func fieldsOf(reply any) map[string]any {
	fields := map[string]any{}
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			fields[fmt.Sprint(name)] = value
		}
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			fields[fmt.Sprint(reply[i])] = reply[i+1]
		}
	}
	return fields
}

// about returns true if a number differs from want by less than a second.
func about(n any, want int64) bool {
	got, ok := n.(int64)
	return ok && got > want-1000 && got < want+1000
}

func help(t *testing.T, c subject) {
	if c.keyp {
		if lines, err := c.Do(ctx, "KEYP.CLOCK", "HELP").StringSlice(); err != nil ||
			len(lines) < 4 {
			t.Errorf("KEYP.CLOCK HELP: %q, %v", lines, err)
		}
	}
	for _, container := range []string{"CONFIG", "COMMAND", "MEMORY", "LATENCY", "SLOWLOG"} {
		lines, err := c.Do(ctx, container, "HELP").StringSlice()
		if err != nil || len(lines) < 4 || !strings.HasPrefix(lines[0], container) {
			t.Errorf("%s HELP: %q, %v", container, lines, err)
		}
		fails(t, "ERR unknown subcommand 'NOPE'. Try "+container+" HELP.",
			c.Do(ctx, container, "NOPE"))
	}
}

// TestGoRedisShutdown: SHUTDOWN sends no reply and stops the server cleanly.
func TestGoRedisShutdown(t *testing.T) {
	t.Parallel()
	server := testkit.NewKeyp(t, testkit.Options{})
	go func() {
		var c *wire
		if !await.Reached(func() (started bool) {
			var err error
			c, err = dialWire(server.Addr())
			return err == nil
		}) {
			return // Refuses says so
		}
		defer c.Close()
		if r, err := c.do("SET", "k", "v"); err != nil || r.text != "OK" {
			t.Errorf("SET: %q, %v", r.raw, err)
		}
		if r, err := c.do("SHUTDOWN"); err == nil {
			t.Errorf("SHUTDOWN answers %q", r.raw)
		}
	}()
	if status, printed := server.Refuses(); status != 0 {
		t.Errorf("exit status %d after SHUTDOWN:\n%s", status, printed)
	}
	server.Start()
	is(t, "v")(server.Client(3).Get(ctx, "k").Result())
}
