package raftlog

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/consensus"
	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// BenchmarkSync appends and syncs an entry with one or more commands of 130 bytes, with raftlog and
// with the wal alone. With TMPDIR on a file system in memory, it measures only processor time.
func BenchmarkSync(b *testing.B) {
	for _, commands := range []int{1, 25, 350} {
		open := func(b *testing.B) wal.Options {
			return wal.Options{FS: vfs.OS, Dir: b.TempDir() + "/raft", Clock: clock.System}
		}
		data := bytes.Repeat([]byte("x"), 130*commands)
		name := fmt.Sprint(commands)
		b.Run(name+"/wal", func(b *testing.B) {
			l, err := wal.Open(open(b), 0, nil)
			must(b, err)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				l.Append(data)
				must(b, l.Commit())
			}
			must(b, l.Close())
		})
		b.Run(name+"/raftlog", func(b *testing.B) {
			l, _ := created(b, open(b))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			index := uint64(1)
			done := make(chan error, 1)
			finish := func(err error) { done <- err }
			for b.Loop() {
				index++
				e := entryOf(index, 2, "")
				e.Data = data
				l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(2)),
					Vote: new(uint64(2)), Commit: new(index - 1)}, Entries: []*pb.Entry{e}})
				l.Sync(finish)
				must(b, <-done)
			}
			must(b, l.Close())
		})
	}
}

// BenchmarkMemory fills a log with 10 million entries of 100 bytes, opens it, and reads it. It
// reports how much memory that takes.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		o := wal.Options{FS: vfs.OS, Dir: b.TempDir() + "/raft", Clock: clock.System}
		l, first := created(b, o)
		heap := func() float64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc) / (1 << 20)
		}
		before := heap()
		const entries = 10_000_000
		for index := uint64(2); index < entries+2; index++ {
			e := entryOf(index, 2, "")
			e.Data = bytes.Repeat([]byte("x"), 100)
			l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(2)), Vote: new(uint64(2)),
				Commit: new(index - 1)}, Entries: []*pb.Entry{e}})
			if index%1000 == 0 {
				synced(b, l)
			}
		}
		synced(b, l)
		b.ReportMetric(heap()-before, "MiB-filled")
		b.ReportMetric(float64(l.Size())/(1<<20), "MiB-log")
		must(b, l.Close())
		began := clock.System.Mono()
		l, err := Open(o, first)
		must(b, err)
		b.ReportMetric((clock.System.Mono() - began).Seconds(), "s-open")
		b.ReportMetric(heap()-before, "MiB-opened")
		began = clock.System.Mono()
		read := uint64(0)
		for lo := uint64(2); lo <= l.Last(); {
			list, err := l.Entries(lo, l.Last()+1, 1<<20)
			must(b, err)
			lo += uint64(len(list))
			read += uint64(len(list))
		}
		b.ReportMetric((clock.System.Mono() - began).Seconds(), "s-read")
		if read != entries {
			b.Errorf("%d entries are read", read)
		}
		must(b, l.Close())
	}
}
