package object

import (
	"slices"
	"sort"
	"unsafe"
)

// sorted is an ordered set of items, in pieces of memory of a bounded size. No change moves more
// than one piece and the list of pieces. Items are found by their order. Items that compare as
// equal are the same item.
type sorted[T interface{ Compare(T) int }] struct {
	pieces    [][]T // ascending, none of them empty
	n         int
	allocated int // items that the pieces have room for
}

// pieceItems is the largest number of items in a piece.
const pieceItems = 128

// bytes returns the memory that the set uses in addition to itself.
func (s *sorted[T]) bytes() int {
	var item T
	return s.allocated*int(unsafe.Sizeof(item)) + cap(s.pieces)*int(unsafe.Sizeof([]T{}))
}

// seek returns the place of the first item that is not below another. ok reports whether it
// compares as equal. If there is no such item, the place is the end of the last piece.
func (s *sorted[T]) seek(item T) (at, i int, ok bool) {
	switch n := len(s.pieces); { // most of what is looked for is at an end
	case n == 0:
		return 0, 0, false
	case n == 1 || s.pieces[1][0].Compare(item) > 0:
		at = 0
	case s.pieces[n-1][0].Compare(item) <= 0:
		at = n - 1
	default:
		at = sort.Search(n, func(at int) bool { return s.pieces[at][0].Compare(item) > 0 }) - 1
	}
	piece := s.pieces[at]
	end := len(piece)
	if piece[end-1].Compare(item) < 0 { // it is added at the end, most likely
		i = end
	}
	for i < end {
		if mid := (i + end) / 2; piece[mid].Compare(item) < 0 {
			i = mid + 1
		} else {
			end = mid
		}
	}
	switch {
	case i < len(piece):
		return at, i, piece[i].Compare(item) == 0
	case at+1 < len(s.pieces):
		return at + 1, 0, false
	}
	return at, i, false
}

// get returns the item that compares as equal; ok is false if there is none.
func (s *sorted[T]) get(item T) (found T, ok bool) {
	at, i, ok := s.seek(item)
	if ok {
		found = s.pieces[at][i]
	}
	return found, ok
}

// put adds an item, or replaces the one that compares as equal.
func (s *sorted[T]) put(item T) {
	if len(s.pieces) == 0 {
		s.pieces = append(s.pieces, []T{item})
		s.n++
		s.allocated++
		return
	}
	at, i, ok := s.seek(item)
	if ok {
		s.pieces[at][i] = item
		return
	}
	if i == 0 && at > 0 && len(s.pieces[at-1]) < pieceItems {
		// It belongs after the last item of the previous piece.
		at, i = at-1, len(s.pieces[at-1])
	}
	if len(s.pieces[at]) == pieceItems {
		at, i = s.split(at, i)
	}
	had := cap(s.pieces[at])
	s.pieces[at] = slices.Insert(s.pieces[at], i, item)
	s.allocated += cap(s.pieces[at]) - had
	s.n++
}

// split divides a full piece in two to make room at a place, and returns the new coordinates of the
// place. If the place is the end of the set, the second piece is empty, and the first stays full.
func (s *sorted[T]) split(at, i int) (int, int) {
	half := pieceItems / 2
	if at == len(s.pieces)-1 && i == pieceItems {
		half = pieceItems
	}
	right := make([]T, pieceItems-half, pieceItems)
	copy(right, s.pieces[at][half:])
	clear(s.pieces[at][half:])
	s.pieces[at] = s.pieces[at][:half]
	s.pieces = slices.Insert(s.pieces, at+1, right)
	s.allocated += cap(right)
	if i >= half {
		return at + 1, i - half
	}
	return at, i
}

// remove removes the item that compares as equal, and reports whether there was one.
func (s *sorted[T]) remove(item T) bool {
	at, i, ok := s.seek(item)
	if !ok {
		return false
	}
	s.n--
	p := slices.Delete(s.pieces[at], i, i+1)
	s.pieces[at] = p
	switch {
	case len(p) == 0:
		s.allocated -= cap(p)
		s.dropPiece(at)
	case len(p) <= pieceItems/4 && at+1 < len(s.pieces) &&
		len(p)+len(s.pieces[at+1]) <= pieceItems/2:
		had := cap(p)
		s.pieces[at] = append(p, s.pieces[at+1]...)
		s.allocated += cap(s.pieces[at]) - had - cap(s.pieces[at+1])
		s.dropPiece(at + 1)
	case cap(p) >= 16 && len(p) <= cap(p)/4:
		s.pieces[at] = slices.Clone(p)
		s.allocated += cap(s.pieces[at]) - cap(p)
	}
	return true
}

// dropPiece removes a piece. The list of pieces is made smaller when little of it is in use.
func (s *sorted[T]) dropPiece(at int) {
	if at == 0 {
		s.pieces[0] = nil
		s.pieces = s.pieces[1:]
	} else {
		s.pieces = slices.Delete(s.pieces, at, at+1)
	}
	if len(s.pieces) == 0 {
		s.pieces = nil
	} else if cap(s.pieces) > 64 && len(s.pieces) < cap(s.pieces)/4 {
		s.pieces = slices.Clone(s.pieces)
	}
}

// each visits the items that are not below from, in order, until fn returns false. It reports
// whether it visited all of them.
func (s *sorted[T]) each(from T, fn func(T) bool) bool {
	at, i, _ := s.seek(from)
	for ; at < len(s.pieces); at, i = at+1, 0 {
		for ; i < len(s.pieces[at]); i++ {
			if !fn(s.pieces[at][i]) {
				return false
			}
		}
	}
	return true
}

// first and last return the items at the ends of the set; ok is false if it is empty.
func (s *sorted[T]) first() (item T, ok bool) {
	if s.n > 0 {
		return s.pieces[0][0], true
	}
	return item, false
}

func (s *sorted[T]) last() (item T, ok bool) {
	if s.n > 0 {
		p := s.pieces[len(s.pieces)-1]
		return p[len(p)-1], true
	}
	return item, false
}

// clone returns a copy that shares no memory with the set.
func (s *sorted[T]) clone() sorted[T] {
	to := sorted[T]{n: s.n}
	if len(s.pieces) > 0 {
		to.pieces = make([][]T, 0, len(s.pieces))
	}
	for _, p := range s.pieces {
		to.pieces = append(to.pieces, slices.Clone(p))
		to.allocated += cap(to.pieces[len(to.pieces)-1])
	}
	return to
}
