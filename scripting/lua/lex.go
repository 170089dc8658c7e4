package lua

import (
	"errors"
	"strconv"
	"strings"
)

// token is the kind of a token. A token of a single byte has the value of that byte as its kind.
// All others have one of these constants.
type token int

const (
	tkAnd token = iota + 257
	tkBreak
	tkDo
	tkElse
	tkElseif
	tkEnd
	tkFalse
	tkFor
	tkFunction
	tkIf
	tkIn
	tkLocal
	tkNil
	tkNot
	tkOr
	tkRepeat
	tkReturn
	tkThen
	tkTrue
	tkUntil
	tkWhile
	tkConcat
	tkDots
	tkEq
	tkGe
	tkLe
	tkNe
	tkNumber
	tkName
	tkString
	tkEOF
	tkNone token = -1 // in errors that are near nothing
)

var tokenNames = [...]string{"and", "break", "do", "else", "elseif", "end", "false", "for",
	"function", "if", "in", "local",
	"nil", "not", "or", "repeat", "return", "then", "true", "until", "while", "..", "...", "==",
	">=", "<=", "~=",
	"<number>", "<name>", "<string>", "<eof>"}

var keywords = func() map[string]token {
	m := map[string]token{}
	for t := tkAnd; t <= tkWhile; t++ {
		m[tokenNames[t-tkAnd]] = t
	}
	return m
}()

func (t token) String() string {
	switch {
	case t >= tkAnd:
		return tokenNames[t-tkAnd]
	case t < ' ' || t == 0x7f:
		return "char(" + strconv.Itoa(int(t)) + ")"
	}
	return string([]byte{byte(t)})
}

// lexeme is a token with its value.
type lexeme struct {
	kind   token
	number float64
	text   *String
}

// lexer reads tokens. Errors are panics with a *syntaxError.
type lexer struct {
	source   string
	pos      int
	line     int // of the token that was read last
	lastLine int // of the token before now
	now      lexeme
	ahead    lexeme // tkNone: nothing was read ahead
	raw      string // the token that was read last, as errors show it
	quote    string // the quote around raw in errors
	buffer   []byte
	name     string
	strings  map[string]*String
	o        *CompileOptions
	used     int64 // bytes that the compilation keeps
	ticks    int
}

type syntaxError struct{ err error }

func (l *lexer) fail(message string, near token) {
	text := l.name + ":" + strconv.Itoa(l.line) + ": " + message
	if near != tkNone {
		text += " near '" + l.shown(near) + "'"
	}
	panic(&syntaxError{errors.New(text)})
}

// shown returns a token as errors show it.
func (l *lexer) shown(t token) string {
	switch t {
	case tkName, tkString, tkNumber:
		s, _, _ := strings.Cut(l.quote+l.raw+l.quote, "\x00")
		return s
	}
	return t.String()
}

// failHere raises an error near the present token.
func (l *lexer) failHere(message string) { l.fail(message, l.now.kind) }

// use counts bytes that the program will keep.
func (l *lexer) use(n int64) {
	l.used += n
	if l.o.Memory > 0 && l.used > l.o.Memory {
		panic(&syntaxError{ErrMemory})
	}
}

// next reads the next token.
func (l *lexer) next() {
	l.lastLine = l.line
	if l.ahead.kind != tkNone {
		l.now, l.ahead.kind = l.ahead, tkNone
		return
	}
	l.tick()
	l.now = l.scan()
}

// peek reads one token ahead.
func (l *lexer) peek() token {
	if l.ahead.kind == tkNone {
		l.ahead = l.scan()
	}
	return l.ahead.kind
}

// byte returns the byte at an offset from here; ok is false at the end.
func (l *lexer) byte(offset int) (c byte, ok bool) {
	if l.pos+offset < len(l.source) {
		return l.source[l.pos+offset], true
	}
	return 0, false
}

func (l *lexer) at(offset int, c byte) bool {
	b, ok := l.byte(offset)
	return ok && b == c
}

func isDigit(c byte) bool { return c-'0' <= 9 }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isWord(c byte) bool  { return isAlpha(c) || isDigit(c) || c == '_' }

func (l *lexer) scan() lexeme {
	l.quote = ""
	for {
		c, ok := l.byte(0)
		if !ok {
			return lexeme{kind: tkEOF}
		}
		switch c {
		case '\n', '\r':
			l.newline()
			continue
		case ' ', '\t', '\v', '\f':
			l.pos++
			l.tick()
			continue
		case '-':
			if !l.at(1, '-') {
				l.pos++
				return lexeme{kind: '-'}
			}
			l.pos += 2
			l.comment()
			continue
		case '[':
			if level, ok := l.bracket('['); ok {
				return l.long(level, false)
			} else if level > 0 {
				l.raw = l.source[l.pos : l.pos+level+1]
				l.fail("invalid long string delimiter", tkString)
			}
			l.pos++
			return lexeme{kind: '['}
		case '=':
			return l.either('=', '=', tkEq)
		case '<':
			return l.either('<', '=', tkLe)
		case '>':
			return l.either('>', '=', tkGe)
		case '~':
			return l.either('~', '=', tkNe)
		case '"', '\'':
			return l.quoted(c)
		case '.':
			if l.at(1, '.') {
				if l.at(2, '.') {
					l.pos += 3
					return lexeme{kind: tkDots}
				}
				l.pos += 2
				return lexeme{kind: tkConcat}
			}
			if d, ok := l.byte(1); !ok || !isDigit(d) {
				l.pos++
				return lexeme{kind: '.'}
			}
			return l.numeral()
		}
		switch {
		case isDigit(c):
			return l.numeral()
		case isAlpha(c) || c == '_':
			return l.word()
		}
		l.pos++
		return lexeme{kind: token(c)}
	}
}

// either reads a token of two bytes if the second is with, and otherwise one of one byte.
func (l *lexer) either(one, with byte, two token) lexeme {
	l.pos++
	if l.at(0, with) {
		l.pos++
		return lexeme{kind: two}
	}
	return lexeme{kind: token(one)}
}

// newline skips the end of a line, which may be two different bytes (CR and LF).
func (l *lexer) newline() {
	first := l.source[l.pos]
	l.pos++
	l.tick()
	if c, ok := l.byte(0); ok && (c == '\n' || c == '\r') && c != first {
		l.pos++
	}
	l.line++
}

func (l *lexer) comment() {
	if l.at(0, '[') {
		if level, ok := l.bracket('['); ok {
			l.long(level, true)
			return
		}
	}
	for l.pos < len(l.source) && l.source[l.pos] != '\r' && l.source[l.pos] != '\n' {
		l.pos++
		l.tick()
	}
}

// bracket reports whether a long bracket begins here, such as [[ or [==[. level is the number of
// equals signs.
func (l *lexer) bracket(c byte) (level int, ok bool) {
	for l.at(level+1, '=') {
		level++
		l.tick()
	}
	return level, l.at(level+1, c)
}

// long reads a long string, or skips a long comment.
func (l *lexer) long(level int, comment bool) lexeme {
	start := l.pos
	l.pos += level + 2
	if c, ok := l.byte(0); ok && (c == '\n' || c == '\r') {
		l.newline()
	}
	b := l.buffer[:0]
	for {
		c, ok := l.byte(0)
		switch {
		case !ok && comment:
			l.fail("unfinished long comment", tkEOF)
		case !ok:
			l.fail("unfinished long string", tkEOF)
		case c == ']':
			if n, ok := l.bracket(']'); ok && n == level {
				l.pos += level + 2
				l.buffer = b
				l.raw = l.source[start:l.pos]
				if comment {
					return lexeme{}
				}
				return lexeme{kind: tkString, text: l.intern(b)}
			}
		case c == '\n' || c == '\r':
			l.newline()
			if !comment {
				b = append(b, '\n')
			}
			continue
		}
		if !comment {
			b = append(b, c)
		}
		l.pos++
		l.tick()
	}
}

// tick counts a token, or a step of a long one, and ends a compilation that was stopped.
func (l *lexer) tick() {
	const look = 256
	if l.ticks++; l.ticks%look == 0 {
		l.look()
	}
}

func (l *lexer) look() {
	if l.o.Stop == nil || !l.o.Stop.Load() {
		return
	}
	if L := l.o.owner; L != nil && !L.ends() {
		L.seams.onLook()
		return
	}
	panic(&syntaxError{ErrStopped})
}

var escapes = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r',
	't': '\t', 'v': '\v'}

func (l *lexer) quoted(quote byte) lexeme {
	b := append(l.buffer[:0], quote)
	l.pos++
	for {
		c, ok := l.byte(0)
		switch {
		case !ok:
			l.fail("unfinished string", tkEOF)
		case c == '\n' || c == '\r':
			l.raw = string(b)
			l.fail("unfinished string", tkString)
		case c == '\\':
			b = l.escape(b)
			l.tick()
			continue
		}
		b = append(b, c)
		l.pos++
		l.tick()
		if c == quote {
			break
		}
	}
	l.buffer = b
	text := l.intern(b[1 : len(b)-1])
	l.raw, l.quote = text.s, string(quote)
	return lexeme{kind: tkString, text: text}
}

// escape reads an escape sequence, which begins with a backslash.
func (l *lexer) escape(b []byte) []byte {
	l.pos++
	c, ok := l.byte(0)
	if !ok {
		return b // the end is found next
	}
	if c == '\n' || c == '\r' {
		l.newline()
		return append(b, '\n')
	}
	if e, ok := escapes[c]; ok {
		l.pos++
		return append(b, e)
	}
	if !isDigit(c) {
		l.pos++
		return append(b, c)
	}
	n := 0
	for i := 0; i < 3; i++ {
		c, ok := l.byte(0)
		if !ok || !isDigit(c) {
			break
		}
		n = n*10 + int(c-'0')
		l.pos++
	}
	if n > 255 {
		l.raw = string(b)
		l.fail("escape sequence too large", tkString)
	}
	return append(b, byte(n))
}

func (l *lexer) numeral() lexeme {
	start := l.pos
	for c, ok := l.byte(0); ok && (isDigit(c) || c == '.'); c, ok = l.byte(0) {
		l.pos++
		l.tick()
	}
	if l.at(0, 'e') || l.at(0, 'E') {
		l.pos++
		if l.at(0, '+') || l.at(0, '-') {
			l.pos++
		}
	}
	for c, ok := l.byte(0); ok && isWord(c); c, ok = l.byte(0) {
		l.pos++
		l.tick()
	}
	l.raw = l.source[start:l.pos]
	f, ok := parseNumber(l.raw, l.look)
	if !ok {
		l.fail("malformed number", tkNumber)
	}
	return lexeme{kind: tkNumber, number: f}
}

func (l *lexer) word() lexeme {
	start := l.pos
	for l.pos < len(l.source) && isWord(l.source[l.pos]) {
		l.pos++
		l.tick()
	}
	l.raw = l.source[start:l.pos]
	if kind, ok := keywords[l.raw]; ok {
		return lexeme{kind: kind}
	}
	return lexeme{kind: tkName, text: l.internString(l.raw)}
}

// intern returns the program's only string with these bytes.
func (l *lexer) intern(b []byte) *String {
	if s, ok := l.strings[string(b)]; ok {
		return s
	}
	return l.newString(string(b))
}

func (l *lexer) internString(s string) *String {
	if t, ok := l.strings[s]; ok {
		return t
	}
	return l.newString(strings.Clone(s))
}

func (l *lexer) newString(s string) *String {
	l.use(stringBytes(len(s)))
	t := newConstant(s)
	l.strings[s] = t
	return t
}
