package object

import "encoding/binary"

// A chunk is a run of a list's elements in one piece of memory. Each element has a number, which is
// its key on disk. Numbers ascend along the list, with gaps for insertions.
//
//	┌────────┬────────┬────────┬────────┐
//	│ number │ length │ bytes  │ size   │ …
//	└────────┴────────┴────────┴────────┘
//	 8 bytes  uvarint           uvarint, written backwards
//
// size is the length of the fields before it, so a chunk can be walked from either end. After
// pushes alone, the numbers are first, first+NumberStep, first+2*NumberStep …, and the chunk leaves
// out the field number. A chunk with that field is called loose.
type chunk struct {
	mem   []byte
	lo    uint32 // where the first element begins: pops and pushes at the head move it
	n     int32
	loose bool
	roomy bool  // of a large list: memory grows by doubling
	first int64 // number of the first element
	pos   int64 // of the first element: indexes count from that of the list's first chunk
}

// NumberStep is the distance between the numbers of neighbours that were pushed. Such a gap has
// room for at least sixteen insertions at one place. The numbers on either side last for 2^47
// pushes.
const NumberStep = 1 << 16

func (c *chunk) size() int { return len(c.mem) - int(c.lo) }

// plain returns the size without numbers.
func (c *chunk) plain() int {
	if c.loose {
		return c.size() - 8*int(c.n)
	}
	return c.size()
}

// read returns the element at off and the offset of the next one. number is valid only in a loose
// chunk.
func (c *chunk) read(off int) (number int64, val []byte, next int) {
	if c.loose {
		number = int64(binary.LittleEndian.Uint64(c.mem[off:]))
		off += 8
	}
	length, n := uint64(c.mem[off]), 1
	if length >= 0x80 {
		length, n = binary.Uvarint(c.mem[off:])
	}
	from := off + n
	to := from + int(length)
	size := n + int(length)
	if c.loose {
		size += 8
	}
	return number, c.mem[from:to:to], to + uvarintLen(uint64(size))
}

// before returns the offset of the element that ends at end.
func (c *chunk) before(end int) int {
	size, shift := 0, 0
	for {
		end--
		b := c.mem[end]
		size |= int(b&0x7f) << shift
		if b < 0x80 {
			return end - size
		}
		shift += 7
	}
}

// offset returns the offset of element i. For i = n it returns the end.
func (c *chunk) offset(i int) int {
	if i <= int(c.n)/2 {
		off := int(c.lo)
		for ; i > 0; i-- {
			_, _, off = c.read(off)
		}
		return off
	}
	off := len(c.mem)
	for i = int(c.n) - i; i > 0; i-- {
		off = c.before(off)
	}
	return off
}

// number returns the number of element i, which is at off.
func (c *chunk) number(i, off int) int64 {
	if !c.loose {
		return c.first + int64(i)*NumberStep
	}
	return int64(binary.LittleEndian.Uint64(c.mem[off:]))
}

// last returns the number of the last element.
func (c *chunk) last() int64 {
	if !c.loose {
		return c.first + int64(c.n-1)*NumberStep
	}
	return c.number(0, c.before(len(c.mem)))
}

// room returns the size of an element with this value, in bytes.
func (c *chunk) room(val []byte) int {
	n := uvarintLen(uint64(len(val))) + len(val)
	if c.loose {
		n += 8
	}
	return n + uvarintLen(uint64(n))
}

// full reports whether the chunk of a large list has no room for another element.
func (c *chunk) full(val []byte) bool {
	return int(c.n) >= chunkElems || c.size()+c.room(val) > chunkBytes
}

// write writes an element at off, where there must be room for it.
func (c *chunk) write(off int, number int64, val []byte) {
	from := off
	if c.loose {
		binary.LittleEndian.PutUint64(c.mem[off:], uint64(number))
		off += 8
	}
	off += binary.PutUvarint(c.mem[off:], uint64(len(val)))
	off += copy(c.mem[off:], val)
	size := off - from
	end := off + uvarintLen(uint64(size))
	for end--; end > off; end-- {
		c.mem[end] = byte(size)&0x7f | 0x80
		size >>= 7
	}
	c.mem[end] = byte(size)
}

// splice replaces the cut bytes at off by size bytes, which are not filled yet. It returns their
// offset. The bytes before and after them stay.
func (c *chunk) splice(off, cut, size int) int {
	grow, at := size-cut, off-int(c.lo)
	old := len(c.mem)
	switch {
	case at == 0 && grow <= off: // the head moves
		c.lo = uint32(off - grow)
	case grow <= 0:
		copy(c.mem[off+size:], c.mem[off+cut:])
		c.mem = c.mem[:old+grow]
	case at == 0 && c.n > 0: // the head moves to new memory, with room for more of the kind
		spare := c.spare(grow + c.size())
		grown := resize(nil, spare+grow+c.size(), 0)
		copy(grown[spare+grow:], c.mem[off:])
		c.mem, c.lo = grown, uint32(spare)
	default:
		c.mem = resize(c.mem, old+grow, c.spare(old+grow))
		copy(c.mem[off+size:], c.mem[off+cut:old])
	}
	if grow < 0 {
		c.shrink()
	}
	return int(c.lo) + at
}

// spare returns how much spare room new memory for n bytes gets. In a large list, pushes fill the
// chunk.
func (c *chunk) spare(n int) int {
	if !c.roomy {
		return spare(n)
	}
	return max(0, min(n, chunkBytes-n, (chunkElems-int(c.n))*n/(int(c.n)+1)))
}

// shrink frees memory if less than half is in use, or less than a quarter in a large list.
func (c *chunk) shrink() {
	least := cap(c.mem) / 2
	if c.roomy {
		least /= 2
	}
	if cap(c.mem) > 64 && c.size() < least {
		c.mem = append([]byte(nil), c.mem[c.lo:]...)
		c.lo = 0
	}
}

// insert inserts an element before element i.
func (c *chunk) insert(i int, number int64, val []byte) {
	switch {
	case c.n == 0:
		c.loose, c.first = false, number
	case !c.loose && number != c.first+int64(i)*NumberStep &&
		(i > 0 || number != c.first-NumberStep),
		!c.loose && i > 0 && i < int(c.n):
		c.loosen()
	}
	off := c.splice(c.offset(i), 0, c.room(val))
	c.write(off, number, val)
	if i == 0 {
		c.first = number
	}
	c.n++
}

// loosen writes out the elements' numbers, so that they may be any numbers.
func (c *chunk) loosen() {
	if c.loose {
		return
	}
	wide := chunk{roomy: c.roomy, loose: true, first: c.first, pos: c.pos}
	wide.mem = make([]byte, 0, c.size()+9*int(c.n))
	off := int(c.lo)
	for i := range int(c.n) {
		_, val, next := c.read(off)
		wide.append(c.number(i, off), val)
		off = next
	}
	*c = wide
}

// append adds an element at the end. In a tight chunk, number must be the next one.
func (c *chunk) append(number int64, val []byte) {
	off, room := len(c.mem), c.room(val)
	c.mem = resize(c.mem, off+room, c.spare(off+room))
	c.write(off, number, val)
	c.n++
}

// set replaces the value of element i.
func (c *chunk) set(i int, val []byte) {
	off := c.offset(i)
	number := c.number(i, off)
	_, _, next := c.read(off)
	off = c.splice(off, next-off, c.room(val))
	c.write(off, number, val)
}

// cut removes the elements from i up to but not including j.
func (c *chunk) cut(i, j int) {
	if i >= j {
		return
	}
	if !c.loose && i > 0 && j < int(c.n) {
		c.loosen()
	}
	from, to := c.offset(i), c.offset(j)
	if i == 0 && j < int(c.n) {
		c.first = c.number(j, to)
	}
	c.n -= int32(j - i)
	c.splice(from, to-from, 0)
}

// drop removes the elements with these ascending indexes. start is the index of the chunk's first
// element.
func (c *chunk) drop(indexes []int, start int) {
	n := len(indexes)
	if indexes[n-1]-indexes[0] == n-1 {
		c.cut(indexes[0]-start, indexes[0]-start+n)
		return
	}
	c.loosen()
	old := *c
	c.mem, c.lo, c.n = make([]byte, 0, old.size()), 0, 0
	off := int(old.lo)
	for i := range int(old.n) {
		number, val, next := old.read(off)
		off = next
		if len(indexes) > 0 && i == indexes[0]-start {
			indexes = indexes[1:]
			continue
		}
		if c.n == 0 {
			c.first = number
		}
		c.append(number, val)
	}
	c.shrink()
}

// split moves the elements from i on to a new chunk and returns it.
func (c *chunk) split(i int) *chunk {
	off := c.offset(i)
	right := &chunk{roomy: c.roomy, loose: c.loose, first: c.number(i, off), n: c.n - int32(i),
		pos: c.pos + int64(i)}
	right.mem = append(right.mem, c.mem[off:]...)
	c.n = int32(i)
	c.mem = c.mem[:off]
	c.shrink()
	return right
}

// join appends the elements of right, the next chunk.
func (c *chunk) join(right *chunk) {
	if !c.loose && (right.loose || right.first != c.last()+NumberStep) {
		c.loosen()
	}
	off := int(right.lo)
	for i := range int(right.n) {
		_, val, next := right.read(off)
		c.append(right.number(i, off), val)
		off = next
	}
}

// renumber changes the number of element i of a loose chunk.
func (c *chunk) renumber(i, off int, number int64) {
	binary.LittleEndian.PutUint64(c.mem[off:], uint64(number))
	if i == 0 {
		c.first = number
	}
}
