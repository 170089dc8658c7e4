package storage

import (
	"errors"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// A data directory belongs to a server that is alone, or to a member of a group: the state in the
// data file says which. Their logs differ, so neither may continue with the other's directory.

// Errors of opening a directory that is of the other kind.
var (
	// ErrMember: the directory is a member's, and is opened as that of a server that is alone.
	ErrMember = errors.New("storage: the directory belongs to a member of a group: only a server with the options of its cluster can use it")
	// ErrAlone: the directory is one of a server that is alone, and is opened as a member's.
	ErrAlone = errors.New(
		"storage: the directory belongs to a server that is alone, and not to a member of a group")
)

// belongs returns the error of a directory that is of the other kind.
func (o *Options) belongs(st *format.State) error {
	switch {
	case st.Member && !o.Member:
		return fmt.Errorf("%w: %s", ErrMember, o.place())
	case o.Member && !st.Member:
		return fmt.Errorf("%w: %s", ErrAlone, o.place())
	}
	return nil
}

// BecomeMember turns the directory o.Dir of a server that was alone into a member's. The server was
// closed with a checkpoint, so all of its data is in the data file. Its log continues at the
// position at, which belongs to another log. The change is one transaction: after an error the
// directory is of either kind. The old log is not removed.
func BecomeMember(o Options, at LogPosition) (err error) {
	if err := o.Complete(); err != nil {
		return err
	}
	s := &Store{options: o, clock: o.Clock}
	s.options.Member = false
	s.file, s.bounds = datafile.New(s.fileOptions()), o.Testing.bounds()
	s.stop = func() {}
	defer func() { err = errors.Join(err, s.release()) }()
	if err := s.lockDir(); err != nil {
		return err
	}
	st, err := s.openFile()
	if err != nil {
		return err
	}
	_, err = wal.Check(wal.Options{FS: o.FS, Dir: filepath.Join(o.Dir, format.LogDir)}, st.First,
		func(_ uint64, batch []byte) error {
			if len(batch) > 0 { // and not the head of the segment
				return fmt.Errorf(
					"storage: something is only in the log of %s: it was not closed with a checkpoint",
					o.Dir)
			}
			return nil
		})
	if err != nil {
		return err
	}
	st.Member, st.First, st.Position = true, at.Segment, at.Position
	if err := s.updateFile(func(tx *bolt.Tx) error {
		return datafile.PutMeta(tx, format.MetaState, st.Append(nil))
	}); err != nil {
		return err
	}
	return s.commitAgain()
}

// ReadLogPosition returns the position from which a member's data file needs its log. The error is
// ErrAlone for the directory of a server that is alone, a new one among them.
func ReadLogPosition(o Options) (at LogPosition, err error) {
	if err := o.Complete(); err != nil {
		return at, err
	}
	s := &Store{options: o, clock: o.Clock}
	s.options.Member = true
	s.file, s.bounds = datafile.New(s.fileOptions()), o.Testing.bounds()
	s.stop = func() {}
	defer func() { err = errors.Join(err, s.release()) }()
	if err := s.lockDir(); err != nil {
		return at, err
	}
	st, err := s.openFile()
	return LogPosition{st.First, st.Position}, err
}
