// Package keytable maps the hashes of keys to the places of the keys in memory.
//
// A Table is a directory of buckets, as in extendible hashing. A bucket is an open-addressed array
// of cells that grows to BucketCells and then splits by the next bit of the hash. So no operation
// ever rehashes a large table, and a walk over the buckets is in hash order.
package keytable

import "math/bits"

// Cell is the entry of a key:
//
//	63         35  34   33    32  31        0
//	┌─────────────┬────┬─────┬────┬──────────┐
//	│ hash, 29 bit│tomb│dirty│obj │ ref      │   0 is an empty cell: ref+1 is stored
//	└─────────────┴────┴─────┴────┴──────────┘
//
// The owner of the table gives the flags their meaning. Obj: ref is the index of an object, instead
// of a slab block. Dirty: the data file does not show this state yet. Tomb: the key does not exist,
// but a copy of it is in the data file until the next checkpoint.
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

// NewCell returns the cell of a key with this hash.
func NewCell(hash uint64, ref uint32, flags Cell) Cell {
	return Cell(hash&^(1<<HashShift-1)) | flags | Cell(ref+1)
}

// Ref returns the ref that NewCell got.
func (c Cell) Ref() uint32 { return uint32(c) - 1 }

// Is reports whether the cell has a flag.
func (c Cell) Is(flag Cell) bool { return c&flag != 0 }

// Prefix returns the part of the key's hash that the cell keeps.
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
	depth uint8
	used  int
}

func (t *Table) bucket(hash uint64) *bucket {
	if t.dir == nil {
		return &t.only
	}
	return t.dir[hash>>(64-t.depth)]
}

// Len returns how many cells the table has.
func (t *Table) Len() int { return t.used }

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
	k := bits.TrailingZeros(uint(len(b.cells)))
	return int(hash >> HashShift << (HashShift + b.depth) >> (64 - k))
}

// Find returns the cell with this hash for which same returns true, and whether there is one.
func (t *Table) Find(hash uint64, same func(Cell) bool) (*Cell, bool) {
	b := t.bucket(hash)
	if b.used == 0 {
		return nil, false
	}
	mask := len(b.cells) - 1
	for i := b.home(hash); b.cells[i] != 0; i = (i + 1) & mask {
		if uint64(b.cells[i])>>HashShift == hash>>HashShift && same(b.cells[i]) {
			return &b.cells[i], true
		}
	}
	return nil, false
}

// Insert adds a cell whose key is not in the table, and returns its place, which is valid until the
// next Insert or Remove.
func (t *Table) Insert(hash uint64, c Cell) *Cell {
	b := t.bucket(hash)
	for (b.used+1)*4 > len(b.cells)*3 {
		t.grow(b, hash)
		b = t.bucket(hash)
	}
	t.used++
	return b.put(c)
}

func (b *bucket) put(c Cell) *Cell {
	mask := len(b.cells) - 1
	i := b.home(uint64(c))
	for b.cells[i] != 0 {
		i = (i + 1) & mask
	}
	b.cells[i] = c
	b.used++
	return &b.cells[i]
}

// grow makes room in b, the bucket of hash: twice the cells, or a split in two.
func (t *Table) grow(b *bucket, hash uint64) {
	if len(b.cells) == 0 {
		b.cells = make([]Cell, firstCells)
		return
	}
	if len(b.cells) < BucketCells ||
		int(b.depth)+bits.TrailingZeros(uint(BucketCells)) >= HashBits {
		b.rebuild(len(b.cells) * 2)
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
	halves := [2]*bucket{}
	for i := range halves {
		halves[i] = &bucket{cells: make([]Cell, BucketCells), depth: old.depth + 1}
	}
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

func (b *bucket) rebuild(size int) {
	old := b.cells
	b.cells, b.used = make([]Cell, size), 0
	for _, c := range old {
		if c != 0 {
			b.put(c)
		}
	}
}

// Remove removes the cell at, which Find or a walk returned. Cells after it move up, so no mark of
// a deleted cell is needed.
func (t *Table) Remove(at *Cell) {
	b := t.bucket(uint64(*at))
	mask := len(b.cells) - 1
	hole := b.home(uint64(*at))
	for &b.cells[hole] != at {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; b.cells[i] != 0; i = (i + 1) & mask {
		if home := b.home(uint64(b.cells[i])); (i-home)&mask >= (i-hole)&mask {
			b.cells[hole] = b.cells[i]
			hole = i
		}
	}
	b.cells[hole] = 0
	b.used--
	t.used--
	if len(b.cells) > firstCells && b.used*8 < len(b.cells) {
		b.rebuild(len(b.cells) / 2)
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
