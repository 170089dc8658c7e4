package wal

import (
	"errors"
	"fmt"
	"syscall"
)

// This file contains the errors of the log.

var (
	// ErrClosed is the error of commits and waits on a closed log.
	ErrClosed = errors.New("wal: closed")

	// ErrVersion means that a later version of Keyp wrote the log.
	ErrVersion = errors.New("wal: written by a later version of Keyp")

	// ErrNoRoom is the error of Close if batches that were never acknowledged could not be
	// written, since there was no room for another segment.
	ErrNoRoom = errors.New("wal: no room for another segment")

	// ErrBeyondEnd is returned by Settled for a position after the end of the log.
	ErrBeyondEnd = errors.New("wal: position beyond the end of the log")
)

// CorruptError means that bytes that were durable once are missing or changed. Opening has changed
// nothing.
type CorruptError struct {
	File   string // path of the segment
	Offset int64  // bytes from its start to the first byte that does not verify
	LSN    uint64 // position of that byte; all batches before it are intact
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s is corrupt at offset %d (position %d): %s; "+
		"`keyp check` lists all damage, `keyp repair` saves what is sound before and after it",
		e.File, e.Offset, e.LSN, e.Reason)
}

// noRoom reports whether err is a shortage that can pass.
func noRoom(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
