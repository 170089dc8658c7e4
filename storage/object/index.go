package object

import "unsafe"

// index maps hashes of elements to their positions. It uses extendible hashing, so it grows by one
// bucket at a time, however many elements there are. A bucket is an open-addressed array whose
// cells are in the order of hashes, except for displaced ones. Buckets are in the order of hashes
// too. So a hash is a cursor through all elements, whatever is added or removed meanwhile.
//
//	cell  63        32  31       0
//	     ┌─────────────┬──────────┐
//	     │ hash        │ pos + 1  │   0 is an empty cell
//	     └─────────────┴──────────┘
type index struct {
	dir     []*hashBucket // 1<<depth entries; a bucket of lesser depth stands in several
	depth   uint8
	buckets int
	cells   int // in all buckets
	n       int
	tight   bool // buckets grow in small steps
}

type hashBucket struct {
	cells []uint64
	used  int
	depth uint8 // leading hash bits that all cells of this bucket share
}

const (
	bucketCells = 1024
	firstCells  = 16
)

// steps are the sizes of the large buckets of a tight index, in cells. Go's allocator has size
// classes for exactly these. Without the middle ones, up to five eighths of the cells are empty,
// and insertions take a seventh less time.
var steps = [...]int{bucketCells / 2, 672, 864, bucketCells}

// larger returns the size to which a bucket grows.
func (x *index) larger(size int) int {
	if x.tight && size >= bucketCells/2 && size < bucketCells {
		for _, step := range steps {
			if step > size {
				return step
			}
		}
	}
	return 2 * size
}

// half returns the size of each half of a split bucket, for n elements.
func (x *index) half(n int) int {
	if !x.tight {
		return bucketCells
	}
	size := steps[0]
	for !fits(n+1, size) {
		size = x.larger(size)
	}
	return size
}

// smaller returns the size to which a bucket shrinks.
func smaller(size int) int {
	if size > bucketCells/2 && size < bucketCells {
		return bucketCells / 2
	}
	return size / 2
}

// fits reports whether a bucket of size cells has room for n elements. A quarter of the cells stays
// empty.
func fits(n, size int) bool { return n*4 <= size*3 }

func hashCell(hash, pos uint32) uint64 { return uint64(hash)<<32 | uint64(pos+1) }
func cellHash(c uint64) uint32         { return uint32(c >> 32) }
func cellPos(c uint64) uint32          { return uint32(c) - 1 }

func newIndex() index {
	b := &hashBucket{cells: make([]uint64, firstCells)}
	return index{dir: []*hashBucket{b}, buckets: 1, cells: firstCells}
}

// bytes returns the memory that the index uses in addition to itself.
func (x *index) bytes() int {
	return x.cells*8 + x.buckets*int(unsafe.Sizeof(hashBucket{})) + cap(x.dir)*8
}

func (x *index) bucket(hash uint32) *hashBucket { return x.dir[uint64(hash)>>(32-x.depth)] }

func (b *hashBucket) home(hash uint32) int {
	return int(uint64(hash<<b.depth) * uint64(len(b.cells)) >> 32)
}

// after returns the cell after i. The first cell comes after the last one.
func (b *hashBucket) after(i int) int {
	if i++; i < len(b.cells) {
		return i
	}
	return 0
}

// distance returns how many cells i is after from.
func (b *hashBucket) distance(i, from int) int {
	if i -= from; i < 0 {
		i += len(b.cells)
	}
	return i
}

// find returns the position with this hash for which same returns true.
func (x *index) find(hash uint32, same func(pos uint32) bool) (pos uint32, ok bool) {
	b := x.bucket(hash)
	for i := b.home(hash); b.cells[i] != 0; i = b.after(i) {
		if c := b.cells[i]; cellHash(c) == hash && same(cellPos(c)) {
			return cellPos(c), true
		}
	}
	return 0, false
}

func (x *index) insert(hash, pos uint32) {
	b := x.bucket(hash)
	for !fits(b.used+1, len(b.cells)) {
		x.grow(b, hash)
		b = x.bucket(hash)
	}
	b.put(hashCell(hash, pos))
	x.n++
}

func (b *hashBucket) put(c uint64) {
	i := b.home(cellHash(c))
	for b.cells[i] != 0 {
		i = b.after(i)
	}
	b.cells[i] = c
	b.used++
}

// grow makes room in b, the bucket of hash: more cells, or a split in two.
func (x *index) grow(b *hashBucket, hash uint32) {
	if len(b.cells) < bucketCells || b.depth >= 32-10 {
		x.resize(b, x.larger(len(b.cells)))
		return
	}
	if b.depth == x.depth {
		dir := make([]*hashBucket, 2*len(x.dir))
		for i, e := range x.dir {
			dir[2*i], dir[2*i+1] = e, e
		}
		x.dir, x.depth = dir, x.depth+1
	}
	var used [2]int
	for _, c := range b.cells {
		if c != 0 {
			used[c>>(63-b.depth)&1]++
		}
	}
	var halves [2]*hashBucket
	for i := range halves {
		size := x.half(used[i])
		halves[i] = &hashBucket{cells: make([]uint64, size), depth: b.depth + 1}
		x.cells += size
	}
	for _, c := range b.cells {
		if c != 0 {
			halves[c>>(63-b.depth)&1].put(c)
		}
	}
	span := 1 << (x.depth - b.depth)
	first := int(uint64(hash)>>(32-x.depth)) &^ (span - 1)
	for i := range span {
		x.dir[first+i] = halves[i*2/span]
	}
	x.buckets++
	x.cells -= len(b.cells)
}

func (x *index) resize(b *hashBucket, size int) {
	old := b.cells
	b.cells, b.used = make([]uint64, size), 0
	for _, c := range old {
		if c != 0 {
			b.put(c)
		}
	}
	x.cells += size - len(old)
}

// locate returns the cell of a position, which must be in the index.
func (b *hashBucket) locate(hash, pos uint32) int {
	i := b.home(hash)
	for c := hashCell(hash, pos); b.cells[i] != c; {
		i = b.after(i)
	}
	return i
}

// rename changes the position of an element.
func (x *index) rename(hash, from, to uint32) {
	b := x.bucket(hash)
	b.cells[b.locate(hash, from)] = hashCell(hash, to)
}

// remove removes a position. Later cells move up, so no mark is left.
func (x *index) remove(hash, pos uint32) {
	b := x.bucket(hash)
	hole := b.locate(hash, pos)
	for i := b.after(hole); b.cells[i] != 0; i = b.after(i) {
		if home := b.home(cellHash(b.cells[i])); b.distance(i, home) >= b.distance(i, hole) {
			b.cells[hole] = b.cells[i]
			hole = i
		}
	}
	b.cells[hole] = 0
	b.used--
	x.n--
	if len(b.cells) > firstCells && b.used*8 < len(b.cells) {
		x.resize(b, smaller(len(b.cells)))
	}
}

// scan visits about count positions, with the hashes from from up to but not including next, which
// it returns. next is 0 if there are no more. Where it finds nothing, it stops after about ten
// buckets per count.
func (x *index) scan(from uint32, count int, visit func(pos uint32)) (next uint32) {
	seen := 0
	for range 10 * max(count, 1) {
		b := x.bucket(from)
		size := uint64(1) << (32 - b.depth)
		end := (uint64(from)/size + 1) * size
		to := min(end, uint64(from)+1+size/uint64(max(b.used, 1))*uint64(max(count-seen, 1)))
		seen += b.visit(uint64(from), to, visit)
		if from = uint32(to); from == 0 || seen >= count {
			return from
		}
	}
	return from
}

// visit visits the positions with hashes from from up to but not including to, which are in this
// bucket. They are between the homes of the two, or after these up to the first empty cell.
func (b *hashBucket) visit(from, to uint64, visit func(pos uint32)) (seen int) {
	first, last := b.home(uint32(from)), b.home(uint32(to-1))
	at := first
	for n := range b.cells {
		c := b.cells[at]
		if c == 0 && first+n > last {
			return seen
		}
		at = b.after(at)
		if h := c >> 32; c != 0 && h >= from && h < to {
			visit(cellPos(c))
			seen++
		}
	}
	return seen
}
