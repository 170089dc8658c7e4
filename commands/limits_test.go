package commands

import (
	"testing"

	"keyp/internal/config"
	"keyp/storage/object"
)

// TestValueLimits: each option for the encoding of values takes effect, also by its older name.
func TestValueLimits(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { object.SetThresholds(object.DefaultThresholds) })
	if got := object.CurrentThresholds(); got != object.DefaultThresholds {
		t.Errorf("the options' defaults are %+v", got)
	}
	h.run(`
		CONFIG SET hash-max-listpack-entries 1 hash-max-listpack-value 2k list-max-listpack-size -3 -> +OK
		CONFIG SET set-max-intset-entries 4 set-max-listpack-entries 5 set-max-listpack-value 6 -> +OK
		CONFIG SET stream-node-max-bytes 8k stream-node-max-entries 7 -> +OK
		CONFIG SET zset-max-listpack-entries 7 zset-max-listpack-value 8 -> +OK
	`)
	want := object.Thresholds{StreamBytes: 8000, StreamEntries: 7, HashEntries: 1, HashValue: 2000,
		ListSize: -3, SetInts: 4, SetEntries: 5, SetValue: 6, ZSetEntries: 7, ZSetValue: 8}
	if got := object.CurrentThresholds(); got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
	h.run(`
		CONFIG SET hash-max-ziplist-entries 10 hash-max-ziplist-value 11 list-max-ziplist-size 12 -> +OK
		CONFIG SET zset-max-ziplist-entries 13 zset-max-ziplist-value 14 -> +OK
		CONFIG GET list-max-* -> ["list-max-listpack-size", "12", "list-max-ziplist-size", "12"]
		CONFIG SET hash-max-listpack-entries -1 -> -ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - argument must be between 0 and 9223372036854775807 inclusive
		CONFIG SET hash-max-listpack-entries 1k -> -ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - argument couldn't be parsed into an integer
		CONFIG SET zset-max-listpack-value -1 -> -ERR CONFIG SET failed (possibly related to argument 'zset-max-listpack-value') - argument must be a memory value
		CONFIG SET list-max-listpack-size 2147483648 -> -ERR CONFIG SET failed (possibly related to argument 'list-max-listpack-size') - argument must be between -2147483648 and 2147483647 inclusive
		CONFIG SET list-compress-depth -1 -> -ERR CONFIG SET failed (possibly related to argument 'list-compress-depth') - argument must be between 0 and 2147483647 inclusive
		CONFIG SET list-compress-depth 2 -> +OK
	`)
	want.HashEntries, want.HashValue, want.ListSize, want.ZSetEntries, want.ZSetValue = 10, 11, 12,
		13, 14
	if got := object.CurrentThresholds(); got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
	SetThresholds(config.New())
	if got := object.CurrentThresholds(); got != object.DefaultThresholds {
		t.Errorf("the options' defaults are %+v", got)
	}
}

// TestEncodingLimits: a value's encoding follows the limits at the time when it changes. COPY keeps
// the encoding whatever the limits are.
func TestEncodingLimits(t *testing.T) {
	t.Cleanup(func() { object.SetThresholds(object.DefaultThresholds) })
	table(t, `
		CONFIG SET hash-max-listpack-entries 2 hash-max-listpack-value 5 -> +OK
		HSET h a 1 b 2 -> 2
		OBJECT ENCODING h -> "listpack"
		COPY h small -> 1
		HSET h c 3 -> 1
		OBJECT ENCODING h -> "hashtable"
		HDEL h a b -> 2
		OBJECT ENCODING h -> "hashtable"
		COPY h large -> 1
		RENAME h h2 -> +OK
		OBJECT ENCODING h2 -> "hashtable"
		OBJECT ENCODING large -> "hashtable"
		HSET v a 12345 -> 1
		OBJECT ENCODING v -> "listpack"
		HSET v a 123456 -> 0
		OBJECT ENCODING v -> "hashtable"
		CONFIG SET hash-max-ziplist-entries 0 -> +OK
		OBJECT ENCODING small -> "listpack"
		COPY small small2 -> 1
		OBJECT ENCODING small2 -> "listpack"
		HSET small a 2 -> 0
		HSET new a 1 -> 1
		OBJECT ENCODING new -> "hashtable"

		CONFIG SET set-max-intset-entries 3 set-max-listpack-entries 4 set-max-listpack-value 3 -> +OK
		SADD i 1 2 3 -> 3
		OBJECT ENCODING i -> "intset"
		SADD i 4 -> 1
		OBJECT ENCODING i -> "hashtable"
		SADD s a b c 1 -> 4
		OBJECT ENCODING s -> "listpack"
		COPY s s2 -> 1
		SADD s d -> 1
		OBJECT ENCODING s -> "hashtable"
		OBJECT ENCODING s2 -> "listpack"
		SADD s2 long -> 1
		OBJECT ENCODING s2 -> "hashtable"

		CONFIG SET zset-max-listpack-entries 2 zset-max-listpack-value 3 -> +OK
		ZADD z 1 a 2 b -> 2
		OBJECT ENCODING z -> "listpack"
		ZADD z 3 c -> 1
		OBJECT ENCODING z -> "skiplist"
		ZREM z b c -> 2
		COPY z z2 -> 1
		OBJECT ENCODING z2 -> "skiplist"
		ZADD y 1 long -> 1
		OBJECT ENCODING y -> "skiplist"

		CONFIG SET list-max-listpack-size 3 -> +OK
		RPUSH l 1 2 3 -> 3
		OBJECT ENCODING l -> "listpack"
		RPUSH l 4 -> 4
		OBJECT ENCODING l -> "quicklist"
		COPY l l2 -> 1
		OBJECT ENCODING l2 -> "quicklist"
		CONFIG SET list-max-listpack-size 0 -> +OK
		RPUSH m 1 -> 1
		OBJECT ENCODING m -> "listpack"
		RPUSH m 2 -> 2
		OBJECT ENCODING m -> "quicklist"
	`)
}
