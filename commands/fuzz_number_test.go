package commands

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"keyp/resp"
)

// FuzzNumbers reads any text as each kind of number, and compares the result with Go's library.
func FuzzNumbers(f *testing.F) {
	for _, text := range append(append([]string{"9223372036854775807", "-9223372036854775808", "-", "--1", "1e17", "0x1.8p1", "0X1P-3", "1e-4000", ".5", "5.", "+5", "1_0", "nan", "infinity", "0b1", "0o7", "1p3", "0x", "0x.p1"}, integers...), doubles...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := []byte(text)
		n, err := strconv.ParseInt(text, 10, 64)
		want := err == nil && strconv.FormatInt(n, 10) == text
		if got, ok := ParseInt(b); ok != want || ok && got != n {
			t.Errorf("ParseInt(%q) = %d, %v", text, got, ok)
		}
		u, err := strconv.ParseUint(text, 10, 64)
		if got, ok := ParseUint(b); ok != (err == nil) || ok && got != u {
			t.Errorf("ParseUint(%q) = %d, %v", text, got, ok)
		}
		checkDouble(t, text)
		checkLongDouble(t, text)
	})
}

// plainNumber reports whether text is a plain number, which C and Go read alike.
func plainNumber(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(text)-len(digits) <= 1 && digits != "" && strings.Trim(digits,
		"0123456789.eE+-") == "" && strings.ContainsAny(digits[:1], "0123456789.")
}

// checkDouble: ParseFloat returns the same number as strconv, and never NaN. The number's text is
// read back as the same number.
func checkDouble(t *testing.T, text string) {
	t.Helper()
	got, ok := ParseFloat([]byte(text))
	if ok && (math.IsNaN(got) || strings.ContainsAny(text, "_ \t\x00")) {
		t.Errorf("ParseFloat(%q) = %v", text, got)
	}
	if plainNumber(text) {
		want, err := strconv.ParseFloat(text, 64)
		tiny := err == nil && want == 0 &&
			strings.ContainsAny(strings.ToLower(strings.SplitN(strings.ToLower(text), "e", 2)[0]),
				"123456789")
		if ok != (err == nil && !tiny) || ok && got != want {
			t.Errorf("ParseFloat(%q) = %v, %v, not %v, %v", text, got, ok, want, err)
		}
	}
	if !ok {
		return
	}
	written := resp.AppendDouble(nil, got)
	if again, ok := ParseFloat(written); !ok || again != got {
		t.Errorf("%q is %v, written %q, read %v, %v", text, got, written, again, ok)
	}
}

// checkLongDouble: a long double is as close to the number as its mantissa of 64 bits allows.
func checkLongDouble(t *testing.T, text string) {
	t.Helper()
	x, ok := resp.ParseLongDouble([]byte(text))
	if !plainNumber(text) || len(text) > 1000 {
		return
	}
	want, _, err := big.ParseFloat(text, 10, 200, big.ToNearestEven)
	if err != nil {
		if ok && !errors.Is(err, strconv.ErrRange) {
			t.Errorf("ParseLongDouble(%q) is a number, though %v", text, err)
		}
		return
	}
	exp := want.MantExp(nil)
	switch inside := exp < 16000 && exp > -16000 || want.Sign() == 0; {
	case want.IsInf() || !inside:
	case !ok:
		if decimalExponent(text) < 4000 {
			t.Errorf("ParseLongDouble(%q) is no number", text)
		}
	default:
		ms, fits := x.Milliseconds()
		want.Mul(want, big.NewFloat(1000))
		if upper, _ := want.Int64(); fits && (ms < upper-1000 || ms > upper+1000) &&
			math.Abs(float64(upper)) < 1<<52 {
			t.Errorf("%q is %d ms, not about %d", text, ms, upper)
		}
	}
}

// decimalExponent returns the absolute value of a number's exponent, or MaxInt if it cannot be
// read.
func decimalExponent(text string) int {
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return math.MaxInt
	}
	return max(n, -n)
}
