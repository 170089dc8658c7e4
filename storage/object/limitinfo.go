package object

// LimitCount is how much of a rate limit (KEYP.LIMIT) is used at present. It does not say how much
// is left: the maximum is not stored, but is an argument of each call.
type LimitCount struct {
	Kind     LimitKind // 0: nothing was admitted
	Admitted int64     // of what was admitted; not of LimitTokens
	Held     int64     // what is reserved
	Span     int64     // ms, of LimitWindow and LimitApprox: as the last admission had it
	Whole    int64     // in how many ms nothing that was admitted counts any more
}

// Counts returns the present counts of the limits, by their places.
func (l *Limit) Counts(now int64) []LimitCount {
	places := len(l.states)
	if l.held != nil {
		places = max(places, len(l.held.sums))
	}
	counts := make([]LimitCount, places)
	for i := range counts {
		c := &counts[i]
		if c.Held = l.heldFor(i); i >= len(l.states) || l.states[i].kind == 0 {
			continue
		}
		s := &l.states[i]
		c.Kind = s.kind
		r := LimitRule{Kind: s.kind, Count: MaxLimitCount, Rate: 1, Span: 1}
		switch s.kind {
		case LimitTokens:
			r.Rate = s.numbers[2]
		case LimitWindow:
			c.Span = s.numbers[0]
			r.Span = c.Span
			_, c.Admitted = s.within(now - c.Span)
		case LimitApprox:
			c.Span = s.numbers[0]
			r.Span = c.Span
			cells := s.cells(&r, now)
			c.Admitted = cells.estimate(c.Span)
		default:
			_, c.Admitted = s.until(now)
		}
		_, c.Whole = l.Left(i, &r, now)
	}
	return counts
}

// EachHeldInOrder visits the reservations in the order of their deadlines, until fn returns false.
func (l *Limit) EachHeldInOrder(fn func(id []byte, cost, deadline int64) bool) {
	if l.held == nil {
		return
	}
	l.held.byDeadline(func(e entry) bool {
		cost, _, _ := limitNumber(e.val)
		return fn(LimitHeldID(e.key), cost, e.deadline)
	})
}
