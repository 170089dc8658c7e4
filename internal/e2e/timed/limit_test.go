package timed

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// This file tests KEYP.LIMIT, which limits how often clients may do something. No limit may admit
// too many calls, even if the server is killed.

const (
	// askers is the number of clients that call KEYP.LIMIT for one key at a time. A fifth of them
	// ask for reservations.
	askers = 50
	// full is how many calls each key with counted limits admits.
	full = 40
	// reserved is how many reservations the key for reservations admits. confirmedMost of them are
	// confirmed and stay used.
	reserved, confirmedMost = 7, 4
	// kept is a reservation that a client keeps all the time.
	kept  = "kept"
	dayMs = 86_400_000
)

// counted returns limits that admit nothing again during a test.
func counted(tomorrow int64) [][]any {
	return [][]any{
		{"TOKENS", full, 1, dayMs},
		{"WINDOW", full, dayMs},
		{"WINDOW", full, dayMs, "APPROX"},
		{"UNTIL", full, tomorrow},
		{"TOKENS", full, 1, dayMs, "WINDOW", full, dayMs, "UNTIL", full, tomorrow},
	}
}

// paced are limits that admit more calls as time passes.
var paced = []struct {
	args []any
	// most returns how many calls are admitted at most, if their requests and replies lie within so
	// many ms.
	most func(ms int64) int64
}{
	{[]any{"TOKENS", 20, 200, 1000}, func(ms int64) int64 { return 20 + (ms+1)*200/1000 }},
	{[]any{"WINDOW", 30, 300}, func(ms int64) int64 { return 30 * (ms/300 + 1) }},
	{[]any{"TOKENS", 15, 300, 1000, "WINDOW", 30, 500}, func(ms int64) int64 {
		return min(15+(ms+1)*300/1000, 30*(ms/500+1))
	}},
}

// counts is what the test knows about a key.
type counts struct {
	admitted, lost int
	refused        bool
}

// admission is an admitted call on a key with paced limits. Its times are in ms since the start of
// the test.
type admission struct{ from, to int64 }

// limitTest records the replies that clients have got.
type limitTest struct {
	p     *place
	limit [][]any
	began time.Time
	mu    struct {
		sync.Mutex
		counts    []map[int]*counts // by limit, and by the number of its key
		key       []int             // the number of the key of each limit that has room
		paced     [3][]admission
		held      int // reservations that clients surely have
		confirmed int
		answers   int
	}
}

// TestLimits: fifty clients call KEYP.LIMIT at once while the server, or the leader of a group, is
// killed. No limit admits more calls than it may. Every call that was admitted counts, and a limit
// that refused a call was full. A call that was under way at a kill counts once or not at all.
func TestLimits(t *testing.T) {
	both(t, func(t *testing.T, p *place) {
		l := &limitTest{p: p, limit: counted(time.Now().Add(24 * time.Hour).UnixMilli()),
			began: time.Now()}
		c := p.caller(askers)
		defer c.close()
		if reply, _ := c.surely(take("TAKE", "reserved", []any{"WINDOW", reserved, dayMs},
			"RESERVE", kept, dayMs)...); !admits(t, reply) {
			t.Fatalf("a reservation: %v", reply)
		}
		l.mu.held = 1
		for range l.limit {
			l.mu.counts = append(l.mu.counts, map[int]*counts{0: {}})
			l.mu.key = append(l.mu.key, 0)
		}
		var work []func(*caller)
		for i := range askers {
			if i%5 == 0 {
				work = append(work, l.reserve)
			} else {
				work = append(work, l.ask)
			}
		}
		p.rounds(kills(t), work, func() func() bool {
			before, _ := l.progress()
			return func() bool {
				answers, confirmed := l.progress()
				return answers >= before+400 && confirmed > 0
			}
		})
		l.check(c)
	})
}

func (l *limitTest) progress() (answers, confirmed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.answers, l.mu.confirmed
}

// take returns the arguments of a call that takes one unit.
func take(sub, key string, limits []any, more ...any) []any {
	return append(append([]any{"KEYP.LIMIT", sub, key, 1}, limits...), more...)
}

func limitKey(limit, number int) string { return fmt.Sprintf("limit:%d:%d", limit, number) }

// ask calls KEYP.LIMIT for one limit after the other, taking one unit each time.
func (l *limitTest) ask(c *caller) {
	for !l.p.over.Load() && !l.p.t.Failed() {
		if c.rng.IntN(4) == 0 {
			l.askPaced(c)
		} else {
			l.askCounted(c)
		}
		await.Pass(time.Duration(c.rng.IntN(2000)) * time.Microsecond)
	}
}

func admits(t interface{ Errorf(string, ...any) }, reply any) bool {
	list, ok := reply.([]any)
	if !ok || len(list) != 5 {
		t.Errorf("a limit replies %v", reply)
		return false
	}
	return list[0] == int64(1)
}

func (l *limitTest) askCounted(c *caller) {
	limit := c.rng.IntN(len(l.limit))
	l.mu.Lock()
	number := l.mu.key[limit]
	k := l.mu.counts[limit][number]
	l.mu.Unlock()
	reply, err := c.once(take("TAKE", limitKey(limit, number), l.limit[limit])...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.answers++
	switch {
	case errors.Is(err, errLost):
		k.lost++
	case err != nil:
		l.p.t.Errorf("TAKE: %v", err)
	case admits(l.p.t, reply):
		k.admitted++
	default:
		k.refused = true
		if l.mu.key[limit] == number { // on to a new key
			l.mu.key[limit]++
			l.mu.counts[limit][number+1] = &counts{}
		}
	}
}

func (l *limitTest) askPaced(c *caller) {
	i := c.rng.IntN(len(paced))
	from := time.Since(l.began).Milliseconds()
	reply, err := c.once(take("TAKE", fmt.Sprint("paced:", i), paced[i].args)...)
	to := time.Since(l.began).Milliseconds() + 1
	if err != nil && !errors.Is(err, errLost) {
		l.p.t.Errorf("TAKE: %v", err)
	}
	if err == nil && admits(l.p.t, reply) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.paced[i] = append(l.mu.paced[i], admission{from, to})
	}
}

// reserve makes reservations and returns or confirms them. If a reply was lost, it sends the
// command again.
func (l *limitTest) reserve(c *caller) {
	window := []any{"WINDOW", reserved, dayMs}
	for n := 0; !l.p.over.Load() && !l.p.t.Failed(); n++ {
		await.Pass(time.Duration(c.rng.IntN(2000)) * time.Microsecond)
		id := fmt.Sprintf("%d:%d", c.id, n)
		reply, _ := c.surely(take("TAKE", "reserved", window, "RESERVE", id, dayMs)...)
		if !admits(l.p.t, reply) {
			continue
		}
		sub := "RETURN"
		l.mu.Lock()
		l.mu.answers++
		if l.mu.held++; l.mu.held+l.mu.confirmed > reserved {
			l.p.t.Errorf("%d are reserved and %d used, of %d", l.mu.held, l.mu.confirmed, reserved)
		}
		if c.rng.IntN(50) == 0 && l.mu.confirmed < confirmedMost {
			sub = "CONFIRM"
			l.mu.confirmed++
		}
		l.mu.held--
		l.mu.Unlock()
		if sub == "RETURN" {
			await.Pass(time.Duration(c.rng.IntN(2000)) * time.Microsecond)
		}
		if reply, again := c.surely("KEYP.LIMIT", sub, "reserved", id); reply != int64(1) &&
			!again {
			l.p.t.Errorf("%s of a reservation: %v", sub, reply)
		}
	}
}

// check compares the state of the keys with the replies that clients have got.
func (l *limitTest) check(c *caller) {
	t := l.p.t
	filled := 0
	for limit, keys := range l.mu.counts {
		for number, k := range keys {
			name := limitKey(limit, number)
			reply, _ := c.surely(take("PEEK", name, l.limit[limit])...)
			list, ok := reply.([]any)
			if !ok {
				t.Fatalf("PEEK: %v", reply)
			}
			for _, left := range list[3].([]any) {
				if used := full - int(left.(int64)); used < k.admitted || used > k.admitted+
					k.lost || k.refused && used != full {
					t.Errorf("%s %v: %d of %d are used; %d were admitted, of %d nobody knows, refused: %t",
						name, l.limit[limit], used, full, k.admitted, k.lost, k.refused)
				}
			}
			if k.refused {
				filled++
			}
		}
	}
	if filled == 0 {
		t.Error("no limit has ever refused anything")
	}
	for i, list := range l.mu.paced {
		checkPace(t, i, list)
	}
	l.checkReserved(c)
}

// checkReserved checks that all reservations were returned or confirmed, except the kept one.
func (l *limitTest) checkReserved(c *caller) {
	t := l.p.t
	held, _ := c.surely("KEYP.LIMIT", "HELD", "reserved")
	if list, ok := held.([]any); !ok || len(list) != 1 || list[0].([]any)[0] != kept {
		t.Errorf("the reservations are %v, want one that is kept", held)
	}
	if reply, _ := c.surely("KEYP.LIMIT", "RETURN", "reserved", kept); reply != int64(1) {
		t.Errorf("RETURN of what is kept: %v", reply)
	}
	reply, _ := c.surely(take("PEEK", "reserved", []any{"WINDOW", reserved, dayMs})...)
	if list, ok := reply.([]any); !ok || list[3].([]any)[0] != int64(reserved-l.mu.confirmed) {
		t.Errorf("%d are used of %d, and the limit replies %v", l.mu.confirmed, reserved, reply)
	}
}

// checkPace checks each span of time: of the calls that began and ended in it, no more were
// admitted than the limit allows.
func checkPace(t *testing.T, i int, list []admission) {
	t.Helper()
	slices.SortFunc(list, func(a, b admission) int { return int(a.to - b.to) })
	for _, first := range list {
		n := int64(0)
		for _, a := range list {
			if a.from < first.from {
				continue
			}
			if n++; n > paced[i].most(a.to-first.from) {
				t.Fatalf("%v has admitted %d within %d ms, and may %d", paced[i].args, n,
					a.to-first.from, paced[i].most(a.to-first.from))
			}
		}
	}
	if len(list) == 0 {
		t.Errorf("%v has admitted nothing", paced[i].args)
	}
}

// TestPace checks that checkPace's bounds are exactly those of the limits: one more call is too
// many.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		limit    int
		ms, most int64
	}{{0, 0, 20}, {0, 4, 21}, {0, 1000, 220}, {1, 299, 30}, {1, 300, 60}, {2, 10, 18},
		{2, 100, 30}, {2, 500, 60}} {
		if got := paced[tt.limit].most(tt.ms); got != tt.most {
			t.Errorf("%v admits %d within %d ms, want %d", paced[tt.limit].args,
				got, tt.ms, tt.most)
		}
	}
}
