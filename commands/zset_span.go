package commands

import (
	"errors"
	"math"
	"strconv"

	"keyp/storage/object"
)

// span is the part of a sorted set that a command selects.
type span interface {
	// ranks returns the ranks of the span's members: from is the first one, to the one after the
	// last. The span is empty if to is not above from.
	ranks(z *object.ZSet) (from, to int)
}

// parseSpan parses a span from its two ends.
type parseSpan func(low, high []byte) (span, error)

func parseRanks(low, high []byte) (span, error) {
	return parseListRange(Cursor{args: [][]byte{low, high}})
}

// ranks returns the ranks of a range. Its ends are like the indexes of a list.
func (r listRange) ranks(z *object.ZSet) (from, to int) {
	from, n := r.of(z.Len())
	return from, from + n
}

// The errors of arguments that are no span.
const (
	errScoreSpan Error = "ERR min or max is not a float"
	errLexSpan   Error = "ERR min or max not valid string range item"
)

// scoreSpan is the span from one score to another. A member at an open end is not in it.
type scoreSpan struct {
	low, high         float64
	openLow, openHigh bool
}

func parseScores(low, high []byte) (span, error) {
	var s scoreSpan
	var ok, alsoOK bool
	s.low, s.openLow, ok = parseScoreEnd(low)
	s.high, s.openHigh, alsoOK = parseScoreEnd(high)
	if !ok || !alsoOK {
		return nil, errScoreSpan
	}
	return s, nil
}

// parseScoreEnd reads one end of a span. Redis is less strict here than with scores. The text ends
// at a NUL, and spaces may come first. An empty text is 0, and a number that is too large is
// infinite.
func parseScoreEnd(b []byte) (score float64, open, ok bool) {
	if len(b) > 0 && b[0] == '(' {
		b, open = b[1:], true
	}
	for i, c := range b {
		if c == 0 {
			b = b[:i]
			break
		}
	}
	if len(b) == 0 {
		return 0, open, true
	}
	for len(b) > 0 && (b[0] == ' ' || '\t' <= b[0] && b[0] <= '\r') {
		b = b[1:]
	}
	score, err := parseDouble(b)
	return score, open, err == nil || errors.Is(err, strconv.ErrRange) && math.IsInf(score, 0)
}

func (s scoreSpan) ranks(z *object.ZSet) (from, to int) {
	return z.RankOfScore(s.low, s.openLow), z.RankOfScore(s.high, !s.openHigh)
}

// lexSpan is the span from one member to another, in a sorted set whose scores are all the same.
type lexSpan struct{ low, high lexEnd }

// lexEnd is one end of a lexSpan. A member at an open end is not in the span.
type lexEnd struct {
	member      []byte
	open        bool
	first, last bool // before or behind all members, which - and + say
}

func parseLex(low, high []byte) (span, error) {
	var s lexSpan
	var ok, alsoOK bool
	s.low, ok = parseLexEnd(low)
	s.high, alsoOK = parseLexEnd(high)
	if !ok || !alsoOK {
		return nil, errLexSpan
	}
	return s, nil
}

func parseLexEnd(b []byte) (end lexEnd, ok bool) {
	if len(b) == 0 {
		return end, false
	}
	alone := len(b) == 1 || b[1] == 0
	switch b[0] {
	case '-':
		return lexEnd{first: true}, alone
	case '+':
		return lexEnd{last: true}, alone
	case '(', '[':
		return lexEnd{member: b[1:], open: b[0] == '('}, true
	}
	return end, false
}

func (s lexSpan) ranks(z *object.ZSet) (from, to int) {
	return s.low.rank(z, s.low.open), s.high.rank(z, !s.high.open)
}

// rank returns the number of members before the end; with above, also those at it.
func (e lexEnd) rank(z *object.ZSet, above bool) int {
	switch {
	case e.first:
		return 0
	case e.last:
		return z.Len()
	}
	return z.RankOfLex(e.member, above)
}
