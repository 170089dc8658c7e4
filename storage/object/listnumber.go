package object

import "math"

// Move says that an element of a list got another number. The number is the element's key on disk
// (chunk.go), so both keys must be written.
type Move struct{ From, To int64 }

// PushFront adds an element at the head and returns its number. moved are other elements that got
// new numbers, because none was left.
func (l *List) PushFront(val []byte) (number int64, moved []Move) {
	if l.Len() > 0 {
		if l.chunk(0).first < math.MinInt64+NumberStep {
			moved = l.renumber(0, l.Len())
		}
		number = l.chunk(0).first - NumberStep
	}
	l.insert(0, number, val)
	return number, moved
}

// PushBack adds an element at the tail. It returns what PushFront returns.
func (l *List) PushBack(val []byte) (number int64, moved []Move) {
	n := l.Len()
	if n > 0 {
		if l.chunk(l.chunks()-1).last() > math.MaxInt64-NumberStep {
			moved = l.renumber(0, n)
		}
		number = l.chunk(l.chunks()-1).last() + NumberStep
	}
	l.insert(n, number, val)
	return number, moved
}

// Insert inserts an element before the one at an index, or at the tail if the index is Len. It
// returns the element's number. moved are other elements that got new numbers.
func (l *List) Insert(index int, val []byte) (number int64, moved []Move) {
	switch {
	case index <= 0:
		return l.PushFront(val)
	case index >= l.Len():
		return l.PushBack(val)
	}
	gap := func() (prev int64, gap uint64) {
		prev, _ = l.At(index - 1)
		next, _ := l.At(index)
		return prev, uint64(next) - uint64(prev)
	}
	prev, room := gap()
	if room < 2 {
		moved = l.spread(index)
		prev, room = gap()
	}
	number = prev + int64(room/2)
	l.insert(index, number, val)
	return number, moved
}

// spread renumbers as many elements on both sides of an index as are needed to have gaps again.
func (l *List) spread(index int) []Move {
	for around := 16; ; around *= 2 {
		from, to := max(index-around, 0), min(index+around, l.Len())
		if lo, hi := l.bounds(from, to); (hi-lo)/uint64(to-from+1) >= 1<<8 ||
			from == 0 && to == l.Len() {
			return l.renumber(from, to)
		}
	}
}

// bounds returns the numbers between which the elements from from up to but not including to must
// be. It returns them as distances from the smallest number.
func (l *List) bounds(from, to int) (lo, hi uint64) {
	if from == 0 && to == l.Len() {
		half := uint64(to+1) * NumberStep / 2
		return 1<<63 - half, 1<<63 + half
	}
	span := uint64(to-from+1) * NumberStep
	at := func(index int) uint64 { n, _ := l.At(index); return uint64(n) ^ 1<<63 }
	if from > 0 {
		lo = at(from - 1)
	} else if first := at(0); first > span {
		lo = first - span
	}
	if to < l.Len() {
		hi = at(to)
	} else if last := at(to - 1); last < math.MaxUint64-span {
		hi = last + span
	} else {
		hi = math.MaxUint64
	}
	return lo, hi
}

// renumber gives the elements from from up to but not including to new numbers, at even distances.
func (l *List) renumber(from, to int) (moved []Move) {
	lo, hi := l.bounds(from, to)
	step := (hi - lo) / uint64(to-from+1)
	for index := from; index < to; {
		ci, i := l.find(index)
		c := l.chunk(ci)
		l.change(c, c.loosen)
		for off := c.offset(i); i < int(c.n) && index < to; i, index = i+1, index+1 {
			old, _, next := c.read(off)
			lo += step
			c.renumber(i, off, int64(lo^1<<63))
			if now := int64(lo ^ 1<<63); now != old {
				moved = append(moved, Move{old, now})
			}
			off = next
		}
	}
	return moved
}
