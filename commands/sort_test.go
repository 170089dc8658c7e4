package commands

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/storage"
)

// zset makes a key of database 0 a sorted set of these members, with the scores 0, 1, 2 …
func (h *harness) zset(name string, members ...string) {
	k := h.store.Key(0, []byte(name))
	h.ctx.Keys = []storage.Key{k}
	h.store.BeginAll(h.ctx.Txn)
	defer h.ctx.Txn.End()
	z, err := h.ctx.Txn.ZSet(k)
	if err != nil {
		h.t.Fatalf("zset: %v", err)
	}
	for i, m := range members {
		z.Set([]byte(m), float64(i))
	}
}

func TestSort(t *testing.T) {
	table(t, `
		SORT none -> []
		SORT none STORE none -> 0
		RPUSH k 3 10 2 1 -> 4
		SORT k -> ["1", "2", "3", "10"]
		SORT k DESC -> ["10", "3", "2", "1"]
		SORT k DESC ASC -> ["1", "2", "3", "10"]
		SORT k ALPHA -> ["1", "10", "2", "3"]
		SORT k alpha desc -> ["3", "2", "10", "1"]
		SORT k LIMIT 1 2 -> ["2", "3"]
		SORT k LIMIT 0 0 -> []
		SORT k LIMIT 3 100 -> ["10"]
		SORT k LIMIT 4 1 -> []
		SORT k LIMIT -5 2 -> ["1", "2"]
		SORT k LIMIT 2 -1 -> ["3", "10"]
		SORT k LIMIT 0 -9223372036854775808 -> ["1", "2", "3", "10"]
		SORT k LIMIT 9223372036854775807 9223372036854775807 -> []
		SORT k LIMIT x 1 -> -ERR value is not an integer or out of range
		SORT k LIMIT 1 x -> -ERR value is not an integer or out of range
		SORT k LIMIT 1 -> -ERR syntax error
		SORT k BY -> -ERR syntax error
		SORT k GET -> -ERR syntax error
		SORT k STORE -> -ERR syntax error
		SORT k FOO -> -ERR syntax error
		SORT -> -ERR wrong number of arguments for 'sort' command
		SORT_RO k -> ["1", "2", "3", "10"]
		SORT_RO k STORE d -> -ERR syntax error
		RPUSH f 1.5 -3 "" 1e2 inf -inf 1.5 -> 7
		SORT f -> ["-inf", "-3", "", "1.5", "1.5", "1e2", "inf"]
		RPUSH f x -> 8
		SORT f -> -ERR One or more scores can't be converted into double
		SORT f STORE d -> -ERR One or more scores can't be converted into double
		SORT f ALPHA LIMIT 0 3 -> ["", "-3", "-inf"]
		RPUSH nan nan -> 1
		SORT nan -> -ERR One or more scores can't be converted into double
		SET s v -> +OK
		HSET h a 1 -> 1
		SORT s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SORT h -> -WRONGTYPE Operation against a key holding the wrong kind of value
		SORT s FOO -> -ERR syntax error
	`)
}

func TestSortBy(t *testing.T) {
	table(t, `
		RPUSH k a b c d -> 4
		MSET w_a 3 w_b 1 w_c 2 o_a x o_b y -> +OK
		HSET h_a n 30 name "" -> 2
		HSET h_b n 10 name bee -> 2
		HSET h_c n 20 name Cee -> 2
		SORT k BY w_* -> ["d", "b", "c", "a"]
		SORT k BY w_* DESC -> ["a", "c", "b", "d"]
		SORT k BY w_* LIMIT 1 2 -> ["b", "c"]
		SORT k BY h_*->n -> ["d", "b", "c", "a"]
		SORT k BY h_*->name ALPHA -> ["d", "a", "c", "b"]
		SORT k BY h_*->name ALPHA DESC -> ["b", "c", "a", "d"]
		SORT k BY none_* -> ["a", "b", "c", "d"]
		SORT k BY none_* DESC -> ["d", "c", "b", "a"]
		SORT k BY none_* ALPHA DESC -> ["a", "b", "c", "d"]
		SORT k BY h_* -> ["a", "b", "c", "d"]
		SORT k BY w_*->n -> ["a", "b", "c", "d"]
		SORT k BY o_* -> -ERR One or more scores can't be converted into double
		SORT k BY none_* BY w_* -> ["d", "b", "c", "a"]
		SORT k -> -ERR One or more scores can't be converted into double
		SORT k BY w_* GET # GET w_* GET h_*->name GET none_* GET w_a -> ["d", nil, nil, nil, nil, "b", "1", "bee", nil, nil, "c", "2", "Cee", nil, nil, "a", "3", "", nil, nil]
		SORT k BY w_* GET o_* LIMIT 1 1 -> ["y"]
		SORT k BY nosort GET w_* -> ["3", "1", "2", nil]
		SORT k BY nosort GET h_*-> -> [nil, nil, nil, nil]
		SORT_RO k BY w_* GET o_* -> [nil, "y", nil, "x"]
		SET w_a-> 5 -> +OK
		SET w_b-> 4 -> +OK
		SORT k BY w_*-> LIMIT 2 2 -> ["b", "a"]
		PEXPIRE w_a 1000 -> 1
		advance 999ms
		SORT k BY w_* -> ["d", "b", "c", "a"]
		advance 1ms
		SORT k BY w_* -> ["a", "d", "b", "c"]
		reopen
		SORT k BY w_* GET # GET h_*->n -> ["a", "30", "d", nil, "b", "10", "c", "20"]
		select 1
		RPUSH k a b -> 2
		SORT k BY w_* -> ["a", "b"]
		SET w_a 1 -> +OK
		SORT k BY w_* -> ["b", "a"]
		proto 3
		SORT k BY nosort GET none_* -> [null, null]
	`)
}

func TestSortInOwnOrder(t *testing.T) {
	table(t, `
		RPUSH k c a d b -> 4
		SORT k BY nosort -> ["c", "a", "d", "b"]
		SORT k BY nosort DESC -> ["b", "d", "a", "c"]
		SORT k BY nosort LIMIT 1 2 -> ["a", "d"]
		SORT k BY nosort DESC LIMIT 1 2 -> ["d", "a"]
		SORT k BY nosort LIMIT 4 2 -> []
		SORT k BY nosort LIMIT 0 0 -> []
		SORT k BY # -> ["c", "a", "d", "b"]
		SORT k BY nosort STORE d -> 4
		LRANGE d 0 -1 -> ["c", "a", "d", "b"]
		SADD i 3 1 2 -> 3
		SORT i DESC -> ["3", "2", "1"]
		SORT i BY nosort -> ["1", "2", "3"]
		SORT i BY nosort LIMIT 1 1 -> ["2"]
		SORT i BY nosort DESC -> ["1", "2", "3"]
		SORT i BY nosort STORE d -> 3
		LRANGE d 0 -1 -> ["1", "2", "3"]
		SADD s z y 10 9 -> 4
		SORT s ALPHA -> ["10", "9", "y", "z"]
		SORT s BY nosort STORE d LIMIT 1 2 -> 2
		LRANGE d 0 -1 -> ["9", "y"]
		SORT s BY nosort DESC STORE d -> 4
		LRANGE d 0 -1 -> ["z", "y", "9", "10"]
	`)
	h := newHarness(t)
	h.zset("z", "d", "b", "c", "1", "10")
	h.run(`
		SORT z BY nosort -> ["d", "b", "c", "1", "10"]
		SORT z BY nosort DESC -> ["10", "1", "c", "b", "d"]
		SORT z BY nosort LIMIT 1 2 -> ["b", "c"]
		SORT z BY nosort DESC LIMIT 1 2 -> ["1", "c"]
		SORT z BY nosort DESC LIMIT 5 1 -> []
		SORT z BY nosort DESC STORE d -> 5
		LRANGE d 0 -1 -> ["10", "1", "c", "b", "d"]
		SORT z ALPHA -> ["1", "10", "b", "c", "d"]
		SORT z ALPHA DESC LIMIT 1 2 -> ["c", "b"]
		SORT z -> -ERR One or more scores can't be converted into double
	`)
}

func TestSortStore(t *testing.T) {
	table(t, `
		RPUSH k 3 1 2 -> 3
		SET d v EX 100 -> +OK
		SORT k STORE d -> 3
		events -> rpush:k set:d expire:d sortstore:d
		TTL d -> -1
		LRANGE d 0 -1 -> ["1", "2", "3"]
		OBJECT ENCODING d -> "listpack"
		reopen
		LRANGE d 0 -1 -> ["1", "2", "3"]
		SORT k DESC LIMIT 0 2 STORE k -> 2
		LRANGE k 0 -1 -> ["3", "2"]
		SET w_3 x -> +OK
		SORT k GET w_* GET # STORE d -> 4
		LRANGE d 0 -1 -> ["", "2", "x", "3"]
		SORT k BY w_* ALPHA DESC STORE d STORE e -> 2
		LRANGE e 0 -1 -> ["3", "2"]
		LLEN d -> 4
		events -> sortstore:k set:w_3 sortstore:d sortstore:e
		SORT k LIMIT 5 1 STORE d -> 0
		EXISTS d -> 0
		SORT none STORE e -> 0
		SORT none STORE e -> 0
		SORT none BY w_* STORE e -> 0
		events -> del:d del:e
		reopen
		EXISTS d e -> 0
		HSET h a 1 -> 1
		SORT h STORE k -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LLEN k -> 2
		COMMAND GETKEYS SORT k STORE d -> ["k", "d"]
		COMMAND GETKEYS SORT k BY store GET store STORE d -> ["k", "d"]
		COMMAND GETKEYS SORT k STORE d STORE e LIMIT STORE x -> ["k", "e"]
		COMMAND GETKEYS SORT k STORE -> ["k"]
		COMMAND GETKEYS SORT_RO k GET x -> ["k"]
	`)
}

// TestSortFindsKeysOnDisk: after a restart all keys that SORT looks up are only on disk. The server
// must not treat any as missing, whether it loads them while the command waits or reads them
// directly. Each counts as one hit or miss, however often the command starts again.
func TestSortFindsKeysOnDisk(t *testing.T) {
	const n = 300
	for _, final := range []bool{false, true} {
		h := newHarness(t)
		h.bare = true
		h.reopen()
		want := make([]string, n)
		for i := range n {
			id := strconv.Itoa(i)
			h.do("RPUSH", "k", id)
			h.do("SET", "w_"+id, strconv.Itoa(-i))
			h.do("HSET", "h_"+id, "name", "n"+id)
			want[n-1-i] = "n" + id
		}
		h.do("SET", "d", "on disk too")
		h.reopen()
		if st := h.store.Stats(); st.Resident != 0 {
			t.Fatalf("%d keys are in memory", st.Resident)
		}
		hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load()
		got := h.late(final, "SORT_RO", "k", "BY", "w_*", "GET", "h_*->name")
		if got != array(want) {
			t.Errorf("final %v: %.300s", final, got)
		}
		if hits, misses := h.env.Stats.Hits.Load()-hits,
			h.env.Stats.Misses.Load()-misses; hits != 1+2*n || misses != 0 {
			t.Errorf("final %v: %d hits, %d misses", final, hits, misses)
		}
		if got := h.late(final, "SORT", "k", "BY", "w_*", "GET", "x_*", "GET", "#", "LIMIT", "0",
			"2", "STORE", "d"); got != "4" {
			t.Errorf("final %v: %s", final, got)
		}
		if got, want := h.late(final, "LRANGE", "d", "0", "-1"),
			array([]string{"", "299", "", "298"}); got != want {
			t.Errorf("final %v: %s, want %s", final, got, want)
		}
	}
}

// late runs a command like do. Keys are read from disk only when the command, or the caller, asks
// for them.
func (h *harness) late(final bool, args ...string) string {
	c := &h.ctx
	c.Args = nil
	for _, arg := range args {
		c.Args = append(c.Args, []byte(arg))
	}
	c.Out.Proto = h.client.Proto
	if final {
		c.Past.Loads = lateLoads
	}
	defer func() { c.Past = Past{} }()
	for range 5 {
		c.Out.Truncate(0)
		if h.env.Dispatch(c) == Done {
			text, _ := render(c.Out.Buf)
			return text
		}
		keys := slices.Clone(c.Keys)
		h.store.BeginAll(c.Txn)
		for _, k := range keys {
			if err := c.Txn.Load(k); err != nil {
				h.t.Fatalf("load: %v", err)
			}
		}
		c.Txn.End()
	}
	return "its keys are not found"
}

// TestSortSorts: SORT sorts by numbers or by texts, and LIMIT returns a part of the result.
func TestSortSorts(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		must(rt, h, "+OK", "FLUSHALL")
		elems := rapid.SliceOfN(rapid.IntRange(-30, 30), 1, 40).Draw(rt, "elements")
		desc, alpha := rapid.Bool().Draw(rt, "desc"), rapid.Bool().Draw(rt, "alpha")
		by := rapid.Bool().Draw(rt, "by")
		want := make([]string, len(elems))
		for i, n := range elems {
			want[i] = strconv.Itoa(n)
			h.do("SET", "w_"+want[i], strconv.Itoa(-n))
		}
		h.do(append([]string{"RPUSH", "k"}, want...)...)
		args := []string{"SORT", "k"}
		key := func(s string) string { return s }
		if by {
			args = append(args, "BY", "w_*")
			key = func(s string) string {
				if s == "0" {
					return s
				}
				return strings.TrimPrefix("-"+s, "--")
			}
		}
		slices.SortStableFunc(want, func(a, b string) int {
			order := strings.Compare(key(a), key(b))
			if !alpha {
				x, _ := strconv.Atoi(key(a))
				y, _ := strconv.Atoi(key(b))
				order = x - y
			}
			if desc {
				return -order
			}
			return order
		})
		if desc {
			args = append(args, "DESC")
		}
		if alpha {
			args = append(args, "ALPHA")
		}
		offset, count := rapid.IntRange(0, 45).Draw(rt, "offset"),
			rapid.IntRange(0, 45).Draw(rt, "count")
		args = append(args, "LIMIT", strconv.Itoa(offset), strconv.Itoa(count))
		want = want[min(offset, len(want)):]
		want = want[:min(count, len(want))]
		must(rt, h, array(want), args...)
	})
}

func TestRanks(t *testing.T) {
	numbers := []float64{math.Inf(-1), -1e300, -2, -1.5, -5e-324, 0, 5e-324, 1, 1.5, 2,
		1e300, math.Inf(1)}
	if !slices.IsSortedFunc(numbers, func(a, b float64) int {
		return cmp.Compare(floatRank(a), floatRank(b))
	}) {
		t.Error("the ranks of numbers are not in their order")
	}
	if floatRank(math.Copysign(0, -1)) != floatRank(0) {
		t.Error("-0 is not 0")
	}
	texts := []string{"", "\x00", "a", "ab", "abcdefgh", "abcdefghi", "b", "\xff"}
	if !slices.IsSortedFunc(texts, func(a, b string) int {
		return cmp.Compare(textRank([]byte(a)), textRank([]byte(b)))
	}) {
		t.Error("the ranks of texts are not in their order")
	}
}

// TestSortLarge: a large list is sorted in a pinned task, unless SORT looks up other keys.
func TestSortLarge(t *testing.T) {
	h := newHarness(t)
	for i := range largeValue / 100 {
		h.do("RPUSH", "l", fmt.Sprintf("%0100d", i))
	}
	last := fmt.Sprintf("%0100d", largeValue/100-1)
	h.do("SET", "w:"+last, "-1")
	h.do("SET", "v:"+last, "found")
	want := `["` + last + `"]`
	if got := h.do("SORT", "l", "DESC", "LIMIT", "0", "1"); got != want {
		t.Errorf("SORT gives %s", got)
	}
	for _, by := range []string{"SORT", "SORT_RO"} {
		if got := h.do(by, "l", "BY", "w:*", "LIMIT", "0", "1"); got != want {
			t.Errorf("%s BY gives %s", by, got)
		}
		if got := h.do(by, "l", "BY", "w:*", "LIMIT", "0", "1", "GET", "v:*"); got != `["found"]` {
			t.Errorf("%s BY and GET gives %s", by, got)
		}
	}
}
