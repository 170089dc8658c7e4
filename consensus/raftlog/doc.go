// Package raftlog is a member's log: a consensus.Log whose records are batches of a log of
// storage/wal, in a directory of its own.
//
// # Invariants
//
//   - What one consensus.Write says is one batch, so a crash keeps it whole or not at all, and what
//     is on disk is what all Writes up to some moment amount to.
//   - Nothing is cut from the files: of two entries with one index the later one counts. A
//     committed entry is never replaced.
//   - A commit index alone is not written. It goes with the next Write that has more, or with the
//     next head.
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
// A head is the first batch after each Rotate. It says who the member is, and what the records
// before it amount to that are not read any more when this is the first segment: hard state, and up
// to which index the entries stand before it (last). Its base is what the machine had applied then.
// So the entries after a base are all there when reading begins with a head whose last is not
// beyond that base: a log that is opened begins with the lowest such base, and Rotate says from
// which segment on the base that it was given is one.
//
// A write with a base says that a snapshot has replaced all entries.
//
// # Memory
//
// The newest entries are kept, up to 64 MiB, and those that are not on disk yet. Of all others
// there is a table of where their records stand: 8 bytes for each Write (table.go).
//
// # Locks
//
// Log.mu guards what is in memory. It is locked under consensus.Group.mu, and the wal's are locked
// under it; not during I/O.
package raftlog
