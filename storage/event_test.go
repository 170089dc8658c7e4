package storage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/storage/object"
	"keyp/ttl"
)

// TestNewKeys: whichever way a new key is made, its event "new" comes before the event of the
// command that makes it. A key that a rename or copy overwrites counts as new, too.
func TestNewKeys(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	h.s.SetEvents(^EventClass(0))
	a, b := h.s.Key(0, []byte("a")), h.s.Key(1, []byte("b"))
	set := Event{EventString, "set"}
	for _, step := range []struct {
		fn   func(*Txn)
		want []string
	}{
		{func(x *Txn) { x.SetString(a, []byte("1"), ttl.Deadline{}, set) }, []string{"new", "set"}},
		{func(x *Txn) { x.SetString(a, []byte("2"), ttl.Deadline{}, set) }, []string{"set"}},
		{func(x *Txn) { x.SetString(a, make([]byte, 5000), ttl.Deadline{}, set) }, []string{"set"}},
		{func(x *Txn) { x.Copy(a, b) }, []string{"new"}},
		{func(x *Txn) { x.Copy(a, b) }, []string{"new"}},
		{func(x *Txn) { x.Rename(a, b) }, []string{"new"}},
		{func(x *Txn) { x.Rename(a, b) }, nil},
		{func(x *Txn) { x.Rename(b, a) }, []string{"new"}},
		{func(x *Txn) {
			v := &object.Set{}
			v.Add([]byte("m"), 0)
			x.Replace(a, v, ttl.Deadline{}, Event{EventSet, "sadd"})
		}, []string{"sadd"}},
		{func(x *Txn) { x.Delete(a, Deleted) }, []string{"del"}},
		{func(x *Txn) {
			s, err := x.Hash(a)
			if err != nil {
				t.Fatal(err)
			}
			s.Set([]byte("f"), []byte("v"), ttl.Deadline{})
			x.Notify(a, Event{EventHash, "hset"})
		}, []string{"new", "hset"}},
	} {
		h.do(step.fn, a, b)
		if got := h.eventNames(); !slices.Equal(got, step.want) {
			t.Errorf("events %v, want %v", got, step.want)
		}
	}
}

// TestNoEventsOfConflicts: an offloaded command whose keys have changed runs again. Nobody hears
// the events of the failed run, whether raised before or after the conflict was found.
func TestNoEventsOfConflicts(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	h.s.SetEvents(^EventClass(0))
	from, to := h.s.Key(0, []byte("from")), h.s.Key(0, []byte("to"))
	h.do(func(x *Txn) { x.SetString(from, make([]byte, 5000), ttl.Deadline{}, Event{}) }, from)
	var pins Pins
	aside, event := h.s.NewTxn(), Event{EventGeneric, "copy_to"}
	for _, changed := range []bool{true, false} {
		if !h.s.Begin(h.txn, []Key{from, to}) {
			t.Fatal("the keys cannot be locked")
		}
		pins.Pin(h.txn, []Key{from, to}, aside)
		if changed {
			h.do(func(x *Txn) { x.SetString(to, []byte("1"), ttl.Deadline{}, Event{}) }, to)
		}
		h.eventNames()
		aside.Notify(to, Event{EventMiss, "keymiss"})
		aside.Copy(from, to)
		aside.Notify(to, event)
		if aside.Conflicted() != changed {
			t.Fatalf("changed %v, conflicted %v", changed, aside.Conflicted())
		}
		aside.End()
		pins.Unpin(aside)
		want := []string{"keymiss", "new", "copy_to"}
		if changed {
			want = nil
		}
		if got := h.eventNames(); !slices.Equal(got, want) {
			t.Errorf("changed %v: events %v, want %v", changed, got, want)
		}
	}
}

// TestReapDelay: keys that were due when the store was opened are removed, with their events, only
// when the delay is over. Readers do not see these keys meanwhile. The histogram of lateness does
// not count them.
func TestReapDelay(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(h.clock.Now()+100), Event{}) }, k)
	h.s.reapFrom = h.clock.Now() + 1000
	h.s.options.ReapDelay = time.Second
	ended := make(chan struct{})
	go func() {
		h.s.awaitReapDelay()
		close(ended)
	}()
	for range 9 {
		h.clock.Advance(100 * time.Millisecond)
		select {
		case <-ended:
			t.Fatal("the reaper did not wait")
		default:
			await.Pass(time.Millisecond)
		}
	}
	h.eventNames()
	for waiting := true; waiting; { // it may have begun to wait after the first steps
		h.clock.Advance(100 * time.Millisecond)
		select {
		case <-ended:
			waiting = false
		default:
			await.Pass(time.Millisecond)
		}
	}
	if h.s.Reap(); !slices.Equal(h.eventNames(), []string{"expired"}) {
		t.Error("no event, or not the one")
	}
	if n := h.s.Stats().Lateness.Count; n != 0 {
		t.Errorf("%d keys counted as late", n)
	}
}

// TestExpiredNames: the names of expired keys are in memory blocks that are freed with the keys,
// some together with all the memory around them.
func TestExpiredNames(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	const keys = 12_000
	for i := range keys {
		k := h.s.Key(0, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) {
			x.SetString(k, make([]byte, 900), ttl.At(h.clock.Now()+10_000), Event{})
		}, k)
	}
	h.clock.Advance(10 * time.Second)
	h.eventNames()
	h.s.Reap()
	seen := map[string]bool{}
	for _, e := range h.events {
		if e.Name == "expired" {
			seen[string(e.Key)] = true
		}
	}
	for i := range keys {
		if name := fmt.Sprintf("k%d", i); !seen[name] {
			t.Fatalf("no event of %s; %d events, %d names", name, len(h.events), len(seen))
		}
	}
}
