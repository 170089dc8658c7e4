package elementset

import (
	"maps"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
	"keyp/storage/object"
)

// TestMarksModel compares Set, a set of names of a collection's elements, with a map. Here these
// are elements of a list, added one by one and as runs of neighbours. The set is then visited in
// portions, while the list changes: the visitor gets each element's present value.
func TestMarksModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l object.List
		var m, other Set
		want := map[int64]bool{}
		base := rapid.SampledFrom([]int64{0, -3 * object.NumberStep, math.MinInt64,
			math.MaxInt64 - 20*object.NumberStep}).Draw(rt, "base")
		number := rapid.Custom(func(rt *rapid.T) int64 {
			at := base + rapid.Int64Range(0, 20).Draw(rt, "step")*object.NumberStep
			return at + rapid.SampledFrom([]int64{0, 0, 0, 0, 7}).Draw(rt, "off")
		})
		mark := func(m *Set, n int64) {
			key := object.ListKey(n)
			m.Add(object.TypeList, key[:])
			want[n] = true
		}
		for _, n := range rapid.SliceOfN(number, 0, 60).Draw(rt, "marked") {
			mark(&m, n)
		}
		for _, n := range rapid.SliceOfN(number, 0, 20).Draw(rt, "marked elsewhere") {
			mark(&other, n)
		}
		for _, first := range rapid.SliceOfN(number, 0, 5).Draw(rt, "runs") {
			n := rapid.IntRange(1, 10).Draw(rt, "length")
			if uint64(math.MaxInt64)-uint64(first) < uint64(n)*object.NumberStep {
				continue
			}
			m.AddRun(first, n)
			for i := range n {
				want[first+int64(i)*object.NumberStep] = true
			}
		}
		m.Merge(other)
		if m.Any() != (len(want) > 0) {
			rt.Fatalf("any is %v of %d", m.Any(), len(want))
		}
		for i, r := range m.runs {
			if r.n < 1 {
				rt.Fatalf("the runs are %v", m.runs)
			}
			if i == 0 {
				continue
			}
			before := m.runs[i-1]
			if last := before.first + int64(before.n-1)*object.NumberStep; r.first <= last ||
				r.first == last+object.NumberStep {
				rt.Fatalf("the runs are %v", m.runs)
			}
		}
		in := map[int64]bool{}
		for _, n := range rapid.SliceOfN(number, 0, 40).Draw(rt, "in the list") {
			key := object.ListKey(n)
			_ = l.Put(key[:], key[:], 0)
			in[n] = true
		}
		got := map[int64]bool{}
		for m.Any() {
			left := rapid.IntRange(1, 10).Draw(rt, "portion")
			m.Take(&l, func(elem, val []byte, _ int64, ok bool) bool {
				n := object.ListNumber(elem)
				if ok != in[n] || ok && object.ListNumber(val) != n {
					rt.Fatalf("element %d is %x, %v", n, val, ok)
				}
				got[n] = true
				left--
				if left < 0 {
					rt.Fatal("the visit went on")
				}
				return left > 0
			})
		}
		if !maps.Equal(got, want) {
			rt.Fatalf("visited %v, marked %v", got, want)
		}
	})
}

// TestMarksOfAQueue: however many elements pass through a queue, the set has one run or two.
func TestMarksOfAQueue(t *testing.T) {
	var m Set
	for i := range int64(100_000) {
		for _, n := range []int64{i, i - 500} {
			key := object.ListKey(n * object.NumberStep)
			m.Add(object.TypeList, key[:])
		}
	}
	if len(m.runs) != 1 || m.runs[0].n != 100_500 || m.names.Len() != 0 {
		t.Errorf("%d runs, %d names", len(m.runs), m.names.Len())
	}
}

// TestMarksAnywhere: the number of runs stays bounded when elements change all over a list.
func TestMarksAnywhere(t *testing.T) {
	var m Set
	for i := range int64(1000) {
		key := object.ListKey(2 * i * object.NumberStep)
		m.Add(object.TypeList, key[:])
	}
	if len(m.runs)+m.names.Len() != 1000 || len(m.runs) > maxRuns {
		t.Errorf("%d runs, %d names", len(m.runs), m.names.Len())
	}
}

// TestNamesModel: names form a set, whatever their lengths and even if their hashes are equal.
func TestNamesModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var n nameSet
		want := map[string]bool{}
		name := rapid.OneOf(rapid.StringMatching(`[ab]{0,4}`),
			rapid.Just(strings.Repeat("long", leastText)),
			rapid.Just(strings.Repeat("x", mostText+1)))
		for _, s := range rapid.SliceOf(name).Draw(rt, "names") {
			n.add(uint64(len(s)), []byte(s))
			want[s] = true
		}
		if n.Len() != len(want) {
			rt.Fatalf("%d names, want %d", n.Len(), len(want))
		}
		var kept [][]byte
		for n.Len() > 0 {
			left := rapid.IntRange(1, 5).Draw(rt, "portion")
			n.take(func(name []byte) bool {
				kept = append(kept, name)
				left--
				return left > 0
			})
			if left < 0 {
				rt.Fatal("the visit went on")
			}
		}
		got := map[string]bool{}
		for _, name := range kept {
			got[string(name)] = true
		}
		if len(kept) != len(want) || !maps.Equal(got, want) {
			rt.Fatalf("visited %d names, want %d", len(kept), len(want))
		}
	})
}

// TestMarksOfARun: a long run of elements stays one run, however many other elements are scattered.
func TestMarksOfARun(t *testing.T) {
	var m Set
	for i := range int64(10 * maxRuns) {
		m.AddRun(3*i*object.NumberStep, 1)
	}
	names := m.names.Len()
	for i := range int64(100) {
		m.AddRun((1_000_000+2000*i)*object.NumberStep, 1000)
	}
	if len(m.runs) != maxRuns+100 || m.names.Len() != names {
		t.Errorf("there are %d runs, and %d names, before %d", len(m.runs), m.names.Len(), names)
	}
}
