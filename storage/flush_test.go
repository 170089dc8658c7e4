package storage

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
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

// TestForgottenElements: a value that was renamed before a checkpoint's rotation goes
// before the checkpoint ends. After a crash no log says that its elements are on disk.
func TestForgottenElements(t *testing.T) {
	names := map[name]bool{{0, "from"}: true, {1, "to"}: true}
	for _, flush := range []bool{false, true} {
		h := newHarness(t)
		t.Cleanup(func() { h.s.Close(false) })
		from, to := h.s.Key(0, []byte("from")), h.s.Key(1, []byte("to"))
		h.do(func(x *Txn) { x.SetString(from, make([]byte, inlineMax+1), 0, Event{}) }, from)
		h.saved()
		h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
		h.commit()
		moment, err := h.s.rotate()
		if err != nil {
			t.Fatal(err)
		}
		if flush {
			h.doAll(func(x *Txn) { x.FlushDB(1) })
		} else {
			h.do(func(x *Txn) { x.Delete(to, Deleted) }, to)
		}
		if err := h.s.checkpointSince(moment); err != nil {
			t.Fatal(err)
		}
		h.crash(rand.New(rand.NewPCG(1, 1)), names)
		h.verify(names)
		h.reopen()
		h.verify(names)
	}
}

// forgotten gives a value of which the data file has elements that nothing knows of: no
// record, no garbage and no key in memory.
func (h *harness) forgotten() (id uint64, yes bool) {
	t := h.s.NewTxn()
	h.s.BeginAll(t)
	defer h.s.unlock(t)
	known := map[uint64]bool{}
	garbage := func(item []byte) {
		if item[0] == 'e' {
			known[binary.BigEndian.Uint64(item[1:])] = true
		}
	}
	for _, item := range h.s.garbage.items {
		garbage(item)
	}
	for _, sh := range h.s.shards {
		for _, p := range sh.parts {
			if p == nil {
				continue
			}
			for _, o := range p.objects.list {
				if o != nil {
					known[o.id] = true
				}
			}
		}
	}
	err := h.s.view(func(tx *bolt.Tx) error {
		return errors.Join(
			tx.Bucket(bucketGarbage).ForEach(func(k, _ []byte) error { garbage(k); return nil }),
			tx.Bucket(bucketValues).ForEach(func(at, record []byte) error {
				im, err := parseImage(at, record)
				known[im.stored()] = true
				return err
			}),
			tx.Bucket(bucketElements).ForEach(func(k, _ []byte) error {
				if of := binary.BigEndian.Uint64(k); !known[of] {
					id, yes = of, true
				}
				return nil
			}))
	})
	if err != nil {
		h.t.Fatalf("data file: %v", err)
	}
	return id, yes
}
