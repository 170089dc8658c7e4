package consensus

import pb "go.etcd.io/raft/v3/raftpb"

// Machine is the state that a group's entries change. The group calls its methods one at a time, in
// the order of the events, and without a lock. The calls are on the goroutine that caused the
// event, so the machine does long work on another goroutine. Some methods have a parameter done.
// The machine calls this function once, on any goroutine, when it has finished the work.
type Machine interface {
	// Led reports which member leads in a term; 0 if this member knows of none.
	Led(term, leader uint64)
	// Elected reports that this member leads in a term. The entry first announces that to all
	// members. Before the machine has applied that entry, it must propose nothing, because it may
	// not have applied all entries of earlier terms.
	Elected(term, first uint64)
	// Deposed reports that this member no longer leads in that term, also if it was removed from
	// the group. Proposals that it made after the entry committed may still become committed, here
	// too, or be replaced.
	Deposed(term, committed uint64)
	// Committed reports that all entries up to index are committed. It may be called before they
	// are on this member's disk.
	Committed(index uint64)
	// Replaced reports that this member's entries from index from on are no longer in its log.
	// Either other entries have their indexes, or a snapshot has replaced the log; it is unknown
	// whether the snapshot includes their effects.
	Replaced(from uint64)
	// Apply gets committed entries that are on this member's disk, each once. Entries that this
	// member has proposed are among them. Entries without data, and entries of another type than
	// pb.EntryNormal, belong to the group itself.
	Apply(a Applying, done func())
	// Restore replaces the machine's whole state by a snapshot. Once it has called done without an
	// error, the old state must not return after a crash. An error ends the group.
	Restore(s *pb.Snapshot, done func(error))
	// Failed reports that the group has ended by itself. It is the last call.
	Failed(err error)
}

// Applying are entries to be applied.
type Applying struct {
	Entries []*pb.Entry
	// Conf are the members after the last entry: a snapshot that ends there has to name them.
	Conf *pb.ConfState
}
