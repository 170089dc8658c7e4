package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// Finding is something that is wrong in a data directory.
type Finding struct {
	Where string // file, page and offset, bucket and key
	What  string
	// Harmless: nothing is wrong with any key, but space is wasted.
	Harmless bool
}

func (f Finding) String() string { return f.Where + ": " + f.What }

// Inspected says what Inspect has examined.
type Inspected struct {
	storage.Recovered
	Pages, Elements int64 // of the data file
	Log             wal.Report
	// Member: the directory belongs to a member of a group. Inspect has checked the data file, and
	// whether the log is whole, but not the content of the log.
	Member bool
}

// Inspect reads all of the data directory o.Dir without changing anything, and calls found for each
// thing that is wrong. No server may use the directory.
//
// It checks the pages of the data file, their trees and the list of free pages. It checks every
// checksum, and the counts and digests of slots. It checks whether the bucket ttl, together with
// its pending changes, agrees with the records. It also checks that the log is whole up to its end.
// If all that is sound, it replays the log in memory. Then it proves that data file, memory, counts
// and index agree, and looks for elements that belong to no key (Prove). It does not replay the log
// of a member's directory.
//
// The error says what could not be read at all.
func Inspect(o storage.Options, found func(Finding)) (got Inspected, err error) {
	if err := o.Complete(); err != nil {
		return got, err
	}
	if !storage.Exists(o.Dir) {
		return got, storage.ErrNoData
	}
	if _, err := os.Stat(filepath.Join(o.Dir, format.DataName)); errors.Is(err, fs.ErrNotExist) {
		return got,
			fmt.Errorf("the data file %s is missing: put it back, or a backup of the directory; `keyp repair` saves what the log has",
				format.DataName)
	}
	lock, err := o.LockForReading()
	if err != nil {
		return got, err
	}
	damaged := false
	report := func(f Finding) { damaged = damaged || !f.Harmless; found(f) }
	o.Progress.Begin("checking the data file")
	defer o.Progress.End()
	file, err := readData(filepath.Join(o.Dir, format.DataName), o.Progress, report)
	if err == nil {
		got.Pages, got.Elements, got.Member = file.pages, file.elements, file.state.Member
		logDir := format.LogDir
		if got.Member {
			logDir = format.MemberLogDir
		}
		o.Progress.Begin("checking the log")
		got.Log, err = inspectLog(&o, logDir, file.state.First, report)
	}
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	if err != nil || damaged || got.Member {
		return got, err
	}
	o.ReadOnly, o.NoBackground = true, true
	o.Databases = max(o.Databases, len(file.state.Spaces))
	s, rec, err := storage.Open(o)
	if errors.Is(err, storage.ErrLocked) {
		return got, err
	}
	if err != nil {
		report(Finding{Where: o.Dir, What: err.Error()})
		return got, nil
	}
	got.Recovered = rec
	err = Prove(s, o.Dir, report)
	return got, errors.Join(err, s.Close(false))
}

// Prove proves that data file, memory, counts and index of an open store agree, and calls found for
// what is wrong. It also reports elements that belong to no key.
func Prove(s *storage.Store, dir string, found func(Finding)) error {
	eachError(s.Check(), func(err error) { found(Finding{Where: dir, What: err.Error()}) })
	return s.Orphans(func(id uint64, elements, size int) {
		found(Finding{Where: fmt.Sprintf("bucket elements, value %d", id), Harmless: true,
			What: fmt.Sprintf("%d elements of %d bytes belong to no key", elements, size)})
	})
}

// eachError calls fn for err or, if err joins several errors, for each of them.
func eachError(err error, fn func(error)) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && !errors.Is(err, format.ErrCorrupt) {
		for _, e := range many.Unwrap() {
			eachError(e, fn)
		}
		return
	}
	fn(err)
}

// inspectLog checks the log in a subdirectory of the data directory, from a segment on.
func inspectLog(from *storage.Options, dir string, first uint64,
	found func(Finding)) (wal.Report, error) {
	o := wal.Options{FS: vfs.ReadOnly, Dir: filepath.Join(from.Dir, dir), Progress: from.Progress}
	report, err := wal.Check(o, first, nil)
	var bad *wal.CorruptError
	if !errors.As(err, &bad) {
		return report, err
	}
	gaps := 0
	_, err = wal.Salvage(o, first, func(uint64, []byte) error {
		return nil
	}, func(g wal.Gap) error {
		gaps++
		found(Finding{Where: fmt.Sprintf("%s, offset %d", g.File, g.Offset), What: g.Reason})
		return nil
	})
	if gaps == 0 {
		found(Finding{Where: fmt.Sprintf("%s, offset %d", bad.File, bad.Offset), What: bad.Reason})
	}
	return report, err
}
