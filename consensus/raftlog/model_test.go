package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"

	"keyp/consensus"
	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// image is a simple model of a log's content.
type image struct {
	hard    hard // as it is in memory
	written uint64
	base    Base
	entries []*pb.Entry // after the base
}

func (im *image) last() uint64 { return im.base.Index + uint64(len(im.entries)) }

func (im *image) term(index uint64) uint64 {
	if index == im.base.Index {
		return im.base.Term
	}
	return im.entries[index-im.base.Index-1].GetTerm()
}

// with returns the image after a Write.
func (im image) with(w consensus.Write, position uint64) image {
	was := im.hard
	if w.Hard != nil {
		im.hard = hard{w.Hard.GetTerm(), w.Hard.GetVote(), w.Hard.GetCommit()}
	}
	if w.Base != nil {
		im.base, im.entries = Base{*w.Base, position}, nil
	}
	if len(w.Entries) > 0 {
		at := w.Entries[0].GetIndex() - im.base.Index - 1
		im.entries = append(im.entries[:at:at], w.Entries...)
	}
	if w.Base != nil || len(w.Entries) > 0 || im.hard.term != was.term || im.hard.vote != was.vote {
		im.written = im.hard.commit
	}
	return im
}

// model is a log and the content that it must have.
type model struct {
	t     *rapid.T
	rng   *rand.Rand
	o     wal.Options
	log   *Log
	limit int // of the cache

	now     image
	history []image // after each Write, since the opening
	bases   map[uint64]Base
	first   uint64 // recorded
	applied uint64 // of the Rotate that gave first
	synced  int    // how many of history a Sync has confirmed
	serial  int

	mem     *vfs.Mem
	crashAt int // operations of the file system until the power fails
	cut     *powerCut
}

// powerCut is the state after a crash, and what was promised before it.
type powerCut struct {
	mem            *vfs.Mem
	first, applied uint64
	synced         int
	last           *pb.Entry // that was on disk; nil: that is not known
}

func (m *model) hook(vfs.Op, string, int64, int) error {
	if m.crashAt--; m.crashAt == 0 {
		m.crash()
	}
	return nil
}

func (m *model) crash() {
	if m.cut != nil {
		return
	}
	m.cut = &powerCut{first: m.first, applied: m.applied, synced: m.synced}
	if m.log != nil {
		if index := m.log.SyncedIndex(); index > m.now.base.Index && index <= m.now.last() {
			m.cut.last = m.now.entries[index-m.now.base.Index-1]
		}
	}
	m.cut.mem = m.mem.Crash(m.rng) // after what was promised
}

// baseAt returns a base that differs from all others.
func (m *model) baseAt(index, term uint64) Base {
	m.serial++
	b := Base{consensus.Base{Index: index, Term: term,
		Conf: &pb.ConfState{Voters: []uint64{index + 1, uint64(m.serial)}}}, uint64(m.serial)}
	return b
}

func same(a, b Base) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Position == b.Position &&
		slices.Equal(a.Conf.GetVoters(), b.Conf.GetVoters())
}

// entriesOf returns all entries of a closed log.
func entriesOf(t *rapid.T, c *Closed) (list []*pb.Entry) {
	last, _ := c.Last()
	if err := c.Entries(last, func(e *pb.Entry) error {
		list = append(list, entryOf(e.GetIndex(), e.GetTerm(), string(e.Data)))
		list[len(list)-1].Type = new(e.GetType())
		return nil
	}); err != nil {
		t.Fatalf("the entries of a closed log: %v", err)
	}
	return list
}

// isRead checks that the opened log is the same as the log that was read before.
func (m *model) isRead(l *Log, c *Closed, read []*pb.Entry) {
	m.t.Helper()
	base, last := l.Begin(), l.Last()
	index, term := c.Last()
	want, err := l.Term(last)
	if err != nil || index != last || term != want || !same(c.Begin(), base) ||
		c.Identity() != l.Identity() || c.Committed() != l.Hard().GetCommit() {
		m.t.Fatalf("read: base %+v, entry %d of term %d, %d committed; opened: base %+v, entry %d of term %d, %d committed, %v",
			c.Begin(), index, term, c.Committed(), base, last, want, l.Hard().GetCommit(), err)
	}
	list, err := l.Entries(base.Index+1, last+1, 1<<40)
	if err != nil || !slices.EqualFunc(list, read, func(a, b *pb.Entry) bool {
		return a.GetIndex() == b.GetIndex() && a.GetTerm() == b.GetTerm() &&
			a.GetType() == b.GetType() && bytes.Equal(a.Data, b.Data)
	}) {
		m.t.Fatalf("%d entries are read and others, or %d, opened: %v", len(read), len(list), err)
	}
}

// open opens the log, and finds the image since the last opening that matches it.
func (m *model) open(c *powerCut) {
	t, synced, applied, first := m.t, c.synced, c.applied, c.first
	m.mem, m.cut, m.first, m.applied, m.log = c.mem, nil, first, applied, nil
	m.o.FS = c.mem
	closed, err := Read(m.o, first)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	read := entriesOf(t, closed)
	m.o.FS = vfs.Inject(c.mem, m.hook)
	l, err := Open(m.o, first)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.isRead(l, closed, read)
	l.mu.limit = m.limit
	m.log = l
	n := synced
	for ; ; n++ {
		if n == len(m.history) {
			t.Fatalf("what is there is none of the images from %d on: %+v, base %v, last %d",
				synced, l.mu.hard, l.Begin(), l.Last())
		}
		if m.matches(&m.history[n]) && l.Begin().Index <= max(applied, m.history[n].base.Index) {
			break // and what was applied is after its base
		}
	}
	base := l.Begin()
	m.now = image{hard: l.mu.hard, written: l.mu.hard.commit, base: base}
	if list, err := l.Entries(base.Index+1, l.Last()+1, 1<<40); err != nil {
		t.Fatal(err)
	} else {
		m.now.entries = list
	}
	m.history, m.synced = []image{m.now}, 0
	m.check(t)
	if e := c.last; e != nil && e.GetIndex() > base.Index {
		if e.GetIndex() > l.Last() ||
			!equal([]*pb.Entry{e}, m.now.entries[e.GetIndex()-base.Index-1:][:1]) {
			t.Fatalf("entry %d of term %d was on disk, and is not there", e.GetIndex(), e.GetTerm())
		}
	}
	if got := l.SyncedIndex(); got != l.Last() {
		t.Fatalf("entry %d is synced after opening, of %d", got, l.Last())
	}
}

// matches reports whether the log has the content of an image. The log may begin earlier or later
// than the image.
func (m *model) matches(im *image) bool {
	l := m.log
	base := l.Begin()
	h := l.mu.hard
	if h.term != im.hard.term || h.vote != im.hard.vote || h.commit != im.written ||
		l.Last() != im.last() {
		return false
	}
	if known, ok := m.bases[base.Position]; !ok || !same(known, base) {
		return false
	}
	if base.Index < im.base.Index {
		// The image begins with a snapshot, or its beginning was released, and the log's base is
		// before that.
		if list, err := l.Entries(im.base.Index+1, l.Last()+1, 1<<40); l.Last() > im.base.Index &&
			(err != nil || !equal(list, im.entries)) {
			return false
		}
		term, err := l.Term(im.base.Index)
		return err == nil && term == im.base.Term
	}
	list, err := l.Entries(base.Index+1, l.Last()+1, 1<<40)
	if base.Index == l.Last() {
		list, err = nil, nil
	}
	return err == nil && im.term(base.Index) == base.Term &&
		equal(list, im.entries[base.Index-im.base.Index:])
}

func equal(a, b []*pb.Entry) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.Entry) bool {
		return x.GetIndex() == y.GetIndex() && x.GetTerm() == y.GetTerm() &&
			x.GetType() == y.GetType() && bytes.Equal(x.Data, y.Data)
	})
}

// check compares the log with the image.
func (m *model) check(t *rapid.T) {
	l, im := m.log, &m.now
	if h := l.Hard(); h.GetTerm() != im.hard.term || h.GetVote() != im.hard.vote ||
		h.GetCommit() != min(im.hard.commit, im.last()) {
		t.Fatalf("hard state %v, want %+v", h, im.hard)
	}
	if l.Last() != im.last() || !same(l.Begin(), im.base) {
		t.Fatalf("base %v, last %d; want %v, %d", l.Begin(), l.Last(), im.base, im.last())
	}
	if got := l.SyncedIndex(); got > im.last() {
		t.Fatalf("entry %d is synced, of %d", got, im.last())
	}
}

// read compares entries and terms with the image.
func (m *model) read(t *rapid.T) {
	im := &m.now
	lo := rapid.Uint64Range(max(im.base.Index, 1)-1, im.last()+2).Draw(t, "lo")
	hi := rapid.Uint64Range(lo, im.last()+2).Draw(t, "hi")
	most := rapid.Uint64Range(0, 5000).Draw(t, "most")
	term, err := m.log.Term(lo)
	switch {
	case lo < im.base.Index:
		if !errors.Is(err, raft.ErrCompacted) {
			t.Fatalf("term of %d: %d, %v", lo, term, err)
		}
	case lo > im.last():
		if !errors.Is(err, raft.ErrUnavailable) {
			t.Fatalf("term of %d: %d, %v", lo, term, err)
		}
	case err != nil || term != im.term(lo):
		t.Fatalf("term of %d: %d, %v; want %d", lo, term, err, im.term(lo))
	}
	got, err := m.log.Entries(lo, hi, most)
	switch {
	case lo <= im.base.Index:
		if !errors.Is(err, raft.ErrCompacted) {
			t.Fatalf("entries from %d on: %v", lo, err)
		}
	case hi > im.last()+1:
		if !errors.Is(err, raft.ErrUnavailable) {
			t.Fatalf("entries before %d: %v", hi, err)
		}
	default:
		want, size := im.entries[lo-im.base.Index-1:hi-im.base.Index-1], uint64(0)
		for i, e := range want {
			if size += uint64(len(e.Data)) + 20; size > most && i > 0 {
				want = want[:i]
				break
			}
		}
		if err != nil || !equal(got, want) {
			t.Fatalf("entries from %d on, before %d, of %d bytes: %v, %v; want %v", lo, hi,
				most, got, err, want)
		}
	}
}

// write draws a Write as the library makes them.
func (m *model) write(t *rapid.T) {
	im := &m.now
	h, changed := im.hard, false
	h.commit = min(h.commit, im.last())
	w := consensus.Write{}
	position := uint64(0)
	if rapid.IntRange(0, 3).Draw(t, "election") == 0 {
		h.term, h.vote, changed = h.term+rapid.Uint64Range(1, 3).Draw(t, "terms"),
			rapid.Uint64Range(0, 3).Draw(t, "vote"), true
	} else if h.vote == 0 && rapid.Bool().Draw(t, "votes") {
		h.vote, changed = rapid.Uint64Range(0, 3).Draw(t, "vote"), true
	}
	last := im.last()
	from := last + 1
	switch n := rapid.IntRange(0, 19).Draw(t, "kind"); {
	case n == 0:
		b := m.baseAt(rapid.Uint64Range(max(h.commit, im.base.Index), last+10).Draw(t, "snapshot"),
			h.term)
		w.Base, position = &b.Base, b.Position
		m.bases[b.Position] = b
		last, from, changed = b.Index, b.Index+1, true
		h.commit = max(h.commit, b.Index)
	case n < 4:
		from = rapid.Uint64Range(max(h.commit, im.base.Index)+1, last+1).Draw(t, "replaced from")
	}
	entries := rapid.IntRange(0, 6).Draw(t, "entries")
	if from <= last && entries == 0 {
		from = last + 1
	}
	if entries > 0 && w.Base == nil && im.term(from-1) > h.term {
		h.term, h.vote, changed = im.term(from-1), 0, true
	}
	term := h.term
	if entries > 0 && from <= im.last() && w.Base == nil && im.term(from) >= term {
		h.term++
		term, h.vote, changed = h.term, 0, true
	}
	for i := range entries {
		m.serial++
		size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 100), rapid.IntRange(0, 100),
			rapid.IntRange(0, 30000)).Draw(t, "size")
		e := entryOf(from+uint64(i), term, "")
		if size > 0 {
			e.Data = append(fmt.Appendf(nil, "%d:", m.serial),
				bytes.Repeat([]byte{byte(m.serial)}, size)...)
		}
		if rapid.IntRange(0, 9).Draw(t, "type") == 0 {
			e.Type = new(pb.EntryConfChangeV2)
		}
		w.Entries = append(w.Entries, e)
		last = e.GetIndex()
	}
	if commit := rapid.Uint64Range(h.commit, last).Draw(t, "commit"); commit > h.commit &&
		rapid.Bool().Draw(t, "commits") {
		h.commit, changed = commit, true
	}
	if changed {
		w.Hard = &pb.HardState{Term: &h.term, Vote: &h.vote, Commit: &h.commit}
	}
	m.log.SetPosition(position)
	m.log.Append(w)
	m.now = im.with(w, position)
	m.history = append(m.history, m.now)
}

// sync brings everything to disk.
func (m *model) sync(t *rapid.T) {
	n := len(m.history) - 1
	called := false
	m.log.Sync(func(err error) {
		if err != nil {
			t.Fatalf("sync: %v", err)
		}
		called = true
		m.synced = n
	})
	if !called || m.log.SyncedIndex() != m.now.last() {
		t.Fatalf("after a sync %d entries of %d are on disk", m.log.SyncedIndex(), m.now.last())
	}
}

// rotate makes a checkpoint. It rotates the log, perhaps records the new segment, and then perhaps
// releases the segments that are not needed.
func (m *model) rotate(t *rapid.T) {
	im := &m.now
	// This is the machine's last entry at the start, which may be beyond the known commit index.
	least := max(im.base.Index, m.applied)
	index := rapid.Uint64Range(least, max(least, min(im.hard.commit, im.last()))).Draw(t, "applied")
	b := m.baseAt(index, im.term(index))
	m.bases[b.Position] = b
	segment, err := m.log.Rotate(b)
	if err != nil {
		t.Fatalf("rotate: %v", err)
	}
	m.now.written = m.now.hard.commit
	m.history = append(m.history, m.now)
	if segment < m.first {
		t.Fatalf("segment %d is needed, and before it was %d", segment, m.first)
	}
	if needed := m.log.Needed(index); needed != segment {
		t.Fatalf("segment %d is needed, says Rotate, and %d says Needed", segment, needed)
	}
	if rapid.Bool().Draw(t, "record") {
		if err := m.log.Settled(context.Background(), m.log.End()); err != nil {
			t.Fatal(err)
		}
		m.first, m.applied = segment, index
		m.synced = len(m.history) - 1
		if rapid.Bool().Draw(t, "release") {
			m.release(t, segment)
		}
	}
}

// release releases segments, so that the log begins later.
func (m *model) release(t *rapid.T, first uint64) {
	if err := m.log.Release(first); err != nil {
		t.Fatalf("release: %v", err)
	}
	base := m.log.Begin()
	if base.Index < m.now.base.Index || base.Index > max(m.applied, m.now.base.Index) {
		t.Fatalf("the log began with %d, %d is applied, and after a release it begins with %d",
			m.now.base.Index, m.applied, base.Index)
	}
	if known, ok := m.bases[base.Position]; !ok || !same(known, base) ||
		m.now.term(base.Index) != base.Term {
		t.Fatalf("after a release the log begins with %v", base)
	}
	m.now.entries = m.now.entries[base.Index-m.now.base.Index:]
	m.now.base = base
}

func (m *model) step(t *rapid.T) {
	switch n := rapid.IntRange(0, 19).Draw(t, "step"); {
	case n < 9:
		m.write(t)
	case n < 12:
		m.sync(t)
	case n < 18:
		m.read(t)
	default:
		m.rotate(t)
	}
	m.check(t)
}

// TestModel is the main property. The log is opened again and again. Each time it ends with a crash
// at any operation, which loses any part of the unsynced data. While it is open, the log has the
// result of its Writes. After a crash it has the result of the first Writes, including all whose
// Sync was done. The recorded segments suffice for that.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem()
		m := &model{t: t, o: options(mem), bases: map[uint64]Base{},
			limit: rapid.SampledFrom([]int{0, 2000, cacheSize}).Draw(t, "limit")}
		m.o.NoBackground = true
		m.o.SegmentSize = rapid.SampledFrom([]int64{5 << 10, 8 << 10, 64 << 10}).Draw(t,
			"segment size")
		m.o.FirstSize = rapid.SampledFrom([]int64{0, 5 << 10}).Draw(t, "first size")
		seed := rapid.Uint64().Draw(t, "seed")
		m.rng = rand.New(rand.NewPCG(seed, 5))
		m.o.Random = m.rng.Uint64
		base := m.baseAt(0, 0)
		if rapid.Bool().Draw(t, "founder") {
			base = m.baseAt(1, 1)
		}
		m.bases[base.Position] = base
		first, err := Create(m.o, Identity{"c", 1, 1}, base)
		if err != nil {
			t.Fatal(err)
		}
		c := &powerCut{mem: mem.Crash(m.rng), first: first, applied: base.Index}
		m.history = []image{{base: base}}
		for range rapid.IntRange(1, 5).Draw(t, "lives") {
			m.crashAt = rapid.IntRange(1, 150).Draw(t, "crash at operation")
			// A crash during Open leaves the state before it.
			m.open(c)
			if early := m.cut; early != nil {
				early.first, early.applied, early.synced, early.last = c.first, c.applied, 0, nil
			}
			for range rapid.IntRange(0, 40).Draw(t, "steps") {
				m.step(t)
			}
			m.crash()
			c = m.cut
			if err := m.log.Close(); err != nil {
				t.Fatal(err)
			}
		}
		m.crashAt = 0
		m.open(c)
		if err := m.log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
