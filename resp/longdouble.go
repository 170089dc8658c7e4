package resp

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// LongDouble is the number type of INCRBYFLOAT and HINCRBYFLOAT: the long double of x86, with 80
// bits and a mantissa of 64. Here it is the same on every processor. So 10.50 + 0.1 is 10.6, and
// 1e17 + 1 is exact. Redis on other processors uses the long double of their C compiler, and can
// differ in the last digits.
//
// The zero value is 0. One difference from x86 is that numbers below 2^-16382 keep
// their full mantissa; no text with 17 decimals shows it.
type LongDouble struct{ f big.Float }

const (
	longDoubleBits = 64
	// The exponents of big.Float for a mantissa in [0.5, 1): those of the largest
	// number, and of half the smallest, which rounds to zero.
	longDoubleMaxExp  = 16384
	longDoubleZeroExp = -16445
	// longDoubleText is the longest text that Redis reads, in bytes.
	longDoubleText = 5*1024 - 1
	// Decimal exponents beyond these are out of range; they are checked before any
	// power of ten is calculated.
	longDoubleMaxTens, longDoubleMinTens = 4940, -4970
)

// ParseLongDouble reads the whole of b as Redis does: a decimal or hexadecimal
// number as C writes it, or an infinity. It reports false for anything else, blanks
// around a number, NaN, and numbers too large or too small for the type.
func ParseLongDouble(b []byte) (LongDouble, bool) {
	var x LongDouble
	if len(b) == 0 || len(b) > longDoubleText {
		return x, false
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	ok := true
	switch {
	case bytes.EqualFold(b, []byte("inf")) || bytes.EqualFold(b, []byte("infinity")):
		x.f.SetInf(false)
	case len(b) > 1 && b[0] == '0' && b[1]|0x20 == 'x':
		ok = x.parse(b[2:], 16)
	default:
		ok = x.parse(b, 10)
	}
	if !ok {
		return LongDouble{}, false
	}
	if negative {
		x.f.Neg(&x.f)
	}
	return x, true
}

// parse reads digits with a point and an exponent, without a sign.
func (x *LongDouble) parse(b []byte, base int) bool {
	mark := byte('e')
	if base == 16 {
		mark = 'p'
	}
	text := strings.ToLower(string(b))
	exp := 0
	if at := strings.IndexByte(text, mark); at >= 0 {
		var ok bool
		if exp, ok = parseExponent(text[at+1:]); !ok {
			return false
		}
		text = text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	for _, c := range []byte(digits) {
		if !isDigit(c, base) {
			return false
		}
	}
	mantissa, ok := new(big.Int).SetString(digits, base)
	if !ok { // no digits at all
		return false
	}
	x.f.SetPrec(longDoubleBits)
	if mantissa.Sign() == 0 {
		return true
	}
	if base == 16 {
		x.f.SetInt(mantissa)
		x.f.SetMantExp(&x.f, exp-4*len(fraction))
	} else {
		exp -= len(fraction)
		tens := len(strings.TrimLeft(digits, "0")) + exp
		if tens > longDoubleMaxTens || tens < longDoubleMinTens {
			return false
		}
		x.scale(mantissa, exp)
	}
	e := x.f.MantExp(nil)
	return e <= longDoubleMaxExp &&
		(e > longDoubleZeroExp || e == longDoubleZeroExp && !isHalf(&x.f))
}

// scale sets x to mantissa × 10^exp, rounded once.
func (x *LongDouble) scale(mantissa *big.Int, exp int) {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	if exp >= 0 {
		x.f.SetInt(mantissa.Mul(mantissa, power))
		return
	}
	var a, b big.Float // SetInt gives a zero Float the precision that holds all bits
	x.f.Quo(a.SetInt(mantissa), b.SetInt(power))
}

// isHalf reports whether x is a power of two.
func isHalf(x *big.Float) bool { return x.MinPrec() == 1 }

// parseExponent reads a decimal exponent. For one that is far out of range it returns another
// number out of range.
func parseExponent(s string) (int, bool) {
	const huge = 1 << 20
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		digits := strings.TrimLeft(s, "+-")
		if len(s)-len(digits) > 1 || len(digits) == 0 || strings.Trim(digits, "0123456789") != "" {
			return 0, false
		}
		// A syntactically right number that int64 cannot hold; n is its nearest.
	}
	return int(max(-huge, min(n, huge))), true
}

func isDigit(c byte, base int) bool {
	return c >= '0' && c <= '9' || base == 16 && c >= 'a' && c <= 'f'
}

// IsInf reports whether x is an infinity.
func (x LongDouble) IsInf() bool { return x.f.IsInf() }

// Add returns x + y, and reports false when the result is not a finite number.
func (x LongDouble) Add(y LongDouble) (LongDouble, bool) {
	var sum LongDouble
	if x.f.IsInf() || y.f.IsInf() {
		return sum, false
	}
	sum.f.SetPrec(longDoubleBits).Add(&x.f, &y.f)
	return sum, sum.f.MantExp(nil) <= longDoubleMaxExp
}

// Sub returns x - y, and reports false when the result is not a finite number.
func (x LongDouble) Sub(y LongDouble) (LongDouble, bool) {
	var minus LongDouble
	minus.f.Neg(&y.f)
	return x.Add(minus)
}

// Cmp returns a negative number if x is less than y, 0 if they are equal, and a positive number if
// x is greater.
func (x LongDouble) Cmp(y LongDouble) int { return x.f.Cmp(&y.f) }

// MaxLongDouble returns the largest finite number.
func MaxLongDouble() LongDouble {
	var x LongDouble
	x.f.SetPrec(longDoubleBits).SetInt(new(big.Int).SetUint64(math.MaxUint64))
	x.f.SetMantExp(&x.f, longDoubleMaxExp-longDoubleBits)
	return x
}

// Milliseconds returns x, which is in seconds, in milliseconds, rounded up. It returns false if the
// result is above the largest int64. A result below the smallest int64 becomes the smallest.
func (x LongDouble) Milliseconds() (int64, bool) {
	var ms, most big.Float
	ms.SetPrec(longDoubleBits).Mul(&x.f, big.NewFloat(1000))
	if ms.Cmp(most.SetInt64(math.MaxInt64)) > 0 {
		return 0, false
	}
	n, rounding := ms.Int64()
	if rounding == big.Below {
		n++
	}
	return n, true
}

// Append appends x with at most 17 decimals, rounded, without zeros at their end
// and without an exponent: up to 4,951 bytes.
func (x LongDouble) Append(b []byte) []byte {
	at := len(b)
	b = x.f.Append(b, 'f', 17)
	return trimDecimals(b, at)
}

// trimDecimals cuts the zeros at the end of the decimals in b[at:], and the sign of
// a zero.
func trimDecimals(b []byte, at int) []byte {
	text := b[at:]
	if bytes.IndexByte(text, '.') >= 0 {
		text = bytes.TrimRight(text, "0")
		text = bytes.TrimSuffix(text, []byte{'.'})
	}
	if string(text) == "-0" {
		return append(b[:at], '0')
	}
	return b[:at+len(text)]
}
