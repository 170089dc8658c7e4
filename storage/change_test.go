package storage

import (
	"fmt"
	"testing"
	"time"

	"keyp/storage/object"
	"keyp/ttl"
)

// TestObserve: the observer hears of the right keys, once for each command, while the keys are
// still locked.
func TestObserve(t *testing.T) {
	h := newHarness(t)
	defer h.s.Close(false)
	a, b, l, q := h.s.Key(0, []byte("a")), h.s.Key(1, []byte("b")), h.s.Key(0, []byte("l")),
		h.s.Key(0, []byte("q"))
	var heard []string
	h.s.Observe(func(changes []Change) {
		for _, c := range changes {
			heard = append(heard, fmt.Sprintf("%d/%s", c.DB, c.Key))
			if c.LSN == 0 || c.LSN != h.s.log.End() {
				t.Errorf("%d/%s at %d, the log ends at %d", c.DB, c.Key, c.LSN, h.s.log.End())
			}
			if c.Key != nil && h.s.shards[h.s.shardOf(h.s.Key(0, c.Key).Slot)].mu.tryLock() {
				t.Errorf("%d/%s: nobody holds it", c.DB, c.Key)
			}
		}
	})
	for _, c := range []struct {
		what string
		do   func(*Txn)
		want string
	}{
		{"a look-up", func(x *Txn) { x.Get(a) }, "[]"},
		{"SET", func(x *Txn) { x.SetString(a, []byte("1"), ttl.Deadline{}, Event{}) }, "[0/a]"},
		{"a deadline", func(x *Txn) { x.SetDeadline(a, ttl.At(h.clock.Now()+10), Event{}) },
			"[0/a]"},
		{"a move", func(x *Txn) { x.Rename(a, b) }, "[0/a 1/b]"},
		{"two elements", func(x *Txn) {
			list, _ := x.List(l)
			list.PushBack([]byte("x"))
			list.PushBack([]byte("y"))
		}, "[0/l]"},
		{"a group and an entry", func(x *Txn) {
			stream, _ := x.Stream(q)
			stream.Create()
			x.News()
			stream.CreateGroup([]byte("g"), object.StreamID{}, 0)
			if news := x.News(); len(news) != 0 {
				t.Errorf("a group is reported: %v", news)
			}
			stream.Add(object.StreamID{Ms: 1}, nil)
			if news := x.News(); len(news) != 1 {
				t.Errorf("of an entry behind a group is reported: %v", news)
			}
		}, "[0/q 0/q]"},
		{"removing what is not there", func(x *Txn) { x.Delete(a, Event{}) }, "[]"},
		{"a look-up after the deadline", func(x *Txn) {
			h.clock.Advance(20 * time.Millisecond)
			x.now = h.clock.Now()
			x.Get(b)
		}, "[1/b]"},
	} {
		heard = nil
		h.do(c.do, a, b, l, q)
		if got := fmt.Sprint(heard); got != c.want {
			t.Errorf("%s: heard %s, want %s", c.what, got, c.want)
		}
	}
	heard = nil
	h.do(func(x *Txn) { x.SetString(b, []byte("1"), ttl.At(h.clock.Now()+10), Event{}) }, b)
	h.clock.Advance(20 * time.Millisecond)
	h.s.Reap()
	x := h.s.NewTxn()
	h.s.BeginAll(x)
	x.FlushDB(0)
	x.SwapDB(0, 2)
	x.End()
	if got := fmt.Sprint(heard); got != "[1/b 1/b 0/ 0/ 2/]" {
		t.Errorf("a key that was reaped, FLUSHDB and SWAPDB: heard %s", got)
	}
	h.s.Observe(nil)
	heard = nil
	h.do(func(x *Txn) { x.SetString(a, []byte("1"), ttl.Deadline{}, Event{}) }, a)
	if heard != nil {
		t.Errorf("heard %s, though nobody is to", heard)
	}
}

// TestChangeSaysWhose: a change carries the client for whom the transaction makes it. Removing a
// due key is a change for nobody. News returns each changed key once, however often it changes.
func TestChangeSaysWhose(t *testing.T) {
	h := newHarness(t)
	defer h.s.Close(false)
	a, b := h.s.Key(0, []byte("a")), h.s.Key(0, []byte("b"))
	var heard []string
	text := func(c Change) string { return fmt.Sprintf("%s by %d due %v", c.Key, c.By, c.Due) }
	h.s.Observe(func(changes []Change) {
		for _, c := range changes {
			heard = append(heard, text(c))
		}
	})
	h.do(func(x *Txn) { x.SetString(a, []byte("1"), ttl.At(h.clock.Now()+10), Event{}) }, a)
	h.clock.Advance(20 * time.Millisecond)
	h.do(func(x *Txn) {
		x.By = 7
		x.Get(a)
		x.SetString(a, []byte("2"), ttl.Deadline{}, Event{})
		x.SetString(a, []byte("3"), ttl.Deadline{}, Event{})
		if news := x.News(); len(news) != 2 || text(news[0]) != "a by 7 due true" ||
			text(news[1]) != "a by 7 due false" {
			t.Errorf("news %v", news)
		}
		if news := x.News(); len(news) != 0 {
			t.Errorf("the same news again: %v", news)
		}
		x.SetString(a, []byte("4"), ttl.Deadline{}, Event{})
		x.Delete(b, Event{})
		if news := x.News(); len(news) != 1 || text(news[0]) != "a by 7 due false" {
			t.Errorf("news %v", news)
		}
	}, a, b)
	h.do(func(x *Txn) { x.Delete(a, Event{}) }, a)
	empty := h.s.Key(0, []byte{})
	x := h.s.NewTxn()
	h.s.Begin(x, []Key{empty})
	x.SetString(empty, []byte("1"), ttl.Deadline{}, Event{})
	if news := x.News(); len(news) != 1 || news[0].Key == nil {
		t.Errorf("the key with an empty name is not reported: %v", news)
	}
	x.End()
	heard = heard[:5]
	want := "[a by 0 due false a by 7 due true a by 7 due false a by 7 due false a by 0 due false]"
	if got := fmt.Sprint(heard); got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
}
