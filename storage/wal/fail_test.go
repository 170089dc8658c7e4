package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
)

// TestFailureIsFinal: after a failed write or sync the log accepts no more data, even if another
// try would succeed.
func TestFailureIsFinal(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		t.Run(op.String(), func(t *testing.T) {
			mem := vfs.NewMem()
			var failing atomic.Bool
			fsys := vfs.Inject(mem, func(o vfs.Op, name string, _ int64, _ int) error {
				if o == op && failing.CompareAndSwap(true, false) { // once: a retry would succeed
					if op == vfs.OpWrite {
						return &vfs.ShortWrite{N: 60, Err: syscall.EIO}
					}
					return syscall.EIO
				}
				return nil
			})
			o := options(fsys)
			failed := make(chan error, 2)
			o.OnFail = func(err error) { failed <- err }
			l, _ := opened(t, o, 0)
			l.Append([]byte("kept"))
			must(t, l.Commit())
			durable := l.Durable()
			await.Until(t, "the next segment", l.prepared)
			failing.Store(true)
			lost := l.Append([]byte("lost"))
			if err := l.Commit(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Commit: %v", err)
			}
			if err := <-failed; !errors.Is(err, syscall.EIO) || err.Error() != l.Err().Error() {
				t.Fatalf("OnFail got %v, Err gives %v", err, l.Err())
			}
			l.Append([]byte("after"))
			if err := l.Commit(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("second Commit: %v", err)
			}
			if err := l.Settled(context.Background(), lost); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Settled: %v", err)
			}
			if _, err := l.Rotate(nil); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Rotate: %v", err)
			}
			if l.Durable() != durable {
				t.Fatal("Durable moved over a failure")
			}
			if err := l.Close(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Close: %v", err)
			}
			batches := reopened(t, options(mem), 0)
			if len(batches) == 0 || batches[0] != "kept" || len(batches) > 2 {
				t.Fatalf("recovered %q", batches)
			}
		})
	}
}

func TestFailedPreparationIsFatal(t *testing.T) {
	var failing atomic.Bool
	fsys := vfs.Inject(vfs.NewMem(), func(op vfs.Op, name string, _ int64, _ int) error {
		if op == vfs.OpSyncDir && failing.Load() {
			return syscall.ENOSPC // of a sync, not even this one may be tried again
		}
		return nil
	})
	l, _ := opened(t, options(fsys), 0)
	await.Until(t, "the next segment", l.prepared)
	failing.Store(true)
	l.Append([]byte("a"))
	_ = l.Commit() // which the failure may overtake
	await.Until(t, "the failure", func() bool { return l.Err() != nil })
	if l.Close() == nil {
		t.Fatal("Close of a failed log gave no error")
	}
}

// TestShortagesPass: the log waits until a shortage of file descriptors ends, or of space while a
// segment is made, whichever operation it hits.
func TestShortagesPass(t *testing.T) {
	for _, test := range []struct {
		op   vfs.Op
		name string // a part of
		err  error
	}{
		{vfs.OpCreate, "", syscall.EMFILE},
		{vfs.OpOpen, "spare-", syscall.ENFILE},
		{vfs.OpSyncDir, "", syscall.EMFILE},
		{vfs.OpWrite, tmpName, &vfs.ShortWrite{N: 1000, Err: syscall.ENOSPC}},
		{vfs.OpSync, tmpName, syscall.EDQUOT}, // of a file that nobody uses yet
	} {
		t.Run(fmt.Sprintf("%v %v", test.op, test.name), func(t *testing.T) {
			// An open file keeps the name it was made under. So while failing is set, only the
			// creation of the next segment may use a file with that name.
			var failing, holding atomic.Bool
			goOn := make(chan struct{})
			o := options(vfs.Inject(vfs.NewMem(),
				func(op vfs.Op, name string, _ int64, _ int) error {
					if op == vfs.OpFree && holding.Load() {
						<-goOn
					}
					if op == test.op && strings.Contains(name, test.name) && failing.Load() {
						return test.err
					}
					return nil
				}))
			l, _ := opened(t, o, 0)
			l.Append(make([]byte, 2*testSegment))
			must(t, l.Commit())
			if test.op == vfs.OpOpen { // there has to be a spare
				n, err := l.Rotate(nil)
				must(t, err)
				must(t, l.Settled(context.Background(), l.End()))
				await.Until(t, "the next segment", l.prepared)
				must(t, l.Release(n))
			}
			await.Until(t, "the next segment", l.prepared)
			if test.op == vfs.OpOpen {
				failing.Store(true)
			}
			holding.Store(true)
			_, err := l.Rotate([]byte("head"))
			must(t, err)
			must(t, l.Commit())
			failing.Store(true)
			holding.Store(false)
			close(goOn)
			await.Until(t, "the log to be full", l.Full)
			failing.Store(false)
			await.Until(t, "the next segment", func() bool { return l.prepared() && !l.Full() })
			must(t, l.Err())
			must(t, l.Close())
		})
	}
}

func TestNoRoom(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	fake := clock.NewFake(0)
	o.Clock = fake
	l, _ := opened(t, o, 0)
	l.Append([]byte("first"))
	must(t, l.Commit())
	await.Until(t, "the next segment", l.prepared)
	mem.SetFree(100)
	want := []string{"first"}

	// One more segment is ready. When the log enters it, it notices that there is no other.
	batch := strings.Repeat("y", testSegment/2)
	for !l.Full() {
		l.Append([]byte(batch))
		want = append(want, batch)
		must(t, l.Commit())
		await.Until(t, "an answer from the preparation", func() bool {
			return l.Full() || l.prepared()
		})
	}
	// The rest of this segment still takes commits. Larger batches wait.
	lsn := l.Append([]byte("small"))
	must(t, l.Commit())
	want = append(want, "small")
	for range 4 {
		lsn = l.Append([]byte(batch))
		want = append(want, batch)
	}
	l.CommitAsync()
	committed := make(chan error, 1)
	go func() { committed <- l.Commit() }()
	tries := l.tries(t, fake)
	if l.Durable() >= lsn || len(committed) > 0 || l.Err() != nil || tries == 0 {
		t.Fatalf("without room: durable %d of %d, err %v", l.Durable(), lsn, l.Err())
	}
	mem.SetFree(1 << 30)
	await.Until(t, "room again", func() bool {
		fake.Advance(retryRoom * time.Millisecond)
		return !l.Full()
	})
	must(t, await.For(t, "the commit ends", committed))
	if l.Durable() < lsn {
		t.Fatal("Commit returned early")
	}
	must(t, l.Close())
	o.Clock = clock.System
	sameBatches(t, reopened(t, o, 0), want...)
}

// tries lets the log look for space three more times, and counts how often it did.
func (l *Log) tries(t *testing.T, fake *clock.Fake) int {
	n := 0
	for range 3 {
		fake.Advance(retryRoom * time.Millisecond)
		if l.Full() {
			n++
		}
	}
	return n
}

// askedFS counts the calls that ask for the free space.
type askedFS struct {
	vfs.FS
	asked atomic.Int64
}

func (f *askedFS) Free(dir string) (uint64, error) {
	f.asked.Add(1)
	return f.FS.Free(dir)
}

// TestWaitingIsIdle: while a commit waits for space, only the log's clock makes the log try again.
func TestWaitingIsIdle(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	fsys := &askedFS{FS: mem}
	o.FS, o.Clock = fsys, clock.NewFake(0)
	l, _ := opened(t, o, 0)
	mem.SetFree(0)
	lsn := l.Append(make([]byte, 5*testSegment))
	l.CommitAsync()
	await.Until(t, "the log to be full", l.Full)
	looks := 0
	// Other goroutines run meanwhile.
	await.Until(t, "some looks", func() bool { looks++; return looks == 20 })
	if n := fsys.asked.Load(); n > 10 || l.Durable() >= lsn {
		t.Errorf("asked %d times for room, durable %d of %d", n, l.Durable(), lsn)
	}
	l.GiveUp()
	if err := l.Close(); !errors.Is(err, ErrNoRoom) {
		t.Errorf("Close: %v", err)
	}
}

// TestGiveUp: GiveUp ends the wait of those who wait for a log without space.
func TestGiveUp(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := opened(t, options(mem), 0)
	mem.SetFree(0)
	lsn := l.Append(make([]byte, 5*testSegment))
	waited := make(chan error, 1)
	go func() { waited <- l.Settled(context.Background(), lsn) }()
	await.Until(t, "the log to be full", l.Full)
	l.GiveUp()
	if err := await.For(t, "the end of Settled", waited); !errors.Is(err, ErrNoRoom) {
		t.Errorf("Settled: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrNoRoom) {
		t.Errorf("Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
}

// TestKeepFree: a segment that nobody waits for is not made from the space to keep free. A segment
// that a commit waits for may use that space.
func TestKeepFree(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Clock = clock.NewFake(0) // no retry by time
	o.KeepFree = func() uint64 { return 4 * testSegment }
	l, _ := opened(t, o, 0)
	if room, size := l.Room(); room != size {
		t.Errorf("room for %d bytes in a log that is not full", room)
	}
	await.Until(t, "the next segment", l.prepared)
	mem.SetFree(4*testSegment + testSegment/2)
	for !l.Full() {
		l.Append(make([]byte, testSegment/16))
		must(t, l.Commit())
		await.Until(t, "an answer from the preparation", func() bool {
			return l.Full() || l.prepared()
		})
	}
	before, _ := l.Room()
	l.Append(make([]byte, 100))
	if room, _ := l.Room(); room > before-100 || room < before-200 {
		t.Errorf("room for %d bytes, and %d behind a batch of 100", before, room)
	}
	l.Append(make([]byte, testSegment))
	if room, _ := l.Room(); room != 0 {
		t.Errorf("room for %d bytes in a segment that is not there", room)
	}
	must(t, l.Commit())
	must(t, l.Close())
}

// TestFullUntilKept: a commit waited for a segment, which was made from the space to keep free. The
// log stays full until that space is free again.
func TestFullUntilKept(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	fake := clock.NewFake(0)
	o.Clock = fake
	o.KeepFree = func() uint64 { return 20 * testSegment }
	var lines testkit.Output
	o.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	l, _ := opened(t, o, 0)
	await.Until(t, "the next segment", l.prepared)
	mem.SetFree(20 * testSegment)
	l.Append(make([]byte, 5*testSegment)) // waits for segments, each of which it gets
	must(t, l.Commit())
	if text := lines.String(); !l.Full() || strings.Count(text,
		"no room for the next log segment") != 1 || strings.Contains(text, "again") {
		t.Errorf("full: %t; the log says\n%s", l.Full(), text)
	}
	if free, err := mem.Free(o.Dir); err != nil || free >= 20*testSegment {
		t.Errorf("%d bytes are free, %v: the segments took less", free, err)
	}
	mem.SetFree(40 * testSegment)
	await.Until(t, "room", func() bool {
		fake.Advance(retryRoom * time.Millisecond)
		return !l.Full() && l.prepared()
	})
	must(t, l.Close())
}

// TestSmallDisk: a segment takes at most a sixteenth of the disk space, so that a checkpoint can
// release a part of a log that fills the disk. A log opened on a full disk still gets a segment,
// whatever it should keep free, as nothing could be deleted without one.
func TestSmallDisk(t *testing.T) {
	const usual, room = 1 << 20, 4 << 20
	mem := vfs.NewMem()
	o := options(mem)
	o.SegmentSize, o.FirstSize = usual, usual
	o.KeepFree = func() uint64 { return room / 2 }
	mem.SetFree(room)
	l, _ := opened(t, o, 0)
	var want []string
	for n := 0; !l.Full() || l.prepared(); n++ {
		if n == 100 {
			t.Fatal("the log is not full")
		}
		if _, size := l.Room(); size > room/16 {
			t.Fatalf("a segment takes %d bytes", size)
		}
		want = append(want, strings.Repeat("a", 50_000))
		l.Append([]byte(want[len(want)-1]))
		must(t, l.Commit())
		await.Until(t, "an answer from the preparation", func() bool {
			return l.Full() || l.prepared()
		})
	}
	must(t, l.Close())
	if free, err := mem.Free(o.Dir); err != nil || free > room/2 || free < room/8 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	l, batches := opened(t, o, 0)
	sameBatches(t, batches, want...)
	if left, size := l.Room(); !l.Full() || left < size/2 || size > room/32 {
		t.Errorf("full: %t; room for %d bytes of %d", l.Full(), left, size)
	}
	l.Append([]byte("small"))
	must(t, l.Commit())
	must(t, l.Close())
}

func TestCloseWithoutRoom(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	mem.SetFree(0)
	lsn := l.Append(make([]byte, 5*testSegment))
	l.CommitAsync()
	await.Until(t, "the log to be full", l.Full)
	if err := l.Close(); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("Close: %v", err)
	}
	if l.Durable() >= lsn {
		t.Fatal("durable without room")
	}
	// Restarting on the full disk still works: reads need no log.
	l, batches := opened(t, o, 0)
	sameBatches(t, batches)
	must(t, l.Close())
}

func TestReleaseHealsFull(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Clock = clock.NewFake(0) // no retry by time
	l, _ := opened(t, o, 0)
	l.Append(make([]byte, 3*testSegment))
	must(t, l.Commit())
	await.Until(t, "the next segment", l.prepared)
	mem.SetFree(0)
	n, err := l.Rotate([]byte("head"))
	must(t, err)
	must(t, l.Settled(context.Background(), l.End()))
	await.Until(t, "the log to be full", l.Full)
	must(t, l.Release(n))
	await.Until(t, "room from the released segments", func() bool { return !l.Full() })
	must(t, l.Close())
}

// TestSmallSegmentWithoutRoom: a log without space for a segment of the usual size makes a smaller
// one. So a rotation ends, and older segments can be released. Later segments have the usual size
// again. After a restart all batches are there. Spare segments are removed when others need the
// space.
func TestSmallSegmentWithoutRoom(t *testing.T) {
	const usual, small = 1 << 20, 64 << 10
	mem := vfs.NewMem()
	o := options(mem)
	o.SegmentSize, o.FirstSize, o.Spares = usual, usual, 1
	o.KeepFree = func() uint64 { return usual }
	fake := clock.NewFake(0)
	o.Clock = fake
	l, _ := opened(t, o, 0)
	want := []string{strings.Repeat("a", usual/2)}
	l.Append([]byte(want[0]))
	must(t, l.Commit())
	await.Until(t, "the next segment", l.prepared)
	_, err := l.Rotate(nil)
	must(t, err)
	mem.SetFree(small + small/2) // less than is kept free, and than a usual segment takes
	want = append(want, "b")
	l.Append([]byte("b"))
	must(t, l.Commit())
	await.Until(t, "the log to be full", l.Full)
	await.Until(t, "a small segment to do", func() bool {
		fake.Advance(retryRoom * time.Millisecond)
		return l.NextCost() == small
	})
	segment, err := l.Rotate(nil)
	must(t, err)
	want = append(want, "c")
	l.Append([]byte("c"))
	must(t, l.Commit())
	if _, size := l.Room(); size > small {
		t.Errorf("the segment takes %d bytes", size)
	}
	must(t, l.Release(segment))
	mem.SetFree(16 << 20)
	await.Until(t, "room", func() bool {
		fake.Advance(retryRoom * time.Millisecond)
		return !l.Full() && l.prepared()
	})
	if cost := l.NextCost(); cost != 0 {
		t.Errorf("the next segment is there, and costs %d", cost)
	}
	for n := 0; ; n++ {
		// The segment after it may be small as well, if it was made before there was enough space.
		if _, size := l.Room(); size >= usual/2 {
			break
		}
		if n == 40 {
			t.Fatal("the segments after it stay small")
		}
		text := strings.Repeat("d", small)
		want = append(want, text)
		l.Append([]byte(text))
		must(t, l.Commit())
		await.Until(t, "the next segment", l.prepared)
	}
	l.DropSpares()
	must(t, l.Close())
	names, err := mem.List(o.Dir)
	must(t, err)
	if strings.Contains(strings.Join(names, " "), "spare") {
		t.Errorf("there are spares: %q", names)
	}
	o.Clock = clock.System
	// A rotation writes an empty batch.
	sameBatches(t, reopened(t, o, segment), append([]string{""}, want[2:]...)...)
}
