package scripting

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (st *state) openString() {
	st.library("string", map[string]lua.LGFunction{
		"byte": stringByte, "char": stringChar, "dump": stringDump, "find": stringFind,
		"format": st.stringFormat, "gmatch": st.stringGmatch, "gfind": st.stringGmatch,
		"gsub": st.stringGsub, "len": stringLen, "lower": stringLower, "match": stringMatch,
		"rep": st.stringRep, "reverse": stringReverse, "sub": stringSub, "upper": stringUpper,
	})
}

// within makes a position from 1 on of one that may count from the end.
func within(i, length int) int {
	if i < 0 {
		return max(length+i+1, 0)
	}
	return i
}

func stringByte(L *lua.LState) int {
	s := argString(L, "byte", 1)
	first := within(optLong(L, "byte", 2, 1), len(s))
	last := min(within(optLong(L, "byte", 3, first), len(s)), len(s))
	first = max(first, 1)
	if first > last {
		return 0
	}
	if last-first >= maxUnpack {
		L.RaiseError("string slice too long")
	}
	for i := first; i <= last; i++ {
		L.Push(lua.LNumber(s[i-1]))
	}
	return last - first + 1
}

func stringChar(L *lua.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		c := argInt(L, "char", i+1)
		if c != int(byte(c)) {
			argError(L, "char", i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	L.Push(lua.LString(b))
	return 1
}

func stringDump(L *lua.LState) int {
	argFunction(L, "dump", 1)
	L.RaiseError("unable to dump given function")
	return 0
}

func stringLen(L *lua.LState) int {
	L.Push(lua.LNumber(len(argString(L, "len", 1))))
	return 1
}

// mapASCII changes letters as C's locale has them: bytes above 127 stay.
func mapASCII(s string, from, to byte) string {
	for i := range len(s) {
		if c := s[i]; from <= c && c <= to {
			b := []byte(s)
			for ; i < len(b); i++ {
				if from <= b[i] && b[i] <= to {
					b[i] ^= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}

func stringLower(L *lua.LState) int {
	L.Push(lua.LString(mapASCII(argString(L, "lower", 1), 'A', 'Z')))
	return 1
}

func stringUpper(L *lua.LState) int {
	L.Push(lua.LString(mapASCII(argString(L, "upper", 1), 'a', 'z')))
	return 1
}

func (st *state) stringRep(L *lua.LState) int {
	s, n := argString(L, "rep", 1), argInt(L, "rep", 2)
	if n <= 0 || s == "" {
		L.Push(lua.LString(""))
		return 1
	}
	if int64(n) > st.engine.o.Memory/int64(len(s)) {
		L.RaiseError("not enough memory")
	}
	L.Push(lua.LString(strings.Repeat(s, n)))
	return 1
}

func stringReverse(L *lua.LState) int {
	s := argString(L, "reverse", 1)
	b := make([]byte, len(s))
	for i := range len(s) {
		b[len(s)-1-i] = s[i]
	}
	L.Push(lua.LString(b))
	return 1
}

func stringSub(L *lua.LState) int {
	s := argString(L, "sub", 1)
	first := max(within(argLong(L, "sub", 2), len(s)), 1)
	last := min(within(optLong(L, "sub", 3, -1), len(s)), len(s))
	if first > last {
		L.Push(lua.LString(""))
		return 1
	}
	L.Push(piece(s, s[first-1:last]))
	return 1
}

func stringFind(L *lua.LState) int  { return search(L, "find", true) }
func stringMatch(L *lua.LState) int { return search(L, "match", false) }

// special are the characters that make a text a pattern.
const patternBytes = "^$*+?.([%-"

// search is string.find and string.match.
func search(L *lua.LState, name string, find bool) int {
	s, p := argString(L, name, 1), argString(L, name, 2)
	from := max(within(optLong(L, name, 3, 1), len(s))-1, 0)
	from = min(from, len(s))
	if find && (lua.LVAsBool(L.Get(4)) || !strings.ContainsAny(p, patternBytes)) {
		at := strings.Index(s[from:], p)
		if at < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(from + at + 1))
		L.Push(lua.LNumber(from + at + len(p)))
		return 2
	}
	p, anchored := strings.CutPrefix(p, "^")
	m := matcher{L: L, s: s, p: p}
	for at := from; at <= len(s); at++ {
		m.level = 0
		if end := m.match(at, 0); end >= 0 {
			if find {
				L.Push(lua.LNumber(at + 1))
				L.Push(lua.LNumber(end))
				return 2 + m.pushCaptures(at, end, false)
			}
			return m.pushCaptures(at, end, true)
		}
		if anchored {
			break
		}
	}
	L.Push(lua.LNil)
	return 1
}

// stringGmatch gives an iterator. A '^' means nothing special in it.
func (st *state) stringGmatch(L *lua.LState) int {
	s, p := argString(L, "gmatch", 1), argString(L, "gmatch", 2)
	at := 0
	L.Push(st.L.NewClosure(func(L *lua.LState) int {
		m := matcher{L: L, s: s, p: p}
		for ; at <= len(s); at++ {
			m.level = 0
			if end := m.match(at, 0); end >= 0 {
				start := at
				at = end
				if end == start {
					at++
				}
				return m.pushCaptures(start, end, true)
			}
		}
		L.Push(lua.LNil)
		return 1
	}, lua.LString(s), lua.LString(p))) // for those who ask what it holds
	return 1
}

func (st *state) stringGsub(L *lua.LState) int {
	s, p := argString(L, "gsub", 1), argString(L, "gsub", 2)
	replacement := L.Get(3)
	switch replacement.Type() {
	case lua.LTString, lua.LTNumber, lua.LTFunction, lua.LTTable:
	default:
		argError(L, "gsub", 3, "string/function/table expected")
	}
	most := optInt(L, "gsub", 4, len(s)+1)
	p, anchored := strings.CutPrefix(p, "^")
	m := matcher{L: L, s: s, p: p}
	var out []byte
	at, n := 0, 0
	for n < most {
		m.level = 0
		end := m.match(at, 0)
		if end >= 0 {
			n++
			out = append(out, st.replacement(&m, replacement, at, end)...)
			st.room(L, len(out))
		}
		switch {
		case end > at:
			at = end
		case at < len(s):
			out = append(out, s[at])
			at++
		default:
			at = len(s) + 1
		}
		if at > len(s) || anchored {
			break
		}
	}
	if at < len(s) {
		out = append(out, s[at:]...)
	}
	L.Push(lua.LString(out))
	L.Push(lua.LNumber(n))
	return 2
}

// replacement is what stands for one match.
func (st *state) replacement(m *matcher, by lua.LValue, start, end int) string {
	L := m.L
	var v lua.LValue
	switch by := by.(type) {
	case *lua.LFunction:
		L.Push(by)
		n := m.pushCaptures(start, end, true)
		L.Call(n, 1)
		v = L.Get(-1)
		L.Pop(1)
	case *lua.LTable:
		v = L.GetTable(by, m.capture(0, start, end))
	default:
		s, _ := text(by)
		return st.expandReplacement(m, s, start, end)
	}
	if !lua.LVAsBool(v) {
		return m.s[start:end]
	}
	s, ok := text(v)
	if !ok {
		L.RaiseError("invalid replacement value (a %s)", typeName(v))
	}
	return s
}

// expandReplacement puts captures in the place of %0 to %9.
func (st *state) expandReplacement(m *matcher, s string, start, end int) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		i++
		switch {
		case i < len(s) && s[i] == '0':
			out = append(out, m.s[start:end]...)
		case i < len(s) && isDigit(s[i]):
			c, _ := text(m.capture(int(s[i]-'1'), start, end))
			out = append(out, c...)
		case i < len(s):
			out = append(out, s[i])
		default:
			out = append(out, 0) // Lua takes the text's final NUL
		}
		st.room(m.L, len(out))
	}
	return string(out)
}
