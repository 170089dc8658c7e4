package scripting

import (
	"math"
	"strconv"

	"keyp/scripting/lua"
)

// jsonOptions are the options that a script sets with cjson's functions. A new script has the
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

// invalidNumbers is how NaN and infinities are handled.
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

// jsonNesting bounds the depth that options may set: encoding and decoding are recursive.
const jsonNesting = 5000

// jsonNull is cjson.null.
var jsonNull = lua.LightUserdata(0)

func (st *state) openJSON() {
	st.json = defaultJSON
	st.jsonFields(st.library("cjson", st.jsonFunctions(func() *jsonOptions { return &st.json })))
}

func (st *state) jsonFields(library *lua.Table) {
	library.SetString(st.L, "_NAME", st.L.String("cjson"))
	library.SetString(st.L, "_VERSION", st.L.String("2.1.0"))
	library.SetString(st.L, "null", jsonNull)
}

// jsonFunctions returns cjson's functions for one instance of the library.
func (st *state) jsonFunctions(options func() *jsonOptions) map[string]lua.Builtin {
	return map[string]lua.Builtin{
		"encode": func(L *lua.State) int { return st.jsonEncode(L, options()) },
		"decode": func(L *lua.State) int { return st.jsonDecode(L, options()) },
		"new":    st.jsonNew,
		"encode_sparse_array": func(L *lua.State) int {
			o := options()
			atMost(L, 3)
			boolOption(L, 1, &o.sparseConvert)
			intOption(L, 2, &o.sparseRatio, 0, math.MaxInt32)
			intOption(L, 3, &o.sparseSafe, 0, math.MaxInt32)
			return 3
		},
		"encode_max_depth": func(L *lua.State) int {
			atMost(L, 1)
			intOption(L, 1, &options().encodeDepth, 1, math.MaxInt32)
			return 1
		},
		"decode_max_depth": func(L *lua.State) int {
			atMost(L, 1)
			intOption(L, 1, &options().decodeDepth, 1, math.MaxInt32)
			return 1
		},
		"encode_number_precision": func(L *lua.State) int {
			atMost(L, 1)
			intOption(L, 1, &options().precision, 1, 14)
			return 1
		},
		"encode_keep_buffer": func(L *lua.State) int {
			atMost(L, 1)
			boolOption(L, 1, &options().keepBuffer)
			return 1
		},
		"encode_invalid_numbers": func(L *lua.State) int { return encodeInvalid(L, options()) },
		"decode_invalid_numbers": func(L *lua.State) int {
			atMost(L, 1)
			boolOption(L, 1, &options().decodeInvalid)
			return 1
		},
	}
}

// jsonNew implements cjson.new, which returns another instance of the library with its own options.
func (st *state) jsonNew(L *lua.State) int {
	options := defaultJSON
	functions := st.jsonFunctions(func() *jsonOptions { return &options })
	t := L.NewTable(0, len(functions)+3)
	L.Push(t.Value())
	L.Register(t, functions)
	st.jsonFields(t)
	return 1
}

// atMost raises the error for more than n arguments.
func atMost(L *lua.State, n int) {
	if L.NArgs() > n {
		L.ArgError(n+1, "found too many arguments")
	}
}

// boolOption sets an option to argument n if it is given, and pushes the option's value.
func boolOption(L *lua.State, n int, option *bool) {
	v := L.Arg(n)
	word, isText := v.Text()
	switch on, isBool := v.AsBool(); {
	case isBool:
		*option = on
	case word == "on":
		*option = true
	case word == "off":
		*option = false
	case isText:
		L.OptionError(n, word)
	case !v.IsNil():
		L.TypeError(n, "string")
	}
	L.PushBool(*option)
}

func intOption(L *lua.State, n int, option *int, least, most int) {
	if !L.Arg(n).IsNil() {
		v := L.CheckInt(n)
		if v < least || v > most { // cjson names the first argument, whichever it is
			L.ArgError(1, "expected integer between "+strconv.Itoa(least)+" and "+
				strconv.Itoa(most))
		}
		*option = v
	}
	L.PushNumber(float64(*option))
}

func encodeInvalid(L *lua.State, o *jsonOptions) int {
	atMost(L, 1)
	if s, ok := L.Arg(1).AsString(); ok && s == "null" {
		o.encodeInvalid = invalidNull
	} else {
		on := o.encodeInvalid == invalidOn
		boolOption(L, 1, &on)
		L.Pop(1)
		if !L.Arg(1).IsNil() {
			o.encodeInvalid = invalidOff
			if on {
				o.encodeInvalid = invalidOn
			}
		}
	}
	if o.encodeInvalid == invalidNull {
		L.Push(L.String("null"))
	} else {
		L.PushBool(o.encodeInvalid == invalidOn)
	}
	return 1
}

// jsonEncoder writes the JSON of Lua values.
type jsonEncoder struct {
	buffer
	o *jsonOptions
}

func (st *state) jsonEncode(L *lua.State, o *jsonOptions) int {
	if L.NArgs() != 1 {
		L.ArgError(1, "expected 1 argument")
	}
	e := jsonEncoder{buffer{L: L}, o}
	e.encode(L.Arg(1), 0)
	L.Push(e.value())
	return 1
}

func (e *jsonEncoder) refuse(v lua.Value, why string) {
	e.L.Errorf("Cannot serialise %s: %s", v.Kind(), why)
}

func (e *jsonEncoder) encode(v lua.Value, depth int) {
	e.L.Check()
	switch v.Kind() {
	case lua.KindString:
		s, _ := v.AsString()
		e.quote(s)
	case lua.KindNumber:
		e.number(v)
	case lua.KindBoolean:
		e.text(strconv.FormatBool(v.Truth()))
	case lua.KindTable:
		e.table(v.AsTable(), depth+1)
	default:
		if !v.IsNil() && !v.RawEqual(jsonNull) {
			e.refuse(v, "type not supported")
		}
		e.text("null")
	}
}

func (e *jsonEncoder) number(v lua.Value) {
	f, _ := v.AsNumber()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		switch e.o.encodeInvalid {
		case invalidOff:
			e.refuse(v, "must not be NaN or Inf")
		case invalidNull:
			e.text("null")
			return
		}
		if math.IsNaN(f) {
			f = math.NaN() // without a sign
		}
	}
	const most = 32
	e.room(most)
	if e.o.precision == defaultJSON.precision || f-f != 0 {
		e.b = lua.AppendNumber(e.b, f)
		return
	}
	e.b = strconv.AppendFloat(e.b, f, 'g', e.o.precision, 64)
}

func (e *jsonEncoder) table(t *lua.Table, depth int) {
	if depth > min(e.o.encodeDepth, jsonNesting) {
		e.L.Errorf("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := e.arrayLength(t); n > 0 {
		e.byte('[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.byte(',')
			}
			e.encode(t.GetInt(i), depth)
		}
		e.byte(']')
		return
	}
	e.byte('{')
	first := true
	for key, value, _ := t.Next(lua.Nil); !key.IsNil(); key, value, _ = t.Next(key) {
		if !first {
			e.byte(',')
		}
		first = false
		switch s, _ := key.AsString(); key.Kind() {
		case lua.KindString:
			e.quote(s)
		case lua.KindNumber:
			e.byte('"')
			e.number(key)
			e.byte('"')
		default:
			e.refuse(key, "table key must be a number or string")
		}
		e.byte(':')
		e.encode(value, depth)
	}
	e.byte('}')
}

// arrayLength returns the largest index of a table whose keys all are positive integers; otherwise
// -1. Like cjson it keeps that index in 32 bits, so an index that does not fit counts as negative.
func (e *jsonEncoder) arrayLength(t *lua.Table) int {
	most, items := 0, 0
	for key, _, _ := t.Next(lua.Nil); !key.IsNil(); key, _, _ = t.Next(key) {
		if items++; items%checkEvery == 0 {
			e.L.Check()
		}
		f, ok := key.AsNumber()
		if !ok || f < 1 || f != math.Floor(f) {
			return -1
		}
		switch {
		case f > math.MaxInt32:
			most = math.MinInt32
		case f > float64(most):
			most = int(f)
		}
	}
	if e.o.sparseRatio > 0 && most > items*e.o.sparseRatio && most > e.o.sparseSafe {
		if !e.o.sparseConvert {
			e.refuse(t.Value(), "excessively sparse array")
		}
		return -1
	}
	return most
}

const hexDigits = "0123456789abcdef"

// jsonEscapes are the characters with an escape of their own.
var jsonEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', '\b': 'b', '\t': 't', '\n': 'n',
	'\f': 'f', '\r': 'r'}

// quote writes a string; bytes above 127 stay as they are.
func (e *jsonEncoder) quote(s string) {
	e.room(len(s) + 2)
	e.byte('"')
	start := 0
	for i := range len(s) {
		if i%checkEvery == 0 {
			e.L.Check()
		}
		c := s[i]
		short := jsonEscapes[c]
		if short == 0 && c >= 0x20 && c != 0x7f {
			continue
		}
		e.text(s[start:i])
		start = i + 1
		e.byte('\\')
		if short != 0 {
			e.byte(short)
		} else {
			e.text("u00")
			e.byte(hexDigits[c>>4])
			e.byte(hexDigits[c&15])
		}
	}
	e.text(s[start:])
	e.byte('"')
}
