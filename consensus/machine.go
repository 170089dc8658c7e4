package consensus

import pb "go.etcd.io/raft/v3/raftpb"

// Machine is what a group's entries change. Its methods are called one at a time, in the order in
// which things happened, without a lock, and by whoever brought them about: so what takes long is
// to be done elsewhere. A done is called once, from anywhere.
type Machine interface {
	// Led says who leads in a term, as far as this member knows; 0: nobody it knows of.
	Led(term, leader uint64)
	// Elected says that this member leads in a term. It proposes nothing before it has applied the
	// entry first, which says so to all members: until then it may lack entries of earlier terms.
	Elected(term, first uint64)
	// Deposed says that this member does not lead in that term any more, be it that it was removed.
	// What it has proposed beyond the entry committed may yet become committed, here too, or be
	// replaced.
	Deposed(term, committed uint64)
	// Committed says that all entries up to one are there for ever. It may come before they are on
	// this disk.
	Committed(index uint64)
	// Replaced says that the entries from one on, which this member had, are in its log no more:
	// others have their indexes, or a snapshot has come, of which it is not known whether it has
	// what they were to do.
	Replaced(from uint64)
	// Apply is given committed entries that are on this disk, each once, also those that this
	// member has proposed. Those without data, and those of another type than pb.EntryNormal, are
	// the group's own.
	Apply(a Applying, done func())
	// Restore replaces all that the machine has, and does not return to that after a crash once
	// done is called without an error. An error ends the group.
	Restore(s *pb.Snapshot, done func(error))
	// Failed says that the group has ended by itself. Nothing else follows.
	Failed(err error)
}

// Applying are entries to be applied.
type Applying struct {
	Entries []*pb.Entry
	// Conf are the members after the last of them: what a snapshot that ends there has to say.
	Conf *pb.ConfState
}
