package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
	"keyp/internal/vfs"
)

const testSegment = headerSize + 2048

func options(fsys vfs.FS) Options {
	return Options{
		FS: fsys, Dir: "/log", Clock: clock.System, SegmentSize: testSegment,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a log and returns the replayed batches.
func opened(t testing.TB, o Options, first uint64) (*Log, []string) {
	t.Helper()
	var batches []string
	l, err := Open(o, first, func(_ uint64, b []byte) error {
		batches = append(batches, string(b))
		return nil
	})
	must(t, err)
	return l, batches
}

func reopened(t testing.TB, o Options, first uint64) []string {
	t.Helper()
	l, batches := opened(t, o, first)
	must(t, l.Close())
	return batches
}

func sameBatches(t testing.TB, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("batch %d is %.40q (%d bytes), want %.40q (%d bytes)", i, got[i], len(got[i]),
				want[i], len(want[i]))
		}
	}
}

func TestAppendCommitReopen(t *testing.T) {
	for _, policy := range []Policy{Always, EverySec, No} {
		t.Run(policy.String(), func(t *testing.T) {
			o := options(vfs.NewMem())
			o.Policy = policy
			l, batches := opened(t, o, 0)
			sameBatches(t, batches)
			if l.End() == 0 || l.Durable() != l.End() || l.Size() != 0 {
				t.Fatalf("a fresh log: end %d, durable %d, size %d", l.End(), l.Durable(), l.Size())
			}
			var want []string
			last := l.End()
			for i, size := range []int{0, 1, 100, 3000, 10, 20000, 0, 64} {
				batch := strings.Repeat(string(rune('a'+i)), size)
				how := l.Append
				if i%2 == 1 {
					how = func(b []byte) uint64 { return l.AppendKeeping(cut(b, 1+len(b)/(i+1))) }
				}
				lsn := how([]byte(batch))
				if lsn <= last || lsn != l.End() {
					t.Fatalf("LSN %d after %d, end %d", lsn, last, l.End())
				}
				if l.Durable() >= lsn {
					t.Fatal("durable before any commit")
				}
				if i%3 != 1 {
					must(t, l.Commit())
					if l.Durable() != lsn || policy == Always && l.Synced() != lsn {
						t.Fatalf("after Commit: durable %d, synced %d, want %d", l.Durable(),
							l.Synced(), lsn)
					}
				}
				last = lsn
				want = append(want, batch)
			}
			must(t, l.Close())
			if err := l.Commit(); err != ErrClosed {
				t.Fatalf("Commit after Close: %v", err)
			}
			if err := l.Close(); err != ErrClosed {
				t.Fatalf("second Close: %v", err)
			}
			for range 3 {
				sameBatches(t, reopened(t, o, 0), want...)
			}
		})
	}
}

func TestLSNGrowsOverRestarts(t *testing.T) {
	o := options(vfs.NewMem())
	var last uint64
	for range 5 {
		l, err := Open(o, 0, func(lsn uint64, _ []byte) error {
			if lsn > last {
				t.Errorf("batch replayed at %d, never given", lsn)
			}
			return nil
		})
		must(t, err)
		if lsn := l.Append([]byte("x")); lsn <= last {
			t.Fatalf("LSN %d after %d", lsn, last)
		} else {
			last = lsn
		}
		must(t, l.Close())
	}
}

func TestRotateAndRelease(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Spares = 2
	l, _ := opened(t, o, 0)
	first := uint64(0)
	for round := range 5 {
		for range 30 {
			l.Append(bytes.Repeat([]byte("x"), 300))
			must(t, l.Commit())
		}
		before := l.Size()
		n, err := l.Rotate(fmt.Appendf(nil, "head %d", round))
		must(t, err)
		must(t, l.Settled(context.Background(), l.End()))
		must(t, l.Release(n))
		if size := l.Size(); size >= before || size <= 0 {
			t.Fatalf("size %d before Release, %d after", before, size)
		}
		first = n
	}
	l.Append([]byte("tail"))
	must(t, l.Commit())
	must(t, l.Close())
	names, err := mem.List(o.Dir)
	must(t, err)
	spares := 0
	for _, name := range names {
		if strings.HasPrefix(name, "spare-") {
			spares++
		}
	}
	// These are the segment in use, the prepared one, and the spares.
	if spares > 2 || len(names) > 4 {
		t.Fatalf("files left: %q", names)
	}
	sameBatches(t, reopened(t, o, first), "head 4", "tail")

	var corrupt *CorruptError
	if _, err := Open(o, 1, nil); !errors.As(err, &corrupt) {
		t.Fatalf("opening from a segment that was released: %v", err)
	}
}

// TestSegmentsGrow: a log begins with small segments, and so may each start. The more data the log
// has, the larger later segments are.
func TestSegmentsGrow(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.FirstSize, o.SegmentSize = 16<<10, 128<<10
	var want []string
	var sizes []int64
	for range 3 {
		l, got := opened(t, o, 0)
		sameBatches(t, got, want...)
		for range 10 {
			batch := strings.Repeat(string(rune('a'+len(want)%26)), 10_000)
			want = append(want, batch)
			l.Append([]byte(batch))
			must(t, l.Commit())
			// A log of little data keeps small segments, however often a checkpoint ends one.
			if len(want) == 1 {
				for range 5 {
					_, err := l.Rotate(nil)
					must(t, err)
					must(t, l.Commit())
					want = append(want, "")
				}
			}
		}
		must(t, l.Close())
	}
	names, err := mem.List(o.Dir)
	must(t, err)
	slices.Sort(names)
	for _, name := range names {
		f, err := mem.Open(o.path(name))
		must(t, err)
		size, err := f.Size()
		must(t, err)
		must(t, f.Close())
		sizes = append(sizes, size)
	}
	largest := int64(0)
	for i, size := range sizes {
		if i < 6 && size != o.FirstSize || size != o.FirstSize && size < largest {
			t.Errorf("the segments have %d bytes", sizes)
			break
		}
		largest = max(largest, size)
	}
	// The next segment is made in the background, so this one may be filled to any degree by then.
	if largest < o.SegmentSize/2 || largest > o.SegmentSize {
		t.Errorf("the largest segment has %d bytes", largest)
	}
}

func TestRotateKeepsOrderWithoutIO(t *testing.T) {
	var calls atomic.Int64
	o := options(vfs.Inject(vfs.NewMem(), func(vfs.Op, string, int64, int) error {
		calls.Add(1)
		return nil
	}))
	l, _ := opened(t, o, 0)
	calls.Store(0)
	l.Append([]byte("a"))
	n, err := l.Rotate([]byte("h"))
	must(t, err)
	l.Append([]byte("b"))
	m, err := l.Rotate(nil)
	must(t, err)
	if m != n+1 {
		t.Fatalf("segments %d and %d", n, m)
	}
	if n := calls.Load(); n != 0 {
		t.Fatalf("appending and rotating called the file system %d times", n)
	}
	must(t, l.Close())
	sameBatches(t, reopened(t, o, 0), "a", "h", "b", "")
	sameBatches(t, reopened(t, o, n), "h", "b", "")
	sameBatches(t, reopened(t, o, m), "")
}

func TestCommitAsync(t *testing.T) {
	var reported atomic.Uint64
	o := options(vfs.NewMem())
	o.OnDurable = func(lsn uint64) { raise(&reported, lsn) }
	l, _ := opened(t, o, 0)
	lsn := l.Append([]byte("a"))
	l.CommitAsync()
	await.Until(t, "OnDurable after CommitAsync", func() bool { return reported.Load() >= lsn })
	if l.Synced() < lsn {
		t.Fatal("reported before it was synced")
	}
	must(t, l.Close())
}

// TestAppendGoesOnDuringSync holds a sync and appends meanwhile. The second buffer takes the new
// batch. A commit that the running sync does not cover waits for a sync of its own.
func TestAppendGoesOnDuringSync(t *testing.T) {
	syncing, goOn := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	fsys := vfs.Inject(vfs.NewMem(), func(op vfs.Op, name string, _ int64, _ int) error {
		if op == vfs.OpSync && armed.CompareAndSwap(true, false) {
			close(syncing)
			<-goOn
		}
		return nil
	})
	l, _ := opened(t, options(fsys), 0)
	l.Append([]byte("0"))
	must(t, l.Commit())
	// Wait, so that the next sync is that of the commit and not that of a new segment.
	await.Until(t, "the next segment", l.prepared)
	first := l.Append([]byte("a"))
	armed.Store(true)
	l.CommitAsync()
	await.For(t, "the sync", syncing)
	second := l.Append([]byte("b"))
	n, err := l.Rotate([]byte("c"))
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- l.Commit() }()
	if l.Durable() >= first || second <= first || n == 0 {
		t.Fatal("durable while its sync is held")
	}
	close(goOn)
	must(t, await.For(t, "the commit ends", done))
	if l.Durable() < second {
		t.Fatal("Commit returned before its batch was durable")
	}
	must(t, l.Close())
}

func (l *Log) prepared() bool {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	return l.segMu.ready != nil
}

func TestEverySecSyncsEachSecond(t *testing.T) {
	o := options(vfs.NewMem())
	fake := clock.NewFake(1000)
	o.Clock, o.Policy = fake, EverySec
	l, _ := opened(t, o, 0)
	lsn := l.Append([]byte("a"))
	must(t, l.Commit())
	if l.Durable() != lsn || l.Synced() == lsn {
		t.Fatalf("after Commit: durable %d, synced %d, end %d", l.Durable(), l.Synced(), lsn)
	}
	await.Until(t, "the sync of the second", func() bool {
		fake.Advance(time.Second)
		return l.Synced() == lsn
	})
	// With the policy No, only those who ask get a sync.
	l.SetPolicy(No)
	lsn = l.Append([]byte("b"))
	must(t, l.Commit())
	must(t, l.Settled(context.Background(), lsn))
	if l.Synced() < lsn {
		t.Fatal("Settled came back early")
	}
	lsn = l.Append([]byte("c"))
	must(t, l.Settled(context.Background(), lsn)) // writes it, too
	l.Append([]byte("d"))
	must(t, l.Commit())
	l.SetPolicy(Always)
	await.Until(t, "the sync after a change to always", func() bool {
		return l.Synced() == l.End()
	})
	must(t, l.Close())
	sameBatches(t, reopened(t, o, 0), "a", "b", "c", "d")
}

func TestSettled(t *testing.T) {
	l, _ := opened(t, options(vfs.NewMem()), 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Settled(ctx, l.End()+1); err != ErrBeyondEnd {
		t.Errorf("beyond the end: %v", err)
	}
	must(t, l.Settled(ctx, l.End()))
	must(t, l.Close())
	if err := l.Settled(context.Background(), l.End()); err != nil {
		t.Errorf("of something durable, after Close: %v", err)
	}
}

func TestManyAppenders(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	var reported atomic.Uint64
	o.OnDurable = func(lsn uint64) { raise(&reported, lsn) }
	l, _ := opened(t, o, 0)
	const appenders, each = 4, 150
	var g sync.WaitGroup
	for a := range appenders {
		g.Go(func() {
			for i := range each {
				lsn := l.Append(fmt.Appendf(nil, "%d %d %s", a, i, strings.Repeat("p", i)))
				switch i % 4 {
				case 0:
					l.CommitAsync()
				case 1:
					if err := l.Settled(context.Background(), lsn); err != nil || l.Synced() < lsn {
						t.Errorf("Settled: %v", err)
					}
				case 2:
					if err := l.Commit(); err != nil || l.Durable() < lsn {
						t.Errorf("Commit: %v", err)
					}
				}
				if a == 0 && i%40 == 39 {
					if _, err := l.Rotate([]byte("head")); err != nil {
						t.Error(err)
					}
				}
				if a == 1 && i%50 == 0 {
					l.SetPolicy(Policy(i / 50))
				}
				_, _, _ = l.Size(), l.Full(), l.SyncCost()
			}
		})
	}
	g.Wait()
	must(t, l.Close())
	if reported.Load() < l.Durable() {
		t.Errorf("OnDurable reported %d, durable is %d", reported.Load(), l.Durable())
	}
	next := make([]int, appenders)
	for _, b := range reopened(t, o, 0) {
		if b == "head" {
			continue
		}
		var a, i int
		if _, err := fmt.Sscanf(b, "%d %d", &a, &i); err != nil || next[a] != i {
			t.Fatalf("batch %.20q out of order: want number %d of %d (%v)", b, next[a], a, err)
		}
		next[a]++
	}
	for a, n := range next {
		if n != each {
			t.Errorf("appender %d: %d batches, want %d", a, n, each)
		}
	}
}

// TestHugeBatchMemory appends a batch far larger than a frame. Its memory must be little more than
// that of one copy.
func TestHugeBatchMemory(t *testing.T) {
	size := 64 << 20
	if testing.Short() {
		size = 16 << 20
	}
	o := options(vfs.OS)
	o.Dir = t.TempDir()
	o.SegmentSize = 8 << 20
	l, _ := opened(t, o, 0)
	batch := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	allocated := func(f func()) int {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc)
	}
	if n := allocated(func() { l.Append(batch) }); n > size+size/4 {
		t.Errorf("appending %d bytes allocates %d", size, n)
	}
	must(t, l.Commit())
	held := 0
	l.mu.Lock()
	for _, b := range l.mu.tail.buffers {
		held += cap(b)
	}
	l.mu.Unlock()
	if held > keepBuffers*keepBuffer {
		t.Errorf("%d bytes of buffers held after a large batch", held)
	}
	must(t, l.Close())
	same := false
	n := allocated(func() {
		var err error
		l, err = Open(o, 0, func(_ uint64, b []byte) error {
			same = bytes.Equal(b, batch)
			return nil
		})
		must(t, err)
	})
	if !same || n > size+size/4+4*int(o.SegmentSize) {
		t.Errorf("recovered the same: %v; recovering %d bytes allocates %d", same, size, n)
	}
	must(t, l.Close())
}
