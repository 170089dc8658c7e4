package consensus

import pb "go.etcd.io/raft/v3/raftpb"

// Machine is the state that a group's entries change. Its methods are called one at a time, in the
// order of the events, without a lock, and on the goroutine that caused the event. So long work has
// to be done on another goroutine. A done is called once, on any goroutine.
type Machine interface {
	// Led says which member leads in a term; 0: this member knows of none.
	Led(term, leader uint64)
	// Elected says that this member leads in a term. The entry first announces that to all members.
	// This member proposes nothing before it has applied that entry: until then it may not have
	// applied all entries of earlier terms.
	Elected(term, first uint64)
	// Deposed says that this member does not lead in that term any more, also when it was removed.
	// Its proposals after the entry committed may still become committed, here too, or be replaced.
	Deposed(term, committed uint64)
	// Committed says that all entries up to index are there for ever. It may come before they are
	// on this member's disk.
	Committed(index uint64)
	// Replaced says that this member's entries from index from on are not in its log any more.
	// Either other entries have their indexes, or a snapshot has replaced the log; it is unknown
	// whether the snapshot includes their effects.
	Replaced(from uint64)
	// Apply gets committed entries that are on this member's disk, each once, also those that this
	// member has proposed. Entries without data, and those of another type than pb.EntryNormal,
	// belong to the group itself.
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
	// Conf are the members after the last entry: a snapshot that ends there has to name them.
	Conf *pb.ConfState
}
