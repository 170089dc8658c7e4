package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
	"keyp/ttl"
)

// lagging is a replicated log as the leader's store uses it. Synced data is committed only when the
// test says so.
type lagging struct {
	*wal.Log
	committed atomic.Uint64
	// await is called when Settled must wait for the commit up to lsn. It commits up to lsn or
	// returns ErrDeposed.
	await func(lsn uint64) error
}

func (l *lagging) Durable() uint64 { return min(l.committed.Load(), l.Log.Durable()) }

func (l *lagging) Settled(ctx context.Context, lsn uint64) error {
	if err := l.Log.Settled(ctx, lsn); err != nil {
		return err
	}
	if l.committed.Load() < lsn {
		return l.await(lsn)
	}
	return nil
}

// Commit commits everything.
func (l *lagging) Commit() error {
	err := l.Log.Commit()
	if err == nil {
		l.committed.Store(l.End())
	}
	return err
}

// group is the state of a replicated log on the other servers.
type group struct {
	log *lagging
	// cut is the position up to which the next opening keeps the log. The other servers never get
	// the rest.
	cut uint64
	// void lists the parts of the log that were taken back, each after the first position and up to
	// the second.
	void [][2]uint64
}

const keepAll = math.MaxUint64

// lag gives the harness's stores a replicated log.
func (h *harness) lag() *group {
	g := &group{cut: keepAll}
	h.openLog = g.open
	return g
}

func (g *group) open(o wal.Options, from LogPosition,
	replay func(uint64, []byte) error) (Journal, error) {
	log, err := wal.Open(o, from.Segment, func(lsn uint64, batch []byte) error {
		for _, part := range g.void {
			if part[0] < lsn && lsn <= part[1] {
				return nil
			}
		}
		if lsn > g.cut {
			return nil
		}
		return replay(lsn, batch)
	})
	if err != nil {
		return nil, err
	}
	if g.cut < log.End() {
		g.void = append(g.void, [2]uint64{g.cut, log.End()})
	}
	g.cut, g.log = keepAll, &lagging{Log: log, await: func(uint64) error { return ErrDeposed }}
	g.log.committed.Store(log.End())
	return g.log, nil
}

// stored returns how many records the data file has.
func (h *harness) stored() (n int) {
	err := h.s.file.View(func(tx *bolt.Tx) error {
		return datafile.Each(tx, format.BucketValues, nil, nil, func([]byte, []byte) error {
			n++
			return nil
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestDeposedCheckpoint: a checkpoint waits until everything that it writes is committed. Wherever
// it is given up, the data file contains nothing that may be taken back. A later checkpoint writes
// the rest.
func TestDeposedCheckpoint(t *testing.T) {
	most := 0 // waits of a checkpoint
	for last := 0; last <= most; last++ {
		h := closedHarness(t)
		h.portions = true
		g := h.lag()
		h.open()
		names := map[name]bool{}
		set := func(db, i, size int) {
			n, k := name{db, fmt.Sprint("key", i)}, h.s.Key(db, fmt.Append(nil, "key", i))
			names[n], h.model[n] = true, value{data: strings.Repeat("v", size)}
			h.do(func(x *Txn) { x.SetString(k, []byte(h.model[n].data), ttl.Deadline{}, eventSet) },
				k)
		}
		for i := range 60 {
			set(0, i, []int{10, 300, 9000}[i%3])
		}
		if err := g.log.Log.Commit(); err != nil { // synced it is
			t.Fatal(err)
		}
		waits, before := 0, uint64(0)
		g.log.await = func(lsn uint64) error {
			if n := h.stored(); before == 0 && n > 0 {
				t.Fatalf("the data file has %d keys, and none is committed", n)
			}
			if waits == last {
				return ErrDeposed
			}
			waits++
			before = lsn
			g.log.committed.Store(lsn)
			return nil
		}
		switch err := h.s.Checkpoint(); {
		case last == 0 && !errors.Is(err, ErrDeposed):
			t.Fatalf("the checkpoint ended with %v, and nothing was committed", err)
		case err != nil && !errors.Is(err, ErrDeposed):
			t.Fatal(err)
		case err != nil:
			most = last + 1
		}
		if err := h.s.Err(); err != nil {
			t.Fatalf("the store has failed: %v", err)
		}
		h.evict()
		h.verify(names)
		for i := range 30 {
			set(0, 2*i, 20)
		}
		g.log.await = func(lsn uint64) error { g.log.committed.Store(lsn); return nil }
		h.saved()
		if n := h.stored(); n != len(names) {
			t.Errorf("the data file has %d keys of %d", n, len(names))
		}
		h.evict()
		h.verify(names)
		h.reopen()
		h.verify(names)
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
	}
	if most < 3 {
		t.Errorf("a checkpoint waited %d times: the test shows little", most)
	}
	t.Logf("%d waits", most)
}

// TestDeposedStop: closing a store does not wait for a commit that does not come. It skips the last
// checkpoint. Batches that are not taken back are in the log.
func TestDeposedStop(t *testing.T) {
	h := closedHarness(t)
	g := h.lag()
	h.open()
	names := map[name]bool{}
	for _, key := range []string{"kept", "lost"} {
		n, k := name{0, key}, h.s.Key(0, []byte(key))
		names[n], h.model[n] = true, value{data: key}
		h.do(func(x *Txn) { x.SetString(k, []byte(key), ttl.Deadline{}, eventSet) }, k)
	}
	if err := h.s.Close(true); err != nil {
		t.Fatalf("the store was closed with %v", err)
	}
	g.cut = h.recent[0].end
	delete(h.model, name{0, "lost"})
	h.open()
	defer func() { _ = h.s.Close(false) }()
	if n := h.stored(); n != 0 {
		t.Errorf("the data file has %d keys, and none was committed", n)
	}
	h.verify(names)
}

// laggingMachine is a machine whose store has a replicated log that commits late.
type laggingMachine struct {
	*machine
	g *group
	// deposed counts the checkpoints that were given up, taken the batches that were taken back.
	deposed, taken *int
}

// TestLaggingModel runs random operations on a map and on a store with a replicated log. Writes are
// committed later, or never. After a crash or a stop of the server, all uncommitted writes may be
// taken back. The store has exactly the committed writes and those not taken back.
func TestLaggingModel(t *testing.T) {
	t.Parallel()
	deposed, taken := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := closedHarness(t)
		h.t = failer{t, rt}
		h.portions = rapid.Bool().Draw(rt, "portions")
		m := &laggingMachine{g: h.lag(), deposed: &deposed, taken: &taken,
			machine: &machine{h: h, rt: rt, names: map[name]bool{},
				rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}}
		h.open()
		m.opened()
		for key := range 12 {
			for db := range 3 {
				m.names[name{db, keyName(key)}] = true
			}
		}
		defer func() { h.s.Close(false) }()
		steps := m.changes()
		for what, step := range map[string]func(*rapid.T){
			"evict": m.evict, "leave": m.leave, "loadAll": m.loadAll, "compact": m.compact,
			"moveBlocks": m.moveBlocks, "copyObjects": m.copyObjects,
			"commit": m.commitSome, "sync": m.sync, "checkpoint": m.checkpoint, "crash": m.crash,
			"reopen": m.reopen,
			"":       func(*rapid.T) { h.verify(m.names) },
		} {
			steps[what] = step
		}
		rt.Repeat(steps)
	})
	if deposed == 0 || taken == 0 {
		t.Errorf("%d checkpoints were given up, %d batches were taken back: the test shows nothing",
			deposed, taken)
	}
	t.Logf("%d checkpoints were given up, %d batches were taken back", deposed, taken)
}

// changes returns the operations that change keys or make them expire.
func (m *laggingMachine) changes() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"set": m.set, "range": m.writeRange, "deadline": m.deadline, "delete": m.delete,
		"elements": m.elements, "fill": m.fill,
		"thin": m.thin, "replace": m.replace, "rename": m.rename, "copy": m.copy, "flush": m.flush,
		"swap": m.swap,
		"many": m.many, "advance": m.advance, "reap": m.reap, "reapOne": m.reapOne,
	}
}

// opened is called after each opening, and commits everything in the log.
func (m *laggingMachine) opened() {
	m.h.commit()
	m.g.log.await = func(lsn uint64) error {
		if rapid.IntRange(0, 5).Draw(m.rt, "deposed") == 0 {
			return ErrDeposed
		}
		m.commitTo(m.place(m.rt, lsn))
		return nil
	}
}

// place draws the end of a batch, from lsn to the end of the synced log.
func (m *laggingMachine) place(rt *rapid.T, lsn uint64) uint64 {
	places := []uint64{lsn}
	for _, past := range m.h.recent {
		if past.end > lsn && past.end <= m.g.log.Synced() {
			places = append(places, past.end)
		}
	}
	return rapid.SampledFrom(places).Draw(rt, "place")
}

// commitTo records that other servers have the log up to lsn.
func (m *laggingMachine) commitTo(lsn uint64) {
	h := m.h
	m.g.log.committed.Store(lsn)
	for len(h.recent) > 0 && h.recent[0].end <= lsn {
		h.committed, h.recent = h.recent[0].model, h.recent[1:]
	}
}

func (m *laggingMachine) commitSome(rt *rapid.T) {
	m.sync(rt)
	m.commitTo(m.place(rt, m.g.log.committed.Load()))
}

// sync syncs the log. The other servers may not have any of it.
func (m *laggingMachine) sync(*rapid.T) {
	if err := m.g.log.Log.Commit(); err != nil {
		m.h.t.Fatalf("sync: %v", err)
	}
}

// checkpoint runs a checkpoint while other operations happen. It may be given up.
func (m *laggingMachine) checkpoint(rt *rapid.T) {
	var beside []func(*rapid.T)
	for _, what := range []string{"advance", "delete", "elements", "fill", "flush", "many", "range",
		"reap", "rename", "replace", "set", "swap", "thin"} {
		beside = append(beside, m.changes()[what])
	}
	beside = append(beside, m.commitSome, m.evict, m.leave)
	m.h.s.options.Testing.OnStep = func(datafile.Step) error {
		if rapid.IntRange(0, 4).Draw(rt, "between") == 0 {
			beside[rapid.IntRange(0, len(beside)-1).Draw(rt, "beside")](rt)
		}
		return nil
	}
	defer func() { m.h.s.options.Testing.OnStep = nil }()
	m.ended(m.h.s.Checkpoint())
}

// ended records how a checkpoint has ended.
func (m *laggingMachine) ended(err error) {
	if errors.Is(err, ErrDeposed) {
		*m.deposed++
	} else if err != nil {
		m.h.t.Fatalf("checkpoint: %v", err)
	}
}

// crash cuts the power. Then some of the uncommitted writes are taken back.
func (m *laggingMachine) crash(rt *rapid.T) {
	h := m.h
	h.s.stop()
	h.s.background.Wait()
	crashed, cut := h.fs.Crash(m.rng), m.place(rt, m.g.log.committed.Load())
	_ = h.s.log.Close() // what it writes now goes nowhere
	if err := h.s.release(); err != nil {
		h.t.Fatalf("release: %v", err)
	}
	h.fs = crashed
	m.resume(cut)
}

// reopen stops the store and starts it again. In between some of the uncommitted writes are taken
// back.
func (m *laggingMachine) reopen(rt *rapid.T) {
	if err := m.h.s.Close(rapid.Bool().Draw(rt, "save")); err != nil {
		m.h.t.Fatalf("close: %v", err)
	}
	_, err := m.h.s.LastCheckpoint()
	m.ended(err)
	m.resume(m.place(rt, m.g.log.committed.Load()))
}

// resume opens the store. Its log after cut is taken back.
func (m *laggingMachine) resume(cut uint64) {
	h := m.h
	m.commitTo(cut)
	*m.taken += len(h.recent)
	h.model, h.recent = h.committed.clone(), nil
	m.g.cut = cut
	h.open()
	if got, want := h.state(m.names), h.model.live(h.now()); !same(got, want) {
		h.t.Fatalf("of what was committed up to %d the store has\n%v\nand must have\n%v", cut, got,
			want)
	}
	h.model = h.model.live(h.now()) // the look-ups have removed the rest
	m.opened()
	h.check()
}
