package timed

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// maxAge is the maximum age of the streams' entries, in ms.
const maxAge = 250

// entryID is the ID of an entry.
type entryID struct{ ms, seq int64 }

func (a entryID) compare(b entryID) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.seq, b.seq))
}

func readID(t interface{ Errorf(string, ...any) }, reply any) entryID {
	text, _ := reply.(string)
	ms, seq, _ := strings.Cut(text, "-")
	a, err := strconv.ParseInt(ms, 10, 64)
	b, err2 := strconv.ParseInt(seq, 10, 64)
	if err != nil || err2 != nil {
		t.Errorf("an ID is %v", reply)
	}
	return entryID{a, b}
}

// agedTest records what clients have seen of a stream.
type agedTest struct {
	p       *place
	stepped bool
	mu      struct {
		sync.Mutex
		added []entryID // that were acknowledged
		gone  entryID   // all up to it were there, and are gone for somebody
		reads int
		seen  int // how often an entry was found gone
	}
}

// TestStreamsAge lets clients add entries to a stream with a maximum age and read it. Meanwhile the
// server, or the leader of a group, is killed. No reader gets an entry that has reached the maximum
// age, and every reader gets the younger entries. No reader gets an entry that another one found
// gone.
func TestStreamsAge(t *testing.T) {
	both(t, func(t *testing.T, p *place) { (&agedTest{p: p}).run() })
}

// TestStreamsAgeClockSetBack is the same test with a clock that is set back, or forward again, at
// each start.
func TestStreamsAgeClockSetBack(t *testing.T) {
	p := alone(t)
	p.steps = []int64{0, -3_600_000}
	(&agedTest{p: p, stepped: true}).run()
}

func (a *agedTest) run() {
	t := a.p.t
	c := a.p.caller(100)
	defer c.close()
	first, _ := c.surely("XADD", "s", "*", "f", "v")
	a.mu.added = append(a.mu.added, readID(t, first))
	if reply, _ := c.surely("XCFGSET", "s", "MAXAGE", maxAge); reply != "OK" {
		t.Fatalf("XCFGSET: %v", reply)
	}
	var work []func(*caller)
	for i := range 8 {
		if i%2 == 0 {
			work = append(work, a.add)
		} else {
			work = append(work, a.read)
		}
	}
	a.p.rounds(kills(t), work, func() func() bool {
		reads, gone := a.progress()
		return func() bool {
			r, g := a.progress()
			return r > reads+100 && (g > gone || a.stepped && r > reads+300 && g > 0)
		}
	})
}

func (a *agedTest) progress() (reads, gone int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.reads, a.mu.seen
}

func (a *agedTest) add(c *caller) {
	for !a.p.over.Load() && !a.p.t.Failed() {
		reply, err := c.once("XADD", "s", "*", "f", fmt.Sprint(c.id))
		switch {
		case err == nil:
			id := readID(a.p.t, reply)
			a.mu.Lock()
			a.mu.added = append(a.mu.added, id)
			a.mu.Unlock()
		case !errors.Is(err, errLost):
			a.p.t.Errorf("XADD: %v", err)
		}
		await.Pass(time.Duration(c.rng.IntN(4000)) * time.Microsecond)
	}
}

// read reads the stream and checks which entries are there.
func (a *agedTest) read(c *caller) {
	for !a.p.over.Load() && !a.p.t.Failed() {
		a.look(c)
		await.Pass(time.Duration(c.rng.IntN(4000)) * time.Microsecond)
	}
}

func (a *agedTest) look(c *caller) {
	t := a.p.t
	a.mu.Lock()
	gone, known := a.mu.gone, a.mu.added[max(0, len(a.mu.added)-2000):]
	a.mu.Unlock()
	from := time.Now().UnixMilli()
	reply, err := c.once("XRANGE", "s", "-", "+")
	to := time.Now().UnixMilli()
	if errors.Is(err, errLost) {
		return
	}
	list, ok := reply.([]any)
	if err != nil || !ok {
		t.Errorf("XRANGE: %v, %v", reply, err)
		return
	}
	there := map[entryID]bool{}
	for _, item := range list {
		id := readID(t, item.([]any)[0])
		there[id] = true
		if id.compare(gone) <= 0 {
			t.Errorf("%v was gone, and is there", id)
		}
		if !a.stepped && id.ms+maxAge <= from {
			t.Errorf("%v is there at its age", id)
		}
	}
	for _, id := range known {
		if there[id] {
			continue
		}
		if !a.stepped && id.ms+maxAge > to {
			t.Errorf("%v is gone before its age", id)
		}
		if id.compare(gone) > 0 {
			gone = id
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.reads++
	if gone.compare(a.mu.gone) > 0 {
		a.mu.gone = gone
		a.mu.seen++
	}
}
