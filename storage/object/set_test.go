package object

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestSetModel compares Set with a map, in each of its forms in memory (packed, integers, dict).
func TestSetModel(t *testing.T) {
	smallLimits(t)
	rapid.Check(t, func(rt *rapid.T) {
		keys := someKeys
		if rapid.Bool().Draw(rt, "integers") {
			keys = rapid.Map(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-5, 5),
				rapid.Int64Range(-40000, 40000)), func(v int64) string { return fmt.Sprint(v) })
		}
		s := &Set{}
		m := &machine{v: s, model: map[string]modelElement{}, keys: keys, vals: rapid.Just("")}
		actions := map[string]func(*rapid.T){
			"add without deadline": func(rt *rapid.T) {
				elem := keys.Draw(rt, "elem")
				_, had := m.model[elem]
				if s.Add([]byte(elem), 0) == had {
					rt.Fatalf("Add(%q) is wrong about what was there: %v", elem, had)
				}
				m.model[elem] = modelElement{}
			},
			"delete": func(rt *rapid.T) {
				elem := keys.Draw(rt, "elem")
				_, had := m.model[elem]
				if s.Delete([]byte(elem)) != had {
					rt.Fatalf("Delete(%q) is wrong about what was there: %v", elem, had)
				}
				delete(m.model, elem)
			},
			"remove": m.remove, "due": m.due, "": m.agree,
		}
		if rapid.Bool().Draw(rt, "deadlines") {
			actions["put"], actions["expire"] = m.put, m.expire
		}
		m.check = func(rt *rapid.T) {
			checkAt(rt, m, func(i int) []byte { member, _ := s.At(i); return member })
			checkScan(rt, m)
			checkDict(rt, s.big)
			if s.ints() {
				checkSorted(rt, order(s))
			}
			if elem := keys.Draw(rt, "elem"); true {
				_, want := m.model[elem]
				if _, got := s.Has([]byte(elem)); got != want {
					rt.Fatalf("Has(%q) = %v", elem, got)
				}
			}
		}
		rt.Repeat(actions)
	})
}

func checkSorted(rt *rapid.T, members []string) {
	last := int64(math.MinInt64)
	for i, m := range members {
		v, err := strconv.ParseInt(m, 10, 64)
		if err != nil || i > 0 && v <= last {
			rt.Fatalf("a set of integers gives %q", members)
		}
		last = v
	}
}

// TestParseInt: a text is an integer if strconv would write the integer the same way.
func TestParseInt(t *testing.T) {
	for _, s := range []string{"", "-", "-0", "+1", "01", "-01", " 1", "1 ", "9223372036854775808",
		"-9223372036854775809", "99999999999999999999", "0x1"} {
		if v, ok := parseInt([]byte(s)); ok {
			t.Errorf("%q is %d", s, v)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.OneOf(rapid.Int64(),
			rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64})).Draw(rt, "v")
		if got, ok := parseInt(strconv.AppendInt(nil, v, 10)); !ok || got != v {
			rt.Fatalf("%d became %d, %v", v, got, ok)
		}
		s := rapid.StringMatching(`[-+]?[0-9]{0,21}`).Draw(rt, "s")
		n, err := strconv.ParseInt(s, 10, 64)
		want := err == nil && strconv.FormatInt(n, 10) == s
		if got, ok := parseInt([]byte(s)); ok != want || ok && got != n {
			rt.Fatalf("%q became %d, %v", s, got, ok)
		}
	})
}

// TestSetForms: the forms and the order of a set are those of Redis.
func TestSetForms(t *testing.T) {
	numbers := func(from, to int) (list []string) {
		for i := from; i < to; i++ {
			list = append(list, fmt.Sprint(i))
		}
		return list
	}
	tests := []struct {
		name     string
		add      []string
		encoding string
		order    []string
	}{
		{"integers", []string{"3", "1", "2", "-70000", "10000000000", "1"}, "intset",
			[]string{"-70000", "1", "2", "3", "10000000000"}},
		{"then a word", []string{"3", "1", "b", "2", "a"}, "listpack",
			[]string{"1", "3", "b", "2", "a"}},
		{"words", []string{"c", "1", "b"}, "listpack", []string{"c", "1", "b"}},
		{"512 integers", numbers(0, 512), "intset", numbers(0, 512)},
		{"513 integers", numbers(0, 513), "hashtable", nil},
		{"127 integers and a word", append(numbers(0, 127), "a"), "listpack",
			append(numbers(0, 127), "a")},
		{"128 integers and a word", append(numbers(0, 128), "a"), "hashtable", nil},
		{"128 words and one more", append([]string{"a"}, numbers(0, 128)...), "hashtable", nil},
		{"a long word", []string{fmt.Sprintf("%065d", 1)}, "hashtable", nil},
	}
	for _, test := range tests {
		s := &Set{}
		for _, m := range test.add {
			s.Add([]byte(m), 0)
		}
		if s.Encoding() != test.encoding {
			t.Errorf("%s: %s", test.name, s.Encoding())
		}
		if test.order != nil && !slices.Equal(order(s), test.order) {
			t.Errorf("%s: order %q", test.name, order(s))
		}
		want := slices.Compact(slices.Sorted(slices.Values(test.add)))
		if got := slices.Sorted(slices.Values(order(s))); !slices.Equal(got, want) {
			t.Errorf("%s: members %q", test.name, got)
		}
	}
}

func TestSetReserve(t *testing.T) {
	tests := []struct {
		have, first string
		n           int
		want        string
	}{
		{"", "1", 512, "intset"}, {"", "1", 513, "hashtable"}, {"", "a", 128, "listpack"},
		{"", "a", 129, "hashtable"},
		{"1", "a", 300, "intset"}, {"1", "1", 513, "hashtable"}, {"a", "1", 129, "hashtable"},
	}
	for _, test := range tests {
		s := &Set{}
		if test.have != "" {
			s.Add([]byte(test.have), 0)
		}
		s.Reserve(test.n, []byte(test.first))
		if test.have == "" {
			s.Add([]byte(test.first), 0)
		}
		if s.Encoding() != test.want {
			t.Errorf("Reserve(%d, %q) after %q: %s", test.n, test.first, test.have, s.Encoding())
		}
	}
	if err := (&Set{}).Put([]byte("m"), []byte("v"), 0); err == nil {
		t.Error("a member with a value is taken")
	}
}

// TestSetDraw: every number below Len gives a member, even in a large set that shrinks.
func TestSetDraw(t *testing.T) {
	s := &Set{}
	all := map[string]bool{}
	for i := range 3000 {
		s.Add([]byte(fmt.Sprint("m", i)), 0)
		all[fmt.Sprint("m", i)] = true
	}
	for i := 0; s.Len() > 0; i++ {
		member, _ := s.At(i * 7919 % s.Len())
		name := string(member)
		if !all[name] || !s.Delete([]byte(name)) {
			t.Fatalf("%q was drawn", name)
		}
		delete(all, name)
	}
	if len(all) > 0 {
		t.Errorf("not drawn: %q", slices.Collect(maps.Keys(all)))
	}
}
