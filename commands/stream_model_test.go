package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// groupModel is a simple model of a stream with a group. IDs are 1-1, 1-2 and so on.
type groupModel struct {
	next    int            // sequence number of the next entry
	entries map[int]bool   // those that are there
	last    int            // delivered
	pending map[int]*given // by sequence number
	line    int64          // how many were given back
}

// given is a pending entry.
type given struct {
	consumer string // "": none
	at       int64  // ms since the beginning; without a consumer, a place in line
	count    int64
}

// ids returns the numbers in order.
func ids[V any](of map[int]V) []int {
	list := make([]int, 0, len(of))
	for id := range of {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

func streamIDText(n int) string { return fmt.Sprint("1-", n) }

// state returns the expected reply of XPENDING.
func (m *groupModel) state(now int64) string {
	var list []string
	for _, id := range ids(m.pending) {
		p := m.pending[id]
		idle := now - p.at
		if p.consumer == "" {
			idle = -1
		}
		list = append(list, fmt.Sprintf("[%q, %q, %d, %d]", streamIDText(id), p.consumer, idle,
			p.count))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// TestGroupProperty: consumers read, acknowledge, claim and give back entries, and some entries are
// deleted. The pending entries are always those of the model, also over restarts. Each entry is
// delivered as new only once.
func TestGroupProperty(t *testing.T) {
	h := newHarness(t)
	rapid.Check(t, func(rt *rapid.T) {
		h.t = rt
		h.do("FLUSHALL")
		h.do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
		m := &groupModel{next: 1, entries: map[int]bool{}, pending: map[int]*given{}}
		now := int64(0)
		consumer := rapid.SampledFrom([]string{"a", "b", "c"})
		var history []string
		do := func(args ...string) string {
			history = append(history, strings.Join(args, " "))
			return h.do(args...)
		}
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			id := rapid.IntRange(1, max(m.next, 2)).Draw(rt, "id")
			c := consumer.Draw(rt, "consumer")
			switch rapid.IntRange(0, 11).Draw(rt, "step") {
			case 0, 1, 2:
				do("XADD", "s", streamIDText(m.next), "f", "v")
				m.entries[m.next] = true
				m.next++
			case 3, 4, 5:
				do("XREADGROUP", "GROUP", "g", c, "COUNT", "2", "STREAMS", "s", ">")
				m.read(c, 2, now)
			case 6:
				do("XACK", "s", "g", streamIDText(id))
				delete(m.pending, id)
			case 7:
				do("XDEL", "s", streamIDText(id))
				delete(m.entries, id)
			case 8:
				do("XCLAIM", "s", "g", c, "5", streamIDText(id))
				m.claim(c, id, 5, now)
			case 9:
				do("XNACK", "s", "g", "SILENT", "IDS", "1", streamIDText(id))
				if p := m.pending[id]; p != nil {
					m.line++
					p.consumer, p.at, p.count = "", m.line, max(p.count-1, 0)
				}
			case 10:
				do("XREADGROUP", "GROUP", "g", c, "CLAIM", "5", "COUNT", "2", "STREAMS", "s", ">")
				m.readOrClaim(c, now)
			default:
				if rapid.IntRange(0, 5).Draw(rt, "restart") == 0 {
					history = append(history, "reopen")
					h.reopen()
				}
				now += 3
				h.clock.Advance(3_000_000)
			}
			if got, want := h.do("XPENDING", "s", "g", "-", "+", "1000"),
				m.state(now); got != want {
				rt.Fatalf("%s\npending %s\nwant    %s", strings.Join(history, "\n"), got, want)
			}
		}
	})
}

// read delivers new entries.
func (m *groupModel) read(consumer string, count int, now int64) {
	for _, id := range ids(m.entries) {
		if id > m.last && count > 0 {
			m.last, m.pending[id] = id, &given{consumer, now, 1}
			count--
		}
	}
}

func (m *groupModel) claim(consumer string, id int, idle, now int64) {
	switch p := m.pending[id]; {
	case p == nil:
	case !m.entries[id]:
		delete(m.pending, id)
	case p.consumer == "" || now-p.at >= idle:
		m.pending[id] = &given{consumer, now, p.count + 1}
	}
}

// readOrClaim delivers entries that were given back, then those that have been pending longest, and
// then new ones.
func (m *groupModel) readOrClaim(consumer string, now int64) {
	var idle []int
	for _, id := range ids(m.pending) {
		if p := m.pending[id]; m.entries[id] && (p.consumer == "" || now-p.at >= 5) {
			idle = append(idle, id)
		}
	}
	slices.SortStableFunc(idle, func(a, b int) int { return cmp.Compare(m.order(a), m.order(b)) })
	idle = idle[:min(len(idle), 2)]
	for _, id := range idle {
		m.pending[id] = &given{consumer, now, m.pending[id].count + 1}
	}
	m.read(consumer, 2-len(idle), now)
}

// order returns the position of a pending entry.
func (m *groupModel) order(id int) int64 {
	p := m.pending[id]
	if p.consumer == "" {
		return p.at - 1<<40
	}
	return p.at
}
