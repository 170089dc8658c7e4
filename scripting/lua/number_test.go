package lua

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestLongNumerals: long numerals are shortened before they are parsed, and that does not change
// their values.
func TestLongNumerals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	digits := func(set string, most int) string {
		b := make([]byte, rng.IntN(most+1))
		for i := range b {
			b[i] = set[rng.IntN(len(set))]
		}
		return string(b)
	}
	// These numerals have more digits than are kept. They are close to the middle between two
	// doubles, where the last digit decides.
	middle := "1." + "00000000000000011102230246251565404236316680908203125"
	tests := []string{middle + strings.Repeat("0", 2000), middle + strings.Repeat("0", 2000) + "1",
		middle[:len(middle)-1] + "4" + strings.Repeat("9", 2000)}
	for range 3000 {
		sets := []string{"0", "9", "01", "0123456789"}
		if rng.IntN(4) == 0 {
			s := "0x" + digits("0", 900) + digits("0123456789abcDEF", 1500) + "." +
				digits("0", 900) + digits("0f", 1500)
			tests = append(tests, s+"p"+strconv.Itoa(rng.IntN(24_000)-12_000))
			continue
		}
		s := digits("0", 900) + digits(sets[rng.IntN(4)], 1500)
		if rng.IntN(3) > 0 {
			s += "." + digits("0", 900) + digits(sets[rng.IntN(4)], 1500)
		}
		if rng.IntN(3) > 0 {
			s += "e" + strconv.Itoa(rng.IntN(6000)-3000)
		}
		tests = append(tests, s)
	}
	short := 0
	for _, s := range tests {
		if len(s) <= longNumeral {
			short++
			continue
		}
		// Strconv misplaces the decimal point after more than 800 digits.
		exact, valid := new(big.Rat).SetString(s)
		for _, sign := range []string{"", "-"} {
			got, ok := parseNumber(sign+s, func() {})
			want := 0.0
			if valid {
				want, _ = exact.Float64()
			}
			if sign != "" {
				want = math.Copysign(want, -1)
			}
			if ok != valid || ok && math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s%s is %v (%v), not %v (%v)", sign, s, got, ok, want, valid)
			}
		}
	}
	if short > len(tests)/2 {
		t.Errorf("%d of %d are short", short, len(tests))
	}
	long := strings.Repeat("1", longNumeral)
	for _, s := range []string{long + "x", long + "e", long + "e+", long + "e1x", long + ".1.",
		"." + strings.Repeat("x", longNumeral), "0x" + strings.Repeat("g", longNumeral),
		"--" + long, long + "p1", "0x" + long + "p", long + "_"} {
		if f, ok := parseNumber(s, func() {}); ok {
			t.Errorf("%.20q… is %v", s, f)
		}
	}
}

// TestUnsigned parses digits in a base like C's strtoul.
func TestUnsigned(t *testing.T) {
	for _, tt := range []struct {
		s    string
		base int
		want uint64
		ok   bool
	}{
		{"ff", 16, 255, true}, {"0xFF", 16, 255, true}, {"0x", 16, 0, false},
		{" \t7\n", 8, 7, true}, {"8", 8, 0, false}, {"zz", 36, 1295, true}, {"", 7, 0, false},
		{"-", 7, 0, false},
		{"-1", 10, math.MaxUint64, true}, {"--1", 10, 0, false}, {"1\x00x", 2, 1, true},
		{"18446744073709551615", 10, math.MaxUint64, true},
		{"18446744073709551616", 10, math.MaxUint64, true},
		{"-18446744073709551616", 10, math.MaxUint64, true},
		{strings.Repeat("1", 3<<16), 2, math.MaxUint64, true},
		{strings.Repeat("0", 3<<16) + "5", 6, 5, true}, {strings.Repeat(" ", 3<<16) + "5" +
			strings.Repeat(" ", 3<<16), 6, 5, true}, {"1_0", 10, 0, false},
	} {
		if n, ok := parseUnsigned(tt.s, tt.base, func() {}); n != tt.want && ok || ok != tt.ok {
			t.Errorf("%.30q in base %d is %d (%v), not %d (%v)", tt.s, tt.base, n,
				ok, tt.want, tt.ok)
		}
	}
}
