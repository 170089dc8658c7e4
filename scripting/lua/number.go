package lua

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// exact is the first whole number that needs more digits than numbers are written with.
const exact = 1e14

// AppendNumber writes a number as Lua does, with C's %.14g.
func AppendNumber(b []byte, f float64) []byte {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < exact && (f != 0 || !math.Signbit(f)):
		return strconv.AppendInt(b, int64(f), 10)
	case math.IsNaN(f) && math.Signbit(f):
		return append(b, "-nan"...)
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	}
	return strconv.AppendFloat(b, f, 'g', 14, 64)
}

// FormatNumber is AppendNumber that gives a string.
func FormatNumber(f float64) string {
	var tmp [32]byte
	return string(AppendNumber(tmp[:0], f))
}

// blank is the white space allowed around a number: C's isspace.
const blank = " \t\n\v\f\r"

// ParseNumber reads a number as Lua does, which leaves it to C's strtod: decimal, hexadecimal,
// inf or nan, with space around it.
func ParseNumber(s string) (f float64, ok bool) {
	if end := strings.IndexByte(s, 0); end >= 0 {
		s = s[:end] // as C's strings end
	}
	s = strings.Trim(s, blank)
	if n, ok := smallInteger(s); ok {
		return n, true
	}
	if s == "" || strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 {
		return 0, false
	}
	if len(digits) > 1 && (digits[1] == 'x' || digits[1] == 'X') && !strings.ContainsAny(digits, "pP") {
		s += "p0"
	}
	if len(digits) == 3 && strings.EqualFold(digits, "nan") {
		nan := math.Float64frombits(0x7ff8000000000000)
		if s[0] == '-' {
			nan = -nan
		}
		return nan, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return f, true
}

// smallInteger reads a text of a few digits and nothing else.
func smallInteger(s string) (f float64, ok bool) {
	const most = 15
	if len(s) == 0 || len(s) > most {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return float64(n), true
}

// ToInteger is C's conversion of a double to a 64-bit integer, as x86-64 does it: a number out of
// range becomes the smallest integer.
func ToInteger(f float64) int64 {
	if f >= -math.MaxInt64 && f < math.MaxInt64 {
		return int64(f)
	}
	return math.MinInt64
}

// modulo is Lua's %.
func modulo(a, b float64) float64 { return a - math.Floor(a/b)*b }
