package lua

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// exact is the first whole number that needs more digits than AppendNumber writes.
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

// FormatNumber is AppendNumber, but returns a string.
func FormatNumber(f float64) string {
	var tmp [32]byte
	return string(AppendNumber(tmp[:0], f))
}

// blank is the white space allowed around a number: C's isspace.
const blank = " \t\n\v\f\r"

// ParseNumber reads a number as Lua does, which leaves it to C's strtod: decimal, hexadecimal,
// inf or nan, with space around it.
func (L *State) ParseNumber(s string) (f float64, ok bool) { return parseNumber(s, L.Check) }

func parseNumber(s string, look func()) (f float64, ok bool) {
	s = cText(s, blank, look)
	if n, ok := smallInteger(s); ok {
		return n, true
	}
	if len(s) > longNumeral {
		s = shortNumeral(s, look)
	}
	if s == "" || strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 {
		return 0, false
	}
	if len(digits) > 1 && (digits[1] == 'x' || digits[1] == 'X') &&
		!strings.ContainsAny(digits, "pP") {
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

// Numerals longer than longNumeral are shortened before they are parsed, because strconv misplaces
// a point after more than 800 digits. keptDigits digits remain. That suffices, because no number
// halfway between two doubles has more than 767.
const (
	longNumeral = 800
	keptDigits  = 780
)

// shortNumeral returns a short numeral of the same value, or an empty one if s is no numeral.
//
//	[+-] [0x] ddd…ddd [1] e|p exponent      1: digits other than zero were left out behind the others
func shortNumeral(s string, look func()) string {
	b := make([]byte, 0, longNumeral)
	if s[0] == '-' || s[0] == '+' {
		b = append(b, s[0])
		s = s[1:]
	}
	base, mark, weight := 10, byte('e'), 1
	if s[0] == '0' && s[1]|0x20 == 'x' {
		base, mark, weight = 16, 'p', 4
		b = append(b, '0', 'x')
		s = s[2:]
	}
	at, digits, kept, exponent := 0, 0, 0, 0
	point, more := false, false
	for ; at < len(s); at++ {
		if at%lookEvery == lookEvery-1 {
			look()
		}
		if s[at] == '.' && !point {
			point = true
			continue
		}
		if digitValue(s[at]) >= base {
			break
		}
		digits++
		switch {
		case kept == keptDigits:
			more = more || s[at] != '0'
			if !point {
				exponent++
			}
			continue
		case kept > 0 || s[at] != '0':
			b = append(b, s[at])
			kept++
		}
		if point {
			exponent--
		}
	}
	if digits == 0 {
		return ""
	}
	if kept == 0 {
		b = append(b, '0')
	}
	if more {
		b = append(b, '1')
		exponent--
	}
	exponent *= weight
	if at < len(s) {
		n, ok := exponentOf(s[at:], mark, look)
		if !ok {
			return ""
		}
		exponent += n
	}
	const far = 1 << 20 // beyond all doubles, whatever the digits
	return string(strconv.AppendInt(append(b, mark), int64(min(max(exponent, -far), far)), 10))
}

// exponentOf reads the exponent that ends a numeral, up to a bound.
func exponentOf(s string, mark byte, look func()) (n int, ok bool) {
	if s[0]|0x20 != mark {
		return 0, false
	}
	s = s[1:]
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	const most = 1 << 50 // more than a string has digits
	for i := range len(s) {
		if i%lookEvery == lookEvery-1 {
			look()
		}
		if !isDigit(s[i]) {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), most)
	}
	if negative {
		n = -n
	}
	return n, s != ""
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

// ToInteger converts a double to a 64-bit integer as C does on x86-64. A number out of range
// becomes the smallest integer.
func ToInteger(f float64) int64 {
	if f >= -math.MaxInt64 && f < math.MaxInt64 {
		return int64(f)
	}
	return math.MinInt64
}

// modulo returns the result of Lua's %.
func modulo(a, b float64) float64 { return a - math.Floor(a/b)*b }
