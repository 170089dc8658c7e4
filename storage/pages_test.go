package storage

import (
	"runtime"
	"testing"

	"keyp/internal/testkit/await"
)

// TestPagesReturn: memory outside the heap comes back when it is freed, when a part is
// dropped, and when nobody refers to it any more.
func TestPagesReturn(t *testing.T) {
	if pagesOnHeap {
		t.Skip("the race detector's build has pages on the heap")
	}
	fill := func() *slabs {
		s := newSlabs()
		for range 3000 {
			s.alloc(1000)
		}
		return &s
	}
	other := pages.bytes() // of stores that other tests left to the collector: it may fall
	s := fill()
	if s.held < 3000*1000 || pages.bytes() < s.held {
		t.Fatalf("%d bytes held, %d of pages", s.held, pages.bytes())
	}
	s.drop()
	if left := pages.bytes(); left > other {
		t.Errorf("%d bytes left after drop, %d before", left, other)
	}
	if s.held != 0 || s.live != 0 {
		t.Errorf("%d bytes held, %d live after drop", s.held, s.live)
	}
	fill() // and forget it
	await.Until(t, "collections give all pages back", func() bool {
		runtime.GC()
		return pages.bytes() <= other
	})
}
