package object

import "sync/atomic"

// Thresholds bound how large a value may be in its small form, which is one packed piece of memory
// that is searched from its front. They are Redis's, with its defaults. A value that passes a
// threshold takes its large form. Hashes, sets and sorted sets keep the large form until they are
// loaded again. A list returns to the small form when it has shrunk to half of the threshold.
type Thresholds struct {
	HashEntries, HashValue int // fields, bytes of a field or value
	SetInts                int // members of a set of integers
	SetEntries, SetValue   int // members, bytes of a member
	ZSetEntries, ZSetValue int // members, bytes of a member
	// ListSize is a number of elements (0 counts as 1), or -1 to -5 for 4, 8, 16, 32 or 64 KiB.
	// Smaller numbers count as -5.
	ListSize int
	// StreamBytes and StreamEntries bound a run of a stream's entries. With 0, only maxRunBytes
	// and maxRunEntries bound it.
	StreamBytes, StreamEntries int
}

// DefaultThresholds are the defaults of Redis.
var DefaultThresholds = Thresholds{
	HashEntries: 512, HashValue: 64,
	SetInts:    512,
	SetEntries: 128, SetValue: 64,
	ZSetEntries: 128, ZSetValue: 64,
	ListSize:    -2,
	StreamBytes: 4096, StreamEntries: 100,
}

var thresholds atomic.Pointer[Thresholds]

func init() { SetThresholds(DefaultThresholds) }

// SetThresholds changes the thresholds for all changes of values from now on. It may be called
// while values are in use.
func SetThresholds(l Thresholds) { thresholds.Store(&l) }

// CurrentThresholds returns the thresholds in force.
func CurrentThresholds() Thresholds { return *thresholds.Load() }

// listSafety bounds the bytes of a piece of a list whose limit counts elements.
const listSafety = 8 << 10

// listFits reports whether n elements of size bytes together may be in one piece.
func (l *Thresholds) listFits(n, size int) bool {
	if l.ListSize >= 0 {
		return n <= max(l.ListSize, 1) && size <= listSafety
	}
	return size <= 2<<10<<min(-l.ListSize, 5)
}

// The bounds of a run of a stream if the limits have none. A change may move as much as a run.
const (
	maxRunBytes   = 64 << 10
	maxRunEntries = 10_000
)

func (l *Thresholds) streamBytes() int { return bounded(l.StreamBytes, maxRunBytes) }

func (l *Thresholds) streamEntries() int { return bounded(l.StreamEntries, maxRunEntries) }

func bounded(limit, most int) int {
	if limit <= 0 {
		return most
	}
	return min(limit, most)
}
