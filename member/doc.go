// Package member makes a server a member of a Raft group. It connects the store (storage), its log
// (consensus/raftlog), the group (consensus), and the view that commands have of the group
// (commands.Membership).
//
// # Entries
//
// The data of a normal entry begins with its kind. Numbers are little-endian or varints.
//
//	batches   1 │ position 8 │ batches, each after its length
//	part      2 │ position 8 │ length 8 │ offset 8 │ part of a batch too long for one entry
//	member    3 │ identity and addresses of a member, as JSON
//
// The stream of all batches is the same at all members. The position of an entry is where its first
// batch begins in the stream. A batch takes its own bytes and those of its length, and the position
// where it ends is its LSN. The parts of a batch are entries of one term. Between them may be
// entries without batches, such as changes of members. If a leader is deposed between the parts,
// the parts that it has proposed are ignored.
//
// # Files
//
//	member.json   identity of this member, and identities and addresses of the others
//	raft/         the log
//	member.json.left  exists while a member leaves its group: all other files must be removed
//	snapshot      a snapshot that was received whole, which the next start installs
//
// The directory also contains the files of the store. A directory without member.json belongs to a
// server that is alone.
//
// # Changes of role
//
// The group reports entries and changes of role to this package's machine (machine.go), on the
// goroutine that caused the event. That may be the server's loop. So work that may wait for the
// loop, or takes long, is queued for a separate goroutine, which does it in the same order.
//
// A leader's store contains changes that are not committed yet. A leader that is deposed does not
// know whether they will be: its role is tentative until it knows the outcome of its last entries.
// If all changes are committed, it becomes a follower. Otherwise its store has changes that the
// group does not have, and the process starts itself again with exec. It does the same to install a
// snapshot: the data of an open store is never replaced.
//
// # Locks
//
//	journal.mu      batches that are not committed yet, and positions
//	Member.mu       the role, the members, and the functions that wait for a change of them
//	tasks.mu        the queue of work
//	clocks.mu       differences of other members' clocks (it may be locked after the group's mutex)
//
// must be locked in this order. None is held while a store, a group, a transport or a function of a
// caller is called.
//
// # Time
//
// The store has the group's time (storage/grouptime.go). The times in the group's messages come
// from the store and go to it, through clocks (time.go), with the group's mutex locked.
package member
