package e2e

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestGoRedisBitmaps: for the commands for bits, go-redis gets the same replies from Keyp as from
// Redis.
func TestGoRedisBitmaps(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "bits", run: bits},
		{name: "BITOP", run: bitOperations},
		{name: "BITOP of 8.2", run: bitOperations82, newer: "8.2"},
		{name: "BITFIELD", run: bitFields},
	})
}

func bits(t *testing.T, c subject) {
	is(t, int64(0))(c.SetBit(ctx, "k", 9, 1).Result())
	is(t, int64(1))(c.SetBit(ctx, "k", 9, 1).Result())
	is(t, int64(1))(c.GetBit(ctx, "k", 9).Result())
	is(t, int64(0))(c.GetBit(ctx, "k", 99).Result())
	is(t, "\x00\x40")(c.Get(ctx, "k").Result())
	is(t, int64(1))(c.BitCount(ctx, "k", nil).Result())
	is(t, int64(0))(c.BitCount(ctx, "k", &redis.BitCount{Start: 0, End: 0}).Result())
	is(t, int64(1))(c.BitCount(ctx, "k",
		&redis.BitCount{Start: 8, End: 9, Unit: redis.BitCountIndexBit}).Result())
	is(t, int64(9))(c.BitPos(ctx, "k", 1).Result())
	is(t, int64(8))(c.BitPos(ctx, "k", 0, 1).Result())
	is(t, int64(-1))(c.BitPosSpan(ctx, "k", 1, 0, 8, "bit").Result())
	fails(t, "ERR bit is not an integer or out of range", c.SetBit(ctx, "k", 1, 2))
	fails(t, "ERR bit offset is not an integer or out of range", c.SetBit(ctx, "k", -1, 1))
}

func bitOperations(t *testing.T, c subject) {
	is(t, "OK")(c.MSet(ctx, "a", "\xf0", "b", "\x3c\x01").Result())
	is(t, int64(2))(c.BitOpAnd(ctx, "d", "a", "b").Result())
	is(t, "\x30\x00")(c.Get(ctx, "d").Result())
	is(t, int64(2))(c.BitOpOr(ctx, "d", "a", "b").Result())
	is(t, "\xfc\x01")(c.Get(ctx, "d").Result())
	is(t, int64(2))(c.BitOpXor(ctx, "d", "a", "b").Result())
	is(t, "\xcc\x01")(c.Get(ctx, "d").Result())
	is(t, int64(1))(c.BitOpNot(ctx, "d", "a").Result())
	is(t, "\x0f")(c.Get(ctx, "d").Result())
}

func bitOperations82(t *testing.T, c subject) {
	is(t, "OK")(c.MSet(ctx, "a", "\xf0", "b", "\x3c").Result())
	is(t, int64(1))(c.BitOpDiff(ctx, "d", "a", "b").Result())
	is(t, "\xc0")(c.Get(ctx, "d").Result())
	is(t, int64(1))(c.BitOpDiff1(ctx, "d", "a", "b").Result())
	is(t, "\x0c")(c.Get(ctx, "d").Result())
	is(t, int64(1))(c.BitOpAndOr(ctx, "d", "a", "b").Result())
	is(t, "\x30")(c.Get(ctx, "d").Result())
	is(t, int64(1))(c.BitOpOne(ctx, "d", "a", "b").Result())
	is(t, "\xcc")(c.Get(ctx, "d").Result())
}

func bitFields(t *testing.T, c subject) {
	is(t, []int64{0, 1})(c.BitField(ctx, "k", "SET", "u8", "0", "255", "INCRBY", "i5",
		"100", "1").Result())
	is(t, []int64{255, -1})(c.BitFieldRO(ctx, "k", "u8", "0", "i8", "0").Result())
	is(t, []int64{255})(c.BitField(ctx, "k", "OVERFLOW", "SAT", "INCRBY", "u8", "0", "9").Result())
}
