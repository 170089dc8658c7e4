package object

import "unsafe"

// arena keeps the entries of a large value in blocks of plain bytes. Entries follow each other in a
// block without gaps. A removed entry's bytes stay, marked, until less than half of the block is in
// use. Then the other entries move elsewhere and the block is freed, so that at most about half of
// the memory is waste. An entry above a quarter of a block has a block of its own.
//
// A ref names an entry: the number of the block, and the offset in it.
type arena struct {
	blocks    []arenaBlock
	holes     []uint32 // blocks without memory
	cur       uint32   // where new entries go
	allocated int      // bytes of all blocks
}

type arenaBlock struct {
	mem  []byte // as long as it is filled
	live int    // bytes of entries that are not removed
}

const (
	refBits    = 14
	blockSize  = 1 << refBits
	firstBlock = 1 << 10
)

type ref uint64

func (a *arena) bytes() int {
	return a.allocated + cap(a.blocks)*int(unsafe.Sizeof(arenaBlock{})) + cap(a.holes)*4
}

// sharesBlock reports whether an entry of size bytes is in a block with others.
func sharesBlock(size int) bool { return size <= blockSize/4 }

// at returns the memory from r on.
func (a *arena) at(r ref) []byte { return a.blocks[r>>refBits].mem[r&(blockSize-1):] }

// alloc returns the ref and the memory of a new entry of size bytes.
func (a *arena) alloc(size int) (ref, []byte) {
	if !sharesBlock(size) {
		n := a.add(size)
		b := &a.blocks[n]
		b.mem, b.live = b.mem[:size], size
		return ref(n) << refBits, b.mem
	}
	if len(a.blocks) == 0 || cap(a.blocks[a.cur].mem)-len(a.blocks[a.cur].mem) < size {
		old := a.cur
		a.cur = a.add(min(max(a.allocated, firstBlock, size), blockSize))
		if int(old) < len(a.blocks) && old != a.cur && a.blocks[old].live == 0 {
			a.drop(old)
		}
	}
	b := &a.blocks[a.cur]
	from := len(b.mem)
	b.mem = b.mem[:from+size]
	b.live += size
	return ref(a.cur)<<refBits | ref(from), b.mem[from:]
}

func (a *arena) add(size int) uint32 {
	mem := make([]byte, 0, size)
	a.allocated += size
	if n := len(a.holes); n > 0 {
		at := a.holes[n-1]
		a.holes = a.holes[:n-1]
		a.blocks[at].mem = mem
		return at
	}
	a.blocks = append(a.blocks, arenaBlock{mem: mem})
	return uint32(len(a.blocks) - 1)
}

func (a *arena) drop(n uint32) {
	b := &a.blocks[n]
	if b.mem == nil {
		return
	}
	a.allocated -= cap(b.mem)
	*b = arenaBlock{}
	a.holes = append(a.holes, n)
}

// free marks the entry at r, of size bytes, as removed. It calls moved for each entry that it moves
// to another place.
func (a *arena) free(r ref, size int, moved func(key []byte, from, to ref)) {
	n := uint32(r >> refBits)
	b := &a.blocks[n]
	b.mem[r&(blockSize-1)] |= flagGone
	b.live -= size
	switch {
	case n == a.cur:
	case b.live == 0:
		a.drop(n)
	case b.live*2 < cap(b.mem):
		a.evacuate(n, moved)
	}
}

// evacuate moves the living entries of block n to other blocks and frees block n.
func (a *arena) evacuate(n uint32, moved func(key []byte, from, to ref)) {
	mem := a.blocks[n].mem
	for off := 0; off < len(mem); {
		e := entryAt(mem[off:])
		if mem[off]&flagGone == 0 {
			to, dst := a.alloc(e.size)
			copy(dst, mem[off:off+e.size])
			moved(e.key, ref(n)<<refBits|ref(off), to)
		}
		off += e.size
	}
	a.drop(n)
}

// pages is a long array that grows without copying its elements.
type pages struct {
	list [][]ref
	n    int
}

const pageRefs = 1024

func (p *pages) bytes() int {
	if len(p.list) == 1 {
		return cap(p.list[0])*8 + 24
	}
	return len(p.list)*pageRefs*8 + cap(p.list)*24
}

func (p *pages) at(pos uint32) *ref { return &p.list[pos/pageRefs][pos%pageRefs] }

func (p *pages) push(r ref) {
	last := p.n / pageRefs
	if last == len(p.list) {
		var page []ref
		if last > 0 {
			page = make([]ref, 0, pageRefs)
		}
		p.list = append(p.list, page)
	}
	p.list[last] = append(p.list[last], r)
	p.n++
}

func (p *pages) pop() ref {
	p.n--
	last := p.n / pageRefs
	page := p.list[last]
	r := page[len(page)-1]
	p.list[last] = page[:len(page)-1]
	if len(page) == 1 {
		p.list[last] = nil
		p.list = p.list[:last]
	}
	return r
}
