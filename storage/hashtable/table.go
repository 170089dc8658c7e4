// Package hashtable maps hashes to numbers: those of keys to their places in memory, and those of
// the elements of a large value to their positions.
//
// A Table is a directory of buckets, as in extendible hashing. A bucket is an open-addressed array
// of cells that grows to BucketCells and then splits by the next bit of the hash. So no operation
// ever rehashes a large table. Cells are in the order of hashes, except for displaced ones, and so
// are buckets. So a hash is a cursor through all cells, whatever is added or removed meanwhile.
package hashtable

import (
	"math/bits"
	"unsafe"
)

// Cell is an entry of a table:
//
//	63         35  34   33    32  31        0
//	┌─────────────┬────┬─────┬────┬──────────┐
//	│ hash, 29 bit│tomb│dirty│obj │ ref      │   0 is an empty cell: ref+1 is stored
//	└─────────────┴────┴─────┴────┴──────────┘
//
// Only tables of keys use the flags. Obj: ref is the index of an object, instead of a slab block.
// Dirty: the data file does not show this state yet. Tomb: the key does not exist, but a copy of it
// is in the data file until the next checkpoint.
type Cell uint64

// Flags of a cell.
const (
	Obj   Cell = 1 << 32
	Dirty Cell = 1 << 33
	Tomb  Cell = 1 << 34
)

const (
	// HashBits is how many of the leading bits of a hash a cell keeps, and HashShift how many it
	// does not.
	HashBits  = 29
	HashShift = 64 - HashBits
	// BucketCells is the size of a bucket that splits.
	BucketCells = 1024
	firstCells  = 8
)

// steps are the sizes of the large buckets of a tight table, in cells. Go's allocator has size
// classes for exactly these. Without the middle ones, up to five eighths of the cells are empty,
// and insertions take a seventh less time.
var steps = [...]int{BucketCells / 2, 672, 864, BucketCells}

// NewCell returns the cell of a hash.
func NewCell(hash uint64, ref uint32, flags Cell) Cell {
	return Cell(hash&^(1<<HashShift-1)) | flags | Cell(ref+1)
}

// Ref returns the ref that NewCell got.
func (c Cell) Ref() uint32 { return uint32(c) - 1 }

// Is reports whether the cell has a flag.
func (c Cell) Is(flag Cell) bool { return c&flag != 0 }

// Prefix returns the part of the hash that the cell keeps.
func (c Cell) Prefix() uint32 { return uint32(c >> HashShift) }

type bucket struct {
	cells []Cell
	used  int
	depth uint8 // leading hash bits that all cells of this bucket share
}

// Table maps hashes to cells. The zero Table is empty.
type Table struct {
	only  bucket    // the one bucket while dir is nil, in place to save two cache misses
	dir   []*bucket // 1<<depth entries; a bucket of lesser depth is in several
	used  int
	cells int32 // in all buckets
	depth uint8
	// Tight makes large buckets grow in smaller steps. It is set before the first Insert.
	Tight bool
}

func (t *Table) bucket(hash uint64) *bucket {
	if t.dir == nil {
		return &t.only
	}
	return t.dir[hash>>(64-t.depth)]
}

// Len returns how many entries the table has.
func (t *Table) Len() int { return t.used }

// Bytes returns the memory that the table uses in addition to itself. It counts as many buckets as
// cells fill: there may be more of them in a tight table.
func (t *Table) Bytes() int {
	n := int(t.cells)*8 + cap(t.dir)*8
	if t.dir != nil {
		n += int(t.cells) / BucketCells * int(unsafe.Sizeof(bucket{}))
	}
	return n
}

// larger returns the size to which a bucket grows.
func (t *Table) larger(size int) int {
	if t.Tight && size >= BucketCells/2 && size < BucketCells {
		for _, step := range steps {
			if step > size {
				return step
			}
		}
	}
	return max(2*size, firstCells)
}

// half returns the size of each half of a split bucket, for n cells.
func (t *Table) half(n int) int {
	if !t.Tight {
		return BucketCells
	}
	size := steps[0]
	for !fits(n+1, size) {
		size = t.larger(size)
	}
	return size
}

// smaller returns the size to which a bucket shrinks.
func smaller(size int) int {
	if size > BucketCells/2 && size < BucketCells {
		return BucketCells / 2
	}
	return size / 2
}

// fits reports whether a bucket of size cells has room for n entries. A quarter of the cells stays
// empty.
func fits(n, size int) bool { return n*4 <= size*3 }

// Reserve makes room for n entries in an empty table, but at most for one bucket.
func (t *Table) Reserve(n int) {
	size := firstCells
	for !fits(n, size) && size < BucketCells {
		size = t.larger(size)
	}
	t.resize(&t.only, size)
}

// Prefetch reads the memory that Find reads first for a hash. The sum keeps the compiler from
// leaving the reads out.
func (t *Table) Prefetch(hash uint64) (sum uint64) {
	if b := t.bucket(hash); b.used > 0 {
		sum = uint64(b.cells[b.home(hash)])
	}
	return sum
}

// home returns the index of the first cell for a hash in the bucket. It consists of the bits after
// the shared ones, so that cells are in hash order except for displaced ones.
func (b *bucket) home(hash uint64) int {
	at, _ := bits.Mul64(hash>>HashShift<<(HashShift+b.depth), uint64(len(b.cells)))
	return int(at)
}

// after returns the cell after i. The first cell comes after the last one.
func (b *bucket) after(i int) int {
	if i++; i < len(b.cells) {
		return i
	}
	return 0
}

// distance returns how many cells i is after from.
func (b *bucket) distance(i, from int) int {
	if i -= from; i < 0 {
		i += len(b.cells)
	}
	return i
}

// Find returns the cell with this hash for which same returns true, and whether there is one.
func (t *Table) Find(hash uint64, same func(Cell) bool) (*Cell, bool) {
	b := t.bucket(hash)
	if b.used == 0 {
		return nil, false
	}
	for i := b.home(hash); b.cells[i] != 0; i = b.after(i) {
		if uint64(b.cells[i])>>HashShift == hash>>HashShift && same(b.cells[i]) {
			return &b.cells[i], true
		}
	}
	return nil, false
}

// Insert adds a cell that is not in the table, and returns its place, which is valid until the next
// Insert or Remove.
func (t *Table) Insert(hash uint64, c Cell) *Cell {
	b := t.bucket(hash)
	for !fits(b.used+1, len(b.cells)) {
		t.grow(b, hash)
		b = t.bucket(hash)
	}
	t.used++
	return b.put(c)
}

func (b *bucket) put(c Cell) *Cell {
	i := b.home(uint64(c))
	for b.cells[i] != 0 {
		i = b.after(i)
	}
	b.cells[i] = c
	b.used++
	return &b.cells[i]
}

// grow makes room in b, the bucket of hash: more cells, or a split in two.
func (t *Table) grow(b *bucket, hash uint64) {
	if len(b.cells) < BucketCells ||
		int(b.depth)+bits.TrailingZeros(uint(BucketCells)) >= HashBits {
		t.resize(b, t.larger(len(b.cells)))
		return
	}
	old := *b
	switch {
	case t.dir == nil:
		t.dir, t.depth, t.only = make([]*bucket, 2), 1, bucket{}
	case b.depth == t.depth:
		dir := make([]*bucket, 2*len(t.dir))
		for i, e := range t.dir {
			dir[2*i], dir[2*i+1] = e, e
		}
		t.dir, t.depth = dir, t.depth+1
	}
	var used [2]int
	for _, c := range old.cells {
		if c != 0 {
			used[uint64(c)>>(63-old.depth)&1]++
		}
	}
	halves := [2]*bucket{}
	for i := range halves {
		size := t.half(used[i])
		halves[i] = &bucket{cells: make([]Cell, size), depth: old.depth + 1}
		t.cells += int32(size)
	}
	t.cells -= int32(len(old.cells))
	for _, c := range old.cells {
		if c != 0 {
			halves[uint64(c)>>(63-old.depth)&1].put(c)
		}
	}
	span := 1 << (t.depth - old.depth)
	first := int(hash>>(64-t.depth)) &^ (span - 1)
	for i := range span {
		t.dir[first+i] = halves[i*2/span]
	}
}

func (t *Table) resize(b *bucket, size int) {
	old := b.cells
	b.cells, b.used = make([]Cell, size), 0
	for _, c := range old {
		if c != 0 {
			b.put(c)
		}
	}
	t.cells += int32(size - len(old))
}

// Remove removes the cell at, which Find or a walk returned. Cells after it move up, so no mark of
// a deleted cell is needed.
func (t *Table) Remove(at *Cell) {
	b := t.bucket(uint64(*at))
	hole := b.home(uint64(*at))
	for &b.cells[hole] != at {
		hole = b.after(hole)
	}
	for i := b.after(hole); b.cells[i] != 0; i = b.after(i) {
		home := b.home(uint64(b.cells[i]))
		if b.distance(i, home) >= b.distance(i, hole) {
			b.cells[hole] = b.cells[i]
			hole = i
		}
	}
	b.cells[hole] = 0
	b.used--
	t.used--
	if len(b.cells) > firstCells && b.used*8 < len(b.cells) {
		t.resize(b, smaller(len(b.cells)))
	}
}

// WalkBucket visits the cells of a hash prefix's bucket, from that prefix on, in no order. It
// returns the prefix at which the next bucket begins; done: there is none. The visitor may change a
// cell's flags and ref but not insert or remove.
func (t *Table) WalkBucket(from uint32, visit func(*Cell)) (next uint32, done bool) {
	b := t.bucket(uint64(from) << HashShift)
	for i := range b.cells {
		if b.cells[i] != 0 && b.cells[i].Prefix() >= from {
			visit(&b.cells[i])
		}
	}
	if t.dir == nil {
		return 0, true
	}
	span := 1 << (t.depth - b.depth)
	at := int(uint64(from)<<HashShift>>(64-t.depth))&^(span-1) + span
	if at == len(t.dir) {
		return 0, true
	}
	return uint32(uint64(at) << (64 - t.depth) >> HashShift), false
}

// oneBucket is the result of Starts for tables with one bucket.
var oneBucket = []uint32{0}

// Starts returns the hash prefixes at which the buckets begin.
func (t *Table) Starts() (list []uint32) {
	if t.dir == nil {
		return oneBucket
	}
	for at := 0; at < len(t.dir); at += 1 << (t.depth - t.dir[at].depth) {
		list = append(list, uint32(uint64(at)<<(64-t.depth)>>HashShift))
	}
	return list
}

// Walk visits all cells.
func (t *Table) Walk(visit func(*Cell)) {
	for from, done := uint32(0), false; !done; {
		from, done = t.WalkBucket(from, visit)
	}
}

// Scan visits about count cells, with the prefixes from from up to but not including next, which it
// returns. next is 0 if there are no more. Where it finds nothing, it stops after about ten buckets
// per count. The visitor may neither insert nor remove.
func (t *Table) Scan(from uint32, count int, visit func(Cell)) (next uint32) {
	at, end := uint64(from)&(1<<HashBits-1), uint64(1<<HashBits)
	seen := 0
	for range 10 * max(count, 1) {
		b := t.bucket(at << HashShift)
		size := uint64(1) << (HashBits - b.depth)
		to := min((at/size+1)*size,
			at+1+size/uint64(max(b.used, 1))*uint64(max(count-seen, 1)))
		seen += b.visit(at, to, visit)
		if at = to; at == end {
			return 0
		}
		if seen >= count {
			break
		}
	}
	return uint32(at)
}

// visit visits the cells with prefixes from from up to but not including to, which are in this
// bucket. They are between the homes of the two, or after these up to the first empty cell.
func (b *bucket) visit(from, to uint64, visit func(Cell)) (seen int) {
	if b.used == 0 {
		return 0
	}
	first, last := b.home(from<<HashShift), b.home((to-1)<<HashShift)
	at := first
	for n := range b.cells {
		c := b.cells[at]
		if c == 0 && first+n > last {
			return seen
		}
		at = b.after(at)
		if h := uint64(c.Prefix()); c != 0 && h >= from && h < to {
			visit(c)
			seen++
		}
	}
	return seen
}
