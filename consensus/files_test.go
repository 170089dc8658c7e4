package consensus_test

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/consensus"
	"keyp/consensus/raftlog"
	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// TestSimulationOnFiles is TestSimulation with logs of raftlog, on files in memory that lose
// unsynced data.
func TestSimulationOnFiles(t *testing.T) { consensus.Histories(t, newFiles, 10) }

// files is a member's log with its disk.
type files struct {
	*raftlog.Log
	o       wal.Options
	mem     *vfs.Mem
	random  *rand.Rand
	first   uint64 // the segment with which it is opened
	older   uint64 // before that
	later   func(f func())
	failing error
	syncing func() // before each operation of the disk, unless nil
	term    uint64 // on disk
	vote    uint64 // on disk
	base    uint64 // index of the newest one on disk
}

func newFiles(base consensus.Base, random *rand.Rand) consensus.SimDisk {
	d := &files{mem: vfs.NewMem(), random: random}
	d.options()
	b := raftlog.Base{Base: base, Position: base.Index}
	first, err := raftlog.Create(d.o, raftlog.Identity{Cluster: "simulated", Group: 1, Member: 1},
		b)
	if err != nil {
		panic(err)
	}
	d.first, d.older = first, first
	d.open()
	return d
}

func (d *files) options() {
	d.o = wal.Options{
		FS: vfs.Inject(d.mem, func(op vfs.Op, _ string, _ int64, _ int) error {
			if d.syncing != nil {
				d.syncing()
			}
			if op == vfs.OpSync {
				return d.failing
			}
			return nil
		}),
		Dir: "/raft", Clock: clock.NewFake(1),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), SegmentSize: 64 << 10,
		NoBackground: true, Random: d.random.Uint64,
	}
}

func (d *files) open() {
	log, err := raftlog.Open(d.o, d.first)
	if err != nil {
		panic(err)
	}
	d.Log = log
	d.saved()
}

// saved stores the term, vote and base that are on disk, after everything was synced.
func (d *files) saved() {
	h := d.Hard()
	d.term, d.vote, d.base = h.GetTerm(), h.GetVote(), d.Base().Index
}

func (d *files) Begin(later func(f func()), snapshot func() (*pb.Snapshot, error)) {
	d.later = later
	d.SetSnapshot(snapshot)
}

func (d *files) Vote() (term, vote uint64) { return d.term, d.vote }

// Saved returns the index of the last entry on disk. A base that is not on disk yet does not count.
func (d *files) Saved() uint64 {
	if d.Base().Index > d.base {
		return d.base
	}
	return d.SyncedIndex()
}

func (d *files) Has(index, term uint64) bool {
	if index > d.Saved() {
		return false
	}
	t, err := d.Term(index)
	return index < d.base || err == nil && t == term
}

// Sync schedules the sync for later.
func (d *files) Sync(done func(error)) {
	d.later(func() {
		d.Log.Sync(func(err error) {
			if err == nil {
				d.saved()
			}
			done(err)
		})
	})
}

// Compact makes a checkpoint. It begins another segment, and records it as the first one needed. It
// releases the segments that the previous checkpoint did not need either.
func (d *files) Compact(_, now consensus.Base) {
	segment, err := d.Rotate(raftlog.Base{Base: now, Position: now.Index})
	if err != nil {
		return // it is a snapshot's, which is not in the log yet
	}
	d.Log.Sync(func(err error) {
		if err != nil {
			return
		}
		d.saved()
		if err := d.Release(d.older); err != nil {
			panic(err)
		}
		d.older, d.first = d.first, segment
		d.saved()
	})
}

func (d *files) Fail(err error) { d.failing = err }
func (d *files) Failing() bool  { return d.failing != nil }

// Crash loses unsynced data, or happens in the middle of a sync.
func (d *files) Crash(random *rand.Rand) consensus.SimDisk {
	after := &files{random: random, first: d.first, older: d.older}
	if random.IntN(2) == 0 {
		n := random.IntN(6)
		d.syncing = func() {
			if n--; n == 0 {
				after.mem = d.mem.Crash(random)
			}
		}
		d.Log.Sync(func(error) {})
		d.syncing = nil
	}
	if after.mem == nil {
		after.mem = d.mem.Crash(random)
	}
	after.options()
	after.open()
	return after
}
