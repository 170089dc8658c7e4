package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestGoRedisDeadlines: for the commands for expiry, go-redis gets the same replies from Keyp as
// from Redis.
func TestGoRedisDeadlines(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "EXPIRE", run: expire},
		{name: "EXPIRE conditions", run: expireConditions},
		{name: "absolute", run: expireAt},
		{name: "PERSIST", run: persist},
		{name: "past", run: expireInThePast},
		{name: "errors", run: expireErrors},
		{name: "gone for every command", run: goneForEvery},
	})
}

func expire(t *testing.T, c subject) {
	is(t, false)(c.Expire(ctx, "k", time.Minute).Result())
	is(t, time.Duration(-2))(c.TTL(ctx, "k").Result())
	is(t, time.Duration(-2))(c.PTTL(ctx, "k").Result())
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, time.Duration(-1))(c.TTL(ctx, "k").Result())
	is(t, time.Duration(-1))(c.ExpireTime(ctx, "k").Result())
	is(t, true)(c.Expire(ctx, "k", time.Minute).Result())
	expires(t, c, "k", time.Minute)
	is(t, true)(c.PExpire(ctx, "k", 90*time.Second).Result())
	expires(t, c, "k", 90*time.Second)
	is(t, "v")(c.Get(ctx, "k").Result())
	// TTL rounds to the nearest second, not down.
	is(t, true)(c.PExpire(ctx, "k", 999_999*time.Millisecond).Result())
	if got, err := c.TTL(ctx, "k").Result(); err != nil || got < 1000*time.Second-c.age() ||
		got > 1000*time.Second {
		t.Errorf("TTL %v, %v, want 1000s", got, err)
	}
}

func expireConditions(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, false)(c.ExpireXX(ctx, "k", time.Minute).Result())
	is(t, false)(c.ExpireGT(ctx, "k", time.Minute).Result())
	persists(t, c, "k")
	is(t, true)(c.ExpireNX(ctx, "k", 100*time.Second).Result())
	is(t, false)(c.ExpireNX(ctx, "k", 200*time.Second).Result())
	is(t, true)(c.ExpireXX(ctx, "k", 300*time.Second).Result())
	is(t, false)(c.ExpireGT(ctx, "k", 200*time.Second).Result())
	is(t, true)(c.ExpireGT(ctx, "k", 400*time.Second).Result())
	is(t, false)(c.ExpireLT(ctx, "k", 500*time.Second).Result())
	expires(t, c, "k", 400*time.Second)
	is(t, true)(c.ExpireLT(ctx, "k", 50*time.Second).Result())
	is[any](t, int64(1))(c.do("EXPIRE", "k", 40, "XX", "LT"))
	is[any](t, int64(0))(c.do("PEXPIREAT", "k", 1, "NX"))
	expires(t, c, "k", 40*time.Second)
	is(t, true)(c.Persist(ctx, "k").Result())
	is(t, true)(c.ExpireLT(ctx, "k", 60*time.Second).Result()) // no deadline is later than any
	expires(t, c, "k", 60*time.Second)
}

func expireAt(t *testing.T, c subject) {
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, true)(c.PExpireAt(ctx, "k", at).Result())
	is(t, time.Duration(at.UnixMilli())*time.Millisecond)(c.PExpireTime(ctx, "k").Result())
	is(t, true)(c.ExpireAt(ctx, "k", at).Result())
	is(t, time.Duration(at.Unix())*time.Second)(c.ExpireTime(ctx, "k").Result())
	is[any](t, at.Unix()*1000)(c.do("PEXPIRETIME", "k"))
	is(t, time.Duration(-2))(c.PExpireTime(ctx, "none").Result())
	is(t, time.Duration(-2))(c.ExpireTime(ctx, "none").Result())
	is[any](t, int64(1))(c.do("PEXPIREAT", "k", "9223372036854775807"))
	is[any](t, int64(9223372036854775807))(c.do("PEXPIRETIME", "k"))
	is(t, "v")(c.Get(ctx, "k").Result())
}

func persist(t *testing.T, c subject) {
	is(t, false)(c.Persist(ctx, "k").Result())
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, false)(c.Persist(ctx, "k").Result())
	life := 25 * time.Millisecond
	await.Until(t, "a key lives until PERSIST comes", func() bool {
		life *= 2
		is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
		is(t, true)(c.PExpire(ctx, "k", life).Result())
		return c.Persist(ctx, "k").Val()
	})
	is(t, false)(c.Persist(ctx, "k").Result())
	persists(t, c, "k")
	is(t, "OK")(c.Set(ctx, "after", "v", life+10*time.Millisecond).Result())
	await.Until(t, "the later deadline passes", func() bool {
		return c.Exists(ctx, "after").Val() == 0
	})
	is(t, "v")(c.Get(ctx, "k").Result())
}

func expireInThePast(t *testing.T, c subject) {
	for _, command := range [][]any{
		{"EXPIRE", "k", 0}, {"EXPIRE", "k", -1}, {"PEXPIRE", "k", -1000},
		{"EXPIREAT", "k", 1}, {"PEXPIREAT", "k", 1}, {"EXPIREAT", "k", -5},
	} {
		is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
		is[any](t, int64(1))(c.do(command...))
		gone(t, c, "k")
		is(t, int64(0))(c.DBSize(ctx).Result())
	}
}

func expireErrors(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	for _, tt := range []struct {
		args string
		want string
	}{
		{"EXPIRE k", "ERR wrong number of arguments for 'expire' command"},
		{"EXPIRE k x", "ERR value is not an integer or out of range"},
		{"EXPIRE k 10 BAD", "ERR Unsupported option BAD"},
		{"EXPIRE k 10 NX XX",
			"ERR NX and XX, GT or LT options at the same time are not compatible"},
		{"EXPIRE k 10 GT LT", "ERR GT and LT options at the same time are not compatible"},
		{"EXPIRE k 9223372036854775807", "ERR invalid expire time in 'expire' command"},
		{"EXPIRE k -9223372036854775808", "ERR invalid expire time in 'expire' command"},
		{"PEXPIRE k 9223372036854775807", "ERR invalid expire time in 'pexpire' command"},
		{"EXPIREAT k 9223372036854775807", "ERR invalid expire time in 'expireat' command"},
		{"TTL", "ERR wrong number of arguments for 'ttl' command"},
		{"TTL k x y", "ERR wrong number of arguments for 'ttl' command"},
		{"PTTL k x y", "ERR wrong number of arguments for 'pttl' command"},
		{"PERSIST", "ERR wrong number of arguments for 'persist' command"},
		{"PERSIST k x y", "ERR wrong number of arguments for 'persist' command"},
	} {
		fails(t, tt.want, c.Do(ctx, words(tt.args)...))
	}
	persists(t, c, "k")
}

// goneForEvery: at its deadline a key stops existing for every command, even if nothing has touched
// it since.
func goneForEvery(t *testing.T, c subject) {
	checks := map[string]func(key string){
		"GET":         func(k string) { missing(t, c.Get(ctx, k)) },
		"GETEX":       func(k string) { missing(t, c.GetEx(ctx, k, time.Hour)) },
		"GETDEL":      func(k string) { missing(t, c.GetDel(ctx, k)) },
		"GETSET":      func(k string) { missing(t, c.Do(ctx, "GETSET", k, "new")) },
		"MGET":        func(k string) { is(t, []any{nil})(c.MGet(ctx, k).Result()) },
		"EXISTS":      func(k string) { is(t, int64(0))(c.Exists(ctx, k).Result()) },
		"TYPE":        func(k string) { is(t, "none")(c.Type(ctx, k).Result()) },
		"TOUCH":       func(k string) { is(t, int64(0))(c.Touch(ctx, k).Result()) },
		"DEL":         func(k string) { is(t, int64(0))(c.Del(ctx, k).Result()) },
		"UNLINK":      func(k string) { is(t, int64(0))(c.Unlink(ctx, k).Result()) },
		"TTL":         func(k string) { is(t, time.Duration(-2))(c.TTL(ctx, k).Result()) },
		"PEXPIRETIME": func(k string) { is(t, time.Duration(-2))(c.PExpireTime(ctx, k).Result()) },
		"EXPIRE":      func(k string) { is(t, false)(c.Expire(ctx, k, time.Hour).Result()) },
		"PERSIST":     func(k string) { is(t, false)(c.Persist(ctx, k).Result()) },
		"STRLEN":      func(k string) { is(t, int64(0))(c.StrLen(ctx, k).Result()) },
		"GETRANGE":    func(k string) { is(t, "")(c.GetRange(ctx, k, 0, -1).Result()) },
		"APPEND":      func(k string) { is(t, int64(1))(c.Append(ctx, k, "x").Result()) },
		"SETRANGE":    func(k string) { is(t, int64(1))(c.SetRange(ctx, k, 0, "x").Result()) },
		"INCR":        func(k string) { is(t, int64(1))(c.Incr(ctx, k).Result()) },
		"INCRBYFLOAT": func(k string) { is(t, 1.5)(c.IncrByFloat(ctx, k, 1.5).Result()) },
		"SETNX":       func(k string) { is[any](t, int64(1))(c.do("SETNX", k, "x")) },
		"SET XX":      func(k string) { is(t, false)(c.SetXX(ctx, k, "x", 0).Result()) },
		"SET KEEPTTL": func(k string) {
			is(t, "OK")(c.Set(ctx, k, "x", redis.KeepTTL).Result())
			persists(t, c, k)
		},
		"MSETNX": func(k string) { is(t, true)(c.MSetNX(ctx, k, "x").Result()) },
		"RENAME": func(k string) {
			fails(t, "ERR no such key", c.Rename(ctx, k, "new name"))
		},
		"RENAMENX": func(k string) {
			is(t, true)(c.RenameNX(ctx, "source for RENAMENX", k).Result())
		},
		"COPY": func(k string) {
			is(t, int64(0))(c.Copy(ctx, k, "new copy", 0, false).Result())
		},
		"MOVE":            func(k string) { is(t, false)(c.Move(ctx, k, 3).Result()) },
		"OBJECT ENCODING": func(k string) { missing(t, c.ObjectEncoding(ctx, k)) },
		"KEYS":            func(k string) { is(t, []string{})(c.Keys(ctx, k).Result()) },
		"SCAN": func(k string) {
			if slices.Contains(scanAll(t, c.Client, "*", 1000), k) {
				t.Error("SCAN shows a key after its deadline")
			}
		},
	}
	is(t, "OK")(c.Set(ctx, "source for RENAMENX", "v", 0).Result())
	at := time.Now().Add(50 * time.Millisecond)
	for name := range checks {
		is(t, "OK")(c.SetArgs(ctx, name, "5",
			redis.SetArgs{ExpireAt: at.Truncate(time.Millisecond)}).Result())
	}
	waitUntil(at)
	for name, check := range checks {
		t.Run(name, func(t *testing.T) { check(name) })
	}
}

// waitUntil sleeps until a deadline of a server has passed by the same wall clock.
func waitUntil(at time.Time) { await.PassUntil(at.Add(2 * time.Millisecond)) }

// TestGoRedisExactness: for a client, a key exists before its deadline and not after it. The reaper
// removes the key at that time without any client's help.
func TestGoRedisExactness(t *testing.T) {
	t.Parallel()
	server := testkit.Keyp(t)
	all := int64(0)
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			c := server.Client(proto)
			step, round := 10*time.Millisecond, 0
			await.Until(t, "keys are stored before their deadlines", func() bool {
				// On a busy machine some keys may not be stored before their deadline.
				var stored atomic.Int64
				var wg sync.WaitGroup
				for i := range 40 {
					key := fmt.Sprintf("%d:%d:%d", proto, round, i)
					deadline := time.Now().Add(time.Duration(3+i) * step).Truncate(time.Millisecond)
					wg.Go(func() {
						if checkExact(t, c, key, deadline) {
							stored.Add(1)
						}
					})
				}
				wg.Wait()
				step, round = 2*step, round+1
				all += stored.Load()
				return stored.Load() >= 10 || t.Failed()
			})
		})
	}
	c := server.Client(3)
	await.Until(t, "expired keys are removed", func() bool { return c.DBSize(ctx).Val() == 0 })
	expired, err := strconv.ParseInt(c.InfoMap(ctx, "stats").Val()["Stats"]["expired_keys"], 10, 64)
	if err != nil || expired < all {
		t.Errorf("%d keys were stored before their deadline, %d expired (%v)", all, expired, err)
	}
	server.Stop()
}

// checkExact watches one key, and returns true if it was stored before its deadline. Client and
// server read the same clock, in milliseconds. So a request that is sent at or after the deadline
// must get null, and a reply that arrives before it must have the value.
func checkExact(t *testing.T, c *redis.Client, key string, deadline time.Time) (stored bool) {
	if err := c.SetArgs(ctx, key, "v", redis.SetArgs{ExpireAt: deadline}).Err(); err != nil {
		t.Error(err)
		return false
	}
	stored = time.Now().Before(deadline)
	for {
		sent := time.Now()
		err := c.Get(ctx, key).Err()
		answered := time.Now()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			t.Error(err)
			return stored
		case err == nil && !sent.Before(deadline):
			t.Errorf("%s is still there %v after its deadline", key, sent.Sub(deadline))
			return stored
		case err != nil && answered.Before(deadline):
			t.Errorf("%s is gone %v before its deadline", key, deadline.Sub(answered))
			return stored
		case err != nil:
			return stored
		}
	}
}
