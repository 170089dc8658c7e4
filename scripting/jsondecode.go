package scripting

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"keyp/scripting/lua"
)

// jsonToken is a kind of token; the names are cjson's, which its errors use.
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
	L     *lua.State
	o     *jsonOptions
	s     string
	at    int
	depth int

	index int // of the present token
	value lua.Value
}

func (st *state) jsonDecode(L *lua.State, o *jsonOptions) int {
	if L.NArgs() != 1 {
		L.ArgError(1, "expected 1 argument")
	}
	d := jsonDecoder{L: L, o: o, s: L.CheckString(1)}
	if len(d.s) >= 2 && (d.s[0] == 0 || d.s[1] == 0) {
		L.Errorf("JSON parser does not support UTF-16 or UTF-32")
	}
	d.element(d.next(), dest{})
	if token := d.next(); token != endToken {
		d.wrong("the end", token)
	}
	return 1
}

// wrong raises the error for a token other than the expected one.
func (d *jsonDecoder) wrong(want string, found jsonToken) {
	d.L.Errorf("Expected %s but found %s at character %d", want, string(found), d.index+1)
}

// broken returns an invalid token: its name is the error.
func (d *jsonDecoder) broken(why string, at int) jsonToken {
	d.index = at
	return jsonToken(why)
}

func (d *jsonDecoder) next() jsonToken {
	d.L.Check()
	for d.at < len(d.s) && strings.IndexByte(" \t\n\r", d.s[d.at]) >= 0 {
		d.at++
		d.look(d.at)
	}
	d.index = d.at
	if d.at >= len(d.s) {
		return endToken
	}
	if token := punctuation[d.s[d.at]]; token != "" {
		d.at++
		return token
	}
	rest := d.s[d.at:]
	switch c := d.s[d.at]; {
	case c == '"':
		return d.string()
	case c == '-' || isDigit(c):
		if !d.o.decodeInvalid && invalidNumber(rest) {
			return d.broken("invalid number", d.at)
		}
		return d.number()
	}
	for _, word := range jsonWords {
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

// look ends the decoder if the script was killed. Loops over the text call it with their position.
func (d *jsonDecoder) look(at int) {
	if at%checkEvery == 0 {
		d.L.Check()
	}
}

var punctuation = [256]jsonToken{'{': objectBegin, '}': objectEnd, '[': arrayBegin, ']': arrayEnd,
	',': commaToken, ':': colonToken}

var jsonWords = []struct {
	text  string
	token jsonToken
	value lua.Value
}{{"true", boolToken, lua.True}, {"false", boolToken, lua.False}, {"null", nullToken, jsonNull}}

// invalidNumber reports whether a text begins with a number that strtod accepts and JSON does not:
// a plus sign, hexadecimal, leading zeros, inf, nan.
func invalidNumber(s string) bool {
	if strings.HasPrefix(s, "+") {
		return true
	}
	s = strings.TrimPrefix(s[:min(len(s), 4)], "-")
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

// number reads the longest text that C's strtod accepts as a number.
func (d *jsonDecoder) number() jsonToken {
	end := d.at + numberLength(d.s[d.at:], d.look)
	f, ok := d.L.ParseNumber(d.s[d.at:end])
	if !ok {
		return d.broken("invalid number", d.at)
	}
	d.at = end
	d.value = lua.Number(f)
	return numberToken
}

// numberLength returns how many bytes at the start of a text C's strtod reads as a number. It calls
// look with positions in the text.
func numberLength(s string, look func(int)) int {
	at := 0
	if at < len(s) && (s[at] == '-' || s[at] == '+') {
		at++
	}
	rest := s[at:]
	for _, word := range []string{"infinity", "inf", "nan"} {
		if len(rest) >= len(word) && strings.EqualFold(rest[:len(word)], word) {
			return at + len(word)
		}
	}
	isMember, exponent := isDigit, byte('e')
	if len(rest) > 2 && rest[0] == '0' && rest[1]|0x20 == 'x' &&
		(isHex(rest[2]) || rest[2] == '.' && len(rest) > 3 && isHex(rest[3])) {
		at += 2
		isMember, exponent = isHex, 'p'
	}
	run := func() (n int) {
		for ; at < len(s) && isMember(s[at]); n++ {
			at++
			look(at)
		}
		return n
	}
	digits := run()
	if at < len(s) && s[at] == '.' {
		at++
		fraction := run()
		if digits+fraction == 0 {
			return 0
		}
		digits += fraction
	}
	if digits == 0 {
		return 0
	}
	if at < len(s) && s[at]|0x20 == exponent {
		end := at
		at++
		if at < len(s) && (s[at] == '-' || s[at] == '+') {
			at++
		}
		isMember = isDigit
		if run() == 0 {
			at = end
		}
	}
	return at
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// string reads a string after its opening quote.
func (d *jsonDecoder) string() jsonToken {
	d.at++
	start := d.at
	for d.at < len(d.s) && d.s[d.at] != '"' && d.s[d.at] != '\\' {
		d.at++
		d.look(d.at)
	}
	if d.at < len(d.s) && d.s[d.at] == '"' {
		d.value = d.L.Copy(d.s[start:d.at])
		d.at++
		return stringToken
	}
	out := buffer{L: d.L}
	for d.at < len(d.s) {
		switch d.s[d.at] {
		case '"':
			out.text(d.s[start:d.at])
			d.value = out.value()
			d.at++
			return stringToken
		case '\\':
			out.text(d.s[start:d.at])
			at := d.at
			if why := d.escape(&out); why != "" {
				return d.broken(why, at)
			}
			start = d.at
		default:
			d.at++
			d.look(d.at)
		}
	}
	return d.broken("unexpected end of string", d.at)
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 't': '\t', 'n': '\n',
	'f': '\f', 'r': '\r'}

// escape adds the text of an escape sequence; why is its error, empty if there is none.
func (d *jsonDecoder) escape(out *buffer) (why string) {
	if d.at+1 >= len(d.s) {
		return "invalid escape code"
	}
	c := d.s[d.at+1]
	if plain := escapes[c]; plain != 0 {
		d.at += 2
		out.byte(plain)
		return ""
	}
	if c != 'u' {
		return "invalid escape code"
	}
	unit, ok := d.unit(d.at)
	if !ok {
		return "invalid unicode escape code"
	}
	d.at += 6
	if unit&0xfc00 == 0xd800 {
		low, ok := d.unit(d.at)
		if !ok || low&0xfc00 != 0xdc00 {
			return "invalid unicode escape code"
		}
		d.at += 6
		unit = (unit&0x3ff)<<10 | low&0x3ff + 0x10000
	} else if unit&0xfc00 == 0xdc00 {
		return "invalid unicode escape code"
	}
	out.room(utf8.UTFMax)
	out.b = utf8.AppendRune(out.b, unit)
	return ""
}

// unit reads the escape \uXXXX at position at. It returns false if there is none.
func (d *jsonDecoder) unit(at int) (rune, bool) {
	if at+6 > len(d.s) || d.s[at] != '\\' || d.s[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(d.s[at+2:at+6], 16, 32)
	return rune(n), err == nil
}

// element reads the value that begins with a token and puts it in its place.
func (d *jsonDecoder) element(token jsonToken, to dest) {
	switch token {
	case stringToken, numberToken, boolToken, nullToken:
		to.put(d.L, d.value)
	case objectBegin:
		d.object(to)
	case arrayBegin:
		d.array(to)
	default:
		d.wrong("value", token)
	}
}

func (d *jsonDecoder) descend() {
	if d.depth++; d.depth > min(d.o.decodeDepth, jsonNesting) {
		d.L.Errorf("Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
}

func (d *jsonDecoder) object(to dest) {
	d.descend()
	t := to.table(d.L)
	token := d.next()
	if token == objectEnd {
		d.depth--
		return
	}
	for {
		if token != stringToken {
			d.wrong("object key string", token)
		}
		d.L.Push(d.value)
		if token = d.next(); token != colonToken {
			d.wrong("colon", token)
		}
		d.element(d.next(), dest{t: t})
		d.L.Pop(1)
		switch token = d.next(); token {
		case objectEnd:
			d.depth--
			return
		case commaToken:
		default:
			d.wrong("comma or object end", token)
		}
		token = d.next()
	}
}

func (d *jsonDecoder) array(to dest) {
	d.descend()
	t := to.table(d.L)
	token := d.next()
	if token == arrayEnd {
		d.depth--
		return
	}
	for i := 1; ; i++ {
		d.element(token, dest{t, i})
		switch token = d.next(); token {
		case arrayEnd:
			d.depth--
			return
		case commaToken:
		default:
			d.wrong("comma or array end", token)
		}
		token = d.next()
	}
}
