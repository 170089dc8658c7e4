package ttl

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// indexModel is the model of an index: a map that is sorted when it is read.
type indexModel[K cmp.Ordered] map[K]int64

func (m indexModel[K]) sorted() []EntryOf[K] {
	var all []EntryOf[K]
	for id, d := range m {
		all = append(all, EntryOf[K]{d, id})
	}
	slices.SortFunc(all, func(a, b EntryOf[K]) int {
		return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// checkIndex runs random operations on x and a model, and compares them after each. Ids and
// deadlines are few, so that they are often equal. Degree 2 makes deep trees.
func checkIndex[K cmp.Ordered](t *rapid.T, x *IndexOf[K], id func(int) K) {
	m := indexModel[K]{}
	anID := rapid.Custom(func(t *rapid.T) K { return id(rapid.IntRange(0, 60).Draw(t, "id")) })
	aTime := rapid.Int64Range(-3, 40)
	t.Repeat(map[string]func(*rapid.T){
		"set": func(t *rapid.T) { // also replaces, and removes when 0 is drawn
			k, d := anID.Draw(t, "key"), aTime.Draw(t, "deadline")
			x.Set(k, m[k], d)
			if m[k] = d; d == None {
				delete(m, k)
			}
		},
		"remove": func(t *rapid.T) {
			k := anID.Draw(t, "key")
			x.Set(k, m[k], None)
			delete(m, k)
		},
		"pop": func(t *rapid.T) {
			now := aTime.Draw(t, "now")
			e, ok := x.PopDue(now)
			all := m.sorted()
			if want := len(all) > 0 && all[0].Deadline <= now; ok != want || ok && e != all[0] {
				t.Fatalf("PopDue(%d) = %v, %v of %v", now, e, ok, all)
			}
			if ok {
				delete(m, e.ID)
			}
		},
		"walk": func(t *rapid.T) {
			from, limit := aTime.Draw(t, "from"), rapid.IntRange(1, 70).Draw(t, "limit")
			var got []EntryOf[K]
			x.Walk(from, func(e EntryOf[K]) bool {
				got = append(got, e)
				return len(got) < limit
			})
			want := slices.DeleteFunc(m.sorted(), func(e EntryOf[K]) bool {
				return e.Deadline < from
			})
			if want = want[:min(limit, len(want))]; !slices.Equal(got, want) {
				t.Fatalf("Walk(%d), %d entries: %v, want %v", from, limit, got, want)
			}
		},
		"clear": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
				x.Clear()
				clear(m)
			}
		},
		"": func(t *rapid.T) { compareIndex(t, x, m) },
	})
}

func compareIndex[K cmp.Ordered](t *rapid.T, x *IndexOf[K], m indexModel[K]) {
	all := m.sorted()
	if x.Len() != len(all) {
		t.Fatalf("Len() = %d, want %d", x.Len(), len(all))
	}
	next, ok := x.Next()
	first, okFirst := x.First()
	if ok != (len(all) > 0) || okFirst != ok {
		t.Fatalf("Next and First say %v and %v of %d entries", ok, okFirst, len(all))
	}
	if ok && (next != all[0].Deadline || first != all[0]) {
		t.Fatalf("Next() = %d, First() = %v, want %v", next, first, all[0])
	}
	for _, e := range all {
		if !x.Has(e.ID, e.Deadline) || x.Has(e.ID, e.Deadline+1) {
			t.Fatalf("Has is wrong about %v", e)
		}
	}
}

func TestIndexAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := indexOfDegree(rapid.SampledFrom([]int{2, degree}).Draw(t, "degree"))
		checkIndex(t, x, func(n int) uint64 { return uint64(n) })
	})
}

func TestWindowAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkIndex(t, NewNamedIndex(), strconv.Itoa)
	})
}

// An id or name that is the zero value of its type is treated like any other.
func TestIndexZeroID(t *testing.T) {
	x := NewIndex()
	x.Set(0, None, 7)
	seen := 0
	x.Walk(7, func(Entry) bool { seen++; return true })
	if e, ok := x.PopDue(7); !ok || e != (Entry{7, 0}) || seen != 1 {
		t.Errorf("PopDue = %v, %v after a walk over %d entries", e, ok, seen)
	}
	w := NewNamedIndex()
	w.Set("", None, 7)
	if e, ok := w.First(); !ok || e != (NamedEntry{7, ""}) {
		t.Errorf("First = %v, %v", e, ok)
	}
}

// Replacing must not allocate once the tree has its nodes, because every SET with EX does it.
func TestIndexReplaceDoesNotAllocate(t *testing.T) {
	x := NewIndex()
	for id := range uint64(1000) {
		x.Set(id, None, int64(id)+1)
	}
	at := int64(500)
	if n := testing.AllocsPerRun(1000, func() {
		x.Set(499, at, at+1000)
		x.Set(499, at+1000, at)
	}); n != 0 {
		t.Errorf("%v allocations per replace", n)
	}
}
