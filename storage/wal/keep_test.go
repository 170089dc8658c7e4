package wal

import (
	"bytes"
	"testing"

	"keyp/internal/vfs"
)

// cut divides a batch into pieces of n bytes, with an empty piece after each but the last.
func cut(batch []byte, n int) (list [][]byte) {
	for ; len(batch) > n; batch = batch[n:] {
		list = append(list, batch[:n], nil)
	}
	return append(list, batch)
}

// TestAppendKeepingCopiesLater: appending a large batch whose bytes the log may keep copies only a
// small part of it. The whole batch is written.
func TestAppendKeepingCopiesLater(t *testing.T) {
	o := options(vfs.NewMem())
	o.SegmentSize = 4 << 20
	l, _ := opened(t, o, 0)
	batch := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	l.Append([]byte("before"))
	l.AppendKeeping(cut(batch, 100_000))
	l.Append([]byte("behind"))
	held := 0
	for i := range l.mu.tail.chunks {
		held += cap(l.mu.tail.chunks[i].buf)
	}
	if held > 3*maxPayload {
		t.Errorf("the log has %d bytes of its own for a batch of %d", held, len(batch))
	}
	must(t, l.Commit())
	must(t, l.Close())
	l, batches := opened(t, o, 0)
	sameBatches(t, batches, "before", string(batch), "behind")
	must(t, l.Close())
}
