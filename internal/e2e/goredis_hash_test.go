package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

func TestGoRedisHashes(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "set and read", run: hashSet},
		{name: "delete", run: hashDelete},
		{name: "counters", run: hashCounters},
		{name: "HSCAN", run: hashScan},
		{name: "HSCAN NOVALUES", run: hashScanNoValues, newer: "7.4"},
		{name: "HRANDFIELD", run: hashRandom},
		{name: "errors", run: hashErrors},
		{name: "HEXPIRE", run: hashExpire, newer: "7.4"},
		{name: "HEXPIRE conditions", run: hashExpireConditions, newer: "7.4"},
		{name: "HPERSIST", run: hashPersist, newer: "7.4"},
		{name: "HGETEX", run: hashGetEx, newer: "8.0"},
		{name: "HSETEX", run: hashSetEx, newer: "8.0"},
		{name: "HGETDEL", run: hashGetDel, newer: "8.0"},
	})
}

func hashSet(t *testing.T, c subject) {
	is(t, int64(2))(c.HSet(ctx, "h", "a", 1, "b", "two").Result())
	is(t, int64(1))(c.HSet(ctx, "h", map[string]any{"b": 2, "c": "3\r\n\x00"}).Result())
	is(t, true)(c.HMSet(ctx, "h", "d", "").Result())
	is(t, false)(c.HSetNX(ctx, "h", "a", "x").Result())
	is(t, true)(c.HSetNX(ctx, "h", "e", "5").Result())
	is(t, map[string]string{"a": "1", "b": "2", "c": "3\r\n\x00", "d": "", "e": "5"})(
		c.HGetAll(ctx, "h").Result())
	is(t, "1")(c.HGet(ctx, "h", "a").Result())
	missing(t, c.HGet(ctx, "h", "none"))
	missing(t, c.HGet(ctx, "none", "a"))
	is(t, []any{"1", nil, ""})(c.HMGet(ctx, "h", "a", "none", "d").Result())
	is(t, []any{nil})(c.HMGet(ctx, "none", "a").Result())
	is(t, []string{"a", "b", "c", "d", "e"})(c.HKeys(ctx, "h").Result())
	is(t, []string{"1", "2", "3\r\n\x00", "", "5"})(c.HVals(ctx, "h").Result())
	is(t, int64(5))(c.HLen(ctx, "h").Result())
	is(t, int64(4))(c.HStrLen(ctx, "h", "c").Result())
	is(t, true)(c.HExists(ctx, "h", "d").Result())
	is(t, false)(c.HExists(ctx, "h", "none").Result())
	is(t, map[string]string{})(c.HGetAll(ctx, "none").Result())
	is(t, "hash")(c.Type(ctx, "h").Result())
	var typed struct {
		A int    `redis:"a"`
		E string `redis:"e"`
	}
	if err := c.HMGet(ctx, "h", "a", "e").Scan(&typed); err != nil || typed.A != 1 ||
		typed.E != "5" {
		t.Errorf("Scan: %+v, %v", typed, err)
	}
}

func hashDelete(t *testing.T, c subject) {
	is(t, int64(3))(c.HSet(ctx, "h", "a", 1, "b", 2, "c", 3).Result())
	is(t, int64(2))(c.HDel(ctx, "h", "a", "b", "none").Result())
	is(t, int64(0))(c.HDel(ctx, "none", "a").Result())
	is(t, int64(1))(c.HDel(ctx, "h", "c").Result())
	is(t, int64(0))(c.Exists(ctx, "h").Result())
}

func hashCounters(t *testing.T, c subject) {
	is(t, int64(5))(c.HIncrBy(ctx, "h", "n", 5).Result())
	is(t, int64(-2))(c.HIncrBy(ctx, "h", "n", -7).Result())
	is(t, 10.5)(c.HIncrByFloat(ctx, "h", "f", 10.50).Result())
	is(t, 10.6)(c.HIncrByFloat(ctx, "h", "f", 0.1).Result())
	is(t, "10.6")(c.HGet(ctx, "h", "f").Result())
}

// manyFields makes a large hash.
func manyFields(t *testing.T, c subject, key string, n int) (want map[string]string) {
	want = map[string]string{}
	for i := range n {
		want[fmt.Sprint("f", i)] = fmt.Sprint("v", i)
	}
	is(t, int64(n))(c.HSet(ctx, key, want).Result())
	return want
}

func hashScan(t *testing.T, c subject) {
	want := manyFields(t, c, "h", 1500)
	got := map[string]string{}
	steps := 0
	for cursor := uint64(0); ; steps++ {
		page, next, err := c.HScan(ctx, "h", cursor, "f*", 100).Result()
		if err != nil || steps > 1500 {
			t.Fatalf("HSCAN: step %d, %v", steps, err)
		}
		for pair := range slices.Chunk(page, 2) {
			got[pair[0]] = pair[1]
		}
		if cursor = next; next == 0 {
			break
		}
	}
	is(t, want)(got, nil)
	if steps < 5 {
		t.Errorf("1500 fields came in %d steps of about 100", steps+1)
	}
	page, next, err := c.HScan(ctx, "none", 0, "", 0).Result()
	if len(page) != 0 || next != 0 || err != nil {
		t.Errorf("HSCAN of no hash: %v, %d, %v", page, next, err)
	}
}

func hashScanNoValues(t *testing.T, c subject) {
	is(t, int64(2))(c.HSet(ctx, "h", "a", 1, "b", 2).Result())
	page, next, err := c.HScanNoValues(ctx, "h", 0, "", 10).Result()
	if !slices.Equal(page, []string{"a", "b"}) || next != 0 || err != nil {
		t.Errorf("HSCAN NOVALUES: %v, %d, %v", page, next, err)
	}
}

func hashRandom(t *testing.T, c subject) {
	want := manyFields(t, c, "h", 1000)
	fields, err := c.HRandField(ctx, "h", 300).Result()
	slices.Sort(fields)
	if fields = slices.Compact(fields); err != nil || len(fields) != 300 {
		t.Errorf("HRANDFIELD 300: %d different fields, %v", len(fields), err)
	}
	pairs, err := c.HRandFieldWithValues(ctx, "h", -50).Result()
	if err != nil || len(pairs) != 50 {
		t.Errorf("HRANDFIELD -50 WITHVALUES: %d fields, %v", len(pairs), err)
	}
	for _, pair := range pairs {
		if want[pair.Key] != pair.Value {
			t.Errorf("HRANDFIELD WITHVALUES: %s has %s, not %s", pair.Key,
				want[pair.Key], pair.Value)
		}
	}
	if one, err := c.do("HRANDFIELD", "h"); err != nil || want[fmt.Sprint(one)] == "" {
		t.Errorf("HRANDFIELD: %v, %v", one, err)
	}
	is(t, []string{})(c.HRandField(ctx, "none", 3).Result())
}

func hashErrors(t *testing.T, c subject) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	is(t, "OK")(c.Set(ctx, "s", "v", 0).Result())
	fails(t, wrongType, c.HSet(ctx, "s", "a", 1))
	fails(t, wrongType, c.HGet(ctx, "s", "a"))
	fails(t, wrongType, c.HGetAll(ctx, "s"))
	fails(t, wrongType, c.HScan(ctx, "s", 0, "", 0))
	is(t, int64(1))(c.HSet(ctx, "h", "a", "x").Result())
	fails(t, wrongType, c.Get(ctx, "h"))
	fails(t, "ERR hash value is not an integer", c.HIncrBy(ctx, "h", "a", 1))
	fails(t, "ERR hash value is not a float", c.HIncrByFloat(ctx, "h", "a", 1))
	fails(t, "ERR wrong number of arguments for 'hset' command",
		c.Do(ctx, "HSET", "h", "a", "1", "b"))
}

// fieldExpires checks that a field has the time to live that this feature has set.
func fieldExpires(t *testing.T, c subject, key, field string, want time.Duration) {
	t.Helper()
	got, err := c.HPTTL(ctx, key, field).Result()
	if err != nil || len(got) != 1 || got[0] > want.Milliseconds() ||
		got[0] < (want-c.age()).Milliseconds() {
		t.Errorf("%s %s expires in %v ms, %v, want %v", key, field, got, err, want)
	}
}

func hashExpire(t *testing.T, c subject) {
	is(t, []int64{-2})(c.HExpire(ctx, "none", time.Minute, "a").Result())
	is(t, int64(3))(c.HSet(ctx, "h", "a", 1, "b", 2, "c", 3).Result())
	is(t, []int64{1, -2})(c.HExpire(ctx, "h", time.Minute, "a", "none").Result())
	fieldExpires(t, c, "h", "a", time.Minute)
	is(t, []int64{1})(c.HPExpire(ctx, "h", 90*time.Second, "b").Result())
	fieldExpires(t, c, "h", "b", 90*time.Second)
	is(t, []int64{-1, -2})(c.HTTL(ctx, "h", "c", "none").Result())
	at := time.Now().Add(time.Hour)
	is(t, []int64{1})(c.HExpireAt(ctx, "h", at, "a").Result())
	is(t, []int64{at.Unix()})(c.HExpireTime(ctx, "h", "a").Result())
	is(t, []int64{1})(c.HPExpireAt(ctx, "h", at, "b").Result())
	is(t, []int64{at.UnixMilli(), -1})(c.HPExpireTime(ctx, "h", "b", "c").Result())
	is(t, []int64{2})(c.HExpireAt(ctx, "h", time.Unix(1, 0), "a").Result())
	is(t, []string{"b", "c"})(c.HKeys(ctx, "h").Result())
	is(t, []int64{1})(c.HPExpire(ctx, "h", 20*time.Millisecond, "c").Result())
	await.Until(t, "the field goes", func() bool {
		n, err := c.HLen(ctx, "h").Result()
		return n == 1 && err == nil
	})
	is(t, []int64{1})(c.HPExpire(ctx, "h", 20*time.Millisecond, "b").Result())
	await.Until(t, "the key goes with its last field", func() bool {
		n, err := c.DBSize(ctx).Result()
		return n == 0 && err == nil
	})
	gone(t, c, "h")
}

func hashExpireConditions(t *testing.T, c subject) {
	is(t, int64(1))(c.HSet(ctx, "h", "a", 1).Result())
	with := func(d time.Duration, args redis.HExpireArgs) *redis.IntSliceCmd {
		return c.HExpireWithArgs(ctx, "h", d, args, "a")
	}
	is(t, []int64{0})(with(time.Minute, redis.HExpireArgs{XX: true}).Result())
	is(t, []int64{0})(with(time.Minute, redis.HExpireArgs{GT: true}).Result())
	is(t, []int64{1})(with(time.Minute, redis.HExpireArgs{NX: true}).Result())
	is(t, []int64{0})(with(time.Hour, redis.HExpireArgs{NX: true}).Result())
	is(t, []int64{0})(with(time.Hour, redis.HExpireArgs{LT: true}).Result())
	is(t, []int64{1})(with(time.Hour, redis.HExpireArgs{GT: true}).Result())
	is(t, []int64{1})(c.HPExpireWithArgs(ctx, "h", 30*time.Minute, redis.HExpireArgs{LT: true},
		"a").Result())
	is(t, []int64{0})(c.HPExpireAtWithArgs(ctx, "h", time.Now(), redis.HExpireArgs{GT: true},
		"a").Result())
	is(t, []int64{0})(c.HExpireAtWithArgs(ctx, "h", time.Now(), redis.HExpireArgs{NX: true},
		"a").Result())
	fieldExpires(t, c, "h", "a", 30*time.Minute)
	fails(t, "ERR Multiple condition flags specified", c.Do(ctx, "HEXPIRE", "h", 1, "NX", "XX",
		"FIELDS", 1, "a"))
	fails(t, "ERR invalid expire time, must be >= 0",
		c.Do(ctx, "HEXPIRE", "h", -1, "FIELDS", 1, "a"))
}

func hashPersist(t *testing.T, c subject) {
	is(t, int64(2))(c.HSet(ctx, "h", "a", 1, "b", 2).Result())
	is(t, []int64{1})(c.HExpire(ctx, "h", time.Minute, "a").Result())
	is(t, []int64{1, -1, -2})(c.HPersist(ctx, "h", "a", "b", "none").Result())
	is(t, []int64{-1})(c.HTTL(ctx, "h", "a").Result())
	is(t, []int64{1, 1})(c.HExpire(ctx, "h", time.Minute, "a", "b").Result())
	is(t, int64(2))(c.HIncrBy(ctx, "h", "a", 1).Result())
	is(t, int64(0))(c.HSet(ctx, "h", "b", 3).Result())
	fieldExpires(t, c, "h", "a", time.Minute)
	is(t, []int64{-1})(c.HTTL(ctx, "h", "b").Result())
}

func hashGetEx(t *testing.T, c subject) {
	is(t, int64(2))(c.HSet(ctx, "h", "a", 1, "b", 2).Result())
	is(t, []string{"1", "2"})(c.HGetEX(ctx, "h", "a", "b").Result())
	options := &redis.HGetEXOptions{ExpirationType: redis.HGetEXExpirationEX, ExpirationVal: 60}
	is(t, []string{"1"})(c.HGetEXWithArgs(ctx, "h", options, "a").Result())
	fieldExpires(t, c, "h", "a", time.Minute)
	options = &redis.HGetEXOptions{ExpirationType: redis.HGetEXExpirationPERSIST}
	is(t, []string{"1"})(c.HGetEXWithArgs(ctx, "h", options, "a").Result())
	is(t, []int64{-1})(c.HTTL(ctx, "h", "a").Result())
	is[any](t, []any{"2", nil})(c.do("HGETEX", "h", "PX", 0, "FIELDS", 2, "b", "none"))
	is(t, []string{"a"})(c.HKeys(ctx, "h").Result())
}

func hashSetEx(t *testing.T, c subject) {
	is(t, int64(1))(c.HSetEX(ctx, "h", "a", "1", "b", "2").Result())
	with := func(condition redis.HSetEXCondition, kind redis.HSetEXExpirationType,
		n int64) *redis.IntCmd {
		return c.HSetEXWithArgs(ctx, "h", &redis.HSetEXOptions{Condition: condition,
			ExpirationType: kind, ExpirationVal: n}, "a", "x", "c", "x")
	}
	is(t, int64(0))(with(redis.HSetEXFXX, redis.HSetEXExpirationEX, 60).Result())
	is(t, int64(0))(with(redis.HSetEXFNX, redis.HSetEXExpirationEX, 60).Result())
	is(t, map[string]string{"a": "1", "b": "2"})(c.HGetAll(ctx, "h").Result())
	is(t, int64(1))(with("", redis.HSetEXExpirationEX, 60).Result())
	fieldExpires(t, c, "h", "a", time.Minute)
	is(t, int64(1))(with(redis.HSetEXFXX, redis.HSetEXExpirationKEEPTTL, 0).Result())
	fieldExpires(t, c, "h", "c", time.Minute)
	is(t, int64(1))(c.HSetEX(ctx, "h", "c", "3").Result())
	is(t, []int64{-1})(c.HTTL(ctx, "h", "c").Result())
}

func hashGetDel(t *testing.T, c subject) {
	is(t, int64(3))(c.HSet(ctx, "h", "a", 1, "b", 2, "c", 3).Result())
	is(t, []string{"1", "2"})(c.HGetDel(ctx, "h", "a", "b").Result())
	is[any](t, []any{nil, "3"})(c.do("HGETDEL", "h", "FIELDS", 2, "a", "c"))
	is(t, int64(0))(c.Exists(ctx, "h").Result())
}
