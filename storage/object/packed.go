package object

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// packed is the small form of hashes, sets and sorted sets: one piece of memory, which
// is searched from its front.
//
//	┌───────┬──────────┬───────┬───────┬─
//	│ flags │ count    │ entry │ entry │ …
//	└───────┴──────────┴───────┴───────┴─
//	 1 byte  4 bytes LE
//
// A set of integers has the same head and, instead of entries, its members (ints.go).
// nil is an empty one.
type packed []byte

const packedHead = 5

const (
	// flagEx: an element has or had a deadline; OBJECT ENCODING shows it.
	flagEx = 1 << iota
	// flagScored: the entries are in order of score, so deadlines may be anywhere.
	flagScored
	// flagInts: the members of a set of integers follow, each of 2, 4 or 8 bytes.
	flagInts2
	flagInts4
	flagInts8
	flagInts = flagInts2 | flagInts4 | flagInts8
)

func (p packed) len() int {
	if p == nil {
		return 0
	}
	return int(binary.LittleEndian.Uint32(p[1:]))
}

func (p packed) has(flag byte) bool { return p != nil && p[0]&flag != 0 }

func (p packed) addLen(n int) {
	binary.LittleEndian.PutUint32(p[1:], uint32(p.len()+n))
}

// find returns the offset of an element's entry, and the entry; ok is false if there is none.
func (p packed) find(key []byte) (off int, e entry, ok bool) {
	for off = packedHead; off < len(p); off += e.size {
		// An entry with a short key and value and without a deadline is skipped if its key
		// differs in length or in the last byte.
		if head, vlen := p[off], p[off+1]; head|vlen < 0x80 && head&flagTimed == 0 {
			klen := int(head >> 2)
			if e.size = 2 + klen + int(vlen); klen != len(key) ||
				klen > 0 && p[off+1+klen] != key[klen-1] {
				continue
			}
		}
		if e = entryAt(p[off:]); bytes.Equal(e.key, key) {
			return off, e, true
		}
	}
	return 0, entry{}, false
}

// seek returns the offset and the rank of the first entry for which before is false.
func (p packed) seek(before func(e entry) bool) (off, rank int) {
	for off = packedHead; off < len(p); rank++ {
		e := entryAt(p[off:])
		if !before(e) {
			return off, rank
		}
		off += e.size
	}
	return max(len(p), packedHead), rank
}

// splice replaces the cut bytes at off by size bytes, which are not filled yet.
func (p *packed) splice(off, cut, size int) {
	if *p == nil {
		*p = resize(nil, packedHead+size, spare(packedHead+size))
		clear((*p)[:packedHead])
		return
	}
	old := len(*p)
	if size <= cut {
		copy((*p)[off+size:], (*p)[off+cut:])
		*p = (*p)[:old+size-cut]
		if cap(*p) > 64 && len(*p) < cap(*p)/2 {
			*p = append(packed(nil), *p...)
		}
		return
	}
	*p = resize(*p, old+size-cut, spare(old+size-cut))
	copy((*p)[off+size:], (*p)[off+cut:old])
}

// resize returns b with length n. If it allocates memory, it leaves room for spare more bytes.
func resize(b []byte, n, spare int) []byte {
	if n <= cap(b) {
		return b[:n]
	}
	grown := slices.Grow([]byte(nil), n+spare)[:n]
	copy(grown, b)
	return grown
}

// spare returns how much spare room new memory for n bytes gets. There are many small values, so
// below 512 bytes it is none, and above that an eighth.
func spare(n int) int {
	if n < 512 {
		return 0
	}
	return n / 8
}

func (p *packed) insert(off int, key, val []byte, deadline int64) {
	size := entrySize(key, val, deadline)
	p.splice(off, 0, size)
	putEntry((*p)[off:], key, val, deadline)
	p.addLen(1)
	if deadline != 0 {
		(*p)[0] |= flagEx
	}
}

// replace replaces the value of the entry at off, in its place.
func (p *packed) replace(off int, old entry, val []byte, deadline int64) {
	size := entrySize(old.key, val, deadline)
	if size-len(val) != old.size-len(old.val) {
		// More than the length of the value changes.
		key := bytes.Clone(old.key)
		p.splice(off, old.size, size)
		putEntry((*p)[off:], key, val, deadline)
	} else {
		at := old.size - len(old.val)
		p.splice(off+at, len(old.val), len(val))
		putEntry((*p)[off:], (*p)[off+at-len(old.key):off+at], val, deadline)
	}
	if deadline != 0 {
		(*p)[0] |= flagEx
	}
}

func (p *packed) remove(off, size int) {
	p.addLen(-1)
	p.splice(off, size, 0)
}

// at returns the offset of entry number i.
func (p packed) at(i int) int {
	off := packedHead
	for ; i > 0; i-- {
		off += entryAt(p[off:]).size
	}
	return off
}

func (p packed) walk(fn func(elem, val []byte, deadline int64) bool) bool {
	for off := packedHead; off < len(p); {
		e := entryAt(p[off:])
		if !fn(e.key, e.val, e.deadline) {
			return false
		}
		off += e.size
	}
	return true
}
