package repair

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"keyp/internal/progress"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/storage/wal"
)

// The sound parts of a log with gaps are applied, those before and those after each gap. Records
// after a gap describe changes to data that may also have changed in the gap. So only part of them
// is trusted:
//
//   - A key is stated if a record after the last gap gives all of it: a string was set, a
//     collection was created, the key was deleted, it got a stated value by RENAME, or its
//     database was emptied. Later records change something that is known. A stated key is as it was
//     at the end.
//   - A key is doubtful if a record after a gap changes it and it is not stated. Some of its
//     elements or bytes, or its deadline, may be older than others. Repair names each such key.
//   - Any other key is as it was before the gap, in which it may have been set, changed or
//     deleted. Repair says how many there are, and which keys the damaged bytes seem to be about.
//
// Two kinds of records need what a gap has lost:
//
//   - Elements of a collection that was created in a gap. It begins empty, so that elements that
//     were added later are saved. Pieces of a string that was created in a gap are not applied.
//   - Keys of a database that was emptied in a gap, and filled again afterwards. The database got a
//     new id in the gap, and the records of its new keys have only that id. So nobody knows to
//     which database they belong. Repair puts them into a new database, after the others.

// Nothing shows whether a gap contained SWAPDB. If it did, the result has the contents of the two
// databases exchanged.

// oldLog is the log of a damaged directory.
type oldLog struct {
	dir    string
	meter  *progress.Meter
	state  format.State // of the last checkpoint
	guess  bool         // state is a guess
	report wal.Report
	damage []wal.Gap // all of it
	gaps   int       // how many of it lost something

	// Since the last gap:
	stated map[spot]bool
	fresh  map[uint32]bool // keyspaces that a record has made
	made   map[uint64]bool // values that a record has made

	// lost are values that are damaged in the data file, by the keys that they have now. A value
	// that the log sets or deletes is not lost. renamed finds a lost value to which the log gives
	// another key.
	lost    map[spot]*lostValue
	renamed func(id uint64, typ object.Type) *lostValue

	doubts  map[spot]string // why a key is doubtful
	known   map[uint64]bool // values that a record has made (true), or that the data file has
	highest uint64          // the newest value at the last checkpoint
	next    uint32          // no keyspace from there on was there at the last checkpoint
	emptied int             // databases that were emptied in a gap and written to later
	spaces  map[uint32]bool // later ones: false if no record makes it
	begun   map[uint64]bool // values that rewrite has made
	out     []byte
}

// spot is a key in a keyspace.
type spot struct {
	space uint32
	name  string
}

func (at spot) compare(b spot) int {
	return cmp.Or(cmp.Compare(at.space, b.space), cmp.Compare(at.name, b.name))
}

func newOldLog(dir string) *oldLog {
	return &oldLog{
		dir: dir, stated: map[spot]bool{}, fresh: map[uint32]bool{}, made: map[uint64]bool{},
		lost: map[spot]*lostValue{}, doubts: map[spot]string{}, known: map[uint64]bool{},
		spaces: map[uint32]bool{}, begun: map[uint64]bool{},
	}
}

// since sets the state of the last checkpoint, with which the log begins.
func (l *oldLog) since(st format.State, guess bool) {
	l.state, l.guess, l.highest, l.next = st, guess, st.Generation, st.NextSpace
}

func (l *oldLog) salvage(batch func(lsn uint64, batch []byte) error,
	gap func(wal.Gap) error) (wal.Report, error) {
	return wal.Salvage(wal.Options{FS: vfs.ReadOnly, Dir: l.dir, Progress: l.meter},
		l.state.First, batch, gap)
}

// survey reads the log and finds out which keys are stated and which are doubtful.
func (l *oldLog) survey() (err error) {
	l.meter.Begin("reading the log")
	l.report, err = l.salvage(l.batch, func(g wal.Gap) error {
		l.damage = append(l.damage, g)
		if !g.Whole {
			l.gaps++
			clear(l.stated)
			clear(l.made)
			clear(l.fresh)
		}
		return nil
	})
	return err
}

// batch surveys one batch.
func (l *oldLog) batch(_ uint64, batch []byte) error {
	f := format.Fields{Rest: batch}
	for len(f.Rest) > 0 {
		r := format.ReadRecord(&f)
		if f.Bad {
			return nil // replay says so
		}
		switch r.Tag {
		case format.RecFlush:
			l.spaces[r.Space], l.fresh[r.Space] = true, true
		case format.RecLarge:
			l.known[r.ID], l.made[r.ID] = true, true
		}
		l.meet(r.Space)
		l.follow(&r)
		if l.gaps > 0 {
			l.note(&r)
		}
	}
	return nil
}

// onDisk records that the data file has elements of a value.
func (l *oldLog) onDisk(id uint64) {
	if !l.known[id] {
		l.known[id] = false
	}
}

// follow records what a record means for lost values.
func (l *oldLog) follow(r *format.Record) {
	switch r.Tag {
	case format.RecPut, format.RecLarge, format.RecDelete:
		if len(l.lost) > 0 {
			delete(l.lost, spot{r.Space, string(r.Key)})
		}
	case format.RecLink:
		from, to := spot{r.Space, string(r.Key)}, spot{r.ToSpace, string(r.To)}
		was, now := l.lost[from], (*lostValue)(nil)
		if was != nil && was.id == 0 {
			now = was
		}
		if !l.known[r.ID] { // else the log states all of the value
			if v := l.renamed(r.ID, r.Type); v != nil {
				now = v
			}
		}
		delete(l.lost, from)
		if delete(l.lost, to); now != nil {
			l.lost[to] = now
		}
	}
}

// meet records that a record mentions a keyspace.
func (l *oldLog) meet(space uint32) {
	if _, met := l.spaces[space]; !met && space != format.SystemSpace &&
		(space >= l.next || l.guess) {
		l.spaces[space] = false
	}
}

// strays returns the keyspaces that must belong to some database and that no record makes.
func (l *oldLog) strays() (ids []uint32) {
	for id, made := range l.spaces {
		if !made && (l.gaps > 0 || l.guess) && !slices.Contains(l.state.Spaces, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// note records what a record after a gap says about its key.
func (l *oldLog) note(r *format.Record) {
	at := spot{r.Space, string(r.Key)}
	switch r.Tag {
	case format.RecPut, format.RecDelete, format.RecLarge:
		l.knownWhole(at)
	case format.RecElement, format.RecRemove, format.RecRange, format.RecCut, format.RecTrim,
		format.RecDeadline:
		l.changed(at, r)
	case format.RecLink:
		l.knownWhole(at)
		to := spot{r.ToSpace, string(r.To)}
		if l.made[r.ID] {
			l.knownWhole(to)
			return
		}
		delete(l.stated, to)
		l.changed(to, r)
	}
}

// knownWhole notes that the log has all of a key, so nothing before matters.
func (l *oldLog) knownWhole(at spot) {
	l.stated[at] = true
	delete(l.doubts, at)
}

// changed notes that a record gives a part of a key, but not all of it.
func (l *oldLog) changed(at spot, r *format.Record) {
	lost := r.ID != 0 && l.isLost(r.ID)
	switch {
	case l.stated[at] || l.fresh[at.space]:
	case lost && r.Type == object.TypeString:
		l.doubts[at] =
			"its value was set in the part of the log that is lost; what it was before is left, or nothing"
	case lost:
		l.doubts[at] =
			"its value was made in the part of the log that is lost; only what was put into it later is left"
	case l.doubts[at] == "":
		l.doubts[at] =
			"it was changed in part behind the damage; what was changed of it in the part of the log that is lost is lost"
	}
}

// isStated reports whether the log has everything that decides the final state of a key.
func (l *oldLog) isStated(at spot) bool { return l.gaps == 0 || l.stated[at] || l.fresh[at.space] }

// copyTo writes the sound parts of the log into a new directory. It rewrites batches that need
// something that a gap has lost. It returns the number of the first segment.
func (l *oldLog) copyTo(dir string, o *storage.Options) (first uint64, err error) {
	log, err := newLog(dir, o)
	if err != nil {
		return 0, err
	}
	l.meter.Begin("copying the log")
	gaps, size := 0, 0
	_, err = l.salvage(func(_ uint64, batch []byte) error {
		if gaps > 0 {
			batch = l.rewrite(batch)
		}
		if len(batch) == 0 {
			return nil // of a checkpoint's rotation
		}
		log.Append(batch)
		if size += len(batch); size < commitBytes {
			return nil
		}
		size = 0
		return log.Commit()
	}, func(g wal.Gap) error {
		if !g.Whole {
			gaps++
		}
		return nil
	})
	return log.First(), errors.Join(err, log.Close())
}

// commitBytes is how many bytes of a copied log are written at a time.
const commitBytes = 1 << 20

// newLog makes an empty log.
func newLog(dir string, o *storage.Options) (*wal.Log, error) {
	return wal.Open(wal.Options{
		FS: vfs.OS, Dir: dir, Clock: o.Clock, Logger: o.Logger, Policy: wal.Always,
		SegmentSize: o.SegmentSize, Random: o.Random, New: true, NoBackground: true,
	}, 0, nil)
}

// isLost reports whether a value was created in a gap.
func (l *oldLog) isLost(id uint64) bool {
	_, known := l.known[id]
	return id > l.highest && !known
}

// rewrite returns a batch that also creates the values that it changes and that were created in a
// gap.
func (l *oldLog) rewrite(batch []byte) []byte {
	l.out = l.out[:0]
	f := format.Fields{Rest: batch}
	for len(f.Rest) > 0 {
		from := len(batch) - len(f.Rest)
		r := format.ReadRecord(&f)
		if f.Bad {
			return batch
		}
		whole := batch[from : len(batch)-len(f.Rest)]
		if r.ID != 0 && r.Tag != format.RecLarge && l.isLost(r.ID) && !l.begun[r.ID] {
			if r.Tag == format.RecLink && r.Type == object.TypeString {
				// One key loses the string, and the content of the other is
				// unknown.
				l.out = format.AppendBytes(format.AppendRecord(l.out, format.RecDelete,
					uint64(r.Space)), r.Key)
				l.out = format.AppendBytes(format.AppendRecord(l.out, format.RecDelete,
					uint64(r.ToSpace)), r.To)
				continue
			}
			if r.Type != object.TypeString {
				l.begun[r.ID] = true
				l.out = format.AppendBytes(format.AppendRecord(l.out, format.RecLarge,
					uint64(r.Space)), r.Key)
				l.out = format.AppendDeadline(binary.AppendUvarint(l.out, r.ID), 0, 0)
				l.out = append(l.out, byte(r.Type))
			}
		}
		l.out = append(l.out, whole...)
	}
	return l.out
}

// reportGaps reports the gaps, before the keys are known.
func (l *oldLog) reportGaps(lost, note func(format string, args ...any)) {
	for _, g := range l.damage {
		where := fmt.Sprintf("%s, offset %d", filepath.Base(g.File), g.Offset)
		if g.Whole {
			note("the log, %s: %s, and nothing is lost by it", where, g.Reason)
			continue
		}
		size, about := "", ""
		if g.From > 0 && g.To > g.From {
			size = fmt.Sprintf(" (%s)", count(g.To-g.From, "byte"))
		}
		if keys := l.keysIn(g.Frame); len(keys) > 0 {
			about = "; it seems to be about " + strings.Join(keys, ", ")
		}
		lost("a part of the log%s, from %s: %s%s", size, where, g.Reason, about)
	}
	if l.emptied > 0 {
		lost("which databases were emptied in the part of the log that is lost: what was written into them later is in %s behind the others, for which the option `databases` has to be larger",
			count(l.emptied, "new database"))
	}
}

// maxNamed bounds how many keys are named for a gap.
const maxNamed = 10

// keysIn returns the names of the keys that damaged bytes of a batch seem to be about.
func (l *oldLog) keysIn(batch []byte) (keys []string) {
	f := format.Fields{Rest: batch}
	for len(f.Rest) > 0 && len(keys) < maxNamed {
		r := format.ReadRecord(&f)
		if f.Bad {
			return keys
		}
		for _, k := range [][]byte{r.Key, r.To} {
			if name := fmt.Sprintf("%.100q", k); len(k) > 0 && !slices.Contains(keys, name) {
				keys = append(keys, name)
			}
		}
	}
	return keys
}

// are returns a number of keys with the verb: "1 key is", "2 keys are".
func are(keys int64) string {
	if keys == 1 {
		return "1 key is"
	}
	return count(keys, "key") + " are"
}

// count returns a number with a noun in singular or plural.
func count[N uint64 | int64 | int](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
