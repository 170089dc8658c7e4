package rdb

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// values draws values of all types.
func values() *rapid.Generator[Value] {
	text := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 100),
		rapid.Map(rapid.Int64(), func(n int64) []byte { return fmt.Append(nil, n) }),
		rapid.Map(rapid.IntRange(-9000, 9000), func(n int) []byte { return fmt.Append(nil, n) }),
		rapid.Map(rapid.IntRange(0, 9000), func(n int) []byte {
			return bytes.Repeat([]byte("xyz"), n/3)
		}),
	)
	return rapid.Custom(func(t *rapid.T) Value {
		kind := rapid.SampledFrom([]Type{String, List, Set, ZSet, Hash}).Draw(t, "type")
		if kind == String {
			return Value{Type: String, Str: text.Draw(t, "content")}
		}
		timed := rapid.Bool().Draw(t, "timed")
		var elements []Element
		seen := map[string]bool{}
		for _, name := range rapid.SliceOfN(text, 1, rapid.SampledFrom([]int{3, 140, 600}).Draw(t,
			"size")).Draw(t, "names") {
			if kind != List && seen[string(name)] {
				continue
			}
			seen[string(name)] = true
			e := Element{Name: name}
			switch kind {
			case ZSet:
				e.Score = rapid.OneOf(rapid.Float64(), rapid.Map(rapid.IntRange(-9, 9),
					func(n int) float64 { return float64(n) })).Draw(t, "score")
				if math.IsNaN(e.Score) {
					e.Score = 0
				}
			case Hash:
				e.Value = text.Draw(t, "value")
			}
			if timed && kind != List {
				e.Deadline = rapid.SampledFrom([]int64{0, 1, 5, 1_800_000_000_000,
					maxDeadline}).Draw(t, "deadline")
			}
			elements = append(elements, e)
		}
		return collection(kind, elements...)
	})
}

func TestRoundTrip(t *testing.T) {
	values := values()
	rapid.Check(t, func(t *rapid.T) {
		v := values.Draw(t, "value")
		got, err := Decode(Encode(v))
		if err != nil {
			t.Fatal(err)
		}
		a, b := flat(got), flat(v)
		if got.Len != v.Len || strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Fatalf("got %q, want %q", a, b)
		}
	})
}

func TestSamplesRoundTrip(t *testing.T) {
	for _, s := range samples() {
		v, err := Decode(Encode(s.value))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		same(t, v, s.value)
	}
}

// TestEncodeVersion: payloads contain the version that they need.
func TestEncodeVersion(t *testing.T) {
	tests := []struct {
		name    string
		value   Value
		version byte
		kind    byte
	}{
		{"string", str("a"), 10, kindString},
		{"hash", collection(Hash, field("a", "1")), 10, kindHashListpack},
		{"hash with a deadline", collection(Hash, field("a", "1"), timedField("b", "2", 9)),
			12, kindHashTimed},
		{"set with a deadline", collection(Set, names("1")[0], timedField("b", "", 9)),
			12, kindSetTimed},
		{"sorted set with a deadline", collection(ZSet, timedMember("a", 1, 9)), 12, kindZSetTimed},
	}
	for _, tt := range tests {
		p := Encode(tt.value)
		if p[0] != tt.kind || p[len(p)-10] != tt.version || p[len(p)-9] != 0 {
			t.Errorf("%s: %x", tt.name, p)
		}
	}
	want := raw(kindHashTimed, le64(7), 3, 1, 1, "a", 0xc0, 1, 0, 1, "b", 1, "x", 3, 1, "c", 0)
	got := Encode(collection(Hash, timedField("a", "1", 7), field("b", "x"),
		timedField("c", "", 9)))
	if !bytes.Equal(got, seal(want, version7_4)) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestEncodeEmpty: Decode refuses a collection without elements.
func TestEncodeEmpty(t *testing.T) {
	for _, kind := range []Type{List, Set, ZSet, Hash} {
		if v, err := Decode(Encode(collection(kind))); err != ErrFormat {
			t.Errorf("%d: %v, %v", kind, v, err)
		}
	}
}

// TestPack: a packer that has packed other strings gives the same result as a new one.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		used := &packer{}
		if rapid.Bool().Draw(t, "old") {
			used.base = math.MaxUint32 - 2000 // starts again on the way
		}
		for range 5 {
			letters := rapid.SampledFrom([]int{1, 2, 4, 255}).Draw(t, "letters")
			s := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, letters), func(n int) byte {
				return byte(n)
			}), 4, 2000).Draw(t, "s")
			s = bytes.Repeat(s, rapid.IntRange(1, 20).Draw(t, "times"))
			limit := rapid.IntRange(0, len(s)+len(s)/32+8).Draw(t, "limit")
			packed, ok := used.pack([]byte("head"), s, limit)
			again, okAgain := (&packer{}).pack([]byte("head"), s, limit)
			if ok != okAgain || !bytes.Equal(packed, again) {
				t.Fatalf("%x, a new one gives %x", packed, again)
			}
			if !ok {
				continue
			}
			if len(packed)-4 > limit {
				t.Fatalf("%d bytes, limit %d", len(packed)-4, limit)
			}
			got, ok := unpack([]byte("front"), packed[4:], len(s))
			if !ok || !bytes.Equal(got[5:], s) {
				t.Fatalf("unpacked %x, %t", got, ok)
			}
		}
	})
}
