package commands

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPushAndPop(t *testing.T) {
	table(t, `
		LPUSHX k a -> 0
		RPUSHX k a b -> 0
		EXISTS k -> 0
		events ->
		LPUSH k a b c -> 3
		RPUSH k d -> 4
		LPUSHX k e -> 5
		RPUSHX k f g -> 7
		LRANGE k 0 -1 -> ["e", "c", "b", "a", "d", "f", "g"]
		TYPE k -> +list
		OBJECT ENCODING k -> "listpack"
		LLEN k -> 7
		events -> lpush:k rpush:k lpush:k rpush:k
		reopen
		LPOP k -> "e"
		RPOP k -> "g"
		LPOP k 2 -> ["c", "b"]
		RPOP k 2 -> ["f", "d"]
		events -> lpop:k rpop:k lpop:k rpop:k
		LLEN k -> 1
		LPOP k 0 -> []
		RPOP k 0 -> []
		events ->
		LPOP k 100 -> ["a"]
		events -> lpop:k del:k
		EXISTS k -> 0
		LLEN k -> 0
		reopen
		EXISTS k -> 0
		LPOP k -> nil
		RPOP k -> nil
		LPOP k 1 -> nilarray
		RPOP k 0 -> nilarray
		LPOP k x -> -ERR value is out of range, must be positive
		LPOP k -1 -> -ERR value is out of range, must be positive
		RPOP k 9223372036854775808 -> -ERR value is out of range, must be positive
		LPOP k 1 2 -> -ERR wrong number of arguments for 'lpop' command
		RPOP k 1 2 -> -ERR wrong number of arguments for 'rpop' command
		LPUSH k -> -ERR wrong number of arguments for 'lpush' command
		RPUSH k a b -> 2
		RPOP k 9223372036854775807 -> ["b", "a"]
		events -> rpush:k rpop:k del:k
		RPUSH k "" "\x00\r\n" 007 -> 3
		LRANGE k 0 -1 -> ["", "\x00\r\n", "007"]
		proto 3
		LPOP k 1 -> [""]
		LPOP none -> null
		LPOP none 1 -> null
		SET s v -> +OK
		LPUSH s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		RPUSHX s a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LPOP s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		RPOP s 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		RPOP s x -> -ERR value is out of range, must be positive
		LLEN s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GET k -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestListElements(t *testing.T) {
	table(t, `
		LINDEX k x -> nil
		LSET k x v -> -ERR no such key
		LINSERT k BEFORE a b -> 0
		LINSERT k BETWEEN a b -> -ERR syntax error
		RPUSH k a b c -> 3
		LINDEX k 0 -> "a"
		LINDEX k -1 -> "c"
		LINDEX k -3 -> "a"
		LINDEX k 3 -> nil
		LINDEX k -4 -> nil
		LINDEX k -9223372036854775808 -> nil
		LINDEX k x -> -ERR value is not an integer or out of range
		LSET k 1 B -> +OK
		LSET k -1 C -> +OK
		LSET k 3 v -> -ERR index out of range
		LSET k -4 v -> -ERR index out of range
		LSET k x v -> -ERR value is not an integer or out of range
		LRANGE k 0 -1 -> ["a", "B", "C"]
		events -> rpush:k lset:k lset:k
		LINSERT k before B 1 -> 4
		LINSERT k AFTER C 2 -> 5
		LINSERT k BEFORE a 0 -> 6
		LINSERT k AFTER none 3 -> -1
		LRANGE k 0 -1 -> ["0", "a", "1", "B", "C", "2"]
		events -> linsert:k linsert:k linsert:k
		reopen
		LRANGE k 0 -1 -> ["0", "a", "1", "B", "C", "2"]
		RPUSH r a b a c a b a -> 7
		LREM r 0 none -> 0
		LREM r x a -> -ERR value is not an integer or out of range
		LREM r -9223372036854775808 a -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		LREM r -9223372036854775807 c -> 1
		LREM r 1 a -> 1
		LREM r -1 a -> 1
		LRANGE r 0 -1 -> ["b", "a", "a", "b"]
		LREM r 0 b -> 2
		events -> rpush:r lrem:r lrem:r lrem:r lrem:r
		reopen
		LRANGE r 0 -1 -> ["a", "a"]
		LREM r 5 a -> 2
		events -> lrem:r del:r
		LREM r 5 a -> 0
		SET s v -> +OK
		LINDEX s x -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LSET s x v -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LINSERT s AFTER a b -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LREM s 0 a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LREM s x a -> -ERR value is not an integer or out of range
	`)
}

func TestLPos(t *testing.T) {
	table(t, `
		RPUSH k a b c 1 2 3 c c -> 8
		LPOS k c -> 2
		LPOS k c RANK 1 -> 2
		LPOS k c RANK 2 -> 6
		LPOS k c RANK 4 -> nil
		LPOS k c RANK -1 -> 7
		LPOS k c RANK -3 -> 2
		LPOS k c COUNT 2 -> [2, 6]
		LPOS k c COUNT 0 -> [2, 6, 7]
		LPOS k c COUNT 1 -> [2]
		LPOS k c COUNT 2 RANK 2 -> [6, 7]
		LPOS k c COUNT 0 RANK 2 -> [6, 7]
		LPOS k c COUNT 0 RANK -2 -> [6, 2]
		LPOS k c COUNT 1 RANK -1 -> [7]
		LPOS k none -> nil
		LPOS k none COUNT 5 -> []
		LPOS none c -> nil
		LPOS none c COUNT 0 -> []
		LPOS k c COUNT 0 MAXLEN 1 -> []
		LPOS k c COUNT 0 MAXLEN 3 -> [2]
		LPOS k c COUNT 0 MAXLEN 7 RANK -1 -> [7, 6, 2]
		LPOS k c maxlen 2 rank -1 count 5 -> [7, 6]
		LPOS k c MAXLEN 0 -> 2
		LPOS k c COUNT 1 COUNT 2 -> [2, 6]
		LPOS k c RANK 0 -> -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
		LPOS k c RANK x -> -ERR value is not an integer or out of range
		LPOS k c RANK -9223372036854775808 -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
		LPOS k c RANK -9223372036854775807 -> nil
		LPOS k c RANK 9223372036854775807 -> nil
		LPOS k c COUNT -1 -> -ERR COUNT can't be negative
		LPOS k c COUNT x -> -ERR COUNT can't be negative
		LPOS k c MAXLEN -1 -> -ERR MAXLEN can't be negative
		LPOS k c RANK -> -ERR syntax error
		LPOS k c RANK 1 BAD 1 -> -ERR syntax error
		LPOS k c BAD -> -ERR syntax error
		SET s v -> +OK
		LPOS s c -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LPOS s c RANK 0 -> -ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list
	`)
}

func TestListRanges(t *testing.T) {
	table(t, `
		LRANGE k 0 -1 -> []
		LTRIM k 0 -1 -> +OK
		RPUSH k a b c d e -> 5
		LRANGE k 0 0 -> ["a"]
		LRANGE k -3 2 -> ["c"]
		LRANGE k -100 100 -> ["a", "b", "c", "d", "e"]
		LRANGE k 3 1 -> []
		LRANGE k 5 10 -> []
		LRANGE k 0 -6 -> []
		LRANGE k -9223372036854775808 9223372036854775807 -> ["a", "b", "c", "d", "e"]
		LRANGE k x 0 -> -ERR value is not an integer or out of range
		LRANGE k 0 x -> -ERR value is not an integer or out of range
		events -> rpush:k
		LTRIM k 0 -1 -> +OK
		events -> ltrim:k
		LTRIM k 1 -2 -> +OK
		events -> ltrim:k
		reopen
		LRANGE k 0 -1 -> ["b", "c", "d"]
		LTRIM k x -2 -> -ERR value is not an integer or out of range
		LTRIM k 0 1.0 -> -ERR value is not an integer or out of range
		LTRIM k -1 9223372036854775807 -> +OK
		LRANGE k 0 -1 -> ["d"]
		LTRIM k 2 1 -> +OK
		events -> ltrim:k ltrim:k del:k
		EXISTS k -> 0
		SET s v -> +OK
		LRANGE s 0 -1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LRANGE s 0 x -> -ERR value is not an integer or out of range
		LTRIM s 0 -1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
	`)
}

func TestListMoves(t *testing.T) {
	table(t, `
		RPOPLPUSH a b -> nil
		LMOVE a b LEFT RIGHT -> nil
		LMOVE a b UP DOWN -> -ERR syntax error
		LMOVE a b LEFT DOWN -> -ERR syntax error
		LMOVE a b LEFT -> -ERR wrong number of arguments for 'lmove' command
		RPUSH a 1 2 3 -> 3
		RPOPLPUSH a b -> "3"
		events -> rpush:a lpush:b rpop:a
		LMOVE a b left right -> "1"
		events -> rpush:b lpop:a
		LRANGE b 0 -1 -> ["3", "1"]
		LMOVE a b LEFT LEFT -> "2"
		events -> lpush:b lpop:a del:a
		reopen
		EXISTS a -> 0
		LRANGE b 0 -1 -> ["2", "3", "1"]
		RPOPLPUSH b b -> "1"
		LRANGE b 0 -1 -> ["1", "2", "3"]
		LMOVE b b LEFT LEFT -> "1"
		LMOVE b b LEFT RIGHT -> "1"
		LMOVE b b RIGHT RIGHT -> "1"
		reopen
		LRANGE b 0 -1 -> ["2", "3", "1"]
		RPUSH one x -> 1
		EXPIRE one 100 -> 1
		events -> lpush:b rpop:b lpush:b lpop:b rpush:b lpop:b rpush:b rpop:b rpush:one expire:one
		RPOPLPUSH one one -> "x"
		events -> lpush:one rpop:one
		TTL one -> 100
		SET s v -> +OK
		RPOPLPUSH s b -> -WRONGTYPE Operation against a key holding the wrong kind of value
		RPOPLPUSH b s -> -WRONGTYPE Operation against a key holding the wrong kind of value
		RPOPLPUSH none s -> nil
		LMOVE s b LEFT RIGHT -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LRANGE b 0 -1 -> ["2", "3", "1"]
		proto 3
		RPOPLPUSH none b -> null
	`)
}

func TestLMPop(t *testing.T) {
	table(t, `
		LMPOP 2 a b LEFT -> nilarray
		RPUSH b 1 2 3 4 5 -> 5
		LMPOP 2 a b LEFT -> ["b", ["1"]]
		LMPOP 2 a b right COUNT 2 -> ["b", ["5", "4"]]
		events -> rpush:b lpop:b rpop:b
		LMPOP 2 b b LEFT count 10 -> ["b", ["2", "3"]]
		events -> lpop:b del:b
		reopen
		EXISTS b -> 0
		LMPOP 0 b LEFT -> -ERR numkeys should be greater than 0
		LMPOP -1 b LEFT -> -ERR numkeys should be greater than 0
		LMPOP x b LEFT -> -ERR numkeys should be greater than 0
		LMPOP 2 b LEFT -> -ERR syntax error
		LMPOP 3 b LEFT -> -ERR syntax error
		LMPOP 9223372036854775806 b LEFT -> -ERR syntax error
		LMPOP 1 b UP -> -ERR syntax error
		LMPOP 1 b LEFT COUNT -> -ERR syntax error
		LMPOP 1 b LEFT COUNT 0 -> -ERR count should be greater than 0
		LMPOP 1 b LEFT COUNT x -> -ERR count should be greater than 0
		LMPOP 1 b LEFT COUNT 1 COUNT 1 -> -ERR syntax error
		LMPOP 1 b LEFT BAD 1 -> -ERR syntax error
		SET s v -> +OK
		RPUSH b 1 -> 1
		LMPOP 2 s b LEFT -> -WRONGTYPE Operation against a key holding the wrong kind of value
		LMPOP 2 b s LEFT -> ["b", ["1"]]
		proto 3
		LMPOP 1 b LEFT -> null
	`)
}

// TestListExpires: a list is gone at its deadline. A push after that creates a new list without a
// deadline.
func TestListExpires(t *testing.T) {
	table(t, `
		RPUSH k a b -> 2
		PEXPIRE k 1000 -> 1
		RPUSH k c -> 3
		PTTL k -> 1000
		advance 999ms
		LLEN k -> 3
		advance 1ms
		LLEN k -> 0
		LRANGE k 0 -1 -> []
		LPOP k -> nil
		events -> rpush:k expire:k rpush:k expired:k
		RPUSH k d -> 1
		TTL k -> -1
		PEXPIRE k 1000 -> 1
		reopen
		PTTL k -> 1000
		advance 1s
		RPUSHX k e -> 0
		RPOPLPUSH k other -> nil
		LPUSH k e -> 1
		reopen
		LRANGE k 0 -1 -> ["e"]
		PERSIST k -> 0
	`)
}

// TestListHits: a read counts as a hit or a miss, whatever the type. A write does not count.
func TestListHits(t *testing.T) {
	h := newHarness(t)
	h.run(`
		RPUSH k a -> 1
		LPOP none -> nil
		SET s v -> +OK
	`)
	hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load()
	for _, line := range []string{"LLEN k", "LINDEX k 0", "LRANGE k 0 1", "LPOS k a", "LLEN s",
		"LLEN none", "LRANGE none 0 1"} {
		h.do(strings.Fields(line)...)
	}
	if hits, misses := h.env.Stats.Hits.Load()-hits, h.env.Stats.Misses.Load()-misses; hits != 5 ||
		misses != 2 {
		t.Errorf("%d hits and %d misses, want 5 and 2", hits, misses)
	}
}

// TestLongList: the elements of a long list are separate records on disk. A command that changes
// the list reads and writes only a part.
func TestLongList(t *testing.T) {
	h := newHarness(t)
	var want []string
	for i := range 5000 {
		want = append(want, "element:"+strconv.Itoa(i))
		h.do("RPUSH", "k", want[i])
	}
	h.reopen()
	h.run(`
		OBJECT ENCODING k -> "quicklist"
		LINDEX k 2500 -> "element:2500"
		LINSERT k BEFORE element:2500 new -> 5001
		LSET k 17 other -> +OK
		LREM k 0 element:4000 -> 1
		LTRIM k 10 -11 -> +OK
		LPOP k -> "element:10"
		RPOP k 2 -> ["element:4989", "element:4988"]
		LPOS k element:3000 -> 2990
	`)
	want = slices.Insert(want, 2500, "new")
	want[17] = "other"
	want = slices.Delete(want, 4001, 4002)
	want = want[11:4988]
	for range 2 {
		items := make([]string, len(want))
		for i := range want {
			items[i] = strconv.Quote(want[i])
		}
		if got := h.do("LRANGE", "k", "0", "-1"); got != "["+strings.Join(items, ", ")+"]" {
			t.Fatalf("the list differs: %.200s", got)
		}
		h.reopen()
	}
}

// TestListsAreSlices: any commands on lists do the same as the operations on slices, also over
// restarts.
func TestListsAreSlices(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		must(rt, h, "+OK", "FLUSHALL")
		h.save = rapid.Bool().Draw(rt, "save")
		keys := []string{"a", "b"}
		model := map[string][]string{}
		value := rapid.StringMatching(`[ab]|[ab]{60}`)
		step := func(args []string, want string) {
			if got := h.do(args...); got != want {
				rt.Fatalf("%q: %s, want %s", args, got, want)
			}
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			k := rapid.SampledFrom(keys).Draw(rt, "key")
			list := model[k]
			index := rapid.IntRange(-8, 8).Draw(rt, "index")
			v := value.Draw(rt, "value")
			switch rapid.IntRange(0, 8).Draw(rt, "what") {
			case 0, 1, 2:
				vals := rapid.SliceOfN(value, 1, 5).Draw(rt, "values")
				model[k] = append(list, vals...)
				step(append([]string{"RPUSH", k}, vals...), strconv.Itoa(len(model[k])))
			case 3:
				model[k] = slices.Insert(list, 0, v)
				step([]string{"LPUSH", k, v}, strconv.Itoa(len(model[k])))
			case 4:
				n := min(abs(index), len(list))
				taken := slices.Clone(list[len(list)-n:])
				slices.Reverse(taken)
				model[k] = list[:len(list)-n]
				want := array(taken)
				if len(list) == 0 {
					want = "nilarray"
				}
				step([]string{"RPOP", k, strconv.Itoa(abs(index))}, want)
			case 5:
				pivot := slices.Index(list, v)
				want := "-1"
				if pivot >= 0 {
					model[k] = slices.Insert(list, pivot+1, "new")
					want = strconv.Itoa(len(list) + 1)
				} else if len(list) == 0 {
					want = "0"
				}
				step([]string{"LINSERT", k, "AFTER", v, "new"}, want)
			case 6:
				from, to := between(index, index+3, len(list))
				model[k] = list[from:to]
				step([]string{"LTRIM", k, strconv.Itoa(index), strconv.Itoa(index + 3)}, "+OK")
			case 7:
				n := len(list)
				model[k] = slices.DeleteFunc(list, func(s string) bool { return s == v })
				step([]string{"LREM", k, "0", v}, strconv.Itoa(n-len(model[k])))
			case 8:
				h.reopen()
			}
			for _, k := range keys {
				step([]string{"LRANGE", k, "0", "-1"}, array(model[k]))
			}
		}
	})
}

// between returns the part of a slice of this length that LRANGE lists.
func between(start, stop, length int) (from, to int) {
	if start < 0 {
		start = max(start+length, 0)
	}
	if stop < 0 {
		stop += length
	}
	stop = min(stop, length-1)
	if start > stop {
		return 0, 0
	}
	return start, stop + 1
}

func abs(n int) int { return max(n, -n) }

// array writes a list of strings in the notation of the tables.
func array(items []string) string {
	var b bytes.Buffer
	for i, item := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", item)
	}
	return "[" + b.String() + "]"
}
