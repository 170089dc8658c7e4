package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage/archive"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
	"keyp/storage/wal"
	"keyp/ttl"
)

var errNoArchive = errors.New("nothing can be archived")

// archived is a store whose log is archived. It records the store's content at each position.
type archived struct {
	*faulty
	rng     *rand.Rand
	points  []point
	backups []kept
	end     uint64 // of the log when it was opened
}

// point is the content of the store at a position of its log.
type point struct {
	lsn  uint64
	time int64
	model
}

// kept is a backup.
type kept struct {
	lsn    uint64
	time   int64
	stream []byte
}

func newArchived(t testing.TB, seed uint64) *archived {
	h := closedHarness(t)
	h.archive = Archive{Dir: "/archive", FileSize: 2000}
	a := &archived{faulty: changing(h), rng: rand.New(rand.NewPCG(setup.Seed, seed))}
	h.openLog = func(o wal.Options, from LogPosition,
		replay func(uint64, []byte) error) (Journal, error) {
		log, err := openAlone(o, from, replay)
		if err == nil {
			a.end = log.End()
		}
		return log, err
	}
	h.open()
	a.write() // a log without a batch may begin again
	a.backUp()
	return a
}

// note adds the present state to the points.
func (a *archived) note() {
	a.points = append(a.points, point{a.s.Log().End(), a.clock.Now(), a.model.clone()})
}

// write changes keys until a batch is added to the log. Deleting a missing key adds none, and
// without a batch the log does not have the present moment.
func (a *archived) write() {
	for end := a.s.Log().End(); a.s.Log().End() == end; {
		a.change()
	}
	a.note()
}

// change changes one key, or empties a database.
func (a *archived) change() {
	n := name{a.rng.IntN(2), fmt.Sprint("key", a.rng.IntN(40))}
	k := a.s.Key(n.db, []byte(n.key))
	a.names[n] = true
	switch v := (value{data: strings.Repeat("v", a.rng.IntN(200))}); a.rng.IntN(40) {
	case 0:
		for n := range a.model {
			if n.db == 1 {
				delete(a.model, n)
			}
		}
		a.doAll(func(x *Txn) { x.FlushDB(1) })
	case 1, 2, 3, 4, 5:
		delete(a.model, n)
		a.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	case 6, 7, 8, 9, 10, 11:
		v.deadline = a.clock.Now() + 1 + a.rng.Int64N(30)
		fallthrough
	default:
		a.model[n] = v
		a.do(func(x *Txn) { x.SetString(k, []byte(v.data), ttl.At(v.deadline), eventSet) }, k)
	}
}

func (a *archived) backUp() {
	a.commit()
	stream := a.backup()
	a.backups = append(a.backups, kept{a.s.Log().End(), a.clock.Now(), stream})
}

// step runs a random operation on the store or its archive.
func (a *archived) step() {
	switch a.rng.IntN(60) {
	case 0:
		a.saved()
	case 1, 2, 3:
		if err := a.s.archiver.Round(a.rng.IntN(2) == 0); err != nil {
			a.t.Fatal(err)
		}
	case 4:
		a.backUp()
	case 5:
		a.reopen()
	case 6:
		a.crash(a.rng, a.names)
		for len(a.points) > 1 && a.points[len(a.points)-1].lsn > a.end {
			a.points = a.points[:len(a.points)-1]
		}
	case 7, 8, 9, 10, 11, 12:
		a.commit()
	case 13:
		a.reapAt(a.clock.Now())
	default:
		a.write()
	}
	a.clock.Advance(time.Duration(a.rng.IntN(4)) * time.Millisecond)
}

// restore restores a moment of a backup, and checks the result.
func (a *archived) restore(b kept, from Source, want point) {
	a.t.Helper()
	to := &harness{t: a.t, dir: a.t.TempDir(), fs: a.fs, clock: clock.NewFake(want.time),
		model: want.model.clone(), databases: a.databases}
	o := to.options()
	o.CheckpointBytes = 4000 + a.rng.Int64N(20000) // so it is settled often
	from.Archives = []archive.Files{archive.Dir(a.fs, "/archive")}
	if from.KeepExpired = a.rng.IntN(2) == 0; from.KeepExpired {
		to.clock.Set(want.time + a.rng.Int64N(40))
	}
	m, err := RestoreTo(context.Background(), o, bytes.NewReader(b.stream), from)
	if err != nil {
		a.t.Fatalf("from LSN %d to LSN %d and %d: %v", b.lsn, from.LSN, from.Time, err)
	}
	if from.KeepExpired {
		to.model = to.model.kept(m.Time, to.clock.Now())
	}
	if from.LSN != 0 && m.Through > from.LSN || from.Time != 0 && m.Time > from.Time {
		a.t.Errorf("restored is LSN %d of %d, and wanted %d of %d", m.Through, m.Time,
			want.lsn, want.time)
	}
	to.open()
	to.verify(a.names)
	if err := to.s.Close(true); err != nil {
		a.t.Fatal(err)
	}
}

// TestPointInTime: a store is written, archives its log, is backed up, crashes and starts again.
// Any position of its log and any millisecond since a backup can be restored. The result is the
// store's content at that moment.
func TestPointInTime(t *testing.T) {
	rounds, points := 4, 6
	if os.Getenv("KEYP_LONG") != "" {
		rounds, points = 10, 20
	}
	for seed := range rounds {
		a := newArchived(t, uint64(seed))
		for range 400 {
			a.step()
		}
		a.commit()
		if err := a.s.Close(a.rng.IntN(2) == 0); err != nil { // archives the rest
			t.Fatal(err)
		}
		last := a.points[len(a.points)-1]
		a.restore(a.backups[0], Source{}, point{model: last.model, time: a.clock.Now()})
		for range points {
			at := a.rng.IntN(len(a.points))
			want := a.points[at]
			var before []kept
			for _, b := range a.backups {
				if b.lsn <= want.lsn && b.time <= want.time {
					before = append(before, b)
				}
			}
			if len(before) == 0 {
				continue // it is older than the first backup
			}
			b := before[a.rng.IntN(len(before))]
			if a.rng.IntN(2) == 0 {
				a.restore(b, Source{LSN: want.lsn}, want)
				continue
			}
			for at+1 < len(a.points) && a.points[at+1].time == want.time {
				// The restore includes all writes of that millisecond.
				at++
			}
			want = a.points[at]
			if want.time > a.points[0].time && at+1 < len(a.points) {
				a.restore(b, Source{Time: want.time}, want)
			}
		}
	}
}

// TestArchiveBesideClockSteps: a store with an archive keeps working when the clock is set back and
// when a step forward is confirmed. It also works when it starts with a clock behind its log. The
// archive has no gaps.
func TestArchiveBesideClockSteps(t *testing.T) {
	a := &archived{faulty: changing(closedHarness(t)), rng: rand.New(rand.NewPCG(setup.Seed, 300))}
	a.archive, a.jumpLimit, a.jumpPatience = Archive{Dir: "/archive"}, 10*time.Minute, time.Hour
	a.open()
	for a.s.Log().End() < 5000 {
		a.write()
	}
	a.backUp()
	some := func() {
		for range 10 {
			a.write()
		}
		a.commit()
	}
	a.clock.Set(a.clock.Now() + 24*hour)
	a.s.Manual().KeepClock()
	some()
	if err := a.s.ConfirmClock(); err != nil {
		t.Fatal(err)
	}
	some()
	a.clock.Set(a.clock.Now() - 5000)
	a.s.Manual().AwaitClock()
	some()
	a.clock.Set(a.clock.Now() - hour)
	a.reopen()
	a.s.Manual().AwaitClock()
	some()
	end := a.s.Log().End()
	if err := a.s.Close(true); err != nil {
		t.Fatal(err)
	}
	to := restored(t, a.faulty)
	to.fs = a.fs
	m, err := RestoreTo(t.Context(), to.options(), bytes.NewReader(a.backups[0].stream),
		Source{Archives: []archive.Files{archive.Dir(a.fs, "/archive")}})
	if err != nil || m.Through < end {
		t.Fatalf("LSN %d of %d is restored: %v", m.Through, end, err)
	}
}

// TestArchiveRefused: an archive is refused if it has a gap or ends before the wanted moment. It is
// also refused if it belongs to another log, or to a copy of the log that went on by itself.
func TestArchiveRefused(t *testing.T) {
	a := newArchived(t, 100)
	for range 200 {
		a.write()
		a.clock.Advance(time.Millisecond)
	}
	a.commit()
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	copied := a.copyDir()
	for range 100 {
		a.write()
		a.clock.Advance(time.Millisecond)
	}
	a.backUp()
	first, late := a.backups[0], a.backups[1]
	if err := a.s.Close(true); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, b kept, from Source, want error, words string) {
		t.Helper()
		from.Archives = []archive.Files{archive.Dir(a.fs, "/archive")}
		_, err := RestoreTo(t.Context(), (&harness{t: t, dir: t.TempDir(), fs: a.fs, clock: a.clock,
			databases: 3}).options(), bytes.NewReader(b.stream), from)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("an earlier LSN", late, Source{LSN: late.lsn - 1}, ErrMoment,
		"an earlier one is needed")
	refused("an earlier time", late, Source{Time: late.time - 1}, ErrMoment,
		"an earlier one is needed")
	refused("a later LSN", first, Source{LSN: 1 << 40}, ErrMoment, "the archive ends with LSN")
	refused("a later time", first, Source{Time: a.clock.Now() + 1}, ErrMoment,
		"the archive ends with LSN")
	names, err := a.fs.List("/archive")
	if err != nil || len(names) < 5 {
		t.Fatalf("the archive has %d files, %v", len(names), err)
	}
	middle := filepath.Join("/archive", names[len(names)/2])
	if err := a.fs.Rename(middle, "/archive/aside"); err != nil {
		t.Fatal(err)
	}
	refused("a file is missing", first, Source{}, archive.ErrHole, "begins at LSN")
	if err := a.fs.Rename("/archive/aside", middle); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < 10; at++ {
		a.flip(middle, at)
		if _, err := RestoreTo(t.Context(),
			(&harness{t: t, dir: t.TempDir(), fs: a.fs, clock: a.clock, databases: 3}).options(),
			bytes.NewReader(first.stream),
			Source{Archives: []archive.Files{archive.Dir(a.fs, "/archive")}}); err == nil {
			t.Errorf("byte %d of ten is another one, and it is restored", at)
		}
		a.flip(middle, at)
	}
	a.restore(first, Source{}, point{model: a.model, time: a.clock.Now()})

	// A copy of the directory is used independently.
	other := &archived{faulty: changing(&harness{t: t, dir: copied, fs: a.fs, clock: a.clock,
		model: model{}, databases: 3}), rng: a.rng}
	other.archive = a.archive
	other.open()
	for range 50 {
		other.write()
	}
	other.commit()
	if err := other.s.archiver.Round(true); !errors.Is(err, archive.ErrBad) ||
		!strings.Contains(err.Error(), "a copy of another directory") {
		t.Errorf("the copy's log is archived: %v", err)
	}
	if st, ok := other.s.archiveStatus(); !ok || st.Failures == 0 || st.Err == nil {
		t.Errorf("its archive is %+v", st)
	}
	forked := kept{lsn: other.s.Log().End(), stream: other.backup()}
	refused("a backup of the copy", forked, Source{}, archive.ErrHole, "another copy")
	other.saved() // the log of the data file has nothing more
	refused("a backup of the copy, after a checkpoint", kept{lsn: other.s.Log().End(),
		stream: other.backup()}, Source{}, archive.ErrHole, "another copy")
	refused("a backup without its part of the log", kept{stream: withoutLog(t, other.backup())},
		Source{}, errUnproven, "another backup is needed")
	if err := other.s.Close(false); err != nil {
		t.Fatal(err)
	}
	stranger := newArchived(t, 101)
	strange := stranger.backups[0]
	if err := stranger.s.Close(true); err != nil {
		t.Fatal(err)
	}
	refused("another log's backup", strange, Source{}, archive.ErrHole, "has nothing of history")
}

// TestArchiveOfOtherCopy: two copies of a directory are used, and each logs another batch up to the
// same LSN. A backup of one of them is refused with the archive of the other one. If the archive
// has only what is later than the backup, nothing proves of which copy it is.
func TestArchiveOfOtherCopy(t *testing.T) {
	a := newArchived(t, 102)
	a.commit()
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	other := &archived{faulty: changing(&harness{t: t, dir: a.copyDir(), fs: a.fs, clock: a.clock,
		model: model{}, databases: 3}), rng: a.rng}
	other.archive = a.archive
	other.open()
	set := func(h *harness, v string) (end uint64) {
		k := h.s.Key(0, []byte("k"))
		h.do(func(x *Txn) { x.SetString(k, []byte(v), ttl.Deadline{}, Event{}) }, k)
		h.commit()
		return h.s.Log().End()
	}
	if one, two := set(a.harness, "one"), set(other.harness, "two"); one != two {
		t.Fatalf("the logs end at %d and %d", one, two)
	}
	own := a.backup() // its last batch has the time, and so differs from the other copy's
	a.clock.Advance(time.Millisecond)
	foreign := other.backup()
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	set(a.harness, "later")
	if err := errors.Join(a.s.Close(true), other.s.Close(false)); err != nil {
		t.Fatal(err)
	}
	restore := func(stream []byte) (Moment, error) {
		return RestoreTo(t.Context(), (&harness{t: t, dir: t.TempDir(), fs: a.fs, clock: a.clock,
			databases: 3}).options(), bytes.NewReader(stream),
			Source{Archives: []archive.Files{archive.Dir(a.fs, "/archive")}})
	}
	proven, err := restore(own)
	if err != nil || proven.Unproven || proven.Through == proven.Backup.Through {
		t.Errorf("%+v, %v", proven, err)
	}
	if _, err := restore(foreign); !errors.Is(err, archive.ErrHole) ||
		!strings.Contains(err.Error(), "another copy") {
		t.Errorf("the backup of the other copy: %v", err)
	}
	names, err := a.fs.List("/archive")
	if err != nil || len(names) < 2 {
		t.Fatalf("the archive has %q, %v", names, err)
	}
	for _, name := range names[:len(names)-1] {
		if err := a.fs.Remove("/archive/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := restore(own); err != nil || !m.Unproven || m.Through != proven.Through {
		t.Errorf("the archive begins where the backup ends: %+v, %v", m, err)
	}
}

// TestArchivesOfTwoCopies: two copies of a directory go on apart after a backup, each with an
// archive. Up to the place where they part both archives can be given; after it that is refused.
func TestArchivesOfTwoCopies(t *testing.T) {
	a := newArchived(t, 103)
	a.commit()
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	stream := a.backup()
	end := a.s.Log().End()
	other := &archived{faulty: changing(&harness{t: t, dir: a.copyDir(), fs: a.fs, clock: a.clock,
		model: model{}, databases: 3}), rng: a.rng}
	other.archive = Archive{Dir: "/other"}
	other.open()
	for h, v := range map[*harness]string{a.harness: "one", other.harness: "two"} {
		k := h.s.Key(0, []byte("k"))
		h.do(func(x *Txn) { x.SetString(k, []byte(v), ttl.Deadline{}, Event{}) }, k)
		h.commit()
		if err := h.s.Close(true); err != nil {
			t.Fatal(err)
		}
	}
	for _, dirs := range [][]string{{"/archive", "/other"}, {"/other", "/archive"}} {
		for to, words := range map[uint64]string{0: "two copies", end: "", end + 1: "two copies"} {
			from := Source{LSN: to}
			for _, dir := range dirs {
				from.Archives = append(from.Archives, archive.Dir(a.fs, dir))
			}
			m, err := RestoreTo(t.Context(), (&harness{t: t, dir: t.TempDir(), fs: a.fs,
				clock: a.clock, databases: 3}).options(), bytes.NewReader(stream), from)
			if words == "" && (err != nil || m.Through != end) ||
				words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
				t.Errorf("%v, to LSN %d: %+v, %v", dirs, to, m, err)
			}
		}
	}
}

// withoutLog removes the records from a backup, since a backup on a full disk may have none.
func withoutLog(t *testing.T, stream []byte) []byte {
	t.Helper()
	from, err := snapshotfile.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to, err := snapshotfile.NewWriter(&out, from.Header)
	for err == nil {
		var p snapshotfile.Part
		if p, err = from.Next(); err == nil && !p.Record {
			err = to.Piece(int64(p.At), p.Bytes)
		}
	}
	if err = errors.Join(err, to.End()); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return out.Bytes()
}

// copyDir copies the directory's files as they are, except for the archive.
func (a *archived) copyDir() (dir string) {
	a.t.Helper()
	dir = a.t.TempDir()
	b, err := os.ReadFile(filepath.Join(a.dir, format.DataName))
	log := filepath.Join(dir, format.LogDir)
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, format.DataName), b, 0o600),
		a.fs.MkdirAll(log),
		copyFiles(a.fs, filepath.Join(a.dir, format.LogDir), a.fs, log))
	if err == nil {
		b, err = readFile(a.fs, filepath.Join(a.dir, "archive.json"))
	}
	if err == nil {
		err = writeFile(a.fs, filepath.Join(dir, "archive.json"), b)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return dir
}

// copyFiles copies all files of a directory.
func copyFiles(from vfs.FS, dir string, to vfs.FS, toDir string) error {
	names, err := from.List(dir)
	for _, name := range names {
		var b []byte
		if err == nil {
			b, err = readFile(from, filepath.Join(dir, name))
		}
		if err == nil {
			err = writeFile(to, filepath.Join(toDir, name), b)
		}
	}
	return err
}

func readFile(fs vfs.FS, path string) (b []byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	b = make([]byte, size)
	if err == nil && size > 0 {
		_, err = f.ReadAt(b, 0)
	}
	return b, errors.Join(err, f.Close())
}

func writeFile(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// flip changes a bit of a file at the given number of tenths of its length.
func (a *archived) flip(path string, tenths int) {
	a.t.Helper()
	b, err := readFile(a.fs, path)
	if err == nil {
		b[len(b)*tenths/10] ^= 4
		err = writeFile(a.fs, path, b)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// TestArchiveKeepsTheLog: while archiving fails, the log keeps all segments, over checkpoints and
// restarts, until the disk is nearly full.
func TestArchiveKeepsTheLog(t *testing.T) {
	a := newArchived(t, 200)
	fails := true
	a.archive = Archive{Run: nil, Dir: "/archive", FileSize: 2000}
	a.onLog = func(op vfs.Op, path string, _ int64, _ int) error {
		if fails && op == vfs.OpCreate && strings.HasPrefix(path, "/archive/") {
			return errNoArchive
		}
		return nil
	}
	a.reopen()
	for range 5 {
		for range 40 {
			a.write()
			a.clock.Advance(time.Millisecond)
		}
		a.saved()
		if err := a.s.archiver.Round(true); !errors.Is(err, errNoArchive) {
			t.Fatalf("the archive is broken, and Round returns %v", err)
		}
		a.saved()
		a.reopen()
	}
	if held := a.s.log.(*wal.Log).Held(); held == 0 {
		t.Errorf("nothing of the log is held")
	}
	fails = false
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	a.restore(a.backups[0], Source{}, point{model: a.model, time: a.clock.Now()})
	a.saved()
	if held := a.s.log.(*wal.Log).Held(); held > 64<<10 {
		t.Errorf("%d bytes of the log are held, and all is archived", held)
	}
	fails = true
	for range 3 {
		for range 40 {
			a.write()
		}
		a.saved()
		_ = a.s.archiver.Round(true)
	}
	a.fs.SetFree(10 << 20)
	a.s.SetDiskReserve(20 << 20)
	a.s.house.round()
	if held := a.s.log.(*wal.Log).Held(); held != 0 {
		t.Errorf("the disk is nearly full, and %d bytes of the log are held", held)
	}
	a.s.SetDiskReserve(1)
	fails = false
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	if st, _ := a.s.archiveStatus(); st.Holes != 1 {
		t.Errorf("the archive is %+v, and must have a hole", st)
	}
	if err := a.s.Close(true); err != nil {
		t.Fatal(err)
	}
	_, err := RestoreTo(t.Context(),
		(&harness{t: t, dir: t.TempDir(), fs: a.fs, clock: a.clock, databases: 3}).options(),
		bytes.NewReader(a.backups[0].stream),
		Source{Archives: []archive.Files{archive.Dir(a.fs, "/archive")}})
	if !errors.Is(err, archive.ErrHole) {
		t.Errorf("over a hole: %v", err)
	}
}

// restart opens the store again without a checkpoint.
func (a *archived) restart() {
	a.t.Helper()
	if err := a.s.Close(false); err != nil {
		a.t.Fatal(err)
	}
	a.open()
}

// writeMany writes twenty times, with 5 ms between the writes.
func (a *archived) writeMany() {
	a.t.Helper()
	for range 20 {
		a.clock.Advance(5 * time.Millisecond)
		a.write()
	}
	a.commit()
}

// TestWithoutArchive: a server that runs without its archive records no times in its log. A restore
// to a time within that part of the log is refused. Positions in it can be restored, and so can
// times before and after it.
func TestWithoutArchive(t *testing.T) {
	a := newArchived(t, 400)
	with := a.archive
	a.writeMany()
	before := a.points[len(a.points)-1]
	a.archive = Archive{}
	a.restart()
	a.writeMany()
	a.restart()
	a.writeMany()
	amid := a.points[len(a.points)-10]
	a.archive = with
	a.restart()
	a.writeMany()
	after := a.points[len(a.points)-10]
	if err := a.s.Close(false); err != nil {
		t.Fatal(err)
	}
	b := a.backups[0]
	for _, want := range []point{before, amid, after} {
		a.restore(b, Source{LSN: want.lsn}, want)
	}
	earlier := before
	earlier.time-- // since then is what the restore cannot tell from what comes behind it
	for _, p := range a.points {
		if p.time <= earlier.time {
			earlier.model, earlier.lsn = p.model, p.lsn
		}
	}
	a.restore(b, Source{Time: earlier.time}, earlier)
	a.restore(b, Source{Time: after.time}, after)
	for _, at := range []int64{amid.time, before.time + 1} {
		o := (&harness{t: t, dir: t.TempDir(), fs: a.fs, clock: a.clock, databases: 3}).options()
		m, err := RestoreTo(t.Context(), o, bytes.NewReader(b.stream),
			Source{Archives: []archive.Files{archive.Dir(a.fs, "/archive")}, Time: at})
		if !errors.Is(err, ErrMoment) || !strings.Contains(err.Error(), "ran without its archive") {
			t.Errorf("%d, amid that: %+v, %v", at, m, err)
		}
	}
}

// TestArchiveBegins: the part of the log from before the archive was configured has no times.
func TestArchiveBegins(t *testing.T) {
	a := &archived{faulty: changing(closedHarness(t)), rng: rand.New(rand.NewPCG(setup.Seed, 500))}
	a.open()
	for range 20 {
		a.write()
	}
	a.backUp()
	a.writeMany()
	amid := a.points[len(a.points)-10]
	a.archive = Archive{Dir: "/archive"}
	a.restart()
	a.writeMany()
	last := a.points[len(a.points)-1]
	if err := a.s.Close(false); err != nil {
		t.Fatal(err)
	}
	a.restore(a.backups[0], Source{LSN: amid.lsn}, amid)
	a.restore(a.backups[0], Source{Time: last.time}, last)
	o := (&harness{t: t, dir: t.TempDir(), fs: a.fs, clock: a.clock, databases: 3}).options()
	if m, err := RestoreTo(t.Context(), o, bytes.NewReader(a.backups[0].stream),
		Source{Archives: []archive.Files{archive.Dir(a.fs, "/archive")},
			Time: amid.time}); !errors.Is(err, ErrMoment) {
		t.Errorf("before the archive: %+v, %v", m, err)
	}
}

// TestToolKeepsTheLog: a tool that changes a directory between two runs of the server makes no hole
// in the archive.
func TestToolKeepsTheLog(t *testing.T) {
	a := newArchived(t, 600)
	with, fails := a.archive, true
	a.onLog = func(op vfs.Op, path string, _ int64, _ int) error {
		if fails && op == vfs.OpCreate && strings.HasPrefix(path, "/archive/") {
			return errNoArchive
		}
		return nil
	}
	a.reopen()
	for _, archive := range []Archive{with, {Keep: true}, {Keep: true}, with} {
		a.archive = archive
		a.reopen()
		for range 40 {
			a.clock.Advance(time.Millisecond)
			a.write()
		}
		a.saved()
	}
	fails = false
	if err := a.s.archiver.Round(true); err != nil {
		t.Fatal(err)
	}
	if st, _ := a.s.archiveStatus(); st.Holes != 0 {
		t.Errorf("the archive is %+v", st)
	}
	if err := a.s.Close(false); err != nil {
		t.Fatal(err)
	}
	for n := len(a.points) - 1; n > 40; n -= 25 {
		a.restore(a.backups[0], Source{Time: a.points[n].time}, a.points[n])
	}
}

// TestArchiveInTheData: an archive inside the data directory is refused, even if only a symbolic
// link leads there.
func TestArchiveInTheData(t *testing.T) {
	h := newHarness(t)
	h.reopen()
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(h.dir, format.LogDir, ".."), link); err != nil {
		t.Fatal(err)
	}
	for dir, in := range map[string]bool{
		h.dir: true, h.dir + "/archive": true, h.dir + "/a/b/c": true, link: true,
		link + "/x/y": true, h.dir + "/../other": false, h.dir + "2": false,
	} {
		if isWithin(dir, h.dir) != in {
			t.Errorf("%s counts as in the data: %t", dir, !in)
		}
	}
	missing := filepath.Join(h.dir, "missing")
	for dir, in := range map[string]bool{missing: true, missing + "/archive": true,
		missing + "2": false, h.dir: false} {
		if got := CheckArchive(dir, missing) != nil; got != in {
			t.Errorf("%s counts as in %s: %t", dir, missing, got)
		}
	}
	h.archive = Archive{Dir: h.dir + "/archive"}
	if err := h.tryOpen(); err == nil ||
		!strings.Contains(err.Error(), "is the directory of the data, or in it") {
		t.Errorf("it opens with %v", err)
	}
}
