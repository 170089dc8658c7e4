package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestGoRedisKeys(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "TYPE and OBJECT", run: typeAndObject},
		{name: "RENAME", run: rename},
		{name: "COPY", run: copyKeys},
		{name: "MOVE and SWAPDB", run: moveAndSwap},
		{name: "KEYS", run: keysByPattern},
		{name: "SCAN", run: scanKeys},
		{name: "RANDOMKEY", run: randomKey},
		{name: "FLUSHDB and FLUSHALL", run: flush},
		{name: "errors", run: keyErrors},
	})
}

// other returns a client of another database of the same server.
func (s subject) other(db int) subject {
	c := s.server.ClientDB(s.proto, db)
	c.AddHook(recorder{s.keyp})
	s.Client = c
	return s
}

func typeAndObject(t *testing.T, c subject) {
	is(t, "none")(c.Type(ctx, "k").Result())
	missing(t, c.ObjectEncoding(ctx, "k"))
	for value, want := range map[string]string{
		"1": "int", "-9223372036854775808": "int", "9223372036854775808": "embstr",
		"": "embstr", "a": "embstr", "01": "embstr",
		fmt.Sprintf("%044d", 1): "embstr", fmt.Sprintf("%045d", 1): "raw",
	} {
		is(t, "OK")(c.Set(ctx, "k", value, 0).Result())
		is(t, want)(c.ObjectEncoding(ctx, "k").Result())
		is(t, "string")(c.Type(ctx, "k").Result())
	}
	is(t, int64(2))(c.Append(ctx, "raw", "he").Result())
	is(t, int64(5))(c.Append(ctx, "raw", "llo").Result())
	is(t, "raw")(c.ObjectEncoding(ctx, "raw").Result())
	is(t, int64(1))(c.ObjectRefCount(ctx, "raw").Result())
	justUsed(t, c, "raw")
	fails(t,
		"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "+
			"when switching between policies at runtime LRU and LFU data will take some time to adjust.",
		c.ObjectFreq(ctx, "raw"))
	if help, err := c.Do(ctx, "OBJECT", "HELP").StringSlice(); err != nil || len(help) < 5 {
		t.Errorf("OBJECT HELP: %q, %v", help, err)
	}
}

func rename(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "a", "1", time.Minute).Result())
	is(t, "OK")(c.Set(ctx, "b", "2", 0).Result())
	is(t, false)(c.RenameNX(ctx, "a", "b").Result())
	is(t, "OK")(c.Rename(ctx, "a", "b").Result())
	gone(t, c, "a")
	is(t, "1")(c.Get(ctx, "b").Result())
	expires(t, c, "b", time.Minute)
	is(t, true)(c.RenameNX(ctx, "b", "c").Result())
	is(t, "OK")(c.Rename(ctx, "c", "c").Result())
	is(t, false)(c.RenameNX(ctx, "c", "c").Result())
	is(t, int64(1))(c.DBSize(ctx).Result())
	fails(t, "ERR no such key", c.Rename(ctx, "none", "x"))
	fails(t, "ERR no such key", c.RenameNX(ctx, "none", "x"))
}

func copyKeys(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "a", "1", time.Minute).Result())
	is(t, "OK")(c.Set(ctx, "b", "2", 0).Result())
	is(t, int64(0))(c.Copy(ctx, "none", "x", 0, false).Result())
	is(t, int64(0))(c.Copy(ctx, "a", "b", 0, false).Result())
	is(t, int64(1))(c.Copy(ctx, "a", "b", 0, true).Result())
	is(t, "1")(c.Get(ctx, "b").Result())
	expires(t, c, "b", time.Minute)
	is(t, int64(1))(c.Copy(ctx, "a", "a", 7, false).Result())
	is(t, "1")(c.other(7).Get(ctx, "a").Result())
	expires(t, c.other(7), "a", time.Minute)
	is(t, int64(2))(c.Append(ctx, "a", "x").Result())
	is(t, "1")(c.Get(ctx, "b").Result())
	is(t, "1")(c.other(7).Get(ctx, "a").Result())
}

func moveAndSwap(t *testing.T, c subject) {
	other := c.other(5)
	is(t, "OK")(c.Set(ctx, "k", "zero", time.Minute).Result())
	is(t, true)(c.Move(ctx, "k", 5).Result())
	gone(t, c, "k")
	is(t, "zero")(other.Get(ctx, "k").Result())
	expires(t, other, "k", time.Minute)
	is(t, false)(c.Move(ctx, "k", 5).Result())
	is(t, "OK")(c.Set(ctx, "k", "again", 0).Result())
	is(t, false)(c.Move(ctx, "k", 5).Result())
	is[any](t, "OK")(c.do("SWAPDB", 0, 5))
	is(t, "zero")(c.Get(ctx, "k").Result())
	is(t, "again")(other.Get(ctx, "k").Result())
	is[any](t, "OK")(c.do("SWAPDB", 5, 5))
	is(t, "again")(other.Get(ctx, "k").Result())
}

func keysByPattern(t *testing.T, c subject) {
	for _, key := range []string{"hello", "hallo", "hxllo", "hllo", "heello", "h[llo", "日本"} {
		is(t, "OK")(c.Set(ctx, key, "", 0).Result())
	}
	is(t, "OK")(c.other(3).Set(ctx, "hello", "", 0).Result())
	for pattern, want := range map[string][]string{
		"h?llo":     {"h[llo", "hallo", "hello", "hxllo"},
		"h*llo":     {"h[llo", "hallo", "heello", "hello", "hllo", "hxllo"},
		"h[ae]llo":  {"hallo", "hello"},
		"h[^e]llo":  {"h[llo", "hallo", "hxllo"},
		"h[a-b]llo": {"hallo"},
		`h\[llo`:    {"h[llo"},
		"日*":        {"日本"},
		"none":      {},
	} {
		got, err := c.Keys(ctx, pattern).Result()
		slices.Sort(got)
		is(t, want)(got, err)
	}
}

func scanKeys(t *testing.T, c subject) {
	var want []string
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 1000 {
			key := fmt.Sprintf("user:%d", i)
			p.MSet(ctx, key, i, "other:"+key, i)
			want = append(want, key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	for _, count := range []int64{0, 1, 7, 5000} {
		got := scanAll(t, c.Client, "user:*", count)
		if !slices.Equal(got, want) {
			t.Errorf("COUNT %d: SCAN gives %d keys, want %d", count, len(got), len(want))
		}
	}
	keys, cursor, err := c.ScanType(ctx, 0, "user:1?", 100000, "string").Result()
	if err != nil || cursor != 0 || len(keys) != 10 {
		t.Errorf("SCAN TYPE string: %d keys, cursor %d, %v; want 10 keys", len(keys), cursor, err)
	}
	keys, cursor, err = c.ScanType(ctx, 0, "*", 100000, "zset").Result()
	if err != nil || cursor != 0 || len(keys) != 0 {
		t.Errorf("SCAN TYPE zset: %q, cursor %d, %v; want none", keys, cursor, err)
	}
	fails(t, "ERR invalid cursor", c.Do(ctx, "SCAN", "x"))
	fails(t, "ERR syntax error", c.Do(ctx, "SCAN", 0, "COUNT", 0))
	fails(t, "ERR value is not an integer or out of range", c.Do(ctx, "SCAN", 0, "COUNT", "x"))
	fails(t, "ERR syntax error", c.Do(ctx, "SCAN", 0, "MATCH"))
}

// scanAll runs SCAN to its end. It returns the names that it got, each once, in order.
func scanAll(t *testing.T, c *redis.Client, pattern string, count int64) []string {
	t.Helper()
	var all []string
	it := c.Scan(ctx, 0, pattern, count).Iterator()
	for it.Next(ctx) {
		all = append(all, it.Val())
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func randomKey(t *testing.T, c subject) {
	missing(t, c.RandomKey(ctx))
	is(t, "OK")(c.MSet(ctx, "a", "", "b", "", "c", "").Result())
	seen := map[string]bool{}
	for range 1000 {
		key, err := c.RandomKey(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		if seen[key] = true; len(seen) == 3 {
			break
		}
	}
	is(t, map[string]bool{"a": true, "b": true, "c": true})(seen, nil)
}

func flush(t *testing.T, c subject) {
	other := c.other(9)
	for _, flushes := range [][2]func() *redis.StatusCmd{
		{func() *redis.StatusCmd { return c.FlushDB(ctx) }, func() *redis.StatusCmd {
			return c.FlushAll(ctx)
		}},
		{func() *redis.StatusCmd { return c.FlushDBAsync(ctx) }, func() *redis.StatusCmd {
			return c.FlushAllAsync(ctx)
		}},
	} {
		is(t, "OK")(c.Set(ctx, "k", "v", time.Minute).Result())
		is(t, "OK")(other.Set(ctx, "k", "v", time.Minute).Result())
		is(t, "OK")(flushes[0]().Result())
		gone(t, c, "k")
		is(t, "v")(other.Get(ctx, "k").Result())
		is(t, "OK")(flushes[1]().Result())
		gone(t, other, "k")
		is(t, int64(0))(other.DBSize(ctx).Result())
	}
	is[any](t, "OK")(c.do("FLUSHDB", "SYNC"))
	fails(t, "ERR syntax error", c.Do(ctx, "FLUSHALL", "NOW"))
}

func keyErrors(t *testing.T, c subject) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"DEL", "ERR wrong number of arguments for 'del' command"},
		{"EXISTS", "ERR wrong number of arguments for 'exists' command"},
		{"DBSIZE now", "ERR wrong number of arguments for 'dbsize' command"},
		{"COPY a a", "ERR source and destination objects are the same"},
		{"COPY a b DB 99", "ERR DB index is out of range"},
		{"COPY a b DB x", "ERR value is not an integer or out of range"},
		{"COPY a b BAD", "ERR syntax error"},
		{"MOVE a 0", "ERR source and destination objects are the same"},
		{"MOVE a 16", "ERR DB index is out of range"},
		{"MOVE a x", "ERR value is not an integer or out of range"},
		{"SWAPDB x 1", "ERR invalid first DB index"},
		{"SWAPDB 0 x", "ERR invalid second DB index"},
		{"SWAPDB 0 16", "ERR DB index is out of range"},
		{"OBJECT", "ERR wrong number of arguments for 'object' command"},
		{"OBJECT ENCODING", "ERR wrong number of arguments for 'object|encoding' command"},
		{"OBJECT NOPE", "ERR unknown subcommand 'NOPE'. Try OBJECT HELP."},
		{"NOPE a b", "ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "},
	} {
		fails(t, tt.want, c.Do(ctx, words(tt.args)...))
	}
}
