package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
	"keyp/ttl"
)

// compact is an operation of TestModel.
func (m *machine) compact(*rapid.T) {
	if _, _, err := m.h.s.Compact(); err != nil {
		m.h.t.Fatalf("compact: %v", err)
	}
}

// filled makes a data file that is mostly unused. The file contains keys of all sizes and kinds,
// most of them removed again. A keyspace still waits to be deleted, and some changes are only in
// the log.
func filled(t *testing.T) (*harness, map[name]bool) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	names := map[name]bool{}
	set := func(n name, data string, deadline int64) {
		names[n] = true
		h.model[n] = value{data: data, deadline: deadline}
		k := h.s.Key(n.db, []byte(n.key))
		h.do(func(x *Txn) {
			x.SetString(k, []byte(data), ttl.At(deadline), Event{EventString, "set"})
		}, k)
	}
	for i := range 600 {
		size := []int{0, 20, 300, 4000, 50_000}[i%5]
		deadline := int64(0)
		if i%3 > 0 {
			deadline = h.clock.Now() + int64(i)*10
		}
		set(name{i % 3, fmt.Sprintf("key%d", i)}, strings.Repeat("v", size), deadline)
	}
	for n := range 8 {
		set(name{0, keyName(n)}, "v", 0)
	}
	h.saved()
	h.clock.Advance(5 * time.Second)
	h.s.Reap()
	for n := range h.model {
		if n.db == 1 {
			delete(h.model, n)
		}
	}
	h.doAll(func(x *Txn) { x.FlushDB(1) })
	h.saved()
	set(name{0, "key5"}, "in the log only", 0)
	set(name{2, "key2"}, strings.Repeat("also", 10_000), h.clock.Now()+1_000_000)
	moment, err := h.s.checkpointer.rotate() // a checkpoint that fails after its first part
	if err == nil {
		err = h.s.checkpointer.copyPart(new(cpBatch), moment.parts[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	h.s.garbage.add(moment.garbage...)
	h.commit()
	return h, names
}

func (h *harness) saved() {
	h.t.Helper()
	h.commit()
	if err := h.s.Checkpoint(); err != nil {
		h.t.Fatalf("checkpoint: %v", err)
	}
}

// leftover reports whether the copy of a compaction exists.
func (h *harness) leftover() bool {
	_, err := os.Stat(filepath.Join(h.dir, datafile.CompactName))
	return err == nil
}

func TestCompact(t *testing.T) {
	h, names := filled(t)
	old := h.s.file.DB()
	before, after, err := h.s.Compact()
	if err != nil || after > before/2 || h.s.file.DB() == old {
		t.Fatalf("the file had %d bytes and has %d, %v", before, after, err)
	}
	if size, _ := h.s.file.Use(); size != after {
		t.Errorf("the file has %d bytes, Compact said %d", size, after)
	}
	h.verify(names)
	if before, again, err := h.s.Compact(); err != nil || before != after || again != after {
		t.Errorf("a second compaction: %d to %d bytes, %v", before, again, err)
	}
	h.saved()
	h.verify(names)
	h.reopen()
	h.verify(names)
	if h.leftover() {
		t.Error("the copy was left")
	}
}

// moment is the state of the disk that a power cut at some time leaves.
type moment struct {
	step  datafile.Step
	files map[string][]byte
	fs    *vfs.Mem
}

// at records the state of the disk. The data file and its copy are recorded as the process sees
// them. A power cut may lose parts of the copy, but this does not matter: the copy gets its final
// name only after its last transaction was synced.
func (h *harness) at(step datafile.Step, rng *rand.Rand) moment {
	m := moment{step, map[string][]byte{}, h.fs.Crash(rng)}
	for _, file := range []string{format.DataName, datafile.CompactName} {
		if b, err := os.ReadFile(filepath.Join(h.dir, file)); err == nil {
			m.files[file] = b
		}
	}
	return m
}

// restart puts the directory back to a moment and opens it. The store must be released.
func (h *harness) restart(m moment) {
	h.t.Helper()
	for _, file := range []string{format.DataName, datafile.CompactName} {
		path := filepath.Join(h.dir, file)
		var err error
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if b, ok := m.files[file]; ok {
			err = errors.Join(err, os.WriteFile(path, b, 0o600))
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	h.fs = m.fs
	h.open()
}

// TestCrashDuringCompaction cuts the power at each step. The sync of the directory needs no step of
// its own: before it either file may have either name, and other moments have these cases.
func TestCrashDuringCompaction(t *testing.T) {
	h, names := filled(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var moments []moment
	h.s.options.Testing.OnStep = func(step datafile.Step) error {
		moments = append(moments, h.at(step, rng))
		return nil
	}
	if _, _, err := h.s.Compact(); err != nil {
		t.Fatal(err)
	}
	torn := h.at("", rng)
	torn.step, torn.files = "torn",
		map[string][]byte{format.DataName: moments[0].files[format.DataName],
			datafile.CompactName: []byte("half a page")}
	moments = append(moments, torn)
	seen := map[datafile.Step]bool{}
	for _, m := range moments {
		seen[m.step] = true
		if err := errors.Join(h.s.log.Close(), h.s.release()); err != nil {
			t.Fatal(err)
		}
		h.restart(m)
		if h.leftover() {
			t.Errorf("%s: the copy is still there after the start", m.step)
		}
		h.verify(names)
		h.saved()
		h.verify(names)
	}
	for _, step := range []datafile.Step{"batch", "proven", "renamed", "replaced"} {
		if !seen[step] {
			t.Errorf("no crash at step %q", step)
		}
	}
}

// TestCompactionGivesUp: a compaction that ends before the renaming, for whatever reason, leaves
// the store as it was.
func TestCompactionGivesUp(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		step datafile.Step // the moment; before all if empty
		make func(h *harness) error
		undo func(h *harness)
		want error
	}{
		{"an error between transactions", "batch", func(*harness) error {
			return broken
		}, nil, broken},
		{"an error before the renaming", "proven", func(*harness) error {
			return broken
		}, nil, broken},
		{"no room for the copy", "", func(h *harness) error {
			h.fs.SetFree(1000)
			return nil
		}, func(h *harness) { h.fs.SetFree(1 << 40) }, syscall.ENOSPC},
		{"the disk fills up", "batch", func(h *harness) error {
			h.fs.SetFree(0)
			return nil
		}, func(h *harness) { h.fs.SetFree(1 << 40) }, syscall.ENOSPC},
		{"writers would be slowed down", "batch", func(h *harness) error {
			h.s.checkpointer.hurry.Store(true)
			return nil
		},
			func(h *harness) { h.s.checkpointer.hurry.Store(false) }, errCompactStopped},
		{"the store closes", "batch", func(h *harness) error {
			h.s.stop()
			return nil
		}, nil, ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, names := filled(t)
			old, was := h.s.file.DB(), h.at("", rand.New(rand.NewPCG(3, 4))).files
			h.s.options.Testing.OnStep = func(step datafile.Step) error {
				if step == tt.step {
					return tt.make(h)
				}
				return nil
			}
			if tt.step == "" {
				if err := tt.make(h); err != nil {
					t.Fatal(err)
				}
			}
			before, after, err := h.s.Compact()
			if !errors.Is(err, tt.want) || before != after {
				t.Fatalf("from %d to %d, %v, want %v", before, after, err, tt.want)
			}
			if now := h.at("", rand.New(rand.NewPCG(3, 4))).files; h.s.file.DB() != old ||
				len(now) != 1 || !bytes.Equal(now[format.DataName], was[format.DataName]) {
				t.Errorf("the files have changed")
			}
			if tt.undo != nil {
				tt.undo(h)
			}
			if err := h.s.Err(); err != nil {
				t.Errorf("the store has failed: %v", err)
			}
			h.verify(names)
			h.saved()
			h.reopen()
			h.verify(names)
		})
	}
}

// TestRenamedAndNotSynced: a store that cannot know which file a restart will find writes to
// neither of them.
func TestRenamedAndNotSynced(t *testing.T) {
	h, names := filled(t)
	broken := errors.New("broken")
	h.s.options.Testing.OnStep = func(step datafile.Step) error {
		if step == "renamed" {
			return broken
		}
		return nil
	}
	old := h.at("", rand.New(rand.NewPCG(5, 6)))
	if _, _, err := h.s.Compact(); !errors.Is(err, broken) || !errors.Is(h.s.Err(), broken) {
		t.Fatalf("Compact gave %v, the store says %v", err, h.s.Err())
	}
	first := h.s.log.Size()
	if err := h.s.Checkpoint(); err == nil {
		t.Fatal("a checkpoint went through")
	}
	if h.s.log.Size() < first {
		t.Fatal("the log was cut")
	}
	for _, m := range []moment{h.at("new", rand.New(rand.NewPCG(7, 8))), old} {
		if err := errors.Join(h.s.log.Close(), h.s.release()); err != nil {
			t.Fatal(err)
		}
		h.restart(m)
		h.verify(names)
	}
}

func TestDamagedFileIsNotCompacted(t *testing.T) {
	entry := func(bucket []byte, change func(b *bolt.Bucket, at, v []byte) error) func(*harness) {
		return func(h *harness) {
			err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
				b := tx.Bucket(bucket)
				at, v := b.Cursor().First()
				return change(b, bytes.Clone(at), bytes.Clone(v))
			})
			if err != nil {
				h.t.Fatal(err)
			}
		}
	}
	flip := func(b *bolt.Bucket, at, v []byte) error { v[0] ^= 1; return b.Put(at, v) }
	remove := func(b *bolt.Bucket, at, _ []byte) error { return b.Delete(at) }
	for name, damage := range map[string]func(*harness){
		"record":         entry(format.BucketValues, flip),
		"missing record": entry(format.BucketValues, remove),
		"element":        entry(format.BucketElements, flip),
		"slot":           entry(format.BucketSlots, flip),
		"missing slot":   entry(format.BucketSlots, remove),
		"ttl":            entry(format.BucketTTL, flip),
		"missing ttl":    entry(format.BucketTTL, remove),
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := filled(t)
			damage(h)
			was := h.at("", rand.New(rand.NewPCG(9, 9))).files
			if _, _, err := h.s.Compact(); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("Compact gave %v, want ErrCorrupt", err)
			}
			if now := h.at("", rand.New(rand.NewPCG(9, 9))).files; len(now) != 1 ||
				!bytes.Equal(now[format.DataName], was[format.DataName]) {
				t.Error("the files have changed")
			}
		})
	}
}

// TestHalfDeletedKeyspaceIsSound: a keyspace whose deletion was interrupted does not count as
// damage.
func TestHalfDeletedKeyspaceIsSound(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	for i := range datafile.GarbageStep + 100 {
		k := h.s.Key(0, fmt.Appendf(nil, "key%d", i))
		h.do(func(x *Txn) {
			x.SetString(k, []byte("v"), ttl.Deadline{}, Event{EventString, "set"})
		}, k)
	}
	h.saved()
	h.doAll(func(x *Txn) { x.FlushDB(0) })
	moment, err := h.s.checkpointer.rotate()
	if err == nil {
		h.commit()
		err = h.s.checkpointer.writeSince(moment)
	}
	if err == nil {
		err = h.s.file.DB().Update(func(tx *bolt.Tx) error {
			more, err := datafile.CollectSome(tx)
			if !more || !datafile.IsGarbage(tx, 1) {
				t.Error("the keyspace is gone after one step")
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	h.check()
	if _, _, err := h.s.Compact(); err != nil {
		t.Fatal(err)
	}
	h.check()
	h.reopen()
	h.check()
}

// TestCompactionBesideEverything is TestBesideBackground with compactions running all the time.
func TestCompactionBesideEverything(t *testing.T) {
	options := Options{
		Dir: t.TempDir(), Clock: clock.System, Logger: slog.New(slog.DiscardHandler),
		Databases: 2, Shards: 4,
		SegmentSize: 256 << 10, CheckpointBytes: 16 << 20, MaxMemory: 5 << 20, InitialMmap: 1 << 20,
		DiskReserve: 1,
		Sync:        wal.Always,
	}
	const writers, ops, keys = 4, 2000, 1500
	var s *Store
	var replaced atomic.Int32
	options.Testing.OnStep = func(step datafile.Step) error {
		switch step {
		case datafile.StepReplaced:
			replaced.Add(1)
		case datafile.StepBatch, datafile.StepProving, datafile.StepProven, datafile.StepRenamed:
		default:
			return nil // of a checkpoint, also while the store is opened
		}
		s.checkpointer.hurry.Store(false) // it would give up nearly each time
		return nil
	}
	s, _, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	stop, compacted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(compacted)
		for {
			select {
			case <-stop:
				return
			default:
				if _, _, err := s.Compact(); err != nil && !errors.Is(err, errCompactStopped) {
					t.Errorf("compact: %v", err)
				}
			}
		}
	}()
	owned := make([]map[string]value, writers)
	round := 0
	until(t, "keys are evicted, loaded, checkpointed and compacted", func() bool {
		var wg sync.WaitGroup
		for w := range writers {
			if owned[w] == nil {
				owned[w] = map[string]value{}
			}
			wg.Go(func() { write(t, s, w, ops, keys, owned[w]) })
		}
		wg.Wait()
		st := s.Stats()
		round++
		return t.Failed() || round >= 2 && replaced.Load() > 2 && st.Evictions > 0 &&
			st.Loads > 0 && st.Checkpoints > 2
	})
	close(stop)
	await.For(t, "the compaction ends", compacted)
	compare(t, s, owned)
	if err := errors.Join(s.Check(), s.Close(true)); err != nil {
		t.Fatal(err)
	}
	if s, _, err = Open(options); err != nil {
		t.Fatal(err)
	}
	compare(t, s, owned)
	if err := errors.Join(s.Check(), s.Close(true)); err != nil {
		t.Fatal(err)
	}
}

// TestFileDoesNotGrow: keys that come and expire again and again reuse the space of earlier keys.
// Keys that were never written to the file take no space in it.
func TestFileDoesNotGrow(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	cycle := func(save bool) (pages int64) {
		for i := range 3000 {
			k := h.s.Key(0, fmt.Appendf(nil, "key%d", i))
			h.do(func(x *Txn) {
				x.SetString(k, make([]byte, 100+i%7*2000), ttl.At(h.clock.Now()+int64(1000+i)),
					Event{EventString, "set"})
			}, k)
		}
		if save {
			h.saved()
		}
		h.clock.Advance(time.Minute)
		if n := h.s.Reap(); n != 3000 {
			t.Fatalf("%d keys were reaped", n)
		}
		h.saved()
		err := h.s.file.View(func(tx *bolt.Tx) error {
			pages = tx.Size() / format.PageSize // the highest one ever used
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return pages
	}
	empty := cycle(false)
	if n := h.s.Stats().CheckpointKeys; n != 0 {
		t.Errorf("%d keys were written that were gone before the checkpoint", n)
	}
	cycle(true)
	full := cycle(true) // has a little more than the first: what it wrote after the removals
	if full < 4*empty {
		t.Fatalf("the file has %d pages, and had %d when it was empty", full, empty)
	}
	for n := range 4 {
		if again := cycle(true); again > full+full/50 {
			t.Errorf("cycle %d: the file grew from %d to %d pages", n+3, full, again)
		}
	}
	if err := h.s.Check(); err != nil {
		t.Error(err)
	}
}

func TestWorthCompacting(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	h.s.options.CheckpointBytes = 256 << 20
	h.s.SetDiskReserve(64 << 20)
	const mb = 1 << 20
	for _, tt := range []struct {
		size, unused int64
		free         uint64
		want         bool
	}{
		{1000 * mb, 501 * mb, 10_000 * mb, true},
		{1000 * mb, 499 * mb, 10_000 * mb, false},
		{200 * mb, 199 * mb, 10_000 * mb, false},
		{1000 * mb, 600 * mb, 1000 * mb, true},
		{1000 * mb, 600 * mb, 900 * mb, false}, // 400 for the copy, 512 for the log, 64 in reserve
	} {
		h.fs.SetFree(tt.free)
		if got := h.s.checkpointer.worthCompacting(tt.size, tt.unused); got != tt.want {
			t.Errorf("%d MB, %d of them unused, %d free: %t", tt.size/mb, tt.unused/mb,
				tt.free/mb, got)
		}
	}
}

// TestExpiredKeysAskForACheckpoint: expired keys leave the file with a checkpoint. They ask for
// one, as the log does not.
func TestExpiredKeysAskForACheckpoint(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	const busy = quietBytes
	stale := func(when string, grown uint64, want bool) {
		t.Helper()
		if got := h.s.checkpointer.stale(grown); got != want {
			t.Errorf("%s, with %d bytes of log since: stale %t", when, grown, got)
		}
	}
	padding := strings.Repeat("x", 10_000)
	for i := range staleBytes / len(padding) * 3 / 2 {
		k := h.s.Key(0, fmt.Appendf(nil, "{%d}%s", i, padding)) // only the tag makes its slot
		h.do(func(x *Txn) {
			x.SetString(k, nil, ttl.At(h.clock.Now()+1000), Event{EventString, "set"})
		}, k)
	}
	h.commit()
	stale("written", busy, false)
	stale("written", 0, true)
	h.saved()
	stale("saved", 0, false)
	h.clock.Advance(time.Minute)
	h.s.Reap()
	h.commit()
	stale("expired", busy, true)
	h.saved()
	stale("saved without the expired keys", 0, false)
}
