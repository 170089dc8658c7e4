package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

const coldEntries = 3000

// coldStream makes a stream whose entries are in the data file. Only the last entries are also in
// memory.
func (h *harness) coldStream(name string) Key {
	h.t.Helper()
	k := h.s.Key(0, []byte(name))
	h.stream(k, func(_ *Txn, s *Stream) { addEntries(s, 1, coldEntries+1) })
	h.saved()
	h.leave()
	if n := h.value(k).Resident(); n != 1 {
		h.t.Fatalf("%d runs are in memory", n)
	}
	return k
}

// leave removes all unchanged runs from memory, including those used recently.
func (h *harness) leave() {
	h.s.Manual().Leave(1)
	h.s.Manual().Leave(1)
}

// value returns a key's stream in memory.
func (h *harness) value(k Key) *object.Stream {
	p := h.s.part(k)
	v, _ := streamIn(p.objectOf(*p.find(p.slot(k), k)).val)
	return v
}

// sees checks that a stream has the entries with the ids from, from+1 and so on.
func (h *harness) sees(k Key, from, to int) {
	h.t.Helper()
	h.stream(k, func(_ *Txn, s *Stream) {
		at := from
		s.Value().Range(object.StreamID{}, object.MaxStreamID, false,
			func(e object.StreamEntry) bool {
				e.EachField(func(field, val []byte) bool {
					if want := fmt.Sprint("value ", at); string(field) != "field" ||
						string(val) != want || e.ID != streamID(at) {
						h.t.Fatalf("entry %v has %q %q, want %q", e.ID, field, val, want)
					}
					return false
				})
				at++
				return true
			})
		if at != to || s.Value().Entries() != to-from {
			h.t.Fatalf("the entries end before %d, there are %d; want them from %d to %d", at,
				s.Value().Entries(), from, to)
		}
	})
}

// TestAbsentRuns: a stream whose runs are only on disk behaves like any other. It can be extended,
// trimmed, read, checked, evicted and loaded, and survives a crash.
func TestAbsentRuns(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.coldStream("s")
	h.check()
	bytes, _ := h.s.measure()
	h.sees(k, 1, coldEntries+1)
	if n := h.value(k).Resident(); n != 1 {
		t.Errorf("%d runs are in memory after a walk", n)
	}
	h.stream(k, func(_ *Txn, s *Stream) {
		addEntries(s, coldEntries+1, coldEntries+201)
		s.TrimFirst(150)
	})
	h.leave() // what has changed stays
	if n := h.value(k).Resident(); n < 2 {
		t.Errorf("%d runs are in memory, though others are not on disk as they are", n)
	}
	h.sees(k, 151, coldEntries+201)
	h.check()
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	h.stream(k, func(_ *Txn, s *Stream) {
		addEntries(s, int(s.Value().LastID().Ms)+1, coldEntries+301)
	})
	h.saved()
	h.leave()
	h.check()
	if after, _ := h.s.measure(); after > bytes*3/2 {
		t.Errorf("memory has %d bytes, before it had %d", after, bytes)
	}
	h.evict()
	h.leave()
	h.check()
}

// copiesOn reports whether a checkpoint has written everything that it has copied of a value, and
// has more to copy.
func (h *harness) copiesOn(k Key) bool {
	p := h.s.part(k)
	o := p.objectOf(*p.find(p.slot(k), k))
	return !h.s.checkpointer.copying.has(o.id) && o.side != nil && o.side.frozen.Any()
}

// TestRunsWaitForTheirBatch: a run leaves memory only when the batch with its newest elements is on
// disk, however the checkpoint ends, and even if the key is renamed meanwhile.
func TestRunsWaitForTheirBatch(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint("renamed ", renamed, " fails ", fails), func(t *testing.T) {
				h := newHarness(t)
				defer func() { h.s.Close(false) }()
				h.portions = true
				h.reopen()
				h.s.bounds.pendingBytes = 1
				k, to := h.coldStream("s"), h.s.Key(0, []byte("other"))
				h.stream(k, func(_ *Txn, s *Stream) {
					addEntries(s, coldEntries+1, 2*coldEntries+1)
				})
				h.commit()
				// This makes the checkpoint apply pending changes between two batches.
				h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(h.clock.Now()+1_000_000), Event{}) }, k)
				steps, between := 0, false
				h.s.options.Testing.OnStep = func(at datafile.Step) error {
					if at != datafile.StepWrite && at != StepPortion && at != StepPending {
						return nil
					}
					between = between || at == StepPending && h.copiesOn(k)
					if steps++; steps == 1 && renamed {
						h.do(func(x *Txn) { x.Rename(k, to) }, k, to)
						h.commit()
						k = to
					}
					h.leave()
					h.sees(k, 1, 2*coldEntries+1)
					if fails && at == datafile.StepWrite {
						return errInterrupted
					}
					return nil
				}
				if err := h.s.checkpointInterrupted(); (err != nil) != fails {
					t.Fatalf("the checkpoint gave %v", err)
				}
				if steps == 0 {
					t.Fatal("nothing was copied")
				}
				if !between && !fails {
					t.Error("there was no moment between two batches")
				}
				h.s.options.Testing.OnStep = nil
				h.leave()
				h.sees(k, 1, 2*coldEntries+1)
				h.saved()
				h.leave()
				if n := h.value(k).Resident(); n != 1 {
					t.Errorf("%d runs are in memory", n)
				}
				h.sees(k, 1, 2*coldEntries+1)
				h.check()
			})
		}
	}
}

// TestLoadRuns: runs are read beside others or at once. They count as memory, and may leave memory
// again.
func TestLoadRuns(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.coldStream("s")
	before, _ := h.s.measure()
	wants := func() (w Runs) {
		h.stream(k, func(_ *Txn, s *Stream) {
			if !s.Cold() {
				t.Error("the stream is not cold")
			}
			w = s.Missing(s.Value().Wanted(nil, streamID(500), streamID(900), false, -1))
		})
		return w
	}
	w := wants()
	if len(w.First) < 3 {
		t.Fatalf("%d runs are missing", len(w.First))
	}
	h.s.LoadWith([]Key{k}, []Runs{w}, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	h.s.Manual().Serve()
	if got := h.value(k).Resident(); got != 1+len(w.First) || len(wants().First) != 0 {
		t.Errorf("%d runs are in memory", got)
	}
	if after, _ := h.s.measure(); after <= before {
		t.Errorf("memory has %d bytes, and had %d before", after, before)
	}
	h.leave()
	if after, _ := h.s.measure(); after != before {
		t.Errorf("memory has %d bytes, and had %d before", after, before)
	}
	h.do(func(x *Txn) {
		if err := x.LoadRuns(w); err != nil {
			t.Error(err)
		}
	}, k)
	if len(wants().First) != 0 {
		t.Error("runs are missing")
	}
	h.check()
}

// spoil damages an entry on disk, or removes it.
func (h *harness) spoil(k Key, id int, remove bool) {
	h.t.Helper()
	found := false
	err := h.s.updateFile(func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketElements)
		return b.ForEach(func(at, rec []byte) error {
			if found || !bytes.Contains(rec, fmt.Append(nil, "value ", id)) {
				return nil
			}
			found = true
			if at = bytes.Clone(at); remove {
				return b.Delete(at)
			}
			rec = bytes.Clone(rec)
			rec[len(rec)-1] ^= 1
			return b.Put(at, rec)
		})
	})
	if err != nil || !found {
		h.t.Fatalf("no entry was damaged: %v", err)
	}
}

// TestDamagedRunOnDisk: damage loses only the run that it is in, and is reported. The rest of the
// stream is there, and new entries can be added.
func TestDamagedRunOnDisk(t *testing.T) {
	for _, remove := range []bool{false, true} {
		h := newHarness(t)
		k := h.coldStream("s")
		h.spoil(k, 1000, remove)
		var w Runs
		h.stream(k, func(_ *Txn, s *Stream) {
			w = s.Missing(s.Value().WantedID(nil, streamID(1000)))
		})
		var got error
		h.s.LoadWith([]Key{k}, []Runs{w}, func(err error) { got = err })
		if h.s.Manual().Serve(); !errors.Is(got, ErrCorrupt) {
			t.Errorf("reading it beside others gave %v", got)
		}
		h.do(func(x *Txn) {
			if err := x.LoadRuns(w); !errors.Is(err, ErrCorrupt) {
				t.Errorf("reading it at once gave %v", err)
			}
		}, k)
		h.stream(k, func(_ *Txn, s *Stream) {
			var failed *object.ReadError
			if err := object.Reading(func() { s.Delete(streamID(1000)) }); !errors.As(err,
				&failed) || !errors.Is(err, ErrCorrupt) {
				t.Errorf("a removal gave %v", err)
			}
			for _, id := range []int{1, 500, 1500, coldEntries} {
				if _, ok := s.Value().Get(streamID(id)); !ok {
					t.Errorf("entry %d is not there", id)
				}
			}
			addEntries(s, coldEntries+1, coldEntries+11)
			if !s.Delete(streamID(2000)) || s.Value().Entries() != coldEntries+9 {
				t.Errorf("there are %d entries", s.Value().Entries())
			}
		})
		h.saved()
		h.stream(k, func(_ *Txn, s *Stream) { s.TrimFirst(1500) })
		h.saved()
		h.check()
		h.s.Close(false)
	}
}

// TestReaderOfRunsThatAreGone: a task reads a stream beside others, and its entries leave the data
// file together with the key. The task runs again. If it finds damage instead, it does not run
// again.
func TestReaderOfRunsThatAreGone(t *testing.T) {
	for meanwhile, do := range map[string]func(*harness, Key){
		"damage":   func(h *harness, k Key) { h.spoil(k, 1000, true) },
		"deletion": func(h *harness, k Key) { h.do(func(t *Txn) { t.Delete(k, Deleted) }, k) },
		"emptied":  func(h *harness, _ Key) { h.doAll(func(t *Txn) { t.FlushDB(0) }) },
		"replaced": func(h *harness, k Key) {
			h.do(func(t *Txn) { t.SetString(k, []byte("string"), ttl.Deadline{}, Event{}) }, k)
		},
	} {
		t.Run(meanwhile, func(t *testing.T) {
			h := newHarness(t)
			defer func() { h.s.Close(false) }()
			k := h.coldStream("s")
			var pins Pins
			task := h.s.NewTxn()
			if !h.s.Begin(h.txn, []Key{k}) {
				t.Fatal("the key is not in memory")
			}
			pins.Pin(h.txn, []Key{k}, task)
			s, err := task.Stream(k)
			if err != nil {
				t.Fatal(err)
			}
			if s.Cold() {
				t.Error("a task may load runs into what it has pinned")
			}
			h.stream(k, func(_ *Txn, s *Stream) {
				if s.Cold() {
					t.Error("runs may be loaded into what a task has pinned")
				}
			})
			do(h, k)
			h.saved()
			h.s.Manual().Leave(1)
			read := object.Reading(func() {
				s.Value().Range(object.StreamID{}, object.MaxStreamID, false,
					func(object.StreamEntry) bool { return true })
			})
			if read == nil {
				t.Fatal("all could be read")
			}
			if again := task.Reread(read); again != (meanwhile != "damage") ||
				task.Conflicted() != again {
				t.Errorf("%v: it runs again: %t", read, again)
			}
			task.End()
			pins.Unpin(task)
		})
	}
}

// TestCopiesOfAbsentRuns: a copied or renamed stream has all runs that were absent from the
// original, whatever happens to the original.
func TestCopiesOfAbsentRuns(t *testing.T) {
	for _, member := range []bool{false, true} {
		h := newHarness(t)
		if member {
			_ = h.s.Close(false)
			h, _ = memberHarness(t)
			h.open()
		}
		k, copied, moved := h.coldStream("s"), h.s.Key(0, []byte("copied")),
			h.s.Key(1, []byte("moved"))
		h.do(func(x *Txn) { x.Copy(k, copied) }, k, copied)
		h.do(func(x *Txn) { x.Rename(k, moved) }, k, moved)
		h.sees(copied, 1, coldEntries+1)
		h.sees(moved, 1, coldEntries+1)
		h.saved()
		h.leave()
		h.sees(copied, 1, coldEntries+1)
		h.do(func(x *Txn) { x.Delete(copied, Deleted) }, copied)
		h.saved()
		h.sees(moved, 1, coldEntries+1)
		h.check()
		h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
		h.sees(moved, 1, coldEntries+1)
		h.s.Close(false)
	}
}

// TestFollowerReadsApart: a follower's stream is copied for a change while a task reads it. The
// task reads the old state, or runs again.
func TestFollowerReadsApart(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.coldStream("s")
	var pins Pins
	task := h.s.NewTxn()
	if !h.s.Begin(h.txn, []Key{k}) {
		t.Fatal("the key is not in memory")
	}
	pins.Pin(h.txn, []Key{k}, task)
	old := h.value(k)
	p := h.s.part(k)
	sl := p.slot(k)
	c := p.find(sl, k)
	p.setApart(sl, c, p.objectOf(*c))
	h.stream(k, func(_ *Txn, s *Stream) { s.TrimFirst(coldEntries / 2) })
	h.saved()
	h.sees(k, coldEntries/2+1, coldEntries+1)
	if e, ok := old.Get(streamID(coldEntries - 200)); !ok || e.ID != streamID(coldEntries-200) {
		t.Error("an entry is gone that is not")
	}
	if err := object.Reading(func() { old.Get(streamID(5)) }); err == nil || !task.Reread(err) {
		t.Errorf("a look-up of an entry that is gone gave %v", err)
	}
	task.End()
	pins.Unpin(task)
}

// TestLargeStreamIsTrimmedAsItIsRead: while a stream is read from the data file, only a small part
// of it is in memory at any time.
func TestLargeStreamIsTrimmedAsItIsRead(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.s.Key(0, []byte("s"))
	const count = 20_000
	h.stream(k, func(_ *Txn, s *Stream) { addEntries(s, 1, count+1) })
	h.saved()
	all := h.value(k).InRuns()
	h.maxMemory = 1
	for _, replayed := range []bool{false, true} {
		h.s.maxMemory.Store(h.maxMemory)
		if replayed {
			h.stream(k, func(_ *Txn, s *Stream) {
				s.Delete(streamID(count / 2))
				addEntries(s, count+1, count+2)
			})
			h.commit()
			_ = h.s.Close(false)
			h.open()
			if h.value(k) == nil {
				t.Fatal("the replay has not read the stream")
			}
		} else {
			h.s.house.tight.Store(true) // or the key would stay
			h.evict()
			h.load([]Key{k})
		}
		if n := h.value(k).InRuns(); n > largeRuns+all/10 {
			t.Errorf("%d bytes are in memory of %d", n, all)
		}
		h.check()
	}
}

// TestTrimmedReplay: the log repeats changes of a stream that an unfinished checkpoint has written
// already. During the replay some runs of the stream are only in the data file.
func TestTrimmedReplay(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	h.portions = true
	h.reopen()
	k := h.coldStream("s")
	h.stream(k, func(_ *Txn, s *Stream) { addEntries(s, coldEntries+1, 2*coldEntries+1) })
	h.commit()
	written := 0
	h.smallSteps = true // the start trims what it reads
	h.s.options.Testing.OnStep = func(at datafile.Step) error {
		if at == datafile.StepWritten {
			if written++; written == 20 {
				return errInterrupted
			}
		}
		return nil
	}
	if err := h.s.checkpointInterrupted(); err == nil {
		t.Fatal("the checkpoint was not interrupted")
	}
	h.maxMemory = 1
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	h.sees(k, 1, 2*coldEntries+1)
	h.saved()
	h.sees(k, 1, 2*coldEntries+1)
	h.check()
}

// TestRunsLeaveInPlaceOfKeys: above MaxMemory runs of a large stream leave memory, and its key
// stays. Recently used runs leave last.
func TestRunsLeaveInPlaceOfKeys(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k, small := h.s.Key(0, []byte("s")), h.s.Key(0, []byte("small"))
	h.do(func(t *Txn) { t.SetString(small, []byte("value"), ttl.Deadline{}, Event{}) }, small)
	h.stream(k, func(_ *Txn, s *Stream) { addEntries(s, 1, 20_001) })
	h.saved()
	used, _ := h.s.measure()
	h.s.house.memory.Store(used)
	limit := used / 3
	h.s.maxMemory.Store(limit)
	h.s.house.evict(used / 100) // from here on it is known what is used
	h.stream(k, func(_ *Txn, s *Stream) {
		s.Value().Wanted(nil, streamID(10_000), streamID(10_100), false, -1)
	})
	h.s.house.evict(used - limit)
	after, dirty := h.s.measure()
	v := h.value(k)
	if after > limit+limit/10 || v.Resident() == v.Nodes() || dirty != 0 {
		t.Errorf("memory has %d bytes of %d, %d of %d runs are in memory", after, limit,
			v.Resident(), v.Nodes())
	}
	if got := v.Wanted(nil, streamID(10_000), streamID(10_100), false, -1); len(got) != 0 {
		t.Errorf("runs that were used have left before others: %v", got)
	}
	h.stream(k, func(_ *Txn, s *Stream) { addEntries(s, 20_001, 20_011) })
	if after, dirty := h.s.measure(); dirty > after/10 {
		t.Errorf("%d of %d bytes count as dirty, of ten entries", dirty, after)
	}
	h.check()
}
