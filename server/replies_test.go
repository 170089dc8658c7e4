package server

import (
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage"
)

// TestReplyTimes: the time that clients wait for replies is counted for reads and writes apart, and
// includes the sync that a reply needs. Clients that wait for other clients, or want no reply, do
// not count.
func TestReplyTimes(t *testing.T) {
	const sync = 40 * time.Millisecond
	clk := clock.NewFake(1_700_000_000_000)
	var slow atomic.Bool
	ts := start(t, func(o *storage.Options) {
		o.Clock = clk
		o.FS = vfs.Inject(vfs.OS, func(op vfs.Op, _ string, _ int64, _ int) error {
			if op == vfs.OpSync && slow.Load() {
				clk.Advance(sync)
			}
			return nil
		})
	})
	c, other := ts.dial(), ts.dial()
	reads, writes := ts.env.Replies.Reads, ts.env.Replies.Writes
	had := reads.Read().Count
	for range 3 {
		c.send("GET none\nEXISTS a b\nPING\n")
		c.expect("$-1", ":0", "+PONG")
	}
	counted := func(r, w uint64) { // a reply is counted just after it has left
		t.Helper()
		await.Until(t, "the replies are counted", func() bool {
			return reads.Read().Count >= had+r && writes.Read().Count >= w
		})
		if got, wrote := reads.Read().Count-had, writes.Read().Count; got != r || wrote != w {
			t.Errorf("%d reads and %d writes are counted, want %d and %d", got, wrote, r, w)
		}
	}
	counted(9, 0)
	slow.Store(true)
	c.send("SET a 1\nINCR a\nMULTI\nGET a\nEXEC\n")
	c.expect("+OK", ":2", "+OK", "+QUEUED", "*1 2")
	slow.Store(false)
	counted(11, 3)
	if w := writes.Read(); time.Duration(w.Sum)*time.Microsecond < 3*sync {
		t.Errorf("%d writes took %d us, want at least %v each", w.Count, w.Sum, sync)
	}
	c.send("CLIENT REPLY OFF\nGET a\nCLIENT REPLY ON\nBLPOP list 0\n")
	c.expect("+OK")
	other.do("RPUSH list x")
	c.expect("*2 list x")
	counted(12, 4)
}
