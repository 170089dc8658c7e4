package scripting

import (
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// jsonOptions are what a script sets with cjson's functions. A new script finds the
// defaults.
type jsonOptions struct {
	sparseConvert           bool
	sparseRatio, sparseSafe int
	encodeDepth             int
	decodeDepth             int
	precision               int
	encodeInvalid           invalidNumbers
	decodeInvalid           bool
	keepBuffer              bool
}

// invalidNumbers says what becomes of NaN and infinities.
type invalidNumbers int

const (
	invalidOff invalidNumbers = iota
	invalidOn
	invalidNull
)

var defaultJSON = jsonOptions{
	sparseRatio: 2, sparseSafe: 10, encodeDepth: 1000, decodeDepth: 1000, precision: 14,
	decodeInvalid: true, keepBuffer: true,
}

// jsonNesting bounds the depth whatever the options say: encoding and decoding call
// themselves.
const jsonNesting = 100000

func (st *state) openJSON() {
	st.json = defaultJSON
	library := st.library("cjson", st.jsonFunctions(func() *jsonOptions { return &st.json }))
	st.jsonFields(library)
}

func (st *state) jsonFields(library *lua.LTable) {
	library.RawSetString("_NAME", lua.LString("cjson"))
	library.RawSetString("_VERSION", lua.LString("2.1.0"))
	library.RawSetString("null", st.null)
}

// jsonFunctions are cjson's, for the options of one instance.
func (st *state) jsonFunctions(options func() *jsonOptions) map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"encode": func(L *lua.LState) int { return st.jsonEncode(L, options()) },
		"decode": func(L *lua.LState) int { return st.jsonDecode(L, options()) },
		"new":    st.jsonNew,
		"encode_sparse_array": func(L *lua.LState) int {
			o := options()
			L.SetTop(3)
			boolOption(L, "encode_sparse_array", 1, &o.sparseConvert)
			intOption(L, "encode_sparse_array", 2, &o.sparseRatio, 0, math.MaxInt32)
			intOption(L, "encode_sparse_array", 3, &o.sparseSafe, 0, math.MaxInt32)
			return 3
		},
		"encode_max_depth": func(L *lua.LState) int {
			intOption(L, "encode_max_depth", 1, &options().encodeDepth, 1, math.MaxInt32)
			return 1
		},
		"decode_max_depth": func(L *lua.LState) int {
			intOption(L, "decode_max_depth", 1, &options().decodeDepth, 1, math.MaxInt32)
			return 1
		},
		"encode_number_precision": func(L *lua.LState) int {
			intOption(L, "encode_number_precision", 1, &options().precision, 1, 14)
			return 1
		},
		"encode_keep_buffer": func(L *lua.LState) int {
			boolOption(L, "encode_keep_buffer", 1, &options().keepBuffer)
			return 1
		},
		"encode_invalid_numbers": func(L *lua.LState) int { return encodeInvalid(L, options()) },
		"decode_invalid_numbers": func(L *lua.LState) int {
			boolOption(L, "decode_invalid_numbers", 1, &options().decodeInvalid)
			return 1
		},
	}
}

// jsonNew is cjson.new: the library once more, with options of its own.
func (st *state) jsonNew(L *lua.LState) int {
	options := defaultJSON
	t := st.L.NewTable()
	for name, fn := range st.jsonFunctions(func() *jsonOptions { return &options }) {
		t.RawSetString(name, st.L.NewFunction(fn))
	}
	st.jsonFields(t)
	L.Push(t)
	return 1
}

// boolOption sets an option if argument n is there, and pushes it.
func boolOption(L *lua.LState, name string, n int, option *bool) {
	v := L.Get(n)
	word, ok := text(v)
	switch {
	case v == lua.LTrue, word == "on":
		*option = true
	case v == lua.LFalse, word == "off":
		*option = false
	case ok:
		argError(L, name, n, "invalid option '"+word+"'")
	case v != lua.LNil:
		wrongType(L, name, n, "string")
	}
	L.Push(lua.LBool(*option))
}

func intOption(L *lua.LState, name string, n int, option *int, least, most int) {
	if L.Get(n) != lua.LNil {
		v := argInt(L, name, n)
		if v < least || v > most {
			argError(L, name, n, "expected integer between "+strconv.Itoa(least)+" and "+strconv.Itoa(most))
		}
		*option = v
	}
	L.Push(lua.LNumber(*option))
}

func encodeInvalid(L *lua.LState, o *jsonOptions) int {
	const name = "encode_invalid_numbers"
	if s, ok := L.Get(1).(lua.LString); ok && s == "null" {
		o.encodeInvalid = invalidNull
	} else {
		on := o.encodeInvalid == invalidOn
		boolOption(L, name, 1, &on)
		if L.Get(1) != lua.LNil {
			o.encodeInvalid = invalidOff
			if on {
				o.encodeInvalid = invalidOn
			}
		}
	}
	if o.encodeInvalid == invalidNull {
		L.Push(lua.LString("null"))
	} else {
		L.Push(lua.LBool(o.encodeInvalid == invalidOn))
	}
	return 1
}

// jsonEncoder appends the JSON of Lua values.
type jsonEncoder struct {
	st  *state
	L   *lua.LState
	o   *jsonOptions
	out []byte
}

func (st *state) jsonEncode(L *lua.LState, o *jsonOptions) int {
	if L.GetTop() != 1 {
		argError(L, "encode", 1, "expected 1 argument")
	}
	e := jsonEncoder{st: st, L: L, o: o}
	e.value(L.Get(1), 0)
	L.Push(lua.LString(e.out))
	return 1
}

func (e *jsonEncoder) refuse(v lua.LValue, why string) {
	e.L.RaiseError("Cannot serialise %s: %s", typeName(v), why)
}

func (e *jsonEncoder) value(v lua.LValue, depth int) {
	e.st.room(e.L, len(e.out))
	switch v := v.(type) {
	case lua.LString:
		e.out = appendJSONString(e.out, string(v))
	case lua.LNumber:
		e.number(v)
	case lua.LBool:
		e.out = strconv.AppendBool(e.out, bool(v))
	case *lua.LTable:
		e.table(e.st.shown(v), depth+1)
	default:
		if v != lua.LNil && v != e.st.null {
			e.refuse(v, "type not supported")
		}
		e.out = append(e.out, "null"...)
	}
}

func (e *jsonEncoder) number(v lua.LNumber) {
	f := float64(v)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		switch e.o.encodeInvalid {
		case invalidOff:
			e.refuse(v, "must not be NaN or Inf")
		case invalidNull:
			e.out = append(e.out, "null"...)
		default:
			if math.IsNaN(f) {
				f = math.NaN() // without a sign
			}
			e.out = append(e.out, special(f)...)
		}
		return
	}
	if e.o.precision == 14 {
		e.out = appendNumber(e.out, f)
		return
	}
	e.out = strconv.AppendFloat(e.out, f, 'g', e.o.precision, 64)
}

func (e *jsonEncoder) table(t *lua.LTable, depth int) {
	if depth > min(e.o.encodeDepth, jsonNesting) {
		e.L.RaiseError("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := e.arrayLength(t); n > 0 {
		e.out = append(e.out, '[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.out = append(e.out, ',')
			}
			e.value(t.RawGet(lua.LNumber(i)), depth)
		}
		e.out = append(e.out, ']')
		return
	}
	e.out = append(e.out, '{')
	first := true
	for key, value := t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		switch key := key.(type) {
		case lua.LString:
			e.out = appendJSONString(e.out, string(key))
		case lua.LNumber:
			e.out = append(e.out, '"')
			e.number(key)
			e.out = append(e.out, '"')
		default:
			e.refuse(key, "table key must be a number or string")
		}
		e.out = append(e.out, ':')
		e.value(value, depth)
	}
	e.out = append(e.out, '}')
}

// arrayLength is the largest index of a table whose keys all are positive integers, and
// otherwise -1.
func (e *jsonEncoder) arrayLength(t *lua.LTable) int {
	most, items := 0.0, 0
	for key, _ := t.Next(lua.LNil); key != lua.LNil; key, _ = t.Next(key) {
		n, ok := key.(lua.LNumber)
		if f := float64(n); !ok || f < 1 || f != math.Floor(f) {
			return -1
		}
		most = math.Max(most, float64(n))
		items++
	}
	if e.o.sparseRatio > 0 && most > float64(items)*float64(e.o.sparseRatio) && most > float64(e.o.sparseSafe) {
		if !e.o.sparseConvert {
			e.refuse(t, "excessively sparse array")
		}
		return -1
	}
	return int(most)
}

const hexDigits = "0123456789abcdef"

// appendJSONString quotes a string; bytes above 127 stay as they are.
func appendJSONString(out []byte, s string) []byte {
	out = append(out, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != '/' && c != 0x7f {
			continue
		}
		out = append(out, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\', '/':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\t':
			out = append(out, `\t`...)
		case '\n':
			out = append(out, `\n`...)
		case '\f':
			out = append(out, `\f`...)
		case '\r':
			out = append(out, `\r`...)
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	out = append(out, s[start:]...)
	return append(out, '"')
}
