package object

import (
	"math"
	"math/bits"
	"slices"
)

// LimitKind is the way in which a rate limit (KEYP.LIMIT) counts, such as a sliding window.
type LimitKind uint8

// The kinds.
const (
	LimitTokens LimitKind = iota + 1 // a bucket of tokens: GCRA
	LimitWindow                      // what was admitted within the last span, exactly
	LimitApprox                      // the same by two counters
	LimitUntil                       // what was admitted until an instant
)

// LimitRule is the definition of a limit in a call. Valid checks its numbers, which begin at 1.
type LimitRule struct {
	Kind  LimitKind
	Count int64 // the burst, or the max
	Rate  int64 // LimitTokens: so many tokens come within a span
	Span  int64 // ms; not of LimitUntil
	Until int64 // LimitUntil: Unix ms
}

// MaxLimitTimes is the largest number of times at which an exact window may have admissions.
const MaxLimitTimes = 100_000

// Valid reports whether the numbers are within their bounds, and an exact window is small enough.
func (r *LimitRule) Valid() bool {
	if r.Count < 1 || r.Count > MaxLimitCount {
		return false
	}
	switch r.Kind {
	case LimitTokens:
		if r.Rate < 1 || r.Rate > MaxLimitCount || r.Span < 1 || r.Span > MaxLimitSpan {
			return false
		}
		_, _, ok := r.takes(r.Count)
		return ok
	case LimitWindow:
		return r.Span >= 1 && r.Span <= MaxLimitSpan && min(r.Count, r.Span) <= MaxLimitTimes
	case LimitApprox:
		return r.Span >= 1 && r.Span <= MaxLimitSpan
	case LimitUntil:
		return r.Until >= 1 && r.Until <= maxLimitTime
	}
	return false
}

// takes returns how long it takes until so many tokens have come: ms, and part/Rate of another ms.
// ok is false if that is more than MaxLimitSpan.
func (r *LimitRule) takes(tokens int64) (ms, part int64, ok bool) {
	hi, lo := bits.Mul64(uint64(tokens), uint64(r.Span))
	if hi >= uint64(r.Rate) {
		return 0, 0, false
	}
	q, rest := bits.Div64(hi, lo, uint64(r.Rate))
	return int64(q), int64(rest), q <= MaxLimitSpan
}

// mulDiv returns a*b/c, rounded down. A result that does not fit becomes math.MaxInt64.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// mulDivUp returns a*b/c, rounded up. A result that does not fit becomes math.MaxInt64.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c)-1, 0)
	if hi += carry; hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// never is the instant of an event that never happens.
const never = math.MaxInt64

// place returns the state of limit number i if it is of this kind, and otherwise an empty state.
func (l *Limit) place(i int, kind LimitKind) (s limitState) {
	if i < len(l.states) && l.states[i].kind == kind {
		return l.states[i]
	}
	return limitState{}
}

// heldFor returns how much is reserved for limit number i.
func (l *Limit) heldFor(i int) int64 {
	if l.held == nil || i >= len(l.held.sums) {
		return 0
	}
	return l.held.sums[i]
}

// freeAt returns the first instant, from now on, at which limit number i has room for an amount, if
// nothing else happens. The amount must include the reservations.
func (l *Limit) freeAt(i int, r *LimitRule, now, amount int64) int64 {
	if amount > r.Count {
		return never
	}
	s := l.place(i, r.Kind)
	switch r.Kind {
	case LimitTokens:
		return s.tokensAt(r, now, amount)
	case LimitWindow:
		return s.windowAt(r, now, amount)
	case LimitApprox:
		return s.approxAt(r, now, amount)
	default:
		if end, used := s.until(now); used > r.Count-amount {
			return end
		}
		return now
	}
}

// left returns how much room limit number i has now. Reserved amounts do not count as room.
func (l *Limit) left(i int, r *LimitRule, now int64) int64 {
	s, held := l.place(i, r.Kind), l.heldFor(i)
	if held >= r.Count {
		return 0
	}
	switch r.Kind {
	case LimitTokens:
		return s.tokensLeft(r, now, held)
	case LimitWindow:
		_, sum := s.within(now - r.Span)
		return max(r.Count-held-sum, 0)
	case LimitApprox:
		c := s.cells(r, now)
		return max(r.Count-held-c.estimate(r.Span), 0)
	default:
		_, used := s.until(now)
		return max(r.Count-held-used, 0)
	}
}

// Left returns how much room limit number i has, and after how many ms none of the admitted amount
// counts any more. Reservations do not count for the latter, because they end by themselves.
func (l *Limit) Left(i int, r *LimitRule, now int64) (left, reset int64) {
	s, at := l.place(i, r.Kind), now
	switch r.Kind {
	case LimitTokens:
		if ms, part := s.arrival(r.Rate); part > 0 {
			at = ms + 1
		} else {
			at = ms
		}
	case LimitWindow:
		if live := s.window.live(); len(live) > 0 {
			at = live[len(live)-1].at + r.Span
		}
	case LimitApprox:
		if c := s.cells(r, now); c.in > 0 {
			at = (c.number + 2) * r.Span
		} else if c.before > 0 {
			at = (c.number + 1) * r.Span
		}
	default:
		at, _ = s.until(now)
	}
	return l.left(i, r, now), max(at-now, 0)
}

// arrival returns the theoretical arrival time in ms and parts of 1/rate. If it was stored for
// another rate, it is rounded up.
func (s *limitState) arrival(rate int64) (ms, part int64) {
	if s.kind == 0 {
		return 0, 0
	}
	ms, part = s.numbers[0], s.numbers[1]
	if of := s.numbers[2]; of != rate {
		if part = mulDivUp(part, rate, of); part == rate {
			ms, part = ms+1, 0
		}
	}
	return ms, part
}

// debt returns the arrival time, or now if the arrival time has passed.
func (s *limitState) debt(rate, now int64) (ms, part int64) {
	ms, part = s.arrival(rate)
	if ms < now {
		return now, 0
	}
	return ms, part
}

func (s *limitState) tokensAt(r *LimitRule, now, amount int64) int64 {
	ms, part := s.debt(r.Rate, now)
	addMS, addPart, _ := r.takes(amount)
	mostMS, mostPart, _ := r.takes(r.Count)
	ms, part = ms+addMS-mostMS, part+addPart-mostPart
	for part > 0 {
		ms, part = ms+1, part-r.Rate
	}
	return max(now, ms)
}

func (s *limitState) tokensLeft(r *LimitRule, now, held int64) int64 {
	ms, part := s.debt(r.Rate, now)
	addMS, addPart, _ := r.takes(held)
	mostMS, mostPart, _ := r.takes(r.Count)
	ms, part = now+mostMS-ms-addMS, mostPart-part-addPart
	for part < 0 {
		ms, part = ms-1, part+r.Rate
	}
	if ms < 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(ms), uint64(r.Rate))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	if hi += carry; hi >= uint64(r.Span) {
		return r.Count
	}
	q, _ := bits.Div64(hi, lo, uint64(r.Span))
	return int64(min(q, uint64(r.Count)))
}

// within returns the admissions after an instant, and the sum of their amounts.
func (s *limitState) within(after int64) (live []admission, sum int64) {
	if s.window == nil {
		return nil, 0
	}
	live, sum = s.window.live(), s.window.sum
	for len(live) > 0 && live[0].at <= after {
		sum -= live[0].amount
		live = live[1:]
	}
	return live, sum
}

func (s *limitState) windowAt(r *LimitRule, now, amount int64) int64 {
	live, sum := s.within(now - r.Span)
	at := now
	for i := 0; sum > r.Count-amount && i < len(live); i++ {
		sum -= live[i].amount
		at = live[i].at + r.Span
	}
	return at
}

// limitCells are the two counters of an approximate window at an instant. The instant is into ms
// after the beginning of the cell.
type limitCells struct{ number, in, before, into int64 }

func (s *limitState) cells(r *LimitRule, now int64) limitCells {
	c := limitCells{number: now / r.Span}
	switch span, number := s.numbers[0], s.numbers[1]; {
	case s.kind == 0:
	case span != r.Span: // all that counts by the other span counts as of now
		old := s.cells(&LimitRule{Span: span}, now)
		c.in = old.estimate(span)
	case number >= c.number: // later: the clock was set back
		c.number, c.in, c.before = number, s.numbers[2], s.numbers[3]
	case number == c.number-1:
		c.before = s.numbers[2]
	}
	c.into = max(now-c.number*r.Span, 0)
	return c
}

// estimate returns how much counts, rounded up. The previous cell counts in proportion to the part
// of it that is within a span.
func (c *limitCells) estimate(span int64) int64 {
	return c.in + mulDivUp(c.before, span-c.into, span)
}

func (s *limitState) approxAt(r *LimitRule, now, amount int64) int64 {
	c := s.cells(r, now)
	if c.estimate(r.Span) <= r.Count-amount {
		return now
	}
	// The estimate falls from the beginning of a cell to its end.
	at := func(begin, room, before int64) int64 {
		if before <= room {
			return begin
		}
		return begin + r.Span - mulDiv(room, r.Span, before)
	}
	if room := r.Count - amount - c.in; room >= 0 {
		return max(now, at(c.number*r.Span, room, c.before))
	}
	return at((c.number+1)*r.Span, r.Count-amount, c.in)
}

// until returns the end of the window that is in force, and how much it has admitted; 0, 0 if no
// window is in force.
func (s *limitState) until(now int64) (end, used int64) {
	if s.kind != LimitUntil || s.numbers[0] <= now {
		return 0, 0
	}
	return s.numbers[0], s.numbers[1]
}

// Over returns the number, from 1, of a limit whose window has ended and that has no other window
// in force. It returns 0 if there is none.
func (l *Limit) Over(rules []LimitRule, now int64) int {
	for i := range rules {
		if r := &rules[i]; r.Kind == LimitUntil && r.Until <= now {
			if s := l.place(i, r.Kind); s.kind == 0 || s.numbers[0] <= now {
				return i + 1
			}
		}
	}
	return 0
}

// Ask reports whether all limits have room for a cost now. If they have, refuses is 0. Otherwise it
// is the number, from 1, of the limit that takes longest to have room. retry is then in how many ms
// all have room, or -1 for never. Ask assumes that nothing else happens, and that reservations end
// when they are due.
func (l *Limit) Ask(rules []LimitRule, now, cost int64) (refuses int, retry int64) {
	worst := now
	for i := range rules {
		if at := l.freeAt(i, &rules[i], now, cost+l.heldFor(i)); at > worst {
			worst, refuses = at, i+1
		}
	}
	if refuses == 0 {
		return 0, 0
	}
	for i := range rules {
		if cost > rules[i].Count {
			return i + 1, -1
		}
	}
	if l.held != nil && l.held.Earliest() <= worst {
		worst = l.freeWithout(rules, now, cost, worst)
	}
	return refuses, worst - now
}

// maxLimitEndings bounds how many reservations freeWithout lets end, one after another.
const maxLimitEndings = 4096

// freeWithout returns when all limits have room for a cost if reservations end one after another.
// If that takes more than maxLimitEndings of them, it returns when that many have ended.
func (l *Limit) freeWithout(rules []LimitRule, now, cost, worst int64) int64 {
	sums := slices.Clone(l.held.sums)
	var room [MaxLimits]windowEnd
	windows := room[:len(rules)]
	for i := range rules {
		if r := &rules[i]; r.Kind == LimitWindow {
			s := l.place(i, r.Kind)
			windows[i].live, _ = s.within(now - r.Span)
		}
	}
	looks := 0
	l.held.byDeadline(func(e entry) bool {
		if worst <= e.deadline {
			return false
		}
		held, rest, _ := limitNumber(e.val)
		limits, _, _ := limitNumber(rest)
		for i := range limits {
			sums[i] -= held
		}
		worst = e.deadline
		if looks++; looks == maxLimitEndings {
			return false
		}
		for i := range rules {
			amount := cost
			if i < len(sums) {
				amount += sums[i]
			}
			switch r := &rules[i]; {
			case r.Kind == LimitWindow && amount <= r.Count:
				worst = max(worst, windows[i].at(r, amount))
			default:
				worst = max(worst, l.freeAt(i, r, now, amount))
			}
		}
		return true
	})
	return worst
}

// windowEnd does the computation of windowAt for several amounts, each not larger than the one
// before. Each call of at continues where the previous one stopped. There is room for the amount
// together with the admissions that at has removed from live. sum is the sum of these admissions.
type windowEnd struct {
	live []admission
	sum  int64
}

// at returns the instant at which there is room for an amount; 0 if there is room already.
func (w *windowEnd) at(r *LimitRule, amount int64) int64 {
	for n := len(w.live); n > 0; n-- {
		last := w.live[n-1]
		if w.sum+last.amount > r.Count-amount {
			return last.at + r.Span
		}
		w.live, w.sum = w.live[:n-1], w.sum+last.amount
	}
	return 0
}
