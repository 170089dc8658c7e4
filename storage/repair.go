package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// Repair makes a new data directory of what is left of a damaged one. The old one stays as it
// is. Nothing is guessed: what is saved has a checksum that holds.
//
//  1. salvage.go makes a new data file of all sound records and elements that the old one has:
//     those that its trees lead to, and those on pages that are cut off from them. Counts,
//     digests and ttl are made anew from the records.
//  2. The log is copied as far as it is sound from its begin. What follows damage is left out:
//     its records say how values changed, and may be about changes that are lost.
//  3. The new directory is opened as any, which replays the log, and checkpointed.

// Loss is something that Repair could not save.
type Loss struct {
	What string
	Note bool // nothing is lost by it: it says what is damaged
}

// Repaired is what Repair has saved.
type Repaired struct {
	Keys, Deadlines, Elements int64
	Log                       wal.Report // what was kept of the log
}

// Repair saves what can be saved of the data directory o.Dir into to, which must not exist, and
// tells of all that could not be. With an error there is no directory to.
// No server may use o.Dir.
func Repair(o Options, to string, tell func(Loss)) (got Repaired, err error) {
	if err := o.complete(); err != nil {
		return got, err
	}
	lock, err := lockForReading(o.Dir)
	if err != nil {
		return got, err
	}
	if lock != nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if _, err := os.Stat(o.Dir); err != nil {
		return got, err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return got, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(to))
		}
	}()
	r := repair{o: o, to: to, tell: tell}
	return r.run()
}

type repair struct {
	o    Options
	to   string
	tell func(Loss)
}

func (r *repair) lost(format string, args ...any) { r.tell(Loss{What: fmt.Sprintf(format, args...)}) }

func (r *repair) run() (got Repaired, err error) {
	sv := newSalvage(r.o.Dir, r.tell)
	if err := sv.run(filepath.Join(r.to, dataFile), &r.o); err != nil {
		return got, err
	}
	got.Elements = sv.elements
	if got.Log, err = r.log(sv.state.first); err != nil {
		return got, err
	}
	s, err := r.open(sv)
	if err != nil {
		// The log may need what is gone.
		r.lost("all of the log: it cannot be applied to what is left of the data file: %v", err)
		got.Log = wal.Report{}
		if err := os.RemoveAll(filepath.Join(r.to, logDir)); err != nil {
			return got, err
		}
		if s, err = r.open(sv); err != nil {
			return got, err
		}
	}
	s.recount()
	sv.tellLost(s)
	for db := range s.options.Databases {
		keys, expires := s.Count(db)
		got.Keys, got.Deadlines = got.Keys+keys, got.Deadlines+expires
	}
	tell(s.Check(), func(err error) { r.lost("the new directory is not sound: %v", err) })
	return got, s.Close(true)
}

func (r *repair) open(sv *salvage) (*Store, error) {
	o := r.o
	o.Dir, o.FS, o.NoBackground = r.to, vfs.OS, true
	o.Databases = max(o.Databases, len(sv.state.spaces))
	s, _, err := Open(o)
	return s, err
}

// log copies the log from a segment on, as far as it is sound.
func (r *repair) log(first uint64) (wal.Report, error) {
	from, to := filepath.Join(r.o.Dir, logDir), filepath.Join(r.to, logDir)
	if err := os.Mkdir(to, 0o700); err != nil {
		return wal.Report{}, err
	}
	names, err := filepath.Glob(filepath.Join(from, "wal-*.log"))
	if err != nil {
		return wal.Report{}, err
	}
	for _, name := range names {
		if err := copyFile(name, filepath.Join(to, filepath.Base(name))); err != nil {
			return wal.Report{}, err
		}
	}
	report, err := wal.Repair(wal.Options{FS: vfs.OS, Dir: to, Clock: r.o.Clock, Logger: r.o.Logger}, first)
	if err == nil {
		// Repair says nothing of what it gave up; the old log does.
		_, err = wal.Check(wal.Options{FS: readOnlyFS{vfs.OS}, Dir: from}, first, nil)
	} else {
		report = wal.Report{}
	}
	var bad *wal.CorruptError
	if !errors.As(err, &bad) {
		return report, err
	}
	if report.Batches == 0 {
		err = errors.Join(os.RemoveAll(to), os.Mkdir(to, 0o700))
	} else {
		err = nil
	}
	r.lost("the log from offset %d of %s on: %s; the %d batches before it are kept, all that was written after them is lost",
		bad.Offset, filepath.Base(bad.File), bad.Reason, report.Batches)
	return report, err
}

// lowestSegment is the number of the first segment of a log, 0 if there is none.
func lowestSegment(dir string) (number uint64) {
	names, _ := filepath.Glob(filepath.Join(dir, "wal-*.log")) // sorted, as the numbers in them are
	if len(names) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(names[0]), "wal-%x.log", &number)
	}
	return number
}

func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Sync(), dst.Close())
}

// recount makes the counts of keys what there is: the log and the last checkpoint count keys
// that are lost.
func (s *Store) recount() {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	_ = s.view(func(tx *bolt.Tx) error {
		disk, _ := s.readAll(tx)
		for _, sh := range s.shards {
			for db, p := range sh.parts {
				if p != nil {
					c := partCheck{s: s, p: p, db: db, tx: tx, disk: disk[p.space]}
					c.run()
					p.keys, p.expires = c.keys, c.expires
				}
			}
		}
		return nil
	})
}
