package rdb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sample is a value with a name.
type sample struct {
	name  string
	value Value
}

func str(s string) Value { return Value{Type: String, Str: []byte(s)} }

func collection(t Type, elements ...Element) Value {
	return Value{Type: t, Len: len(elements), Elements: slices.Values(elements)}
}

// names makes elements of a list or set.
func names(all ...string) (elements []Element) {
	for _, name := range all {
		elements = append(elements, Element{Name: []byte(name)})
	}
	return elements
}

func scored(score float64, name string) Element { return Element{Name: []byte(name), Score: score} }

func field(name, value string) Element { return Element{Name: []byte(name), Value: []byte(value)} }

func timedMember(name string, score float64, deadline int64) Element {
	return Element{Name: []byte(name), Score: score, Deadline: deadline}
}

func timedField(name, value string, deadline int64) Element {
	return Element{Name: []byte(name), Value: []byte(value), Deadline: deadline}
}

// times makes n elements.
func times(n int, element func(i int) Element) (elements []Element) {
	for i := range n {
		elements = append(elements, element(i))
	}
	return elements
}

// noise returns n bytes that cannot be compressed.
func noise(n int) string {
	source := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	b := make([]byte, n)
	_, _ = source.Read(b) // never fails
	return string(b)
}

// integers are numbers around the limits of all encodings.
var integers = []string{"0", "1", "-1", "12", "13", "63", "64", "127", "128", "-128",
	"-129", "4095", "4096",
	"-4096", "-4097", "32767", "32768", "-32768", "-32769", "8388607", "8388608",
	"-8388608", "-8388609",
	"2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807",
	"-9223372036854775808"}

// samples are values of all types, with the sizes at which encodings change.
func samples() (all []sample) {
	add := func(name string, v Value) { all = append(all, sample{name, v}) }
	texts := append(slices.Clone(integers), "", "a", "-", "-0", "+1", "01", "1.5",
		"9223372036854775808", "-9223372036854775809",
		" 1", "1 ", "hello, world", "\x00\xff\r\n")
	for _, text := range texts {
		add("string/"+text, str(text))
	}
	for _, n := range []int{20, 21, 22, 31, 32, 33, 34, 63, 64, 65, 263, 264, 265, 266, 8191, 8192,
		8193, 16383, 16384, 100000} {
		add(fmt.Sprintf("string/a×%d", n), str(strings.Repeat("a", n)))
		add(fmt.Sprintf("string/noise %d", n), str(noise(n)))
		add(fmt.Sprintf("string/mixed %d", n),
			str((strings.Repeat("ab"+noise(7), n/9+1) + noise(n))[:n]))
	}
	name := func(i int) Element { return names(fmt.Sprintf("member-%05d", i*7919%100000))[0] }
	number := func(i int) Element { return names(fmt.Sprint(i*7919%100000 - 5000))[0] }

	add("list/one", collection(List, names("a")...))
	add("list/empty string", collection(List, names("")...))
	add("list/integers", collection(List, names(integers...)...))
	add("list/texts", collection(List, names(texts...)...))
	for _, n := range []int{63, 64, 4095, 4096, 8175, 8180, 8192, 20000} {
		add(fmt.Sprintf("list/a×%d", n),
			collection(List, names("x", strings.Repeat("a", n), "y")...))
		add(fmt.Sprintf("list/noise %d", n), collection(List, names("x", noise(n), "y")...))
	}
	add("list/noises", collection(List, times(300, func(i int) Element {
		return names(noise(i))[0]
	})...))
	add("list/many", collection(List, times(70000, number)...))

	add("set/one integer", collection(Set, names("7")...))
	add("set/16 bits", collection(Set, names("7", "-32768", "32767")...))
	add("set/32 bits", collection(Set, names("7", "-32769", "2147483647")...))
	add("set/64 bits", collection(Set, names("7", "2147483648", "-9223372036854775808")...))
	add("set/512 integers", collection(Set, times(512, number)...))
	add("set/513 integers", collection(Set, times(513, number)...))
	add("set/mixed", collection(Set, names("7", "a", "", "-1", noise(70))...))
	add("set/many", collection(Set, times(20000, name)...))

	inf := math.Inf(1)
	add("zset/one", collection(ZSet, scored(1, "a")))
	add("zset/scores", collection(ZSet, scored(-inf, "a"), scored(-7, "b"), scored(0, "c"),
		scored(1<<40, "7"), scored(inf, "e")))
	add("zset/128", collection(ZSet, times(128, func(i int) Element {
		return scored(float64(i), noise(60)+fmt.Sprint(i))
	})...))
	add("zset/129", collection(ZSet, times(129, func(i int) Element {
		return scored(float64(i), fmt.Sprint(i))
	})...))
	add("zset/long", collection(ZSet, scored(1, strings.Repeat("a", 64)),
		scored(2, strings.Repeat("a", 65))))
	add("zset/many", collection(ZSet, times(20000, func(i int) Element {
		return scored(float64(i)/8, fmt.Sprintf("m%05d", i))
	})...))

	add("hash/one", collection(Hash, field("f", "v")))
	add("hash/empty", collection(Hash, field("", "")))
	add("hash/integers", collection(Hash, times(len(integers), func(i int) Element {
		return field(integers[i], integers[i])
	})...))
	add("hash/64", collection(Hash, field(strings.Repeat("f", 64), noise(64))))
	add("hash/65", collection(Hash, field("f", noise(65)), field("g", "7")))
	add("hash/512", collection(Hash, times(512, func(i int) Element {
		return field(fmt.Sprint("f", i), noise(i%65))
	})...))
	add("hash/513", collection(Hash, times(513, func(i int) Element {
		return field(fmt.Sprint("f", i), fmt.Sprint(i))
	})...))
	add("hash/long", collection(Hash, field("f", strings.Repeat("abc", 30000)),
		field("g", noise(20000))))
	return append(all, streams()...)
}

// flat returns a value as text for comparison, in the order of its type.
func flat(v Value) []string {
	if v.Type == String {
		return []string{fmt.Sprintf("string %q", v.Str)}
	}
	lines := []string{fmt.Sprint("type ", v.Type)}
	if v.Type == Stream {
		return append(lines, flatStream(v.Stream)...)
	}
	for e := range v.Elements {
		lines = append(lines, fmt.Sprintf("%q %q %v %d", e.Name, e.Value, e.Score, e.Deadline))
	}
	if v.Type != List {
		slices.Sort(lines)
	}
	return lines
}

// same fails the test unless both values are equal.
func same(t testing.TB, got, want Value) {
	t.Helper()
	a, b := flat(got), flat(want)
	if !slices.Equal(a, b) {
		t.Fatalf("%d lines, want %d: %.2000q\nwant %.2000q", len(a), len(b), a, b)
	}
	if got.Type == Stream {
		n := 0
		for range want.Stream.Entries {
			n++
		}
		if got.Len != n {
			t.Fatalf("Len is %d of %d", got.Len, n)
		}
	} else if got.Type != String && got.Len != len(b)-1 {
		t.Fatalf("Len is %d of %d", got.Len, len(b)-1)
	}
}
