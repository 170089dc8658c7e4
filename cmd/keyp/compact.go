package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"keyp/member"
	"keyp/storage"
)

const compactUsage = "usage: keyp compact DIR"

// checkpointRoom is the free space that a checkpoint may need for the log's segments and
// the data file.
const checkpointRoom = 512 << 20

// compact makes the data file of a directory that no server uses as short as its content
// allows. A running server does that by itself when most of the file is unused.
func compact(args []string, out io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New(compactUsage)
	}
	dir := args[0]
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	began := time.Now()
	o := toolOptions(dir, toolProgress())
	o.LockWait, o.Existing = 0, true
	store, found, err := storage.Open(o)
	if errors.Is(err, storage.ErrMember) {
		// It is opened as at a start, but takes no part in its group.
		store, found, err = member.New(member.Options{Clock: o.Clock, Logger: o.Logger}).Open(o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, store.Close(false)) }()
	store.SetDiskReserve(0) // it is for clients
	// Keys that were removed since the last checkpoint are still in the data file. A checkpoint
	// would remove them. On a full disk the tool makes none, because the log would wait for free
	// space.
	if found.Batches > 0 && store.Stats().FreeSpace > checkpointRoom {
		if err := store.Checkpoint(); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	before, after, err := store.Compact()
	if err != nil {
		return fmt.Errorf("%s keeps its data file as it is: %w", dir, err)
	}
	_, err = fmt.Fprintf(out,
		"%s is compact: %d keys, the data file had %d bytes and has %d, done in %v\n",
		dir, found.Keys, before, after, time.Since(began).Round(time.Millisecond))
	return err
}
