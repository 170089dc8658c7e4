package e2e

import (
	"errors"
	"fmt"
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

func TestGoRedisTransactions(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "TxPipelined", run: txPipelined},
		{name: "errors at run time", run: txRunErrors},
		{name: "errors while queueing", run: txQueueErrors},
		{name: "DISCARD", run: txDiscard},
		{name: "WATCH", run: txWatch},
		{name: "WATCH and expiry", run: txWatchExpiry},
		{name: "optimistic locking", run: txOptimistic},
		{name: "nobody sees half of it", run: txIsWhole},
		{name: "commands that do not wait", run: txBlocking},
		{name: "databases", run: txDatabases},
		{name: "commands about all keys", run: txWholeKeyspace},
		{name: "time stands still", run: txTime, newer: "7.2"},
	})
}

func txPipelined(t *testing.T, c subject) {
	var set *redis.StatusCmd
	var n *redis.IntCmd
	var all *redis.MapStringStringCmd
	var members *redis.ZSliceCmd
	var none *redis.StringCmd
	cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		set = p.Set(ctx, "s", "v\r\n\x00", time.Hour)
		n = p.Incr(ctx, "n")
		p.HSet(ctx, "h", "f", 1, "g", 2)
		all = p.HGetAll(ctx, "h")
		p.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"})
		members = p.ZRangeWithScores(ctx, "z", 0, -1)
		none = p.Get(ctx, "none")
		p.RPush(ctx, "l", 1, 2)
		return nil
	})
	if !errors.Is(err, redis.Nil) || len(cmds) != 8 {
		t.Errorf("%d commands, %v", len(cmds), err)
	}
	is(t, "OK")(set.Result())
	is(t, int64(1))(n.Result())
	is(t, map[string]string{"f": "1", "g": "2"})(all.Result())
	is(t, []redis.Z{{Score: 1.5, Member: "m"}})(members.Result())
	missing(t, none)
	is(t, "v\r\n\x00")(c.Get(ctx, "s").Result())
	expires(t, c, "s", time.Hour)
	is(t, []string{"1", "2"})(c.LRange(ctx, "l", 0, -1).Result())
	conn := c.conn(t)
	is[any](t, "OK")(conn.Do(ctx, "MULTI").Result())
	is[any](t, []any{})(conn.Do(ctx, "EXEC").Result())
	commands := often(20_000)
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i := range commands {
			p.Set(ctx, fmt.Sprint("many:", i), i, 0)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	is(t, int64(commands+5))(c.DBSize(ctx).Result())
}

// txRunErrors: commands that fail in a transaction do not undo the others.
func txRunErrors(t *testing.T, c subject) {
	var bad *redis.IntCmd
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "k", "v", 0)
		bad = p.LPush(ctx, "k", "x")
		p.Set(ctx, "l", "w", 0)
		return nil
	})
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	if err == nil || err.Error() != wrongType {
		t.Errorf("error %v", err)
	}
	fails(t, wrongType, bad)
	is(t, []any{"v", "w"})(c.MGet(ctx, "k", "l").Result())
}

func txQueueErrors(t *testing.T, s subject) {
	c := s.conn(t)
	const aborted = "EXECABORT Transaction discarded because of previous errors."
	for _, wrong := range []struct {
		words []any
		want  string
	}{
		{[]any{"NOSUCH", "a"}, "ERR unknown command 'NOSUCH', with args beginning with: 'a' "},
		{[]any{"GET"}, "ERR wrong number of arguments for 'get' command"},
		{[]any{"SAVE"}, "ERR Command not allowed inside a transaction"},
	} {
		is[any](t, "OK")(c.Do(ctx, "MULTI").Result())
		is[any](t, "QUEUED")(c.Do(ctx, "SET", "k", "v").Result())
		fails(t, wrong.want, c.Do(ctx, wrong.words...))
		is[any](t, "QUEUED")(c.Do(ctx, "SET", "k", "w").Result())
		fails(t, aborted, c.Do(ctx, "EXEC"))
		gone(t, s, "k")
	}
	fails(t, "ERR EXEC without MULTI", c.Do(ctx, "EXEC"))
	fails(t, "ERR DISCARD without MULTI", c.Do(ctx, "DISCARD"))
	is[any](t, "OK")(c.Do(ctx, "MULTI").Result())
	fails(t, "ERR MULTI calls can not be nested", c.Do(ctx, "MULTI"))
	fails(t, "ERR WATCH inside MULTI is not allowed", c.Do(ctx, "WATCH", "k"))
	is[any](t, "QUEUED")(c.Do(ctx, "SET", "k", "v").Result())
	if _, err := c.Do(ctx, "EXEC").Result(); err != nil && err.Error() != aborted {
		t.Errorf("EXEC: %v", err)
	}
}

func txDiscard(t *testing.T, s subject) {
	c := s.conn(t)
	is[any](t, "OK")(c.Do(ctx, "WATCH", "k").Result())
	is[any](t, "OK")(c.Do(ctx, "MULTI").Result())
	is[any](t, "QUEUED")(c.Do(ctx, "SET", "k", "v").Result())
	is[any](t, "OK")(c.Do(ctx, "DISCARD").Result())
	gone(t, s, "k")
	is(t, "OK")(s.Set(ctx, "k", "by another", 0).Result()) // DISCARD has ended the watch
	is[any](t, "OK")(c.Do(ctx, "MULTI").Result())
	is[any](t, "QUEUED")(c.Do(ctx, "GET", "k").Result())
	is[any](t, []any{"by another"})(c.Do(ctx, "EXEC").Result())
	is[any](t, "OK")(c.Do(ctx, "MULTI").Result())
	is[any](t, "QUEUED")(c.Do(ctx, "SET", "k", "never").Result())
	is[any](t, "RESET")(c.Do(ctx, "RESET").Result())
	is(t, "by another")(s.Get(ctx, "k").Result())
}

func txWatch(t *testing.T, s subject) {
	attempt := func(change func(c *redis.Conn), watched ...any) bool {
		t.Helper()
		c := s.conn(t)
		is[any](t, "OK")(c.Do(ctx, append([]any{"WATCH"}, watched...)...).Result())
		change(c)
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "done")
			return nil
		})
		if err != nil && !errors.Is(err, redis.TxFailedErr) {
			t.Error(err)
		}
		return err == nil
	}
	is(t, "OK")(s.Set(ctx, "k", "v", 0).Result())
	is(t, int64(1))(s.HSet(ctx, "h", "f", "v").Result())
	for _, step := range []struct {
		name   string
		change func(c *redis.Conn)
		works  bool
	}{
		{"nothing", func(*redis.Conn) {}, true},
		{"a read", func(*redis.Conn) { s.Get(ctx, "k") }, true},
		{"another key", func(*redis.Conn) { s.Set(ctx, "other", "v", 0) }, true},
		{"the same key elsewhere", func(*redis.Conn) { s.other(1).Set(ctx, "k", "v", 0) }, true},
		{"a condition that fails", func(*redis.Conn) { s.SetNX(ctx, "k", "w", 0) }, true},
		{"a write", func(*redis.Conn) { s.Set(ctx, "k", "v", 0) }, false},
		{"a write of one's own", func(c *redis.Conn) { c.Set(ctx, "k", "v", 0) }, false},
		{"a deadline", func(*redis.Conn) { s.Expire(ctx, "k", time.Hour) }, false},
		{"an element", func(*redis.Conn) { s.HSet(ctx, "h", "g", "v") }, false},
		{"a rename", func(*redis.Conn) { s.Rename(ctx, "h", "i") }, false},
		{"creation", func(*redis.Conn) { s.RPush(ctx, "none", "v") }, false},
		{"deletion", func(*redis.Conn) { s.Del(ctx, "k") }, false},
		{"a change taken back", func(c *redis.Conn) {
			c.Do(ctx, "UNWATCH")
			s.Set(ctx, "k", "v", 0)
		}, true},
		{"FLUSHALL", func(*redis.Conn) { s.FlushAll(ctx) }, false},
	} {
		if got := attempt(step.change, "k", "h", "none", "k"); got != step.works {
			t.Errorf("%s: EXEC worked %v, want %v", step.name, got, step.works)
		}
	}
	is(t, "OK")(s.Set(ctx, "k", "v", 0).Result())
	if attempt(func(*redis.Conn) { s.Do(ctx, "SWAPDB", 0, 1) }, "k") {
		t.Error("EXEC worked although databases were exchanged")
	}
}

// txWatchExpiry: when a watched key expires, it counts as changed, no matter what notices the
// expiry first.
func txWatchExpiry(t *testing.T, s subject) {
	c := s.conn(t)
	life := 15 * time.Millisecond
	await.Until(t, "a key lives longer than WATCH takes", func() bool {
		life *= 2
		is(t, "OK")(s.Set(ctx, "k", "v", life).Result())
		is[any](t, "OK")(c.Do(ctx, "UNWATCH").Result())
		is[any](t, "OK")(c.Do(ctx, "WATCH", "k").Result())
		return s.Exists(ctx, "k").Val() == 1
	})
	await.Until(t, "the key expires", func() bool { return s.Exists(ctx, "k").Val() == 0 })
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "other", "v", 0)
		return nil
	})
	if !errors.Is(err, redis.TxFailedErr) {
		t.Errorf("EXEC after the watched key's end: %v", err)
	}
	gone(t, s, "other")
}

// txOptimistic: fifty clients increment a counter by WATCH, GET and SET, and no increment is lost.
func txOptimistic(t *testing.T, s subject) {
	const clients = 50
	rounds := often(6)
	options := *s.Options()
	options.PoolSize = clients
	c := testkit.NewClient(t, &options)
	c.AddHook(recorder{s.keyp})
	var all sync.WaitGroup
	var conflicts atomic.Int64
	for range clients {
		all.Go(func() {
			for range rounds {
				for {
					err := c.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "counter").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "counter", n+1, 0)
							return nil
						})
						return err
					}, "counter")
					if err == nil {
						break
					}
					if !errors.Is(err, redis.TxFailedErr) {
						t.Error(err)
						return
					}
					conflicts.Add(1)
				}
			}
		})
	}
	all.Wait()
	is(t, strconv.Itoa(clients*rounds))(s.Get(ctx, "counter").Result())
	t.Logf("%d counts, %d conflicts", clients*rounds, conflicts.Load())
}

// txIsWhole: half of the clients write one number to keys in several slots and databases. The other
// clients never see two different numbers.
func txIsWhole(t *testing.T, s subject) {
	rounds := often(80)
	together(t, s, func(worker int, c *redis.Conn) {
		for i := range rounds {
			if worker%2 == 0 {
				if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
					for key := range 5 {
						p.Set(ctx, fmt.Sprint("key:", key), fmt.Sprint(worker, ":", i), 0)
					}
					p.HSet(ctx, "hash", "field", fmt.Sprint(worker, ":", i))
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				continue
			}
			var gets []*redis.StringCmd
			_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				for key := range 5 {
					gets = append(gets, p.Get(ctx, fmt.Sprint("key:", key)))
				}
				gets = append(gets, p.HGet(ctx, "hash", "field"))
				return nil
			})
			if err != nil && !errors.Is(err, redis.Nil) {
				t.Error(err)
				return
			}
			for _, get := range gets {
				if get.Val() != gets[0].Val() {
					t.Errorf("%v has %s, %v has %s", get.Args(), get.Val(),
						gets[0].Args(), gets[0].Val())
				}
			}
		}
	})
}

func txBlocking(t *testing.T, s subject) {
	c := s.conn(t)
	for _, step := range [][]any{
		{"MULTI"}, {"BLPOP", "l", 0}, {"BLMOVE", "l", "m", "LEFT", "LEFT", 0}, {"BZPOPMIN", "z", 0},
		{"BLMPOP", 0, 1, "l", "LEFT"},
		{"RPUSH", "l", "v"}, {"BRPOP", "l", 0}, {"WAIT", 0, 0},
	} {
		if err := c.Do(ctx, step...).Err(); err != nil {
			t.Errorf("%v: %v", step, err)
		}
	}
	is[any](t, []any{nil, nil, nil, nil, int64(1), []any{"l", "v"}, int64(0)})(c.Do(ctx,
		"EXEC").Result())
}

func txDatabases(t *testing.T, s subject) {
	c := s.conn(t)
	for _, step := range [][]any{{"MULTI"}, {"SET", "k", "in 0"}, {"SELECT", 3},
		{"SET", "k", "in 3"}, {"MOVE", "k", 4}, {"SELECT", 99}, {"GET", "k"}} {
		if err := c.Do(ctx, step...).Err(); err != nil {
			t.Errorf("%v: %v", step, err)
		}
	}
	reply, err := c.Do(ctx, "EXEC").Slice()
	if err != nil || len(reply) != 6 || fmt.Sprint(reply[:4]) != "[OK OK OK 1]" || reply[5] != nil {
		t.Errorf("EXEC: %v, %v", reply, err)
	}
	is(t, "in 0")(s.Get(ctx, "k").Result())
	is(t, "in 3")(s.other(4).Get(ctx, "k").Result())
	is[any](t, "OK")(c.Do(ctx, "SET", "here", "3").Result()) // the connection stays there
	is(t, "3")(s.other(3).Get(ctx, "here").Result())
}

// txWholeKeyspace runs commands that use more than the keys they name.
func txWholeKeyspace(t *testing.T, s subject) {
	is(t, "OK")(s.MSet(ctx, "weight:1", 2, "weight:2", 1, "a", "v").Result())
	var keys *redis.StringSliceCmd
	var random *redis.StringCmd
	var sorted *redis.StringSliceCmd
	var size, after *redis.IntCmd
	var page *redis.ScanCmd
	_, err := s.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.RPush(ctx, "ids", 1, 2)
		keys = p.Keys(ctx, "*")
		size = p.DBSize(ctx)
		sorted = p.Sort(ctx, "ids", &redis.Sort{By: "weight:*"})
		page = p.Scan(ctx, 0, "*", 1000)
		random = p.RandomKey(ctx)
		p.Info(ctx, "keyspace")
		p.FlushDB(ctx)
		after = p.DBSize(ctx)
		p.Set(ctx, "k", "v", 0)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := len(keys.Val()); n != 4 {
		t.Errorf("KEYS gives %q", keys.Val())
	}
	is(t, int64(4))(size.Result())
	is(t, []string{"2", "1"})(sorted.Result())
	if found, cursor, err := page.Result(); err != nil || cursor != 0 || len(found) != 4 {
		t.Errorf("SCAN: %q, %d, %v", found, cursor, err)
	}
	if !strings.Contains(strings.Join(keys.Val(), " "), random.Val()) {
		t.Errorf("RANDOMKEY: %q", random.Val())
	}
	is(t, int64(0))(after.Result())
	is(t, int64(1))(s.DBSize(ctx).Result())
}

func txTime(t *testing.T, s subject) {
	var times []*redis.TimeCmd
	var left []*redis.DurationCmd
	_, err := s.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "k", "v", time.Hour)
		for range 200 {
			times = append(times, p.Time(ctx))
			left = append(left, p.PTTL(ctx, "k"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for i := range times {
		if !times[i].Val().Equal(times[0].Val()) {
			t.Errorf("TIME moved from %v to %v within a transaction",
				times[0].Val(), times[i].Val())
			return
		}
		is(t, time.Hour)(left[i].Result())
	}
}
