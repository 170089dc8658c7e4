// Package slab keeps small string keys outside the Go heap.
//
// An Allocator gives out blocks. A block contains one key with its value and its header, and no Go
// pointer, so that millions of keys cost the garbage collector nothing.
package slab

import "encoding/binary"

// Block is the memory of one key:
//
//	0        8      16       20      24     25      27      29
//	┌────────┬──────┬────────┬───────┬──────┬───────┬───────┬─────┬───────┐
//	│deadline│ LSN  │created │access │flags │key len│val len│ key │ value │
//	└────────┴──────┴────────┴───────┴──────┴───────┴───────┴─────┴───────┘
//
// Integers are little-endian. Deadline is Unix milliseconds (0: none); created is the
// Unix second the deadline was set; access is the Unix second of the last access, kept
// for OBJECT IDLETIME and eviction.
type Block []byte

const (
	// Header is the size of the header of a block.
	Header = 29
	// MaxBlock is the largest block in a slab; larger keys and values are Go objects.
	MaxBlock = 4096

	offDeadline = 0
	offLSN      = 8
	offCreated  = 16
	offAccess   = 20
	offFlags    = 24
	offKeyLen   = 25
	offValLen   = 27
)

func (b Block) Deadline() int64     { return int64(binary.LittleEndian.Uint64(b[offDeadline:])) }
func (b Block) SetDeadline(d int64) { binary.LittleEndian.PutUint64(b[offDeadline:], uint64(d)) }
func (b Block) LSN() uint64         { return binary.LittleEndian.Uint64(b[offLSN:]) }
func (b Block) SetLSN(l uint64)     { binary.LittleEndian.PutUint64(b[offLSN:], l) }
func (b Block) Created() uint32     { return binary.LittleEndian.Uint32(b[offCreated:]) }
func (b Block) SetCreated(c uint32) { binary.LittleEndian.PutUint32(b[offCreated:], c) }
func (b Block) Access() uint32      { return binary.LittleEndian.Uint32(b[offAccess:]) }
func (b Block) SetAccess(a uint32)  { binary.LittleEndian.PutUint32(b[offAccess:], a) }
func (b Block) Flags() *byte        { return &b[offFlags] }
func (b Block) Key() []byte {
	return b[Header : Header+int(binary.LittleEndian.Uint16(b[offKeyLen:]))]
}
func (b Block) Value() []byte {
	from := Header + int(binary.LittleEndian.Uint16(b[offKeyLen:]))
	return b[from : from+int(binary.LittleEndian.Uint16(b[offValLen:]))]
}

// SetKey and SetValue fill a block that is large enough; the key comes first.
func (b Block) SetKey(key []byte) {
	binary.LittleEndian.PutUint16(b[offKeyLen:], uint16(len(key)))
	copy(b[Header:], key)
}

func (b Block) SetValue(val []byte) {
	binary.LittleEndian.PutUint16(b[offValLen:], uint16(len(val)))
	copy(b[Header+int(binary.LittleEndian.Uint16(b[offKeyLen:])):], val)
}

// Allocator allocates blocks from chunks. A chunk serves one size class; a chunk without a live
// block is freed (pages.go). A ref names a block by chunk index and granule within the chunk, so
// that no pointer to a block is needed outside.
type Allocator struct {
	chunks []chunk
	holes  []int32 // indexes in chunks that have no memory
	// Per class: the first chunk with room, or -1; how many chunks there are, and live blocks.
	partial, chunksOf, blocks [len(classes)]int32

	live     int64  // bytes in live blocks
	inChunks int64  // bytes in chunks
	emptied  uint32 // how many chunks were freed: their memory may be in use again
}

const (
	granule       = 8
	chunkBits     = 12
	chunkGranules = 1 << chunkBits
	ChunkSize     = chunkGranules * granule
)

// MaxChunks bounds the chunks of an allocator, 16 GiB: half of what a ref can name. Beyond it
// strings are Go objects.
const MaxChunks = 1 << 19

type chunk struct {
	mem        []byte // of page
	page       *page
	next, prev int32 // in the class's list of chunks with room
	class      uint8
	listed     bool
	live       uint16
	bump       uint16 // granules handed out so far
	free       uint16 // first free block (granule+1), 0: none
}

// classes are the block sizes: steps of an eighth of the size at most.
var classes = func() (sizes [56]uint16) {
	i := 0
	for _, s := range []struct{ upTo, step int }{{128, 8}, {256, 16}, {512, 32}, {1024, 64},
		{2048, 128}, {4096, 256}} {
		from := 0
		if i > 0 {
			from = int(sizes[i-1])
		}
		for size := from + s.step; size <= s.upTo; size += s.step {
			sizes[i] = uint16(size)
			i++
		}
	}
	return sizes
}()

// classOf maps a size in granules, rounded up, to its class.
var classOf = func() (of [MaxBlock/granule + 1]uint8) {
	class := uint8(0)
	for g := range of {
		if g*granule > int(classes[class]) {
			class++
		}
		of[g] = class
	}
	return of
}()

// New returns an allocator without memory.
func New() Allocator {
	var s Allocator
	for i := range s.partial {
		s.partial[i] = -1
	}
	return s
}

// SameClass reports whether a block of size bytes fits into b and would not be smaller than b.
func (b Block) SameClass(size int) bool {
	return classOf[(size+granule-1)/granule] == classOf[len(b)/granule]
}

// Reset forgets all blocks, none of which is in use. The chunks of the blocks were freed.
func (s *Allocator) Reset() {
	if len(s.chunks) > 0 {
		emptied := s.emptied
		*s = New()
		s.emptied = emptied
	}
}

// Freed returns how many chunks were freed so far. As long as it is the same, no ref of a block
// that was released is inside another block.
func (s *Allocator) Freed() uint32 { return s.emptied }

// Has reports whether the chunk of ref has memory.
func (s *Allocator) Has(ref uint32) bool { return s.chunks[ref>>chunkBits].mem != nil }

// Bytes returns how large the blocks in use are, and Held how large all chunks are.
func (s *Allocator) Bytes() int64 { return s.live }
func (s *Allocator) Held() int64  { return s.inChunks }

// Count returns how many chunks there are, including those whose memory was freed.
func (s *Allocator) Count() int { return len(s.chunks) }

// Room reports whether there is room for a block in no more than limit chunks.
func (s *Allocator) Room(size, limit int) bool {
	return s.partial[classOf[(size+granule-1)/granule]] >= 0 || len(s.holes) > 0 ||
		len(s.chunks) < limit
}

// Alloc returns a block of at least size bytes and its ref. There must be room.
func (s *Allocator) Alloc(size int) (uint32, Block) {
	class := classOf[(size+granule-1)/granule]
	at := s.partial[class]
	if at < 0 {
		at = s.addChunk(class)
	}
	c := &s.chunks[at]
	length := int(classes[class])
	var g uint16
	if c.free != 0 {
		g = c.free - 1
		c.free = s.nextFree(c, g)
	} else {
		g = c.bump
		c.bump += uint16(length / granule)
	}
	c.live++
	s.blocks[class]++
	s.live += int64(length)
	if c.free == 0 && int(c.bump)*granule+length > ChunkSize {
		s.unlist(at)
	}
	b := Block(c.mem[int(g)*granule : int(g)*granule+length : int(g)*granule+length])
	clear(b[:Header])
	return uint32(at)<<chunkBits | uint32(g), b
}

// nextFree returns the free block after the one at granule g, in the form of chunk.free.
func (s *Allocator) nextFree(c *chunk, g uint16) uint16 {
	return binary.LittleEndian.Uint16(c.mem[int(g)*granule:])
}

// At returns the block that ref names, with its full capacity.
func (s *Allocator) At(ref uint32) Block {
	c := &s.chunks[ref>>chunkBits]
	from := int(ref&(chunkGranules-1)) * granule
	to := from + int(classes[c.class])
	return Block(c.mem[from:to:to])
}

// Release frees the block that ref names.
func (s *Allocator) Release(ref uint32) {
	at := int32(ref >> chunkBits)
	c := &s.chunks[at]
	g := uint16(ref & (chunkGranules - 1))
	binary.LittleEndian.PutUint16(c.mem[int(g)*granule:], c.free)
	c.free = g + 1
	c.live--
	s.blocks[c.class]--
	s.live -= int64(classes[c.class])
	switch {
	case c.live == 0:
		if c.listed {
			s.unlist(at)
		}
		s.inChunks -= ChunkSize
		s.chunksOf[c.class]--
		c.page.free()
		*c = chunk{}
		s.holes = append(s.holes, at)
		s.emptied++
	case !c.listed:
		s.list(at)
	}
}

func (s *Allocator) addChunk(class uint8) int32 {
	var at int32
	if n := len(s.holes); n > 0 {
		at = s.holes[n-1]
		s.holes = s.holes[:n-1]
	} else {
		at = int32(len(s.chunks))
		s.chunks = append(s.chunks, chunk{})
	}
	pg := pages.take()
	s.chunks[at] = chunk{mem: pg.mem, page: pg, class: class}
	s.inChunks += ChunkSize
	s.chunksOf[class]++
	s.list(at)
	return at
}

// Drop frees all memory. No block is in use any more.
func (s *Allocator) Drop() {
	for i := range s.chunks {
		if c := &s.chunks[i]; c.page != nil {
			c.page.free()
			c.mem, c.page = nil, nil
		}
	}
	s.live, s.inChunks = 0, 0
	s.chunksOf, s.blocks = [len(classes)]int32{}, [len(classes)]int32{}
}

func (s *Allocator) list(at int32) {
	c := &s.chunks[at]
	c.prev, c.next, c.listed = -1, s.partial[c.class], true
	if c.next >= 0 {
		s.chunks[c.next].prev = at
	}
	s.partial[c.class] = at
}

func (s *Allocator) unlist(at int32) {
	c := &s.chunks[at]
	if c.prev >= 0 {
		s.chunks[c.prev].next = c.next
	} else {
		s.partial[c.class] = c.next
	}
	if c.next >= 0 {
		s.chunks[c.next].prev = c.prev
	}
	c.listed = false
}

const (
	// A class's gaps may make up one part in slabGapShare of its chunks, or one chunk if that
	// is more.
	slabGapShare = 16
	// sparseLook is how many chunks with gaps are examined to find the sparsest.
	sparseLook = 64
)

// Sparse returns a chunk with few live blocks, of a class whose gaps add up to a chunk or more. It
// returns -1 if there is no such class.
func (s *Allocator) Sparse() int32 {
	for class := range classes {
		each, chunks := blocksOf(class), int(s.chunksOf[class])
		if chunks*each-int(s.blocks[class]) < max(1, chunks/slabGapShare)*each {
			continue
		}
		best := s.partial[class]
		for at, n := best, 0; at >= 0 && n < sparseLook; at, n = s.chunks[at].next, n+1 {
			if s.chunks[at].live < s.chunks[best].live {
				best = at
			}
		}
		return best
	}
	return -1
}

// blocksOf returns how many blocks of a class fit into a chunk.
func blocksOf(class int) int { return ChunkSize / int(classes[class]) }

// Refs returns the refs of live blocks of a chunk, n at most.
func (s *Allocator) Refs(at int32, n int) (list []uint32) {
	c := &s.chunks[at]
	var free [chunkGranules]bool
	for next := c.free; next != 0; next = s.nextFree(c, next-1) {
		free[next-1] = true
	}
	step := classes[c.class] / granule
	for g := uint16(0); g < c.bump && len(list) < n; g += step {
		if !free[g] {
			list = append(list, uint32(at)<<chunkBits|uint32(g))
		}
	}
	return list
}

// Move copies a block into a gap of another chunk of its class, which must exist, and returns its
// ref there.
func (s *Allocator) Move(ref uint32) uint32 {
	if at := int32(ref >> chunkBits); s.chunks[at].listed {
		s.unlist(at) // release lists it again
	}
	from := s.At(ref)
	to, b := s.Alloc(len(from))
	copy(b, from)
	return to
}
