package storage

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"keyp/internal/clock"
	"keyp/internal/progress"
	"keyp/internal/vfs"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// Options are a store's settings. Dir and Clock are required.
type Options struct {
	FS     vfs.FS // for the log, and for directories; vfs.OS if nil
	Dir    string
	Clock  clock.Clock
	Logger *slog.Logger

	// LockWait is how long to wait for another process that has the directory locked. The kernel
	// may need seconds to free the memory of a killed process, and releases its locks afterwards.
	LockWait time.Duration

	Databases int
	// Existing makes Open return ErrNoData for a directory without data, instead of making the
	// data. It allows at least as many databases as the directory has. It is for tools.
	Existing bool
	Shards   int // of a new data directory, which keeps it: a power of two up to 64

	Sync        wal.Policy
	SegmentSize int64
	// CheckpointBytes is the size of the log at which a checkpoint starts. It starts earlier if
	// a replay of the log would take too long (replayBudget).
	CheckpointBytes int64
	// MaxMemory bounds the memory of keys, index and buffers. If they take more, keys that the data
	// file has leave memory. 0: no bound.
	MaxMemory int64
	// Frequency enables LFU counting; nil disables it.
	Frequency *Frequency
	// DiskReserve is the free space below which growth is refused.
	DiskReserve uint64
	InitialMmap int
	// NoBackground makes the store start no goroutine. Tools need none, and tests do the work of
	// the goroutines themselves (see Manual).
	NoBackground bool
	// Random returns random numbers for the store's own use; nil: rand.Uint64.
	Random func() uint64

	// ReapDelay is how long after Open the reaper starts, so that clients can subscribe to events
	// first. Due keys are invisible meanwhile.
	ReapDelay time.Duration

	// ReadOnly makes the store change nothing in the directory. The log is replayed but not
	// continued, the store's own records stay in memory, and there are no checkpoints. It is for
	// tools.
	ReadOnly bool

	// ClockJumpLimit is the longest forward step of the wall clock that the store's time
	// follows (guard.go); 0: it follows every step. After a longer step, the store's time stays
	// behind for ClockJumpPatience before it follows by itself; 0: it follows at once.
	ClockJumpLimit, ClockJumpPatience time.Duration

	// Member: the server is a member of a group, and its log is replicated. The directory must be a
	// member's too (ErrMember, ErrAlone); a new directory becomes a member's. The memory and the
	// data files of other members may have other keys than this store's. So the log names each key
	// that expires, and contains the whole value of a key that is renamed.
	Member bool
	// Follower makes the store begin as that of a follower (follower.go).
	Follower bool

	// OpenLog opens the log. It passes each batch from the position on to replay, and calls o's
	// functions when wal.Open's log would. nil means wal.Open, for a server that is in no group. If
	// a member's store is ReadOnly, OpenLog changes nothing on disk.
	OpenLog func(o wal.Options, from LogPosition,
		replay func(lsn uint64, batch []byte) error) (Journal, error)

	// Archive makes the store archive its log.
	Archive Archive

	// Hooks makes the feature that is built on the store; nil: there is none. It is called before
	// the data is read. A store that is opened read-only has none.
	Hooks func(*Store) Hooks

	// OnDurable is called when more of the log is durable.
	OnDurable func(lsn uint64)
	// OnFail is called with the failure that ends the store: nothing becomes durable any more.
	OnFail func(error)

	// Progress shows the progress of Open, Check and a compaction; nil: it is not shown.
	Progress *progress.Meter

	Testing Testing
}

// Options returns the store's options, completed with the defaults.
func (s *Store) Options() Options { return s.options }

// Complete sets the fields without a value to their defaults, as Open does. The error says which
// field is wrong.
func (o *Options) Complete() error {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	if o.OpenLog == nil {
		o.OpenLog = openAlone
	}
	setDefault(&o.Databases, DefaultDatabases)
	setDefault(&o.Shards, DefaultShards)
	setDefault(&o.SegmentSize, wal.DefaultSegmentSize)
	setDefault(&o.CheckpointBytes, DefaultCheckpointBytes)
	setDefault(&o.DiskReserve, DefaultDiskReserve)
	setDefault(&o.InitialMmap, DefaultInitialMmap)
	if !format.ValidShards(o.Shards) {
		return fmt.Errorf("storage: %d shards: not a power of two up to 64", o.Shards)
	}
	return nil
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
