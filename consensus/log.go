package consensus

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Log is where a member keeps what it must not forget: entries, its term and vote, and from which
// index on it has them.
//
// What Append is given counts at once for all that is read here, and is on disk after the next
// Sync. Without that a crash may lose it, but only from its end: what is on disk is always what all
// Appends up to some moment amount to, or a part of the last one with its Hard and without its last
// entries. So who has an entry has the commit index that was known when it came, which changes of
// members rely on. A Hard that has nothing but a newer commit index need not be on disk before the
// next Write.
//
// The group's mutex is locked during all calls but Sync's: they do no I/O but reads.
type Log interface {
	// Hard is the newest term, vote and commit index; of a log that is new all are zero. A commit
	// index beyond Last, whose entries a crash has lost, is given as Last.
	Hard() *pb.HardState
	// Base is the entry before the first one that the log has, and who the members were after it. A
	// log that is new has the base that its first members agree on, or none (index 0) if it joins a
	// group.
	Base() Base
	// Last is the index of the last entry, that of the base if there is none.
	Last() uint64
	// Term is an entry's, also the base's; raft.ErrCompacted before that, raft.ErrUnavailable after
	// Last.
	Term(index uint64) (uint64, error)
	// Entries are those from lo on, before hi, of maxSize bytes at most, but one at least. Nobody
	// changes them.
	Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error)
	// Snapshot describes what a member is sent that lacks entries before the first one here:
	// raft.ErrSnapshotTemporarilyUnavailable if there is none now.
	Snapshot() (*pb.Snapshot, error)

	// Append adds a Write.
	Append(w Write)
	// Sync brings everything appended before to disk, and calls done then: before it returns, as
	// long as the disk is fast, or later and from elsewhere. It is not called again before that. A
	// failure is final: what the disk has is unknown.
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
	// Hard, unless nil, counts from before the entries.
	Hard *pb.HardState
	// Entries have consecutive indexes. Where the log has entries from the first of these on, those
	// do not count any more.
	Entries []*pb.Entry
}

// stored is a Log as the library reads it. What the machine has applied is committed, though the
// log may not know so.
type stored struct {
	Log
	applied uint64
}

func (s stored) InitialState() (*pb.HardState, *pb.ConfState, error) {
	h := s.Hard()
	commit := max(h.GetCommit(), s.applied)
	if last := s.Last(); commit > last {
		return nil, nil, fmt.Errorf("consensus: entry %d is committed, and the log ends with %d", commit, last)
	}
	conf := s.Base().Conf
	if conf == nil {
		conf = &pb.ConfState{}
	}
	return &pb.HardState{Term: new(h.GetTerm()), Vote: new(h.GetVote()), Commit: new(commit)}, conf, nil
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
