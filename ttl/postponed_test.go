package ttl

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPostponedAgainstModel: if a deadline becomes later, an index leaves the key's entry at the
// old place for a while, which is cheaper. Readers do not notice: the index behaves like a map.
func TestPostponedAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, m := NewCounted(), indexModel[uint64]{}
		anID, aTime := rapid.Uint64Range(0, 60), rapid.Int64Range(1, 400)
		set := func(id uint64, d int64) {
			x.Set(id, m[id], d)
			if m[id] = d; d == None {
				delete(m, id)
			}
		}
		for id, d := range rapid.SliceOfN(aTime, 61, 61).Draw(t, "deadlines") {
			set(uint64(id), d)
		}
		t.Repeat(map[string]func(*rapid.T){
			"set":    func(t *rapid.T) { set(anID.Draw(t, "key"), aTime.Draw(t, "deadline")) },
			"remove": func(t *rapid.T) { set(anID.Draw(t, "key"), None) },
			"later": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					if id := anID.Draw(t, "key"); m[id] != None {
						set(id, m[id]+rapid.Int64Range(1, 50).Draw(t, "by"))
					}
				}
			},
			"reap": func(t *rapid.T) {
				now := aTime.Draw(t, "now")
				for {
					all := m.sorted()
					e, ok := x.PopDue(now)
					if want := len(all) > 0 && all[0].Deadline <= now; ok != want ||
						ok && e != all[0] {
						t.Fatalf("PopDue(%d) = %v, %v of %v", now, e, ok, all)
					}
					if !ok {
						return
					}
					delete(m, e.ID)
				}
			},
			"settle": func(t *rapid.T) {
				most, had := rapid.IntRange(0, 70).Draw(t, "most"), x.Postponed()
				if more := x.ApplyPostponed(most); more != (had > most) ||
					x.Postponed() != max(had-most, 0) {
					t.Fatalf("Settle(%d) of %d leaves %d, and more: %v", most, had,
						x.Postponed(), more)
				}
			},
			"walk": func(t *rapid.T) {
				var got []Entry
				from := aTime.Draw(t, "from")
				x.Walk(from, func(e Entry) bool { got = append(got, e); return true })
				if want := slices.DeleteFunc(m.sorted(), func(e Entry) bool {
					return e.Deadline < from
				}); !slices.Equal(got, want) {
					t.Fatalf("Walk(%d): %v, want %v", from, got, want)
				}
			},
			"last": func(t *rapid.T) {
				all := m.sorted()
				if e, ok := x.Last(); ok != (len(all) > 0) || ok && e != all[len(all)-1] {
					t.Fatalf("Last() = %v, %v of %v", e, ok, all)
				}
			},
			"count": func(t *rapid.T) {
				from, most := aTime.Draw(t, "from"), 1000
				through := from + rapid.Int64Range(0, 100).Draw(t, "span")
				n := int64(0)
				for _, d := range m {
					if from <= d && d <= through {
						n++
					}
				}
				if s := x.Count(from, through, &most); s != Exactly(n) {
					t.Fatalf("Count(%d, %d) = %+v, want %d", from, through, s, n)
				}
			},
			"bins": func(t *rapid.T) {
				if err := x.CheckBins(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				all := m.sorted()
				next, ok := x.Next()
				if x.Len() != len(all) || ok != (len(all) > 0) || ok && next > all[0].Deadline {
					t.Fatalf("Len() = %d and Next() = %d, %v of %v", x.Len(), next, ok, all)
				}
				for _, e := range all {
					if !x.Has(e.ID, e.Deadline) || x.Has(e.ID, e.Deadline+1) ||
						x.Has(e.ID, e.Deadline-1) {
						t.Fatalf("Has is wrong about %v", e)
					}
				}
			},
		})
	})
}

// The number of postponed moves is bounded, so that applyPostponed takes some milliseconds. Further
// moves are done at once.
func TestPostponedIsBounded(t *testing.T) {
	const many = maxPostponed + 100
	x := NewCounted()
	for id := range uint64(many) {
		x.Set(id, None, 1000)
	}
	for id := range uint64(many) {
		x.Set(id, 1000, 2000+int64(id))
	}
	if n := x.Postponed(); n != maxPostponed {
		t.Errorf("%d moves are postponed, want %d", n, maxPostponed)
	}
	seen := uint64(0)
	x.Walk(0, func(e Entry) bool {
		if e != (Entry{2000 + int64(seen), seen}) {
			t.Fatalf("entry %d is %v", seen, e)
		}
		seen++
		return true
	})
	if n := x.Postponed(); seen != many || n != 0 {
		t.Errorf("%d entries of %d, and %d moves are postponed after a walk over them", seen, many,
			n)
	}
}
