package commands

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLCS(t *testing.T) {
	table(t, `
		MSET key1 ohmytext key2 mynewtext -> +OK
		LCS key1 key2 -> "mytext"
		LCS key1 key2 LEN -> 6
		LCS key1 key2 IDX -> ["matches", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], "len", 6]
		LCS key1 key2 IDX MINMATCHLEN 4 -> ["matches", [[[4, 7], [5, 8]]], "len", 6]
		LCS key1 key2 IDX MINMATCHLEN 4 WITHMATCHLEN -> ["matches", [[[4, 7], [5, 8], 4]], "len", 6]
		LCS key1 key2 idx withmatchlen minmatchlen -1 -> ["matches", [[[4, 7], [5, 8], 4], [[2, 3], [0, 1], 2]], "len", 6]
		LCS key1 key2 LEN WITHMATCHLEN -> 6
		LCS key1 none -> ""
		LCS none key1 LEN -> 0
		LCS none none IDX -> ["matches", [], "len", 0]
		LCS key1 key1 -> "ohmytext"
		LCS key1 key1 IDX -> ["matches", [[[0, 7], [0, 7]]], "len", 8]
		LCS key1 key2 LEN IDX -> -ERR If you want both the length and indexes, please just use IDX.
		LCS key1 key2 FOO -> -ERR syntax error
		LCS key1 key2 MINMATCHLEN -> -ERR syntax error
		LCS key1 key2 MINMATCHLEN x -> -ERR value is not an integer or out of range
		LCS key1 -> -ERR wrong number of arguments for 'lcs' command
		proto 3
		LCS key1 key2 IDX -> {"matches": [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], "len": 6}
	`)
}

func TestLCSMemory(t *testing.T) {
	h := newHarness(t)
	h.run(`config proto-max-bulk-len 1mb`)
	long := string(make([]byte, 512))
	h.do("SET", "a", long)
	h.do("SET", "b", long[:510])
	h.run(`
		LCS a b LEN -> 510
		APPEND b x -> 511
		LCS a b LEN -> -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
		LCS a b -> -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
	`)
	for _, c := range []struct {
		a, b  int
		limit int64
		want  bool
	}{
		{0, 0, 4, true}, {0, 0, 3, false}, {10, 10, 484, true}, {10, 10, 483, false},
		{math.MaxInt, math.MaxInt, math.MaxInt64, false}, {math.MaxInt, 3, math.MaxInt64, false},
	} {
		if got := lcsFits(c.a, c.b, c.limit); got != c.want {
			t.Errorf("lcsFits(%d, %d, %d) = %v", c.a, c.b, c.limit, got)
		}
	}
}

// TestLCSProperty: the walk back through the table returns a common subsequence of exactly the
// table's length. Its pieces are common to both strings, do not touch, and come in reverse order.
func TestLCSProperty(t *testing.T) {
	letters := rapid.SliceOfN(rapid.ByteRange('a', 'c'), 0, 70)
	rapid.Check(t, func(t *rapid.T) {
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		path := newLCSPath(len(a), len(b))
		length := lcsTable(a, b, path)
		if want := lcsReference(a, b); length != want {
			t.Fatalf("length %d, want %d", length, want)
		}
		total, ai, bj := 0, len(a)+1, len(b)+1
		lcsBack(a, b, path, func(i, j, n int) {
			if n < 1 || i+n > len(a) || j+n > len(b) || string(a[i:i+n]) != string(b[j:j+n]) {
				t.Fatalf("a[%d:], b[%d:] do not share %d bytes", i, j, n)
			}
			if i+n > ai || j+n > bj || i+n == ai && j+n == bj {
				t.Fatalf("piece at %d, %d of %d runs into the next at %d, %d", i, j, n, ai, bj)
			}
			total, ai, bj = total+n, i, j
		})
		if total != length {
			t.Fatalf("pieces of %d bytes, want %d", total, length)
		}
	})
}

// lcsReference is the textbook definition with a complete table.
func lcsReference(a, b []byte) int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			if a[i] == b[j] {
				table[i+1][j+1] = table[i][j] + 1
			} else {
				table[i+1][j+1] = max(table[i][j+1], table[i+1][j])
			}
		}
	}
	return table[len(a)][len(b)]
}
