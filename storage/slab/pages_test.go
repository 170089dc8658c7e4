package slab

import (
	"runtime"
	"testing"

	"keyp/internal/testkit/await"
)

// TestPagesReturn: an Allocator uses memory outside of Go's heap. The system gets it back when all
// of it is freed, when the Allocator is dropped, and when nothing refers to the Allocator any more.
func TestPagesReturn(t *testing.T) {
	if OnHeap {
		t.Skip("the race detector's build has pages on the heap")
	}
	fill := func() *Allocator {
		s := New()
		for range 3000 {
			s.Alloc(1000)
		}
		return &s
	}
	other := pages.bytes() // of stores that other tests left to the collector: it may fall
	s := fill()
	if s.inChunks < 3000*1000 || pages.bytes() < s.inChunks {
		t.Fatalf("%d bytes held, %d of pages", s.inChunks, pages.bytes())
	}
	s.Drop()
	if left := pages.bytes(); left > other {
		t.Errorf("%d bytes left after drop, %d before", left, other)
	}
	if s.inChunks != 0 || s.live != 0 {
		t.Errorf("%d bytes held, %d live after drop", s.inChunks, s.live)
	}
	fill() // and forget it
	await.Until(t, "collections give all pages back", func() bool {
		runtime.GC()
		return pages.bytes() <= other
	})
}

// bytes returns how much memory is in use outside the heap.
func (p *pagePool) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.inUse
}
