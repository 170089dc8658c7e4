package wal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/vfs"
)

// model has all batches that were appended to the log. After a simulated crash it decides whether
// the log has all durable ones of them, and forgets those that the crash has removed from the end.
type model struct {
	t       *rapid.T
	o       Options
	rng     *rand.Rand
	appends []entry
	serial  int

	mu      sync.Mutex // the rest is read by the hook, on any goroutine
	mem     *vfs.Mem
	log     *Log
	first   uint64 // recorded as the first segment needed
	firstAt int    // index in appends of its head
	crashAt int    // operations of the file system until the power cut
	cut     *powerCut
}

type entry struct {
	lsn   uint64
	batch string
}

// powerCut is the state at one moment: the files as they survive, and the promises made by then.
type powerCut struct {
	mem     *vfs.Mem
	synced  uint64
	first   uint64
	firstAt int
}

func (m *model) hook(vfs.Op, string, int64, int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashAt--; m.crashAt == 0 {
		m.cutPower()
	}
	return nil
}

// cutPower is called with mu held. The promises are read before the files are copied.
func (m *model) cutPower() {
	if m.cut != nil {
		return
	}
	c := &powerCut{first: m.first, firstAt: m.firstAt}
	if m.log != nil {
		c.synced = m.log.Synced()
	}
	c.mem = m.mem.Crash(m.rng)
	m.cut = c
}

// open recovers the log and compares it with the model. It must return the batches from the first
// needed segment on, in order, each once, and all of them up to synced.
func (m *model) open(first uint64, firstAt int, synced uint64) {
	var got []entry
	l, err := Open(m.o, first, func(lsn uint64, b []byte) error {
		got = append(got, entry{lsn, string(b)})
		return nil
	})
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	want := m.appends[firstAt:]
	if len(got) > len(want) {
		m.t.Fatalf("%d batches replayed, only %d appended", len(got), len(want))
	}
	for i, e := range got {
		if e != want[i] {
			m.t.Fatalf("batch %d is %.20q at %d, want %.20q at %d", i, e.batch, e.lsn,
				want[i].batch, want[i].lsn)
		}
	}
	if len(got) < len(want) && want[len(got)].lsn <= synced {
		m.t.Fatalf("batch %d at %d is gone, but everything up to %d was durable", len(got),
			want[len(got)].lsn, synced)
	}
	m.appends = m.appends[:firstAt+len(got)]
	m.mu.Lock()
	m.log = l
	m.mu.Unlock()
}

func (m *model) batch(t *rapid.T) []byte {
	capacity := int(m.o.SegmentSize) - headerSize
	m.serial++
	size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 200),
		rapid.IntRange(0, 3*capacity)).Draw(t, "size")
	return append(fmt.Appendf(nil, "%d:", m.serial),
		strings.Repeat(string(rune('a'+m.serial%26)), size)...)
}

func (m *model) step(t *rapid.T) {
	l := m.log
	switch rapid.IntRange(0, 11).Draw(t, "step") {
	case 0, 1, 2, 3, 4:
		b, how := m.batch(t), l.Append
		if rapid.Bool().Draw(t, "keeping") {
			how = func(b []byte) uint64 {
				return l.AppendKeeping(cut(b, rapid.IntRange(1, 3*maxPayload).Draw(t, "piece")))
			}
		}
		m.appends = append(m.appends, entry{how(b), string(b)})
	case 5, 6, 7:
		if err := l.Commit(); err != nil {
			t.Fatalf("commit: %v", err)
		}
		if l.Durable() < l.End() {
			t.Fatal("Commit returned before all was durable")
		}
	case 8:
		l.CommitAsync()
	case 9:
		if err := l.Settled(context.Background(), l.End()); err != nil {
			t.Fatalf("wait: %v", err)
		}
	case 10, 11:
		b := m.batch(t)
		n, err := l.Rotate(b)
		if err != nil {
			t.Fatalf("rotate: %v", err)
		}
		at := len(m.appends)
		m.appends = append(m.appends, entry{l.End(), string(b)})
		if rapid.Bool().Draw(t, "checkpoint") {
			m.checkpoint(t, n, at)
		}
	}
}

func (m *model) checkpoint(t *rapid.T, n uint64, at int) {
	if err := m.log.Settled(context.Background(), m.log.End()); err != nil {
		t.Fatalf("wait: %v", err)
	}
	m.mu.Lock()
	m.first, m.firstAt = n, at
	m.mu.Unlock()
	if err := m.log.Release(n); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// life opens the log on mem, works on it, and returns the power cut that ended it.
func (m *model) life(t *rapid.T, before *powerCut) *powerCut {
	m.mu.Lock()
	m.mem, m.log, m.cut = before.mem, nil, nil
	m.first, m.firstAt = before.first, before.firstAt
	m.crashAt = rapid.IntRange(1, 120).Draw(t, "crash at operation")
	m.mu.Unlock()
	m.o.FS = vfs.Inject(before.mem, m.hook)
	m.o.Policy = Policy(rapid.IntRange(0, 2).Draw(t, "policy"))
	m.open(before.first, before.firstAt, before.synced)
	recovered := m.log.Synced()
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		m.step(t)
	}
	m.mu.Lock()
	m.cutPower() // if it has not come yet
	c := m.cut
	m.mu.Unlock()
	if err := m.log.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	// The batches that this life recovered were on disk, so a cut in the middle of the recovery
	// must not lose any of them.
	c.synced = max(c.synced, recovered)
	return c
}

// TestCrash checks the log's main property over several lives. Each life ends in a power cut at any
// operation, and loses any part of the unsynced data. Every durable batch is replayed exactly once
// and in order. The replayed batches are a prefix of those appended.
func TestCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem()
		o := options(mem)
		o.SegmentSize = rapid.SampledFrom([]int64{minSegmentSize, headerSize + 1500,
			3 * headerSize}).Draw(t, "segment size")
		o.FirstSize = rapid.SampledFrom([]int64{0, minSegmentSize}).Draw(t, "first size")
		o.Spares = rapid.IntRange(1, 3).Draw(t, "spares")
		seed := rapid.Uint64().Draw(t, "seed")
		m := &model{t: t, o: o, rng: rand.New(rand.NewPCG(seed, 4))}
		if err := mem.MkdirAll(o.Dir); err != nil {
			t.Fatal(err)
		}
		c := &powerCut{mem: mem}
		for range rapid.IntRange(1, 5).Draw(t, "lives") {
			c = m.life(t, c)
		}
		m.o.FS, m.crashAt = c.mem, 0
		m.open(c.first, c.firstAt, c.synced)
		if err := m.log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
