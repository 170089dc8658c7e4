package object

import (
	"encoding/binary"
	"sort"
	"unsafe"
)

// List is a list: element keys are numbers that ascend along the list. A push takes the next
// number, NumberStep further on. An insertion takes one between its neighbours', and a removal
// leaves a gap. So a change touches one element. Only an insertion for which no number is left
// renumbers a few neighbours.
//
// A small list is one chunk, a large one a sequence of chunks. Indexes count from 0 at the head.
// Slices that it returns are valid until it changes, and must not be passed back to it. Elements
// have no deadlines.
type List struct {
	one  chunk
	many *chunks // if not nil, one is not in use
}

// chunks are the chunks of a large list; none is empty. The index of a chunk's first element is its
// pos minus the pos of the first chunk. So chunks and elements can be added and removed at either
// end without a change to the others.
type chunks struct {
	all       []*chunk
	head      int // the list begins at all[head]
	allocated int // bytes of memory behind the chunks
	size      int // bytes of elements in them, without their numbers
}

// The limits of a chunk of a large list; a single element may be larger. Numbers that are written
// out later do not count.
const (
	chunkElems = 128
	chunkBytes = 8 << 10
)

// ListKey returns the element key of a number. Keys are in the order of their numbers, also as
// bytes.
func ListKey(number int64) (key [8]byte) {
	binary.BigEndian.PutUint64(key[:], uint64(number)^1<<63)
	return key
}

// ListNumber returns the number of an element key, which must have 8 bytes.
func ListNumber(elem []byte) int64 { return int64(binary.BigEndian.Uint64(elem) ^ 1<<63) }

// Type returns TypeList.
func (l *List) Type() Type { return TypeList }

// Encoding returns the reply of OBJECT ENCODING.
func (l *List) Encoding() string {
	if l.many != nil {
		return "quicklist"
	}
	return "listpack"
}

// Len returns the number of elements.
func (l *List) Len() int {
	if l.many == nil {
		return int(l.one.n)
	}
	first, last := l.chunk(0), l.chunk(l.chunks()-1)
	return int(last.pos-first.pos) + int(last.n)
}

// Bytes returns the memory used, in bytes.
func (l *List) Bytes() int {
	n := int(unsafe.Sizeof(*l)) + cap(l.one.mem)
	if m := l.many; m != nil {
		n += int(unsafe.Sizeof(*m)) + cap(m.all)*8 + len(m.all)*int(unsafe.Sizeof(chunk{})) +
			m.allocated
	}
	return n
}

// chunks returns the number of chunks.
func (l *List) chunks() int {
	if l.many == nil {
		return 1
	}
	return len(l.many.all) - l.many.head
}

func (l *List) chunk(ci int) *chunk {
	if l.many == nil {
		return &l.one
	}
	return l.many.all[l.many.head+ci]
}

// find returns the chunk of the element at an index, and the element's number in it. For the index
// Len it returns the place after the last element.
func (l *List) find(index int) (ci, i int) {
	n := l.chunks()
	base := l.chunk(0).pos
	pos := base + int64(index)
	switch {
	case index < int(l.chunk(0).n):
		return 0, index
	case pos >= l.chunk(n-1).pos:
		ci = n - 1
	default:
		ci = sort.Search(n, func(ci int) bool { return l.chunk(ci).pos > pos }) - 1
	}
	return ci, int(pos - l.chunk(ci).pos)
}

// findNumber returns the place of the first element whose number is not below number. ok reports
// whether that element has the number.
func (l *List) findNumber(number int64) (ci, i int, ok bool) {
	n := l.chunks()
	ci = max(sort.Search(n, func(ci int) bool { return l.chunk(ci).first > number })-1, 0)
	c := l.chunk(ci)
	if c.n == 0 || number > c.last() {
		return ci, int(c.n), false
	}
	if !c.loose {
		far := uint64(max(number, c.first)) - uint64(c.first)
		i = int((far + NumberStep - 1) / NumberStep)
		return ci, i, number == c.first+int64(i)*NumberStep
	}
	for off := int(c.lo); ; i++ {
		if at := c.number(i, off); at >= number {
			return ci, i, at == number
		}
		_, _, off = c.read(off)
	}
}

// change calls fn, which changes a chunk, and updates the counts of memory.
func (l *List) change(c *chunk, fn func()) {
	if l.many == nil {
		fn()
		return
	}
	held, size := cap(c.mem), c.plain()
	fn()
	l.many.allocated += cap(c.mem) - held
	l.many.size += c.plain() - size
}

// shift adds by to the positions of the chunks after ci, relative to those of the others.
func (l *List) shift(ci, by int) {
	n := l.chunks()
	if ci < n/2 {
		for j := range ci + 1 {
			l.chunk(j).pos -= int64(by)
		}
		return
	}
	for j := ci + 1; j < n; j++ {
		l.chunk(j).pos += int64(by)
	}
}

// grow changes the list to its large form.
func (l *List) grow() {
	old := l.one
	l.one, l.many = chunk{}, &chunks{}
	var c *chunk
	for i, off := 0, int(old.lo); i < int(old.n); i++ {
		_, val, next := old.read(off)
		number := old.number(i, off)
		if c == nil || c.full(val) {
			if c != nil {
				l.addChunk(l.chunks(), c)
			}
			c = &chunk{roomy: true, loose: old.loose, first: number, pos: int64(i)}
		}
		c.append(number, val)
		off = next
	}
	l.addChunk(l.chunks(), c)
}

// addChunk inserts a chunk before chunk number ci.
func (l *List) addChunk(ci int, c *chunk) {
	m := l.many
	m.allocated += cap(c.mem)
	m.size += c.plain()
	if ci == 0 {
		if m.head == 0 {
			room := len(m.all)/2 + 2
			all := make([]*chunk, room+len(m.all), room+len(m.all)*3/2)
			copy(all[room:], m.all)
			m.all, m.head = all, room
		}
		m.head--
		m.all[m.head] = c
		return
	}
	m.all = append(m.all, nil)
	at := m.head + ci
	copy(m.all[at+1:], m.all[at:])
	m.all[at] = c
}

// dropChunks removes the chunks from a up to but not including b.
func (l *List) dropChunks(a, b int) {
	m := l.many
	for ci := a; ci < b; ci++ {
		m.allocated -= cap(l.chunk(ci).mem)
		m.size -= l.chunk(ci).plain()
	}
	if a == 0 {
		clear(m.all[m.head : m.head+b])
		m.head += b
	} else {
		n := copy(m.all[m.head+a:], m.all[m.head+b:])
		clear(m.all[m.head+a+n:])
		m.all = m.all[:m.head+a+n]
	}
	if live := len(m.all) - m.head; cap(m.all) > 64 && live < cap(m.all)/4 {
		m.all = append(make([]*chunk, 0, 2*live), m.all[m.head:]...)
		m.head = 0
	}
}

// insert inserts an element at an index. The number must fit there.
func (l *List) insert(index int, number int64, val []byte) {
	if l.many == nil {
		if l.one.n == 0 || thresholds.Load().listFits(int(l.one.n)+1,
			l.one.plain()+len(val)+listHead) {
			l.one.insert(index, number, val)
			if l.one.n > 1 || thresholds.Load().listFits(1, l.one.plain()+listHead) {
				return
			}
			l.grow() // one element that is too large alone
			return
		}
		l.grow()
	}
	ci, i := l.find(index)
	c := l.chunk(ci)
	for c.n > 0 && c.full(val) {
		switch {
		case index == l.Len():
			l.addChunk(ci+1, &chunk{roomy: true, pos: c.pos + int64(c.n)})
			ci, i = ci+1, 0
		case i == 0:
			l.addChunk(ci, &chunk{roomy: true, pos: c.pos})
		default:
			l.split(ci, max(int(c.n)/2, 1))
			ci, i = l.find(index)
		}
		c = l.chunk(ci)
	}
	l.change(c, func() { c.insert(i, number, val) })
	l.shift(ci, 1)
}

// listHead is how many bytes a small list of Redis uses in addition to its elements.
const listHead = 7

// split moves the elements of a chunk from i on to a new chunk.
func (l *List) split(ci, i int) {
	c := l.chunk(ci)
	var right *chunk
	l.change(c, func() { right = c.split(i) })
	l.addChunk(ci+1, right)
}

// cut removes the elements of a chunk from i up to but not including j.
func (l *List) cut(ci, i, j int) {
	c := l.chunk(ci)
	l.change(c, func() { c.cut(i, j) })
	l.shift(ci, i-j)
	l.tidy(ci)
}

// tidy is called after a removal from a chunk. It removes an empty chunk, and joins a small one
// with a neighbour. A list with few elements becomes small.
func (l *List) tidy(ci int) {
	if l.many == nil {
		return
	}
	if n := l.Len(); n == 0 {
		*l = List{}
		return
	} else if thresholds.Load().listFits(2*n, 2*l.many.size) {
		l.shrink()
		return
	}
	if l.chunk(ci).n == 0 {
		l.dropChunks(ci, ci+1)
		return
	}
	for _, left := range [2]int{ci - 1, ci} {
		if left < 0 || left+1 >= l.chunks() {
			continue
		}
		a, b := l.chunk(left), l.chunk(left+1)
		if a.n+b.n <= chunkElems/2 && a.size()+b.size() <= chunkBytes/2 {
			l.change(a, func() { a.join(b) })
			l.dropChunks(left+1, left+2)
			return
		}
	}
}

// shrink changes the list to its small form.
func (l *List) shrink() {
	all := l.many.all[l.many.head:]
	for len(all) > 1 && all[0].n == 0 {
		all = all[1:]
	}
	c := *all[0]
	for _, right := range all[1:] {
		if right.n > 0 {
			c.join(right)
		}
	}
	c.roomy = false
	c.shrink()
	l.one, l.many = c, nil
}

// Put sets an element that replay or a load from disk has read. It returns an error if the element
// is not valid.
func (l *List) Put(elem, val []byte, _ int64) error {
	if len(elem) != 8 {
		return errBadElement
	}
	number := ListNumber(elem)
	ci, i, ok := l.findNumber(number)
	index := int(l.chunk(ci).pos-l.chunk(0).pos) + i
	if ok {
		l.Set(index, val)
	} else {
		l.insert(index, number, val)
	}
	return nil
}

// Remove removes an element, if it exists.
func (l *List) Remove(elem []byte) {
	if len(elem) == 8 {
		if ci, i, ok := l.findNumber(ListNumber(elem)); ok {
			l.cut(ci, i, i+1)
		}
	}
}

// Element returns the value of an element; ok is false if there is no such element.
func (l *List) Element(elem []byte) (val []byte, deadline int64, ok bool) {
	if len(elem) != 8 {
		return nil, 0, false
	}
	ci, i, ok := l.findNumber(ListNumber(elem))
	if !ok {
		return nil, 0, false
	}
	c := l.chunk(ci)
	_, val, _ = c.read(c.offset(i))
	return val, 0, true
}

// Walk visits all elements from the head until fn returns false.
func (l *List) Walk(fn func(elem, val []byte, deadline int64) bool) {
	var key [8]byte
	l.Each(0, false, func(_ int, number int64, val []byte) bool {
		key = ListKey(number)
		return fn(key[:], val, 0)
	})
}

// Scan visits about count elements from cursor on. It returns the next cursor; 0: there are no
// more. A cursor is an element key as a number.
func (l *List) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	l.From(int64(cursor^1<<63), func(number int64, val []byte) bool {
		key := ListKey(number)
		if count--; count < 0 {
			next = binary.BigEndian.Uint64(key[:])
			return false
		}
		fn(key[:], val, 0)
		return true
	})
	return next
}

// From visits the elements whose numbers are not below number, in order, until fn returns false.
func (l *List) From(number int64, fn func(number int64, val []byte) bool) {
	ci, i, _ := l.findNumber(number)
	index := int(l.chunk(ci).pos-l.chunk(0).pos) + i
	l.Each(index, false, func(_ int, number int64, val []byte) bool { return fn(number, val) })
}

// LastNumber returns the number of the last element; ok is false if the list is empty.
func (l *List) LastNumber() (number int64, ok bool) {
	if l.Len() == 0 {
		return 0, false
	}
	number, _ = l.At(l.Len() - 1)
	return number, true
}

// Earliest returns 0: elements have no deadlines.
func (l *List) Earliest() int64 { return 0 }

// LenAt returns Len.
func (l *List) LenAt(int64) int { return l.Len() }

// Due removes nothing.
func (l *List) Due(int64, int, func(elem, val []byte, deadline int64)) int { return 0 }

// At returns the number and the value of the element at an index, which must be below Len.
func (l *List) At(index int) (number int64, val []byte) {
	ci, i := l.find(index)
	c := l.chunk(ci)
	off := c.offset(i)
	_, val, _ = c.read(off)
	return c.number(i, off), val
}

// Each visits the elements from an index on towards the tail, or in reverse towards the
// head, until fn returns false.
func (l *List) Each(index int, reverse bool, fn func(index int, number int64, val []byte) bool) {
	if index < 0 || index >= l.Len() {
		return
	}
	ci, i := l.find(index)
	off := l.chunk(ci).offset(i)
	for {
		c := l.chunk(ci)
		_, val, next := c.read(off)
		if !fn(index, c.number(i, off), val) {
			return
		}
		switch {
		case reverse && i > 0:
			i, off = i-1, c.before(off)
		case reverse:
			if ci--; ci < 0 {
				return
			}
			c = l.chunk(ci)
			i, off = int(c.n)-1, c.before(len(c.mem))
		case i+1 < int(c.n):
			i, off = i+1, next
		default:
			if ci++; ci >= l.chunks() {
				return
			}
			i, off = 0, int(l.chunk(ci).lo)
		}
		if index++; reverse {
			index -= 2
		}
	}
}

// Set replaces the value of the element at an index and returns the element's number.
func (l *List) Set(index int, val []byte) (number int64) {
	ci, i := l.find(index)
	c := l.chunk(ci)
	number = c.number(i, c.offset(i))
	l.change(c, func() { c.set(i, val) })
	switch {
	case l.many != nil && c.size() > chunkBytes && c.n > 1:
		l.part(ci, i)
	case l.many != nil:
		l.tidy(ci)
	case !thresholds.Load().listFits(int(c.n), c.plain()+listHead):
		l.grow()
	}
	return number
}
