package storage

import "encoding/binary"

// A slab block holds one small string key whole, without a Go pointer in it, so that
// millions of keys cost the collector nothing:
//
//	0        8      16       20      24     25      27      29
//	┌────────┬──────┬────────┬───────┬──────┬───────┬───────┬─────┬───────┐
//	│deadline│ LSN  │created │access │flags │key len│val len│ key │ value │
//	└────────┴──────┴────────┴───────┴──────┴───────┴───────┴─────┴───────┘
//
// Integers are little-endian. Deadline is Unix milliseconds (0: none); created is the
// Unix second the deadline was set; access is the Unix second of the last access, kept
// for OBJECT IDLETIME and eviction.
type block []byte

const (
	blockHeader = 29
	// maxBlock is the largest block in a slab; larger keys and values are Go objects.
	maxBlock = 4096

	offDeadline = 0
	offLSN      = 8
	offCreated  = 16
	offAccess   = 20
	offFlags    = 24
	offKeyLen   = 25
	offValLen   = 27
)

// Flags of a key in memory.
const (
	// flagDisk: a copy of the key may be in the data file, so removing the key must leave a
	// tombstone.
	flagDisk = 1 << iota
	// flagMoved: the elements that the copy in the data file names now belong to
	// another key, so replacing the copy does not make them garbage.
	flagMoved
	// flagRaw: the string was written in part (APPEND, SETRANGE); OBJECT ENCODING shows that.
	flagRaw
	// flagUnstated: the deadline is from the data file, and no replayed record has stated it yet.
	// It has no meaning after recovery.
	flagUnstated
)

func (b block) deadline() int64     { return int64(binary.LittleEndian.Uint64(b[offDeadline:])) }
func (b block) setDeadline(d int64) { binary.LittleEndian.PutUint64(b[offDeadline:], uint64(d)) }
func (b block) lsn() uint64         { return binary.LittleEndian.Uint64(b[offLSN:]) }
func (b block) setLSN(l uint64)     { binary.LittleEndian.PutUint64(b[offLSN:], l) }
func (b block) created() uint32     { return binary.LittleEndian.Uint32(b[offCreated:]) }
func (b block) setCreated(c uint32) { binary.LittleEndian.PutUint32(b[offCreated:], c) }
func (b block) access() uint32      { return binary.LittleEndian.Uint32(b[offAccess:]) }
func (b block) setAccess(a uint32)  { binary.LittleEndian.PutUint32(b[offAccess:], a) }
func (b block) key() []byte {
	return b[blockHeader : blockHeader+int(binary.LittleEndian.Uint16(b[offKeyLen:]))]
}
func (b block) value() []byte {
	from := blockHeader + int(binary.LittleEndian.Uint16(b[offKeyLen:]))
	return b[from : from+int(binary.LittleEndian.Uint16(b[offValLen:]))]
}

// setKey and setValue fill a block that is large enough; the key comes first.
func (b block) setKey(key []byte) {
	binary.LittleEndian.PutUint16(b[offKeyLen:], uint16(len(key)))
	copy(b[blockHeader:], key)
}

func (b block) setValue(val []byte) {
	binary.LittleEndian.PutUint16(b[offValLen:], uint16(len(val)))
	copy(b[blockHeader+int(binary.LittleEndian.Uint16(b[offKeyLen:])):], val)
}

// slabs allocates blocks. A chunk serves one size class; a chunk without a live block is freed
// (pages.go). A ref names a block by chunk index and granule within the chunk, so that no pointer
// to a block is needed outside.
type slabs struct {
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
	chunkSize     = chunkGranules * granule
)

// maxChunks bounds the chunks of a part, 16 GiB: half of what a ref can name. Beyond it strings
// are Go objects.
const maxChunks = 1 << 19

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
var classOf = func() (of [maxBlock/granule + 1]uint8) {
	class := uint8(0)
	for g := range of {
		if g*granule > int(classes[class]) {
			class++
		}
		of[g] = class
	}
	return of
}()

func newSlabs() slabs {
	var s slabs
	for i := range s.partial {
		s.partial[i] = -1
	}
	return s
}

// room reports whether there is room for a block in no more than limit chunks.
func (s *slabs) room(size, limit int) bool {
	return s.partial[classOf[(size+granule-1)/granule]] >= 0 || len(s.holes) > 0 ||
		len(s.chunks) < limit
}

// alloc returns a block of at least size bytes and its ref. There must be room.
func (s *slabs) alloc(size int) (uint32, block) {
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
	if c.free == 0 && int(c.bump)*granule+length > chunkSize {
		s.unlist(at)
	}
	b := block(c.mem[int(g)*granule : int(g)*granule+length : int(g)*granule+length])
	clear(b[:blockHeader])
	return uint32(at)<<chunkBits | uint32(g), b
}

// nextFree gives the free block after the one at granule g, as chunk.free has it.
func (s *slabs) nextFree(c *chunk, g uint16) uint16 {
	return binary.LittleEndian.Uint16(c.mem[int(g)*granule:])
}

// at is the block that ref names, with its full capacity.
func (s *slabs) at(ref uint32) block {
	c := &s.chunks[ref>>chunkBits]
	from := int(ref&(chunkGranules-1)) * granule
	to := from + int(classes[c.class])
	return block(c.mem[from:to:to])
}

func (s *slabs) release(ref uint32) {
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
		s.inChunks -= chunkSize
		s.chunksOf[c.class]--
		c.page.free()
		*c = chunk{}
		s.holes = append(s.holes, at)
		s.emptied++
	case !c.listed:
		s.list(at)
	}
}

func (s *slabs) addChunk(class uint8) int32 {
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
	s.inChunks += chunkSize
	s.chunksOf[class]++
	s.list(at)
	return at
}

// drop frees all memory. No block is in use any more.
func (s *slabs) drop() {
	for i := range s.chunks {
		if c := &s.chunks[i]; c.page != nil {
			c.page.free()
			c.mem, c.page = nil, nil
		}
	}
	s.live, s.inChunks = 0, 0
	s.chunksOf, s.blocks = [len(classes)]int32{}, [len(classes)]int32{}
}

func (s *slabs) list(at int32) {
	c := &s.chunks[at]
	c.prev, c.next, c.listed = -1, s.partial[c.class], true
	if c.next >= 0 {
		s.chunks[c.next].prev = at
	}
	s.partial[c.class] = at
}

func (s *slabs) unlist(at int32) {
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
