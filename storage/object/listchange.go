package object

import (
	"bytes"
	"math"
	"slices"
	"sort"
)

// part splits a chunk that its element i has made too large. The elements on each side of element i
// are few enough for a chunk. Element i stays with those on its left if the chunk is then small
// enough; otherwise it gets a chunk of its own.
func (l *List) part(ci, i int) {
	c := l.chunk(ci)
	if i+1 < int(c.n) {
		l.split(ci, i+1)
	}
	if i > 0 && c.size() > chunkBytes {
		l.split(ci, i)
	}
}

// RemoveRange removes the elements with indexes from from up to, but not including, to. First it
// calls fn with the numbers of these elements, in order. Each call stands for n numbers: the first
// one is first, and each is NumberStep larger than the one before.
func (l *List) RemoveRange(from, to int, fn func(first int64, n int)) {
	from, to = max(from, 0), min(to, l.Len())
	if from >= to {
		return
	}
	first, i := l.find(from)
	last, j := l.find(to - 1)
	l.runs(first, i, last, j, fn)
	if first == last {
		l.cut(first, i, j+1)
		return
	}
	for ci := first; ci <= last; ci++ {
		c := l.chunk(ci)
		end := int(c.n)
		if ci == last {
			end = j + 1
		}
		l.change(c, func() { c.cut(i, end) })
		i = 0
	}
	l.tidyAll()
}

// runs calls fn with the numbers from element i of the chunk first to element j of the chunk last.
func (l *List) runs(first, i, last, j int, fn func(first int64, n int)) {
	var begin int64
	many := 0
	add := func(number int64, n int) {
		if many > 0 && uint64(number)-uint64(begin) != uint64(many)*NumberStep {
			fn(begin, many)
			many = 0
		}
		if many == 0 {
			begin = number
		}
		many += n
	}
	for ci := first; ci <= last; ci, i = ci+1, 0 {
		c := l.chunk(ci)
		end := int(c.n)
		if ci == last {
			end = j + 1
		}
		if !c.loose {
			add(c.first+int64(i)*NumberStep, end-i)
			continue
		}
		for off := c.offset(i); i < end; i++ {
			add(c.number(i, off), 1)
			_, _, off = c.read(off)
		}
	}
	fn(begin, many)
}

// RemoveNumbers does what RemoveRange does, for the elements whose numbers are from first to last.
func (l *List) RemoveNumbers(first, last int64, fn func(first int64, n int)) {
	at := func(number int64) (index int, ok bool) {
		ci, i, ok := l.findNumber(number)
		return int(l.chunk(ci).pos-l.chunk(0).pos) + i, ok
	}
	from, _ := at(first)
	to, also := at(last)
	if also {
		to++
	}
	l.RemoveRange(from, to, fn)
}

// RemoveEqual removes elements that equal val and returns how many it has removed. A positive count
// removes the first count elements, a negative one the last, and 0 all. Before the removal it calls
// fn with the number of each element.
func (l *List) RemoveEqual(val []byte, count int, fn func(number int64)) int {
	want, from := count, 0
	switch {
	case count == 0:
		want = math.MaxInt
	case count < 0:
		want, from = -max(count, -math.MaxInt), l.Len()-1
	}
	var found []int
	l.Each(from, count < 0, func(index int, number int64, v []byte) bool {
		if bytes.Equal(v, val) {
			found = append(found, index)
			fn(number)
		}
		return len(found) < want
	})
	if count < 0 {
		slices.Reverse(found)
	}
	if len(found) == 1 {
		ci, i := l.find(found[0])
		l.cut(ci, i, i+1)
		return 1
	}
	l.drop(found)
	return len(found)
}

// drop removes the elements with the given indexes, which must ascend.
func (l *List) drop(indexes []int) {
	if len(indexes) == 0 {
		return
	}
	base := l.chunk(0).pos
	for len(indexes) > 0 {
		ci, _ := l.find(indexes[0])
		c := l.chunk(ci)
		start := int(c.pos - base)
		n := sort.SearchInts(indexes, start+int(c.n))
		l.change(c, func() { c.drop(indexes[:n], start) })
		indexes = indexes[n:]
		if l.many == nil {
			return
		}
	}
	l.tidyAll()
}

// tidyAll is called after removals from several chunks. It removes empty chunks and joins small
// neighbours.
func (l *List) tidyAll() {
	m := l.many
	live := m.all[m.head:]
	kept := live[:0]
	var pos int64
	for _, c := range live {
		if n := len(kept); n > 0 && kept[n-1].n+c.n <= chunkElems/2 && kept[n-1].size()+
			c.size() <= chunkBytes/2 {
			l.change(kept[n-1], func() { kept[n-1].join(c) })
		} else if c.n > 0 {
			c.pos = pos
			kept = append(kept, c)
			pos += int64(c.n)
			continue
		}
		m.allocated -= cap(c.mem)
		m.size -= c.plain()
		pos += int64(c.n)
	}
	clear(live[len(kept):])
	m.all = m.all[:m.head+len(kept)]
	if len(kept) == 0 {
		*l = List{}
		return
	}
	l.tidy(0)
}

// Positions returns the indexes of elements that equal val. A positive rank begins with that match
// from the front; a negative one begins from the back and goes backwards. It returns at most count
// indexes, and compares at most maxlen elements. 0 means no limit.
func (l *List) Positions(val []byte, rank, count, maxlen int) (indexes []int) {
	from, skip := 0, rank-1
	if rank < 0 {
		from, skip = l.Len()-1, -(rank + 1)
	}
	compared := 0
	l.Each(from, rank < 0, func(index int, _ int64, v []byte) bool {
		if bytes.Equal(v, val) {
			if skip--; skip < 0 {
				indexes = append(indexes, index)
			}
		}
		compared++
		return (count == 0 || len(indexes) < count) && compared != maxlen
	})
	return indexes
}
