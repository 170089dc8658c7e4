package object

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// limitModel has the right behaviour of limits. It uses exact fractions and a list of everything
// that was ever admitted.
type limitModel struct {
	rules    []LimitRule
	admitted []admission
	level    []*big.Rat // tokens of the buckets, at now
	end      []int64    // of the windows in force
	used     []int64
	held     map[string]modelHeld
	now      int64
}

type modelHeld struct{ cost, deadline int64 }

func (m *limitModel) advance(ms int64) {
	m.now += ms
	for i := range m.rules {
		r := &m.rules[i]
		m.level[i].Add(m.level[i], big.NewRat(ms*r.Rate, max(r.Span, 1)))
		if burst := big.NewRat(r.Count, 1); m.level[i].Cmp(burst) > 0 {
			m.level[i] = burst
		}
		if m.end[i] <= m.now {
			m.used[i] = 0
		}
	}
	for id, h := range m.held {
		if h.deadline <= m.now {
			delete(m.held, id)
		}
	}
}

func (m *limitModel) left(i int) int64 {
	r := &m.rules[i]
	left := r.Count
	switch r.Kind {
	case LimitTokens:
		left = new(big.Int).Div(m.level[i].Num(), m.level[i].Denom()).Int64()
	case LimitWindow:
		for _, a := range m.admitted {
			if a.at > m.now-r.Span {
				left -= a.amount
			}
		}
	case LimitApprox:
		cell, into := m.now/r.Span, m.now%r.Span
		var before int64
		for _, a := range m.admitted {
			switch a.at / r.Span {
			case cell:
				left -= a.amount
			case cell - 1:
				before += a.amount
			}
		}
		left -= (before*(r.Span-into) + r.Span - 1) / r.Span
	case LimitUntil:
		left -= m.used[i]
	}
	for _, h := range m.held {
		left -= h.cost
	}
	return max(left, 0)
}

func (m *limitModel) admit(cost int64) {
	m.admitted = append(m.admitted, admission{m.now, cost})
	for i := range m.rules {
		m.level[i].Sub(m.level[i], big.NewRat(cost, 1))
		if r := &m.rules[i]; r.Kind == LimitUntil {
			if m.used[i] == 0 {
				m.end[i] = r.Until
			}
			if m.end[i] > m.now {
				m.used[i] += cost
			}
		}
	}
}

func limitText(l *Limit) string {
	var b bytes.Buffer
	l.Walk(func(elem, val []byte, deadline int64) bool {
		fmt.Fprintf(&b, "%q %q %d\n", elem, val, deadline)
		return true
	})
	return b.String()
}

// TestLimitModel compares limits with limitModel. Applying the changes that an operation reports to
// a copy makes the copy equal. The retry time of a refusal is the first instant at which the cost
// is admitted.
func TestLimitModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &limitModel{now: 1_700_000_000_000, held: map[string]modelHeld{}}
		for range rapid.IntRange(1, 4).Draw(t, "limits") {
			r := LimitRule{
				Kind:  LimitKind(rapid.IntRange(1, 4).Draw(t, "kind")),
				Count: rapid.SampledFrom([]int64{4, 12, 7, 1}).Draw(t, "count"),
				// Rapid would draw the bounds of a range most often, and they make no fractions of
				// a token.
				Rate: rapid.SampledFrom([]int64{7, 3, 9, 1}).Draw(t, "rate"),
				Span: rapid.SampledFrom([]int64{10, 50, 11, 1}).Draw(t, "span"),
			}
			m.rules = append(m.rules, r)
			m.level = append(m.level, big.NewRat(r.Count, 1))
		}
		m.end, m.used = make([]int64, len(m.rules)), make([]int64, len(m.rules))
		l, replica := &Limit{}, &Limit{}
		var changes LimitChanges
		replay := func(deadline int64) {
			for i := range changes.Len() {
				elem, val := changes.At(i)
				if val == nil {
					replica.Remove(elem)
					continue
				}
				at := int64(0)
				if elem[0] == LimitTagHeld {
					at = deadline
				}
				if err := replica.Put(elem, val, at); err != nil {
					t.Fatalf("%q %q: %v", elem, val, err)
				}
			}
			changes.Clear()
		}
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			m.advance(rapid.SampledFrom([]int64{0, 1, 2, 3, 5, 9, 10, 30}).Draw(t, "ms"))
			for _, v := range []*Limit{l, replica} {
				v.Due(m.now, 1<<30, func(_, _ []byte, _ int64) {})
			}
			for i := range m.rules {
				m.rules[i].Until = (m.now/40 + 1) * 40
			}
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			_, isHeld := m.held[id]
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); op {
			case 0, 1, 2:
				cost := rapid.Int64Range(1, 13).Draw(t, "cost")
				refuses, retry := l.Ask(m.rules, m.now, cost)
				want := true
				for i := range m.rules {
					left := m.left(i)
					if got, _ := l.Left(i, &m.rules[i], m.now); got != left {
						t.Fatalf("at %d limit %d has %d left, want %d", m.now, i+1, got, left)
					}
					want = want && left >= cost
				}
				if (refuses == 0) != want {
					t.Fatalf("at %d limit %d refuses %d, admitted should be %v", m.now,
						refuses, cost, want)
				}
				if refuses != 0 {
					checkRetry(t, l, m, cost, retry)
					break
				}
				if op == 2 && !isHeld {
					h := modelHeld{cost, m.now + rapid.Int64Range(1, 60).Draw(t, "ttl")}
					m.held[id] = h
					l.Hold([]byte(id), m.rules, cost, h.deadline, &changes)
					replay(h.deadline)
					break
				}
				m.admit(cost)
				l.Admit(m.rules, m.now, cost, &changes)
				replay(0)
			case 3:
				if l.Return([]byte(id), &changes) != isHeld {
					t.Fatalf("%s is held: %v", id, isHeld)
				}
				delete(m.held, id)
				replay(0)
			case 4:
				// The end of an UNTIL limit is fixed when the cost is reserved, also in the model.
				if isHeld && !hasUntil(m.rules) {
					cost := m.held[id].cost
					delete(m.held, id)
					m.admit(cost)
					if !l.Confirm([]byte(id), m.now, &changes) {
						t.Fatalf("%s is not held", id)
					}
					replay(0)
				}
			case 5:
				l = l.Clone().(*Limit)
			}
			if got, want := limitText(replica), limitText(l); got != want {
				t.Fatalf("the copy has\n%swant\n%s", got, want)
			}
			if fresh := l.FreshAt(); fresh > m.now {
				for i := range m.rules {
					if left, reset := l.Left(i, &m.rules[i], fresh); l.HeldLen() == 0 &&
						(left != m.rules[i].Count || reset != 0) {
						t.Fatalf("at %d limit %d has %d left, and resets in %d", fresh,
							i+1, left, reset)
					}
				}
			}
		}
	})
}

func hasUntil(rules []LimitRule) bool {
	for i := range rules {
		if rules[i].Kind == LimitUntil {
			return true
		}
	}
	return false
}

func checkRetry(t *rapid.T, l *Limit, m *limitModel, cost, retry int64) {
	if retry < 0 {
		for i := range m.rules {
			if cost > m.rules[i].Count {
				return
			}
		}
		t.Fatalf("%d is never admitted", cost)
	}
	for _, ms := range []int64{retry - 1, retry} {
		later := l.Clone().(*Limit)
		later.Due(m.now+ms, 1<<30, func(_, _ []byte, _ int64) {})
		if refuses, _ := later.Ask(m.rules, m.now+ms, cost); (refuses == 0) != (ms == retry) {
			t.Fatalf("at %d, in %d ms of %d, limit %d refuses %d", m.now, ms, retry, refuses, cost)
		}
	}
}

// TestLimitExtremes: with the largest allowed numbers nothing overflows.
func TestLimitExtremes(t *testing.T) {
	const most = MaxLimitCount
	for _, r := range []LimitRule{
		{Kind: LimitTokens, Count: most, Rate: most, Span: MaxLimitSpan},
		{Kind: LimitTokens, Count: 1, Rate: 1, Span: MaxLimitSpan},
		{Kind: LimitWindow, Count: most, Span: 1},
		{Kind: LimitApprox, Count: most, Span: MaxLimitSpan},
		{Kind: LimitUntil, Count: most, Until: maxLimitTime},
	} {
		if !r.Valid() {
			t.Errorf("%+v is not valid", r)
			continue
		}
		l, rules, now := &Limit{}, []LimitRule{r}, int64(1_700_000_000_000)
		var changes LimitChanges
		l.Admit(rules, now, r.Count, &changes)
		left, reset := l.Left(0, &r, now)
		if refuses, retry := l.Ask(rules, now, 1); refuses != 1 || retry < 1 ||
			left != 0 || reset < 1 {
			t.Errorf("%+v: limit %d refuses for %d ms, %d left, whole in %d", r, refuses,
				retry, left, reset)
		}
		// When the clock is set back by a year, the limit admits nothing that it refused before.
		if refuses, _ := l.Ask(rules, now-365*86_400_000, 1); refuses != 1 {
			t.Errorf("%+v admits more when the clock was set back", r)
		}
	}
}

// TestLimitSumsAreBounded: elements from elsewhere, each within its bounds, cannot add up to an
// overflow.
func TestLimitSumsAreBounded(t *testing.T) {
	rules := []LimitRule{{Kind: LimitWindow, Count: MaxLimitCount, Span: 1000}}
	for what, put := range map[string]func(l *Limit, i int64) error{
		"admitted": func(l *Limit, i int64) error {
			key := limitAdmittedKey(0, 1_700_000_000_000+i)
			return l.Put(key[:], admission{0, MaxLimitCount}.append(nil), 0)
		},
		"held": func(l *Limit, i int64) error {
			id := binary.BigEndian.AppendUint64(nil, uint64(i))
			return l.Put(LimitHeldKey(nil, id), appendHeld(nil, MaxLimitCount, rules),
				1_700_000_000_000)
		},
	} {
		l := &Limit{}
		const enough = maxLimitTime/MaxLimitCount + 1
		for i := range int64(enough) {
			if err := put(l, i); err != nil || l.Bounded() != (i < enough-1) {
				t.Fatalf("%s: %d of %d are within the bound: %v (%v)", what, i+1,
					int64(MaxLimitCount), l.Bounded(), err)
			}
		}
	}
}

// TestLimitWindowSetBack: when the clock is set back by hours, a window still keeps at most its
// maximum number of times. Everything that it admits counts.
func TestLimitWindowSetBack(t *testing.T) {
	l, start := &Limit{}, int64(1_700_000_000_000)
	rules := []LimitRule{{Kind: LimitWindow, Count: MaxLimitCount, Span: MaxLimitTimes}}
	sum := int64(0)
	admit := func(now int64) {
		var changes LimitChanges
		l.Admit(rules, now, 2, &changes)
		sum += 2
		for i := range changes.Len() { // what is logged gives the same
			elem, val := changes.At(i)
			if got, _, ok := l.Element(elem); !ok || !bytes.Equal(got, val) {
				t.Fatalf("element %x is %x, and logged as %x", elem, got, val)
			}
		}
	}
	for i := range int64(MaxLimitTimes) {
		admit(start + i)
	}
	for back := range int64(5) {
		for i := range int64(100) {
			admit(start - (back+3)*3_600_000 + i)
		}
	}
	if n := len(l.states[0].window.live()); n != MaxLimitTimes {
		t.Errorf("the window keeps %d times", n)
	}
	full := []LimitRule{{Kind: LimitWindow, Count: sum, Span: MaxLimitTimes}}
	last := start + MaxLimitTimes - 1
	for _, now := range []int64{start - 9*3_600_000, start, last} {
		if refuses, _ := l.Ask(full, now, 1); refuses != 1 {
			t.Errorf("at %d it admits more than %d", now-start, sum)
		}
	}
	if at := l.FreshAt(); at != last+MaxLimitTimes {
		t.Errorf("it is fresh at %d, %d late", at, at-last-MaxLimitTimes)
	}
}

// TestLimitFreshBehindAll: a value with many reservations is fresh only after the last of the
// present reservations.
func TestLimitFreshBehindAll(t *testing.T) {
	l, now := &Limit{}, int64(1_700_000_000_000)
	rules := []LimitRule{{Kind: LimitWindow, Count: 1000, Span: 5}}
	var changes LimitChanges
	id := func(i int64) []byte { return fmt.Appendf(nil, "%03d", i) }
	for i := range int64(200) {
		l.Hold(id(i), rules, 1, now+10+i, &changes)
		if at := l.FreshAt(); at != now+11+i {
			t.Fatalf("with %d it is fresh at %d", i+1, at-now)
		}
	}
	for i := int64(199); i > 0; i-- {
		l.Return(id(i), &changes)
		if at := l.FreshAt(); at != now+10+i {
			t.Fatalf("with %d it is fresh at %d", i, at-now)
		}
	}
}

// TestLimitManyReservations: the value has so many reservations that it is in its large form. The
// retry time of a refusal is still the first instant at which the cost is admitted, whatever limits
// there are.
func TestLimitManyReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &limitModel{now: 1_700_000_000_000, rules: []LimitRule{
			{Kind: LimitWindow, Count: 2000, Span: 400},
			{Kind: LimitUntil, Count: 3000, Until: 1_700_000_005_000},
			{Kind: LimitTokens, Count: 2500, Rate: 7, Span: 3},
			{Kind: LimitWindow, Count: 1900, Span: 300},
		}}
		l := &Limit{}
		var changes LimitChanges
		for range 40 {
			m.now += rapid.Int64Range(1, 9).Draw(t, "ms")
			l.Admit(m.rules, m.now, rapid.Int64Range(1, 15).Draw(t, "admitted"), &changes)
		}
		for i := range 100 {
			limits := m.rules[:rapid.IntRange(1, len(m.rules)).Draw(t, "limits")]
			ends := m.now + rapid.Int64Range(1, 500).Draw(t, "ttl")
			l.Hold(fmt.Append(nil, i), limits, rapid.Int64Range(1, 10).Draw(t, "held"), ends,
				&changes)
		}
		for range 5 {
			cost := rapid.Int64Range(1000, 1900).Draw(t, "cost")
			if refuses, retry := l.Ask(m.rules, m.now, cost); refuses != 0 {
				checkRetry(t, l, m, cost, retry)
			}
		}
	})
}

// TestLimitRefusalIsBounded: a refusal looks at a bounded number of reservations. If these are not
// enough, its retry time is the end of the last one it has looked at.
func TestLimitRefusalIsBounded(t *testing.T) {
	l, now := &Limit{}, int64(1_700_000_000_000)
	rules := []LimitRule{{Kind: LimitUntil, Count: 3 * maxLimitEndings, Until: now + 1_000_000_000}}
	var changes LimitChanges
	for i := range rules[0].Count {
		l.Hold(fmt.Append(nil, i), rules, 1, now+1000+i, &changes)
		changes.Clear()
	}
	for cost, want := range map[int64]int64{
		1: 1000, 2: 1001, maxLimitEndings: 1000 + maxLimitEndings - 1, maxLimitEndings + 1: 1000 +
			maxLimitEndings - 1, rules[0].Count: 1000 + maxLimitEndings - 1,
	} {
		if refuses, retry := l.Ask(rules, now, cost); refuses != 1 || retry != want {
			t.Errorf("%d: limit %d refuses, try again in %d ms, want %d", cost,
				refuses, retry, want)
		}
	}
}
