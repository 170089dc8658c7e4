package storage

import (
	"time"

	"keyp/storage/datafile"
	"keyp/storage/object"
	"keyp/storage/slab"
)

// Testing has everything that tests change in a store. Its zero value changes nothing.
type Testing struct {
	// SmallSteps makes the store divide bounded work into tiny pieces, so that there are many
	// moments between them.
	SmallSteps bool
	// OnStep is called at each step (datafile.Step), by the goroutine that does the step, while no
	// shard is locked. An error ends the operation.
	OnStep func(datafile.Step) error
	// OnData gets each data file that is opened for writing and returns the file to write to
	// instead.
	OnData func(path string, f datafile.Writer) datafile.Writer
	// onStretch is called after each stretch of a large value is read.
	onStretch func()
	// slabChunks bounds the chunks of a part; 0: slab.MaxChunks.
	slabChunks int
}

// The steps of a checkpoint, besides those of the data file.
const (
	StepPortion datafile.Step = "portion" // another portion of a value is about to be copied
	StepPending datafile.Step = "pending" // pending changes are about to be applied
)

func (t *Testing) step(at datafile.Step) error {
	if t.OnStep == nil {
		return nil
	}
	return t.OnStep(at)
}

func (t *Testing) stretch() {
	if t.onStretch != nil {
		t.onStretch()
	}
}

// bounds are how much work is done at a time.
type bounds struct {
	batchBytes            int           // of a checkpoint's transaction
	portion, portionBytes int           // of a value that is copied, in elements and bytes
	pendingBytes          int           // of changes of ttl that are made at once
	pendingStep           int           // of them, in a transaction
	garbageTime           time.Duration // of a transaction that deletes
	reapLooks             int           // keys between two readings of the clock
	deadlinesAtOnce       int           // deadlines that are read at once
	stretch               int           // elements that a transaction reads at least
	stretchTime           time.Duration // for which it reads further ones
	slabChunks            int           // of a part
	// Keys of one slot with one deadline that are looked at together.
	group          int
	cover          int   // entries of ttl before its beginning that a page looks at
	notes          int   // of deadlines, while time is guarded
	dueStep        int   // entries of ttl that are read at once for a timeline
	exact          int   // deadlines in a span that are counted one by one
	snapshotGrowth int64 // of the data file while a snapshot is open
	// Bytes of entries of a stream that is being read, with any MaxMemory.
	loadedRuns int64
}

// bounds returns the bounds, which are explained at their constants.
func (t *Testing) bounds() bounds {
	b := bounds{batchBytes, portionSize, portionBytes, pendingBytes, pendingStep, garbageTime,
		reapLooks, deadlinesAtOnce, stretchSize, stretchTime, slab.MaxChunks, groupMost,
		coverMost, maxNotes,
		dueStep, exactMost, snapshotGrowth, largeRuns}
	if t.SmallSteps {
		b = bounds{4 << 10, 30, 20 << 10, 300, 3, 0, 1, 8, 30, 0, slab.MaxChunks, 2, 5, maxNotes,
			3, 40, 1 << 20, 1}
	}
	if t.slabChunks != 0 {
		b.slabChunks = t.slabChunks
	}
	return b
}

// FixHashes makes the order of the elements of large values, and so the steps of checkpoints, the
// same in every process. It is called before a store is opened.
func FixHashes() { object.FixHashes() }
