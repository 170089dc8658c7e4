package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestGoRedisCollections runs TYPE, COPY, DUMP and other commands for keys of any type, on a small
// and a large collection of each type.
func TestGoRedisCollections(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "TYPE and encodings", run: collectionEncodings},
		{name: "small encodings", run: smallEncodings, newer: "7.2"},
		{name: "EXPIRE and PERSIST", run: collectionExpire},
		{name: "gone at the deadline", run: collectionsGone},
		{name: "COPY", run: copyCollections},
		{name: "RENAME and MOVE", run: moveCollections},
		{name: "DUMP and RESTORE", run: dumpAndRestore},
		{name: "DUMP of members with deadlines", run: dumpMembers, newer: "Keyp's own"},
		{name: "SCAN TYPE", run: scanCollections},
		{name: "DEL, UNLINK and overwriting", run: removeCollections},
		{name: "WRONGTYPE", run: collectionsOfOtherTypes},
	})
}

// collection describes a type of collections, and how a client fills and reads it.
type collection struct {
	typ          string
	small, large string // encodings
	// add adds the elements with numbers from (inclusive) up to to (exclusive) to a key.
	add func(c subject, key string, from, to int) error
	// read returns all elements. The result is the same for equal values.
	read func(c subject, key string) (any, error)
}

const few, many = 5, 2000

var collections = []collection{
	{"list", "listpack", "quicklist", func(c subject, key string, from, to int) error {
		return c.RPush(ctx, key, elements(from, to)...).Err()
	}, func(c subject, key string) (any, error) { return c.LRange(ctx, key, 0, -1).Result() }},
	{"set", "listpack", "hashtable", func(c subject, key string, from, to int) error {
		return c.SAdd(ctx, key, elements(from, to)...).Err()
	}, func(c subject, key string) (any, error) { return c.SMembersMap(ctx, key).Result() }},
	{"hash", "listpack", "hashtable", func(c subject, key string, from, to int) error {
		var pairs []any
		for _, e := range elements(from, to) {
			pairs = append(pairs, e, fmt.Sprint("value of ", e))
		}
		return c.HSet(ctx, key, pairs...).Err()
	}, func(c subject, key string) (any, error) { return c.HGetAll(ctx, key).Result() }},
	{"zset", "listpack", "skiplist", func(c subject, key string, from, to int) error {
		var scored []redis.Z
		for i, e := range elements(from, to) {
			scored = append(scored, redis.Z{Score: float64(from+i) / 4, Member: e})
		}
		return c.ZAdd(ctx, key, scored...).Err()
	}, func(c subject, key string) (any, error) {
		return c.ZRangeWithScores(ctx, key, 0, -1).Result()
	}},
}

func elements(from, to int) (list []any) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("e\r\n%d", i))
	}
	return list
}

// filled makes a key with the first n elements, and returns its value as a client reads it.
func (k collection) filled(t *testing.T, c subject, key string, n int) any {
	t.Helper()
	if err := k.add(c, key, 0, n); err != nil {
		t.Fatal(err)
	}
	value, err := k.read(c, key)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// eachCollection runs a check with a small and a large value of each type.
func eachCollection(t *testing.T, c subject, check func(t *testing.T, k collection, n int)) {
	for _, k := range collections {
		for _, n := range []int{few, many} {
			is(t, "OK")(c.FlushAll(ctx).Result())
			t.Run(fmt.Sprint(k.typ, " of ", n), func(t *testing.T) { check(t, k, n) })
		}
	}
}

// absent checks that a key reads as an empty collection and does not exist.
func (k collection) absent(t *testing.T, c subject, key string) {
	t.Helper()
	is(t, "none")(c.Type(ctx, key).Result())
	is(t, int64(0))(c.Exists(ctx, key).Result())
	is(t, time.Duration(-2))(c.PTTL(ctx, key).Result())
	missing(t, c.ObjectEncoding(ctx, key))
	switch value, err := k.read(c, key); empty := value.(type) {
	case []string:
		is(t, 0)(len(empty), err)
	case []redis.Z:
		is(t, 0)(len(empty), err)
	case map[string]string:
		is(t, 0)(len(empty), err)
	case map[string]struct{}:
		is(t, 0)(len(empty), err)
	}
}

func collectionEncodings(t *testing.T, c subject) {
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		k.filled(t, c, "k", n)
		is(t, k.typ)(c.Type(ctx, "k").Result())
		is(t, int64(1))(c.ObjectRefCount(ctx, "k").Result())
		justUsed(t, c, "k")
		if used, err := c.MemoryUsage(ctx, "k").Result(); err != nil || used < int64(4*n) {
			t.Errorf("MEMORY USAGE: %d bytes for %d elements, %v", used, n, err)
		}
		if n == many {
			is(t, k.large)(c.ObjectEncoding(ctx, "k").Result())
		}
	})
	is(t, int64(3))(c.SAdd(ctx, "integers", 1, -2, 3).Result())
	is(t, "intset")(c.ObjectEncoding(ctx, "integers").Result())
}

func smallEncodings(t *testing.T, c subject) {
	for _, k := range collections {
		k.filled(t, c, k.typ, few)
		is(t, k.small)(c.ObjectEncoding(ctx, k.typ).Result())
	}
	is(t, int64(1))(c.SAdd(ctx, "integers", 1).Result())
	is(t, int64(1))(c.SAdd(ctx, "integers", "one").Result())
	is(t, "listpack")(c.ObjectEncoding(ctx, "integers").Result())
}

func collectionExpire(t *testing.T, c subject) {
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		before := k.filled(t, c, "k", n)
		persists(t, c, "k")
		is(t, true)(c.Expire(ctx, "k", time.Hour).Result())
		expires(t, c, "k", time.Hour)
		is(t, false)(c.ExpireNX(ctx, "k", time.Minute).Result())
		is(t, false)(c.ExpireGT(ctx, "k", time.Minute).Result())
		is(t, before)(k.read(c, "k"))
		if err := k.add(c, "k", n, n+1); err != nil {
			t.Fatal(err)
		}
		expires(t, c, "k", time.Hour) // an element more leaves the deadline
		is(t, true)(c.Persist(ctx, "k").Result())
		is(t, false)(c.Persist(ctx, "k").Result())
		persists(t, c, "k")
		is(t, true)(c.ExpireAt(ctx, "k", time.Unix(1, 0)).Result())
		k.absent(t, c, "k")
		is(t, before)(k.filled(t, c, "k", n), nil)
		persists(t, c, "k")
	})
}

func collectionsGone(t *testing.T, c subject) {
	at := time.Now().Add(150 * time.Millisecond).Truncate(time.Millisecond)
	for _, k := range collections {
		for _, n := range []int{few, many} {
			key := fmt.Sprint(k.typ, n)
			k.filled(t, c, key, n)
			is(t, true)(c.PExpireAt(ctx, key, at).Result())
		}
	}
	waitUntil(at)
	for _, k := range collections {
		for _, n := range []int{few, many} {
			key := fmt.Sprint(k.typ, n)
			k.absent(t, c, key)
			is(t, int64(0))(c.Copy(ctx, key, "copy", 0, false).Result())
			fails(t, "ERR no such key", c.Rename(ctx, key, "renamed"))
			missing(t, c.Dump(ctx, key))
			k.filled(t, c, key, 1)
			persists(t, c, key)
		}
	}
}

func copyCollections(t *testing.T, c subject) {
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		value := k.filled(t, c, "k", n)
		is(t, true)(c.Expire(ctx, "k", time.Hour).Result())
		is(t, int64(1))(c.Copy(ctx, "k", "copy", 0, false).Result())
		is(t, int64(0))(c.Copy(ctx, "k", "copy", 0, false).Result())
		is(t, value)(k.read(c, "copy"))
		expires(t, c, "copy", time.Hour)
		is(t, int64(1))(c.Copy(ctx, "k", "k", 4, false).Result())
		is(t, value)(k.read(c.other(4), "k"))
		expires(t, c.other(4), "k", time.Hour)
		is(t, "OK")(c.Set(ctx, "str", "v", 0).Result())
		is(t, int64(1))(c.Copy(ctx, "k", "str", 0, true).Result())
		is(t, value)(k.read(c, "str"))

		// Later changes of one key do not change its copies.
		if err := k.add(c, "k", n, n+1); err != nil {
			t.Fatal(err)
		}
		is(t, int64(1))(c.Del(ctx, "str").Result())
		is(t, value)(k.read(c, "copy"))
		is(t, value)(k.read(c.other(4), "k"))
	})
}

func moveCollections(t *testing.T, c subject) {
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		value := k.filled(t, c, "k", n)
		is(t, true)(c.Expire(ctx, "k", time.Hour).Result())
		is(t, "OK")(c.Set(ctx, "str", "v", 0).Result())
		is(t, false)(c.RenameNX(ctx, "k", "str").Result())
		is(t, "OK")(c.Rename(ctx, "k", "str").Result())
		k.absent(t, c, "k")
		is(t, value)(k.read(c, "str"))
		expires(t, c, "str", time.Hour)
		is(t, true)(c.RenameNX(ctx, "str", "k").Result())
		is(t, true)(c.Move(ctx, "k", 6).Result())
		k.absent(t, c, "k")
		is(t, value)(k.read(c.other(6), "k"))
		expires(t, c.other(6), "k", time.Hour)
		is(t, int64(0))(c.DBSize(ctx).Result())
	})
}

func dumpAndRestore(t *testing.T, c subject) {
	missing(t, c.Dump(ctx, "none"))
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		value := k.filled(t, c, "k", n)
		payload, err := c.Dump(ctx, "k").Result()
		if err != nil {
			t.Fatal(err)
		}
		restores(t, c, payload)
		is(t, value)(k.read(c, "restored"))
		is(t, k.typ)(c.Type(ctx, "restored").Result())
		is(t, c.ObjectEncoding(ctx, "k").Val())(c.ObjectEncoding(ctx, "restored").Result())
		flipped := []byte(payload)
		flipped[len(flipped)/2] ^= 1
		fails(t, "ERR DUMP payload version or checksum are wrong",
			c.Restore(ctx, "bad", 0, string(flipped)))
	})
	is(t, "OK")(c.Set(ctx, "str", "v", 0).Result())
	restores(t, c, c.Dump(ctx, "str").Val())
	is(t, "v")(c.Get(ctx, "restored").Result())
	fails(t, "ERR DUMP payload version or checksum are wrong",
		c.Restore(ctx, "k2", 0, "not a payload"))
	fails(t, "ERR Invalid TTL value, must be >= 0", c.Do(ctx, "RESTORE", "k2", -1, "x"))
}

// restores checks that RESTORE accepts a payload, with a time to live and over an existing key.
// Afterwards the value is at "restored", without a deadline.
func restores(t *testing.T, c subject, payload string) {
	t.Helper()
	c.Del(ctx, "restored")
	is(t, "OK")(c.Restore(ctx, "restored", time.Hour, payload).Result())
	expires(t, c, "restored", time.Hour)
	fails(t, "BUSYKEY Target key name already exists.", c.Restore(ctx, "restored", 0, payload))
	is(t, "OK")(c.RestoreReplace(ctx, "restored", 0, payload).Result())
	persists(t, c, "restored")
}

func dumpMembers(t *testing.T, c subject) {
	is(t, int64(2))(c.SAdd(ctx, "s", "a", "b").Result())
	is[any](t, int64(1))(c.do("EXPIREMEMBER", "s", "a", 1000))
	payload, err := c.Dump(ctx, "s").Result()
	if err != nil {
		t.Fatal(err)
	}
	is(t, "OK")(c.Restore(ctx, "s2", 0, payload).Result())
	if got, err := c.Do(ctx, "TTL", "s2", "a").Int(); err != nil ||
		got < 1000-int(c.age()/time.Second) || got > 1000 {
		t.Errorf("TTL s2 a: %d, %v", got, err)
	}
	is[any](t, int64(-1))(c.do("TTL", "s2", "b"))
}

func scanCollections(t *testing.T, c subject) {
	for _, k := range collections {
		k.filled(t, c, "small "+k.typ, few)
		k.filled(t, c, "large "+k.typ, many)
	}
	is(t, "OK")(c.Set(ctx, "str", "v", 0).Result())
	for _, k := range collections {
		keys, cursor, err := c.ScanType(ctx, 0, "*", 1000, k.typ).Result()
		slices.Sort(keys)
		if want := []string{"large " + k.typ, "small " + k.typ}; err != nil || cursor != 0 ||
			!slices.Equal(keys, want) {
			t.Errorf("SCAN TYPE %s: %q, cursor %d, %v; want %q", k.typ, keys, cursor, err, want)
		}
	}
	is(t, int64(9))(c.DBSize(ctx).Result())
}

func removeCollections(t *testing.T, c subject) {
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		for _, key := range []string{"a", "b", "c", "d"} {
			k.filled(t, c, key, n)
			is(t, true)(c.Expire(ctx, key, time.Hour).Result())
		}
		is(t, int64(3))(c.Exists(ctx, "a", "b", "none", "a").Result())
		is(t, int64(2))(c.Touch(ctx, "a", "none", "b").Result())
		is(t, int64(1))(c.Del(ctx, "a", "none", "a").Result())
		is(t, int64(1))(c.Unlink(ctx, "b").Result())
		k.absent(t, c, "a")
		k.absent(t, c, "b")
		is(t, "OK")(c.Set(ctx, "c", "v", redis.KeepTTL).Result())
		is(t, "v")(c.Get(ctx, "c").Result())
		expires(t, c, "c", time.Hour)
		is(t, "OK")(c.MSet(ctx, "d", "w").Result())
		is(t, "w")(c.Get(ctx, "d").Result())
		persists(t, c, "d")
		is(t, int64(2))(c.DBSize(ctx).Result())
	})
}

func collectionsOfOtherTypes(t *testing.T, c subject) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	lines := map[string][]string{
		"string": {"GET k", "APPEND k x", "INCR k", "GETDEL k", "GETEX k", "GETSET k v",
			"SETRANGE k 0 x", "GETRANGE k 0 1", "STRLEN k"},
		"list": {"RPUSH k a", "LRANGE k 0 1", "LINDEX k 0", "LPOP k", "LLEN k", "LREM k 0 a",
			"LMOVE k k LEFT LEFT"},
		"set": {"SADD k a", "SMEMBERS k", "SISMEMBER k a", "SPOP k", "SCARD k",
			"SUNION k none", "SMOVE k d a"},
		"hash": {"HSET k f v", "HGET k f", "HGETALL k", "HDEL k f", "HLEN k", "HINCRBY k f 1",
			"HRANDFIELD k"},
		"zset": {"ZADD k 1 a", "ZRANGE k 0 1", "ZSCORE k a", "ZREM k a", "ZCARD k",
			"ZINCRBY k 1 a", "ZPOPMIN k"},
	}
	eachCollection(t, c, func(t *testing.T, k collection, n int) {
		value := k.filled(t, c, "k", n)
		for typ, lines := range lines {
			for _, line := range lines {
				if typ != k.typ {
					fails(t, wrongType, c.Do(ctx, words(line)...))
				}
			}
		}
		if k.typ == "hash" {
			fails(t, wrongType, c.Sort(ctx, "k", &redis.Sort{Alpha: true}))
		}
		is(t, value)(k.read(c, "k"))
	})
}
