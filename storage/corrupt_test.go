package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
	"keyp/ttl"
)

// TestCorruption damages a data directory in one place, a bit or a page, and uses the store. Every
// result must be right or an error. No key may disappear silently or come back, and the process
// must not end. KEYP_CORRUPT is the number of cases, KEYP_CORRUPT_CASE the number of the first. To
// repeat a failed case, set KEYP_CORRUPT_CASE to the number in the failure and leave KEYP_CORRUPT
// unset.
func TestCorruption(t *testing.T) {
	runDamage(t, 20, 1, 20, []string{"refused", "errors", "unnoticed"},
		func(c *corruptCase, _ string) string {
			c.run()
			return c.damage
		})
}

// runDamage makes a sound directory and runs cases: the usual number, or a part of KEYP_CORRUPT. A
// case draws its random numbers from its own number and from stream, and describes itself if it
// fails. If the number of cases is the usual one, each of the given outcomes must appear.
func runDamage(t *testing.T, usual, part, stream uint64, outcomes []string,
	run func(c *corruptCase, base string) string) {
	t.Helper()
	if testkit.Long() {
		usual *= 3
	}
	first, cases := uint64(0), usual
	if n, err := strconv.ParseUint(os.Getenv("KEYP_CORRUPT_CASE"), 10, 64); err == nil {
		first, cases = n, 1
	}
	if n, err := strconv.ParseUint(os.Getenv("KEYP_CORRUPT"), 10, 32); err == nil {
		cases = n / part
	}
	// This setting is global, so no test that calls runDamage is parallel.
	datafile.FreelistType = bolt.FreelistArrayType
	defer func() { datafile.FreelistType = bolt.FreelistMapType }()
	base := testkit.MemoryDir(t)
	sound := makeSound(t, filepath.Join(base, "sound"))
	counts := map[string]int{}
	for n := first; n < first+cases; n++ {
		c := &corruptCase{t: t, n: n, rng: rand.New(rand.NewPCG(n, stream)),
			dir: filepath.Join(base, "case"), sound: sound, counts: counts}
		about := run(c, base)
		if (n-first)%500 == 499 {
			t.Logf("%d cases: %v", n-first+1, counts)
		}
		if t.Failed() {
			t.Fatalf("case %d: %s; run it again with KEYP_CORRUPT_CASE=%d", n, about, n)
		}
	}
	t.Logf("%d cases, numbers %d to %d: %v", cases, first, first+cases-1, counts)
	if cases >= usual && slices.ContainsFunc(outcomes, func(o string) bool {
		return counts[o] == 0
	}) {
		t.Errorf("the cases do not show much: %v", counts)
	}
}

const corruptNow = 1_700_000_000_000

// soundDir is a data directory and the values that a store which opens it has.
type soundDir struct {
	dir   string
	names []name
	want  model
	// had has the earlier values, since the last finished checkpoint, of the keys that changed.
	had map[name][]value
}

// openCorrupt opens a directory with the options of the damage tests.
func openCorrupt(dir string, at clock.Clock) (*Store, error) {
	s, _, err := Open(Options{
		FS: vfs.OS, Dir: dir, Clock: at, Logger: slog.New(slog.DiscardHandler),
		Databases: 3, Shards: 4, Sync: wal.Always, SegmentSize: 32 << 10, InitialMmap: 1 << 22,
		NoBackground: true, DiskReserve: 1, Random: rand.New(rand.NewPCG(3, 3)).Uint64,
	})
	if err != nil {
		return nil, err
	}
	s.file.DB().NoSync = true // no crash here
	s.bounds.deadlinesAtOnce = 32
	s.bounds.batchBytes, s.bounds.pendingBytes = 64<<10, 4000
	return s, nil
}

// makeSound makes a directory with everything that can occur: values of all kinds, inline and by
// element, deadlines of keys and elements, several databases and one that the server uses itself.
// It also has garbage, pending changes of the bucket ttl, and a log of several segments.
func makeSound(t *testing.T, dir string) *soundDir {
	at := clock.NewFake(corruptNow - 100_000)
	s, err := openCorrupt(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, s: s, txn: s.NewTxn(), clock: at, model: model{}}
	b := soundBuilder{h: h, rng: rand.New(rand.NewPCG(1, 1)), now: corruptNow}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b.keys(0, 700)
	must(s.Checkpoint())
	before := entriesOf(t, s)
	h.evict()
	b.keys(350, 400)
	h.doAll(func(x *Txn) { x.FlushDB(2) })
	b.keys(700, 20)
	must(s.Checkpoint())
	at.Advance(100 * time.Second)
	s.Reap()
	b.had = map[name][]value{}
	b.change(0, 700)
	s.options.Testing.OnStep = only(StepPending, func() error { return errInterrupted })
	if err := s.checkpointInterrupted(); err != errInterrupted {
		t.Fatalf("the checkpoint gave %v", err)
	}
	b.change(300, 200)
	h.commit()
	after := entriesOf(t, s)
	must(s.Close(false))
	rewrite(t, filepath.Join(dir, format.DataName), before, after)

	sound := &soundDir{dir: dir, had: b.had}
	for i := range 730 {
		sound.names = append(sound.names, b.name(i))
	}
	sound.names = append(sound.names, name{0, "never"}, name{1, "{tag}never"}, name{3, "library"})
	c := &corruptCase{t: t, dir: dir + ".read", sound: sound}
	c.copy()
	c.clock = clock.NewFake(corruptNow)
	if c.s, err = openCorrupt(c.dir, c.clock); err != nil {
		t.Fatal(err)
	}
	must(c.s.file.View(c.hasEverything))
	sound.want = model{}
	for _, n := range sound.names {
		if v, found, err := c.read(n); err != nil {
			t.Fatalf("%v: %v", n, err)
		} else if found {
			sound.want[n] = v
		}
	}
	must(c.s.Close(false))
	if len(sound.want) < 400 {
		t.Fatalf("only %d keys to lose", len(sound.want))
	}
	return sound
}

// entriesOf returns the entries of the data file by bucket.
func entriesOf(t *testing.T, s *Store) map[string]map[string]string {
	all := map[string]map[string]string{}
	err := s.file.View(func(tx *bolt.Tx) error {
		for _, name := range format.Buckets {
			b := map[string]string{}
			all[string(name)] = b
			if err := datafile.Each(tx, name, nil, nil, func(k, v []byte) error {
				b[string(k)] = string(v)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// rewrite makes the file again with transactions of one bucket each. It first writes the earlier
// entries, then the final ones. So the same entries are on the same pages each time, and older ones
// are on free pages. In a transaction of several buckets bbolt leaves their order to chance.
func rewrite(t *testing.T, path string, before, after map[string]map[string]string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Remove(path))
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: format.PageSize,
		FreelistType: datafile.FreelistType, NoSync: true})
	must(err)
	db.AllocSize = 64 << 10
	for _, name := range format.Buckets {
		must(db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(name); return err }))
	}
	for _, now := range []map[string]map[string]string{before, after} {
		for _, name := range format.Buckets {
			var keys []string
			must(db.View(func(tx *bolt.Tx) error {
				return tx.Bucket(name).ForEach(func(k, _ []byte) error {
					keys = append(keys, string(k))
					return nil
				})
			}))
			keys = append(keys, slices.Collect(maps.Keys(now[string(name)]))...)
			slices.Sort(keys)
			for some := range slices.Chunk(slices.Compact(keys), 150) {
				must(db.Update(func(tx *bolt.Tx) (err error) {
					b := tx.Bucket(name)
					for _, k := range some {
						if v, ok := now[string(name)][k]; ok {
							err = errors.Join(err, b.Put([]byte(k), []byte(v)))
						} else {
							err = errors.Join(err, b.Delete([]byte(k)))
						}
					}
					return err
				}))
			}
		}
	}
	must(db.Update(func(*bolt.Tx) error { return nil })) // both meta pages lead to it
	must(db.Close())
}

// checkpointInterrupted runs a checkpoint that an error stops, without the store ending.
func (s *Store) checkpointInterrupted() error {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	return s.checkpointer.run()
}

// soundBuilder makes keys by number.
type soundBuilder struct {
	h   *harness
	rng *rand.Rand
	now int64
	had map[name][]value // what keys have, before and after each change; nil: not wanted
}

// do changes keys in a transaction, and notes their values.
func (b *soundBuilder) do(fn func(*Txn), keys ...Key) {
	if b.had != nil {
		b.h.do(func(*Txn) { b.note(keys) }, keys...)
	}
	b.h.do(fn, keys...)
	if b.had != nil {
		b.h.do(func(*Txn) { b.note(keys) }, keys...)
	}
}

// note records the current values of keys, including those that are due.
func (b *soundBuilder) note(keys []Key) {
	for _, k := range keys {
		v := value{}
		if p := b.h.s.part(k); p != nil {
			if c := p.find(p.slot(k), k); exists(c) {
				v.deadline = p.deadline(*c)
				if data, err := p.item(*c).String(); err == nil {
					v.data = string(data)
				} else {
					v.coll = contentOf(p.objectOf(*c).val)
				}
			}
		}
		n := name{k.DB, string(k.Name)}
		b.had[n] = append(b.had[n], v)
	}
}

func (b *soundBuilder) name(i int) name {
	n := name{i % 3, fmt.Sprintf("key%d", i)}
	switch {
	case i%5 == 0:
		n.key = fmt.Sprintf("{tag}%d", i)
	case i%97 == 1:
		n.key = strings.Repeat("long", 100) + n.key
	case i%197 == 2:
		n.key = strings.Repeat("longer", 3000) + n.key
	}
	return n
}

func (b *soundBuilder) deadline() int64 {
	switch b.rng.IntN(4) {
	case 0:
		return b.now + int64(b.rng.IntN(3)+1)*10_000
	case 1:
		return b.now - 100_000 + 1 + b.rng.Int64N(300_000)
	default:
		return 0
	}
}

// keys sets n keys, starting at a number.
func (b *soundBuilder) keys(from, n int) {
	for i := from; i < from+n; i++ {
		n := b.name(i)
		k := b.h.s.Key(n.db, []byte(n.key))
		b.do(func(x *Txn) {
			x.Delete(k, Deleted)
			b.value(x, k, i)
			if d := b.deadline(); d != 0 {
				x.SetDeadline(k, ttl.At(d), Event{})
			}
		}, k)
	}
	k := b.h.s.SystemKey("library")
	b.do(func(x *Txn) { x.SetString(k, []byte("return 1"), ttl.Deadline{}, Event{}) }, k)
	b.h.commit()
}

func (b *soundBuilder) value(x *Txn, k Key, i int) {
	few := 5
	if i%31 == 0 {
		few = 800 // by element
	}
	switch i % 7 {
	case 0, 1, 2:
		size := []int{1, 30, 700, 6000}[b.rng.IntN(4)]
		if i%29 == 0 {
			size = 30_000
		}
		x.SetString(k, []byte(strings.Repeat(string(rune('a'+i%26)), size)),
			ttl.Deadline{}, Event{})
	case 3:
		hash, _ := x.Hash(k)
		for j := range few {
			hash.Set([]byte(fmt.Sprint("field", j)),
				[]byte(fmt.Sprint("value", i, b.rng.IntN(1000))), ttl.At(max(0, b.deadline())))
		}
		hash.Set([]byte("stays"), nil, ttl.Deadline{})
	case 4:
		list, _ := x.List(k)
		for j := range few {
			list.PushBack([]byte(fmt.Sprint("item", j, b.rng.IntN(1000))))
		}
	case 5:
		set, _ := x.Set(k)
		for j := range few {
			set.Add([]byte(fmt.Sprint("member", j, "of", i)))
		}
	case 6:
		if i%2 == 1 {
			b.stream(x, k, few)
			return
		}
		zset, _ := x.ZSet(k)
		for j := range few {
			zset.Set([]byte(fmt.Sprint("member", j, "of", i)), float64(b.rng.IntN(1000)))
		}
	}
}

// change changes some of the keys in several ways.
func (b *soundBuilder) change(from, n int) {
	for i := from; i < from+n; i++ {
		n := b.name(i)
		k := b.h.s.Key(n.db, []byte(n.key))
		switch b.rng.IntN(12) {
		case 0, 1:
			b.keys(i, 1)
		case 2:
			b.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
		case 3, 4:
			b.do(func(x *Txn) { x.SetDeadline(k, ttl.At(max(0, b.deadline())), Event{}) }, k)
		case 5:
			if i%7 == 3 {
				b.do(func(x *Txn) {
					hash, _ := x.Hash(k)
					hash.Set([]byte("field3"), []byte("changed"), ttl.Deadline{})
					hash.Set([]byte("stays"), []byte("here"), ttl.Deadline{})
				}, k)
			}
			if i%14 == 13 {
				b.do(func(x *Txn) { b.stream(x, k, 3) }, k)
			}
		case 6:
			to := b.name(from + b.rng.IntN(n.db+100))
			q := b.h.s.Key(to.db, []byte(to.key))
			if to != n {
				b.do(func(x *Txn) { x.Rename(k, q) }, k, q)
			}
		}
	}
	b.h.commit()
}

// corruptCase is one damage and its outcome.
type corruptCase struct {
	t      *testing.T
	n      uint64
	rng    *rand.Rand
	dir    string
	sound  *soundDir
	counts map[string]int

	damage string
	want   model
	clock  *clock.Fake
	s      *Store
	errors int
}

func (c *corruptCase) copy() {
	must := func(err error) {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	must(os.RemoveAll(c.dir))
	must(filepath.WalkDir(c.sound.dir, func(path string, d fs.DirEntry, err error) error {
		to := c.dir + strings.TrimPrefix(path, c.sound.dir)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o700))
		}
		b, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(to, b, 0o600))
	}))
}

// harm damages the copy.
func (c *corruptCase) harm() {
	path, page := filepath.Join(c.dir, format.DataName), format.PageSize
	if c.rng.IntN(10) < 3 {
		path, page = c.segment(), 4096
	}
	b, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	used := len(b)
	for used > 1 && b[used-1] == 0 {
		used--
	}
	if page == 4096 {
		// The last page of a log is not fully protected, see docs/internals/reliability.md.
		used -= used % page
	}
	at := c.rng.IntN(max(used, 1))
	kind := "bit"
	switch c.rng.IntN(8) {
	case 0: // a page of zeros
		kind = "page"
		at -= at % page
		clear(b[at:min(at+page, len(b))])
	case 1, 2: // what a page begins with is what damage can do most with
		at = min(at-at%page+c.rng.IntN(400), len(b)-1)
		b[at] ^= 1 << c.rng.IntN(8)
	case 3: // the first pages: meta, and the header of the log
		at = c.rng.IntN(min(2*page, len(b)))
		b[at] ^= 1 << c.rng.IntN(8)
	default:
		b[at] ^= 1 << c.rng.IntN(8)
	}
	c.damage = fmt.Sprintf("%s at %d (page %d) of %s", kind, at, at/page, filepath.Base(path))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// segment returns the path of one file of the log.
func (c *corruptCase) segment() string {
	names, err := filepath.Glob(filepath.Join(c.dir, "wal", "*.log"))
	if err != nil || len(names) < 3 {
		c.t.Fatalf("the log has the files %v: %v", names, err)
	}
	return names[c.rng.IntN(len(names))]
}

func (c *corruptCase) run() {
	stuck := time.AfterFunc(await.Bound, func() {
		panic(fmt.Sprintf("case %d does not end: %s", c.n, c.damage))
	})
	defer stuck.Stop()
	c.copy()
	c.harm()
	c.want = c.sound.want.clone()
	c.clock = clock.NewFake(corruptNow)
	if c.n%4 == 0 {
		defer c.inspect()()
	}
	if !c.open() {
		c.counts["refused"]++
		return
	}
	if c.rng.IntN(4) == 0 {
		c.s.loads.loadAll()
	}
	c.readAll("at first")
	c.write()
	c.may(c.s.Checkpoint())
	c.clock.Advance(15 * time.Second)
	c.s.Reap()
	c.may(c.s.log.Commit())
	if c.rng.IntN(3) == 0 {
		_, _, err := c.s.Compact()
		c.may(err)
	}
	c.readAll("after a checkpoint")
	c.may(c.s.Close(c.rng.IntN(2) == 0))
	if c.open() {
		c.readAll("after a restart")
		c.may(c.s.Close(false))
	}
	if c.errors > 0 {
		c.counts["errors"]++
	} else {
		c.counts["unnoticed"]++
	}
}

// inspect runs Inspect on the damaged directory. The returned function fails if the store noticed
// damage that Inspect had not found.
func (c *corruptCase) inspect() func() {
	found := 0
	_, err := InspectDir(Options{Dir: c.dir, Clock: c.clock, Logger: slog.New(slog.DiscardHandler),
		InitialMmap: 1 << 22}, func(string, bool) { found++ })
	c.counts["inspected"]++
	return func() {
		if c.errors > 0 && found == 0 && err == nil {
			c.t.Errorf("the store noticed damage, and Inspect did not")
		}
	}
}

// open opens the store. It returns false if that was refused, which only damage may cause.
func (c *corruptCase) open() bool {
	var err error
	c.s, err = openCorrupt(c.dir, c.clock)
	c.may(err)
	return err == nil
}

// may notes an error, which must report damage.
func (c *corruptCase) may(err error) {
	var log *wal.CorruptError
	switch {
	case err == nil:
	case errors.Is(err, ErrCorrupt), errors.As(err, &log), errors.Is(err, ErrFormat),
		errors.Is(err, wal.ErrVersion):
		c.errors++
	default:
		c.t.Errorf("an error that is not about damage: %v", err)
	}
}

// read reads one key, from the data file if the key is not in memory.
func (c *corruptCase) read(n name) (v value, found bool, err error) {
	k := c.s.Key(n.db, []byte(n.key))
	x := c.s.NewTxn()
	for !c.s.Begin(x, []Key{k}) {
		for _, slow := range c.s.loads.serveBatch([]load{{keys: []Key{k}, done: func(e error) {
			err = e
		}}}) {
			c.s.loads.serve(slow)
		}
		if err != nil {
			return v, false, err
		}
	}
	defer x.End()
	it, found := x.Get(k)
	if !found {
		return v, false, nil
	}
	v.deadline = it.Deadline()
	if data, err := it.String(); err == nil {
		v.data = string(data)
	} else {
		v.coll = contentOf(it.Value())
	}
	return v, true, nil
}

// readAll reads all keys in random order and checks the results.
func (c *corruptCase) readAll(when string) {
	now := c.clock.Now()
	for _, i := range c.rng.Perm(len(c.sound.names)) {
		n := c.sound.names[i]
		got, found, err := c.read(n)
		if err != nil {
			c.may(err)
			continue
		}
		want, there := model{n: c.want[n]}.live(now)[n]
		if _, known := c.want[n]; !known {
			there = false
		}
		if found != there || found && !same(model{n: got}, model{n: want}) {
			c.t.Errorf("%s %.40q of database %d is there %t with %.60q, deadline %d, %v; it must be there %t with %.60q, deadline %d, %v",
				when, n.key, n.db, found, got.data, got.deadline, got.coll, there, want.data,
				want.deadline, want.coll)
			return
		}
	}
}

// write changes some keys. A write that returns an error changes nothing.
func (c *corruptCase) write() {
	for range 60 {
		n := c.sound.names[c.rng.IntN(len(c.sound.names))]
		if _, _, err := c.read(n); err != nil {
			continue
		}
		k := c.s.Key(n.db, []byte(n.key))
		x := c.s.NewTxn()
		if !c.s.Begin(x, []Key{k}) {
			continue
		}
		if c.rng.IntN(3) == 0 {
			x.Delete(k, Deleted)
			delete(c.want, n)
		} else {
			v := value{data: strings.Repeat("new", 1+c.rng.IntN(300)),
				deadline: []int64{0, corruptNow + 10_000, corruptNow + 1_000_000}[c.rng.IntN(3)]}
			x.SetString(k, []byte(v.data), ttl.At(v.deadline), Event{})
			c.want[n] = v
		}
		x.End()
	}
	c.may(c.s.log.Commit())
}

// hasEverything fails if the directory lacks something that the damage should be able to hit.
func (c *corruptCase) hasEverything(tx *bolt.Tx) error {
	for _, name := range format.Buckets {
		if k, _ := tx.Bucket(name).Cursor().First(); k == nil {
			c.t.Errorf("bucket %s is empty", name)
		}
	}
	for _, name := range [][]byte{format.BucketValues, format.BucketElements, format.BucketTTL} {
		if depth := tx.Bucket(name).Stats().Depth; depth < 2 {
			c.t.Errorf("bucket %s has no branch page", name)
		}
	}
	segments, err := filepath.Glob(filepath.Join(c.dir, "wal", "wal-*.log"))
	if len(segments) < 3 {
		c.t.Errorf("the log has the segments %v", segments)
	}
	return err
}
