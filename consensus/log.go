package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Log stores the data that a member must not forget: its term, its vote and the commit index
// (together its hard state), and the entries after some first entry, the base.
//
// All methods that read see the data of an Append at once. The data is on disk after the next Sync.
// Before that a crash may lose the data of some Appends, always the last ones. Of one Append it may
// lose entries from the end, but keep the hard state. So a member that has an entry also has the
// commit index that was known when the entry came, and changes of members rely on that. A hard
// state that differs only in the commit index may be written together with the next other data.
//
// The group's mutex is locked during all calls except Sync. So these calls do no I/O except reads.
type Log interface {
	// Hard returns the newest term, vote and commit index; in a new log all are zero. If the commit
	// index is beyond Last, because a crash has lost entries, it returns Last instead.
	Hard() *pb.HardState
	// Base returns the entry before the log's first one, with the members after it. A new log has
	// the base on which the first members agree, or none (index 0) if its member joins a group.
	Base() Base
	// Last returns the index of the last entry, that of the base if there is none.
	Last() uint64
	// Term returns the term of an entry or of the base. It returns raft.ErrCompacted before the
	// base, raft.ErrUnavailable after Last.
	Term(index uint64) (uint64, error)
	// Entries returns the entries from lo on, before hi: at least one, and otherwise at most
	// maxSize bytes. The caller must not change them.
	Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error)
	// Snapshot describes the snapshot for a member that lacks entries before the first one here. It
	// returns raft.ErrSnapshotTemporarilyUnavailable if there is none now.
	Snapshot() (*pb.Snapshot, error)

	// Append adds a Write.
	Append(w Write)
	// Sync brings everything appended before to disk, and then calls done. It may call done before
	// it returns, or later on another goroutine. Sync is not called again before done was. An error
	// is final: it is then unknown which data is on disk.
	Sync(done func(error))
}

// Base is where a log begins.
type Base struct {
	Index, Term uint64
	Conf        *pb.ConfState
}

// Write is a change of a log.
type Write struct {
	// Base, unless nil, replaces all entries: the member has a snapshot of all up to there.
	Base *Base
	// Hard, unless nil, takes effect before the entries.
	Hard *pb.HardState
	// Entries have consecutive indexes. They replace all entries that the log has from the first of
	// these indexes on.
	Entries []*pb.Entry
}

// stored is a Log as the library reads it. Entries that the machine has applied are committed,
// although the log may not know that.
type stored struct {
	Log
	applied uint64
}

func (s stored) InitialState() (*pb.HardState, *pb.ConfState, error) {
	h := s.Hard()
	commit := max(h.GetCommit(), s.applied)
	if last := s.Last(); commit > last {
		return nil, nil, fmt.Errorf("consensus: entry %d is committed, and the log ends with %d",
			commit, last)
	}
	conf := s.Base().Conf
	if conf == nil {
		conf = &pb.ConfState{}
	}
	return &pb.HardState{Term: new(h.GetTerm()), Vote: new(h.GetVote()), Commit: new(commit)}, conf,
		nil
}

func (s stored) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	if lo <= s.Base().Index {
		return nil, raft.ErrCompacted
	}
	return s.Log.Entries(lo, hi, maxSize)
}

func (s stored) Term(i uint64) (uint64, error) { return s.Log.Term(i) }
func (s stored) LastIndex() (uint64, error)    { return s.Last(), nil }
func (s stored) FirstIndex() (uint64, error)   { return s.Base().Index + 1, nil }
