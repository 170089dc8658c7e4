package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"keyp/internal/clock"
	"keyp/storage/archive"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
	"keyp/storage/wal"
)

// Source is the input of a restore in addition to a backup.
type Source struct {
	// Archives are archives of the same log, each of which may lack parts. Without any, the restore
	// ends with the backup.
	Archives []archive.Files
	// LSN is the last position to restore, or Time is the last Unix millisecond to restore. The
	// result has all that was written up to then. If both are 0, it has all that the archive has.
	LSN  uint64
	Time int64
	// KeepExpired: keys and elements that existed at that moment and have expired since then stay,
	// and lose their deadlines (keepexpired.go). Otherwise they are gone.
	KeepExpired bool
}

// Moment is the moment that was restored.
type Moment struct {
	Backup snapshotfile.Header
	// Through is the LSN of the last batch, in the log that was backed up. Time is its time,
	// Unix ms.
	Through uint64
	Time    int64
	// Kept is how many keys would have expired, or lost elements, without KeepExpired.
	Kept int
	// Unproven: the archive begins where the backup ends, so nothing proves that it belongs to the
	// same copy of the directory. It is false for the backup of a member.
	Unproven bool
}

var (
	// ErrMoment: the backup is of a later moment than the one wanted, or the archive ends before
	// that.
	ErrMoment = errors.New("storage: that moment cannot be restored")
	// errUnproven: the disk was full, or the backup is of a version that made no marks (nowIn).
	errUnproven = errors.New("storage: the backup has no part of the log, so nothing proves that the archive is of the same: another backup is needed")
)

// forward appends the batches of the archive after the backup, up to the moment wanted.
func (r *restoring) forward(ctx context.Context, o *Options, m *Moment, history string,
	from Source) (err error) {
	h := &m.Backup
	if from.LSN != 0 && from.LSN < h.Through || from.Time != 0 && from.Time < h.Time {
		return fmt.Errorf("%w: the backup is of LSN %d and %s: an earlier one is needed", ErrMoment,
			h.Through, timeOf(h.Time))
	}
	// The history identifies a group's log. The log of a server that is alone may continue from two
	// copies of its directory.
	last := &r.last // what of the log the backup has, the archive must have too
	switch {
	case r.through == 0 && h.Member:
		r.through, last = h.Through, nil
	case r.through == 0:
		return errUnproven
	}
	chain, err := archive.Join(from.Archives, history, r.through, last)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	// The LSN of the last batch that is certainly not later than from.Time.
	certain := h.Through
	for from.LSN == 0 || m.Through < from.LSN {
		lsn, batch, err := chain.NextPieces()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF && from.LSN <= m.Through && from.Time <= m.Time:
			return from.timed(certain, m)
		case err == io.EOF:
			return fmt.Errorf(
				"%w: the archive ends with LSN %d, written at %s (without --to, that is restored)",
				ErrMoment, m.Through, timeOf(m.Time))
		case err != nil:
			return err
		case r.through < lsn && lsn <= h.Through && len(batch[0]) > 0:
			// A backup has no empty batches.
			return archive.ErrForked
		case lsn <= h.Through:
			continue
		}
		at, timed := format.BatchTime(batch[0])
		if from.LSN != 0 && lsn > from.LSN || from.Time != 0 && timed && at > from.Time {
			return from.timed(certain, m)
		}
		if err := r.append(batch); err != nil {
			return err
		}
		m.Unproven = chain.Unproven() && !h.Member // a group's history proves it
		if m.Through = lsn; timed && at != 0 {
			m.Time = at
		}
		if chain.Timed() || timed && at != 0 {
			certain = lsn
		}
		if r.bytes >= o.CheckpointBytes {
			if err := r.toDataFile(o, m.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// timed refuses a time if there are batches after certain, the last batch that is certainly not
// later than that time.
func (from *Source) timed(certain uint64, m *Moment) error {
	if from.Time == 0 || certain == m.Through {
		return nil
	}
	return fmt.Errorf("%w: the log after LSN %d up to LSN %d was written after %s, while the server ran without its archive, which notes no times: --to an LSN can be restored",
		ErrMoment, certain, m.Through, timeOf(m.Time))
}

func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// close closes the log, if it is open.
func (r *restoring) close() error {
	log := r.log
	if r.log = nil; log == nil {
		return nil
	}
	return log.Close()
}

// toDataFile moves the appended batches to the data file, so that neither the log nor memory gets
// larger than a server's. Time stands still meanwhile: later batches may give another deadline to
// keys that are due later.
func (r *restoring) toDataFile(o *Options, now int64) error {
	if err := r.close(); err != nil {
		return err
	}
	s, err := openAt(o, now)
	if err != nil {
		return err
	}
	if err := errors.Join(s.Checkpoint(), s.Close(false)); err != nil {
		return err
	}
	first, err := wal.Lowest(o.FS, filepath.Join(o.Dir, format.LogDir))
	if err != nil {
		return err
	}
	r.bytes = 0
	r.log, err = restoredLog(o, first)
	return err
}

// openAt opens the directory at an instant, Unix ms, at which time stands still.
func openAt(o *Options, now int64) (*Store, error) {
	at := *o
	at.Clock, at.NoBackground, at.ClockJumpLimit = clock.NewFake(now), true, 0
	s, _, err := Open(at)
	if err != nil {
		return nil, err
	}
	s.SetDiskReserve(0) // it is for clients
	return s, nil
}
