package scripting

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"keyp/scripting/lua"
)

// verb is one conversion of string.format, such as %-05.2f. Its meaning is that of C's printf.
type verb struct {
	flags     string
	width     int
	precision int // -1: none is given
	letter    byte
}

// longText is the length from which %s without a precision adds a string whole, without padding.
const longText = 100

func stringFormat(L *lua.State) int {
	format := L.CheckString(1)
	out := buffer{L: L}
	arg := 1
	for {
		at := index(L, format, "%")
		if at < 0 {
			out.text(format)
			break
		}
		out.text(format[:at])
		if format = format[at+1:]; format != "" && format[0] == '%' {
			out.byte('%')
			format = format[1:]
			continue
		}
		if arg++; arg > L.NArgs() {
			L.ArgError(arg, "no value")
		}
		var v verb
		v, format = parseVerb(L, format)
		v.format(&out, arg)
	}
	L.Push(out.value())
	return 1
}

// parseVerb reads a conversion after its '%'. rest is the text after the conversion.
func parseVerb(L *lua.State, format string) (v verb, rest string) {
	const known = "-+ #0"
	start := format[:min(len(format), len(known)+1)]
	v.flags = start[:len(start)-len(strings.TrimLeft(start, known))]
	if len(v.flags) > len(known) {
		L.Errorf("invalid format (repeated flags)")
	}
	rest = format[len(v.flags):]
	v.width, rest = digits(rest)
	v.precision = -1
	if strings.HasPrefix(rest, ".") {
		v.precision, rest = digits(rest[1:])
	}
	if rest == "" {
		L.Errorf("%s", "invalid option '%' to 'format'")
	}
	if isDigit(rest[0]) {
		L.Errorf("invalid format (width or precision too long)")
	}
	v.letter = rest[0]
	return v, rest[1:]
}

// digits reads a number of two digits at most.
func digits(s string) (n int, rest string) {
	for i := 0; i < 2 && s != "" && isDigit(s[0]); i++ {
		n = n*10 + int(s[0]-'0')
		s = s[1:]
	}
	return n, s
}

func (v verb) has(flag byte) bool { return strings.IndexByte(v.flags, flag) >= 0 }

// format converts argument arg and adds the text to out.
func (v verb) format(out *buffer, arg int) {
	L := out.L
	switch v.letter {
	case 'c':
		f := L.CheckNumber(arg)
		if !(math.Abs(f) < 1<<31) {
			f = 0 // so it is cut on x86-64
		}
		v.character(out, byte(int(f)))
	case 'd', 'i':
		n := lua.ToInteger(L.CheckNumber(arg))
		v.integer(out, n < 0, magnitude(n))
	case 'o', 'u', 'x', 'X':
		n := toUint(L.CheckNumber(arg))
		v.integer(out, false, n)
	case 'e', 'E', 'f', 'g', 'G':
		v.float(out, L.CheckNumber(arg))
	case 'q':
		appendQuoted(out, L.CheckString(arg))
	case 's':
		s := L.CheckString(arg)
		if v.precision < 0 && len(s) >= longText {
			out.text(s)
			return
		}
		if v.precision >= 0 {
			s = s[:min(len(s), v.precision)]
		}
		s, _, _ = strings.Cut(s, "\x00")
		v.pad(out, "", s, ' ')
	default:
		name := string([]byte{v.letter})
		if v.letter == 0 {
			name = ""
		}
		L.Errorf("invalid option '%%%s' to 'format'", name)
	}
}

// character adds a byte. C's Lua cuts printf's output at the first NUL, so a NUL byte adds only the
// padding before it.
func (v verb) character(out *buffer, c byte) {
	if c != 0 {
		v.pad(out, "", string([]byte{c}), ' ')
	} else if !v.has('-') {
		out.repeat(' ', v.width-1)
	}
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// toUint converts a double to an unsigned integer as C does on x86-64.
func toUint(f float64) uint64 {
	const half = 1 << 63
	if f >= half {
		return uint64(lua.ToInteger(f-half)) ^ half
	}
	return uint64(lua.ToInteger(f))
}

// pad adds a number or text in v's width. It fills with spaces before the sign, or with zeros after
// the sign. With the flag '-' it fills with spaces after the text.
func (v verb) pad(out *buffer, sign, s string, fill byte) {
	space := v.width - len(sign) - len(s)
	left := v.has('-')
	if !left && fill == ' ' {
		out.repeat(' ', space)
	}
	out.text(sign)
	if !left && fill == '0' {
		out.repeat('0', space)
	}
	out.text(s)
	if left {
		out.repeat(' ', space)
	}
}

// sign returns the text before a number's digits: "-", "+", a space or nothing.
func (v verb) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case v.has('+'):
		return "+"
	case v.has(' '):
		return " "
	}
	return ""
}

func (v verb) integer(out *buffer, negative bool, n uint64) {
	base, sign := 10, ""
	switch v.letter {
	case 'd', 'i':
		sign = v.sign(negative)
	case 'o':
		base = 8
	case 'x', 'X':
		base = 16
		if v.has('#') && n != 0 {
			sign = "0" + string([]byte{v.letter})
		}
	}
	s := strconv.FormatUint(n, base)
	if v.letter == 'X' {
		s = strings.ToUpper(s)
	}
	if n == 0 && v.precision == 0 {
		s = ""
	}
	if len(s) < v.precision {
		s = strings.Repeat("0", v.precision-len(s)) + s
	}
	if v.letter == 'o' && v.has('#') && !strings.HasPrefix(s, "0") {
		s = "0" + s
	}
	v.pad(out, sign, s, v.fill(v.precision < 0))
}

// fill returns the byte that pads a number to its width.
func (v verb) fill(zeros bool) byte {
	if zeros && v.has('0') {
		return '0'
	}
	return ' '
}

func (v verb) float(out *buffer, f float64) {
	sign := v.sign(math.Signbit(f))
	if math.IsNaN(f) || math.IsInf(f, 0) {
		s := "inf"
		if math.IsNaN(f) {
			s = "nan"
		}
		if v.letter == 'E' || v.letter == 'G' {
			s = strings.ToUpper(s)
		}
		v.pad(out, sign, s, ' ')
		return
	}
	precision := v.precision
	if precision < 0 {
		precision = 6
	}
	if precision == 0 && (v.letter == 'g' || v.letter == 'G') {
		precision = 1
	}
	var s string
	if v.has('#') {
		s = fmt.Sprintf("%#."+strconv.Itoa(precision)+string([]byte{v.letter}), math.Abs(f))
	} else {
		s = strconv.FormatFloat(math.Abs(f), v.letter, precision, 64)
	}
	v.pad(out, sign, s, v.fill(true))
}

// appendQuoted writes a string so that Lua reads it back.
func appendQuoted(out *buffer, s string) {
	out.room(len(s) + 2)
	out.byte('"')
	for i := range len(s) {
		if i%checkEvery == 0 {
			out.L.Check()
		}
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out.byte('\\')
			out.byte(c)
		case '\r':
			out.text(`\r`)
		case 0:
			out.text(`\000`)
		default:
			out.byte(c)
		}
	}
	out.byte('"')
}
