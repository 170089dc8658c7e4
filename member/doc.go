// Package member makes a server a member of a group, which is one Raft group: it puts a store
// (storage), its log (consensus/raftlog), the group (consensus) and what commands see of that
// (commands.Membership) together.
//
// # Entries
//
// Data of a normal entry begins with what it is. Numbers are little-endian or varints.
//
//	batches   1 │ position 8 │ batches, each behind its length
//	part      2 │ position 8 │ length 8 │ offset 8 │ bytes of a batch that is longer than an entry may be
//	member    3 │ who a member is and where, as JSON
//
// A position is where the first batch begins in the stream that is the same at all members: a batch
// ends at the position where it begins, plus its bytes and those of its length. That is its LSN.
// The parts of a batch are entries of one term, between which entries may be that have no batches,
// as changes of members. A leader that was deposed amid them leaves a beginning that counts for
// nothing.
//
// # Files
//
//	member.json   who this member is, and who and where the others are (identity)
//	raft/         the log
//	member.json.left  there while a member leaves its group: all else is to be removed
//	snapshot      a snapshot that was received whole, and is to be installed by the next start
//
// beside the files of the store. A directory without member.json is of a server that is alone.
//
// # Changes of role
//
// The group calls the machine (machine.go) from whichever goroutine has brought something about,
// which may be the server's loop. What may wait for the loop, or takes long, is done by a goroutine
// of its own, in the same order.
//
// A leader's store has what it ran before that was committed. So a leader that is deposed is
// tentative until it knows what became of its last entries: all committed, and it is a follower;
// one replaced, or a batch that was never proposed, and the process executes itself again. So it
// does for a snapshot. Nothing is exchanged in a store that is open.
//
// # Locks
//
//	journal.mu      batches on their way, and positions
//	Member.mu       the role, the members, who waits
//	tasks.mu        what is to be done
//	clocks.mu       how far the clocks of other members are off; the group's mutex is locked meanwhile
//
// in this order; none is held while a store, a group, a transport or a function of a caller is
// called.
//
// # Time
//
// What the group's messages say of time goes to the store, which has the group's time
// (storage/grouptime.go), and comes from there. It is passed on with the group's mutex locked
// (clocks, in time.go).
package member
