package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// These tests are about changes of deadlines that a checkpoint has collected and not yet written to
// the bucket ttl. pendingHarness makes a store for them. Its keys are in the data file with
// deadlines. Since then some have expired, and all others got other deadlines or values, moved or
// were deleted.
func pendingHarness(t *testing.T) (*harness, *machine, map[name]bool) {
	h := newHarness(t)
	h.portions = true
	h.reopen()
	m := &machine{h: h, names: map[name]bool{}}
	for i := range 80 {
		n := name{i % 2, fmt.Sprintf("key%d", i)}
		if i < 8 {
			n.key = keyName(i)
		}
		m.names[n] = true
		m.put(n, "old", h.clock.Now()+int64(i)*100+1)
	}
	h.saved()
	h.s.Reap() // diskDeadlines reads ahead
	m.evict(nil)
	h.clock.Advance(2 * time.Second)
	h.s.Reap()
	h.model = h.model.live(h.clock.Now())
	for n := range h.model {
		m.change(n)
	}
	h.changed()
	h.commit()
	return h, m, m.names
}

func (m *machine) put(n name, data string, deadline int64) {
	m.h.model[n] = value{data: data, deadline: deadline}
	m.h.do(func(x *Txn) { x.SetString(m.key(n), []byte(data), ttl.At(deadline), Event{}) },
		m.key(n))
}

// change makes one of several changes to a key, chosen by its deadline.
func (m *machine) change(n name) {
	h, k, v := m.h, m.key(n), m.h.model[n]
	switch v.deadline / 100 % 6 {
	case 0:
		m.put(n, "new", h.clock.Now()+v.deadline%5000+3333)
	case 1:
		delete(h.model, n)
		h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	case 2:
		h.model[n] = value{data: v.data}
		h.do(func(x *Txn) { x.SetDeadline(k, ttl.Deadline{}, Event{}) }, k)
	case 3:
		h.model[n] = value{data: v.data, deadline: v.deadline + 150}
		h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(v.deadline+150), Event{}) }, k)
	case 4:
		to := name{n.db, n.key + "+"}
		if len(n.key) > 1000 {
			return
		}
		m.names[to] = true
		delete(h.model, n)
		h.model[to] = v
		h.do(func(x *Txn) { x.Rename(k, m.key(to)) }, k, m.key(to))
	case 5: // only when it was set changes
		h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(v.deadline), Event{}) }, k)
	}
}

// interrupt makes a checkpoint fail before its n-th transaction that changes the bucket ttl.
func (h *harness) interrupt(n int) {
	h.t.Helper()
	h.s.options.Testing.OnStep = only(StepPending, func() error {
		if n--; n < 0 {
			return errInterrupted
		}
		return nil
	})
	if err := h.s.Checkpoint(); err != errInterrupted {
		h.t.Fatalf("the checkpoint ended with %v", err)
	}
	if h.s.checkpointer.mu.pending == 0 {
		h.t.Fatal("nothing is pending")
	}
}

// live lets half a minute pass, and checks that keys are counted until they expire.
func (m *machine) live() {
	h := m.h
	h.t.Helper()
	for range 60 {
		h.clock.Advance(500 * time.Millisecond)
		h.s.Reap()
		h.model = h.model.live(h.clock.Now())
		var total int64
		for db := range 3 {
			keys, _ := h.s.Count(db)
			total += keys
		}
		if total != int64(len(h.model)) {
			h.t.Fatalf("%d keys are counted, %d live", total, len(h.model))
		}
	}
	h.verify(m.names)
}

// TestCrashWithPendingDeadlines: a crash comes before or amid the pending changes of the bucket
// ttl. The keys are changed once more, and leave memory after the next checkpoint. Each key is gone
// at its deadline.
func TestCrashWithPendingDeadlines(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		for after := range 24 {
			h, m, names := pendingHarness(t)
			if after >= 12 {
				h.s.bounds.pendingBytes = pendingBytes // nothing is made before the end
			}
			h.interrupt(after % 12)
			h.crash(rand.New(rand.NewPCG(1, 1)), names)
			if h.s.checkpointer.mu.pending == 0 {
				t.Fatal("nothing is pending after the crash")
			}
			m.evict(nil)
			h.s.Reap()
			if changed {
				for n := range h.model {
					m.change(n)
				}
			}
			h.verify(names)
			h.saved()
			m.evict(nil)
			if n := h.s.Stats().Resident; n != 0 {
				t.Fatalf("%d keys are in memory", n)
			}
			m.live()
			_ = h.s.Close(false)
		}
	}
}

// TestCrashesWithPendingDeadlines: several crashes happen before the pending changes are made.
func TestCrashesWithPendingDeadlines(t *testing.T) {
	h, m, names := pendingHarness(t)
	for after := range 5 {
		h.interrupt(after)
		h.crash(rand.New(rand.NewPCG(1, uint64(after))), names)
		h.clock.Advance(300 * time.Millisecond)
		h.verify(names)
		for n := range h.model {
			m.change(n)
		}
		h.commit()
	}
	h.saved()
	m.evict(nil)
	m.live()
	_ = h.s.Close(false)
}

// TestPendingDeadlinesStayInMemory: a key that a checkpoint has written leaves memory only when its
// deadline is in the bucket ttl, too.
func TestPendingDeadlinesStayInMemory(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h, m, names := pendingHarness(t)
		h.s.bounds.pendingBytes = pendingBytes // nothing is made before the end
		if crash {
			h.interrupt(0)
			h.crash(rand.New(rand.NewPCG(1, 1)), names)
			h.s.bounds.pendingBytes = pendingBytes
		}
		was := h.s.Stats()
		seen := 0
		h.s.options.Testing.OnStep = only(StepPending, func() error {
			seen++
			m.evict(nil)
			if n := h.s.Stats().Evictions - was.Evictions; seen == 1 && n != 0 {
				t.Errorf("%d keys left memory", n)
			}
			h.clock.Advance(100 * time.Millisecond)
			h.s.Reap()
			return nil
		})
		h.saved()
		if seen < 2 {
			t.Fatalf("ttl was changed in %d transactions", seen)
		}
		m.evict(nil)
		m.live()
		_ = h.s.Close(false)
	}
}

// TestPendingChanges makes random changes of few entries in the order of the bucket ttl. It repeats
// some of them, as after a crash. Then it compares the bucket with a map.
func TestPendingChanges(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	keys := [][]byte{format.DiskKey(nil, 7, h.s.Key(0, []byte("a"))), format.DiskKey(nil, 7,
		h.s.Key(0, []byte("b"))), format.DiskKey(nil, 3, h.s.Key(0, []byte("a")))}
	rapid.Check(t, func(rt *rapid.T) {
		ttl := map[string]format.Times{}
		step := rapid.IntRange(1, 5).Draw(rt, "step")
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
				for range rapid.IntRange(0, 3).Draw(rt, "batches") {
					var d datafile.Changes
					for range rapid.IntRange(0, 6).Draw(rt, "changes") {
						at := rapid.SampledFrom(keys).Draw(rt, "key")
						to := format.Times{Deadline: rapid.Int64Range(0, 3).Draw(rt, "deadline"),
							Created: rapid.Uint32Range(1, 2).Draw(rt, "created"),
							First:   rapid.Int64Range(0, 3).Draw(rt, "first")}
						d.Add(at, ttl[string(at)], to)
						ttl[string(at)] = to
					}
					if _, err := d.Write(tx); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
			err = h.s.file.DB().Update(func(tx *bolt.Tx) error {
				var m datafile.Pending
				if err := m.Read(tx); err != nil {
					return err
				}
				m.Sort()
				for _, end := range []int{rapid.IntRange(0, len(m.List)).Draw(rt, "crash"),
					len(m.List)} {
					for next := 0; next < end; {
						var err error
						if next, err = m.Some(tx, next, min(step, end-next)); err != nil {
							return err
						}
					}
				}
				return datafile.EmptyPending(tx)
			})
			if err != nil {
				rt.Fatal(err)
			}
			want := map[string]string{}
			for at, due := range ttl {
				if due.Due() != 0 {
					at := format.TTLKey(nil, due.Due(), []byte(at))
					want[string(at)] = string(due.Entry(at))
				}
			}
			got := map[string]string{}
			_ = h.s.file.View(func(tx *bolt.Tx) error {
				return tx.Bucket(format.BucketTTL).ForEach(func(k, v []byte) error {
					got[string(k)] = string(v)
					return nil
				})
			})
			if !maps.Equal(got, want) {
				rt.Fatalf("ttl has %x, and must have %x", got, want)
			}
		}
		if err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
			err := tx.DeleteBucket(format.BucketTTL)
			_, made := tx.CreateBucket(format.BucketTTL)
			return errors.Join(err, made)
		}); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestFlushWithPendingDeadlines: a database is emptied and filled again while changes of the bucket
// ttl are pending, or after a crash with pending changes.
func TestFlushWithPendingDeadlines(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h, m, names := pendingHarness(t)
		flush := func() {
			for n := range h.model {
				if n.db == 0 {
					delete(h.model, n)
				}
			}
			h.doAll(func(x *Txn) { x.FlushDB(0) })
			for i := range 20 {
				m.put(name{0, keyName(i % 12)}, "after", h.clock.Now()+int64(i)*50+1)
			}
			for i := range 12 {
				names[name{0, keyName(i)}] = true
			}
		}
		if crash {
			h.interrupt(3)
			h.crash(rand.New(rand.NewPCG(1, 1)), names)
			flush()
		} else {
			n := 0
			h.s.options.Testing.OnStep = only(StepPending, func() error {
				if n++; n == 3 {
					flush()
				}
				return nil
			})
		}
		h.saved()
		h.verify(names)
		h.saved()
		m.evict(nil)
		m.live()
		h.saved()
		left := 0
		err := h.s.file.View(func(tx *bolt.Tx) error {
			left = tx.Bucket(format.BucketTTL).Stats().KeyN
			return nil
		})
		if _, expires := h.s.Count(1); err != nil || left != int(expires) {
			t.Errorf("ttl has %d entries for %d keys, %v", left, expires, err)
		}
		_ = h.s.Close(false)
	}
}

// TestCompactionWithPendingDeadlines: pending changes are made before the file is copied.
func TestCompactionWithPendingDeadlines(t *testing.T) {
	h, m, names := pendingHarness(t)
	h.interrupt(2)
	h.crash(rand.New(rand.NewPCG(1, 1)), names)
	if _, _, err := h.s.Compact(); err != nil || h.s.checkpointer.mu.pending != 0 {
		t.Fatalf("%d bytes are pending, %v", h.s.checkpointer.mu.pending, err)
	}
	h.verify(names)
	h.crash(rand.New(rand.NewPCG(1, 2)), names)
	h.saved()
	m.evict(nil)
	m.live()
	_ = h.s.Close(false)
}

// TestDamagedPendingDeadlines: the check reports damaged pending changes. The next checkpoint goes
// on without them. A key that somebody reads never outlives its deadline.
func TestDamagedPendingDeadlines(t *testing.T) {
	h, m, names := pendingHarness(t)
	h.interrupt(0)
	h.crash(rand.New(rand.NewPCG(1, 1)), names)
	err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketPending)
		at, v := b.Cursor().First()
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		return b.Put(bytes.Clone(at), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.s.Check(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the check says %v", err)
	}
	h.saved()
	if n := h.s.Stats().BadDeadlines; n != 1 {
		t.Errorf("%d damages were counted", n)
	}
	m.evict(nil)
	for range 5 {
		h.clock.Advance(3 * time.Second)
		if got, want := h.state(names), h.model.live(h.clock.Now()); !same(got, want) {
			t.Fatalf("the store has\n%v\nand must have\n%v", got, want)
		}
	}
	h.reopen()
	if !h.s.checkpointer.mu.ttlDoubtful {
		t.Error("after a restart ttl counts as sound")
	}
	_ = h.s.Close(false)
}

// TestDoubtfulDeadlines: damage of pending changes leaves an entry with an earlier deadline for a
// key in the bucket ttl. A restart after that deadline must not assume that the key was reaped.
func TestDoubtfulDeadlines(t *testing.T) {
	h := newHarness(t)
	k, other := h.s.Key(0, []byte("{tag}stays")), h.s.Key(0, []byte("{tag}goes"))
	now := h.clock.Now()
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+60_000), Event{}) }, k)
	h.do(func(x *Txn) { x.SetString(other, []byte("v"), ttl.At(now+1000), Event{}) }, other)
	h.reopen()
	err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
		at := format.TTLKey(nil, now+500, format.DiskKey(nil, h.s.spaces.ids[0], k))
		return errors.Join(tx.Bucket(format.BucketTTL).Put(at, format.Times{Deadline: now + 500,
			Created: 1}.Entry(at)), datafile.PutMeta(tx, format.MetaDoubt, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = h.s.Close(false)
	h.open()
	k, other = h.s.Key(0, []byte("{tag}stays")), h.s.Key(0, []byte("{tag}goes"))
	h.load([]Key{k, other})
	h.clock.Advance(2 * time.Second)
	h.s.Reap()
	h.commit()
	_ = h.s.Close(false)
	h.open()
	if got := h.state(map[name]bool{{0, "{tag}stays"}: true, {0, "{tag}goes"}: true}); len(
		got) != 1 {
		t.Errorf("there are %v", got)
	}
	_ = h.s.Close(false)
}

// TestFormats: a file of the first format is converted, and a file of a later version is refused.
func TestFormats(t *testing.T) {
	h, m, names := pendingHarness(t)
	h.saved()
	alter := func(fn func(tx *bolt.Tx) error) {
		if err := h.s.file.DB().Update(fn); err != nil {
			t.Fatal(err)
		}
	}
	alter(func(tx *bolt.Tx) error {
		err := errors.Join(tx.DeleteBucket(format.BucketPending),
			tx.Bucket(format.BucketMeta).Put(format.MetaFormat, []byte{1}))
		for _, name := range [][]byte{format.BucketMeta, format.BucketSlots, format.BucketGarbage} {
			b := tx.Bucket(name)
			plain := map[string][]byte{}
			err = errors.Join(err, b.ForEach(func(k, sealed []byte) error {
				if v, ok := format.Unseal(k, sealed); ok {
					plain[string(k)] = bytes.Clone(v)
				}
				return nil
			}))
			for k, v := range plain {
				err = errors.Join(err, b.Put([]byte(k), v))
			}
		}
		return err
	})
	h.crash(rand.New(rand.NewPCG(1, 1)), names)
	h.verify(names)
	h.saved()
	m.live()
	alter(func(tx *bolt.Tx) error {
		if v := tx.Bucket(format.BucketMeta).Get(format.MetaFormat); !bytes.Equal(v,
			[]byte{format.Version}) {
			t.Errorf("the file has format %v", v)
		}
		return tx.Bucket(format.BucketMeta).Put(format.MetaFormat, []byte{format.Version + 1})
	})
	_ = h.s.Close(false)
	if _, _, err := Open(Options{FS: h.fs, Dir: h.dir, Clock: h.clock,
		NoBackground: true}); !errors.Is(err, ErrFormat) {
		t.Errorf("opening the file gave %v", err)
	}
}
