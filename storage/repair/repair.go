package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// Repair makes a new data directory from the remains of a damaged one. The old one stays unchanged.
// Nothing is guessed: saved data has a matching checksum.
//
//  1. salvage.go makes a new data file from all sound records and elements of the old one. They
//     are in its trees, or on pages that are cut off from the trees. Counts, digests and ttl are
//     computed again from the records.
//  2. The new directory is opened as usual, and the sound parts of the old log are replayed, also
//     those after damage. log.go says which of its records are trusted.
//  3. A checkpoint writes the result into the new data file.
//
// Then the new directory gets its name.

// Loss is something that Repair could not save.
type Loss struct {
	What string
	Kind LossKind
}

// LossKind says how bad a Loss is.
type LossKind int

const (
	Lost     LossKind = iota
	Doubtful          // a key is there, but part of it may be older than what was acknowledged
	Note              // nothing is lost by it: it says what is damaged
)

// Repaired is what Repair has saved.
type Repaired struct {
	Keys, Deadlines, Elements int64
	Log                       wal.Report // what was applied of the log
	Gaps                      int        // parts of the log that are lost
	log                       *oldLog
	spaces                    []uint32 // by database number
}

// Stated reports whether the log has everything that decides the final state of a key. This is so
// if there was no gap, or if records after the last gap give all of the key. The database after the
// last one is the server's own.
func (r Repaired) Stated(db int, name string) bool {
	space := uint32(format.SystemSpace)
	if db < len(r.spaces) {
		space = r.spaces[db]
	}
	return r.log.isStated(spot{space, name})
}

// Repair saves what it can of the data directory o.Dir into the directory to, which must not exist.
// It reports everything that it could not save. After an error there is no directory to. For the
// directory of a member of a group the error is ErrMember. No server may use o.Dir.
func Repair(o storage.Options, to string, report func(Loss)) (got Repaired, err error) {
	if err := o.Complete(); err != nil {
		return got, err
	}
	lock, err := o.LockForReading()
	if err != nil {
		return got, err
	}
	if lock != nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if _, err := os.Stat(o.Dir); err != nil {
		return got, err
	}
	if _, err := os.Lstat(to); err == nil {
		return got, &fs.PathError{Op: "mkdir", Path: to, Err: syscall.EEXIST}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return got, err
	}
	if ofMember(o.Dir) {
		return got, ErrMember
	}
	if !storage.Exists(o.Dir) {
		return got, storage.ErrNoData
	}
	if storage.IsWithin(to, o.Dir) {
		return got, fmt.Errorf("%s is in the directory that is repaired, which stays as it is", to)
	}
	part := filepath.Clean(to) + unfinished
	if err := os.Mkdir(part, 0o700); err != nil {
		return got, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	r := repair{o: o, to: part, report: report}
	if got, err = r.run(); err != nil {
		return got, err
	}
	if err := os.Rename(part, to); err != nil {
		return got, err
	}
	return got, vfs.OS.SyncDir(filepath.Dir(to))
}

// ReplaceMember is advice for the damaged directory of a member.
const ReplaceMember = "what one member has lost the others have: `keyp cluster remove` the member, and `keyp cluster add` it again with an empty directory. " +
	"If no majority of the others is left, restore a backup, or `keyp cluster recover` the directory of another member"

// ErrMember is returned if the directory belongs to a member of a group. The other members have
// what it lost.
var ErrMember = errors.New("the directory belongs to a member of a group, and " + ReplaceMember)

// ofMember reports whether the state in the data file says that the directory belongs to a member.
// It returns false if the state cannot be read.
func ofMember(dir string) bool {
	r := dataReader{path: filepath.Join(dir, format.DataName), found: func(Finding) {}}
	if err := r.open(); err != nil {
		return false // Repair reports it
	}
	defer func() { _ = r.file.Close() }()
	if r.f != nil {
		r.meta()
	}
	return r.state.Member
}

// unfinished is the end of a new directory's name until the directory is complete.
const unfinished = ".unfinished"

type repair struct {
	o      storage.Options
	to     string
	report func(Loss)
}

func (r *repair) lost(format string, args ...any) {
	r.report(Loss{What: fmt.Sprintf(format, args...)})
}

func (r *repair) run() (got Repaired, err error) {
	sv := newSalvage(r.o.Dir, r.report)
	if err := sv.run(filepath.Join(r.to, format.DataName), &r.o); err != nil {
		return got, err
	}
	got = Repaired{Elements: sv.elements, Log: sv.log.report, Gaps: sv.log.gaps, log: sv.log,
		spaces: sv.state.Spaces[:min(r.o.Databases, len(sv.state.Spaces))]}
	sv.log.reportGaps(sv.lost, func(format string, args ...any) {
		r.report(Loss{What: fmt.Sprintf(format, args...), Kind: Note})
	})
	s, err := r.open(sv)
	if err != nil {
		// The log may need data that is lost.
		r.lost("all of the log: it cannot be applied to what is left of the data file: %v", err)
		got.Log = wal.Report{}
		if err := r.emptyLog(); err != nil {
			return got, err
		}
		if s, err = r.open(sv); err != nil {
			return got, err
		}
	}
	err = s.Reconcile(sv.log.gaps > 0, func(space uint32, name string) bool {
		return sv.log.isStated(spot{space, name})
	}, func(u storage.Unfinished) {
		left := "what there is of it is left, which may be older in part"
		if u.Gone {
			left = "it is missing"
		}
		r.lost("key %.100q of database %s: a checkpoint was writing it, and the log that would have completed it is lost: %s",
			u.Name, sv.database(u.Space), left)
	})
	if err != nil {
		return got, errors.Join(err, s.Close(false))
	}
	sv.reportLost(s)
	for db := range s.Databases() {
		keys, expires := s.Count(db)
		got.Keys, got.Deadlines = got.Keys+keys, got.Deadlines+expires
	}
	if sv.log.gaps > 0 {
		r.doubts(s, sv, got.Keys)
	}
	eachError(s.Check(), func(err error) { r.lost("the new directory is not sound: %v", err) })
	return got, s.Close(true)
}

// open opens the new directory.
func (r *repair) open(sv *salvage) (*storage.Store, error) {
	o := r.o
	o.Dir, o.FS, o.NoBackground = r.to, vfs.OS, true
	o.Databases = max(o.Databases, len(sv.state.Spaces))
	s, _, err := storage.Open(o)
	return s, err
}

// emptyLog replaces the log of the new directory by an empty one.
func (r *repair) emptyLog() error {
	dir := filepath.Join(r.to, format.LogDir)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	log, err := newLog(dir, &r.o)
	if err != nil {
		return err
	}
	return log.Close()
}

// doubts reports what the gaps of the log make doubtful. keys is the number of all keys.
func (r *repair) doubts(s *storage.Store, sv *salvage, keys int64) {
	l := sv.log
	for at := range l.stated {
		if l.fresh[at.space] {
			continue
		}
		if k := s.Replayed(at.space, []byte(at.name)); k.Exists && k.DB < s.Databases() {
			keys--
		}
	}
	for space := range l.fresh {
		if db := s.Replayed(space, nil).DB; db >= 0 {
			n, _ := s.Count(db)
			keys -= n
		}
	}
	r.lost("what the log said there of keys that it does not state behind that: %s as before the damage, and may be older than what was acknowledged, or deleted since; what was only set there is missing",
		are(keys))
	for _, at := range slices.SortedFunc(maps.Keys(l.doubts), spot.compare) {
		if s.Replayed(at.space, nil).DB >= 0 {
			r.report(Loss{What: fmt.Sprintf("key %.100q of database %s: %s", at.name,
				sv.database(at.space), l.doubts[at]), Kind: Doubtful})
		}
	}
}

// lowestSegment returns the number of the first segment of a log; 0 if there is none.
func lowestSegment(dir string) (number uint64) {
	names, _ := filepath.Glob(filepath.Join(dir, "wal-*.log")) // sorted, as the numbers in them are
	if len(names) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(names[0]), "wal-%x.log", &number)
	}
	return number
}
