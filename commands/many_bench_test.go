package commands

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// numbered returns a command with n numbered arguments in a random order. If pair is not empty, it
// follows each argument.
func numbered(n int, prefix, pair string, args ...string) [][]byte {
	list := byteArgs(args...)
	for _, i := range rand.New(rand.NewPCG(uint64(n), 0)).Perm(n) {
		list = append(list, strconv.AppendInt([]byte(prefix), int64(i), 10))
		if pair != "" {
			list = append(list, []byte(pair))
		}
	}
	return list
}

// BenchmarkManyKeys runs commands with 100,000 keys in a database of a million keys.
func BenchmarkManyKeys(b *testing.B) {
	const many, all = 100_000, 1_000_000
	h := newHarness(b)
	h.store.SetEvents(0)
	value := "a value of some forty bytes, as many have"
	for from := 0; from < all; from += many {
		h.raw(numbered(many, "key:"+strconv.Itoa(from/many), value, "MSET")...)
	}
	h.raw(numbered(many, "", "", "RPUSH", "list")...)
	b.ResetTimer()
	for _, c := range []struct {
		name   string
		before [][]byte
		args   [][]byte
	}{
		{"EXISTS", nil, numbered(many, "key:1", "", "EXISTS")},
		{"EXISTS missing", nil, numbered(many, "none:1", "", "EXISTS")},
		{"MGET", nil, numbered(many, "key:1", "", "MGET")},
		{"TOUCH", nil, numbered(many, "key:1", "", "TOUCH")},
		{"MSET of new keys", numbered(many, "new:", "", "DEL"),
			numbered(many, "new:", value, "MSET")},
		{"MSET", nil, numbered(many, "key:1", value, "MSET")},
		{"DEL", numbered(many, "key:1", value, "MSET"), numbered(many, "key:1", "", "DEL")},
		{"SORT BY", nil, byteArgs("SORT", "list", "BY", "key:2*", "LIMIT", "0", "10", "ALPHA")},
		{"SORT BY missing", nil, byteArgs("SORT", "list", "BY", "none:2*", "LIMIT", "0",
			"10", "ALPHA")},
		{"SUBSCRIBE", byteArgs("RESET"), numbered(many, "channel:", "", "SUBSCRIBE")},
		{"PSUBSCRIBE", byteArgs("RESET"), numbered(many, "channel:", "", "PSUBSCRIBE")},
		{"WATCH", byteArgs("RESET"), numbered(many, "key:1", "", "WATCH")},
		{"RESET", nil, byteArgs("RESET")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.before != nil {
					b.StopTimer()
					h.raw(c.before...)
					b.StartTimer()
				}
				h.raw(c.args...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/key")
		})
	}
}

// BenchmarkRemoveMost removes most elements of a collection of a million.
func BenchmarkRemoveMost(b *testing.B) {
	const many = 1_000_000
	h := newHarness(b)
	h.store.SetEvents(0)
	members := byteArgs("ZADD", "zset")
	for _, i := range rand.Perm(many) {
		members = append(members, strconv.AppendInt(nil, int64(i), 10),
			strconv.AppendInt([]byte("m"), int64(i), 10))
	}
	for _, c := range []struct {
		name   string
		before [][]byte
		args   [][]byte
	}{
		{"LTRIM", numbered(many, "", "", "RPUSH", "list"), byteArgs("LTRIM", "list", "0", "0")},
		{"LTRIM to half", numbered(many, "", "", "RPUSH", "list"),
			byteArgs("LTRIM", "list", "0", strconv.Itoa(many/2))},
		{"ZREMRANGEBYRANK", members, byteArgs("ZREMRANGEBYRANK", "zset", "1", "-1")},
		{"ZREMRANGEBYRANK of half", members, byteArgs("ZREMRANGEBYRANK", "zset", "0",
			strconv.Itoa(many/2-10))},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				h.raw(byteArgs("DEL", "list", "zset")...)
				h.raw(c.before...)
				b.StartTimer()
				h.raw(c.args...)
			}
		})
	}
}
