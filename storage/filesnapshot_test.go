package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
	"keyp/ttl"
)

// changing returns a harness that can run random commands and knows the expected data. It has the
// type faulty, but the disk does not fail here.
func changing(h *harness) *faulty { return &faulty{harness: h, names: map[name]bool{}} }

// send returns a whole snapshot.
func (h *harness) send(records func(*snapshotfile.Writer) error) []byte {
	h.t.Helper()
	sn, err := h.s.OpenSnapshot()
	if err != nil {
		h.t.Fatal(err)
	}
	var b bytes.Buffer
	if err := errors.Join(sn.Send(context.Background(), &b, records), sn.Close()); err != nil {
		h.t.Fatal(err)
	}
	return b.Bytes()
}

// logOf copies the files of the log as they are.
func (h *harness) logOf(dir string) *vfs.Mem {
	h.t.Helper()
	to, from := filepath.Join(dir, format.LogDir), filepath.Join(h.dir, format.LogDir)
	fs := vfs.NewMem()
	err := errors.Join(fs.MkdirAll(to), copyFiles(h.fs, from, fs, to))
	if err != nil {
		h.t.Fatal(err)
	}
	return fs
}

// TestSnapshotAndLog: while a snapshot is sent, keys are written and checkpoints run. The snapshot
// with the log of its opening gives the state at its opening. With the whole log it gives the state
// at its end.
func TestSnapshotAndLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := changing(newHarness(t))
		h.t = failer{t, rt}
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			h.change()
			if rapid.Bool().Draw(rt, "checkpoint") {
				h.saved()
			}
		}
		if rapid.Bool().Draw(rt, "unfinished") { // the file is newer in places than its state
			h.s.options.Testing.OnStep = only(datafile.StepWrite, func() error {
				return ErrDeposed
			})
			if err := h.s.Checkpoint(); !errors.Is(err, ErrDeposed) {
				h.t.Fatalf("the checkpoint: %v", err)
			}
			h.s.options.Testing.OnStep = nil
			h.change()
		}
		sn, err := h.s.OpenSnapshot()
		if err != nil {
			h.t.Fatal(err)
		}
		if sn.Header.Through != h.s.Log().End() || sn.Header.Size == 0 {
			h.t.Fatalf("the log ends at %d, and the header is %+v", h.s.Log().End(), sn.Header)
		}
		dir := t.TempDir()
		then := harness{t: h.t, dir: dir, fs: h.logOf(dir), clock: clock.NewFake(h.clock.Now()),
			model: h.model.clone(), databases: h.databases}
		for range rapid.IntRange(0, 3).Draw(rt, "checkpoints before the first piece") {
			// These changes write pages, and both meta pages.
			h.change()
			h.saved()
		}
		pieces := 0
		h.s.options.Testing.OnStep = only(datafile.StepPiece, func() error {
			pieces++
			switch rapid.IntRange(0, 2).Draw(rt, "meanwhile") {
			case 0:
				h.change()
			case 1:
				h.change()
				h.saved()
			}
			return nil
		})
		var b bytes.Buffer
		err = sn.Send(context.Background(), &b, func(w *snapshotfile.Writer) error {
			return w.Record(5, []byte("record"))
		})
		h.s.options.Testing.OnStep = nil
		if err = errors.Join(err, sn.Close()); err != nil || pieces == 0 {
			h.t.Fatalf("%d pieces, %v", pieces, err)
		}
		h.commit()
		dir = t.TempDir()
		end := harness{t: h.t, dir: dir, fs: h.logOf(dir), clock: clock.NewFake(h.clock.Now()),
			model: h.model.clone(), databases: h.databases}
		for what, to := range map[string]*harness{"then": &then, "end": &end} {
			if what == "end" && sn.Header.Segment < h.s.log.First() {
				continue // checkpoints have released a part of the log that it needs
			}
			records := 0
			got, err := Receive(to.options(), bytes.NewReader(b.Bytes()), sn.Header.Segment,
				func(position uint64, b []byte) error {
					if records++; position != 5 || string(b) != "record" {
						h.t.Fatalf("record %q of %d", b, position)
					}
					return nil
				})
			if err != nil || records != 1 || got.Position != sn.Header.Position {
				h.t.Fatalf("%s: %d records, %+v, %v", what, records, got, err)
			}
			to.open()
			to.verify(h.names)
			if to.s.seed != h.s.seed {
				h.t.Fatal("it has another seed")
			}
			if err := to.s.Close(true); err != nil {
				h.t.Fatal(err)
			}
		}
		if err := h.s.Close(true); err != nil {
			h.t.Fatal(err)
		}
	})
}

// writerOnce calls a function before the first byte is written.
type writerOnce struct {
	w  io.Writer
	fn func()
}

func (w *writerOnce) Write(b []byte) (int, error) {
	if w.fn != nil {
		w.fn()
		w.fn = nil
	}
	return w.w.Write(b)
}

// TestSnapshotGivenUp: a checkpoint that needs more of the file mapped would have to wait for a
// slow reader. The snapshot is given up before that. It is also given up when the file must grow,
// when the store closes, and when its own context ends.
func TestSnapshotGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	for what, during := range map[string]func(h *faulty) error{
		"start it again": func(h *faulty) error {
			for i := range 80 { // more than InitialMmap
				k := h.s.Key(0, []byte(fmt.Sprint("long", i)))
				h.do(func(x *Txn) {
					x.SetString(k, []byte(strings.Repeat("v", 100_000)), ttl.Deadline{}, eventSet)
				}, k)
				h.saved()
				h.s.file.GiveUp()
			}
			return nil
		},
		"bytes longer": func(h *faulty) error {
			h.s.bounds.snapshotGrowth = 64 << 10
			for i := range 20 {
				k := h.s.Key(0, []byte(fmt.Sprint("long", i)))
				h.do(func(x *Txn) {
					x.SetString(k, []byte(strings.Repeat("v", 100_000)), ttl.Deadline{}, eventSet)
				}, k)
			}
			h.saved()
			h.s.file.GiveUp()
			return nil
		},
		ErrClosed.Error():        func(h *faulty) error { return h.s.Close(true) },
		context.Canceled.Error(): func(*faulty) error { cancel(); return nil },
	} {
		h := changing(newHarness(t))
		h.change()
		h.saved()
		sn, err := h.s.OpenSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.s.Compact(); !errors.Is(err, errCompactStopped) {
			t.Errorf("a compaction beside a snapshot: %v", err)
		}
		var b bytes.Buffer
		err = sn.Send(ctx, &writerOnce{&b, func() {
			if err := during(h); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}}, nil)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: Send returns %v", what, err)
		}
		if _, err := snapshotfile.Verify(&b); !errors.Is(err, snapshotfile.ErrBad) {
			t.Errorf("%s: what was sent is %v", what, err)
		}
		if err := sn.Close(); err != nil {
			t.Errorf("%s: Close returns %v", what, err)
		}
		if what == ErrClosed.Error() {
			continue
		}
		if _, _, err := h.s.Compact(); err != nil {
			t.Errorf("%s: a compaction behind it: %v", what, err)
		}
		if err := h.s.Close(true); err != nil {
			t.Fatal(err)
		}
	}
}

// receiver makes the directory of a closed store, and a snapshot of another store. Both stores have
// everything in the data file.
func receiver(t *testing.T) (h *faulty, stream []byte, others model, segment uint64) {
	from := changing(newHarness(t))
	from.change()
	from.change()
	from.saved()
	stream = from.send(nil)
	if err := from.s.Close(true); err != nil {
		t.Fatal(err)
	}
	h = newFaulty(t)
	h.open()
	for range 3 { // so that its log is at another segment than the snapshot's
		h.change()
		h.saved()
	}
	segment = h.s.log.First()
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	for n := range from.names {
		h.names[n] = true
	}
	return h, stream, from.model, segment
}

// TestReceiveFaults: each write, each sync and each step of a reception fails once, and the power
// fails after that. The directory then has either its earlier content or all of the sent content.
// Without an error it has the sent content.
func TestReceiveFaults(t *testing.T) {
	broken := errors.New("broken")
	for at := 1; ; at++ {
		h, stream, others, segment := receiver(t)
		n := 0
		next := func() error {
			if n++; n == at {
				return broken
			}
			return nil
		}
		h.onData = func(op vfs.Op, _ string, _ int64, _ int) error {
			if op == vfs.OpWrite || op == vfs.OpSync {
				return next()
			}
			return nil
		}
		h.onLog = func(op vfs.Op, _ string, _ int64, _ int) error {
			if op == vfs.OpSyncDir {
				return next()
			}
			return nil
		}
		o := h.options()
		renamed, taken := o.Testing.OnStep, false
		o.Testing.OnStep = func(at datafile.Step) error {
			if err := renamed(at); err != nil {
				return err
			}
			taken = taken || at == datafile.StepTaken
			return next()
		}
		_, err := Receive(o, bytes.NewReader(stream), segment, nil)
		h.s, h.onData, h.onLog = nil, func(vfs.Op, string, int64, int) error { return nil }, nil
		h.stop(true, at)
		if err == nil || taken {
			old := h.model
			h.model = others
			h.open()
			if !same(h.state(h.names), h.model.live(h.now())) && err != nil {
				h.model = old
			}
		} else {
			h.open()
		}
		h.verify(h.names)
		if err := h.s.Close(true); err != nil {
			t.Fatal(err)
		}
		switch {
		case n < at && err != nil:
			t.Fatalf("without a fault: %v", err)
		case n < at && at < 15:
			t.Fatalf("there are only %d moments", n)
		case n < at:
			return
		case !errors.Is(err, broken):
			t.Fatalf("moment %d fails: %v", at, err)
		}
	}
}

// TestReceiveDamaged: a stream that is cut, or has a byte changed, is refused, and the directory
// keeps its content.
func TestReceiveDamaged(t *testing.T) {
	h, stream, _, segment := receiver(t)
	refuse := func(what string, b []byte) {
		t.Helper()
		if _, err := Receive(h.options(), bytes.NewReader(b), segment, nil); !errors.Is(err,
			snapshotfile.ErrBad) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := 0; at < len(stream); at += 1 + len(stream)/60 {
		b := bytes.Clone(stream)
		b[at] ^= 1 << (at % 8)
		refuse(fmt.Sprint("byte ", at), b)
		refuse(fmt.Sprint("cut at ", at), stream[:at])
	}
	o := h.options()
	o.Member = true
	if _, err := Receive(o, bytes.NewReader(stream), segment, nil); err == nil {
		t.Error("a member receives the data file of a server that is alone")
	}
	h.open()
	h.verify(h.names)
	if _, err := Receive(h.options(), bytes.NewReader(stream), segment, nil); !errors.Is(err,
		ErrLocked) {
		t.Errorf("a data file in use is replaced: %v", err)
	}
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
}
