package object

import (
	"encoding/binary"
	"math"
)

// LimitChanges collects the elements of a Limit that a call has changed, in order, so that the
// store can log them. Its memory is used again after Clear.
type LimitChanges struct {
	bytes []byte
	list  []limitChange
}

// limitChange has the ends of an element's key and value. If they are equal, the element is gone.
type limitChange struct{ elem, val int }

// Clear removes all changes.
func (c *LimitChanges) Clear() { c.bytes, c.list = c.bytes[:0], c.list[:0] }

func (c *LimitChanges) add(elem, val []byte) {
	c.bytes = append(c.bytes, elem...)
	end := len(c.bytes)
	c.bytes = append(c.bytes, val...)
	c.list = append(c.list, limitChange{end, len(c.bytes)})
}

// Len returns the number of changes.
func (c *LimitChanges) Len() int { return len(c.list) }

// At returns change number i: the element's key, and its value, or nil if the element is gone. They
// are valid until Clear.
func (c *LimitChanges) At(i int) (elem, val []byte) {
	from, at := 0, c.list[i]
	if i > 0 {
		from = c.list[i-1].val
	}
	if at.elem == at.val {
		return c.bytes[from:at.elem], nil
	}
	return c.bytes[from:at.elem], c.bytes[at.elem:at.val]
}

// Admit counts a cost of 1 or more as admitted. The limits must have room for it.
func (l *Limit) Admit(rules []LimitRule, now, cost int64, changed *LimitChanges) {
	for i := range rules {
		l.admit(i, &rules[i], now, cost, changed)
	}
}

func (l *Limit) admit(i int, r *LimitRule, now, cost int64, changed *LimitChanges) {
	was := l.place(i, r.Kind)
	if _, used := was.until(now); r.Kind == LimitUntil && used == 0 && r.Until <= now {
		return // of a reservation that is confirmed when its window is over
	}
	s := l.state(i)
	if s.kind != r.Kind {
		l.forget(i, changed)
	}
	s.kind = r.Kind
	before := s.numbers
	switch r.Kind {
	case LimitTokens:
		ms, part := was.debt(r.Rate, now)
		addMS, addPart, _ := r.takes(cost)
		if ms, part = ms+addMS, part+addPart; part >= r.Rate {
			ms, part = ms+1, part-r.Rate
		}
		s.numbers = [4]int64{min(ms, maxLimitTime), part, r.Rate}
	case LimitWindow:
		s.numbers = [4]int64{r.Span}
		l.admitWindow(i, r, now, cost, changed)
	case LimitApprox:
		c := was.cells(r, now)
		s.numbers = [4]int64{r.Span, c.number, min(c.in+cost, MaxLimitCount),
			min(c.before, MaxLimitCount)}
	default:
		end, used := was.until(now)
		if used == 0 {
			end = r.Until
		}
		s.numbers = [4]int64{end, min(used+cost, MaxLimitCount)}
	}
	if was.kind == 0 || s.numbers != before {
		var room [5 * binary.MaxVarintLen64]byte
		key := limitStateKey(i)
		changed.add(key[:], s.append(room[:0]))
	}
}

// maxLimitForgotten is the largest number of old amounts that an admission removes. These amounts
// no longer count.
const maxLimitForgotten = 1000

func (l *Limit) admitWindow(i int, r *LimitRule, now, cost int64, changed *LimitChanges) {
	s := &l.states[i]
	if s.window == nil {
		s.window = &admissions{}
	}
	for range maxLimitForgotten {
		live := s.window.live()
		if len(live) == 0 || live[0].at > now-r.Span {
			break
		}
		key := limitAdmittedKey(i, live[0].at)
		s.window.remove(live[0].at)
		changed.add(key[:], nil)
	}
	at, live := now, s.window.live()
	n, ok := s.window.find(now)
	if !ok && n < len(live) && len(live) >= MaxLimitTimes {
		// The clock was set back, and no more times are kept. So the cost is added to a
		// later time, and counts for longer.
		at, ok = live[n].at, true
	}
	if ok {
		cost += live[n].amount
	}
	cost = min(cost, MaxLimitCount)
	s.window.set(at, cost)
	var room [binary.MaxVarintLen64]byte
	key := limitAdmittedKey(i, at)
	changed.add(key[:], admission{at, cost}.append(room[:0]))
}

// forget removes all that a limit has admitted, because a limit of another kind takes its place.
func (l *Limit) forget(i int, changed *LimitChanges) {
	s := &l.states[i]
	for _, e := range s.window.live() {
		key := limitAdmittedKey(i, e.at)
		changed.add(key[:], nil)
	}
	*s = limitState{}
}

// Hold reserves a cost of 1 or more until a deadline (Unix ms). The limits must have room for it.
func (l *Limit) Hold(id []byte, rules []LimitRule, cost, deadline int64, changed *LimitChanges) {
	elem := LimitHeldKey(nil, id)
	val := appendHeld(nil, cost, rules)
	l.reservations().set(elem, val, deadline)
	changed.add(elem, val)
}

// Held reports whether there is a reservation with this id.
func (l *Limit) Held(id []byte) bool {
	_, _, ok := l.Element(LimitHeldKey(nil, id))
	return ok
}

// Return ends a reservation. It returns false if there is none with this id.
func (l *Limit) Return(id []byte, changed *LimitChanges) bool {
	elem := LimitHeldKey(nil, id)
	if _, _, ok := l.Element(elem); !ok {
		return false
	}
	l.Remove(elem)
	changed.add(elem, nil)
	return true
}

// Confirm ends a reservation and counts its cost as admitted now. It returns false if there is none
// with this id.
func (l *Limit) Confirm(id []byte, now int64, changed *LimitChanges) bool {
	val, _, ok := l.Element(LimitHeldKey(nil, id))
	if !ok {
		return false
	}
	cost, rules, _ := parseHeld(val)
	l.Return(id, changed)
	l.Admit(rules, now, cost, changed)
	return true
}

// EachHeld visits the reservations.
func (l *Limit) EachHeld(fn func(id []byte, cost, deadline int64)) {
	if l.held == nil {
		return
	}
	l.held.Walk(func(elem, val []byte, deadline int64) bool {
		cost, _, _ := limitNumber(val)
		fn(LimitHeldID(elem), cost, deadline)
		return true
	})
}

// HeldLen returns the number of reservations.
func (l *Limit) HeldLen() int {
	if l.held == nil {
		return 0
	}
	return l.held.Len()
}

// FreshAt returns the instant, in Unix ms, from which on the value has the same effect as one
// without elements. This holds for limits with the kinds and spans that it has stored. The instant
// is after the deadlines of reservations. So each reservation ends by itself, and is reported,
// before the key goes. FreshAt depends only on the elements, so it is the same after a restart.
func (l *Limit) FreshAt() (at int64) {
	for i := range l.states {
		s := &l.states[i]
		n := &s.numbers
		switch s.kind {
		case 0:
		case LimitTokens:
			at = max(at, n[0])
			if n[1] > 0 {
				at = max(at, n[0]+1)
			}
		case LimitWindow:
			if live := s.window.live(); len(live) > 0 {
				at = max(at, live[len(live)-1].at+n[0])
			}
		case LimitApprox:
			at = max(at, (n[1]+2)*n[0])
		default:
			at = max(at, n[0])
		}
	}
	if l.held != nil {
		if last := l.held.latest(); last < math.MaxInt64 {
			at = max(at, last+1)
		}
	}
	return at
}

// appendHeld appends the value of a reservation: its cost, how many limits it counts for, and their
// definitions.
func appendHeld(b []byte, cost int64, rules []LimitRule) []byte {
	b = binary.AppendUvarint(b, uint64(cost))
	b = binary.AppendUvarint(b, uint64(len(rules)))
	for i := range rules {
		r := &rules[i]
		b = append(b, byte(r.Kind))
		b = binary.AppendUvarint(b, uint64(r.Count))
		switch r.Kind {
		case LimitTokens:
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Rate)), uint64(r.Span))
		case LimitUntil:
			b = binary.AppendUvarint(b, uint64(r.Until))
		default:
			b = binary.AppendUvarint(b, uint64(r.Span))
		}
	}
	return b
}

func parseHeld(b []byte) (cost int64, rules []LimitRule, ok bool) {
	next := func() (n int64) {
		if ok {
			n, b, ok = limitNumber(b)
		}
		return n
	}
	ok = true
	cost = next()
	limits := next()
	if !ok || cost < 1 || cost > MaxLimitCount || limits < 1 || limits > MaxLimits {
		return 0, nil, false
	}
	rules = make([]LimitRule, limits)
	for i := range rules {
		r := &rules[i]
		r.Kind = LimitKind(next())
		r.Count = next()
		switch r.Kind {
		case LimitTokens:
			r.Rate, r.Span = next(), next()
		case LimitUntil:
			r.Until = next()
		default:
			r.Span = next()
		}
		if !ok || !r.Valid() || cost > r.Count {
			return 0, nil, false
		}
	}
	return cost, rules, len(b) == 0
}
