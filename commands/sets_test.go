package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/resp"
)

func TestSetMembers(t *testing.T) {
	table(t, `
		SADD s -> -ERR wrong number of arguments for 'sadd' command
		SCARD s -> 0
		SMEMBERS s -> []
		SISMEMBER s a -> 0
		SMISMEMBER s a b -> [0, 0]
		SREM s a b -> 0
		EXISTS s -> 0
		SADD s b a c a -> 3
		SADD s a b -> 0
		TYPE s -> +set
		events -> sadd:s
		SCARD s -> 3
		SMEMBERS s -> ["b", "a", "c"]
		SISMEMBER s a -> 1
		SISMEMBER s "" -> 0
		SMISMEMBER s a x b a -> [1, 0, 1, 1]
		reopen
		SMEMBERS s -> ["b", "a", "c"]
		SREM s a x a -> 1
		SREM s x -> 0
		events -> srem:s
		SREM s b c -> 2
		EXISTS s -> 0
		events -> srem:s del:s
		SADD s "" "\x00" -> 2
		SISMEMBER s "" -> 1
		SADD i 3 1 2 -> 3
		SMEMBERS i -> ["1", "2", "3"]
		SISMEMBER i 02 -> 0
		SISMEMBER i 2 -> 1
		OBJECT ENCODING i -> "intset"
		OBJECT ENCODING s -> "listpack"
		reopen
		OBJECT ENCODING i -> "intset"
		SADD i x -> 1
		OBJECT ENCODING i -> "listpack"
		SMEMBERS i -> ["1", "2", "3", "x"]
		SET str v -> +OK
		SADD str a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SREM str a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SCARD str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SMEMBERS str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SISMEMBER str a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SMISMEMBER str a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GET i -> -WRONGTYPE Operation against a key holding the wrong kind of value
		proto 3
		SMEMBERS i -> ~["1", "2", "3", "x"]
		SMEMBERS none -> ~[]
		SMISMEMBER i 1 y -> [1, 0]
	`)
}

func TestSetExpires(t *testing.T) {
	table(t, `
		SADD s a b -> 2
		EXPIRE s 10 -> 1
		SADD s c -> 1
		TTL s -> 10
		advance 10s
		SCARD s -> 0
		SADD s d -> 1
		TTL s -> -1
		SMEMBERS s -> ["d"]
		events -> sadd:s expire:s sadd:s expired:s sadd:s
		reopen
		SMEMBERS s -> ["d"]
	`)
}

func TestSMove(t *testing.T) {
	table(t, `
		SADD a x y -> 2
		SADD c x -> 1
		SET str v -> +OK
		events -> sadd:a sadd:c set:str
		SMOVE a b z -> 0
		SMOVE none str x -> 0
		SMOVE none b x -> 0
		SMOVE a str z -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SMOVE str a z -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SMOVE a a x -> 1
		SMOVE a a z -> 0
		SMOVE str str z -> -WRONGTYPE Operation against a key holding the wrong kind of value
		events -> 
		SMOVE a b x -> 1
		events -> srem:a sadd:b
		SMOVE a b y -> 1
		EXISTS a -> 0
		events -> srem:a del:a sadd:b
		SMOVE b c x -> 1
		events -> srem:b
		SMEMBERS b -> ["y"]
		SMEMBERS c -> ["x"]
		reopen
		EXISTS a -> 0
		SMEMBERS b -> ["y"]
		SMEMBERS c -> ["x"]
	`)
}

func TestSetAlgebra(t *testing.T) {
	table(t, `
		SADD a 1 2 3 x -> 4
		SADD b 2 3 y -> 3
		SADD c 3 2 -> 2
		SET str v -> +OK
		events -> sadd:a sadd:b sadd:c set:str
		SINTER a -> ["1", "2", "3", "x"]
		SINTER a b c -> ["2", "3"]
		SINTER a none -> []
		SINTER a none str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SINTER str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SINTER a a -> ["1", "2", "3", "x"]
		SUNION a b c -> ["1", "2", "3", "x", "y"]
		SUNION none -> []
		SUNION none c a none -> ["2", "3", "1", "x"]
		SUNION none str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SDIFF a -> ["1", "2", "3", "x"]
		SDIFF a b -> ["1", "x"]
		SDIFF a b c none -> ["1", "x"]
		SDIFF none a -> []
		SDIFF a a -> []
		SDIFF none str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		events -> 
		SINTERSTORE to a b -> 2
		SMEMBERS to -> ["2", "3"]
		OBJECT ENCODING to -> "intset"
		SUNIONSTORE to a b -> 5
		SMEMBERS to -> ["1", "2", "3", "x", "y"]
		SDIFFSTORE to a b -> 2
		events -> sinterstore:to sunionstore:to sdiffstore:to
		EXPIRE to 100 -> 1
		SDIFFSTORE to to none -> 2
		TTL to -> -1
		SDIFFSTORE to to to -> 0
		EXISTS to -> 0
		events -> expire:to sdiffstore:to del:to
		SINTERSTORE to a none -> 0
		events -> 
		SUNIONSTORE str a -> 4
		SINTERSTORE str none a -> 0
		SUNIONSTORE b a b -> 5
		SET str v -> +OK
		SUNIONSTORE to str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SINTERSTORE to none str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SDIFFSTORE to a str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		events -> sunionstore:str del:str sunionstore:b set:str
		reopen
		EXISTS to -> 0
		SMEMBERS b -> ["1", "2", "3", "x", "y"]
		proto 3
		SINTER a b -> ~["1", "2", "3", "x"]
		SUNION c c -> ~["2", "3"]
		SDIFF c a -> ~[]
	`)
}

func TestSInterCard(t *testing.T) {
	table(t, `
		SADD a 1 2 3 x -> 4
		SADD b 2 3 x -> 3
		SET str v -> +OK
		SINTERCARD 1 a -> 4
		SINTERCARD 2 a b -> 3
		SINTERCARD 2 a b LIMIT 2 -> 2
		SINTERCARD 2 a b limit 0 -> 3
		SINTERCARD 2 a b LIMIT 9 -> 3
		SINTERCARD 2 a b LIMIT 1 LIMIT 2 -> 2
		SINTERCARD 2 a none -> 0
		SINTERCARD 2 none str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SINTERCARD 0 a -> -ERR numkeys should be greater than 0
		SINTERCARD -1 a -> -ERR numkeys should be greater than 0
		SINTERCARD x a -> -ERR numkeys should be greater than 0
		SINTERCARD 2 a -> -ERR Number of keys can't be greater than number of args
		SINTERCARD 9223372036854775807 a -> -ERR Number of keys can't be greater than number of args
		SINTERCARD 1 a b -> -ERR syntax error
		SINTERCARD 1 a LIMIT -> -ERR syntax error
		SINTERCARD 1 a LIMIT -1 -> -ERR LIMIT can't be negative
		SINTERCARD 1 a LIMIT x -> -ERR LIMIT can't be negative
		SINTERCARD 1 a LIMIT 1 FOO -> -ERR syntax error
		SINTERCARD 1 str LIMIT -1 -> -ERR LIMIT can't be negative
		COMMAND GETKEYS SINTERCARD 2 a b LIMIT 2 -> ["a", "b"]
	`)
}

// TestSPopEncoding: if SPOP takes five times as many members as remain, the remaining ones form a
// new set. Its encoding depends only on them, as in the source of Redis 7.0.
func TestSPopEncoding(t *testing.T) {
	h := newHarness(t)
	for taken, want := range map[int]string{500: "\"intset\"", 499: "\"hashtable\""} {
		args := []string{"SADD", "s"}
		for i := range 600 {
			args = append(args, strconv.Itoa(i))
		}
		h.do("DEL", "s")
		h.do(args...)
		h.do("SPOP", "s", strconv.Itoa(taken))
		if got := h.do("OBJECT", "ENCODING", "s"); got != want {
			t.Errorf("%d of 600 integers taken: %s, want %s", taken, got, want)
		}
	}
}

func TestSPop(t *testing.T) {
	table(t, `
		SPOP s -> nil
		SPOP s 0 -> []
		SPOP s 3 -> []
		SADD s only -> 1
		SPOP s 0 -> []
		SPOP s -> "only"
		EXISTS s -> 0
		events -> sadd:s spop:s del:s
		SADD s a b c -> 3
		SPOP s 5 -> ["a", "b", "c"]
		EXISTS s -> 0
		events -> sadd:s spop:s del:s
		SPOP s -1 -> -ERR value is out of range, must be positive
		SPOP s x -> -ERR value is out of range, must be positive
		SPOP s 1 2 -> -ERR syntax error
		SET str v -> +OK
		SPOP str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SPOP str 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SPOP str -1 -> -ERR value is out of range, must be positive
		proto 3
		SPOP s -> null
		SPOP s 1 -> ~[]
		SADD s a -> 1
		SPOP s 1 -> ~["a"]
	`)
}

func TestSRandMember(t *testing.T) {
	table(t, `
		SRANDMEMBER s -> nil
		SRANDMEMBER s 3 -> []
		SRANDMEMBER s -3 -> []
		SADD s a -> 1
		SRANDMEMBER s -> "a"
		SRANDMEMBER s 0 -> []
		SRANDMEMBER s 3 -> ["a"]
		SRANDMEMBER s -3 -> ["a", "a", "a"]
		SRANDMEMBER s x -> -ERR value is not an integer or out of range
		SRANDMEMBER s 1 2 -> -ERR syntax error
		SRANDMEMBER s -9223372036854775808 -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		SRANDMEMBER s 9223372036854775807 -> ["a"]
		SET str v -> +OK
		SRANDMEMBER str -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SRANDMEMBER str 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		proto 3
		SRANDMEMBER none -> null
		SRANDMEMBER none 1 -> []
		SRANDMEMBER s -1 -> ["a"]
		SRANDMEMBER s 2 -> ["a"]
	`)
	drawsEnd(t, "SADD s a", "SRANDMEMBER s -9000000000000000000")
}

// drawsEnd: an absurd count does not take more memory than a reply may have, directly or in a
// script. The command ends then.
func drawsEnd(t *testing.T, store, draw string) {
	t.Helper()
	const most = 1 << 20
	h := newHarness(t)
	h.runOne(store)
	h.ctx.Out.Max = most
	h.env.MaxReply.Store(most)
	words, _ := resp.SplitArgs([]byte(draw))
	if h.raw(words...); !h.ctx.Out.Full || len(h.ctx.Out.Buf) < most*9/10 ||
		len(h.ctx.Out.Buf) > most+100 {
		t.Errorf("%s: %d bytes, too long: %v", draw, len(h.ctx.Out.Buf), h.ctx.Out.Full)
	}
	if got := h.do("EVAL", "return #redis.call(unpack(ARGV))", "0", "SRANDMEMBER", "none",
		"-1"); got != "0" {
		t.Error(got)
	}
	call := append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"},
		strings.Fields(draw)...)
	if got := h.do(call...); !strings.Contains(got, "not enough memory") {
		t.Errorf("in a script: %.200q", got)
	}
}

// TestRandomMembersProperty: SPOP and SRANDMEMBER with a count return so many different members of
// the set. The members that SPOP returns are gone, also after a restart. The rest stays, with its
// deadline and those of its members. Each range of counts uses a different algorithm.
func TestRandomMembersProperty(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(t *rapid.T) {
		h.t = t
		h.do("FLUSHALL")
		size := rapid.SampledFrom([]int{1, 5, 100, 600, 1000}).Draw(t, "size")
		prefix := rapid.SampledFrom([]string{"", "m"}).Draw(t, "prefix")
		args, all := []string{"SADD", "s"}, map[string]bool{}
		for i := range size {
			m := prefix + strconv.Itoa(i)
			args, all[m] = append(args, m), true
		}
		must(t, h, strconv.Itoa(size), args...)
		must(t, h, "1", "EXPIRE", "s", "100")
		n := min(size, size*rapid.IntRange(0, 22).Draw(t, "part")/20)
		for _, m := range replied(h.do("SRANDMEMBER", "s", strconv.Itoa(-n))) {
			if !all[m] {
				t.Fatalf("SRANDMEMBER made %q up", m)
			}
		}
		for _, name := range []string{"SRANDMEMBER", "SPOP"} {
			got := replied(h.do(name, "s", strconv.Itoa(n)))
			slices.Sort(got)
			if len(slices.Compact(slices.Clone(got))) != n {
				t.Fatalf("%s %d of %d gave %d: %q", name, n, size, len(got), got)
			}
			for _, m := range got {
				if !all[m] {
					t.Fatalf("%s made %q up", name, m)
				}
				if name == "SPOP" {
					delete(all, m)
				}
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
			h.reopen()
		}
		must(t, h, strconv.Itoa(len(all)), "SCARD", "s")
		for _, m := range replied(h.do("SMEMBERS", "s")) {
			if !all[m] {
				t.Fatalf("%q came back", m)
			}
		}
		if len(all) > 0 {
			must(t, h, "100", "TTL", "s")
		}
	})
}

// replied returns the items of a reply in the notation of render, without the nesting.
func replied(text string) []string {
	const frame = "~[], "
	var items []string
	for text = strings.TrimLeft(text, frame); text != ""; text = strings.TrimLeft(text, frame) {
		item, err := strconv.QuotedPrefix(text) // a string may have any of them in it
		if err != nil {
			item = text[:strings.IndexAny(text+"]", frame)]
		}
		text = text[len(item):]
		if s, err := strconv.Unquote(item); err == nil {
			item = s
		}
		items = append(items, item)
	}
	return items
}

// TestSampleIsFair: all choices are equally likely. There are 15 choices of 2 of 6 numbers.
func TestSampleIsFair(t *testing.T) {
	for _, k := range []int{2, 4} { // each a way of its own
		const rounds = 30000
		seen := map[string]int{}
		for range rounds {
			var got []int
			sample(6, k, func(i int) { got = append(got, i) })
			slices.Sort(got)
			seen[fmt.Sprint(got)]++
		}
		for choice, n := range seen {
			if n < rounds/15*8/10 || n > rounds/15*12/10 {
				t.Errorf("%s came up %d times of %d", choice, n, rounds)
			}
		}
		if len(seen) != 15 {
			t.Errorf("%d choices, not 15: %v", len(seen), seen)
		}
	}
}

func TestSScan(t *testing.T) {
	table(t, `
		SSCAN s 0 -> ["0", []]
		SADD s a b ba -> 3
		SSCAN s 0 -> ["0", ["a", "b", "ba"]]
		SSCAN s 0 MATCH b* COUNT 1 -> ["0", ["b", "ba"]]
		SSCAN s x -> -ERR invalid cursor
		SSCAN s 0 COUNT 0 -> -ERR syntax error
		SSCAN s 0 FOO -> -ERR syntax error
		SSCAN s 0 NOVALUES -> -ERR NOVALUES option can only be used in HSCAN
		SET str v -> +OK
		SSCAN str 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		proto 3
		SSCAN s 0 -> ["0", ["a", "b", "ba"]]
	`)
	h := newHarness(t)
	for i := range 3000 {
		h.do("SADD", "s", "m"+strconv.Itoa(i))
	}
	seen, steps := map[string]bool{}, 0
	for cursor := "0"; steps == 0 || cursor != "0"; steps++ {
		reply := replied(h.do("SSCAN", "s", cursor, "COUNT", "100"))
		cursor = reply[0]
		for _, m := range reply[1:] {
			seen[strings.Trim(m, `["`)] = true
		}
	}
	if len(seen) != 3000 || steps < 10 {
		t.Errorf("%d members in %d steps", len(seen), steps)
	}
}
