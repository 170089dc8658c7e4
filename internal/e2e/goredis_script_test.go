package e2e

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestGoRedisScripts(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "EVAL", run: evalTypes},
		{name: "Script.Run", run: scriptRun},
		{name: "read-only", run: evalReadOnly},
		{name: "SCRIPT", run: scriptCommands},
		{name: "errors", run: scriptErrors},
		{name: "atomic", run: scriptIsWhole},
		{name: "limited stock", run: scriptStock},
		{name: "wakes who waits", run: scriptWakes},
		{name: "does not wait", run: scriptDoesNotWait, newer: "7.2"},
		{name: "in a transaction", run: scriptInMulti},
		{name: "too long", run: scriptTooLong},
		{name: "functions", run: functions},
		{name: "function libraries", run: functionLibraries},
		{name: "functions over a restart", run: functionsRestart},
	})
}

func evalTypes(t *testing.T, c subject) {
	for _, e := range []struct {
		script string
		want   any
	}{
		{"return 3.99", int64(3)},
		{"return 'bytes\\0\\r\\n'", "bytes\x00\r\n"},
		{"return {1, 'two', {3, {'four'}}, nil, 5}",
			[]any{int64(1), "two", []any{int64(3), []any{"four"}}}},
		{"return redis.status_reply('FINE')", "FINE"},
		{"return true", int64(1)},
		{"return {KEYS[1], KEYS[2], ARGV[1], #KEYS, #ARGV}",
			[]any{"k", "l", "a", int64(2), int64(1)}},
		{"redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])", "a"},
		{"return redis.call('rpush', KEYS[2], 1, 2, 3.5)", int64(3)},
		{"return redis.call('lrange', KEYS[2], 0, -1)", []any{"1", "2", "3.5"}},
		{"return tostring(redis.call('get', 'nosuch'))", "false"},
		{"return redis.sha1hex('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{"return cjson.encode({a = {1, 2, 'x'}})", `{"a":[1,2,"x"]}`},
		{"return cjson.decode(ARGV[1] == 'a' and '{\"x\":[7]}' or '').x[1]", int64(7)},
		{"return cmsgpack.unpack(cmsgpack.pack({1, 'b', {c = 2}}))[2]", "b"},
		{"return {struct.unpack('>I2', struct.pack('>I2', 258))}", []any{int64(258), int64(3)}},
		{"return bit.tohex(bit.bor(1, 16))", "00000011"},
		{"return redis.error_reply('MY own') ~= nil and 'e'", "e"},
	} {
		got, err := c.Eval(ctx, e.script, []string{"k", "l"}, "a").Result()
		if err != nil || !reflect.DeepEqual(got, e.want) {
			t.Errorf("%s: %#v, %v, want %#v", e.script, got, err, e.want)
		}
	}
	missing(t, c.Eval(ctx, "return false", nil))
	missing(t, c.Eval(ctx, "return nil", nil))
	if c.proto == 3 {
		is[any](t, 1.5)(c.Eval(ctx, "redis.setresp(3) return {double = 1.5}", nil).Result())
		is[any](t, map[any]any{"f": "v"})(c.Eval(ctx,
			"redis.setresp(3) redis.call('hset', 'h', 'f', 'v') return redis.call('hgetall', 'h')",
			nil).Result())
		is(t, true)(c.Eval(ctx, "redis.setresp(3) return true", nil).Bool())
	}
}

// scriptRun: the client sends EVALSHA first, EVAL if the server does not know the script, and then
// EVALSHA.
func scriptRun(t *testing.T, c subject) {
	is(t, "OK")(c.ScriptFlush(ctx).Result())
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- " +
		fmt.Sprint(c.proto))
	fails(t, "NOSCRIPT No matching script. Please use EVAL.",
		script.EvalSha(ctx, c, []string{"n"}, 2))
	for i := range 5 {
		is(t, 2*(i+1))(script.Run(ctx, c, []string{"n"}, 2).Int())
	}
	is(t, []bool{true})(script.Exists(ctx, c).Result())
	is(t, 12)(script.EvalSha(ctx, c, []string{"n"}, 2).Int())
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 100 {
			script.EvalSha(ctx, p, []string{"n"}, 1)
		}
		return nil
	})
	if err != nil || cmds[99].(*redis.Cmd).Val() != int64(112) {
		t.Errorf("a pipeline of EVALSHA: %v, %v", cmds[99], err)
	}
}

func evalReadOnly(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	script := redis.NewScript("return redis.call('GET', KEYS[1])")
	is[any](t, "v")(script.EvalRO(ctx, c, []string{"k"}).Result())
	is[any](t, "v")(script.EvalShaRO(ctx, c, []string{"k"}).Result())
	is[any](t, "v")(script.RunRO(ctx, c, []string{"k"}).Result())
	if err := c.EvalRO(ctx, "return redis.call('SET', KEYS[1], 'w')",
		[]string{"k"}).Err(); err == nil || !strings.HasPrefix(err.Error(),
		"ERR Write commands are not allowed from read-only scripts.") {
		t.Errorf("a write of a read-only script: %v", err)
	}
	is(t, "v")(c.Get(ctx, "k").Result())
}

func scriptCommands(t *testing.T, c subject) {
	is(t, "OK")(c.ScriptFlush(ctx).Result())
	sha, err := c.ScriptLoad(ctx, "return 7").Result()
	if err != nil || sha != redis.NewScript("return 7").Hash() {
		t.Errorf("SCRIPT LOAD: %s, %v", sha, err)
	}
	is(t, []bool{true, false})(c.ScriptExists(ctx, sha, strings.Repeat("0", 40)).Result())
	is(t, 7)(c.EvalSha(ctx, strings.ToUpper(sha), nil).Int())
	is[any](t, "OK")(c.do("SCRIPT", "FLUSH", "ASYNC"))
	is(t, []bool{false})(c.ScriptExists(ctx, sha).Result())
	fails(t, "NOTBUSY No scripts in execution right now.", c.ScriptKill(ctx))
	is[any](t, "OK")(c.do("SCRIPT", "DEBUG", "NO"))
	is[any](t, "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")(
		first(c.do("SCRIPT", "HELP")))
	if err := c.ScriptLoad(ctx, "return (").Err(); err == nil || !strings.HasPrefix(err.Error(),
		"ERR Error compiling script (new function): user_script:1:") {
		t.Errorf("a script that is none: %v", err)
	}
}

func scriptErrors(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "s", "v", 0).Result())
	script := redis.NewScript(
		"redis.call('SET', 'before', 1)\nreturn redis.call('LPUSH', KEYS[1], 'x')")
	fails(t, "WRONGTYPE Operation against a key holding the wrong kind of value script: "+
		script.Hash()+", on @user_script:2.", script.Eval(ctx, c, []string{"s"}))
	is(t, "1")(c.Get(ctx, "before").Result()) // what came before the error stays
	is[any](t, "WRONGTYPE Operation against a key holding the wrong kind of value")(c.Eval(ctx,
		"return redis.pcall('LPUSH', KEYS[1], 'x').err", []string{"s"}).Result())
	fails(t, "MY own", c.Eval(ctx, "return redis.error_reply('MY own')", nil))
	fails(t, "ERR Number of keys can't be greater than number of args",
		c.Do(ctx, "EVAL", "return 1", 2, "k"))
	fails(t, "ERR Number of keys can't be negative", c.Do(ctx, "EVAL", "return 1", -1))
	for text, begin := range map[string]string{
		"return nosuch":                           "ERR user_script:1: Script attempted to access nonexistent global variable 'nosuch'",
		"x = 1":                                   "ERR user_script:1: Attempt to modify a readonly table",
		"return redis.call('nosuch')":             "ERR Unknown Redis command called from script",
		"return redis.call('GET')":                "ERR Wrong number of args calling Redis command from script",
		"return redis.call('SUBSCRIBE', 'c')":     "ERR This Redis command is not allowed from script",
		"return redis.call()":                     "ERR Please specify at least one argument for this redis lib call",
		"error('own text')":                       "ERR user_script:1: own text",
		"error({err = 'CODE text'})":              "CODE text",
		"return redis.call('INCR', KEYS[1]) + {}": "ERR ",
	} {
		if err := c.Eval(ctx, text, []string{"n"}).Err(); err == nil ||
			!strings.HasPrefix(err.Error(), begin) {
			t.Errorf("%s: error %v, want %s…", text, err, begin)
		}
	}
}

// scriptIsWhole: no client sees a part of a script's writes.
func scriptIsWhole(t *testing.T, s subject) {
	script := redis.NewScript(
		"for i = 1, 20 do redis.call('SET', 'key:' .. i, ARGV[1]) end return 1")
	rounds := often(40)
	together(t, s, func(worker int, c *redis.Conn) {
		names := make([]string, 20)
		for i := range names {
			names[i] = fmt.Sprint("key:", i+1)
		}
		for i := range rounds {
			if worker%4 == 0 {
				if err := script.Run(ctx, c, nil, fmt.Sprint(worker, ":", i)).Err(); err != nil {
					t.Error(err)
				}
				continue
			}
			values, err := c.MGet(ctx, names...).Result()
			if err != nil || slices.ContainsFunc(values, func(v any) bool {
				return v != values[0]
			}) {
				t.Errorf("%v, %v", values, err)
				return
			}
		}
	})
}

// scriptStock: fifty clients take from a limited stock, and none gets more than there is.
func scriptStock(t *testing.T, s subject) {
	const clients, stock = 50, 100
	take := redis.NewScript(`
		local left = tonumber(redis.call('GET', KEYS[1]) or '0')
		if left < tonumber(ARGV[1]) then return -1 end
		redis.call('RPUSH', KEYS[2], ARGV[2])
		return redis.call('DECRBY', KEYS[1], ARGV[1])`)
	is(t, "OK")(s.Set(ctx, "stock", stock, 0).Result())
	options := *s.Options()
	options.PoolSize = clients
	c := testkit.NewClient(t, &options)
	c.AddHook(recorder{s.keyp})
	var all sync.WaitGroup
	var taken atomic.Int64
	for client := range clients {
		all.Go(func() {
			for i := range 5 {
				left, err := take.Run(ctx, c, []string{"stock", "orders"}, 1,
					fmt.Sprint(client, ":", i)).Int()
				if err != nil {
					t.Error(err)
					return
				}
				if left >= 0 {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() != stock {
		t.Errorf("%d of %d were taken", taken.Load(), stock)
	}
	is(t, "0")(s.Get(ctx, "stock").Result())
	is(t, int64(stock))(s.LLen(ctx, "orders").Result())
}

func scriptWakes(t *testing.T, c subject) {
	reply := later(t, c, func(conn *redis.Conn) ([]string, error) {
		return conn.BLPop(ctx, 0, "l").Result()
	})
	c.waiting(t, 1)
	// The waiter is served from the state that the script leaves.
	is[any](t, int64(2))(c.Eval(ctx,
		"redis.call('RPUSH', KEYS[1], 'a', 'b', 'c') redis.call('LPOP', KEYS[1]) return redis.call('LLEN', KEYS[1])",
		[]string{"l"}).Result())
	is(t, []string{"l", "b"})(reply())
}

// scriptDoesNotWait: within a script a blocking command replies at once, as if its timeout had
// passed.
func scriptDoesNotWait(t *testing.T, c subject) {
	missing(t, c.Eval(ctx, "return redis.call('BLPOP', 'none', 0)", nil))
}

func scriptInMulti(t *testing.T, c subject) {
	var first, second *redis.Cmd
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "n", 1, 0)
		first = p.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{"n"})
		second = p.Eval(ctx, "return redis.call('GET', 'n') .. redis.call('TIME')[1]:sub(1, 0)",
			nil)
		return nil
	}); err != nil {
		t.Error(err)
	}
	is[any](t, int64(2))(first.Result())
	is[any](t, "2")(second.Result())
}

// scriptTooLong: while a script runs too long, other clients get an error. The script can be
// stopped unless it has written.
func scriptTooLong(t *testing.T, c subject) {
	is(t, "OK")(c.ConfigSet(ctx, "lua-time-limit", "20").Result())
	runs := make(chan error, 1)
	conn := c.conn(t)
	go func() { runs <- conn.Eval(ctx, "while true do end", nil).Err() }()
	var err error
	await.Until(t, "others are refused", func() bool {
		err = c.Ping(ctx).Err()
		return err != nil
	})
	const busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	if err.Error() != busy {
		t.Errorf("error %v", err)
	}
	fails(t, busy, c.FunctionKill(ctx))
	is(t, "OK")(c.ScriptKill(ctx).Result())
	if err := await.For(t, "the script ends", runs); err == nil ||
		!strings.HasPrefix(err.Error(), "ERR Script killed by user with SCRIPT KILL...") {
		t.Errorf("the script ended with %v", err)
	}
	missing(t, c.Get(ctx, "k"))
	is(t, "OK")(c.ConfigSet(ctx, "lua-time-limit", "5000").Result())
}

const libraryText = `#!lua name=mylib
redis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)
redis.register_function{function_name = 'peek', callback = function(keys, args) return redis.call('GET', keys[1]) end, flags = {'no-writes'}, description = 'looks'}`

func functions(t *testing.T, c subject) {
	is(t, "OK")(c.FunctionFlush(ctx).Result())
	is(t, "mylib")(c.FunctionLoad(ctx, libraryText).Result())
	is[any](t, int64(5))(c.FCall(ctx, "add", []string{"n"}, 5).Result())
	is[any](t, "5")(c.FCallRo(ctx, "peek", []string{"n"}).Result())
	is[any](t, "5")(c.FCall(ctx, "peek", []string{"n"}).Result())
	fails(t, "ERR Can not execute a script with write flag using *_ro command.",
		c.FCallRo(ctx, "add", []string{"n"}, 1))
	fails(t, "ERR Function not found", c.FCall(ctx, "nosuch", nil))
	fails(t, "ERR Library 'mylib' already exists", c.FunctionLoad(ctx, libraryText))
	is(t, "mylib")(c.FunctionLoadReplace(ctx, libraryText).Result())
	list, err := c.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: "my*",
		WithCode: true}).Result()
	if err != nil || len(list) != 1 || list[0].Code != libraryText || len(list[0].Functions) != 2 {
		t.Errorf("FUNCTION LIST: %+v, %v", list, err)
	}
	stats, err := c.FunctionStats(ctx).Result()
	if err != nil || stats.Running() || len(stats.Engines) != 1 ||
		stats.Engines[0].LibrariesCount != 1 || stats.Engines[0].FunctionsCount != 2 {
		t.Errorf("FUNCTION STATS: %+v, %v", stats, err)
	}
	fails(t, "NOTBUSY No scripts in execution right now.", c.FunctionKill(ctx))
	is(t, "OK")(c.FunctionDelete(ctx, "mylib").Result())
	fails(t, "ERR Library not found", c.FunctionDelete(ctx, "mylib"))
	is[any](t, "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")(
		first(c.do("FUNCTION", "HELP")))
}

func functionLibraries(t *testing.T, c subject) {
	is(t, "OK")(c.FunctionFlush(ctx).Result())
	is(t, "mylib")(c.FunctionLoad(ctx, libraryText).Result())
	dump, err := c.FunctionDump(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "ERR Library mylib already exists", c.FunctionRestore(ctx, dump))
	is(t, "OK")(c.FunctionFlushAsync(ctx).Result())
	is(t, "OK")(c.FunctionRestore(ctx, dump).Result())
	is[any](t, int64(1))(c.FCall(ctx, "add", []string{"n"}, 1).Result())
	is[any](t, "OK")(c.do("FUNCTION", "RESTORE", dump, "REPLACE"))
	is(t, "OK")(c.FlushAll(ctx).Result()) // leaves libraries
	is[any](t, int64(1))(c.FCall(ctx, "add", []string{"n"}, 1).Result())
	fails(t, "ERR DUMP payload version or checksum are wrong", c.FunctionRestore(ctx, dump[1:]))
	is(t, "OK")(c.FunctionFlush(ctx).Result())
}

// functionsRestart: a library exists until it is deleted, also across a restart.
func functionsRestart(t *testing.T, c subject) {
	if !c.keyp {
		return // it saves nothing here
	}
	is(t, "OK")(c.FunctionFlush(ctx).Result())
	is(t, "mylib")(c.FunctionLoad(ctx, libraryText).Result())
	c.server.Kill()
	c.server.Start()
	again := c.server.Client(c.proto)
	is[any](t, int64(3))(again.FCall(ctx, "add", []string{"n"}, 3).Result())
	is(t, "OK")(again.FunctionFlush(ctx).Result())
	c.server.Restart()
	fails(t, "ERR Function not found", c.server.Client(c.proto).FCall(ctx, "add", []string{"n"}, 3))
}
