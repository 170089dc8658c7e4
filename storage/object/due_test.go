package object

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// timedValue has the methods for deadlines of hashes, sets and sorted sets.
type timedValue interface {
	Value
	Deadlines(after int64, visit func(deadline int64) bool)
	DueAt(deadline int64, from uint32, most int,
		visit func(elem []byte, hash uint32) bool) (next uint32, more bool)
}

// Each element with a deadline is listed once, in the order of hashes, in pages of any size and
// with any bound on the elements looked at. All deadlines are visited, in small and large values of
// all types.
func TestDueAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]Type{TypeHash, TypeSet, TypeZSet}).Draw(t, "type")
		v := New(typ).(timedValue)
		want := map[int64]map[string]bool{}
		deadlines := []int64{0, 5, 6, 7, math.MaxInt64}
		for i := range rapid.IntRange(0, 1500).Draw(t, "elements") {
			elem, d := fmt.Sprint(i), deadlines[rapid.IntRange(0, 4).Draw(t, "deadline")]
			var val []byte
			switch typ {
			case TypeZSet:
				val = AppendScore(nil, float64(i%7))
			case TypeHash:
				val = []byte("v")
			}
			if err := v.Put([]byte(elem), val, d); err != nil {
				t.Fatal(err)
			}
			if i%5 == 4 {
				gone := fmt.Sprint(i - 2)
				v.Remove([]byte(gone))
				for _, of := range want {
					delete(of, gone)
				}
			}
			if want[d] == nil {
				want[d] = map[string]bool{}
			}
			want[d][elem] = true
		}
		var visited, later []int64
		v.Deadlines(5, func(d int64) bool { visited = append(visited, d); return true })
		for _, d := range deadlines[2:] {
			if len(want[d]) > 0 {
				later = append(later, d)
			}
		}
		if !slices.Equal(visited, later) {
			t.Fatalf("deadlines %d are visited, want %d", visited, later)
		}
		for _, d := range deadlines[1:] {
			got := map[string]bool{}
			most, page, from, last := rapid.IntRange(1, 400).Draw(t, "most"),
				rapid.IntRange(1, 300).Draw(t, "page"), uint32(0), uint32(0)
			for more, calls := true, 0; more; calls++ {
				n := 0
				from, more = v.DueAt(d, from, most, func(elem []byte, hash uint32) bool {
					if n >= page && hash != last {
						return false
					}
					if n++; got[string(elem)] || hash < last {
						t.Fatalf("%s, with hash %d, comes twice, or after %d", elem, hash, last)
					}
					got[string(elem)], last = true, hash
					return true
				})
				if calls > 10_000 {
					t.Fatal("it does not end")
				}
			}
			if !maps.Equal(got, want[d]) && len(got)+len(want[d]) > 0 {
				t.Fatalf("at %d: %d elements, want %d, without %v", d, len(got), len(want[d]),
					slices.Collect(maps.Keys(want[d])))
			}
		}
	})
}
