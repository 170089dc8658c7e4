package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestGoRedisStrings(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "SET and GET", run: setAndGet},
		{name: "SET options", run: setOptions},
		{name: "SET errors", run: setErrors},
		{name: "SET IFEQ and IFNE", run: setIfEqual, newer: "8.4"},
		{name: "DIGEST, SET IFDEQ and IFDNE", run: setIfDigest, newer: "8.4"},
		{name: "DELEX", run: delEx, newer: "8.4"},
		{name: "MSETEX", run: mSetEx, newer: "8.4"},
		{name: "binary and large", run: binaryAndLarge},
		{name: "GETEX and GETDEL", run: getExAndGetDel},
		{name: "many keys", run: manyKeys},
		{name: "counters", run: counters},
		{name: "counter errors", run: counterErrors},
		{name: "floats", run: floats},
		{name: "ranges", run: ranges},
		{name: "LCS", run: lcs},
	})
}

func setAndGet(t *testing.T, c subject) {
	missing(t, c.Get(ctx, "k"))
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, "v")(c.Get(ctx, "k").Result())
	is[any](t, "v")(c.do("GETSET", "k", "w"))
	missing(t, c.Do(ctx, "GETSET", "new", "x"))
	is[any](t, int64(0))(c.do("SETNX", "k", "other"))
	is[any](t, int64(1))(c.do("SETNX", "fresh", "v"))
	is(t, "w")(c.Get(ctx, "k").Result())
	is[any](t, "OK")(c.do("SETEX", "k", 100, "v"))
	expires(t, c, "k", 100*time.Second)
	is[any](t, "OK")(c.do("PSETEX", "k", 100_000, "v"))
	expires(t, c, "k", 100*time.Second)
	missing(t, c.Do(ctx, "GETSET", "empty", ""))
	is(t, "")(c.Get(ctx, "empty").Result())
	is(t, int64(0))(c.StrLen(ctx, "none").Result())
	is(t, int64(1))(c.StrLen(ctx, "k").Result())
}

func setOptions(t *testing.T, c subject) {
	is(t, true)(c.SetNX(ctx, "k", "1", time.Minute).Result())
	is(t, false)(c.SetNX(ctx, "k", "2", time.Minute).Result())
	is(t, true)(c.SetXX(ctx, "k", "3", redis.KeepTTL).Result())
	is(t, false)(c.SetXX(ctx, "none", "3", 0).Result())
	expires(t, c, "k", time.Minute)
	is(t, "3")(c.SetArgs(ctx, "k", "4", redis.SetArgs{Get: true, KeepTTL: true}).Result())
	expires(t, c, "k", time.Minute)
	is(t, "4")(c.SetArgs(ctx, "k", "5", redis.SetArgs{Get: true, Mode: "NX"}).Result())
	is(t, "4")(c.Get(ctx, "k").Result())
	missing(t, c.SetArgs(ctx, "other", "6", redis.SetArgs{Get: true, Mode: "NX"}))
	is(t, "6")(c.Get(ctx, "other").Result())
	missing(t, c.SetArgs(ctx, "none", "7", redis.SetArgs{Get: true, Mode: "XX"}))
	is(t, int64(0))(c.Exists(ctx, "none").Result())

	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	is(t, "OK")(c.SetArgs(ctx, "k", "8", redis.SetArgs{ExpireAt: at}).Result())
	is[any](t, at.UnixMilli())(c.do("PEXPIRETIME", "k"))
	is[any](t, "OK")(c.do("SET", "k", "9", "EXAT", at.Unix()))
	is[any](t, at.Unix()*1000)(c.do("PEXPIRETIME", "k"))
	is[any](t, "OK")(c.do("set", "k", "10", "px", 50000, "xx"))
	expires(t, c, "k", 50*time.Second)
	is(t, "OK")(c.Set(ctx, "k", "11", 0).Result())
	persists(t, c, "k")
	is[any](t, "OK")(c.do("SET", "k", "12", "PXAT", 1))
	missing(t, c.Get(ctx, "k"))
}

func setErrors(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", "kept", 0).Result())
	for _, tt := range []struct {
		args string
		want string
	}{
		{"SET k", "ERR wrong number of arguments for 'set' command"},
		{"SET k v BAD", "ERR syntax error"},
		{"SET k v NX XX", "ERR syntax error"},
		{"SET k v EX", "ERR syntax error"},
		{"SET k v EX 10 PX 10", "ERR syntax error"},
		{"SET k v EX 10 KEEPTTL", "ERR syntax error"},
		{"SET k v EX ten", "ERR value is not an integer or out of range"},
		{"SET k v EX 0", "ERR invalid expire time in 'set' command"},
		{"SET k v PX -1", "ERR invalid expire time in 'set' command"},
		{"SET k v EX 9223372036854775807", "ERR invalid expire time in 'set' command"},
		{"SETEX k 0 v", "ERR invalid expire time in 'setex' command"},
		{"SETEX k", "ERR wrong number of arguments for 'setex' command"},
		{"PSETEX k -5 v", "ERR invalid expire time in 'psetex' command"},
		{"PSETEX k x v", "ERR value is not an integer or out of range"},
		{"GET", "ERR wrong number of arguments for 'get' command"},
		{"GETEX k EX", "ERR syntax error"},
		{"GETEX k EX 0", "ERR invalid expire time in 'getex' command"},
		{"GETEX k PERSIST EX 1", "ERR syntax error"},
		{"MSET a 1 b", "ERR wrong number of arguments for 'mset' command"},
		{"MSETNX a 1 b", "ERR wrong number of arguments for 'msetnx' command"},
	} {
		fails(t, tt.want, c.Do(ctx, words(tt.args)...))
	}
	is(t, "kept")(c.Get(ctx, "k").Result())
	persists(t, c, "k")
}

// words splits a command line at its spaces.
func words(line string) []any {
	var list []any
	for word := range strings.FieldsSeq(line) {
		list = append(list, word)
	}
	return list
}

func setIfEqual(t *testing.T, c subject) {
	missing(t, c.SetIFEQ(ctx, "k", "new", "old", 0))
	is(t, int64(0))(c.Exists(ctx, "k").Result())
	is(t, "OK")(c.SetIFNE(ctx, "k", "old", "x", 0).Result())
	is(t, "OK")(c.SetIFEQ(ctx, "k", "new", "old", time.Minute).Result())
	expires(t, c, "k", time.Minute)
	missing(t, c.SetIFEQ(ctx, "k", "newer", "old", 0))
	missing(t, c.SetIFNE(ctx, "k", "newer", "new", 0))
	is(t, "new")(c.SetIFEQGet(ctx, "k", "newer", "new", 0).Result())
	is(t, "newer")(c.Get(ctx, "k").Result())
}

// helloDigest is the XXH3 of "hello", as in Redis's documentation of DIGEST.
const helloDigest = 0x9555e8555c62dcfd

func setIfDigest(t *testing.T, c subject) {
	missing(t, c.Digest(ctx, "k"))
	missing(t, c.SetIFDEQ(ctx, "k", "new", helloDigest, 0))
	is(t, int64(0))(c.Exists(ctx, "k").Result())
	is(t, "OK")(c.SetIFDNE(ctx, "k", "hello", 1, 0).Result())
	is(t, uint64(helloDigest))(c.Digest(ctx, "k").Result())
	missing(t, c.SetIFDNE(ctx, "k", "new", helloDigest, 0))
	missing(t, c.SetIFDEQ(ctx, "k", "new", 1, 0))
	is(t, "hello")(c.SetIFDEQGet(ctx, "k", "new", helloDigest, time.Minute).Result())
	expires(t, c, "k", time.Minute)
	is(t, "new")(c.SetIFDNEGet(ctx, "k", "newer", helloDigest, 0).Result())
	is(t, "newer")(c.Get(ctx, "k").Result())
	persists(t, c, "k")
	fails(t, "ERR must be exactly 16 hexadecimal characters",
		c.Do(ctx, "SET", "k", "v", "IFDEQ", "1"))
	is(t, int64(1))(c.RPush(ctx, "l", "a").Result())
	fails(t, "WRONGTYPE Operation against a key holding the wrong kind of value",
		c.Digest(ctx, "l"))
}

func delEx(t *testing.T, c subject) {
	is(t, int64(0))(c.DelExArgs(ctx, "k",
		redis.DelExArgs{Mode: "IFEQ", MatchValue: "hello"}).Result())
	for _, hold := range []redis.DelExArgs{
		{Mode: "IFEQ", MatchValue: "other"}, {Mode: "IFNE", MatchValue: "hello"},
		{Mode: "IFDEQ", MatchDigest: 1}, {Mode: "IFDNE", MatchDigest: helloDigest},
	} {
		is(t, "OK")(c.Set(ctx, "k", "hello", 0).Result())
		is(t, int64(0))(c.DelExArgs(ctx, "k", hold).Result())
		is(t, "hello")(c.Get(ctx, "k").Result())
	}
	for _, met := range []redis.DelExArgs{
		{}, {Mode: "IFEQ", MatchValue: "hello"}, {Mode: "IFNE", MatchValue: "other"},
		{Mode: "IFDEQ", MatchDigest: helloDigest}, {Mode: "IFDNE", MatchDigest: 1},
	} {
		is(t, "OK")(c.Set(ctx, "k", "hello", time.Minute).Result())
		is(t, int64(1))(c.DelExArgs(ctx, "k", met).Result())
		gone(t, c, "k")
	}
	is(t, int64(1))(c.RPush(ctx, "l", "a").Result())
	fails(t, "ERR Key should be of string type if conditions are specified",
		c.DelExArgs(ctx, "l", redis.DelExArgs{Mode: "IFEQ", MatchValue: "a"}))
	is(t, int64(1))(c.DelExArgs(ctx, "l", redis.DelExArgs{}).Result())
}

func mSetEx(t *testing.T, c subject) {
	within := func(mode redis.ExpirationMode, value int64) redis.MSetEXArgs {
		return redis.MSetEXArgs{Expiration: &redis.ExpirationOption{Mode: mode, Value: value}}
	}
	is(t, int64(1))(c.MSetEX(ctx, within(redis.EX, 60), "a", "1", "b", "2").Result())
	is(t, []any{"1", "2"})(c.MGet(ctx, "a", "b").Result())
	expires(t, c, "a", time.Minute)
	expires(t, c, "b", time.Minute)
	is(t, int64(0))(c.MSetEX(ctx, redis.MSetEXArgs{Condition: redis.NX}, "new", "3",
		"a", "3").Result())
	is(t, int64(0))(c.MSetEX(ctx, redis.MSetEXArgs{Condition: redis.XX}, "new", "3",
		"a", "3").Result())
	is(t, []any{"1", nil})(c.MGet(ctx, "a", "new").Result())
	is(t, int64(1))(c.MSetEX(ctx, within(redis.KEEPTTL, 0), "a", "3", "new", "3").Result())
	expires(t, c, "a", time.Minute)
	persists(t, c, "new")
	at := time.Now().Add(time.Hour)
	is(t, int64(1))(c.MSetEX(ctx, within(redis.PXAT, at.UnixMilli()), "a", "4").Result())
	is[any](t, at.UnixMilli())(c.do("PEXPIRETIME", "a"))
	is(t, int64(1))(c.MSetEX(ctx, redis.MSetEXArgs{Condition: redis.XX}, "a", "5",
		"b", "5").Result())
	persists(t, c, "a")
	is(t, int64(1))(c.MSetEX(ctx, within(redis.EXAT, 1), "a", "6").Result())
	gone(t, c, "a")
	fails(t, "ERR invalid expire time in 'msetex' command",
		c.MSetEX(ctx, within(redis.PX, 0), "a", "7"))
	fails(t, "ERR wrong number of key-value pairs", c.Do(ctx, "MSETEX", 2, "a", "1", "b"))
}

func binaryAndLarge(t *testing.T, c subject) {
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	large := strings.Repeat("x", 1<<20)
	pairs := map[string]string{"large": large, large[:100_000]: "small"}
	for _, text := range []string{"", "\x00", "\r\n", all.String()} {
		pairs[text], pairs["k"+text] = text, text
	}
	for key, value := range pairs {
		is(t, "OK")(c.Set(ctx, key, value, 0).Result())
	}
	for key, value := range pairs {
		is(t, value)(c.Get(ctx, key).Result())
		is(t, int64(len(value)))(c.StrLen(ctx, key).Result())
	}
	is(t, int64(len(pairs)))(c.DBSize(ctx).Result())
}

func getExAndGetDel(t *testing.T, c subject) {
	missing(t, c.GetEx(ctx, "k", time.Minute))
	missing(t, c.GetDel(ctx, "k"))
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, "v")(c.GetEx(ctx, "k", time.Minute).Result())
	expires(t, c, "k", time.Minute)
	is[any](t, "v")(c.do("GETEX", "k"))
	expires(t, c, "k", time.Minute)
	is(t, "v")(c.GetEx(ctx, "k", 0).Result()) // PERSIST
	persists(t, c, "k")
	at := time.Now().Add(time.Hour).UnixMilli()
	is[any](t, "v")(c.do("GETEX", "k", "PXAT", at))
	is[any](t, at)(c.do("PEXPIRETIME", "k"))
	is[any](t, "v")(c.do("GETEX", "k", "EXAT", 1))
	is(t, int64(0))(c.Exists(ctx, "k").Result())
	is(t, "OK")(c.Set(ctx, "k", "v", 0).Result())
	is(t, "v")(c.GetDel(ctx, "k").Result())
	is(t, int64(0))(c.Exists(ctx, "k").Result())
}

func manyKeys(t *testing.T, c subject) {
	is(t, "OK")(c.MSet(ctx, "a", "1", "b", "2", "c", "3", "a", "4").Result())
	is(t, []any{"4", "2", nil, "3", "4"})(c.MGet(ctx, "a", "b", "none", "c", "a").Result())
	is(t, false)(c.MSetNX(ctx, "d", "1", "a", "5").Result())
	is(t, int64(0))(c.Exists(ctx, "d").Result())
	is(t, true)(c.MSetNX(ctx, "d", "1", "e", "2").Result())
	is(t, int64(3))(c.Exists(ctx, "d", "e", "none", "d").Result())
	is(t, int64(2))(c.Touch(ctx, "a", "none", "b").Result())
	is(t, int64(2))(c.Del(ctx, "a", "none", "b", "a").Result())
	is(t, int64(1))(c.Unlink(ctx, "c", "c").Result())
	is(t, int64(2))(c.DBSize(ctx).Result())
	is(t, "OK")(c.Set(ctx, "d", "x", time.Minute).Result())
	is(t, "OK")(c.MSet(ctx, "d", "y").Result())
	persists(t, c, "d")
}

func counters(t *testing.T, c subject) {
	is(t, int64(1))(c.Incr(ctx, "n").Result())
	is(t, int64(11))(c.IncrBy(ctx, "n", 10).Result())
	is(t, int64(10))(c.Decr(ctx, "n").Result())
	is(t, int64(-5))(c.DecrBy(ctx, "n", 15).Result())
	is(t, "-5")(c.Get(ctx, "n").Result())
	is(t, "OK")(c.Set(ctx, "n", "9223372036854775806", time.Minute).Result())
	is(t, int64(9223372036854775807))(c.Incr(ctx, "n").Result())
	expires(t, c, "n", time.Minute)
}

func counterErrors(t *testing.T, c subject) {
	const notInteger = "ERR value is not an integer or out of range"
	is(t, "OK")(c.Set(ctx, "max", "9223372036854775807", 0).Result())
	is(t, "OK")(c.Set(ctx, "min", "-9223372036854775808", 0).Result())
	fails(t, "ERR increment or decrement would overflow", c.Incr(ctx, "max"))
	fails(t, "ERR increment or decrement would overflow", c.Decr(ctx, "min"))
	fails(t, "ERR decrement would overflow", c.Do(ctx, "DECRBY", "n", "-9223372036854775808"))
	for _, bad := range []string{"", " 1", "1 ", "+1", "01", "1.0", "x", "9223372036854775808",
		"0x1"} {
		is(t, "OK")(c.Set(ctx, "bad", bad, 0).Result())
		fails(t, notInteger, c.Incr(ctx, "bad"))
		fails(t, notInteger, c.Do(ctx, "INCRBY", "n", bad))
		is(t, bad)(c.Get(ctx, "bad").Result())
	}
	is(t, int64(0))(c.Exists(ctx, "n").Result())
}

func floats(t *testing.T, c subject) {
	const notFloat = "ERR value is not a valid float"
	is(t, 10.5)(c.IncrByFloat(ctx, "f", 10.5).Result())
	is(t, 10.6)(c.IncrByFloat(ctx, "f", 0.1).Result())
	is(t, "10.6")(c.Get(ctx, "f").Result())
	is(t, "OK")(c.Set(ctx, "f", "5.0e3", time.Minute).Result())
	is(t, 5200.0)(c.IncrByFloat(ctx, "f", 200).Result())
	is(t, "5200")(c.Get(ctx, "f").Result())
	expires(t, c, "f", time.Minute)
	for _, bad := range []string{"", " 1", "1 ", "x", "nan", "1.2.3"} {
		fails(t, notFloat, c.Do(ctx, "INCRBYFLOAT", "f", bad))
	}
	fails(t, "ERR increment would produce NaN or Infinity", c.Do(ctx, "INCRBYFLOAT", "f", "inf"))
	is(t, "OK")(c.Set(ctx, "text", "abc", 0).Result())
	fails(t, notFloat, c.IncrByFloat(ctx, "text", 1))
}

func ranges(t *testing.T, c subject) {
	is(t, int64(5))(c.Append(ctx, "k", "Hello").Result())
	is(t, int64(11))(c.Append(ctx, "k", " World").Result())
	is(t, "Hello")(c.GetRange(ctx, "k", 0, 4).Result())
	is(t, "World")(c.GetRange(ctx, "k", -5, -1).Result())
	is(t, "")(c.GetRange(ctx, "k", 5, 3).Result())
	is(t, "Hello World")(c.GetRange(ctx, "k", -100, 100).Result())
	is(t, "")(c.GetRange(ctx, "none", 0, -1).Result())
	is[any](t, "llo")(c.do("SUBSTR", "k", 2, 4))
	is(t, int64(11))(c.SetRange(ctx, "k", 6, "Redis").Result())
	is(t, "Hello Redis")(c.Get(ctx, "k").Result())
	is(t, int64(7))(c.SetRange(ctx, "pad", 5, "ab").Result())
	is(t, "\x00\x00\x00\x00\x00ab")(c.Get(ctx, "pad").Result())
	is(t, int64(0))(c.SetRange(ctx, "none", 10, "").Result())
	is(t, int64(0))(c.Exists(ctx, "none").Result())
	fails(t, "ERR offset is out of range", c.SetRange(ctx, "k", -1, "x"))
	fails(t, "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
		c.SetRange(ctx, "k", 1<<40, "x"))
	is(t, true)(c.Expire(ctx, "k", time.Minute).Result())
	is(t, int64(12))(c.Append(ctx, "k", "!").Result())
	expires(t, c, "k", time.Minute)
}

func lcs(t *testing.T, c subject) {
	is(t, "OK")(c.MSet(ctx, "a", "ohmytext", "b", "mynewtext").Result())
	is(t, &redis.LCSMatch{MatchString: "mytext"})(c.LCS(ctx,
		&redis.LCSQuery{Key1: "a", Key2: "b"}).Result())
	is(t, &redis.LCSMatch{Len: 6})(c.LCS(ctx,
		&redis.LCSQuery{Key1: "a", Key2: "b", Len: true}).Result())
	is(t, &redis.LCSMatch{Len: 6, Matches: []redis.LCSMatchedPosition{
		{Key1: redis.LCSPosition{Start: 4, End: 7}, Key2: redis.LCSPosition{Start: 5, End: 8},
			MatchLen: 4},
	}})(c.LCS(ctx, &redis.LCSQuery{Key1: "a", Key2: "b", Idx: true, MinMatchLen: 4,
		WithMatchLen: true}).Result())
	is(t, &redis.LCSMatch{})(c.LCS(ctx, &redis.LCSQuery{Key1: "a", Key2: "none"}).Result())
	fails(t, "ERR If you want both the length and indexes, please just use IDX.",
		c.Do(ctx, "LCS", "a", "b", "LEN", "IDX"))
}
