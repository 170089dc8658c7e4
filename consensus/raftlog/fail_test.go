package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/consensus"
	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// put appends an entry in term 2.
func put(l *Log, index uint64, size int) {
	l.Append(consensus.Write{
		Hard:    &pb.HardState{Term: new(uint64(2)), Vote: new(uint64(2)), Commit: new(index - 1)},
		Entries: []*pb.Entry{entryOf(index, 2, strings.Repeat("d", size))},
	})
}

// TestFailures makes each operation of the disk fail in turn while a member works. From then on
// every Sync fails. Afterwards the log has the first of the appended entries, including all whose
// Sync was done.
func TestFailures(t *testing.T) {
	const writes = 30
	for _, failing := range []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir,
		vfs.OpRename, vfs.OpCreate} {
		for n, more := 1, true; more; n++ {
			more = failAt(t, failing, n, writes)
			if n > 400 {
				t.Fatal("no end")
			}
		}
	}
}

// failAt makes the nth operation of a kind fail, and reports whether there were so many.
func failAt(t *testing.T, failing vfs.Op, n, writes int) bool {
	mem := vfs.NewMem()
	o := options(mem)
	o.NoBackground, o.Logger = true, slog.New(slog.NewTextHandler(io.Discard, nil))
	first, err := Create(o, Identity{"cluster", 1, 2}, testBase)
	must(t, err)
	count := 0
	o.FS = vfs.Inject(mem, func(op vfs.Op, _ string, _ int64, size int) error {
		if op != failing {
			return nil
		}
		if count++; count < n {
			return nil
		}
		if op == vfs.OpWrite {
			return &vfs.ShortWrite{N: size / 2, Err: syscall.EIO}
		}
		return syscall.EIO
	})
	what := fmt.Sprintf("%v %d", failing, n)
	synced, broken := uint64(1), false
	l, err := Open(o, first)
	if err == nil {
		for i := 2; i < writes; i++ {
			put(l, uint64(i), i*50)
			l.Sync(func(err error) {
				switch {
				case err == nil && broken:
					t.Errorf("%s: a sync is done after one has failed", what)
				case err == nil:
					synced = uint64(i)
				default:
					broken = true
				}
			})
			if l.SyncedIndex() < synced {
				t.Errorf("%s: entry %d is synced, and it was %d", what, l.SyncedIndex(), synced)
			}
			if i%10 == 0 {
				base := testBase
				base.Index, base.Term = uint64(i-2), 2
				if segment, err := l.Rotate(base); err == nil && l.Settled(context.Background(),
					l.End()) == nil {
					first, synced = segment, uint64(i)
					_ = l.Release(segment) // it may fail, and the next one releases the segments
				}
			}
		}
		if broken && l.Err() == nil {
			t.Errorf("%s: the log has not ended", what)
		}
		if err := l.Close(); err == nil && broken {
			t.Errorf("%s: the log closes without an error", what)
		}
	}
	o.FS = mem.Crash(rand.New(rand.NewPCG(setup.Seed, uint64(n))))
	after, err := Open(o, first)
	must(t, err)
	if after.Last() < synced || after.Last() > uint64(writes) {
		t.Errorf("%s: the last entry is %d, and %d was synced", what, after.Last(), synced)
	}
	if lo := after.Base().Index + 1; lo <= after.Last() {
		list, err := after.Entries(lo, after.Last()+1, 1<<30)
		if err != nil || len(list) != int(after.Last()+1-lo) {
			t.Errorf("%s: %d entries, %v", what, len(list), err)
		}
		for i, e := range list {
			if len(e.Data) != int(lo+uint64(i))*50 {
				t.Errorf("%s: entry %d has %d bytes", what, e.GetIndex(), len(e.Data))
			}
		}
	}
	must(t, after.Close())
	return count >= n
}

// TestDoneOnce: a Sync without anything new does no I/O. A change of only the commit index does not
// count as new.
func TestDoneOnce(t *testing.T) {
	o := options(vfs.NewMem())
	o.NoBackground = true
	operations := 0
	o.FS = vfs.Inject(o.FS, func(op vfs.Op, _ string, _ int64, _ int) error {
		operations++
		return nil
	})
	l, first := created(t, o)
	put(l, 2, 10)
	synced(t, l)
	operations = 0
	synced(t, l)
	l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(2)), Vote: new(uint64(2)),
		Commit: new(uint64(2))}})
	synced(t, l)
	if operations > 0 || l.Hard().GetCommit() != 2 {
		t.Errorf("%d operations, committed %d", operations, l.Hard().GetCommit())
	}
	l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(3)), Vote: new(uint64(0)),
		Commit: new(uint64(2))}})
	synced(t, l)
	if operations == 0 {
		t.Error("a term is not written")
	}
	must(t, l.Close())
	l, err := Open(o, first)
	must(t, err)
	if h := l.Hard(); h.GetCommit() != 2 || h.GetTerm() != 3 || h.GetVote() != 0 {
		t.Errorf("%v", h) // the commit index went with the term
	}
	l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(3)), Vote: new(uint64(0)),
		Commit: new(uint64(2))}, Entries: []*pb.Entry{entryOf(3, 3, "d")}})
	l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(3)), Vote: new(uint64(0)),
		Commit: new(uint64(3))}})
	l.Append(consensus.Write{Entries: []*pb.Entry{entryOf(4, 3, "d")}})
	synced(t, l)
	must(t, l.Close())
	l, err = Open(o, first)
	must(t, err)
	if h := l.Hard(); h.GetCommit() != 3 {
		t.Errorf("%v", h) // the commit index went with the entry
	}
	must(t, l.Close())
}

// slowDisk is a disk whose syncs wait for the test.
type slowDisk struct {
	mu struct {
		sync.Mutex
		gate chan struct{} // syncs wait for it; nil: they do not
	}
}

func (d *slowDisk) hook(op vfs.Op, _ string, _ int64, _ int) error {
	d.mu.Lock()
	gate := d.mu.gate
	d.mu.Unlock()
	if op == vfs.OpSync && gate != nil {
		<-gate
	}
	return nil
}

func (d *slowDisk) hold() (let func()) {
	gate := make(chan struct{})
	d.mu.Lock()
	d.mu.gate = gate
	d.mu.Unlock()
	return func() {
		d.mu.Lock()
		d.mu.gate = nil
		d.mu.Unlock()
		close(gate)
	}
}

// TestSlowSync: with a slow disk, Sync returns before the data is on disk, and another goroutine
// calls done. With a fast disk, Sync calls done before it returns.
func TestSlowSync(t *testing.T) {
	disk, fake := &slowDisk{}, clock.NewFake(1)
	o := options(vfs.Inject(vfs.NewMem(), disk.hook))
	o.Clock = fake
	durable := make(chan uint64, 1000)
	o.OnDurable = func(lsn uint64) { durable <- lsn }
	l, _ := created(t, o)
	early := false
	put(l, 2, 10)
	if l.Sync(func(err error) { early = err == nil }); !early {
		t.Fatal("a fast sync is not done when Sync returns")
	}
	busy := true
	l.SetBusy(func() bool { return busy })
	// sync calls Sync, which leaves the sync to another goroutine.
	sync := func(done chan error) {
		t.Helper()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			l.Sync(func(err error) { done <- err })
		}()
		await.For(t, "Sync to return", returned)
	}
	done := make(chan error, 1)
	for i, size := range []int{10, largeCommit + 1} {
		let := disk.hold()
		put(l, uint64(3+i), size)
		sync(done)
		select {
		case err := <-done:
			t.Fatalf("done before the disk has it: %v", err)
		default:
		}
		if got := l.SyncedIndex(); got != uint64(2+i) {
			t.Errorf("%d is synced", got)
		}
		let()
		must(t, await.For(t, "the sync", done))
		if got := l.SyncedIndex(); got != uint64(3+i) {
			t.Errorf("%d is synced", got)
		}
		busy = false // the second one is large
	}
	await.For(t, "OnDurable", durable)
	// A log whose syncs were slow leaves the sync to another goroutine.
	let := disk.hold()
	put(l, 5, 10)
	ended := make(chan error, 1)
	go func() { l.Sync(func(err error) { ended <- err }) }()
	await.Until(t, "the sync waits", func() bool { return l.wal.Durable() < l.End() })
	fake.Advance(time.Second)
	let()
	must(t, await.For(t, "the sync", ended))
	if l.SyncCost() > slowSync {
		let := disk.hold()
		put(l, 6, 10)
		sync(ended)
		let()
		must(t, await.For(t, "the sync", ended))
	}
	must(t, l.Close())
}

// TestPacedSync: Sync waits as long as the pace demands for the bytes that it has written. It calls
// done once.
func TestPacedSync(t *testing.T) {
	l, _ := created(t, options(vfs.NewMem()))
	var paced uint64
	l.SetPace(func(bytes uint64) time.Duration { paced += bytes; return time.Microsecond })
	done := make(chan error, 2)
	for i, size := range []int{10, largeCommit + 1} {
		put(l, uint64(2+i), size)
		from := l.wal.Durable()
		l.Sync(func(err error) { done <- err })
		must(t, await.For(t, "the sync", done))
		if paced != l.wal.Durable()-from || paced <= uint64(size) {
			t.Errorf("it waits for %d bytes, and wrote %d", paced, l.wal.Durable()-from)
		}
		paced = 0
		l.Sync(func(err error) { done <- err }) // nothing to write
		must(t, await.For(t, "the sync", done))
		if paced != 0 || len(done) > 0 {
			t.Errorf("it waits for %d bytes more, and said so %d times more", paced, len(done))
		}
	}
	l.SetPace(func(uint64) time.Duration { return time.Hour })
	put(l, 4, 10)
	l.Sync(func(err error) { done <- err })
	await.Until(t, "the disk", func() bool { return l.wal.Durable() >= l.End() })
	if len(done) > 0 {
		t.Error("it does not wait")
	}
	must(t, l.Close())
}

// TestFailedSyncLater: an error on the wal's own goroutine ends the Sync that waits for it.
func TestFailedSyncLater(t *testing.T) {
	broken := make(chan struct{})
	o := options(vfs.Inject(vfs.NewMem(), func(op vfs.Op, _ string, _ int64, _ int) error {
		select {
		case <-broken:
			if op == vfs.OpWrite {
				return syscall.EIO
			}
		default:
		}
		return nil
	}))
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	failed := make(chan error, 1)
	o.OnFail = func(err error) { failed <- err }
	l, _ := created(t, o)
	l.SetBusy(func() bool { return true })
	close(broken)
	put(l, 2, 10)
	done := make(chan error, 1)
	l.Sync(func(err error) { done <- err })
	if err := await.For(t, "the sync", done); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := await.For(t, "OnFail", failed); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	put(l, 3, 10)
	l.Sync(func(err error) { done <- err })
	if err := await.For(t, "the sync", done); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

// TestFullDisk: a log waits while the disk is full, and continues when there is room. After GiveUp
// it does not wait.
func TestFullDisk(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprint(giveUp), func(t *testing.T) {
			mem, fake := vfs.NewMem(), clock.NewFake(1)
			o := options(mem)
			o.Clock, o.Logger = fake, slog.New(slog.NewTextHandler(io.Discard, nil))
			l, first := created(t, o)
			mem.SetFree(0)
			done := make(chan error, 1)
			index := uint64(3)
			put(l, 2, 500) // in the segment that the opening has prepared
			synced(t, l)
			await.Until(t, "there is no room for another one", l.Full)
			for range 40 { // more than what is prepared has room for
				put(l, index, 500)
				index++
			}
			l.Sync(func(err error) { done <- err })
			select {
			case err := <-done:
				t.Fatalf("done without room: %v", err)
			default:
			}
			if giveUp {
				l.GiveUp()
				if err := await.For(t, "the sync", done); !errors.Is(err, wal.ErrNoRoom) {
					t.Error(err)
				}
				put(l, index, 500)
				l.Sync(func(err error) { done <- err })
				if err := await.For(t, "the next sync", done); !errors.Is(err, wal.ErrNoRoom) {
					t.Error(err)
				}
				if err := l.Close(); !errors.Is(err, wal.ErrNoRoom) {
					t.Error(err)
				}
				mem.SetFree(1 << 30)
			} else {
				mem.SetFree(1 << 30)
				await.Until(t, "room", func() bool {
					fake.Advance(100 * time.Millisecond)
					return len(done) > 0
				})
				must(t, <-done)
				must(t, l.Close())
			}
			o.Clock = clock.System
			l, err := Open(o, first)
			must(t, err)
			if !giveUp && l.Last() != index-1 || l.Last() < 2 {
				t.Errorf("the last entry is %d of %d", l.Last(), index-1)
			}
			must(t, l.Close())
		})
	}
}

// TestBeside reads entries, rotates and releases segments, and syncs, while entries are appended.
func TestBeside(t *testing.T) {
	o := options(vfs.NewMem())
	l, _ := created(t, o)
	l.mu.limit = 4 << 10
	data := func(i uint64) string { return strings.Repeat(fmt.Sprint(i), int(i%50)+1) }
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for n := range 2 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(n)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				base, last := l.Base().Index, l.Last()
				if base == last {
					continue
				}
				lo := base + 1 + random.Uint64N(last-base)
				list, err := l.Entries(lo, last+1, 2000)
				if err != nil {
					if l.Base().Index < lo {
						t.Errorf("entry %d: %v", lo, err)
					}
					continue
				}
				for i, e := range list {
					if e.GetIndex() != lo+uint64(i) || string(e.Data) != data(e.GetIndex()) {
						t.Errorf("entry %d is %d %.20q", lo+uint64(i), e.GetIndex(), e.Data)
						return
					}
				}
			}
		})
	}
	for i := uint64(2); i < 3000; i++ {
		l.Append(consensus.Write{
			Hard:    &pb.HardState{Term: new(uint64(2)), Vote: new(uint64(2)), Commit: new(i - 1)},
			Entries: []*pb.Entry{entryOf(i, 2, data(i))},
		})
		synced(t, l)
		if i%200 == 0 {
			base := testBase
			base.Index, base.Term = i-uint64(i%7), 2
			segment, err := l.Rotate(base)
			must(t, err)
			must(t, l.Settled(await.Context(t), l.End()))
			must(t, l.Release(segment))
		}
	}
	close(stop)
	readers.Wait()
	if base := l.Base().Index; base < 2500 {
		t.Errorf("the log begins with %d", base)
	}
	must(t, l.Close())
}
