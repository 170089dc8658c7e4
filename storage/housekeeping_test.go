package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage/hashtable"
	"keyp/storage/slab"
	"keyp/storage/wal"
	"keyp/ttl"
)

// TestEvictionHold: all keys of a hash tag are in one slot, here 30,000. Eviction from that slot is
// done in steps, and unlocks the shard between them, so that commands can use it. It evicts no more
// keys than needed.
func TestEvictionHold(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	const keys = 30_000
	var batch []Key
	for i := range keys {
		if batch = append(batch, h.s.Key(0, fmt.Appendf(nil, "{slot}%d", i))); len(batch) == 1000 {
			h.do(func(x *Txn) {
				for _, k := range batch {
					x.SetString(k, []byte("v"), ttl.At(hour+h.clock.Now()), Event{})
				}
			}, batch...)
			batch = batch[:0]
		}
	}
	h.saved()
	k := h.s.Key(0, []byte("{slot}0"))
	p, sh, at := h.s.part(k), h.s.shards[h.s.shardOf(k.Slot)], int(k.Slot)%h.s.slotsPerShard
	buckets := h.s.house.bucketsOf(sh, 0, at)
	if len(buckets) < keys/hashtable.BucketCells {
		t.Fatalf("%d buckets", len(buckets))
	}
	for range 3 {
		for _, prefix := range buckets {
			var upTo uint32
			for first, more := true, true; more; first = false {
				was := p.cells
				_, upTo, more = h.s.house.evictSome(sh, 0, at, prefix, first, upTo)
				if gone := was - p.cells; gone > evictStep {
					t.Fatalf("%d keys left memory while the shard was locked once", gone)
				}
			}
		}
	}
	if p.cells > keys/4 {
		t.Errorf("%d of %d keys are left", p.cells, keys)
	}
	was := p.cells
	h.s.house.evictEnough(sh, 0, at, 1)
	if gone := was - p.cells; gone > hashtable.BucketCells {
		t.Errorf("%d keys left memory when one was enough", gone)
	}
	h.check()
}

// TestMemoryOfDatabases: the memory of a database depends on its keys, and stays small even if each
// of its shards has a key.
func TestMemoryOfDatabases(t *testing.T) {
	const databases, most = 500, 24 << 10
	s, _, err := Open(Options{
		Dir: t.TempDir(), Clock: clock.NewFake(1_700_000_000_000),
		Logger:    slog.New(slog.DiscardHandler),
		Databases: databases, InitialMmap: 1 << 22, NoBackground: true, DiskReserve: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(false) }()
	heap := func() int64 { // until nothing more is freed of what earlier tests have left
		var m runtime.MemStats
		last := int64(math.MaxInt64)
		await.Until(t, "all garbage is collected", func() bool {
			runtime.GC()
			runtime.ReadMemStats(&m)
			freed := last - int64(m.HeapAlloc)
			last = int64(m.HeapAlloc)
			return freed <= 0
		})
		return last
	}
	x := s.NewTxn()
	set := func(name string) {
		for db := range databases {
			k := s.Key(db, []byte(name))
			if !s.Begin(x, []Key{k}) {
				t.Fatal("a key is not in memory")
			}
			x.SetString(k, []byte("v"), ttl.Deadline{}, Event{})
			x.End()
		}
		if err := s.Log().Commit(); err != nil {
			t.Fatal(err)
		}
	}
	was, said := heap(), s.Stats().Memory
	set("k")
	each, counted := (heap()-was)/databases, (s.Stats().Memory-said)/databases
	t.Logf("%d bytes for a database with one key, %d are counted", each, counted)
	if !slab.OnHeap && each > most {
		t.Errorf("a database with one key takes %d bytes, want at most %d", each, most)
	}
	if !slab.OnHeap && (counted < each/2 || counted > 2*each) {
		t.Errorf("%d bytes are counted, and %d taken", counted, each)
	}
	runtime.KeepAlive(s)
}

// BenchmarkEvictionHold evicts keys of one slot, as in a database whose keys all have the same tag.
// It reports how long the shard is locked at a time.
func BenchmarkEvictionHold(b *testing.B) {
	h := newHarness(b)
	defer func() { _ = h.s.Close(false) }()
	h.s.bounds.deadlinesAtOnce = deadlinesAtOnce
	const keys = 500_000
	var some []Key
	for i := range keys {
		if some = append(some, h.s.Key(0, fmt.Appendf(nil, "{slot}%d", i))); len(some) == 1000 {
			h.do(func(x *Txn) {
				for _, k := range some {
					x.SetString(k, []byte("v"), ttl.At(hour+h.clock.Now()), Event{})
				}
			}, some...)
			some, h.recent = some[:0], nil
		}
	}
	h.saved()
	k := h.s.Key(0, []byte("{slot}0"))
	sh, at := h.s.shards[h.s.shardOf(k.Slot)], int(k.Slot)%h.s.slotsPerShard
	var holds []time.Duration
	for b.Loop() {
		for _, prefix := range h.s.house.bucketsOf(sh, 0, at) {
			var upTo uint32
			for first, more := true, true; more; first = false {
				began := time.Now()
				_, upTo, more = h.s.house.evictSome(sh, 0, at, prefix, first, upTo)
				holds = append(holds, time.Since(began))
				h.s.diskDeadlines.trim()
			}
		}
		b.StopTimer()
		h.s.loads.loadAll()
		b.StartTimer()
	}
	slices.Sort(holds)
	b.ReportMetric(holds[len(holds)*999/1000].Seconds()*1000, "ms-p99.9")
	b.ReportMetric(holds[len(holds)-1].Seconds()*1000, "ms-longest")
}

// TestEvictionEndsWithoutKeys: when no key can leave memory, a round of housekeeping checks a
// bounded number of slots, however many databases there are. If few keys can leave memory, later
// rounds find them.
func TestEvictionEndsWithoutKeys(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	write := func() {
		for db := range h.s.options.Databases {
			for i := range 20 {
				k := h.s.Key(db, fmt.Append(nil, i))
				h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
			}
		}
	}
	write()
	resident := func() (n int) {
		for _, sh := range h.s.shards {
			for _, p := range sh.mu.parts {
				if p != nil {
					n += p.cells
				}
			}
		}
		return n
	}
	draw, looks := h.s.options.Random, 0
	h.s.options.Random = func() uint64 { looks++; return draw() }
	const all = 1 << 40
	if h.s.house.evict(all); looks > evictLooks || resident() != 20*h.s.options.Databases {
		t.Errorf("%d looks, %d keys are left; nothing is on disk", looks, resident())
	}
	h.saved()
	for rounds := 0; resident() > 0; rounds++ {
		if h.s.house.evict(all); rounds == 1000 {
			t.Fatalf("%d keys are left", resident())
		}
	}
	h.check()
}

// TestCleanMemorySlowsNobodyDown: commits are delayed for lack of memory only when a checkpoint can
// free some.
func TestCleanMemorySlowsNobodyDown(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	const limit = 1 << 20
	for _, c := range []struct {
		used, dirty int64
		delays      bool
	}{{3 * limit, 0, false}, {3 * limit, limit, true}, {limit, limit, false}} {
		if h.s.house.slowDown(c.used, c.dirty, limit); (h.s.Throttle() > 0) != c.delays {
			t.Errorf("%d bytes used, %d dirty, of %d: delay %v", c.used, c.dirty,
				limit, h.s.Throttle())
		}
	}
}

// Trim removes keys from memory down to the bound, and only keys that the data file contains.
func TestTrim(t *testing.T) {
	const keys, size = 2000, 1000
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	value := make([]byte, size)
	for i := range keys {
		k := h.s.Key(0, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) { x.SetString(k, value, ttl.Deadline{}, Event{}) }, k)
	}
	used, _ := h.s.measure()
	bound := used - keys*size/2
	h.s.SetMaxMemory(bound)
	h.s.Trim()
	if now, _ := h.s.measure(); now < used {
		t.Errorf("of %d bytes %d are in memory: what only the log has has left it", used, now)
	}
	h.saved()
	h.s.Trim()
	if now, _ := h.s.measure(); now > bound || now < bound/2 {
		t.Errorf("%d bytes are in memory, and the bound is %d", now, bound)
	}
	h.check()
}

// A full disk is reported once when it begins and once when it ends.
func TestFullDiskIsReported(t *testing.T) {
	h := newHarness(t)
	var log strings.Builder
	h.s.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h.s.SetDiskReserve(123)
	for _, tt := range []struct {
		low  bool
		want string
	}{
		{false, ""},
		{true,
			"level=ERROR msg=\"the disk is full: commands that may grow the data are refused until there is room\""},
		{true, ""},
		{false,
			"level=WARN msg=\"the disk has room again: no command is refused for it any more\""},
		{false, ""},
	} {
		log.Reset()
		h.s.house.lowSpace.Store(tt.low)
		h.s.house.reportFull()
		if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" ||
			tt.want != "" && !strings.Contains(got, "needed_bytes=123") {
			t.Errorf("low: %v: %q", tt.low, got)
		}
	}
}

// TestFilledLog: the last segment of the log is full, and more of the disk is reserved than is
// free. A checkpoint starts, uses some of the reserve and releases segments. It starts without a
// client's write, as no client may write then.
func TestFilledLog(t *testing.T) {
	const segment, reserve = 64 << 10, 8 << 20
	disk := vfs.NewMem()
	s, _, err := Open(Options{
		FS: disk, Dir: testkit.MemoryDir(t), Clock: clock.System,
		Logger: slog.New(slog.DiscardHandler), Databases: 1, Shards: 4,
		SegmentSize: segment, InitialMmap: 1 << 22, DiskReserve: reserve, Sync: wal.Always,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(false) }()
	disk.SetFree(reserve/2 + segment/2)
	key, txn := s.Key(0, []byte("key")), s.NewTxn()
	const most = 1000
	writes := 0
	for ; s.LogRoom(0) != NoRoom && s.Stats().Checkpoints == 0 && writes < most; writes++ {
		if !s.Begin(txn, []Key{key}) {
			t.Fatal("a key in memory has to be loaded")
		}
		txn.SetString(key, make([]byte, segment/8), ttl.Deadline{}, setEvent)
		txn.End()
		if err := s.log.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if writes == most {
		t.Fatalf("after %d writes the log has room", writes)
	}
	await.Until(t, "room in the log", func() bool { return s.LogRoom(0) < NoRoom })
}

// TestLogLeavesRoomForACheckpoint: the log reports that it is full while the disk still has the
// space for a checkpoint of everything in memory. So the checkpoint can run.
func TestLogLeavesRoomForACheckpoint(t *testing.T) {
	const free, size = 16 << 20, 16 << 10
	disk := vfs.NewMem()
	disk.SetFree(free)
	s, _, err := Open(Options{
		FS: disk, Dir: testkit.MemoryDir(t), Clock: clock.System,
		Logger: slog.New(slog.DiscardHandler), Databases: 1, Shards: 4,
		SegmentSize: 256 << 10, CheckpointBytes: 1 << 30, InitialMmap: 1 << 22,
		DiskReserve: 2 << 20, Sync: wal.Always,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(false) }()
	txn := s.NewTxn()
	ended := func() bool { return s.Stats().Checkpoints > 0 }
	for keys := 0; ; keys++ {
		await.Until(t, "room in the log, or a checkpoint", func() bool {
			return !s.log.Full() || ended()
		})
		if ended() {
			return
		}
		if keys == free/size {
			t.Fatal("the log has taken all of the disk")
		}
		key := s.Key(0, fmt.Append(nil, "key:", keys))
		if !s.Begin(txn, []Key{key}) {
			t.Fatal("a key in memory has to be loaded")
		}
		txn.SetString(key, make([]byte, size), ttl.Deadline{}, setEvent)
		txn.End()
		if err := s.log.Commit(); err != nil {
			t.Fatal(err)
		}
		if keys%16 == 0 {
			await.Until(t, "the keys to be counted", func() bool {
				return s.house.needed.Load() > int64(keys*size) || ended()
			})
		}
	}
}

// TestReachable: Reachable returns an error when the store's directory was removed.
func TestReachable(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	if err := h.s.Reachable(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(h.s.options.Dir, h.s.options.Dir+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := h.s.Reachable(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	if err := os.Rename(h.s.options.Dir+".gone", h.s.options.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(h.s.options.Dir, lockFile)); err != nil {
		t.Fatal(err)
	}
	if err := h.s.Reachable(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("emptied: %v", err)
	}
}
