// Package glob matches names against patterns as Redis does.
package glob

import "math"

// Match reports whether s matches a pattern of KEYS, SCAN or PSUBSCRIBE:
//
//	?        any one byte
//	*        any bytes, also none
//	[ab-c]   one byte of a set; [^…] one byte outside it
//	\x       the byte x, also inside a set
//
// Malformed sets have the same meaning as in Redis. A set without ] ends at the end of the pattern.
// [] matches nothing, and [^] matches any byte. In [a-] the ] is the end of a range. A lone \ at
// the end is itself. In Redis "**" does not match the empty string; here it does, as "*" does.
//
// Every element but * takes exactly one byte, so after a mismatch only the latest * can take more.
// The work is at most len(pattern) × len(s). If a client sends both, use Steps.
func Match(pattern, s []byte) bool {
	ok, _ := match(pattern, s, math.MaxInt)
	return ok
}

// Steps is the work that is left for matches of patterns and names from clients. A step compares
// one byte. Each match has freeSteps for each byte of the name, and leastSteps more, for free. This
// suffices for the patterns that people write. Further steps are subtracted from Steps.
type Steps int

const (
	freeSteps  = 8
	leastSteps = 4096
)

// Match does what the function Match does, with bounded work. If a match needs more than the free
// steps and the steps left, ok and done are false.
func (left *Steps) Match(pattern, s []byte) (ok, done bool) {
	free := freeSteps*len(s) + leastSteps
	ok, steps := match(pattern, s, free+int(*left))
	*left -= Steps(max(steps-free, 0))
	if *left < 0 {
		*left, ok = 0, false
		return false, false
	}
	return ok, true
}

// match also returns the number of steps that it took. If they exceed most, it has given up, and ok
// is false.
func match(pattern, s []byte, most int) (ok bool, steps int) {
	p, i := 0, 0
	star, from := -1, 0 // after the latest *, and where it began to match
	for i < len(s) {
		if steps++; steps > most {
			return false, steps
		}
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, i
			continue
		}
		if p < len(pattern) {
			ok, next := one(pattern, p, s[i])
			steps += next - p - 1
			if ok {
				p, i = next, i+1
				continue
			}
		}
		if star < 0 {
			return false, steps
		}
		from++
		p, i = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
		steps++
	}
	return p == len(pattern), steps
}

// one matches c against the element at pattern[p]. next is the position of the next element.
func one(pattern []byte, p int, c byte) (ok bool, next int) {
	switch pattern[p] {
	case '?':
		return true, p + 1
	case '[':
		return set(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return pattern[p] == c, p + 1
}

// set matches c against the set whose inside begins at pattern[p].
func set(pattern []byte, p int, c byte) (ok bool, next int) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	for p < len(pattern) {
		switch left := len(pattern) - p; {
		case pattern[p] == '\\' && left >= 2:
			ok = ok || pattern[p+1] == c
			p += 2
		case pattern[p] == ']':
			return ok != negated, p + 1
		case left >= 3 && pattern[p+1] == '-':
			low, high := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			ok = ok || low <= c && c <= high
			p += 3
		default:
			ok = ok || pattern[p] == c
			p++
		}
	}
	return ok != negated, p
}

// All reports whether a pattern is "*", which matches everything.
func All(pattern []byte) bool { return len(pattern) == 1 && pattern[0] == '*' }
