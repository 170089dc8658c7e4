package scripting

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// exact is the first integer that needs more digits than numbers are written with.
const exact = 1e14

// appendNumber writes a number as Lua does, with %.14g.
func appendNumber(b []byte, f float64) []byte {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < exact && (f != 0 || !math.Signbit(f)):
		return strconv.AppendInt(b, int64(f), 10)
	case math.IsNaN(f), math.IsInf(f, 0):
		return append(b, special(f)...)
	}
	return strconv.AppendFloat(b, f, 'g', 14, 64)
}

// special is C's word for what is no finite number.
func special(f float64) string {
	switch {
	case math.IsNaN(f) && math.Signbit(f):
		return "-nan"
	case math.IsNaN(f):
		return "nan"
	case f < 0:
		return "-inf"
	}
	return "inf"
}

func numberText(f float64) string {
	var tmp [32]byte
	return string(appendNumber(tmp[:0], f))
}

// text gives a string, or a number as text; ok is false for anything else.
func text(v lua.LValue) (s string, ok bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return numberText(float64(v)), true
	}
	return "", false
}

// blank is what may stand around a number: C's isspace.
const blank = " \t\n\v\f\r"

// parseNumber reads a number as Lua does, which leaves it to C's strtod: decimal,
// hexadecimal, inf or nan, with space around it.
func parseNumber(s string) (f float64, ok bool) {
	s = strings.Trim(s, blank)
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
		s = digits
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !isRange(err) {
		return 0, false
	}
	return f, true
}

func isRange(err error) bool {
	e, ok := err.(*strconv.NumError)
	return ok && e.Err == strconv.ErrRange
}

// number gives a number, or text that is one.
func number(v lua.LValue) (f float64, ok bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		return parseNumber(string(v))
	}
	return 0, false
}

// toInt is C's conversion of a double to a 64-bit integer, as x86 does it: what is out of
// range becomes the smallest.
func toInt(f float64) int64 {
	if f >= -math.MaxInt64 && f < math.MaxInt64 {
		return int64(f)
	}
	return math.MinInt64
}

// toUint is C's conversion of a double to an unsigned integer, as x86 does it.
func toUint(f float64) uint64 {
	const half = 1 << 63
	if f >= half {
		return uint64(toInt(f-half)) ^ half
	}
	return uint64(toInt(f))
}
