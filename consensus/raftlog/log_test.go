package raftlog

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/consensus"
	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage/wal"
)

func options(fsys vfs.FS) wal.Options {
	return wal.Options{FS: fsys, Dir: "/raft", Clock: clock.System, SegmentSize: 8 << 10}
}

func entryOf(index, term uint64, data string) *pb.Entry {
	e := &pb.Entry{Index: &index, Term: &term, Type: new(pb.EntryNormal)}
	if data != "" {
		e.Data = []byte(data)
	}
	return e
}

func synced(t testing.TB, l *Log) {
	t.Helper()
	done := make(chan error, 1)
	l.Sync(func(err error) { done <- err })
	if err := await.For(t, "the sync", done); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSyncedIndex: SyncedIndex returns the last entry that is on disk. It does so whatever is
// appended after that entry, however often SyncedIndex is called, and after Open.
func TestSyncedIndex(t *testing.T) {
	o := options(vfs.NewMem())
	o.NoBackground = true
	l, first := created(t, o)
	two := func(index uint64) {
		l.Append(consensus.Write{Entries: []*pb.Entry{entryOf(index, 2, "one"),
			entryOf(index+1, 2, "two")}})
	}
	put(l, 2, 10)
	for at := uint64(3); at < 20; at += 4 {
		two(at)
		synced(t, l)
		l.SaveCommit(at + 1) // a record without entries
		two(at + 2)
		if got := l.SyncedIndex(); got != at+1 {
			t.Errorf("%d is synced, want %d", got, at+1)
		}
		synced(t, l)
		must(t, l.Close())
		var err error
		l, err = Open(o, first)
		must(t, err)
		l.SaveCommit(at + 3)
		two(at + 4)
		if got := l.SyncedIndex(); got != at+3 {
			t.Errorf("%d is synced after opening, want %d", got, at+3)
		}
	}
	must(t, l.Close())
}

// TestLog writes to a log, rotates, opens, replaces and releases it.
func TestLog(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, fsys.MkdirAll("/"))
	id := Identity{"cluster", 1, 2}
	base := Base{consensus.Base{Index: 1, Term: 1, Conf: &pb.ConfState{Voters: []uint64{2}}}, 77}
	first, err := Create(options(fsys), id, base)
	must(t, err)
	if _, err := Create(options(fsys), id, base); err == nil {
		t.Error("a second log was made in the same place")
	}
	l, err := Open(options(fsys), first)
	must(t, err)
	if l.Identity() != id || l.Last() != 1 || l.Begin().Position != 77 ||
		l.Base().Conf.GetVoters()[0] != 2 {
		t.Fatalf("identity %v, last %d, base %v", l.Identity(), l.Last(), l.Begin())
	}
	one := func(index, term uint64) {
		l.Append(consensus.Write{Hard: &pb.HardState{Term: new(term), Vote: new(uint64(2)),
			Commit: new(index - 1)}, Entries: []*pb.Entry{entryOf(index, term, "data")}})
	}
	for i := uint64(2); i < 20; i++ {
		one(i, 2)
	}
	synced(t, l)
	if l.SyncedIndex() != 19 {
		t.Errorf("%d is synced", l.SyncedIndex())
	}
	base.Base.Index, base.Base.Term = 10, 2
	segment, err := l.Rotate(base)
	must(t, err)
	if segment != first {
		t.Errorf("segment %d is needed", segment)
	}
	one(20, 3)
	base.Base.Index = 19
	segment, err = l.Rotate(base)
	must(t, err)
	if segment == first {
		t.Errorf("segment %d is needed", segment)
	}
	synced(t, l)
	must(t, l.Close())
	l, err = Open(options(fsys), segment)
	must(t, err)
	if l.Base().Index != 19 || l.Last() != 20 {
		t.Errorf("base %d, last %d", l.Base().Index, l.Last())
	}
	list, err := l.Entries(20, 21, 0)
	if err != nil || len(list) != 1 || list[0].GetTerm() != 3 || string(list[0].Data) != "data" {
		t.Errorf("%v, %v", list, err)
	}
	must(t, l.Close())
}
