package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/testkit/await"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// alter changes the record of a key in the data file without the store knowing.
func (h *harness) alter(k Key, change func(record []byte) []byte) {
	h.t.Helper()
	at := format.DiskKey(nil, h.s.spaces.ids[k.DB], k)
	err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketValues)
		record := append([]byte(nil), b.Get(at)...)
		if len(record) == 0 {
			h.t.Fatal("the key is not on disk")
		}
		if record = change(record); record == nil {
			return b.Delete(at)
		}
		return b.Put(at, record)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// stored makes a key that exists only on disk.
func stored(t *testing.T, key, data string, left int64) (*harness, Key) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	k := h.s.Key(0, []byte(key))
	h.do(func(x *Txn) { x.SetString(k, []byte(data), ttl.At(h.clock.Now()+left), Event{}) }, k)
	h.reopen()
	return h, h.s.Key(0, []byte(key))
}

// damageDeadline damages two bits of a key's deadline, as a single bit could be corrected. The
// record ends with: deadline, created, payload of 1 byte.
func (h *harness) damageDeadline(k Key) {
	h.alter(k, func(r []byte) []byte { r[len(r)-2] ^= 3; return r })
}

// TestCorruptDeadlineIsInTTL: if a key's record does not have a readable deadline any more, the key
// expires by its entry in the bucket ttl, whoever finds it first. A key that has expired stays
// gone.
func TestCorruptDeadlineIsInTTL(t *testing.T) {
	for how, then := range map[string]func(h *harness, k Key){
		"loaded":               func(h *harness, k Key) { h.load([]Key{k}) },
		"loaded with its slot": func(h *harness, _ Key) { h.s.loads.loadAll() },
		"found by the window":  func(*harness, Key) {},
		"replayed": func(h *harness, k Key) {
			h.do(func(x *Txn) {
				x.SetString(h.s.Key(0, []byte("other")), nil, ttl.Deadline{}, Event{})
			}, h.s.Key(0, []byte("other")))
			h.clock.Advance(6 * time.Second)
			h.s.Reap()
			h.commit()
			_ = h.s.Close(false)
			h.clock.Set(h.clock.Now() - 6000) // what is reaped stays gone
			h.open()
		},
	} {
		t.Run(how, func(t *testing.T) {
			h, k := stored(t, "k", "v", 5000)
			h.damageDeadline(k)
			then(h, k)
			if how != "replayed" {
				h.clock.Advance(4999 * time.Millisecond)
				if got := h.state(map[name]bool{{0, "k"}: true}); len(got) != 1 {
					t.Errorf("before its deadline there is %v", got)
				}
				h.clock.Advance(time.Millisecond)
			}
			h.s.Reap()
			if got := h.state(map[name]bool{{0, "k"}: true}); len(got) != 0 {
				t.Errorf("at its deadline there is %v", got)
			}
			if keys, expires := h.s.Count(0); expires != 0 || keys > 1 {
				t.Errorf("%d keys are counted, %d with a deadline", keys, expires)
			}
			if n := h.s.Stats().BadDeadlines; how != "replayed" && n == 0 {
				t.Error("no bad deadline was counted")
			}
		})
	}
}

// TestCorruptDeadlineBehindAnElement: if an element is due before its key, the bucket ttl does not
// have the key's deadline. Still, one damaged bit loses neither deadline, whichever bit it is.
func TestCorruptDeadlineBehindAnElement(t *testing.T) {
	const check, times, size = 4, 10, 20 // where these are in a record whose id takes a byte
	for _, damaged := range []int{check, check + 3, times, times + 7, times + 11, times + 12,
		times + size - 1} {
		for how, load := range map[string]func(h *harness, k Key){
			"loaded":               func(h *harness, k Key) { h.load([]Key{k}) },
			"loaded with its slot": func(h *harness, _ Key) { h.s.loads.loadAll() },
			"found by the window":  func(*harness, Key) {},
		} {
			t.Run(fmt.Sprintf("%s, byte %d", how, damaged), func(t *testing.T) {
				h := newHarness(t)
				t.Cleanup(func() { h.s.Close(false) })
				now := h.clock.Now()
				k := h.s.Key(0, []byte("k"))
				h.do(func(x *Txn) {
					hash, _ := x.Hash(k)
					hash.Set([]byte("goes"), []byte("v"), ttl.At(now+1000))
					hash.Set([]byte("stays"), []byte("v"), ttl.Deadline{})
					x.SetDeadline(k, ttl.At(now+5000), Event{})
				}, k)
				h.reopen()
				k = h.s.Key(0, []byte("k"))
				h.alter(k, func(r []byte) []byte {
					if r[9] >= 0x80 {
						t.Fatal("the value's id takes several bytes")
					}
					r[damaged] ^= 1 << 3
					return r
				})
				load(h, k)
				for after, fields := range []int{2, 1, 1, 1, 1, 0} {
					h.s.Reap()
					v, there := h.state(map[name]bool{{0, "k"}: true})[name{0, "k"}]
					if there != (fields > 0) ||
						there && (v.deadline != now+5000 || len(v.coll.elems) != fields) {
						t.Errorf("after %d s the key is there: %t, with deadline %d and %v; want %d fields",
							after, there, v.deadline, v.coll, fields)
					}
					h.clock.Advance(time.Second)
				}
				if n := h.s.Stats().BadDeadlines; n == 0 {
					t.Error("no bad deadline was counted")
				}
			})
		}
	}
}

func TestCorruptDeadlineMakesTheKeyPersistent(t *testing.T) {
	h, k := stored(t, "k", "v", 5000)
	h.damageDeadline(k)
	if err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
		return datafile.PutMeta(tx, format.MetaDoubt, nil)
	}); err != nil {
		// So the entry in ttl proves nothing.
		t.Fatal(err)
	}
	h.load([]Key{k})
	h.clock.Advance(time.Hour)
	h.s.Begin(h.txn, []Key{k})
	it, ok := h.txn.Get(k)
	if !ok || it.Deadline() != 0 {
		t.Fatalf("the key is there: %t, with deadline %d; want it persistent", ok, it.Deadline())
	}
	if v, _ := it.String(); string(v) != "v" {
		t.Fatalf("value %q", v)
	}
	h.txn.End()
	if n := h.s.Stats().BadDeadlines; n != 1 {
		t.Errorf("%d bad deadlines counted, want 1", n)
	}
	h.reopen() // writes it again
	h.load([]Key{h.s.Key(0, []byte("k"))})
	if n := h.s.Stats().BadDeadlines; n != 0 {
		t.Errorf("the damage is still there after a checkpoint")
	}
}

func TestCorruptRecordIsNeverServed(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "inline": 6000, "elements": 50000} {
		t.Run(name, func(t *testing.T) {
			h, k := stored(t, "k", strings.Repeat("v", size), 5000)
			if size > format.InlineMax {
				err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
					b := tx.Bucket(format.BucketElements)
					at, rec := b.Cursor().First()
					rec = append([]byte(nil), rec...)
					rec[len(rec)/2] ^= 0x10
					return b.Put(at, rec)
				})
				if err != nil {
					t.Fatal(err)
				}
			} else {
				h.alter(k, func(r []byte) []byte { r[len(r)-1] ^= 0x10; return r })
			}
			var got error
			for _, slow := range h.s.loads.serveBatch(
				[]load{{keys: []Key{k}, done: func(err error) { got = err }}}) {
				h.s.loads.serve(slow)
			}
			if !errors.Is(got, ErrCorrupt) {
				t.Fatalf("loading gave %v, want ErrCorrupt", got)
			}
			if h.s.Begin(h.txn, []Key{k}) {
				t.Fatal("the key counts as resident")
			}
			if err := h.s.Check(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Check gave %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestMissingDataFileIsNamed: a start without the data file reports that file as missing, and not a
// segment of the log. It creates no data file.
func TestMissingDataFileIsNamed(t *testing.T) {
	h := newHarness(t)
	k := h.s.Key(0, []byte("k"))
	for range 4 {
		h.do(func(x *Txn) {
			x.SetString(k, make([]byte, h.options().SegmentSize), ttl.Deadline{}, Event{})
		}, k)
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	if lowest, err := wal.Lowest(h.fs, filepath.Join(h.dir, format.LogDir)); err != nil ||
		lowest < 2 {
		t.Fatalf("the lowest segment is %d, %v", lowest, err)
	}
	path := filepath.Join(h.dir, format.DataName)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := h.tryOpen(); err == nil ||
		!strings.Contains(err.Error(), "the data file "+path+" is missing") {
		t.Errorf("opening gives %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening has made a data file: %v", err)
	}
}

func TestMissingRecordIsFoundByTheDigest(t *testing.T) {
	h, k := stored(t, "{tag}1", "v", 5000)
	h.alter(k, func([]byte) []byte { return nil })
	sh := h.s.shards[h.s.shardOf(k.Slot)]
	if _, err := h.s.loads.loadSlot(sh, 0, int(k.Slot)%h.s.slotsPerShard); !errors.Is(err,
		ErrCorrupt) {
		t.Fatalf("loading the slot gave %v, want ErrCorrupt", err)
	}
	if !sh.mu.parts[0].slot(k).partial {
		t.Fatal("the damaged slot counts as complete")
	}
}

func TestFullDiskRefusesGrowthAndHeals(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	h.s.SetDiskReserve(1 << 20)
	h.fs.SetFree(1 << 30)
	h.s.house.round()
	if h.s.Full() {
		t.Fatal("full with a gigabyte free")
	}
	h.fs.SetFree(1000)
	h.s.house.round()
	if !h.s.Full() {
		t.Fatal("not full with a kilobyte free")
	}
	h.fs.SetFree(1 << 30)
	h.s.house.round()
	await.Until(t, "room came back, so writes are accepted", func() bool { return !h.s.Full() })
}

// TestWritersAreSlowedDown: when checkpoints cannot keep the log short, commits are delayed. A
// checkpoint ends the delay.
func TestWritersAreSlowedDown(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	h.s.options.CheckpointBytes = 10_000
	k := h.s.Key(0, []byte("k"))
	var last time.Duration
	for n := range 6 {
		for range 10 {
			h.do(func(x *Txn) { x.SetString(k, make([]byte, 1000), ttl.Deadline{}, Event{}) }, k)
		}
		h.commit()
		h.s.house.round()
		d := h.s.Throttle()
		if d < last || d > maxDelay || (d > 0) != (h.s.log.Size() > 20_000) {
			t.Fatalf("after %d0 kB the delay is %v, before it was %v", n+1, d, last)
		}
		if paced := h.s.ThrottleOf(1<<20) - d; (paced > 0) != (h.s.log.Size() > 20_000) ||
			h.s.ThrottleOf(1<<40) > d+paceMost {
			t.Fatalf("after %d0 kB a commit of 1 MiB waits %v more, and a large one %v", n+1, paced,
				h.s.ThrottleOf(1<<40)-d)
		}
		last = d
	}
	if h.s.FollowThrottle(1<<20) != 0 {
		t.Error("a server that is alone waits as a follower")
	}
	h.s.follower.on.Store(true)
	if one, large := h.s.FollowThrottle(1<<20), h.s.FollowThrottle(1<<40); one == 0 ||
		large != paceMost || h.s.ThrottleOf(1<<40) != h.s.Throttle() {
		t.Errorf("a follower waits %v with 1 MiB, %v with much more, and the loop %v", one, large,
			h.s.ThrottleOf(1<<40))
	}
	h.s.follower.on.Store(false)
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if h.s.house.round(); h.s.Throttle() != 0 {
		t.Fatalf("after a checkpoint the delay is %v", h.s.Throttle())
	}
}

// TestLongReplayIsBounded: a log that would take long to replay asks for a checkpoint. A log that
// would take much longer delays commits, whatever its size. After a restart the store counts what
// it has replayed.
func TestLongReplayIsBounded(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	processors := int64(replaysOf(len(h.s.shards)))
	for _, c := range []struct {
		budgets     float64
		due, delays bool
	}{{0.9, false, false}, {1.1, true, false}, {1.9, true, false}, {2.1, true, true}} {
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
		h.commit()
		h.s.replayCost.Store(int64(c.budgets*float64(replayBudget)) * processors)
		h.s.house.round()
		due := len(h.s.checkpointer.kick) > 0
		if due != c.due || (h.s.Throttle() > 0) != c.delays {
			t.Errorf("at %v times the budget a checkpoint is due: %t, commits wait %v; want %t, %t",
				c.budgets, due, h.s.Throttle(), c.due, c.delays)
		}
	}
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if h.s.house.round(); h.s.replayTime() != 0 || h.s.Throttle() != 0 {
		t.Errorf("after a checkpoint the log takes %v to replay, commits wait %v", h.s.replayTime(),
			h.s.Throttle())
	}
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
	h.commit()
	want := h.s.replayCost.Load()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	h.open()
	if got := h.s.replayCost.Load(); got != want || want == 0 {
		t.Errorf("after the restart the log costs %d ns, before it %d", got, want)
	}
}

// TestExpiredKeyStaysGone uses a sequence in which the first value would come back if replay
// ignored the order of records, or if the reaper logged nothing.
func TestExpiredKeyStaysGone(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *Txn) { x.SetString(k, []byte("a"), ttl.Deadline{}, Event{}) }, k)
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	h.do(func(x *Txn) { x.SetString(k, []byte("b"), ttl.At(h.clock.Now()+5), Event{}) }, k)
	h.clock.Advance(6 * time.Millisecond)
	if n := h.s.Reap(); n != 1 {
		t.Fatalf("reaped %d keys, want 1", n)
	}
	h.commit()
	h.clock.Set(h.clock.Now() - 3600_000) // over the restart the clock steps back
	h.s.stop()
	h.s.background.Wait()
	crashed := h.fs.Crash(rand.New(rand.NewPCG(1, 1)))
	_ = h.s.log.Close() // what it writes now goes nowhere
	if err := h.s.release(); err != nil {
		t.Fatal(err)
	}
	h.fs = crashed
	h.open()
	if got := h.state(map[name]bool{{0, "k"}: true}); len(got) != 0 {
		t.Fatalf("k is back: %v", got)
	}
	h.check()
}

// TestStaleWindowEntryKillsNothing: a key leaves memory, comes back, gets a later deadline and
// leaves again. It must not be removed at the first deadline.
func TestStaleWindowEntryKillsNothing(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	m := &machine{h: h}
	k := h.s.Key(0, []byte("k"))
	for _, left := range []int64{1000, 50_000} {
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(h.clock.Now()+left), Event{}) }, k)
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		h.s.Reap() // diskDeadlines reads ahead
		m.evict(nil)
	}
	for _, step := range []struct {
		after time.Duration
		keys  int64
	}{{2 * time.Second, 1}, {60 * time.Second, 0}} {
		h.clock.Advance(step.after)
		h.s.Reap()
		if keys, _ := h.s.Count(0); keys != step.keys {
			t.Fatalf("%d keys after %v more, want %d", keys, step.after, step.keys)
		}
		h.check()
	}
}

// TestScanSeesEveryKeyThatStays runs whole SCAN iterations while other keys are added and removed,
// leave memory and come back.
func TestScanSeesEveryKeyThatStays(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	m := &machine{h: h}
	stay := map[string]bool{}
	set := func(key string) {
		k := h.s.Key(0, []byte(key))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
	}
	for i := range 3000 {
		key := "{one}" + string(rune('a'+i%26)) + strings.Repeat("k", i%7) +
			time.Duration(i).String()
		if i%3 == 0 {
			key = key[5:] // other slots
		}
		stay[key] = true
		set(key)
	}
	for round := range 6 {
		seen, steps := map[string]bool{}, 0
		for cursor := uint64(0); ; steps++ {
			n := 0
			next, err := h.s.Scan(0, cursor, 10, func(name []byte, _ object.Type) {
				seen[string(name)] = true
				n++
			})
			if err != nil {
				t.Fatal(err)
			}
			if n > 200 {
				t.Fatalf("one step visited %d keys", n)
			}
			if cursor = next; cursor == 0 {
				break
			}
			set("{one}new" + time.Duration(steps).String())
			if steps%50 == 25 && round > 1 {
				if err := h.s.Checkpoint(); err != nil {
					t.Fatal(err)
				}
				m.evict(nil)
			}
		}
		for key := range stay {
			if !seen[key] {
				t.Fatalf("round %d: %q was not visited", round, key)
			}
		}
	}
}

// TestDamagedMeta: the data file has lost its meta pages. The first operation that finds this gets
// an error, and so do all later ones. The store fails, but closing it still returns.
func TestDamagedMeta(t *testing.T) {
	t.Parallel()
	load := func(h *harness, k Key) (got error) {
		for _, slow := range h.s.loads.serveBatch([]load{{keys: []Key{k}, done: func(err error) {
			got = err
		}}}) {
			h.s.loads.serve(slow)
		}
		return got
	}
	uses := map[string]func(*harness, Key) error{
		"load":       load,
		"checkpoint": func(h *harness, _ Key) error { return h.s.Checkpoint() },
		"snapshot":   func(h *harness, _ Key) error { _, err := h.s.OpenSnapshot(); return err },
		"close":      func(h *harness, _ Key) error { return h.s.Close(true) },
	}
	damages := map[string]func(path string, metas int) error{
		"truncated": func(path string, _ int) error { return os.Truncate(path, 5) },
		"overwritten": func(path string, metas int) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, metas))
			return errors.Join(err, f.Close())
		},
	}
	for name, damage := range damages {
		for use := range uses {
			t.Run(name+"/"+use, func(t *testing.T) {
				h, k := stored(t, "k", strings.Repeat("v", 100), 5000)
				other := h.s.Key(0, []byte("other"))
				h.do(func(x *Txn) { x.SetString(other, []byte("v"), ttl.At(0), Event{}) }, other)
				if err := damage(filepath.Join(h.s.options.Dir, format.DataName),
					2*h.s.file.DB().Info().PageSize); err != nil {
					t.Fatal(err)
				}
				ended := make(chan string)
				go func() {
					defer close(ended)
					for _, step := range []string{use, "load", "checkpoint", "snapshot",
						"close", "load"} {
						if err := uses[step](h, k); err == nil {
							ended <- step
						}
					}
				}()
				if step, wrong := await.Next(t, "all to end", ended); wrong {
					t.Errorf("%s gives no error", step)
				}
			})
		}
	}
}
