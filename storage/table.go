package storage

import "math/bits"

// A slot's table maps key hashes to the places of the keys. It is a directory of buckets, as in
// extendible hashing. A bucket is an open-addressed array of cells that grows to bucketCells and
// then splits by the next bit of the hash. So no operation ever rehashes a large table, and walking
// it bucket by bucket goes in hash order.
//
//	cell  63         35  34   33    32  31        0
//	     ┌─────────────┬────┬─────┬────┬──────────┐
//	     │ hash, 29 bit│tomb│dirty│obj │ ref      │   0 is an empty cell: ref+1 is stored
//	     └─────────────┴────┴─────┴────┴──────────┘
//
// obj: ref is an index of the part's objects instead of a slab block. dirty: the data
// file does not show this state yet. tomb: the key does not exist, but a copy of it is
// in the data file until the next checkpoint.
type cell uint64

const (
	cellObj   cell = 1 << 32
	cellDirty cell = 1 << 33
	cellTomb  cell = 1 << 34

	hashBits    = 29
	hashShift   = 64 - hashBits
	bucketCells = 1024
	firstCells  = 8
)

func newCell(hash uint64, ref uint32, flags cell) cell {
	return cell(hash&^(1<<hashShift-1)) | flags | cell(ref+1)
}

func (c cell) ref() uint32       { return uint32(c) - 1 }
func (c cell) is(flag cell) bool { return c&flag != 0 }

// prefix is the part of the key's hash that the cell keeps.
func (c cell) prefix() uint32 { return uint32(c >> hashShift) }

type bucket struct {
	cells []cell
	used  int
	depth uint8 // leading hash bits that all cells of this bucket share
}

type table struct {
	only  bucket    // the one bucket while dir is nil, in place to save two cache misses
	dir   []*bucket // 1<<depth entries; a bucket of lesser depth is in several
	depth uint8
	used  int
}

func (t *table) bucket(hash uint64) *bucket {
	if t.dir == nil {
		return &t.only
	}
	return t.dir[hash>>(64-t.depth)]
}

// home is the first cell for a hash in the bucket: the bits after the shared ones, so that cells
// are in hash order except for displaced ones.
func (b *bucket) home(hash uint64) int {
	k := bits.TrailingZeros(uint(len(b.cells)))
	return int(hash >> hashShift << (hashShift + b.depth) >> (64 - k))
}

// find gives the cell of a key for which same says yes among those with its hash.
func (t *table) find(hash uint64, same func(cell) bool) (*cell, bool) {
	b := t.bucket(hash)
	if b.used == 0 {
		return nil, false
	}
	mask := len(b.cells) - 1
	for i := b.home(hash); b.cells[i] != 0; i = (i + 1) & mask {
		if uint64(b.cells[i])>>hashShift == hash>>hashShift && same(b.cells[i]) {
			return &b.cells[i], true
		}
	}
	return nil, false
}

// insert adds a cell whose key is not in the table, and returns its place, which is valid until the
// next insert or remove.
func (t *table) insert(hash uint64, c cell) *cell {
	b := t.bucket(hash)
	for (b.used+1)*4 > len(b.cells)*3 {
		t.grow(b, hash)
		b = t.bucket(hash)
	}
	t.used++
	return b.put(c)
}

func (b *bucket) put(c cell) *cell {
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
func (t *table) grow(b *bucket, hash uint64) {
	if len(b.cells) == 0 {
		b.cells = make([]cell, firstCells)
		return
	}
	if len(b.cells) < bucketCells ||
		int(b.depth)+bits.TrailingZeros(uint(bucketCells)) >= hashBits {
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
		halves[i] = &bucket{cells: make([]cell, bucketCells), depth: old.depth + 1}
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
	b.cells, b.used = make([]cell, size), 0
	for _, c := range old {
		if c != 0 {
			b.put(c)
		}
	}
}

// remove removes the cell at, which find or walk returned. Cells after it move up, so no mark of a
// deleted cell is needed.
func (t *table) remove(at *cell) {
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

// walkBucket visits the cells of hash prefix from's bucket, from that prefix on and in no order,
// and returns where the following bucket begins (done: there is none). The visitor may change a
// cell's flags and ref but not insert or remove.
func (t *table) walkBucket(from uint32, visit func(*cell)) (next uint32, done bool) {
	b := t.bucket(uint64(from) << hashShift)
	for i := range b.cells {
		if b.cells[i] != 0 && b.cells[i].prefix() >= from {
			visit(&b.cells[i])
		}
	}
	if t.dir == nil {
		return 0, true
	}
	span := 1 << (t.depth - b.depth)
	at := int(uint64(from)<<hashShift>>(64-t.depth))&^(span-1) + span
	if at == len(t.dir) {
		return 0, true
	}
	return uint32(uint64(at) << (64 - t.depth) >> hashShift), false
}

// oneBucket is where the buckets of most tables begin.
var oneBucket = []uint32{0}

// starts gives the hash prefixes at which the buckets begin.
func (t *table) starts() (list []uint32) {
	if t.dir == nil {
		return oneBucket
	}
	for at := 0; at < len(t.dir); at += 1 << (t.depth - t.dir[at].depth) {
		list = append(list, uint32(uint64(at)<<(64-t.depth)>>hashShift))
	}
	return list
}

// walk visits all cells.
func (t *table) walk(visit func(*cell)) {
	for from, done := uint32(0), false; !done; {
		from, done = t.walkBucket(from, visit)
	}
}
