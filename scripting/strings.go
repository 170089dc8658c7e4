package scripting

import (
	"strings"

	"keyp/scripting/lua"
)

// openString makes the string library, which is also where strings find their methods.
func (st *state) openString() {
	library := st.library("string", map[string]lua.Builtin{
		"byte": stringByte, "char": stringChar, "dump": stringDump, "find": stringFind,
		"format": stringFormat, "gmatch": stringGmatch, "gfind": stringGmatch,
		"gsub": stringGsub, "len": stringLen, "lower": stringLower, "match": stringMatch,
		"rep": stringRep, "reverse": stringReverse, "sub": stringSub, "upper": stringUpper,
	})
	meta := st.L.NewTable(0, 1)
	meta.SetString(st.L, "__index", library.Value())
	meta.SetReadonly(true)
	st.L.SetStringMetatable(meta)
}

// within converts a position, which may be negative and count from the end, to one from the start.
func within(i, length int) int {
	if i < 0 {
		return max(length+i+1, 0)
	}
	return i
}

func stringByte(L *lua.State) int {
	s := L.CheckString(1)
	first := within(L.OptInteger(2, 1), len(s))
	last := min(within(L.OptInteger(3, first), len(s)), len(s))
	first = max(first, 1)
	if first > last {
		return 0
	}
	n := last - first + 1
	if !L.HasStack(n) {
		L.Errorf("stack overflow (string slice too long)")
	}
	L.EnsureStack(n)
	for i := first; i <= last; i++ {
		L.PushNumber(float64(s[i-1]))
	}
	return n
}

func stringChar(L *lua.State) int {
	out := buffer{L: L}
	for i := range L.NArgs() {
		c := L.CheckInt(i + 1)
		if c != int(byte(c)) {
			L.ArgError(i+1, "invalid value")
		}
		out.byte(byte(c))
	}
	L.Push(out.value())
	return 1
}

func stringDump(L *lua.State) int {
	L.CheckFunction(1)
	L.Errorf("unable to dump given function")
	return 0
}

func stringLen(L *lua.State) int {
	L.PushNumber(float64(len(L.CheckString(1))))
	return 1
}

// mapASCII pushes argument 1 with its ASCII letters changed; bytes above 127 stay.
func mapASCII(L *lua.State, from, to byte) int {
	s := L.CheckString(1)
	out := buffer{L: L}
	out.text(s)
	for i, c := range out.b {
		if i%checkEvery == 0 {
			L.Check()
		}
		if from <= c && c <= to {
			out.b[i] = c ^ 0x20
		}
	}
	L.Push(out.value())
	return 1
}

func stringLower(L *lua.State) int { return mapASCII(L, 'A', 'Z') }
func stringUpper(L *lua.State) int { return mapASCII(L, 'a', 'z') }

func stringRep(L *lua.State) int {
	s, n := L.CheckString(1), L.CheckInt(2)
	if n <= 0 || s == "" {
		L.Push(L.String(""))
		return 1
	}
	if len(s) > maxString/n {
		L.Errorf("not enough memory")
	}
	size := len(s) * n
	out := buffer{L: L}
	out.room(size)
	out.b = append(out.b, s...)
	for len(out.b) < size { // doubles what is there already
		L.Check()
		out.b = append(out.b, out.b[:min(len(out.b), size-len(out.b), 1<<20)]...)
	}
	L.Push(out.value())
	return 1
}

// maxString is longer than any string.
const maxString = 1 << 40

func stringReverse(L *lua.State) int {
	s := L.CheckString(1)
	out := buffer{L: L}
	out.room(len(s))
	for i := len(s) - 1; i >= 0; i-- {
		if i%checkEvery == 0 {
			L.Check()
		}
		out.b = append(out.b, s[i])
	}
	L.Push(out.value())
	return 1
}

func stringSub(L *lua.State) int {
	s := L.CheckString(1)
	first := max(within(L.CheckInteger(2), len(s)), 1)
	last := min(within(L.OptInteger(3, -1), len(s)), len(s))
	if first > last {
		L.Push(L.String(""))
		return 1
	}
	L.Push(part(L, L.Arg(1), s, first-1, last))
	return 1
}

// part returns s[from:to], where s is the text of a value.
func part(L *lua.State, v lua.Value, s string, from, to int) lua.Value {
	if from == 0 && to == len(s) && v.Kind() == lua.KindString {
		return v
	}
	return L.Copy(s[from:to])
}

func stringFind(L *lua.State) int  { return search(L, true) }
func stringMatch(L *lua.State) int { return search(L, false) }

// patternBytes are the characters that make a text a pattern.
const patternBytes = "^$*+?.([%-"

func isPattern(L *lua.State, p string) bool {
	for ; len(p) > checkEvery; p = p[checkEvery:] {
		L.Check()
		if strings.ContainsAny(p[:checkEvery], patternBytes) {
			return true
		}
	}
	return strings.ContainsAny(p, patternBytes)
}

// search implements string.find and string.match.
func search(L *lua.State, find bool) int {
	s, p := L.CheckString(1), L.CheckString(2)
	from := max(within(L.OptInteger(3, 1), len(s))-1, 0)
	from = min(from, len(s))
	if find && (L.Arg(4).Truth() || !isPattern(L, p)) {
		at := index(L, s[from:], p)
		if at < 0 {
			L.Push(lua.Nil)
			return 1
		}
		L.PushNumber(float64(from + at + 1))
		L.PushNumber(float64(from + at + len(p)))
		return 2
	}
	p, anchored := strings.CutPrefix(p, "^")
	m := matcher{L: L, subject: L.Arg(1), s: s, p: p}
	for at := from; at <= len(s); at++ {
		m.level = 0
		if end := m.match(at, 0); end >= 0 {
			if find {
				L.PushNumber(float64(at + 1))
				L.PushNumber(float64(end))
				return 2 + m.pushCaptures(at, end, false)
			}
			return m.pushCaptures(at, end, true)
		}
		if anchored {
			break
		}
	}
	L.Push(lua.Nil)
	return 1
}

// index is like strings.Index, but ends when the script is killed.
func index(L *lua.State, s, sub string) int {
	const window = 1 << 20
	if len(sub) > window {
		return indexLong(L, s, sub)
	}
	for from := 0; ; from += window {
		L.Check()
		end := min(from+window+len(sub), len(s))
		if at := strings.Index(s[from:end], sub); at >= 0 {
			return from + at
		}
		if end == len(s) {
			return -1
		}
	}
}

// indexLong is index for a long sub, by Rabin and Karp: it compares the bytes only where the
// rolling hash of s equals the hash of sub.
func indexLong(L *lua.State, s, sub string) int {
	const prime = 16777619
	if len(sub) > len(s) {
		return -1
	}
	var want, sum, first uint32 = 0, 0, 1 // first: the weight of the byte that leaves the hash
	for i := range len(sub) {
		if i%checkEvery == 0 {
			L.Check()
		}
		want = want*prime + uint32(sub[i])
		sum = sum*prime + uint32(s[i])
		first *= prime
	}
	for at := 0; ; at++ {
		if at%checkEvery == 0 {
			L.Check()
		}
		if sum == want {
			L.Check()
			if s[at:at+len(sub)] == sub {
				return at
			}
		}
		if at+len(sub) == len(s) {
			return -1
		}
		sum = sum*prime + uint32(s[at+len(sub)]) - first*uint32(s[at])
	}
}

// stringGmatch returns an iterator; its upvalues are the text, the pattern and the position at
// which it continues. '^' is an ordinary character in its pattern.
func stringGmatch(L *lua.State) int {
	L.Push(L.NewFunction("gmatch", nextMatch, L.CheckStringValue(1), L.CheckStringValue(2),
		lua.Number(0)))
	return 1
}

func nextMatch(L *lua.State) int {
	s, _ := L.Upvalue(1).AsString()
	p, _ := L.Upvalue(2).AsString()
	from, _ := L.Upvalue(3).AsNumber()
	m := matcher{L: L, subject: L.Upvalue(1), s: s, p: p}
	for at := int(from); at <= len(s); at++ {
		m.level = 0
		end := m.match(at, 0)
		if end < 0 {
			continue
		}
		next := end
		if end == at {
			next++
		}
		L.SetUpvalue(3, lua.Number(float64(next)))
		return m.pushCaptures(at, end, true)
	}
	return 0
}

func stringGsub(L *lua.State) int {
	s, p := L.CheckString(1), L.CheckString(2)
	switch L.Arg(3).Kind() {
	case lua.KindString, lua.KindNumber, lua.KindFunction, lua.KindTable:
	default:
		L.ArgError(3, "string/function/table expected")
	}
	most := L.OptInt(4, len(s)+1)
	p, anchored := strings.CutPrefix(p, "^")
	m := matcher{L: L, subject: L.Arg(1), s: s, p: p}
	out := hold(L)
	at, n, copied := 0, 0, 0 // s up to copied is in out, replaced where it matched
	for n < most {
		m.level = 0
		end := m.match(at, 0)
		if end >= 0 {
			n++
			out.text(s[copied:at])
			m.replace(&out, L.Arg(3), at, end)
			copied = end
		}
		switch {
		case end > at:
			at = end
		case at < len(s):
			at++
		default:
			at = len(s) + 1
		}
		if at > len(s) || anchored {
			break
		}
	}
	out.text(s[copied:])
	out.finish()
	L.PushNumber(float64(n))
	return 2
}

// replace adds the replacement of a match.
func (m *matcher) replace(out *heldBuffer, by lua.Value, start, end int) {
	L := m.L
	var v lua.Value
	switch by.Kind() {
	case lua.KindFunction:
		L.Push(by)
		L.CallTop(m.pushCaptures(start, end, true), 1)
		v = L.Top(1)
		L.Pop(1)
	case lua.KindTable:
		v = L.Index(by, m.capture(0, start, end))
	default:
		s, _ := by.Text()
		m.expandReplacement(out, s, start, end)
		return
	}
	if !v.Truth() {
		out.text(m.s[start:end])
		return
	}
	s, ok := v.Text()
	if !ok {
		L.Errorf("invalid replacement value (a %s)", v.Kind())
	}
	out.text(s)
}

// expandReplacement adds a replacement's text, with captures in the place of %0 to %9.
func (m *matcher) expandReplacement(out *heldBuffer, s string, start, end int) {
	for {
		m.L.Check()
		at := strings.IndexByte(s, '%')
		if at < 0 {
			out.text(s)
			return
		}
		out.text(s[:at])
		switch {
		case at+1 == len(s):
			out.text("\x00") // Lua copies the text's final NUL
			return
		case s[at+1] == '0':
			out.text(m.s[start:end])
		case isDigit(s[at+1]):
			c, _ := m.capture(int(s[at+1]-'1'), start, end).Text()
			out.text(c)
		default:
			out.text(s[at+1 : at+2])
		}
		s = s[at+2:]
	}
}
