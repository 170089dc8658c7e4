package datafile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/storage/snapshotfile"
)

const space = 1

var (
	seed  = format.Seed{3, 4}
	state = format.State{Shards: 1, NextSpace: 2, Spaces: []uint32{space}}
)

func options(t *testing.T) Options {
	return Options{Dir: t.TempDir(), FS: vfs.OS, InitialMmap: 64 << 20,
		Logger: slog.New(slog.DiscardHandler),
		Fail:   func(err error) { t.Errorf("the file fails: %v", err) }}
}

// newFile makes and opens a data file.
func newFile(t *testing.T, o Options) *File {
	t.Helper()
	f := New(o)
	if exists, err := f.Tidy(); exists || err != nil {
		t.Fatalf("there is a file: %t, %v", exists, err)
	}
	if err := f.Make(seed, state); err != nil {
		t.Fatal(err)
	}
	if m, err := f.Open(); err != nil || m.Seed != seed || m.Doubtful ||
		m.State.NextSpace != state.NextSpace {
		t.Fatalf("%+v, %v", m, err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func keyOf(i int) format.Key {
	name := fmt.Appendf(nil, "key%05d", i)
	return format.Key{Slot: uint16(i % 7), Hash: uint64(i) << 40, Name: name}
}

func image(i int, value string) (at []byte, im format.Image) {
	k := keyOf(i)
	return format.DiskKey(nil, space, k), format.Image{Type: object.TypeString, Inline: true,
		Times: format.Times{Deadline: int64(i%3) * 1000, Created: 1}, Name: k.Name,
		Payload: []byte(value)}
}

// fillKeys writes the keys from first on, each with the same value, as a checkpoint does.
func fillKeys(t *testing.T, f *File, first, n int, value string) {
	t.Helper()
	err := f.Update(func(tx *bolt.Tx) error {
		slots := tx.Bucket(format.BucketSlots)
		for i := first; i < first+n; i++ {
			at, im := image(i, value)
			record := im.Append(nil, at)
			entry, _ := format.ParseSlot(at[:6], slots.Get(at[:6]))
			entry.Add(record)
			err := errors.Join(tx.Bucket(format.BucketValues).Put(at, record),
				slots.Put(at[:6], entry.Seal(at[:6])))
			if due := im.Due(); due != 0 {
				entry := format.TTLKey(nil, due, at)
				err = errors.Join(err, tx.Bucket(format.BucketTTL).Put(entry, im.Entry(entry)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holds fails the test unless the file is sound and has exactly n keys.
func holds(t *testing.T, f *File, n int) {
	t.Helper()
	if err := f.ProveTree(); err != nil {
		t.Fatal(err)
	}
	err := f.View(func(tx *bolt.Tx) error {
		spaces, errs := Verify(tx, nil)
		if len(errs) > 0 {
			return fmt.Errorf("%d errors: %w", len(errs), errs[0])
		}
		if got := spaces[space]; got == nil || len(got.Records) != n {
			return fmt.Errorf("there are not %d keys", n)
		}
		for i := range n {
			at, want := image(i, "")
			record, err := Find(tx, at, false)
			if err != nil || record == nil {
				return fmt.Errorf("key %d: %q, %w", i, record, err)
			}
			im, err := format.ParseImage(at, record)
			if err != nil || im.Times != want.Times || !bytes.Equal(im.Name, want.Name) {
				return fmt.Errorf("key %d: %+v, %w", i, im, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Written keys are there after a close, the removal of an interrupted writer's leftovers, and
// another start.
func TestFile(t *testing.T) {
	o := options(t)
	f := newFile(t, o)
	fillKeys(t, f, 0, 300, "value")
	holds(t, f, 300)
	if size, unused := f.Use(); size <= 0 || unused < 0 || unused > size {
		t.Errorf("%d bytes, %d unused", size, unused)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{NewName, CompactName, ReceivedName} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := New(o)
	if exists, err := again.Tidy(); !exists || err != nil {
		t.Fatalf("there is a file: %t, %v", exists, err)
	}
	if list, err := os.ReadDir(o.Dir); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
	if _, err := again.Open(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Secure(), again.Upgrade()); err != nil {
		t.Fatal(err)
	}
	holds(t, again, 300)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// A compaction makes the file shorter and keeps its content. An error of the caller ends the
// compaction, and the file stays as it is.
func TestCompact(t *testing.T) {
	f := newFile(t, options(t))
	fillKeys(t, f, 0, 3000, strings.Repeat("x", 1000))
	err := f.Update(func(tx *bolt.Tx) error {
		for i := 100; i < 3000; i++ {
			at, im := image(i, strings.Repeat("x", 1000))
			if err := tx.Bucket(format.BucketValues).Delete(at); err != nil {
				return err
			}
			if im.Deadline != 0 {
				err := tx.Bucket(format.BucketTTL).Delete(format.TTLKey(nil, im.Deadline, at))
				if err != nil {
					return err
				}
			}
		}
		for slot := range uint16(7) {
			at, entry := format.SlotKey(nil, space, slot), format.SlotEntry{}
			for i := range 100 {
				if place, im := image(i, strings.Repeat("x", 1000)); bytes.HasPrefix(place, at) {
					entry.Add(im.Append(nil, place))
				}
			}
			if err := tx.Bucket(format.BucketSlots).Put(at, entry.Seal(at)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := f.Use()
	enough := errors.New("enough")
	if _, err := f.Compact(func(Step) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the caller's error becomes %v", err)
	}
	if err := f.RemoveCopy(); err != nil {
		t.Fatal(err)
	}
	holds(t, f, 100)
	steps := map[Step]bool{}
	size, err := f.Compact(func(at Step) error { steps[at] = true; return nil })
	if err != nil || size >= before/2 || !steps[StepBatch] {
		t.Fatalf("from %d to %d bytes, steps %v, %v", before, size, steps, err)
	}
	if err := f.Replace(); err != nil {
		t.Fatal(err)
	}
	if after, _ := f.Use(); after != size {
		t.Errorf("the file has %d bytes, and the copy had %d", after, size)
	}
	holds(t, f, 100)
	fillKeys(t, f, 100, 50, "more")
	holds(t, f, 150)
}

// A copy that lacks an entry, or has a different one, never replaces the data file.
func TestCompactProves(t *testing.T) {
	change := func(b *bolt.Bucket, k, v []byte) error {
		other := bytes.Clone(v)
		other[len(other)-1] ^= 1
		return b.Put(k, other)
	}
	remove := func(b *bolt.Bucket, k, _ []byte) error { return b.Delete(k) }
	for _, name := range [][]byte{format.BucketValues, format.BucketTTL, format.BucketSlots} {
		for i, damage := range []func(b *bolt.Bucket, k, v []byte) error{change, remove} {
			f := newFile(t, options(t))
			fillKeys(t, f, 0, 50, "value")
			err := f.Update(func(tx *bolt.Tx) error {
				k, v := tx.Bucket(name).Cursor().First()
				return damage(tx.Bucket(name), k, v)
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Compact(func(Step) error { return nil }); !errors.Is(err,
				format.ErrCorrupt) {
				t.Errorf("%s, damage %d: %v", name, i, err)
			}
			err = f.View(func(tx *bolt.Tx) error {
				if _, errs := Verify(tx, nil); len(errs) == 0 {
					t.Errorf("%s, damage %d: Verify finds nothing", name, i)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A snapshot has the content of its moment, whatever is written meanwhile, and the receiver gets
// the same content.
func TestSnapshot(t *testing.T) {
	f := newFile(t, options(t))
	fillKeys(t, f, 0, 200, strings.Repeat("x", 100))
	sn, err := f.OpenSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	none := func() error { return nil }
	sn.Watch(Watch{Outgrown: none, LetGo: func() error { ends++; return nil }})
	fillKeys(t, f, 200, 200, strings.Repeat("y", 100))
	f.GiveUp()
	var stream bytes.Buffer
	err = sn.Send(t.Context(), &stream, func(w *snapshotfile.Writer) error {
		return w.Record(7, []byte("record"))
	})
	if err != nil || !f.AnySnapshot() {
		t.Fatal(err)
	}
	if err := sn.Close(); err != nil || ends != 1 || f.AnySnapshot() {
		t.Fatalf("%v, ended %d times", err, ends)
	}
	holds(t, f, 400)

	to := New(options(t))
	got := ""
	h, err := to.Receive(bytes.NewReader(stream.Bytes()), 9, false,
		func(at uint64, b []byte) error { got += fmt.Sprint(at, string(b)); return nil })
	if err != nil || got != "7record" || h.Keys != 0 || h.PageSize != format.PageSize {
		t.Fatalf("%q, %+v, %v", got, h, err)
	}
	m, err := to.Open()
	if err != nil || m.State.First != 9 || m.Seed != seed {
		t.Fatalf("%+v, %v", m, err)
	}
	holds(t, to, 200)
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}

	// Half a stream, and a stream with a changed byte, leave nothing in the directory.
	for name, b := range map[string][]byte{"half": stream.Bytes()[:stream.Len()/2],
		"changed": append(bytes.Clone(stream.Bytes()[:stream.Len()-1]), 0)} {
		o := options(t)
		if _, err := New(o).Receive(bytes.NewReader(b), 1, false, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if list, err := os.ReadDir(o.Dir); err != nil || len(list) > 0 {
			t.Errorf("%s: left: %v, %v", name, list, err)
		}
	}
}

// A snapshot that its owner gives up ends with the reason, even in the middle of Send.
func TestSnapshotGivenUp(t *testing.T) {
	o := options(t)
	pieces := 0
	var f *File
	o.OnStep = func(at Step) error {
		if at == StepPiece {
			if pieces++; pieces == 2 {
				f.GiveUp()
			}
		}
		return nil
	}
	f = newFile(t, o)
	fillKeys(t, f, 0, 3000, strings.Repeat("x", 2000))
	sn, err := f.OpenSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	ends, reason := 0, errors.New("too long")
	sn.Watch(Watch{Outgrown: func() error { return reason },
		LetGo: func() error { ends++; return nil }})
	err = sn.Send(t.Context(), io.Discard, nil)
	if !errors.Is(err, ErrStopped) || !errors.Is(err, reason) || pieces != 2 || ends != 1 {
		t.Errorf("%v after %d pieces, ended %d times", err, pieces, ends)
	}
	if err := sn.Close(); err != nil {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if sn, err = f.OpenSnapshot(); err != nil {
		t.Fatal(err)
	}
	if err := sn.Send(cancelled, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := sn.Close(); err != nil {
		t.Error(err)
	}
}

// interrupted is a file whose syncs a signal interrupts on request.
type interrupted struct {
	Writer
	syncs *atomic.Int32 // left until one is interrupted
}

func (f interrupted) Sync() error {
	if err := f.Writer.Sync(); err != nil {
		return err
	}
	if f.syncs.Add(-1) == 0 {
		return syscall.EINTR
	}
	return nil
}

// A transaction whose last sync is interrupted is in the file, and is durable. It ends the open
// snapshots. It does not wait for a check of these snapshots that itself waits for the file.
func TestInterruptedCommit(t *testing.T) {
	var syncs atomic.Int32
	o := options(t)
	o.OnFile = func(_ string, w Writer) Writer { return interrupted{w, &syncs} }
	f := newFile(t, o)
	fillKeys(t, f, 0, 10, "value")
	// bbolt reads the snapshot's pages from the file itself.
	f.mu.out = struct {
		Writer
		io.ReaderAt
	}{f.mu.out, bytes.NewReader(nil)}
	f.mu.db.NoSync = true
	sn := &Snapshot{f: f, end: func() error { return nil }}
	begun, looked, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	sn.Watch(Watch{Outgrown: func() error {
		close(begun)
		for range 100 { // until a writer waits for the readers, if it does
			if !f.mu.TryRLock() {
				break
			}
			f.mu.RUnlock()
			await.Pass(time.Millisecond)
		}
		f.Use()
		return nil
	}, LetGo: func() error { return nil }})
	go func() {
		defer close(ended)
		<-begun
		syncs.Store(2)
		fillKeys(t, f, 10, 10, "value")
	}()
	go func() {
		defer close(looked)
		f.GiveUp()
	}()
	await.Next(t, "the end of the look", looked)
	await.Next(t, "the end of the commit", ended)
	holds(t, f, 20)
	if why := sn.stopped.Load(); why == nil || !errors.Is(*why, ErrStopped) {
		t.Errorf("the snapshot goes on: %v", why)
	}
	if err := sn.Close(); err != nil {
		t.Error(err)
	}
}

// A damaged page always causes an error. It never makes a key look missing, and never ends a walk
// early.
func TestDamagedPages(t *testing.T) {
	o := options(t)
	f := newFile(t, o)
	fillKeys(t, f, 0, 1000, strings.Repeat("x", 100))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(f.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(page int, b []byte) {
		if _, err := file.WriteAt(b, int64(page*format.PageSize)); err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	zeros := make([]byte, format.PageSize)
	for page := 2; page < len(whole)/format.PageSize; page++ {
		old := whole[page*format.PageSize : (page+1)*format.PageSize]
		if bytes.Equal(old, zeros) {
			continue
		}
		write(page, zeros)
		again := New(o)
		if _, err := again.Open(); err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("page %d: %v", page, err)
			}
			found++
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			write(page, old)
			continue
		}
		keys, ok := 0, again.ProveTree() == nil
		err := again.View(func(tx *bolt.Tx) error {
			return Each(tx, format.BucketValues, nil, nil, func(_, _ []byte) error {
				keys++
				return nil
			})
		})
		if err == nil && keys != 1000 {
			t.Errorf("page %d: %d keys and no error", page, keys)
		}
		for i := 0; i < 1000; i += 50 {
			bad := again.View(func(tx *bolt.Tx) error {
				at, _ := image(i, "")
				if record, err := Find(tx, at, false); record == nil && err == nil {
					t.Errorf("page %d: key %d is missing, and no error", page, i)
				}
				return nil
			})
			err = errors.Join(err, bad)
		}
		if err != nil || !ok {
			found++
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		write(page, old)
	}
	if found < 10 {
		t.Errorf("the damage of %d pages is found", found)
	}
	if _, err := f.Open(); err != nil {
		t.Fatal(err)
	}
	holds(t, f, 1000)
}
