// Package raftlog is a member's log: a consensus.Log whose records are batches of a write-ahead log
// (storage/wal) in its own directory.
//
// # Invariants
//
//   - Each consensus.Write is one batch, so after a crash it is there whole or not at all. The disk
//     always has the result of all Writes up to some moment.
//   - Files are never truncated: of two entries with the same index the later one counts. A
//     committed entry is never replaced.
//   - Append does not write a commit index that is the only new data. That index is written with
//     the next Write that has other data, with the next head, or by SaveCommit.
//   - Append and Rotate do no I/O; entries that are not in memory any more are read from the files.
//   - Records that contradict each other are corruption: an error, and never a panic or another
//     entry.
//
// # Records
//
// Numbers without a size are varints, conf is a ConfState as protobuf encodes it.
//
//	head     kind 1 = 1 │ version = 1 │ cluster behind its length │ group │ member │ hard │ base │ last │ term of last
//	write    kind 1 = 2 │ flags 1 │ hard if flag 1 │ base if flag 2 │ first index │ number of entries │ entries
//
//	hard     term │ vote │ commit
//	base     index │ term │ position │ conf behind its length
//	entry    type 1 │ term │ data behind its length
//
// A head is the first batch after each Rotate. It identifies the member, and sums up the records
// before it: the hard state, and the index of the last entry before the head (last). So the records
// before it need not be read. Its base is the last entry that the machine had applied then.
//
// Old segments can be removed when a snapshot, or the data of the machine, has the effects of their
// entries. Rotate and Needed return the newest segment from which a start still finds all entries
// after a given entry. The segments before it may be removed. The base of an open log is the entry
// after which it has all others.
//
// A write with a base says that a snapshot has replaced all entries.
//
// # Memory
//
// The newest entries are kept in memory, up to 64 MiB, and those that are not on disk yet. For all
// others there is a table with the positions of their records: 8 bytes for each Write (table.go).
//
// # Locks
//
// Log.mu guards the state in memory. The order is consensus.Group.mu, Log.mu, the wal's locks.
// Log.mu is not locked during I/O.
package raftlog
