package scripting

import (
	"keyp/scripting/lua"
)

// Patterns are those of Lua, matched by backtracking: classes (%a), sets ([…]), quantifiers (* + -
// ?), captures, back references (%1), balances (%b()) and frontiers (%f[…]).

const (
	maxCaptures = 32
	// patternDepth bounds how deep the matcher calls itself.
	patternDepth = 20000

	unfinished = -1 // length of a capture that is open
	position   = -2 // length of a capture of a position
)

// matcher matches a pattern at one place of a subject.
type matcher struct {
	L        *lua.State
	subject  lua.Value // the Lua string of s
	s, p     string
	level    int // captures begun
	captures [maxCaptures]struct{ start, length int }
	depth    int
}

// match matches the pattern from pi on with the text from si on. It returns the end of the match,
// or -1 if there is none.
func (m *matcher) match(si, pi int) int {
	if m.depth++; m.depth > patternDepth {
		m.L.Errorf("pattern too complex")
	}
	end := m.matchItems(si, pi)
	m.depth--
	return end
}

func (m *matcher) matchItems(si, pi int) int {
	for pi < len(m.p) {
		m.L.Check()
		switch m.p[pi] {
		case '(':
			if pi+1 < len(m.p) && m.p[pi+1] == ')' {
				return m.open(si, pi+2, position)
			}
			return m.open(si, pi+1, unfinished)
		case ')':
			return m.close(si, pi+1)
		case '$':
			if pi+1 == len(m.p) {
				if si == len(m.s) {
					return si
				}
				return -1
			}
		case '%':
			if pi+1 < len(m.p) {
				switch c := m.p[pi+1]; {
				case c == 'b':
					if si = m.balance(si, pi+2); si < 0 {
						return -1
					}
					pi += 4
					continue
				case c == 'f':
					var ok bool
					if pi, ok = m.frontier(si, pi+2); !ok {
						return -1
					}
					continue
				case isDigit(c):
					if si = m.backReference(si, c); si < 0 {
						return -1
					}
					pi += 2
					continue
				}
			}
		}
		end := m.classEnd(pi)
		here := si < len(m.s) && m.single(m.s[si], pi, end)
		quantifier := byte(0)
		if end < len(m.p) {
			quantifier = m.p[end]
		}
		switch quantifier {
		case '?':
			if here {
				if result := m.match(si+1, end+1); result >= 0 {
					return result
				}
			}
			pi = end + 1
		case '*':
			return m.expand(si, pi, end)
		case '+':
			if !here {
				return -1
			}
			return m.expand(si+1, pi, end)
		case '-':
			return m.expandLeast(si, pi, end)
		default:
			if !here {
				return -1
			}
			si++
			pi = end
		}
	}
	return si
}

// look ends a match if the script was killed. Loops over the text or the pattern call it with their
// position.
func (m *matcher) look(at int) {
	if at%checkEvery == 0 {
		m.L.Check()
	}
}

func (m *matcher) expand(si, pi, end int) int {
	n := 0
	for si+n < len(m.s) && m.single(m.s[si+n], pi, end) {
		n++
		m.look(n)
	}
	for ; n >= 0; n-- {
		m.L.Check()
		if result := m.match(si+n, end+1); result >= 0 {
			return result
		}
	}
	return -1
}

func (m *matcher) expandLeast(si, pi, end int) int {
	for {
		m.L.Check()
		if result := m.match(si, end+1); result >= 0 {
			return result
		}
		if si >= len(m.s) || !m.single(m.s[si], pi, end) {
			return -1
		}
		si++
	}
}

func (m *matcher) open(si, pi, what int) int {
	if m.level >= maxCaptures {
		m.L.Errorf("too many captures")
	}
	m.captures[m.level].start, m.captures[m.level].length = si, what
	m.level++
	result := m.match(si, pi)
	if result < 0 {
		m.level--
	}
	return result
}

func (m *matcher) close(si, pi int) int {
	level := m.level - 1
	for level >= 0 && m.captures[level].length != unfinished {
		level--
	}
	if level < 0 {
		m.L.Errorf("invalid pattern capture")
	}
	m.captures[level].length = si - m.captures[level].start
	result := m.match(si, pi)
	if result < 0 {
		m.captures[level].length = unfinished
	}
	return result
}

func (m *matcher) backReference(si int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.level || m.captures[i].length == unfinished {
		m.L.Errorf("invalid capture index")
	}
	c := m.captures[i]
	if c.length == position {
		return -1
	}
	part := m.s[c.start : c.start+c.length]
	if len(m.s)-si >= len(part) && m.s[si:si+len(part)] == part {
		return si + len(part)
	}
	return -1
}

func (m *matcher) balance(si, pi int) int {
	if pi+1 >= len(m.p) {
		m.L.Errorf("unbalanced pattern")
	}
	begin, end := m.p[pi], m.p[pi+1]
	if si >= len(m.s) || m.s[si] != begin {
		return -1
	}
	depth := 1
	for i := si + 1; i < len(m.s); i++ {
		m.look(i)
		switch m.s[i] {
		case end:
			if depth--; depth == 0 {
				return i + 1
			}
		case begin:
			depth++
		}
	}
	return -1
}

func (m *matcher) frontier(si, pi int) (next int, ok bool) {
	if pi >= len(m.p) || m.p[pi] != '[' {
		m.L.Errorf("%s", "missing '[' after '%f' in pattern")
	}
	end := m.classEnd(pi)
	before, here := byte(0), byte(0)
	if si > 0 {
		before = m.s[si-1]
	}
	if si < len(m.s) {
		here = m.s[si]
	}
	return end, !m.set(before, pi, end-1) && m.set(here, pi, end-1)
}

// classEnd returns where the single-character class at pi ends.
func (m *matcher) classEnd(pi int) int {
	c := m.p[pi]
	pi++
	switch c {
	case '%':
		if pi >= len(m.p) {
			m.L.Errorf("%s", "malformed pattern (ends with '%')")
		}
		return pi + 1
	case '[':
		if pi < len(m.p) && m.p[pi] == '^' {
			pi++
		}
		for first := true; first || pi >= len(m.p) || m.p[pi] != ']'; first = false {
			if pi >= len(m.p) {
				m.L.Errorf("malformed pattern (missing ']')")
			}
			c := m.p[pi]
			m.look(pi >> 1) // it may go on by two
			pi++
			if c == '%' && pi < len(m.p) {
				pi++
			}
		}
		return pi + 1
	}
	return pi
}

// single reports whether a byte is in the class from pi to end.
func (m *matcher) single(c byte, pi, end int) bool {
	switch m.p[pi] {
	case '.':
		return true
	case '%':
		return inClass(c, m.p[pi+1])
	case '[':
		return m.set(c, pi, end-1)
	}
	return m.p[pi] == c
}

// set reports whether a byte is in the set between '[' at pi and ']' at last.
func (m *matcher) set(c byte, pi, last int) bool {
	in := true
	pi++
	if m.p[pi] == '^' {
		in = false
		pi++
	}
	for ; pi < last; pi++ {
		m.look(pi >> 1) // it may go on by two
		switch {
		case m.p[pi] == '%':
			pi++
			if inClass(c, m.p[pi]) {
				return in
			}
		case pi+2 < last && m.p[pi+1] == '-':
			if m.p[pi] <= c && c <= m.p[pi+2] {
				return in
			}
			pi += 2
		case m.p[pi] == c:
			return in
		}
	}
	return !in
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// inClass reports whether a byte is in a letter's class, in C's locale; a capital negates it.
func inClass(c, class byte) bool {
	in := false
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 32 || c == 127
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'p':
		in = c > 32 && c < 127 && !isAlpha(c) && !isDigit(c)
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in != ('A' <= class && class <= 'Z')
}

// capture returns capture i of a match from start to end; without captures the whole match.
func (m *matcher) capture(i, start, end int) lua.Value {
	if i >= m.level {
		if i != 0 {
			m.L.Errorf("invalid capture index")
		}
		return part(m.L, m.subject, m.s, start, end)
	}
	c := m.captures[i]
	switch c.length {
	case position:
		return lua.Number(float64(c.start + 1))
	case unfinished:
		m.L.Errorf("unfinished capture")
	}
	return m.L.Copy(m.s[c.start : c.start+c.length])
}

// pushCaptures pushes all captures and returns their number. If there are none and whole is true,
// it pushes the whole match.
func (m *matcher) pushCaptures(start, end int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.L.Push(m.capture(i, start, end))
	}
	return n
}
