package server

import (
	"context"
	"sync"
	"testing"

	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/storage/wal"
)

// replicated is a log in which the test controls the commits. Synced entries are not durable before
// they are committed.
type replicated struct {
	*wal.Log
	onDurable func(uint64)
	mu        sync.Mutex
	changed   *sync.Cond
	free      bool   // all that is synced is committed
	committed uint64 // as long as free is false
	deposed   bool
}

// use is a setting.
func (r *replicated) use(o *storage.Options) {
	o.OpenLog = func(o wal.Options, from storage.LogPosition,
		replay func(uint64, []byte) error) (storage.Journal, error) {
		r.onDurable, r.changed, r.free = o.OnDurable, sync.NewCond(&r.mu), true
		log, err := wal.Open(o, from.Segment, replay)
		r.Log = log
		return r, err
	}
}

// hold stops the commits. The first call of release commits everything again.
func (r *replicated) hold() (release func()) {
	r.change(func() { r.free, r.committed = false, r.Log.Durable() })
	return sync.OnceFunc(func() { r.change(func() { r.free = true }) })
}

// commitTo commits everything before lsn.
func (r *replicated) commitTo(lsn uint64) { r.change(func() { r.committed = lsn }) }

// depose sets whether another server leads now.
func (r *replicated) depose(deposed bool) { r.change(func() { r.deposed = deposed }) }

func (r *replicated) change(fn func()) {
	r.mu.Lock()
	fn()
	r.changed.Broadcast()
	r.mu.Unlock()
	r.onDurable(r.Durable())
}

func (r *replicated) Durable() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free {
		return r.Log.Durable()
	}
	return min(r.committed, r.Log.Durable())
}

func (r *replicated) Settled(ctx context.Context, lsn uint64) error {
	if err := r.Log.Settled(ctx, lsn); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.free && r.committed < lsn {
		if r.deposed {
			return storage.ErrDeposed
		}
		r.changed.Wait()
	}
	return nil
}

// awaitSynced waits until the log is synced to its end, and returns the end.
func (r *replicated) awaitSynced(t *testing.T) (end uint64) {
	t.Helper()
	await.Until(t, "the log is synced", func() bool {
		end = r.End()
		return r.Synced() == end
	})
	return end
}

// TestRepliesWaitForCommit: a write that is on disk but not committed is not acknowledged, and no
// reply shows it. A commit releases exactly the replies of committed writes.
func TestRepliesWaitForCommit(t *testing.T) {
	for _, slow := range []bool{false, true} {
		d, r := &disk{}, &replicated{}
		ts := start(t, d.use, r.use)
		reader, seer, counter, sub, blocked, c := ts.dial(), ts.dial(), ts.dial(), ts.dial(),
			ts.dial(), ts.dial()
		reader.do("SET clean 1")
		sub.do("SUBSCRIBE news")
		if slow {
			slowDisk(t, ts, d)
		}
		blocked.send("BLPOP list 0\n")
		waitBlocked(ts, 1)
		release := r.hold()
		t.Cleanup(release) // else the server could not end

		waiting := func(n int) {
			t.Helper()
			await.Until(t, "replies wait", func() (waits bool) {
				ts.onLoop(func(l *loop) { waits = len(l.waiting) == n })
				return waits
			})
		}
		c.send("SET a 1\n")
		waiting(1)
		first := r.awaitSynced(t)
		seer.send("GET a\nGET clean\n")
		waiting(2)
		c.send("MULTI\nSET b 1\nPUBLISH news b\nEXEC\nRPUSH list x\n")
		waiting(4) // and the subscriber and who takes the element
		counter.send("DBSIZE\n")
		waiting(5)
		r.awaitSynced(t)
		for range 20 {
			if got := reader.do("GET clean"); got != "1" {
				t.Fatal(got)
			}
		}
		for _, waits := range []*client{c, seer, counter, sub, blocked} {
			waits.silent(ts)
		}
		r.commitTo(first)
		c.expect("+OK", "+OK", "+QUEUED", "+QUEUED") // and what EXEC does is not committed
		seer.expect("1", "1")
		for _, waits := range []*client{c, counter, sub, blocked} {
			waits.silent(ts)
		}
		release()
		c.expect("*2 +OK :1", ":1")
		if got := counter.reply(); got[0] != ':' {
			t.Error(got)
		}
		sub.expect("*3 message news b")
		blocked.expect("*2 list x")
	}
}

// TestWAITAOFWaitsForCommit: WAITAOF reports a write as on disk only if it cannot be lost any more.
func TestWAITAOFWaitsForCommit(t *testing.T) {
	r := &replicated{}
	ts := start(t, r.use)
	c, other := ts.dial(), ts.dial()
	release := r.hold()
	t.Cleanup(release)
	c.send("CLIENT REPLY OFF\nSET a 1\nCLIENT REPLY ON\n")
	c.expect("+OK")
	await.Until(t, "the write has run", func() bool { return r.End() > r.Durable() })
	c.send("WAITAOF 1 0 0\n")
	waitBlocked(ts, 1)
	r.awaitSynced(t)
	other.send("WAITAOF 1 0 1\n")
	other.expect("*2 :0 :0") // the time is up
	c.silent(ts)
	release()
	c.expect("*2 :1 :0")

	release = r.hold() // and now another server comes to lead
	t.Cleanup(release)
	c.send("CLIENT REPLY OFF\nSET a 2\nCLIENT REPLY ON\n")
	c.expect("+OK")
	await.Until(t, "the write has run", func() bool { return r.End() > r.Durable() })
	c.send("WAITAOF 1 0 0\n")
	waitBlocked(ts, 1)
	r.depose(true)
	c.expect("*2 :0 :0")
	r.depose(false)
	release()
	if got := c.do("WAITAOF 1 0 0"); got != "*2 :1 :0" {
		t.Errorf("when all is committed: %s", got)
	}
}

// TestSAVEWaitsForCommit: a checkpoint waits for the commit while others are served. If another
// server becomes the leader, the checkpoint is abandoned and the server goes on. A later checkpoint
// has all data.
func TestSAVEWaitsForCommit(t *testing.T) {
	r := &replicated{}
	ts := start(t, r.use)
	c, saver := ts.dial(), ts.dial()
	c.do("SET clean 1")
	release := r.hold()
	t.Cleanup(release)
	c.send("SET a 1\n")
	await.Until(t, "the write has run", func() bool { return r.End() > r.Durable() })
	saver.send("SAVE\n")
	await.Until(t, "SAVE runs", func() (runs bool) {
		ts.onLoop(func(l *loop) { runs = l.tasks.count == 1 })
		return runs
	})
	saver.silent(ts)
	if got := ts.dial().do("GET clean"); got != "1" {
		t.Error(got)
	}
	r.depose(true)
	if got, failed := saver.reply(), ts.store.FailedCheckpoints(); got[0] != '-' || failed != 1 {
		t.Errorf("SAVE replied %q, and %d checkpoints failed", got, failed)
	}
	if err := ts.store.Err(); err != nil {
		t.Fatalf("the store has failed: %v", err)
	}
	r.depose(false)
	release()
	c.expect("+OK")
	if got := saver.do("SAVE"); got != "+OK" {
		t.Errorf("when all is committed: %s", got)
	}
}
