package wal

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
)

// appendOnly returns a log without files, and a function that empties its buffer of batches.
func appendOnly() (l *Log, drop func()) {
	l = &Log{}
	l.mu.tail = newTail(1, 1, firstLSN, DefaultSegmentSize, segmentSizes{first: DefaultSegmentSize,
		fitting: func() int64 { return DefaultSegmentSize }}, rand.Uint64)
	return l, func() {
		l.mu.Lock()
		l.mu.tail.give(l.mu.tail.take())
		l.mu.Unlock()
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	l, drop := appendOnly()
	batch := bytes.Repeat([]byte("x"), 100)
	work := func() {
		for range 50 {
			l.Append(batch)
		}
		drop()
	}
	work()
	work() // both lists have been in use now
	if n := testing.AllocsPerRun(100, work); n > 0 {
		t.Errorf("50 appends and a take allocate %v times", n)
	}
}

func BenchmarkAppend100(b *testing.B) {
	l, drop := appendOnly()
	batch := bytes.Repeat([]byte("x"), 100)
	b.ReportAllocs()
	b.SetBytes(100)
	for i := 0; b.Loop(); i++ {
		l.Append(batch)
		if i%50 == 49 {
			drop()
		}
	}
}

func onDisk(b *testing.B) *Log {
	o := options(vfs.OS)
	o.Dir, o.SegmentSize = b.TempDir(), DefaultSegmentSize
	l, _ := opened(b, o, 0)
	b.Cleanup(func() { must(b, l.Close()) })
	return l
}

// recycle makes l write into a segment that has had an earlier life.
func recycle(b *testing.B, l *Log) {
	for range 3 {
		n, err := l.Rotate(nil)
		must(b, err)
		must(b, l.Settled(context.Background(), l.End()))
		must(b, l.Release(n))
		await.Until(b, "the next segment", l.prepared)
	}
}

func benchmarkCommit(b *testing.B, policy Policy, batches, size int) {
	l := onDisk(b)
	l.SetPolicy(policy)
	recycle(b, l)
	batch := bytes.Repeat([]byte("x"), size)
	b.ReportAllocs()
	b.SetBytes(int64(batches * size))
	var took []time.Duration // a mean says little on a machine that does other things
	for i := 0; b.Loop(); i++ {
		for range batches {
			l.Append(batch)
		}
		began := time.Now()
		must(b, l.Commit())
		took = append(took, time.Since(began))
		if l.Size() > 2*DefaultSegmentSize {
			b.StopTimer()
			recycle(b, l)
			b.StartTimer()
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/10].Nanoseconds())/1000, "us/p10")
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "us/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "us/p99")
}

// A commit of 50 SETs of 100 bytes, 6 KB in all, with its fdatasync.
func BenchmarkCommit50(b *testing.B) { benchmarkCommit(b, Always, 50, 110) }

// The same without a sync, to measure the cost of the log itself.
func BenchmarkWrite50(b *testing.B) { benchmarkCommit(b, No, 50, 110) }

func BenchmarkCommitOne(b *testing.B) { benchmarkCommit(b, Always, 1, 110) }

func BenchmarkCommit1MiB(b *testing.B) { benchmarkCommit(b, Always, 1, 1<<20) }

func BenchmarkReplay(b *testing.B) {
	o := options(vfs.OS)
	o.Dir, o.SegmentSize = b.TempDir(), DefaultSegmentSize
	l, _ := opened(b, o, 0)
	batch := bytes.Repeat([]byte("x"), 110)
	const batches = 400_000
	for range batches {
		l.Append(batch)
	}
	must(b, l.Close())
	b.SetBytes(batches * 110)
	for b.Loop() {
		n := 0
		report, err := Check(o, 0, func(uint64, []byte) error { n++; return nil })
		if err != nil || n != batches || report.Batches != batches {
			b.Fatalf("%d batches, %v", n, err)
		}
	}
}
