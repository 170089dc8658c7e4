package resp

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLongDouble(t *testing.T) {
	const bad = "not a float"
	tests := []struct{ a, b, want string }{
		{"10.50", "0.1", "10.6"}, {"5.0e3", "200", "5200"}, {"3.0e0", "0", "3"},
		{"0.1", "0.2", "0.3"}, {"10.6", "-5", "5.6"}, {"1", "-1", "0"}, {"-0.0", "-0.0", "0"},
		{"3.14159265358979323846", "0", "3.14159265358979324"},
		{"1e17", "1", "100000000000000001"}, {"123456789012345678", "0.5", "123456789012345678.5"},
		{"18446744073709551617", "0", "18446744073709551616"},
		{"1", "1e-17", "1.00000000000000001"}, {"1", "1e-18", "1"}, {"0", "1e-20", "0"},
		{"0", "-1e-20", "0"},
		{"1.", "0", "1"}, {".5", "0", "0.5"}, {"+1", "0", "1"}, {"1E2", "0", "100"},
		{"1e+2", "0", "100"},
		{"0x10", "0", "16"}, {"0X1P-3", "0", "0.125"}, {"0x.8", "0", "0.5"},
		{"-0x1.8p1", "0", "-3"},
		{"1e-4950", "0", "0"}, {"000000000000000000001", "0", "1"},
		{"0e99999999999999999999", "1", "1"}, {"0e-99999999999999999999", "1", "1"},
		{"", "0", bad}, {" 1", "0", bad}, {"1 ", "0", bad}, {"1e", "0", bad}, {"1e+", "0", bad},
		{"1e+-1", "0", bad},
		{".", "0", bad}, {"-", "0", bad}, {"+-1", "0", bad}, {"0x", "0", bad}, {"0xp1", "0", bad},
		{"0x1p", "0", bad},
		{"1_0", "0", bad}, {"0b1", "0", bad}, {"1.2.3", "0", bad}, {"1e1.5", "0", bad},
		{"nan", "0", bad}, {"a", "0", bad},
		{"1p3", "0", bad}, {"1e5000", "0", bad}, {"1e99999999999999999999", "0", bad},
		{"0x1p99999", "0", bad},
		{"1e-5000", "0", bad}, {"0x1p-16446", "0", bad}, {"0x1.1p-16446", "0", "0"},
		{"0x1p16384", "0", bad},
		{strings.Repeat("0", longDoubleText+1), "0", bad},
		{strings.Repeat("0", longDoubleText), "7", "7"},
	}
	for _, tt := range tests {
		a, ok := ParseLongDouble([]byte(tt.a))
		if !ok {
			if tt.want != bad {
				t.Errorf("%s is not read", tt.a)
			}
			continue
		}
		if tt.want == bad {
			t.Errorf("%s is read as %s", tt.a, a)
			continue
		}
		b, ok := ParseLongDouble([]byte(tt.b))
		if !ok {
			t.Fatalf("%s is not read", tt.b)
		}
		if sum, ok := a.Add(b); !ok || sum.String() != tt.want {
			t.Errorf("%s + %s = %s (%v), want %s", tt.a, tt.b, sum, ok, tt.want)
		}
	}
}

func TestLongDoubleInfinity(t *testing.T) {
	one, _ := ParseLongDouble([]byte("1"))
	largest, ok := ParseLongDouble([]byte("1.18e4932"))
	if !ok {
		t.Fatal("a number just in range is not read")
	}
	if _, ok := largest.Add(largest); ok {
		t.Error("a sum beyond the range is taken for a number")
	}
	for _, text := range []string{"inf", "-inf", "INFINITY", "+Infinity"} {
		inf, ok := ParseLongDouble([]byte(text))
		if !ok {
			t.Errorf("%s is not read", text)
		}
		if _, ok := inf.Add(one); ok {
			t.Errorf("%s + 1 is taken for a number", text)
		}
		if _, ok := one.Add(inf); ok {
			t.Errorf("1 + %s is taken for a number", text)
		}
	}
}

// TestLongDoubleOfIntegers: whole numbers of 63 bits add up exactly.
func TestLongDoubleOfIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(math.MinInt64/2, math.MaxInt64/2).Draw(t, "a")
		b := rapid.Int64Range(math.MinInt64/2, math.MaxInt64/2).Draw(t, "b")
		var w Writer
		text := func(n int64) []byte {
			w.Buf = nil
			w.BulkInt(n)
			return w.Buf[strings.IndexByte(string(w.Buf), '\n')+1 : len(w.Buf)-2]
		}
		x, ok1 := ParseLongDouble(text(a))
		y, ok2 := ParseLongDouble(text(b))
		sum, ok3 := x.Add(y)
		if want := string(text(a + b)); !ok1 || !ok2 || !ok3 || sum.String() != want {
			t.Fatalf("%d + %d = %s, want %s", a, b, sum, want)
		}
	})
}

// String is Append as a string.
func (x LongDouble) String() string { return string(x.Append(nil)) }
