package raftlog

import (
	"math"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/consensus"
	"keyp/internal/vfs"
)

// TestTableCut: the table has the position of each record with entries, in blocks. If an entry is
// replaced, the records from that entry on are removed, whatever block they are in.
func TestTableCut(t *testing.T) {
	for _, index := range []uint64{2, 5, blockSize, blockSize + 1, 2 * blockSize, 2*blockSize + 3} {
		var records table
		for i := uint64(1); i <= 2*blockSize+5; i++ {
			records.add(i, 10*i)
		}
		records.cut(index)
		if place, next := records.find(index - 1); place != 10*(index-1) || next != math.MaxUint64 {
			t.Errorf("cut from %d on: the last record is at %d, and one with %d follows",
				index, place, next)
		}
		records.add(index, 1<<40)
		if place, next := records.find(index); place != 1<<40 || next != math.MaxUint64 {
			t.Errorf("replaced from %d on: the last record is at %d, and one with %d follows",
				index, place, next)
		}
	}
}

// TestNeededAfterReplacement: a segment suffices for an index as soon as all entries after it are
// in that segment or later ones, because those before it were replaced.
func TestNeededAfterReplacement(t *testing.T) {
	at := func(index, term uint64) Base {
		return Base{Base: consensus.Base{Index: index, Term: term, Conf: &pb.ConfState{}}}
	}
	var s state
	s.restore(at(1, 1))
	s.rotate(0, at(1, 1))
	s.add(2, []entry{{term: 2}, {term: 2}, {term: 2}}, 10)
	s.rotate(50, at(3, 2))
	if n := s.needed(3); n != 0 {
		t.Errorf("entry 4 is before the second segment, and segment %d suffices", n)
	}
	s.add(4, []entry{{term: 3}}, 60)
	if n := s.needed(3); n != 1 {
		t.Errorf("entry 4 is in the second segment, and segment %d is needed", n)
	}
}

// TestReleaseForgets: after a release, memory has no data about the released entries.
func TestReleaseForgets(t *testing.T) {
	o := options(vfs.NewMem())
	o.NoBackground = true
	l, _ := created(t, o)
	const last = 3 * blockSize
	for i := l.Last() + 1; i <= last; i++ {
		term := 2 + i/blockSize
		l.Append(consensus.Write{Hard: &pb.HardState{Term: &term, Vote: new(uint64(1)),
			Commit: new(i - 1)}, Entries: []*pb.Entry{entryOf(i, term, "data")}})
	}
	base := Base{Base: l.Base()}
	base.Index, base.Term = last, 2+last/blockSize
	segment, err := l.Rotate(base)
	must(t, err)
	synced(t, l)
	must(t, l.Release(segment))
	if blocks, terms := len(l.mu.table.blocks), len(l.mu.terms); blocks > 1 || terms > 1 ||
		l.Begin().Index != last {
		t.Errorf("a log that begins after entry %d has %d blocks of records and %d terms in memory",
			l.Begin().Index, blocks, terms)
	}
	must(t, l.Close())
}
