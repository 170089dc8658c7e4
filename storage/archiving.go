package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"keyp/storage/archive"
	"keyp/storage/wal"
)

// Archive makes the store copy its whole log elsewhere (package archive). Together with a backup,
// the copy restores any moment since that backup. For that, the log contains the time of each batch
// (Txn.End), in milliseconds.
type Archive struct {
	// Dir is the directory of the archive. Empty: Run, if that is not nil, gets the path of each
	// file, and returns nil once there is a durable copy.
	Dir string
	Run func(ctx context.Context, path string) error
	// Timeout returns the longest time between the sync of a batch and its archiving; nil: a
	// minute.
	Timeout func() time.Duration
	// FileSize is how many bytes of the log a file has; 0: the default of package archive.
	FileSize uint64
	// Member names the member of a group that the server is; empty: it is in none.
	Member string
	// Keep: this process archives nothing, but a later server may continue the archive. So the part
	// of the log that is not archived yet is kept, and batches still get times. It is for tools.
	Keep bool
}

// On reports whether the log is to be archived.
func (a *Archive) On() bool { return a.Dir != "" || a.Run != nil }

// keptFrom returns the position up to which the log is archived. The log must be kept from there
// on. 0 means that nothing needs to be kept.
func (s *Store) keptFrom() (uint64, error) {
	o := &s.options.Archive
	if s.options.Member || !o.On() && !o.Keep { // a member's log says itself what it keeps
		return 0, nil
	}
	state, err := archive.ReadState(s.options.FS, s.options.Dir)
	if state.Off != 0 && !o.On() { // the last server kept nothing either
		return 0, err
	}
	return state.Through, err
}

// startArchive begins to archive the log.
func (s *Store) startArchive() (err error) {
	o := &s.options.Archive
	if s.options.ReadOnly {
		return nil
	}
	s.timed = s.options.Member // other members may archive what this one writes
	own, alone := s.log.(*wal.Log)
	if !o.On() {
		if alone {
			err = s.withoutArchive(own)
		}
		return err
	}
	log, ok := s.backupLog()
	if !ok {
		return errors.New("storage: the log is none that can be archived")
	}
	timed := uint64(0) // a group's log has times from its beginning on
	if alone {
		timed = log.End()
	}
	timeout := o.Timeout
	if timeout == nil {
		timeout = func() time.Duration { return time.Minute }
	}
	dir := o.Dir
	if dir != "" {
		if err := CheckArchive(dir, s.options.Dir); err != nil {
			return fmt.Errorf("storage: %w", err)
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	s.archiver, err = archive.Start(archive.Options{
		FS: s.options.FS, Log: log, Timed: timed, Member: o.Member, Data: s.options.Dir, Dir: dir,
		Run: o.Run, Timeout: timeout, Clock: s.clock, Logger: s.options.Logger,
		NoBackground: s.options.NoBackground, FileSize: o.FileSize,
		Directory: identityOf(s.options.Dir),
	})
	s.timed = true
	return err
}

// withoutArchive notes that the log has no times from now on, if it was archived before.
func (s *Store) withoutArchive(log *wal.Log) error {
	if s.options.Archive.Keep {
		state, err := archive.ReadState(s.options.FS, s.options.Dir)
		if s.timed = state.History == log.History() && state.Off == 0; s.timed {
			log.HoldFrom(state.Through)
		}
		return err
	}
	had, err := archive.Off(s.options.FS, s.options.Dir, log.History(), log.End())
	if err != nil { // a full disk does not keep the server from starting
		s.options.Logger.Error("it cannot be noted that the log has no times from now on: a restore with --to TIME takes what is written as older than it is",
			"error", err)
	} else if had {
		s.options.Logger.Warn("the server runs without the archive that it had: a new backup is needed when it is on again")
	}
	return nil
}

// CheckArchive returns an error if the directory of an archive is the data directory or in it, or
// if it is not a directory. Neither has to exist.
func CheckArchive(archive, data string) error {
	path, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("archive-dir %s is not a directory", archive)
	}
	if isWithin(path, data) {
		return fmt.Errorf("archive-dir %s is the directory of the data, or in it: the archive is to survive the loss of that",
			archive)
	}
	return nil
}

// IsWithin reports whether a path is a data directory or in it, whatever symbolic links lead there.
// Neither has to exist.
func IsWithin(path, dir string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	dir, err = filepath.Abs(dir)
	return err == nil && isWithin(path, dir)
}

// isWithin reports whether a path is a directory or in it, whatever symbolic links lead there. Both
// are absolute, and may not exist yet.
func isWithin(path, dir string) bool {
	of, err := os.Stat(dir)
	if err != nil { // no link leads to what is not there
		rel, err := filepath.Rel(dir, path)
		return err == nil && filepath.IsLocal(rel)
	}
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, of) {
			return true
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

// identityOf returns the inode number of a directory, which a copy of the directory does not share.
// It returns an empty string if the system has no such number.
func identityOf(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(st.Ino, 10)
}

// ArchiveAge returns for how long the archive has lacked something that is on disk. If it never had
// everything, that is the time since the start. It returns 0 if there is no archive.
func (s *Store) ArchiveAge() time.Duration {
	st, ok := s.archiveStatus()
	if !ok {
		return 0
	}
	return time.Duration(max(0, s.clock.Now()-max(st.Last, s.opened))) * time.Millisecond
}

// endArchive archives the rest of the log. The log stays open until then.
func (s *Store) endArchive() {
	if s.archiver == nil {
		return
	}
	if s.Err() == nil && !s.Full() {
		// The next start archives the batches that are not synced or not committed.
		_ = s.log.Settled(context.Background(), s.log.End())
	}
	s.archiver.Close()
}

// ArchiveKept is the part of a log that is kept for an archive.
type ArchiveKept = archive.Kept

// ArchiveStatus is the state of an archive.
type ArchiveStatus = archive.Status

// archiveStatus returns the state of the archive. ok is false if there is none.
func (s *Store) archiveStatus() (st ArchiveStatus, ok bool) {
	if s.archiver == nil {
		return st, false
	}
	return s.archiver.Status(), true
}
