package scripting

import (
	"strconv"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// jsonToken is what the decoder finds next; the names are those that its errors give.
type jsonToken string

const (
	objectBegin jsonToken = "T_OBJ_BEGIN"
	objectEnd   jsonToken = "T_OBJ_END"
	arrayBegin  jsonToken = "T_ARR_BEGIN"
	arrayEnd    jsonToken = "T_ARR_END"
	stringToken jsonToken = "T_STRING"
	numberToken jsonToken = "T_NUMBER"
	boolToken   jsonToken = "T_BOOLEAN"
	nullToken   jsonToken = "T_NULL"
	colonToken  jsonToken = "T_COLON"
	commaToken  jsonToken = "T_COMMA"
	endToken    jsonToken = "T_END"
)

// jsonDecoder reads one text.
type jsonDecoder struct {
	st    *state
	L     *lua.LState
	o     *jsonOptions
	s     string
	at    int
	depth int

	index int    // of the present token
	text  string // of a string
	value lua.LValue
}

func (st *state) jsonDecode(L *lua.LState, o *jsonOptions) int {
	if L.GetTop() != 1 {
		argError(L, "decode", 1, "expected 1 argument")
	}
	d := jsonDecoder{st: st, L: L, o: o, s: argString(L, "decode", 1)}
	if len(d.s) >= 2 && (d.s[0] == 0 || d.s[1] == 0) {
		L.RaiseError("JSON parser does not support UTF-16 or UTF-32")
	}
	v := d.element(d.next())
	if token := d.next(); token != endToken {
		d.wrong("the end", token)
	}
	L.Push(v)
	return 1
}

// wrong reports what is not what must be there.
func (d *jsonDecoder) wrong(want string, found jsonToken) {
	d.L.RaiseError("Expected %s but found %s at character %d", want, string(found), d.index+1)
}

// broken is a token that is none: its name is the error.
func (d *jsonDecoder) broken(why string, at int) jsonToken {
	d.index = at
	return jsonToken(why)
}

func (d *jsonDecoder) next() jsonToken {
	for d.at < len(d.s) && strings.IndexByte(" \t\n\r", d.s[d.at]) >= 0 {
		d.at++
	}
	d.index = d.at
	if d.at >= len(d.s) {
		return endToken
	}
	switch c := d.s[d.at]; c {
	case '{', '}', '[', ']', ',', ':':
		d.at++
		return map[byte]jsonToken{'{': objectBegin, '}': objectEnd, '[': arrayBegin, ']': arrayEnd, ',': commaToken, ':': colonToken}[c]
	case '"':
		return d.string()
	}
	rest := d.s[d.at:]
	if d.s[d.at] == '-' || isDigit(d.s[d.at]) {
		if !d.o.decodeInvalid && invalidNumber(rest) {
			return d.broken("invalid number", d.at)
		}
		return d.number()
	}
	for _, word := range []struct {
		text  string
		token jsonToken
		value lua.LValue
	}{{"true", boolToken, lua.LTrue}, {"false", boolToken, lua.LFalse}, {"null", nullToken, d.st.null}} {
		if strings.HasPrefix(rest, word.text) {
			d.at += len(word.text)
			d.value = word.value
			return word.token
		}
	}
	if d.o.decodeInvalid && invalidNumber(rest) {
		return d.number()
	}
	return d.broken("invalid token", d.at)
}

// invalidNumber says whether a text begins with what strtod takes for a number and JSON
// does not: hexadecimal, leading zeros, inf, nan.
func invalidNumber(s string) bool {
	s = strings.TrimLeft(s[:min(len(s), 4)], "-+")
	if s == "" {
		return false
	}
	if s[0] == '0' {
		return len(s) > 1 && (s[1]|0x20 == 'x' || isDigit(s[1]))
	}
	if isDigit(s[0]) {
		return false
	}
	lower := strings.ToLower(s[:min(len(s), 3)])
	return lower == "inf" || lower == "nan"
}

// number reads as much as strtod would.
func (d *jsonDecoder) number() jsonToken {
	end := d.at
	for end < len(d.s) && strings.IndexByte("+-.0123456789abcdefABCDEFxXpPinINtytY", d.s[end]) >= 0 {
		end++
	}
	for ; end > d.at; end-- {
		if f, ok := parseNumber(d.s[d.at:end]); ok {
			d.at = end
			d.value = lua.LNumber(f)
			return numberToken
		}
	}
	return d.broken("invalid number", d.at)
}

// string reads a string behind its quote.
func (d *jsonDecoder) string() jsonToken {
	d.at++
	var out []byte
	start := d.at
	for d.at < len(d.s) {
		switch d.s[d.at] {
		case '"':
			if out == nil {
				d.text = string(piece(d.s, d.s[start:d.at]))
			} else {
				d.text = string(append(out, d.s[start:d.at]...))
			}
			d.at++
			d.value = lua.LString(d.text)
			return stringToken
		case '\\':
			out = append(out, d.s[start:d.at]...)
			var why string
			at := d.at
			if out, why = d.escape(out); why != "" {
				return d.broken(why, at)
			}
			start = d.at
		default:
			d.at++
		}
	}
	return d.broken("unexpected end of string", d.at)
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r'}

// escape appends what an escape sequence stands for; why says what is wrong with it.
func (d *jsonDecoder) escape(out []byte) (result []byte, why string) {
	if d.at+1 >= len(d.s) {
		return out, "invalid escape code"
	}
	c := d.s[d.at+1]
	if plain, ok := escapes[c]; ok {
		d.at += 2
		return append(out, plain), ""
	}
	if c != 'u' {
		return out, "invalid escape code"
	}
	unit, ok := d.unit(d.at)
	if !ok {
		return out, "invalid unicode escape code"
	}
	d.at += 6
	if unit&0xfc00 == 0xd800 {
		low, ok := d.unit(d.at)
		if !ok || low&0xfc00 != 0xdc00 {
			return out, "invalid unicode escape code"
		}
		d.at += 6
		return utf8.AppendRune(out, (unit&0x3ff)<<10|low&0x3ff+0x10000), ""
	}
	if unit&0xfc00 == 0xdc00 {
		return out, "invalid unicode escape code"
	}
	return utf8.AppendRune(out, unit), ""
}

// unit reads \uXXXX at a place.
func (d *jsonDecoder) unit(at int) (rune, bool) {
	if at+6 > len(d.s) || d.s[at] != '\\' || d.s[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(d.s[at+2:at+6], 16, 32)
	return rune(n), err == nil
}

func (d *jsonDecoder) element(token jsonToken) lua.LValue {
	switch token {
	case stringToken, numberToken, boolToken, nullToken:
		return d.value
	case objectBegin:
		return d.object()
	case arrayBegin:
		return d.array()
	}
	d.wrong("value", token)
	return nil
}

func (d *jsonDecoder) descend() {
	if d.depth++; d.depth > min(d.o.decodeDepth, jsonNesting) {
		d.L.RaiseError("Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
}

func (d *jsonDecoder) object() lua.LValue {
	d.descend()
	t := d.st.L.CreateTable(0, 4)
	token := d.next()
	if token == objectEnd {
		d.depth--
		return t
	}
	for {
		if token != stringToken {
			d.wrong("object key string", token)
		}
		key := d.text
		if token = d.next(); token != colonToken {
			d.wrong("colon", token)
		}
		t.RawSetString(key, d.element(d.next()))
		switch token = d.next(); token {
		case objectEnd:
			d.depth--
			return t
		case commaToken:
		default:
			d.wrong("comma or object end", token)
		}
		token = d.next()
	}
}

func (d *jsonDecoder) array() lua.LValue {
	d.descend()
	t := d.st.L.CreateTable(4, 0)
	token := d.next()
	if token == arrayEnd {
		d.depth--
		return t
	}
	for i := 1; ; i++ {
		t.RawSetInt(i, d.element(token))
		switch token = d.next(); token {
		case arrayEnd:
			d.depth--
			return t
		case commaToken:
		default:
			d.wrong("comma or array end", token)
		}
		token = d.next()
	}
}
