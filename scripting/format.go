package scripting

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// verb is one conversion of string.format: %-05.2f.
type verb struct {
	flags     string
	width     int
	precision int // -1: none is given
	letter    byte
}

func (st *state) stringFormat(L *lua.LState) int {
	format := argString(L, "format", 1)
	var out []byte
	arg := 1
	for i := 0; i < len(format); {
		if format[i] != '%' {
			out = append(out, format[i])
			i++
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			out = append(out, '%')
			i++
			continue
		}
		if arg++; arg > L.GetTop() {
			argError(L, "format", arg, "no value")
		}
		v, next := parseVerb(L, format, i)
		i = next
		out = st.formatArg(L, out, v, arg)
		st.room(L, len(out))
	}
	L.Push(lua.LString(out))
	return 1
}

// parseVerb reads a conversion behind its '%'.
func parseVerb(L *lua.LState, format string, i int) (v verb, next int) {
	start := i
	for i < len(format) && strings.IndexByte("-+ #0", format[i]) >= 0 {
		i++
	}
	v.flags = format[start:i]
	if len(v.flags) > 5 {
		L.RaiseError("invalid format (repeated flags)")
	}
	v.width, i = digits(format, i, 0)
	v.precision = -1
	if i < len(format) && format[i] == '.' {
		v.precision, i = digits(format, i+1, 0)
	}
	if i < len(format) && isDigit(format[i]) {
		L.RaiseError("invalid format (width or precision too long)")
	}
	if i >= len(format) {
		L.RaiseError("%s", "invalid option '%' to 'format'")
	}
	v.letter = format[i]
	return v, i + 1
}

// digits reads a number of two digits at most.
func digits(s string, i, n int) (int, int) {
	for end := i + 2; i < len(s) && i < end && isDigit(s[i]); i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n, i
}

func (v verb) has(flag byte) bool { return strings.IndexByte(v.flags, flag) >= 0 }

// pad brings text to the width.
func (v verb) pad(out []byte, s string) []byte {
	space := max(v.width-len(s), 0)
	if v.has('-') {
		out = append(out, s...)
		return append(out, strings.Repeat(" ", space)...)
	}
	out = append(out, strings.Repeat(" ", space)...)
	return append(out, s...)
}

// spec is the conversion as package fmt writes it.
func (v verb) spec(letter byte) string {
	s := "%" + v.flags
	if v.width > 0 {
		s += fmt.Sprint(v.width)
	}
	if v.precision >= 0 {
		s += "." + fmt.Sprint(v.precision)
	}
	return s + string(letter)
}

func (st *state) formatArg(L *lua.LState, out []byte, v verb, arg int) []byte {
	switch v.letter {
	case 'c':
		return v.pad(out, string([]byte{byte(argInt(L, "format", arg))}))
	case 'd', 'i':
		return fmt.Appendf(out, v.spec('d'), toInt(argNumber(L, "format", arg)))
	case 'o', 'u', 'x', 'X':
		n := toUint(argNumber(L, "format", arg))
		letter := v.letter
		if letter == 'u' {
			letter = 'd'
		}
		return fmt.Appendf(out, v.spec(letter), n)
	case 'e', 'E', 'f', 'g', 'G':
		return v.appendFloat(out, argNumber(L, "format", arg))
	case 'q':
		return appendQuoted(out, argString(L, "format", arg))
	case 's':
		s := argString(L, "format", arg)
		if v.precision >= 0 {
			s = s[:min(len(s), v.precision)]
		}
		return v.pad(out, s)
	}
	L.RaiseError("invalid option '%%%c' to 'format'", v.letter)
	return out
}

func (v verb) appendFloat(out []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		s := special(f)
		if v.has('+') && s[0] != '-' {
			s = "+" + s
		}
		if v.letter == 'E' || v.letter == 'G' {
			s = strings.ToUpper(s)
		}
		return v.pad(out, s)
	}
	if v.precision < 0 {
		v.precision = 6
	}
	if v.precision == 0 && (v.letter == 'g' || v.letter == 'G') {
		v.precision = 1
	}
	return fmt.Appendf(out, v.spec(v.letter), f)
}

// appendQuoted writes a string so that Lua reads it back.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out = append(out, '\\', c)
		case '\r':
			out = append(out, `\r`...)
		case 0:
			out = append(out, `\000`...)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
