package storage

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFlushAheadOfCheckpoint: a database is emptied between a checkpoint's rotation and the
// moment when it comes to the database. What the log said of that before the rotation is
// gone with the checkpoint: that a value had moved away, which must stay, or that keys
// were there, of which a crash must find all or the flush.
func TestFlushAheadOfCheckpoint(t *testing.T) {
	for seed := range uint64(8) {
		h := newHarness(t)
		t.Cleanup(func() { h.s.Close(false) })
		names := map[name]bool{{0, "from"}: true, {1, "to"}: true}
		for i := range 9 {
			names[name{0, keyName(i)}] = true
		}
		from, to := h.s.Key(0, []byte("from")), h.s.Key(1, []byte("to"))
		large := strings.Repeat("v", inlineMax+1)
		set := func(n name, v string) {
			k := h.s.Key(n.db, []byte(n.key))
			h.model[n] = value{data: v}
			h.do(func(x *Txn) { x.SetString(k, []byte(v), 0, Event{}) }, k)
		}
		checkpoint := func() {
			if err := h.s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			h.check()
		}
		set(name{0, "from"}, large)
		checkpoint()
		delete(h.model, name{0, "from"})
		h.model[name{1, "to"}] = value{data: large}
		h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
		h.commit()
		for n := range names {
			if n.db == 0 && n.key != "from" {
				set(n, "not on disk")
			}
		}
		h.commit()
		moment, err := h.s.rotate()
		if err != nil {
			t.Fatal(err)
		}
		h.commit()
		h.model = model{{1, "to"}: value{data: large}}
		h.doAll(func(x *Txn) { x.FlushDB(0) })
		if err := h.s.checkpointSince(moment); err != nil {
			t.Fatal(err)
		}
		h.crash(rand.New(rand.NewPCG(1, seed)), names)
		h.verify(names)
		checkpoint()
		h.reopen()
		h.verify(names)
	}
}

// TestSwapIsShown: what a key shows after SWAPDB is lost with that record, so it waits for it.
func TestSwapIsShown(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.do(func(x *Txn) { x.SetString(h.s.Key(1, []byte("k")), []byte("v"), 0, Event{}) }, h.s.Key(1, []byte("k")))
	h.commit()
	h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
	swapped := h.s.Log().End()
	for db, there := range []bool{true, false} {
		k := h.s.Key(db, []byte("k"))
		if !h.s.Begin(h.txn, []Key{k}) {
			t.Fatal("the key is not in memory")
		}
		if _, ok := h.txn.Get(k); ok != there {
			t.Errorf("database %d has the key: %v", db, ok)
		}
		if lsn := h.txn.End(); lsn < swapped {
			t.Errorf("a look at database %d waits for %d, the exchange is at %d", db, lsn, swapped)
		}
	}
}
