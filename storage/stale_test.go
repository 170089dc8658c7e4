package storage

import (
	"bytes"
	"fmt"
	"testing"

	"keyp/ttl"
)

// TestStampAfterMoves: at its end a transaction stores its LSN in each key that it has written.
// Here the keys have moved in memory or are gone by then, and their old memory has other keys.
// These must not be overwritten.
func TestStampAfterMoves(t *testing.T) {
	h := newHarness(t)
	const keys, rounds = 8, 6
	h.doAll(func(x *Txn) {
		for round := range rounds {
			for i := range keys * 60 {
				h.put(x, fmt.Sprint("k", i), 20+round*37)
			}
			for i := range keys * 60 {
				x.Delete(h.s.Key(0, fmt.Append(nil, "k", i)), Deleted)
			}
		}
		for i := range keys * 60 {
			h.put(x, fmt.Sprint("last", i), 900)
		}
	})
	h.doAll(func(x *Txn) {
		for i := range keys * 60 {
			item, ok := x.Get(h.s.Key(0, fmt.Append(nil, "last", i)))
			if value, err := item.String(); !ok || err != nil ||
				!bytes.Equal(value, bytes.Repeat([]byte("x"), 900)) {
				t.Fatalf("last%d: %q, %v", i, value, err)
			}
			if item.b.LSN() == 0 {
				t.Fatalf("last%d has no LSN", i)
			}
		}
	})
	if err := h.s.Check(); err != nil {
		t.Error(err)
	}
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) put(x *Txn, key string, size int) {
	x.SetString(h.s.Key(0, []byte(key)), bytes.Repeat([]byte("x"), size), ttl.Deadline{}, Event{})
}
