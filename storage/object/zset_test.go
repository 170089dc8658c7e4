package object

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type ranked struct {
	member string
	score  float64
}

func compareRanked(a, b ranked) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
}

var scores = rapid.OneOf(
	rapid.SampledFrom([]float64{0, 1, 1.5, 2, -1, math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}),
	rapid.Float64Range(-1e9, 1e9), rapid.Float64().Filter(func(f float64) bool {
		return !math.IsNaN(f)
	}))

func val(score float64) string { return string(AppendScore(nil, score)) }

// TestZSetModel: a sorted set behaves like a sorted slice in every form.
func TestZSetModel(t *testing.T) {
	smallLimits(t)
	rapid.Check(t, func(rt *rapid.T) {
		z := &ZSet{}
		m := &machine{v: z, model: map[string]modelElement{}, keys: someKeys,
			vals: rapid.Map(scores, val)}
		m.check = func(rt *rapid.T) {
			checkRanks(rt, z, m.model)
			checkScan(rt, m)
			checkDict(rt, z.big)
		}
		m.more = map[string]func(*rapid.T){"remove range": func(rt *rapid.T) {
			from := rapid.IntRange(-1, z.Len()).Draw(rt, "from")
			to := from + rapid.IntRange(-1, 30).Draw(rt, "n")
			want := rangeOf(z, from, to, false)
			rest := z.Except(max(from, 0), max(from, 0, min(to, z.Len())))
			z.RemoveRange(from, to, func(member []byte) {
				if len(want) == 0 || string(member) != want[0].member {
					rt.Fatalf("RemoveRange(%d, %d) shows %q before %v", from, to, member, want)
				}
				delete(m.model, string(member))
				want = want[1:]
			})
			if len(want) > 0 {
				rt.Fatalf("RemoveRange(%d, %d) leaves %v", from, to, want)
			}
			if !slices.Equal(rangeOf(rest, 0, rest.Len(), false), rangeOf(z, 0, z.Len(), false)) ||
				rest.Earliest() != z.Earliest() || rest.Encoding() != z.Encoding() {
				rt.Fatalf("Except(%d, %d) has %v", from, to, rangeOf(rest, 0, rest.Len(), false))
			}
			checkRanks(rt, rest, m.model)
		}}
		m.run(rt)
	})
}

func sortedModel(model map[string]modelElement) (list []ranked) {
	for member, e := range model {
		list = append(list, ranked{member, ScoreOf([]byte(e.val))})
	}
	slices.SortFunc(list, compareRanked)
	return list
}

func rangeOf(z *ZSet, from, to int, reverse bool) (list []ranked) {
	z.Range(from, to, reverse, func(member []byte, score float64, _ int64) bool {
		list = append(list, ranked{string(member), score})
		return true
	})
	return list
}

func checkRanks(rt *rapid.T, z *ZSet, model map[string]modelElement) {
	want := sortedModel(model)
	if got := rangeOf(z, 0, z.Len(), false); !slices.Equal(got, want) {
		rt.Fatalf("members %v, model %v", got, want)
	}
	for i, r := range want {
		if rank, ok := z.Rank([]byte(r.member)); !ok || rank != i {
			rt.Fatalf("Rank(%q) = %d, %v; model %d", r.member, rank, ok, i)
		}
		if member, score, deadline := z.At(i); string(member) != r.member || score != r.score ||
			deadline != model[r.member].deadline {
			rt.Fatalf("At(%d) = %q, %v, %d", i, member, score, deadline)
		}
	}
	from, to := rapid.IntRange(-3, 40).Draw(rt, "from"), rapid.IntRange(-3, 40).Draw(rt, "to")
	part := slices.Clone(want[min(max(from, 0), len(want)):])
	part = part[:min(max(to-max(from, 0), 0), len(part))]
	if got := rangeOf(z, from, to, false); !slices.Equal(got, part) {
		rt.Fatalf("Range(%d, %d) = %v, model %v", from, to, got, want)
	}
	slices.Reverse(part)
	if got := rangeOf(z, from, to, true); !slices.Equal(got, part) {
		rt.Fatalf("Range(%d, %d) in reverse = %v, model %v", from, to, got, want)
	}
	score := scores.Draw(rt, "score")
	below, upTo := 0, 0
	for _, r := range want {
		if r.score < score {
			below++
		}
		if r.score <= score {
			upTo++
		}
	}
	if a, b := z.RankOfScore(score, false), z.RankOfScore(score, true); a != below || b != upTo {
		rt.Fatalf("RankOfScore(%v) = %d, %d; model %d, %d", score, a, b, below, upTo)
	}
}

// TestZSetLex: members with equal scores are ranked by their bytes.
func TestZSetLex(t *testing.T) {
	smallLimits(t)
	rapid.Check(t, func(rt *rapid.T) {
		z := &ZSet{}
		members := rapid.SliceOfDistinct(someKeys, rapid.ID[string]).Draw(rt, "members")
		for _, m := range members {
			z.Set([]byte(m), 7, 0)
		}
		slices.Sort(members)
		bound := someKeys.Draw(rt, "bound")
		at, found := slices.BinarySearch(members, bound)
		above := at
		if found {
			above++
		}
		if a, b := z.RankOfLex([]byte(bound), false), z.RankOfLex([]byte(bound), true); a != at ||
			b != above {
			rt.Fatalf("RankOfLex(%q) = %d, %d; want %d, %d", bound, a, b, at, above)
		}
	})
}

// TestLargeZSet moves many members within a tree of several levels.
func TestLargeZSet(t *testing.T) {
	z := &ZSet{}
	const n = 20000
	model := map[string]modelElement{}
	for i := range 3 * n {
		member := fmt.Sprint("m", i*7919%n)
		score := float64(i * 104729 % 5000)
		if created := z.Set([]byte(member), score, int64(i%5)); created != (i < n) {
			t.Fatalf("%s is new: %v", member, created)
		}
		model[member] = modelElement{val(score), int64(i % 5)}
		if i > n && i%3 == 0 {
			gone := fmt.Sprint("m", i*31%n)
			if _, had := model[gone]; z.Delete([]byte(gone)) != had {
				t.Fatalf("%s was there: %v", gone, had)
			}
			delete(model, gone)
			z.Set([]byte(gone), 1, 0)
			model[gone] = modelElement{val(1), 0}
		}
	}
	checkDict(t, z.big)
	want := sortedModel(model)
	if got := rangeOf(z, 0, z.Len(), false); !slices.Equal(got, want) {
		t.Fatal("the members differ from the model's")
	}
	for i := 0; i < n; i += 97 {
		if rank, ok := z.Rank([]byte(want[i].member)); !ok || rank != i {
			t.Fatalf("Rank = %d, %v, want %d", rank, ok, i)
		}
	}
}

func TestZSetForms(t *testing.T) {
	z := &ZSet{}
	for i := range 128 {
		z.Set([]byte(fmt.Sprint(i)), float64(-i), 0)
	}
	if z.Encoding() != "listpack" {
		t.Fatal(z.Encoding())
	}
	z.Set([]byte("more"), 0, 0)
	if z.Encoding() != "skiplist" {
		t.Fatal(z.Encoding())
	}
	z = &ZSet{}
	z.Set(bytes.Repeat([]byte("x"), 65), 0, 0)
	if z.Encoding() != "skiplist" {
		t.Fatal(z.Encoding())
	}
	z = &ZSet{}
	z.Reserve(128, 64)
	if z.Encoding() != "listpack" {
		t.Fatal(z.Encoding())
	}
	z.Reserve(1, 65)
	if z.Encoding() != "skiplist" {
		t.Fatal(z.Encoding())
	}
	for _, bad := range []string{"", "1234567", val(math.NaN())} {
		if err := z.Put([]byte("m"), []byte(bad), 0); err == nil {
			t.Errorf("score %x is taken", bad)
		}
	}
	z.Set([]byte("m"), math.Copysign(0, -1), 0)
	if score, _, _ := z.Score([]byte("m")); math.Signbit(score) {
		t.Error("-0 stays")
	}
}
