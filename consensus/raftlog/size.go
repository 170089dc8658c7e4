package raftlog

import "context"

// End returns the position after the last record. A caller gives it to Settled, to wait until
// everything up to it is on disk.
func (l *Log) End() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.end
}

// Settled waits until all records up to a position that End has returned are on disk.
func (l *Log) Settled(ctx context.Context, end uint64) error { return l.wal.Settled(ctx, end) }

// Size calls the method of wal.Log, as other methods below do.
func (l *Log) Size() int64 { return l.wal.Size() }

// Between returns how many bytes the log has from the beginning of one segment to that of another.
// It returns 0 if one of them does not exist.
func (l *Log) Between(from, to uint64) int64 {
	a, ok := l.wal.Start(from)
	b, also := l.wal.Start(to)
	if !ok || !also || b < a {
		return 0
	}
	return int64(b - a)
}

// SizeFrom returns how many bytes the log has from the beginning of a segment on. If there is no
// such segment, it returns the size of the whole log.
func (l *Log) SizeFrom(segment uint64) int64 {
	start, ok := l.wal.Start(segment)
	if !ok {
		return l.wal.Size()
	}
	return int64(l.wal.End() - start)
}

// Taken returns the bytes on disk of the segments from number from on and before number to.
func (l *Log) Taken(from, to uint64) int64 { return l.wal.Taken(from, to) }

// First returns the number of the lowest segment.
func (l *Log) First() uint64 { return l.wal.First() }

// DropSpares removes the segments that are kept for later use. An error leaves them.
func (l *Log) DropSpares() { l.wal.DropSpares() }

// NextCost returns how many bytes of disk the segment after the present one will take: 0 if it
// exists already.
func (l *Log) NextCost() int64 { return l.wal.NextCost() }

// Full reports whether there is no room for another segment.
func (l *Log) Full() bool { return l.wal.Full() }

// Room is for a log without room for another segment. It returns how many more bytes fit into the
// last segment, and the whole size of that segment.
func (l *Log) Room() (left, size int64) { return l.wal.Room() }
