package object

import (
	"maps"
	"math"
	"testing"
)

// hostileElements makes elements from the bytes of a fuzz input: a length and a key, then a length
// and a value.
func hostileElements(data []byte) (elems [][2][]byte) {
	f := fieldsOf{rest: data}
	for len(f.rest) > 0 && len(elems) < 2000 {
		elem, val := f.bytes(), f.bytes()
		elems = append(elems, [2][]byte{elem, val})
	}
	return elems
}

// FuzzStreamPut: a stream accepts or refuses each element that a damaged file or log may have. The
// resulting stream is sound.
func FuzzStreamPut(f *testing.F) {
	sample := NewStream()
	for i := range 5 {
		sample.Add(StreamID{uint64(i + 1), 2},
			[][]byte{[]byte("a"), []byte("1"), []byte("b"), []byte("2")})
	}
	sample.CreateGroup([]byte("g"), StreamID{2, 2}, 2, nil)
	sample.CreateConsumer([]byte("g"), []byte("c"), 1, nil)
	sample.Deliver([]byte("g"), []byte("c"), StreamID{1, 2}, 1, 1, nil)
	sample.Deliver([]byte("g"), nil, StreamID{2, 2}, 1, 1, nil)
	sample.AddIdempotent([]byte("p"), []byte("i"), StreamID{1, 2}, 9, nil)
	var all []byte
	sample.Walk(func(elem, val []byte, _ int64) bool {
		f.Add(appendBytes(appendBytes(nil, elem), val))
		all = appendBytes(appendBytes(all, elem), val)
		return true
	})
	f.Add(all)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Stream{}
		for i, e := range hostileElements(data) {
			was := elementsOf(s)
			if err := s.Put(e[0], e[1], 0); err != nil {
				if !maps.Equal(was, elementsOf(s)) {
					t.Fatalf("a refused element %x changed the stream", e[0])
				}
			} else if _, _, ok := s.Element(e[0]); !ok || !TypeStream.Names(e[0]) {
				t.Fatalf("element %x is not there", e[0])
			}
			if i%5 == 4 {
				s.Remove(e[0])
			}
		}
		checkSound(t, s)
		s.Add(StreamID{math.MaxUint64, math.MaxUint64}, [][]byte{[]byte("f"), []byte("v")})
		s.TrimFirst(3, nil, nil)
		s.EachGroup(func(g *StreamGroup) bool {
			s.Deliver(g.name, nil, StreamID{1, 2}, 1, 1, nil)
			return true
		})
		checkSound(t, s)
	})
}

// checkSound checks that the parts of a stream agree.
func checkSound(t *testing.T, s *Stream) {
	t.Helper()
	all := elementsOf(s)
	if len(all) != s.Len() || s.measured() != s.Bytes() {
		t.Fatalf("Len %d of %d, Bytes %d of %d", s.Len(), len(all), s.Bytes(), s.measured())
	}
	again := &Stream{}
	s.Walk(func(elem, val []byte, _ int64) bool {
		if err := again.Put(elem, val, 0); err != nil {
			t.Fatalf("element %x is not accepted again: %v", elem, err)
		}
		return true
	})
	if !maps.Equal(all, elementsOf(again)) || !maps.Equal(all, elementsOf(s.Clone())) {
		t.Fatal("the elements make another stream")
	}
	n, last := 0, StreamID{}
	s.Range(StreamID{}, MaxStreamID, false, func(e StreamEntry) bool {
		if e.ID.Compare(last) <= 0 {
			t.Fatalf("%v comes after %v", e.ID, last)
		}
		n, last = n+1, e.ID
		return true
	})
	if n != s.Entries() || s.LastID().Compare(last) < 0 {
		t.Fatalf("%d entries of %d, last %v of %v", n, s.Entries(), last, s.LastID())
	}
	s.EachGroup(func(g *StreamGroup) bool {
		n := 0
		g.EachByTime(func(PendingEntry) bool { n++; return true })
		if n != g.Pending() || g.Nacked() > n {
			t.Fatalf("%d pending of %d", n, g.Pending())
		}
		return true
	})
}
