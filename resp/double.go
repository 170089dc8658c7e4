package resp

import (
	"math"
	"strconv"
)

// wholeMax is the largest magnitude that Redis writes as an integer.
const wholeMax = 1 << 62

// AppendDouble appends f as Redis 7.2 and later write doubles in replies. The forms are "inf",
// "-inf", "nan", "-0", and whole numbers within 2^62 as integers. All others have the fewest digits
// that read back as the same number. Short numbers have no exponent; Redis's own rule decides:
//
//	0.1  0.000001  1e-7  1234.5678901234  1.23456789012345e+4  1e+19
//
// Redis 7.0 wrote 17 significant digits (0.10000000000000001 for 0.1); compare
// with such a server by value, not by text.
func AppendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case f == 0 && math.Signbit(f):
		return append(b, "-0"...)
	case math.Abs(f) <= wholeMax && f == math.Trunc(f):
		return strconv.AppendInt(b, int64(f), 10)
	}
	if f < 0 {
		b, f = append(b, '-'), -f
	}
	var tmp [32]byte
	digits, point := shortest(tmp[:0], f)
	return layout(b, digits, point)
}

// shortest returns the fewest digits d1 d2 … that identify f > 0, and the exponent of
// d1: f = d1.d2… × 10^exp. It writes in tmp.
func shortest(tmp []byte, f float64) (digits []byte, exp int) {
	tmp = strconv.AppendFloat(tmp, f, 'e', -1, 64) // d.ddde±dd or de±dd
	n := 1
	i := 1
	if tmp[i] == '.' {
		for i++; tmp[i] != 'e'; i++ {
			tmp[n] = tmp[i]
			n++
		}
	}
	negative := tmp[i+1] == '-'
	for _, c := range tmp[i+2:] {
		exp = exp*10 + int(c-'0')
	}
	if negative {
		exp = -exp
	}
	return tmp[:n], exp
}

// layout places the digits of d1.d2… × 10^exp. low is the exponent of the last digit. Numbers that
// end before the point get at most seven zeros. Others have no exponent down to the sixth decimal,
// or when exp is small.
func layout(b, digits []byte, exp int) []byte {
	low := exp - (len(digits) - 1)
	switch {
	case low >= 0 && exp < len(digits)+7:
		b = append(b, digits...)
		for range low {
			b = append(b, '0')
		}
		return b
	case low < 0 && (low > -7 || -4 < exp && exp < 4):
		if exp >= 0 {
			b = append(b, digits[:exp+1]...)
			b = append(b, '.')
			return append(b, digits[exp+1:]...)
		}
		b = append(b, "0."...)
		for range -exp - 1 {
			b = append(b, '0')
		}
		return append(b, digits...)
	}
	b = append(b, digits[0])
	if len(digits) > 1 {
		b = append(b, '.')
		b = append(b, digits[1:]...)
	}
	b = append(b, 'e')
	if exp >= 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(exp), 10)
}
