package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/vfs"
	"keyp/storage/object"
	"keyp/storage/wal"
)

// Repair makes a new data directory of what is left of a damaged one. The old one stays as it
// is. Nothing is guessed: what is saved has a checksum that holds.
//
//  1. salvage.go makes a new data file of all sound records and elements that the old one has:
//     those that its trees lead to, and those on pages that are cut off from them. Counts,
//     digests and ttl are made anew from the records.
//  2. The new directory is opened as any, and the old log is replayed, as far as it is sound,
//     also behind damage: repair_log.go says what that is worth.
//  3. A checkpoint writes what came of it into the new data file.
//
// The new directory has its name when all that is done.

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
}

// Repair saves what can be saved of the data directory o.Dir into to, which must not exist, and
// tells of all that could not be. With an error there is no directory to.
// No server may use o.Dir.
func Repair(o Options, to string, tell func(Loss)) (Repaired, error) {
	got, _, err := repairTo(o, to, tell)
	return got, err
}

// repairTo is Repair; what it knows of what is lost is for tests.
func repairTo(o Options, to string, tell func(Loss)) (got Repaired, sv *salvage, err error) {
	if err := o.complete(); err != nil {
		return got, nil, err
	}
	lock, err := o.lockForReading()
	if err != nil {
		return got, nil, err
	}
	if lock != nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	if _, err := os.Stat(o.Dir); err != nil {
		return got, nil, err
	}
	if _, err := os.Lstat(to); err == nil {
		return got, nil, &fs.PathError{Op: "mkdir", Path: to, Err: syscall.EEXIST}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return got, nil, err
	}
	part := filepath.Clean(to) + unfinished
	if err := os.Mkdir(part, 0o700); err != nil {
		return got, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	r := repair{o: o, to: part, tell: tell}
	if got, err = r.run(); err != nil {
		return got, nil, err
	}
	if err := os.Rename(part, to); err != nil {
		return got, nil, err
	}
	return got, r.sv, vfs.OS.SyncDir(filepath.Dir(to))
}

// unfinished is what a new directory's name ends with until all is in it.
const unfinished = ".unfinished"

type repair struct {
	o    Options
	to   string
	tell func(Loss)
	sv   *salvage
}

func (r *repair) lost(format string, args ...any) { r.tell(Loss{What: fmt.Sprintf(format, args...)}) }

func (r *repair) run() (got Repaired, err error) {
	sv := newSalvage(r.o.Dir, r.tell)
	if err := sv.run(filepath.Join(r.to, dataFile), &r.o); err != nil {
		return got, err
	}
	r.sv = sv
	got.Elements, got.Log = sv.elements, sv.log.report
	sv.log.tell(sv.lost, func(format string, args ...any) { r.tell(Loss{What: fmt.Sprintf(format, args...), Kind: Note}) })
	s, err := r.open(sv, sv.log)
	if err != nil {
		// The log may need what is gone.
		r.lost("all of the log: it cannot be applied to what is left of the data file: %v", err)
		got.Log = wal.Report{}
		if err := os.RemoveAll(filepath.Join(r.to, logDir)); err != nil {
			return got, err
		}
		if s, err = r.open(sv, nil); err != nil {
			return got, err
		}
	}
	if sv.log.gaps > 0 {
		s.dropEmpty()
	}
	s.recount()
	sv.tellLost(s)
	for db := range s.options.Databases {
		keys, expires := s.Count(db)
		got.Keys, got.Deadlines = got.Keys+keys, got.Deadlines+expires
	}
	if sv.log.gaps > 0 {
		r.doubts(s, sv, got.Keys)
	}
	tell(s.Check(), func(err error) { r.lost("the new directory is not sound: %v", err) })
	return got, s.Close(true)
}

// open opens the new directory, with the batches of an old log if there is one.
func (r *repair) open(sv *salvage, log *oldLog) (*Store, error) {
	o := r.o
	o.Dir, o.FS, o.NoBackground, o.oldLog, o.newLog = r.to, vfs.OS, true, log, true
	o.Databases = max(o.Databases, len(sv.state.spaces))
	s, _, err := Open(o)
	return s, err
}

// doubts tells of what the gaps of the log make doubtful. There are so many keys.
func (r *repair) doubts(s *Store, sv *salvage, keys int64) {
	l := sv.log
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	has := func(at spot) bool {
		db := s.dbOf(at.space)
		if db < 0 || db == s.options.Databases {
			return false
		}
		k := s.Key(db, []byte(at.name))
		p := s.part(k)
		return p != nil && exists(p.find(p.slot(k), k))
	}
	for at := range l.stated {
		if !l.fresh[at.space] && has(at) {
			keys--
		}
	}
	for space := range l.fresh {
		if db := s.dbOf(space); db >= 0 {
			n, _ := s.Count(db)
			keys -= n
		}
	}
	r.lost("what the log said there of keys that it does not state behind that: %s as before the damage, and may be older than what was acknowledged, or deleted since; what was only set there is missing", are(keys))
	for _, at := range slices.SortedFunc(maps.Keys(l.doubts), spot.compare) {
		if s.dbOf(at.space) >= 0 {
			r.tell(Loss{What: fmt.Sprintf("key %.100q of database %s: %s", at.name, sv.database(at.space), l.doubts[at]), Kind: Doubtful})
		}
	}
}

// lowestSegment is the number of the first segment of a log, 0 if there is none.
func lowestSegment(dir string) (number uint64) {
	names, _ := filepath.Glob(filepath.Join(dir, "wal-*.log")) // sorted, as the numbers in them are
	if len(names) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(names[0]), "wal-%x.log", &number)
	}
	return number
}

// dropEmpty removes collections of which a log with gaps has left no element.
func (s *Store) dropEmpty() {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	for db := range s.options.Databases + 1 {
		var empty []Key
		for _, sh := range s.shards {
			if p := sh.parts[db]; p != nil {
				empty = p.empty(db, empty)
			}
		}
		for _, k := range empty {
			t.Delete(k, Event{})
		}
	}
}

// empty appends the keys whose collections have no element.
func (p *part) empty(db int, keys []Key) []Key {
	for _, sl := range p.allUsed() {
		sl.table.walk(func(c *cell) {
			if o := p.objectOf(*c); o != nil && exists(c) && o.val.Type() != object.TypeString && o.val.Len() == 0 {
				keys = append(keys, Key{DB: db, Slot: sl.num, Hash: p.shard.store.hash(p.name(*c)), Name: bytes.Clone(p.name(*c))})
			}
		})
	}
	return keys
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
