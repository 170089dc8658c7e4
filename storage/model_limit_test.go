package storage

import (
	"fmt"

	"pgregory.net/rapid"

	"keyp/storage/object"
)

// limitOf makes the value of a key with rate limits (KEYP.LIMIT) from its elements in the model.
func limitOf(c *content) *object.Limit {
	l := &object.Limit{}
	for _, e := range c.elems {
		if err := l.Put([]byte(e.key), []byte(e.val), e.deadline); err != nil {
			panic(err)
		}
	}
	return l
}

// limits admits, reserves, confirms or returns the given number of times. It does the same in the
// store and in a separate value, from which the model's content is made. While time is guarded it
// does nothing, as the model could not tell which deadlines move.
func (e *editor) limits(times int) {
	if e.m.h.ahead != 0 {
		return
	}
	m := limitOf(e.c)
	for i := range times {
		e.limit(m, i)
	}
	e.c.elems = contentOf(m).elems
}

func (e *editor) limit(m *object.Limit, i int) {
	l, err := e.t.Limit(e.k)
	e.opened(err)
	now := e.t.Now()
	draw := func(label string, to int64) int64 { return rapid.Int64Range(1, to).Draw(e.rt, label) }
	rules := make([]object.LimitRule, draw("limits", 4))
	for i := range rules {
		switch r := &rules[i]; draw("kind", 4) {
		case 1:
			*r = object.LimitRule{Kind: object.LimitTokens, Count: draw("burst", 20),
				Rate: draw("rate", 7), Span: draw("per", 3000)}
		case 2:
			*r = object.LimitRule{Kind: object.LimitWindow, Count: draw("max", 300),
				Span: draw("span", 3000)}
		case 3:
			*r = object.LimitRule{Kind: object.LimitApprox, Count: draw("max", 300),
				Span: draw("span", 1000)}
		default:
			*r = object.LimitRule{Kind: object.LimitUntil, Count: draw("max", 300),
				Until: now + draw("end", 3000)}
		}
	}
	var changes object.LimitChanges
	cost, id := draw("cost", 3), fmt.Append(nil, "r", draw("id", 8)+8*int64(i))
	free := m.Over(rules, now) == 0
	if free {
		refuses, retry := m.Ask(rules, now, cost)
		got, after := l.Value().Ask(rules, now, cost)
		e.must("Ask", got, refuses)
		e.must("Ask", after, retry)
		free = refuses == 0
	}
	switch op := draw("op", 6); {
	case op <= 2 && free:
		l.Admit(rules, cost)
		m.Admit(rules, now, cost, &changes)
	case op <= 4 && free && !m.Held(id):
		deadline := e.m.tagged(now+draw("ttl", 4000), false)
		l.Hold(id, rules, cost, deadline)
		m.Hold(id, rules, cost, deadline, &changes)
	case op == 5:
		e.must("Return", l.Return(id), m.Return(id, &changes))
	default:
		e.must("Confirm", l.Confirm(id), m.Confirm(id, now, &changes))
	}
	if changes.Len() == 0 {
		return
	}
	l.Finish()
	if at := m.FreshAt(); at <= now {
		*m = object.Limit{}
	} else if at != e.deadline {
		e.deadline, e.fixed = at, true
	}
}
