package raftlog

import (
	"math"
	"sort"
)

// A table in memory has the position in the files of each record with entries. It is divided into
// blocks. blockSize is how many records a block has.
const blockSize = 1024

// table locates the records with entries. For each record it has the index of the record's first
// valid entry, and the position in the wal before the record. Both grow from record to record. So a
// block has them in full for its first record, and as differences of 4 bytes for the others.
type table struct{ blocks []*block }

type block struct {
	index, place uint64 // of the first record
	n            int
	more         [blockSize]struct{ index, place uint32 }
}

// at returns a record of a block.
func (b *block) at(i int) (index, place uint64) {
	return b.index + uint64(b.more[i].index), b.place + uint64(b.more[i].place)
}

// add notes a record after all others.
func (t *table) add(index, place uint64) {
	var b *block
	if n := len(t.blocks); n > 0 {
		b = t.blocks[n-1]
	}
	if b == nil || b.n == blockSize || index-b.index > math.MaxUint32 ||
		place-b.place > math.MaxUint32 {
		b = &block{index: index, place: place}
		t.blocks = append(t.blocks, b)
	}
	b.more[b.n].index, b.more[b.n].place = uint32(index-b.index), uint32(place-b.place)
	b.n++
}

// cut forgets the records whose first entry is index or a later one.
func (t *table) cut(index uint64) {
	for n := len(t.blocks) - 1; n >= 0; n-- {
		b := t.blocks[n]
		b.n = sort.Search(b.n, func(i int) bool { first, _ := b.at(i); return first >= index })
		if b.n > 0 {
			return
		}
		t.blocks[n] = nil
		t.blocks = t.blocks[:n]
	}
}

// drop forgets, in whole blocks, records of which no entry comes after index.
func (t *table) drop(index uint64) {
	n := 0
	for n+1 < len(t.blocks) && t.blocks[n+1].index <= index+1 {
		n++
	}
	if n > 0 {
		t.blocks = append([]*block(nil), t.blocks[n:]...)
	}
}

// find returns the place of the record that has an entry, and the index with which the next record
// begins; MaxUint64 if there is none.
func (t *table) find(index uint64) (place, next uint64) {
	n := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].index > index }) - 1
	b := t.blocks[n]
	i := sort.Search(b.n, func(i int) bool { first, _ := b.at(i); return first > index }) - 1
	_, place = b.at(i)
	switch next = math.MaxUint64; {
	case i+1 < b.n:
		next, _ = b.at(i + 1)
	case n+1 < len(t.blocks):
		next = t.blocks[n+1].index
	}
	return place, next
}

// before returns the first index of the last record that begins at position or earlier. All entries
// before that index end there or earlier. ok is false if there is no such record.
func (t *table) before(position uint64) (index uint64, ok bool) {
	n := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].place > position }) - 1
	if n < 0 {
		return 0, false
	}
	b := t.blocks[n]
	i := sort.Search(b.n, func(i int) bool { _, place := b.at(i); return place > position }) - 1
	index, _ = b.at(i)
	return index, true
}
