package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage/backupfile"
	"keyp/storage/wal"
)

// made returns an archive file with the given batches.
func made(t testing.TB, h Header, batches ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newWriter(&b, h)
	lsn := h.From
	for _, batch := range batches {
		if lsn += uint64(len(batch)) + 8; err == nil {
			err = w.batch(lsn, []byte(batch))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.end(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll returns the batches of a file.
func readAll(file []byte) (batches []string, r *Reader, err error) {
	if r, err = NewReader(bytes.NewReader(file)); err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		_, batch, err := r.Next()
		if err == io.EOF {
			return batches, r, nil
		}
		if err != nil {
			return nil, nil, err
		}
		batches = append(batches, string(batch))
	}
}

// TestFile: reading a file returns the batches written, and its checksum continues that of the file
// before it.
func TestFile(t *testing.T) {
	want := []string{"one", "", strings.Repeat("long", 1<<20), "four"}
	h := Header{Format: Format, History: "h", From: 4096, Previous: "before",
		Untimed: []Span{{5000, 6000}}}
	got, r, err := readAll(made(t, h, want...))
	if err != nil || !slices.Equal(got, want) || !reflect.DeepEqual(r.Header, h) ||
		r.Last() <= 4096 {
		t.Fatalf("%d batches of %+v come back, %v", len(got), r.Header, err)
	}
	h.Previous = "other"
	if _, other, err := readAll(made(t, h, want...)); err != nil || other.Sum() == r.Sum() {
		t.Errorf("the sum does not depend on what was before: %v", err)
	}
	if _, other, err := readAll(made(t, r.Header, want[:3]...)); err != nil ||
		other.Sum() == r.Sum() {
		t.Errorf("the sum does not depend on the last batch: %v", err)
	}
}

// TestFileDamaged: a file that is cut anywhere, or has any byte changed, is refused.
func TestFileDamaged(t *testing.T) {
	file := made(t, Header{Format: Format, History: "h", From: 4096}, "one", "two", "three")
	for at := range file {
		b := bytes.Clone(file)
		b[at] ^= 1 << (at % 8)
		for what, b := range map[string][]byte{"another byte": b, "cut": file[:at]} {
			if _, _, err := readAll(b); !errors.Is(err, backupfile.ErrBad) &&
				!errors.Is(err, ErrBad) {
				t.Fatalf("%s at %d: %v", what, at, err)
			}
		}
	}
}

// packed returns a file with the given bytes as its content, valid or not.
func packed(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := backupfile.NewWriter(&b)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFileHostile: a length stated in a file allocates no memory by itself, and impossible values
// are refused.
func TestFileHostile(t *testing.T) {
	head := func(text string) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	good := head(`{"format":1,"history":"h","from":10}`)
	for what, b := range map[string][]byte{
		"nothing":        {},
		"a long header":  binary.LittleEndian.AppendUint32(nil, 1<<31),
		"no JSON":        head("{"),
		"another format": head(`{"format":2}`),
		"a huge batch": binary.AppendUvarint(binary.AppendUvarint(bytes.Clone(good), 1<<62),
			1<<61),
		"no step": binary.AppendUvarint(binary.AppendUvarint(bytes.Clone(good), 0), 0),
		"a step over the end": binary.AppendUvarint(binary.AppendUvarint(bytes.Clone(good),
			1<<64-1), 0),
		"a batch without room": append(binary.AppendUvarint(binary.AppendUvarint(bytes.Clone(good),
			2), 3), "abc"...),
		"a cut length": append(bytes.Clone(good), 0x80),
	} {
		if _, _, err := readAll(packed(t, b)); !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// log is a write-ahead log with an archive.
type log struct {
	t   *testing.T
	fs  *vfs.Mem
	log *wal.Log
	a   *Archiver
	now *clock.Fake
	run func(path string) error
	n   int
	// broken is the error that making the archive's directory returns.
	broken error
	// onFile is called before a file of the archive is made.
	onFile    func()
	logged    strings.Builder
	directory string
}

// archived wraps a log as Options needs it.
type archived struct{ *wal.Log }

func (l archived) KeepFrom(position uint64) Kept { return l.HoldFrom(position) }

func newLog(t *testing.T) *log {
	l := &log{t: t, fs: vfs.NewMem(), now: clock.NewFake(1_700_000_000_000)}
	l.open()
	return l
}

func (l *log) open() {
	l.t.Helper()
	state, err := ReadState(l.fs, "/data")
	if err == nil {
		err = l.fs.MkdirAll("/data")
	}
	if err == nil {
		l.log, err = wal.Open(wal.Options{FS: l.fs, Dir: "/data/wal", Clock: l.now,
			SegmentSize: 64 << 10, NoBackground: true, KeepFrom: state.Through,
			Logger: slog.New(slog.DiscardHandler)}, 0, nil)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	files := vfs.Inject(l.fs, func(op vfs.Op, path string, _ int64, _ int) error {
		if op == vfs.OpMkdir && path == "/archive" {
			return l.broken
		}
		if op == vfs.OpCreate && l.onFile != nil && strings.HasPrefix(path, "/archive/") {
			l.onFile()
		}
		return nil
	})
	o := Options{FS: files, Log: archived{l.log}, Timed: l.log.End(), Data: "/data",
		Dir: "/archive", Timeout: func() time.Duration { return time.Minute }, Clock: l.now,
		Logger: slog.New(slog.NewTextHandler(&l.logged, nil)), NoBackground: true, FileSize: 1000,
		Directory: l.directory}
	if l.run != nil {
		o.Dir, o.Run = "", func(_ context.Context, path string) error { return l.run(path) }
	}
	if l.a, err = Start(o); err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) write(n int) {
	l.t.Helper()
	for range n {
		l.n++
		l.log.Append(fmt.Append(nil, "batch ", l.n, strings.Repeat(".", 40)))
	}
	if err := l.log.Commit(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) round(now bool) {
	l.t.Helper()
	if err := l.a.Round(now); err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) close() {
	l.t.Helper()
	l.a.Close()
	if err := l.log.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// all returns the number of batches in a directory.
func (l *log) all(dir string) (n int) {
	l.t.Helper()
	c, err := Open(Dir(l.fs, dir), l.log.History(), 4096)
	if err != nil {
		l.t.Fatal(err)
	}
	for {
		_, batch, err := c.Next()
		if err == io.EOF {
			return n
		}
		if err != nil {
			l.t.Fatal(err)
		}
		if n++; !strings.HasPrefix(string(batch), fmt.Sprint("batch ", n, ".")) {
			l.t.Fatalf("batch %d is %q", n, batch)
		}
	}
}

// TestWhenFilesAreMade: a file is made when there is enough data for it, and after the timeout.
func TestWhenFilesAreMade(t *testing.T) {
	l := newLog(t)
	l.write(3)
	l.round(false)
	l.now.Advance(59 * time.Second)
	l.round(false)
	if got := l.a.Status(); got.Files != 0 {
		t.Errorf("before the timeout: %+v", got)
	}
	l.now.Advance(time.Second)
	l.round(false)
	if got := l.a.Status(); got.Files != 1 || l.all("/archive") != 3 ||
		got.Through != l.log.End() || got.Last != l.now.Now() {
		t.Errorf("after the timeout: %+v, and the log ends at %d", got, l.log.End())
	}
	l.write(100)
	l.round(false)
	if got := l.a.Status(); got.Files < 5 || l.all("/archive") >= 103 || l.all("/archive") < 80 {
		t.Errorf("with enough for some files: %+v, %d batches", got, l.all("/archive"))
	}
	l.round(true)
	if got := l.all("/archive"); got != 103 {
		t.Errorf("in the end there are %d batches", got)
	}
	l.close()
}

// TestNotSyncedIsNotArchived: a power failure can take back data that is written but not synced, so
// such data is not archived.
func TestNotSyncedIsNotArchived(t *testing.T) {
	l := newLog(t)
	l.write(2)
	l.log.SetPolicy(wal.No)
	l.write(5)
	l.round(true)
	if got := l.all("/archive"); got != 2 {
		t.Errorf("%d batches are archived, and two are synced", got)
	}
	l.close()
	if got := l.all("/archive"); got > 7 {
		t.Errorf("%d batches are archived", got)
	}
}

// TestCommand: the command is run for a file until it succeeds. After a restart it gets the same
// file again.
func TestCommand(t *testing.T) {
	l := newLog(t)
	l.close()
	var seen []string
	fails := errors.New("the command fails")
	result := fails
	l.run = func(path string) error {
		seen = append(seen, path)
		if result == nil {
			b, err := readFile(l.fs, path)
			if err != nil {
				return err
			}
			f, err := l.fs.Create(filepath.Join("/taken", filepath.Base(path)))
			if err == nil {
				_, err = f.WriteAt(b, 0)
			}
			return err
		}
		return result
	}
	if err := l.fs.MkdirAll("/taken"); err != nil {
		t.Fatal(err)
	}
	l.open()
	l.write(3)
	for range 2 {
		if err := l.a.Round(true); !errors.Is(err, fails) {
			t.Fatalf("Round returns %v", err)
		}
		l.write(1) // and the file that is there stays as it is
	}
	if got := l.a.Status(); got.Failures != 2 || got.Err == nil || got.Files != 0 {
		t.Errorf("the archive is %+v", got)
	}
	l.close()
	l.open()
	result = nil
	l.round(true)
	if len(seen) != 5 || seen[0] != seen[1] || seen[0] != seen[3] || l.all("/taken") != 5 {
		t.Errorf("%d batches were taken, by the commands for %q", l.all("/taken"), seen)
	}
	if left, err := l.fs.List("/data/archive"); err != nil || len(left) != 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	l.close()
}

// TestNoDirectory: if the archive's directory cannot be made, the log still works. Archiving begins
// when the directory can be made.
func TestNoDirectory(t *testing.T) {
	l := &log{t: t, fs: vfs.NewMem(), now: clock.NewFake(1_700_000_000_000),
		broken: errors.New("no directory")}
	l.open()
	l.write(3)
	if err := l.a.Round(true); !errors.Is(err, l.broken) || !errors.Is(l.a.Status().Err, l.broken) {
		t.Errorf("Round returns %v", err)
	}
	l.broken = nil
	l.round(true)
	if got := l.all("/archive"); got != 3 || l.a.Status().Err != nil {
		t.Errorf("%d batches are archived: %+v", got, l.a.Status())
	}
	l.close()
}

// TestSecondCopy: a copy of the store that has run without the archive does not write into the
// archive.
func TestSecondCopy(t *testing.T) {
	l := newLog(t)
	l.write(3)
	l.round(true)
	old := l.a.round.State
	l.write(30)
	l.round(true)
	l.a.round.State = old
	l.a.kept.LetGo()
	first, err := l.log.Rotate(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.write(1)
	if err := l.log.Release(first); err != nil {
		t.Fatal(err)
	}
	files, err := l.fs.List("/archive")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.a.Round(true); !errors.Is(err, ErrBad) {
		t.Errorf("Round returns %v", err)
	}
	if now, err := l.fs.List("/archive"); err != nil || !slices.Equal(now, files) {
		t.Errorf("the archive has %q, and had %q", now, files)
	}
	l.close()
}

// TestOtherMember: two members of a group have the same log. One of them does not take the other
// one's file for its own, although it would make the same one.
func TestOtherMember(t *testing.T) {
	l := newLog(t)
	l.a.o.Member = "one"
	begin := l.a.round.State
	l.write(3)
	l.round(true)
	l.a.round.State = begin
	l.round(true) // it finds its file
	files, err := l.fs.List("/archive")
	if err != nil || len(files) != 1 {
		t.Fatalf("the archive has %q, %v", files, err)
	}
	l.a.round.State, l.a.o.Member = begin, "two"
	if err := l.a.Round(true); !errors.Is(err, ErrBad) ||
		!strings.Contains(err.Error(), "another member") {
		t.Errorf("Round returns %v", err)
	}
	if now, err := l.fs.List("/archive"); err != nil || !slices.Equal(now, files) {
		t.Errorf("the archive has %q, and had %q", now, files)
	}
	l.close()
}

// TestGiveUp: while a command does not end, the log keeps segments for it, and these can be given
// up. The archive then has a hole and continues after it.
func TestGiveUp(t *testing.T) {
	l := newLog(t)
	l.close()
	begun, goOn := make(chan bool), make(chan bool)
	l.run = func(string) error {
		begun <- true
		<-goOn
		return nil
	}
	l.open()
	l.write(3)
	rounds := make(chan error)
	go func() { rounds <- l.a.Round(true) }()
	await.For(t, "the command runs", begun)
	for range 3 { // segments that no recovery needs
		first, err := l.log.Rotate(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.write(3)
		if err := l.log.Release(first); err != nil {
			t.Fatal(err)
		}
	}
	if l.log.Held() == 0 {
		t.Error("nothing is held")
	}
	l.a.GiveUp()
	if held := l.log.Held(); held != 0 {
		t.Errorf("%d bytes are held still", held)
	}
	for more := true; more; {
		select {
		case <-begun:
		case goOn <- true:
		case err := <-rounds:
			if more = false; err != nil {
				t.Error(err)
			}
		case <-t.Context().Done():
			t.Fatal("the round does not end")
		}
	}
	if got := l.a.Status(); got.Holes != 1 || got.Through != l.log.End() {
		t.Errorf("the archive is %+v, and the log ends at %d", got, l.log.End())
	}
	go func() {
		for range begun {
			goOn <- true
		}
	}()
	l.close()
	close(begun)
}

// TestCloseIsBounded: a stop archives for some seconds at most. The next start archives the rest.
func TestCloseIsBounded(t *testing.T) {
	l := newLog(t)
	l.write(100)
	files := 0
	l.onFile = func() {
		if files++; files == 3 { // in the goroutine of Close
			l.now.Advance(closePatience)
			await.For(t, "the patience ends", l.a.ctx.Done())
		}
	}
	l.close()
	l.onFile = nil
	if got := l.a.Status(); got.Files != 2 || !errors.Is(got.Err, errLate) ||
		l.all("/archive") == 100 {
		t.Errorf("the archive is %+v", got)
	}
	l.open()
	l.round(true)
	if got := l.a.Status(); got.Holes != 0 || l.all("/archive") != 100 {
		t.Errorf("the archive is %+v, and has %d batches", got, l.all("/archive"))
	}
	l.close()
}

// TestCommandHangs: the status says for how long the current command has been running, and that it
// takes too long.
func TestCommandHangs(t *testing.T) {
	l := newLog(t)
	l.close()
	var amid []Status
	l.run = func(string) error {
		for range 2 {
			l.now.Advance(RunLimit - time.Second)
			amid = append(amid, l.a.Status())
		}
		return nil
	}
	l.open()
	l.write(1)
	l.round(true)
	if len(amid) != 2 || amid[0].Runs != RunLimit-time.Second || amid[0].Err != nil ||
		!errors.Is(amid[1].Err, errHangs) {
		t.Errorf("while the command runs: %+v", amid)
	}
	if got := l.a.Status(); got.Runs != 0 || got.Err != nil || got.Files != 1 {
		t.Errorf("afterwards: %+v", got)
	}
	l.close()
}

// TestErrorsAreLoggedSeldom: an error is logged when it begins, and then at most once a minute if
// it changes. Its end is logged, too.
func TestErrorsAreLoggedSeldom(t *testing.T) {
	l := newLog(t)
	l.close()
	n, works := 0, false
	l.run = func(string) error {
		if n++; works {
			return nil
		}
		return fmt.Errorf("attempt %d fails", n)
	}
	l.open()
	l.write(1)
	logged := func(want int, text string) {
		t.Helper()
		if got := strings.Count(l.logged.String(), text); got != want {
			t.Errorf("%q is logged %d times, want %d", text, got, want)
		}
	}
	for range 10 {
		_ = l.a.Round(true)
	}
	logged(1, "the log is not archived")
	l.now.Advance(logInterval)
	for range 10 {
		_ = l.a.Round(true)
	}
	logged(2, "the log is not archived")
	works = true
	l.round(true)
	l.round(true)
	logged(1, "the log is archived again")
	l.close()
}

// TestCopyIsNoticed: the first start of a copied directory reports that the directory is a copy.
func TestCopyIsNoticed(t *testing.T) {
	l := newLog(t)
	for n, start := range []struct {
		directory string
		warned    int
	}{{"1", 0}, {"1", 0}, {"", 0}, {"1", 0}, {"2", 1}, {"2", 1}, {"1", 2}} {
		l.close()
		l.directory = start.directory
		l.open()
		l.write(1)
		l.round(true)
		if got := strings.Count(l.logged.String(), "was copied"); got != start.warned {
			t.Errorf("start %d: the log says %d times that it is a copy, want %d", n,
				got, start.warned)
		}
	}
	l.close()
}

// TestPauses: the pauses after errors get longer, up to a bound. After a success the pause is the
// usual one.
func TestPauses(t *testing.T) {
	var got []int64
	for pause := int64(0); len(got) < 7; {
		pause = pauseAfter(errLate, pause)
		got = append(got, pause)
	}
	if want := []int64{500, 1000, 2000, 4000, 8000, 10000, 10000}; !slices.Equal(got, want) ||
		pauseAfter(nil, 10000) != lookInterval {
		t.Errorf("the pauses are %v, want %v", got, want)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(made(f, Header{Format: Format, History: "h", From: 4096}, "one", "two"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := readAll(b); err != nil && !errors.Is(err, ErrBad) &&
			!errors.Is(err, backupfile.ErrBad) {
			t.Error(err)
		}
	})
}
