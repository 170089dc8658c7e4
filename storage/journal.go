package storage

import (
	"context"
	"errors"
	"time"

	"keyp/internal/histogram"
	"keyp/storage/wal"
)

// Journal is the log as the store and the server use it. Append adds a batch and returns its
// position (LSN). The log of a server that is alone is a wal.Log. A replicated log has a leader,
// and the last batches of the leader may be taken back when another server becomes the leader. So a
// batch before a position may be in three states:
//
//	durable   It may be acknowledged: replies and messages that show it may be sent.
//	          Alone: it is synced; with a laxer policy it is only written. Replicated: it is
//	          committed.
//	synced    It is on this server's disk, whatever the policy is. As long as it is not durable, a
//	          replicated log may take it back.
//	settled   It is on this server's disk and will never be taken back. Only settled batches reach
//	          the data file: a checkpoint writes nothing that it would have to undo.
//
// The log of a server that is alone takes nothing back, so settled means synced. Under the policy
// Always all three are the same.
type Journal interface {
	// Append puts a batch after all earlier ones and returns its LSN. It copies the batch and does
	// no I/O.
	Append(batch []byte) (lsn uint64)
	// AppendKeeping is Append of a batch in pieces, and does not copy it. Nobody may change the
	// pieces before the batch is durable. The log does not read them afterwards.
	AppendKeeping(pieces [][]byte) (lsn uint64)

	// Commit makes everything appended so far durable. It returns when that is done, or earlier;
	// then OnDurable reports it.
	Commit() error
	// CommitAsync is Commit on another goroutine. Calls while one is under way become one.
	CommitAsync()
	// SetPolicy changes when batches become durable.
	SetPolicy(wal.Policy)

	// End returns the LSN of the last batch.
	End() uint64
	// Durable returns the position before which all is durable, and Synced that before which
	// all is synced. Neither falls.
	Durable() uint64
	Synced() uint64
	// Settled returns nil after all before lsn is settled; it starts the write and the sync itself.
	// It returns ErrDeposed if that may never happen, the failure of a log that has failed, or the
	// context's error.
	Settled(ctx context.Context, lsn uint64) error

	// Rotate begins another segment, which starts with the batch head, and returns its number. All
	// later batches go there. The number may be recorded as the first one needed once End, read
	// after Rotate, is settled.
	Rotate(head []byte) (segment uint64, err error)
	// Release removes the segments before first, or keeps them for later use.
	Release(first uint64) error
	// DropSpares removes the segments that are kept for later use. An error leaves them.
	DropSpares()
	// First returns the number of the first segment; 0 if there is no room for any. Right after
	// the opening it may be recorded as the first one needed.
	First() uint64
	// Size returns the number of bytes that a recovery would read.
	Size() int64

	// NextCost returns how many bytes of disk the segment after the present one will take: 0 if
	// it exists already.
	NextCost() int64
	// Full reports whether there is no room on disk for further segments.
	Full() bool
	// Room returns how many bytes still fit into the last segment while there is no room for
	// another, and the segment's size.
	Room() (left, size int64)
	// Err returns the failure that ended the log, or nil.
	Err() error
	// SyncCost returns how long a write with its sync takes at present.
	SyncCost() time.Duration
	// Syncs and Commits return the durations of syncs in microseconds, and the bytes of
	// commits, since the opening.
	Syncs() histogram.Reading
	Commits() histogram.Reading

	// GiveUp is called before Close, where something that may wait for the log has to end first.
	// From then on a batch for which there is no room ends the log instead of waiting for room.
	// Settled returns ErrDeposed instead of waiting for other servers.
	GiveUp()
	// Close writes and syncs what was appended, and ends the log.
	Close() error
}

// ErrDeposed: the log is replicated, and this server is not its leader any more. The last batches
// that it appended may be taken back.
var ErrDeposed = errors.New(
	"storage: another server leads, and what was written here last may be taken back")

// LogPosition is where replay begins in a log.
type LogPosition struct {
	Segment uint64
	// Position is the position before which the data file has all batches. Batches that end there
	// or before are not replayed; the segment of a replicated log may have some. The log of a
	// server that is alone has none, and its Position is 0. A new data file begins at position 0 of
	// segment 0. A log that has lost its beginning must not open from there.
	Position uint64
}

// openAlone opens the log of a server that is alone.
func openAlone(o wal.Options, from LogPosition,
	replay func(lsn uint64, batch []byte) error) (Journal, error) {
	log, err := wal.Open(o, from.Segment, replay)
	if err != nil {
		return nil, err // and not a Journal without a log
	}
	return log, nil
}
