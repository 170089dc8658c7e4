package storage

import (
	"errors"
	"fmt"
	"io"

	"keyp/storage/datafile"
	"keyp/storage/snapshotfile"
)

// This file takes snapshots of the data file while the store is in use. Backups are made from
// snapshots, and so are copies for other members of a group.

const (
	// snapshotGrowth is how much longer the data file may get while a snapshot is open; for a large
	// file it is half of the length.
	snapshotGrowth = 1 << 30
	// mapMargin is the room for the growth of the file between two rounds of housekeeping; for a
	// small mapping it is an eighth of the mapping.
	mapMargin = 256 << 20
)

// FileSnapshot is an open snapshot of the data file (datafile/snapshot.go). Housekeeping gives it
// up in these cases:
//
//   - the file has grown by more than snapshotGrowth, or nearly to the end of the mapping;
//   - more than snapshotGrowth of the log is kept for it;
//   - the disk is nearly full;
//   - the store is closed.
type FileSnapshot struct {
	*datafile.Snapshot
	s    *Store
	kept KeptLog // of a backup; nil: the caller keeps the log
}

// OpenSnapshot takes a snapshot of the data file between two checkpoints; it waits for one that is
// under way. The caller must keep the log after Header.Position: the receiver continues with it.
func (s *Store) OpenSnapshot() (*FileSnapshot, error) { return s.openSnapshot(nil) }

// openSnapshot takes a snapshot as OpenSnapshot does. If log is not nil, it also keeps the part of
// log that the snapshot needs.
func (s *Store) openSnapshot(log BackupLog) (*FileSnapshot, error) {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, err
	}
	if s.quit.Err() != nil {
		return nil, ErrClosed
	}
	inner, err := s.file.OpenSnapshot()
	if err != nil {
		return nil, err
	}
	sn := &FileSnapshot{Snapshot: inner, s: s}
	sn.Header.Through, sn.Header.Time = s.log.Durable(), s.clock.Now()
	if err := sn.outgrown(); err != nil {
		return nil, errors.Join(err, sn.Close())
	}
	if log != nil { // no checkpoint releases a segment meanwhile
		sn.kept = log.Keep(LogPosition{sn.Header.Segment, sn.Header.Position})
	}
	sn.Watch(datafile.Watch{Outgrown: sn.outgrown, LetGo: sn.letGo})
	return sn, nil
}

// outgrown returns an error with the reason if the snapshot's transaction must end, and nil
// otherwise.
func (sn *FileSnapshot) outgrown() error {
	s := sn.s
	size, _ := s.file.Use()
	held, most := int64(0), max(s.bounds.snapshotGrowth, sn.Header.Size/2)
	if sn.kept != nil {
		held = sn.kept.Bytes()
	}
	switch grown := size - sn.Header.Size; {
	case s.quit.Err() != nil:
		return ErrClosed
	case size > sn.Mapped-min(mapMargin, sn.Mapped/8):
		return fmt.Errorf(
			"the data file has %d bytes, and the server has room for %d: start it again",
			size, sn.Mapped)
	case grown > most:
		return fmt.Errorf("the data file has become %d bytes longer", grown)
	case held > most:
		return fmt.Errorf("%d bytes of the log are kept for it", held)
	case s.spaceIsLow():
		return errors.New("the disk is nearly full")
	}
	return nil
}

// letGo ends the keeping of the log for the snapshot.
func (sn *FileSnapshot) letGo() error {
	if sn.kept == nil {
		return nil
	}
	return sn.kept.LetGo()
}

// Receive makes the output of Send the data file of the directory o.Dir, as datafile.File.Receive
// does. No store may have the directory open.
func Receive(o Options, r io.Reader, segment uint64,
	records func(position uint64, b []byte) error) (h snapshotfile.Header, err error) {
	return receiveAs(o, r, segment, false, records)
}

// receiveAs does the work of Receive. If alone is true, the data file becomes that of a server that
// is alone, even if the snapshot is a member's.
func receiveAs(o Options, r io.Reader, segment uint64, alone bool,
	records func(position uint64, b []byte) error) (h snapshotfile.Header, err error) {
	if err := o.Complete(); err != nil {
		return h, err
	}
	o.NoBackground = true // there are no clients to pause for
	s := &Store{options: o}
	if err := s.lockDir(); err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, s.dirLock.Close()) }()
	return datafile.New(s.fileOptions()).Receive(r, segment, alone, records)
}
