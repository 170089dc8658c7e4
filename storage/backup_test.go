package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
	"keyp/storage/wal"
	"keyp/ttl"
)

// restored returns a harness with an empty directory, to which a backup of h's store is to be
// restored. The expected data is a copy of h's present model.
func restored(t *testing.T, h *faulty) *harness {
	dir := t.TempDir()
	return &harness{t: h.t, dir: dir, fs: vfs.NewMem(), clock: clock.NewFake(h.clock.Now()),
		model: h.model.clone(), databases: h.databases}
}

// TestBackupIsOneMoment: while a backup is sent, keys are written, and checkpoints run and release
// segments of the log. The restored store has the state of the moment at which the backup was
// opened.
func TestBackupIsOneMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := changing(newHarness(t))
		h.t = failer{t, rt}
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			h.change()
			if rapid.Bool().Draw(rt, "checkpoint") {
				h.saved()
			}
		}
		h.commit()
		sn, err := h.s.OpenBackup(context.Background())
		if err != nil {
			h.t.Fatal(err)
		}
		to := restored(t, h)
		log := h.s.log.(*wal.Log)
		for range rapid.IntRange(0, 3).Draw(rt, "checkpoints before the first piece") {
			h.change()
			h.saved()
		}
		if n := h.s.log.Size(); h.s.log.First() < sn.Header.Segment ||
			n > 1<<20 && log.Held() == 0 {
			h.t.Fatalf("the log begins at segment %d, with %d bytes of which %d are held, and the backup needs %d",
				h.s.log.First(), n, log.Held(), sn.Header.Segment)
		}
		h.s.options.Testing.OnStep = only(datafile.StepPiece, func() error {
			if rapid.Bool().Draw(rt, "meanwhile") {
				h.change()
				h.saved()
			}
			return nil
		})
		var b bytes.Buffer
		err = sn.SendBackup(context.Background(), &b)
		h.s.options.Testing.OnStep = nil
		if err = errors.Join(err, sn.Close()); err != nil {
			h.t.Fatal(err)
		}
		if log.Held() != 0 {
			h.t.Fatalf("%d bytes of the log are held behind the backup", log.Held())
		}
		got, err := RestoreBackup(to.options(), bytes.NewReader(b.Bytes()))
		if err != nil || got.Through != sn.Header.Through {
			h.t.Fatalf("%+v, %v", got, err)
		}
		note, err := ReadBackupNote(&got)
		if err != nil || note.History != log.History() {
			h.t.Fatalf("the backup is of %q and the log %q: %v", note.History, log.History(), err)
		}
		to.open()
		to.verify(h.names)
		if now := to.s.log.(*wal.Log).History(); now == note.History {
			h.t.Fatalf("what was restored has the history %q, too", now)
		}
		if err := errors.Join(to.s.Close(true), h.s.Close(true)); err != nil {
			h.t.Fatal(err)
		}
	})
}

// TestBackupOfLargeBatch: a backup includes a batch that is larger than a record may be.
func TestBackupOfLargeBatch(t *testing.T) {
	h := changing(newHarness(t))
	k := h.s.Key(0, []byte("large"))
	value := bytes.Repeat([]byte("large"), snapshotfile.MaxRecord/5*2)
	h.do(func(x *Txn) { x.SetString(k, value, ttl.Deadline{}, eventSet) }, k)
	h.commit()
	stream := h.backup()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	to := restored(t, h)
	if _, err := RestoreBackup(to.options(), bytes.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	to.open()
	to.do(func(x *Txn) {
		item, _ := x.Peek(k)
		if got, err := item.String(); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%d bytes of %d come back, %v", len(got), len(value), err)
		}
	}, k)
	if err := to.s.Close(true); err != nil {
		t.Fatal(err)
	}
}

// backup returns a whole backup.
func (f *faulty) backup() []byte {
	f.t.Helper()
	sn, err := f.s.OpenBackup(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	var b bytes.Buffer
	if err := errors.Join(sn.SendBackup(context.Background(), &b), sn.Close()); err != nil {
		f.t.Fatal(err)
	}
	return b.Bytes()
}

// TestRestoreDamaged: a stream that is cut, or has a byte changed, is refused.
func TestRestoreDamaged(t *testing.T) {
	h := changing(newHarness(t))
	h.change()
	h.saved()
	h.change()
	stream := h.backup()
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, b []byte) {
		t.Helper()
		if _, err := RestoreBackup(restored(t, h).options(), bytes.NewReader(b)); !errors.Is(err,
			snapshotfile.ErrBad) {
			t.Fatalf("%s, byte %d: %v", what, len(b), err)
		}
	}
	for at := 0; at < len(stream); at += 1 + len(stream)/40 {
		flipped := bytes.Clone(stream)
		flipped[at] ^= 1 << (at % 8)
		refused("another one", flipped)
		refused("cut", stream[:at])
	}
	var other bytes.Buffer // a snapshot for a member
	w, err := snapshotfile.NewWriter(&other, snapshotfile.Header{PageSize: 8192, Size: 8192,
		DataFormat: format.Version})
	if err = errors.Join(err, w.Record(9, []byte{7}), w.End()); err != nil {
		t.Fatal(err)
	}
	refused("no batch", other.Bytes())

	// A part of a batch that exceeds the batch's length in the log is refused before more of it is
	// kept.
	into := restoring{}
	for n := 1; ; n++ {
		err := into.record(1000, append([]byte{0}, make([]byte, 99)...))
		if (err != nil) != (n > 10) || err != nil && !errors.Is(err, snapshotfile.ErrBad) {
			t.Fatalf("part %d: %v", n, err)
		}
		if err != nil {
			break
		}
	}
}

// TestBackupGivenUp: a backup that would keep too much of the log is given up, and then the log is
// released.
func TestBackupGivenUp(t *testing.T) {
	h := changing(newHarness(t))
	h.change()
	h.saved()
	h.change()
	sn, err := h.s.OpenBackup(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	h.s.bounds.snapshotGrowth = 1000
	sn.Header.Size = 0 // so that its half is less
	for range 3 {
		h.change()
		h.saved()
	}
	log := h.s.log.(*wal.Log)
	if log.Held() == 0 {
		t.Fatal("nothing is held")
	}
	h.s.file.GiveUp()
	err = sn.SendBackup(context.Background(), &bytes.Buffer{})
	if err == nil || !errors.Is(err, datafile.ErrStopped) {
		t.Errorf("it ends with %v", err)
	}
	if log.Held() != 0 {
		t.Errorf("%d bytes are held", log.Held())
	}
	if err := errors.Join(sn.Close(), h.s.Close(true)); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreFaults: each write and each sync of a restore fails once. The restore returns that
// error. If it returns none, everything is there, even after a power failure.
func TestRestoreFaults(t *testing.T) {
	h := changing(newHarness(t))
	h.change()
	h.saved()
	h.change()
	stream := h.backup()
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for at := 1; ; at++ {
		to := &faulty{harness: restored(t, h), names: h.names}
		n := 0
		next := func(op vfs.Op, _ string, _ int64, _ int) error {
			switch op {
			case vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpCreate:
				if n++; n == at {
					return broken
				}
			}
			return nil
		}
		to.onLog, to.onData = next, next
		_, err := RestoreBackup(to.options(), bytes.NewReader(stream))
		to.onLog, to.onData = nil, nil
		switch {
		case n >= at && (err == nil || !strings.Contains(err.Error(), broken.Error())):
			t.Fatalf("operation %d fails: %v", at, err)
		case n >= at:
			continue
		case err != nil:
			t.Fatalf("without a fault: %v", err)
		case at < 20:
			t.Fatalf("there are only %d operations", n)
		}
		to.open()
		to.verify(h.names)
		if err := to.s.Close(true); err != nil {
			t.Fatal(err)
		}
		return
	}
}

// TestRestoreHostile: a stream has correct checksums but other contents that are wrong. The restore
// gives a sound store, or fails.
func TestRestoreHostile(t *testing.T) {
	h := changing(newHarness(t))
	for range 3 {
		h.change()
		h.saved()
	}
	h.change()
	stream := h.backup()
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		from, err := snapshotfile.NewReader(bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		number := rapid.OneOf(rapid.SampledFrom([]uint64{0, 1, 1 << 20, math.MaxInt64,
			math.MaxInt64 + 1, math.MaxUint64}), rapid.Uint64())
		head := from.Header
		switch rapid.IntRange(0, 9).Draw(rt, "header") {
		case 0:
			head.Segment = number.Draw(rt, "segment")
		case 1:
			head.Position = number.Draw(rt, "position")
		case 2:
			head.Through = number.Draw(rt, "through")
		case 3:
			head.Time = int64(number.Draw(rt, "time"))
		case 4:
			head.Size = int64(number.Draw(rt, "size")%(1<<40)) / int64(head.PageSize) * int64(
				head.PageSize)
		case 5:
			head.Note = []byte(`{"history":"h","databases":-1}`)
		}
		var b bytes.Buffer
		to, err := snapshotfile.NewWriter(&b, head)
		if err != nil {
			t.Fatal(err)
		}
		chance := rapid.SampledFrom([]int{0, 2, 20}).Draw(rt, "chance") // of 100
		for part, err := from.Next(); err != io.EOF; part, err = from.Next() {
			if err != nil {
				t.Fatal(err)
			}
			if n := len(part.Bytes); rapid.IntRange(1, 100).Draw(rt, "dice") <= chance {
				at := rapid.IntRange(0, n-1).Draw(rt, "byte")
				switch rapid.IntRange(0, 4).Draw(rt, "what") {
				case 0:
					continue
				case 1:
					part.At = number.Draw(rt, "at")
				case 2:
					part.Bytes = part.Bytes[:at]
				case 3:
					at = at / format.PageSize * format.PageSize // a page's head
					fallthrough
				default:
					part.Bytes[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
				}
			}
			if part.Record {
				err = to.Record(part.At, part.Bytes)
			} else if len(part.Bytes) > 0 {
				err = to.Piece(int64(part.At), part.Bytes)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := to.End(); err != nil {
			t.Fatal(err)
		}
		made := restored(t, h)
		if made.dir, err = os.MkdirTemp(dir, ""); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(made.dir) // and so does the test's end
		if _, err := RestoreBackup(made.options(), &b); err != nil {
			return
		}
		s, _, err := Open(made.options())
		if err != nil {
			rt.Fatalf("what is restored does not open: %v", err)
		}
		if err := errors.Join(s.Check(), s.Close(false)); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestBackupAfterInterruptedCheckpoint: a checkpoint stops at any of its steps, as when the process
// ends or the member's role changes. A backup of the store, as it is or opened again, can be
// restored like any other.
func TestBackupAfterInterruptedCheckpoint(t *testing.T) {
	for again := range 2 {
		for n, more := 0, true; more; n++ {
			h := closedHarness(t)
			h.portions = true
			h.open()
			f := changing(h)
			f.change()
			f.saved()
			f.change()
			f.commit()
			left := n
			f.s.options.Testing.OnStep = func(datafile.Step) error {
				if left--; left < 0 {
					return errInterrupted
				}
				return nil
			}
			err := f.s.checkpointInterrupted()
			f.s.options.Testing.OnStep = nil
			if more = errors.Is(err, errInterrupted); err != nil && !more {
				t.Fatal(err)
			}
			if again == 1 {
				if err := f.s.Close(false); err != nil {
					t.Fatal(err)
				}
				f.open()
			}
			stream := f.backup()
			to := restored(t, f)
			if _, err := RestoreBackup(to.options(), bytes.NewReader(stream)); err != nil {
				t.Fatalf("step %d, opened again: %d: %v", n, again, err)
			}
			to.open()
			to.verify(f.names)
			if err := errors.Join(to.s.Close(true), f.s.Close(false)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
