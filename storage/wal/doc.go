// Package wal is the append-only log, the commit point of the store: a batch is
// part of the data once the log reports it durable, and never before.
//
// # Invariants
//
//   - The log is one endless stream of bytes, cut into segment files. An LSN is a
//     position in it; it only grows, over restarts too, and 0 means "nothing". The
//     LSN of a batch is the position just past its last frame, so the batch is
//     durable when Durable() >= LSN.
//   - The order of the Appends is the order in the log. Recovery returns a prefix of
//     the log, batch by batch, each whole or not at all.
//   - Append decides the position of a byte, under the lock and only in memory. A later write only
//     puts the bytes at the positions that they already have.
//   - The header of a group or of a segment calls a position durable only after the sync that made
//     it durable has returned.
//   - Segment numbers are never used twice, except after the file of that number was removed. A
//     segment ends where the next one starts, whatever bytes follow after that point.
//   - The names of segments are synced before their first byte is written. Segments are removed
//     only from the low end (Release) or from the high end (a cut). So a gap in the numbers is
//     corruption.
//
// # Files
//
//	wal-%016x.log    a segment: in use if its header bears the number in its name,
//	                 else prepared and not used yet
//	spare-%016x.log  an unused segment, to be reused
//	new.tmp          a segment being filled with zeros
//
// A new file is filled with zeros and synced, so that a later sync need not change
// the block map; a released one is renamed and used again, which saves the filling.
//
// # Formats
//
// Numbers are little-endian, checksums CRC-32C.
//
//	segment    one block of 4096 bytes, then groups
//	+-----------+---------+-----+--------+-------+------+------+---------+-------+
//	|"keypwal\n"|version 4|crc 4|number 8|start 8|salt 8|mark 8|durable 8| zeros |
//	+-----------+---------+-----+--------+-------+------+------+---------+-------+
//
//	start    the position of the first group; position p stands at file offset
//	         4096 + p - start
//	salt     random, new in each life of the file
//	mark     random, the same in all of the log; what a client sends cannot pass
//	         for a group, since it would have to guess it
//	durable  all before this position was on disk when this was written
//	crc      over all of the block but itself and the zeros
//
//	group      what one commit writes into one segment
//	+------+-----+--------+------+--------+----------+---------+--------+
//	|mark 8|crc 4|length 4|salt 8|number 8|position 8|durable 8| frames |
//	+------+-----+--------+------+--------+----------+---------+--------+
//
//	crc      over the header from length to durable
//	length   of the frames, in bytes; 0 in the group that Close writes to mark that
//	         everything before it is durable
//	number   of the segment, as in its header
//	position of this header
//	durable  all before this position was on disk when this was written
//
//	frame    a batch or a piece of one
//	+-------+----------+---------+---------+
//	| crc 4 | length 3 | flags 1 | payload |
//	+-------+----------+---------+---------+
//
//	crc      over the rest of the frame; its initial value is a hash of the
//	         segment's salt and the frame's position: a frame of an earlier life of
//	         the file, or one in another place, does not verify
//	flags    0x40 always (zeros are no frame), 0x01 first, 0x02 last
//
// A batch that does not fit what is left of the segment, or is over 1 MiB, becomes linked frames:
// first, middle …, last, over as many groups and segments as it takes. The payload of a first frame
// that is not also last starts with the size of the whole batch (8 bytes), so recovery can allocate
// it at once.
//
// # Recovery
//
// Segments are read from the lowest needed one on, and each whole batch is handed to the caller,
// until something does not verify. That place is called bad. There always is one, since nothing
// marks the end of the log.
//
// The rest of the log, in this segment and all later ones, is searched for headers of groups and
// segments. A header that claims durability beyond the bad place proves that something durable is
// missing. That is corruption: Open returns a *CorruptError and changes nothing. Without such a
// header it is a torn write: the bytes were never acknowledged, or they are in the very last group,
// whose durability no header claims yet.
//
// A torn write is cut off after the last whole batch: later segments are removed,
// from the highest down, then the tail of this one is overwritten with zeros and
// synced. The log continues in a new segment whose header starts at the cut.
//
// # Commit policies
//
// The policy says when a batch counts as durable, so that it may be acknowledged. Always: it is
// synced. EverySec: it is written, and a sync follows each second. No: it is written; syncs happen
// only at the end of a segment, in Close, and when a caller of Settled waits for one. Under each
// policy the method Synced says what is synced.
//
// A failed write or sync is final: the content of the disk is unknown, and trying again would
// report success for pages that the kernel has dropped. The log refuses every later commit; opening
// it again recovers what was durable. The only exception is a lack of room while a segment is
// prepared: then the log waits for room (Full).
//
// # Locks
//
//	flushMu   who writes: one at a time
//	syncMu    who syncs: one at a time, concurrently with the writer
//	mu        the layout and the buffers; never locked during I/O
//	segMu     the lists of segments; never locked during I/O
//	dirMu     who renames, makes and removes files
//
// in this order. Each lock is in a struct with the fields that it guards. Only one process may have
// a log open; the caller has locked its data directory.
package wal
