package storage

import (
	"math/rand/v2"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/ttl"
)

// TestFlushAheadOfCheckpoint: a database is emptied after a checkpoint has begun and before the
// checkpoint reaches its keys. The checkpoint then releases the earlier part of the log. A value
// that RENAME or MOVE had taken to another database before must stay. After a crash the emptied
// database has all its keys or none.
func TestFlushAheadOfCheckpoint(t *testing.T) {
	for seed := range uint64(8) {
		h := newHarness(t)
		t.Cleanup(func() { h.s.Close(false) })
		names := map[name]bool{{0, "from"}: true, {1, "to"}: true}
		for i := range 9 {
			names[name{0, keyName(i)}] = true
		}
		from, to := h.s.Key(0, []byte("from")), h.s.Key(1, []byte("to"))
		large := strings.Repeat("v", format.InlineMax+1)
		set := func(n name, v string) {
			k := h.s.Key(n.db, []byte(n.key))
			h.model[n] = value{data: v}
			h.do(func(x *Txn) { x.SetString(k, []byte(v), ttl.Deadline{}, Event{}) }, k)
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
		moment, err := h.s.checkpointer.rotate()
		if err != nil {
			t.Fatal(err)
		}
		h.commit()
		h.model = model{{1, "to"}: value{data: large}}
		h.doAll(func(x *Txn) { x.FlushDB(0) })
		if err := h.s.checkpointer.writeSince(moment); err != nil {
			t.Fatal(err)
		}
		h.crash(rand.New(rand.NewPCG(1, seed)), names)
		h.verify(names)
		checkpoint()
		h.reopen()
		h.verify(names)
	}
}

// TestSwapIsShown: a reply that shows a key's value after SWAPDB waits for the record of the swap
// to be durable.
func TestSwapIsShown(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.do(func(x *Txn) {
		x.SetString(h.s.Key(1, []byte("k")), []byte("v"), ttl.Deadline{}, Event{})
	}, h.s.Key(1, []byte("k")))
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

// TestFlushOfNothing: databases without keys, or with nothing in the data file, leave no garbage
// and no records when they are emptied again and again. Other databases do.
func TestFlushOfNothing(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(1, []byte("k"))
	set := func() { h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k) }
	flush := func() {
		h.doAll(func(x *Txn) {
			for db := range h.databases {
				x.FlushDB(db)
			}
		})
	}
	flush()
	h.commit()
	for range 1000 {
		flush()
	}
	if end := h.s.Log().End(); end != h.s.Log().Durable() {
		t.Errorf("the log is at %d and was at %d before databases without a key were emptied", end,
			h.s.Log().Durable())
	}
	for range 100 {
		set()
		flush()
	}
	if n := len(h.s.garbage.mu.items); n != 0 {
		t.Errorf("%d items of garbage when nothing was on disk", n)
	}
	h.reopen() // the log has said all of that
	if n := len(h.s.garbage.mu.items); n != 0 {
		t.Errorf("%d items of garbage after a restart", n)
	}
	for _, deleted := range []bool{false, true} { // entries of slots stay then
		set()
		h.saved()
		if deleted {
			h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
			h.saved()
			h.reopen()
		}
		flush()
		if n := len(h.s.garbage.mu.items); n != 1 {
			t.Errorf("%d items of garbage of a database that was on disk", n)
		}
		h.saved()
		h.check()
		h.reopen()
	}
	if err := h.s.file.View(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{format.BucketValues, format.BucketSlots, format.BucketGarbage} {
			if k, _ := tx.Bucket(b).Cursor().First(); k != nil {
				t.Errorf("bucket %s has %x", b, k)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
