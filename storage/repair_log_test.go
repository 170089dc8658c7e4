package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// gapCase makes a directory whose log has a damaged batch in the middle, and repairs it.
type gapCase struct {
	t        *testing.T
	h        *harness
	reported []Loss
}

func (g *gapCase) do(fn func(*Txn), names ...string) {
	var keys []Key
	for _, n := range names {
		keys = append(keys, g.h.s.Key(0, []byte(n)))
	}
	g.h.do(fn, keys...)
	g.h.commit()
}

func (g *gapCase) key(n string) Key { return g.h.s.Key(0, []byte(n)) }

func (g *gapCase) set(n, v string) {
	g.do(func(x *Txn) { x.SetString(g.key(n), []byte(v), ttl.Deadline{}, Event{}) }, n)
}

func (g *gapCase) hset(n string, fields ...string) {
	g.do(func(x *Txn) {
		h, err := x.Hash(g.key(n))
		if err != nil {
			g.t.Fatal(err)
		}
		for _, f := range fields {
			h.Set([]byte(f), []byte("of "+n), ttl.Deadline{})
		}
	}, n)
}

// open opens a store on real files, as the damage is made there.
func (g *gapCase) open(dir string, databases int) {
	s, _, err := Open(Options{FS: vfs.OS, Dir: dir, Clock: g.h.clock,
		Logger: slog.New(slog.DiscardHandler), Databases: databases, Shards: 4,
		Sync: wal.Always, SegmentSize: 64 << 10, InitialMmap: 1 << 22, NoBackground: true,
		DiskReserve: 1})
	if err != nil {
		g.t.Fatal(err)
	}
	g.h.s, g.h.txn = s, s.NewTxn()
}

// content returns the keys of a database with their values.
func (g *gapCase) content(db int) string {
	g.h.s.loads.loadAll()
	var names, lines []string
	err := g.h.s.Walk(db, func(name []byte, _ object.Type) bool {
		names = append(names, string(name))
		return true
	})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, n := range names {
		k := g.h.s.Key(db, []byte(n))
		g.h.do(func(x *Txn) {
			it, _ := x.Peek(k)
			line := n + "="
			if v, err := it.String(); err == nil {
				line += string(v)
			} else {
				for _, e := range contentOf(it.Value()).elems {
					line += e.key + ","
				}
			}
			lines = append(lines, line)
		}, k)
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// repaired runs before, then lost in one batch that is damaged later, then after. Then it repairs
// the directory and opens the result.
func (g *gapCase) repaired(before func(), lost func(x *Txn), after func(), databases int) {
	dir := g.t.TempDir()
	g.h = &harness{t: g.t, clock: clock.NewFake(corruptNow), model: model{}}
	g.open(filepath.Join(dir, "data"), 2)
	before()
	if err := g.h.s.Checkpoint(); err != nil {
		g.t.Fatal(err)
	}
	const mark = "this is the batch that is damaged"
	g.h.doAll(func(x *Txn) {
		lost(x)
		x.SetString(g.key("mark"), []byte(mark), ttl.Deadline{}, Event{})
	})
	g.h.commit()
	after()
	if err := g.h.s.Close(false); err != nil {
		g.t.Fatal(err)
	}
	hit := 0
	logs, err := filepath.Glob(filepath.Join(dir, "data", "wal", "*.log"))
	for _, file := range logs {
		b, bad := os.ReadFile(file)
		err = errors.Join(err, bad)
		if at := bytes.Index(b, []byte(mark)); at >= 0 {
			hit++
			b[at] ^= 1
			err = errors.Join(err, os.WriteFile(file, b, 0o600))
		}
	}
	if err != nil || hit != 1 {
		g.t.Fatalf("the batch stands in %d files; %v", hit, err)
	}
	o := Options{Dir: filepath.Join(dir, "data"), Clock: g.h.clock,
		Logger: slog.New(slog.DiscardHandler), Databases: 2, InitialMmap: 1 << 22}
	if _, err := RepairDir(o, filepath.Join(dir, "new"), func(l Loss) {
		g.reported = append(g.reported, l)
	}); err != nil {
		g.t.Fatal(err)
	}
	g.open(filepath.Join(dir, "new"), databases)
	if err := g.h.s.Check(); err != nil {
		g.t.Error(err)
	}
	g.t.Cleanup(func() { _ = g.h.s.Close(false) })
}

func (g *gapCase) want(db int, want string) {
	g.t.Helper()
	if got := g.content(db); got != want {
		g.t.Errorf("database %d has %q, want %q", db, got, want)
	}
}

// wantReported expects a reported loss of a kind whose text contains all of texts.
func (g *gapCase) wantReported(kind LossKind, texts ...string) {
	g.t.Helper()
	for _, l := range g.reported {
		if l.Kind == kind && !slices.ContainsFunc(texts, func(s string) bool {
			return !strings.Contains(l.What, s)
		}) {
			return
		}
	}
	g.t.Errorf("nothing of kind %d says %q: %v", kind, texts, g.reported)
}

// TestRepairBehindAGap: the batches after a damaged batch are applied. Keys that they set are
// right, and keys that they only change are reported. Other keys have their earlier values.
func TestRepairBehindAGap(t *testing.T) {
	g := &gapCase{t: t}
	g.repaired(func() {
		for _, n := range []string{"stays", "changed", "deleted", "set later",
			"deleted later", "renamed"} {
			g.set(n, "old")
		}
		g.hset("hash", "a", "b")
		g.hset("emptied", "a")
		g.hset("moves", "a")
	}, func(x *Txn) {
		x.SetString(g.key("changed"), []byte("new"), ttl.Deadline{}, Event{})
		x.Delete(g.key("deleted"), Deleted)
		x.SetString(g.key("set later"), []byte("in the gap"), ttl.Deadline{}, Event{})
		x.SetString(g.key("only there"), []byte("lost"), ttl.Deadline{}, Event{})
		for _, n := range []string{"hash", "emptied", "made", "made and emptied",
			"made and renamed"} {
			h, _ := x.Hash(g.key(n))
			h.Set([]byte("lost"), nil, ttl.Deadline{})
		}
		x.SetString(g.key("long"), make([]byte, 50_000), ttl.Deadline{}, Event{})
	}, func() {
		g.set("set later", "last")
		g.set("afterwards", "new")
		g.hset("whole", "a")
		g.hset("whole", "b")
		g.hset("hash", "c")
		g.hset("made", "c")
		g.do(func(x *Txn) { x.Delete(g.key("deleted later"), Deleted) }, "deleted later")
		for _, n := range []string{"emptied", "made and emptied"} {
			g.hset(n, "a")
			g.do(func(x *Txn) { h, _ := x.Hash(g.key(n)); h.Delete([]byte("a")) }, n)
		}
		g.do(func(x *Txn) { x.Rename(g.key("moves"), g.key("moved")) }, "moves", "moved")
		g.do(func(x *Txn) { x.Rename(g.key("renamed"), g.key("new name")) }, "renamed", "new name")
		g.do(func(x *Txn) { x.Rename(g.key("made and renamed"), g.key("renamed hash")) },
			"made and renamed", "renamed hash")
		g.hset("renamed hash", "later")
		g.do(func(x *Txn) { x.WriteRange(g.key("long"), 49_999, []byte("more"), Event{}) }, "long")
		g.do(func(x *Txn) { x.SetDeadline(g.key("stays"), ttl.At(corruptNow+1000), Event{}) },
			"stays")
	}, 2)
	g.want(0,
		"afterwards=new changed=old deleted=old hash=a,b,c, made=c, moved=a, new name=old renamed hash=later, set later=last stays=old whole=a,b,")
	g.wantReported(Lost, "a part of the log", "it fails its checksum", `"changed", "deleted"`)
	g.wantReported(Lost, "6 keys are as before")
	for _, n := range []string{"hash", "emptied", "made", "made and emptied", "renamed hash",
		"long", "stays"} {
		g.wantReported(Doubtful, fmt.Sprintf("key %q of database 0", n))
	}
	doubts := 0
	for _, l := range g.reported {
		if l.Kind == Doubtful {
			doubts++
		}
	}
	if doubts != 7 {
		t.Errorf("%d keys are doubtful: %v", doubts, g.reported)
	}
}

// TestRepairAfterALostFlush: the damaged batch has emptied a database. Keys that were written into
// it afterwards are saved in a separate database.
func TestRepairAfterALostFlush(t *testing.T) {
	g := &gapCase{t: t}
	g.repaired(func() { g.set("old", "value") }, func(x *Txn) { x.FlushDB(0) }, func() {
		g.set("new", "value")
		g.hset("hash", "a")
	}, 3)
	g.want(0, "old=value")
	g.want(2, "hash=a, new=value")
	g.wantReported(Lost, "which databases were emptied")
}

// TestRepairUnfinishedCheckpoint: an unfinished checkpoint had written some values whose changes
// the log lost. Whatever it had written, the repaired directory is sound, and no two keys share a
// value. Each key that has neither its earlier nor its later value is reported.
func TestRepairUnfinishedCheckpoint(t *testing.T) {
	t.Parallel()
	kinds := []string{"hash", "set", "zset", "list", "stream", "string"}
	fill := func(x *Txn, g *gapCase, from, n, size int) {
		for i := from; i < from+n; i++ {
			elem := fmt.Appendf(nil, "%0*d", size, i)
			h, _ := x.Hash(g.key("hash"))
			h.Set(elem, nil, ttl.Deadline{})
			s, _ := x.Set(g.key("set"))
			s.Add(elem)
			z, _ := x.ZSet(g.key("zset"))
			z.Set(elem, float64(i))
			l, _ := x.List(g.key("list"))
			l.PushBack(elem)
			st, _ := x.Stream(g.key("stream"))
			st.Add(streamID(i+1), [][]byte{elem, elem})
			if i == from {
				st.CreateGroup(fmt.Appendf(nil, "group%d", from), streamID(0), 0)
				st.CreateConsumer(fmt.Appendf(nil, "group%d", from), []byte("consumer"), 1)
			}
			st.Deliver(fmt.Appendf(nil, "group%d", from), []byte("consumer"), streamID(i+1), 1, 1)
		}
	}
	found, shared, step := 0, 0, 11
	if testkit.Long() {
		step = 5
	}
	for n, finished := 1, false; !finished; n += step {
		g := &gapCase{t: t}
		before, after := map[string]string{}, map[string]string{}
		note := func(into map[string]string) {
			for _, line := range strings.Split(g.content(0), " ") {
				name, what, _ := strings.Cut(line, "=")
				into[name] = what
			}
		}
		g.repaired(func() {
			g.h.doAll(func(x *Txn) {
				fill(x, g, 0, 300, 40)
				x.SetString(g.key("string"), bytes.Repeat([]byte("s"), 40_000),
					ttl.Deadline{}, Event{})
				for i := range 4 {
					h, _ := x.Hash(g.key(fmt.Sprintf("from%d", i)))
					for j := range 300 {
						h.Set(fmt.Appendf(nil, "%040d", j), nil, ttl.Deadline{})
					}
				}
			})
			g.h.commit()
			note(before)
		}, func(x *Txn) {
			fill(x, g, 300, 300, 4)
			x.WriteRange(g.key("string"), 40_000, bytes.Repeat([]byte("t"), 20_000), Event{})
			for i := range 4 {
				x.Rename(g.key(fmt.Sprintf("from%d", i)), g.key(fmt.Sprintf("to%d", i)))
			}
		}, func() {
			note(after)
			g.h.s.bounds.batchBytes, g.h.s.bounds.portion = 8<<10, 50
			left := n
			g.h.s.options.Testing.OnStep = only(datafile.StepWritten, func() error {
				if left--; left == 0 {
					return errInterrupted
				}
				return nil
			})
			err := g.h.s.checkpointInterrupted()
			if finished = err == nil; err != nil && err != errInterrupted {
				t.Fatal(err)
			}
		}, 2)
		if finished {
			break
		}
		got := map[string]string{}
		note(got)
		for _, name := range kinds {
			if got[name] != before[name] && got[name] != after[name] {
				found++
				g.wantReported(Lost, fmt.Sprintf("key %q of database 0: a checkpoint", name))
			}
		}
		for i := range 4 {
			from, to := fmt.Sprintf("from%d", i), fmt.Sprintf("to%d", i)
			if got[from] != "" && got[to] != "" {
				shared++
				g.do(func(x *Txn) { x.Delete(g.key(from), Deleted) }, from)
				if err := g.h.s.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := g.h.s.Check(); err != nil {
			t.Errorf("after %d transactions: %v", n, err)
		}
		if t.Failed() {
			t.Fatalf("the checkpoint ended after %d transactions; reported was %v", n, g.reported)
		}
	}
	if found == 0 || shared == 0 {
		t.Errorf("%d values were found in part, %d under two names", found, shared)
	}
}

// TestRepairReadsAllRecords: Repair can read every kind of record that the store logs.
func TestRepairReadsAllRecords(t *testing.T) {
	h := newHarness(t)
	key := func(n string) Key { return h.s.Key(0, []byte(n)) }
	h.do(func(x *Txn) { x.SetString(key("s"), []byte("v"), ttl.At(h.clock.Now()+1000), eventSet) },
		key("s"))
	h.do(func(x *Txn) { x.SetString(key("large"), make([]byte, 20_000), ttl.Deadline{}, eventSet) },
		key("large"))
	h.do(func(x *Txn) { x.WriteRange(key("large"), 10, []byte("v"), eventSet) }, key("large"))
	h.do(func(x *Txn) { x.SetDeadline(key("large"), ttl.At(h.clock.Now()+2000), eventSet) },
		key("large"))
	h.do(func(x *Txn) {
		l, err := x.List(key("l"))
		if err != nil {
			t.Fatal(err)
		}
		for range 9 {
			l.PushBack([]byte("v"))
		}
	}, key("l"))
	h.do(func(x *Txn) {
		l, _ := x.List(key("l"))
		l.RemoveRange(1, 4)
	}, key("l"))
	for _, fields := range [][]string{{"a", "b", "c", "d"}, {"e"}} {
		h.hash(key("h"), func(_ *Txn, v *Hash) {
			for _, f := range fields {
				v.Set([]byte(f), []byte("v"), ttl.Deadline{})
			}
		})
	}
	for _, fields := range [][]string{{"a", "b"}, {"c"}} {
		h.hash(key("h"), func(_ *Txn, v *Hash) {
			for _, f := range fields {
				v.Delete([]byte(f))
			}
		})
	}
	h.hash(key("h"), func(x *Txn, v *Hash) {
		v.Set([]byte("f"), []byte("v"), ttl.Deadline{})
		x.SetDeadline(key("h"), ttl.At(h.clock.Now()+hour), eventSet)
	})
	h.do(func(x *Txn) { x.Rename(key("h"), key("moved")) }, key("h"), key("moved"))
	h.do(func(x *Txn) { x.Delete(key("moved"), Deleted) }, key("moved"))
	h.clock.Advance(time.Hour)
	h.looks()
	h.s.Reap()
	h.doAll(func(x *Txn) { x.SwapDB(0, 1); x.FlushDB(1) })
	h.commit()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	met := map[byte]bool{}
	_, err := wal.Check(wal.Options{FS: h.fs, Dir: filepath.Join(h.dir, format.LogDir)}, 0,
		func(_ uint64, batch []byte) error {
			for f := (format.Fields{Rest: batch}); len(f.Rest) > 0; {
				r := format.ReadRecord(&f)
				if f.Bad {
					return fmt.Errorf("a record of kind %d is not read", r.Tag)
				}
				met[r.Tag] = true
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for tag := byte(format.RecPut); tag <= format.RecPopulation; tag++ {
		if tag != 6 && tag != format.RecCounts && tag != format.RecTrim && !met[tag] {
			t.Errorf("no record of kind %d was logged", tag)
		}
	}
}
