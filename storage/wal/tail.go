package wal

import "slices"

const (
	// chunkTarget closes a chunk, so that a large batch lies in memory in pieces that
	// are written and freed one after the other.
	chunkTarget = 1 << 20
	// keepBuffer bounds the buffers kept for the next chunks: a chunk at its target
	// with one more frame of the largest size.
	keepBuffer = chunkTarget + maxPayload + headerSize + groupHeaderSize + frameHeaderSize
	// keepBuffers is how many: the one being written and the one being filled.
	keepBuffers = 2
)

// chunk is one group as it will stand in the file, preceded by the header block if the group is the
// first of its segment. The group header is filled in when the chunk is written, since it states
// how far the log is durable then.
type chunk struct {
	identity
	mark uint64 // of the log
	lsn  uint64 // position of the group header
	head int    // bytes of buf before the group header: headerSize or 0
	buf  []byte
	// rest is the payload of the chunk's only frame, of restSize bytes, whose flags are rest's too,
	// if it is still the caller's memory: complete makes the frame of it. nil: the chunk is
	// complete.
	rest     [][]byte
	restSize int
	flags    byte
}

// size is what the chunk takes in the file, in bytes.
func (c *chunk) size() int {
	if c.rest == nil {
		return len(c.buf)
	}
	return len(c.buf) + frameHeaderSize + c.restSize
}

// end is the position just past the chunk.
func (c *chunk) end() uint64 { return c.lsn + uint64(c.size()-c.head) }

// complete copies the payload that is still the caller's, and seals its frame. That may take
// spare, which is empty; it gives the memory to be the next spare.
func (c *chunk) complete(spare []byte) []byte {
	if c.rest == nil {
		return spare
	}
	at := len(c.buf)
	spare = append(slices.Grow(spare[:0], c.size()), c.buf...)
	spare = append(spare, zeros[:frameHeaderSize]...)
	for _, piece := range c.rest {
		spare = append(spare, piece...)
	}
	sealFrame(spare[at:], c.flags, c.salt, c.lsn+groupHeaderSize)
	c.buf, c.rest, c.restSize = spare, nil, 0
	return spare
}

// offset is the place of buf in the file.
func (c *chunk) offset() int64 { return c.identity.offset(c.lsn) - int64(c.head) }

// seal fills the headers in. durable is a position that has been synced.
func (c *chunk) seal(durable uint64) {
	if c.head > 0 {
		putHeader(c.buf, header{identity: c.identity, mark: c.mark, durable: durable})
	}
	putGroup(c.buf[c.head:], group{
		identity: c.identity, mark: c.mark, length: len(c.buf) - c.head - groupHeaderSize,
		lsn: c.lsn, durable: durable,
	})
}

// tail decides where appended batches stand and keeps them until they are written. It
// has no lock of its own; Log.mu guards it.
type tail struct {
	mark     uint64 // of the log
	seg      identity
	fresh    bool   // no group has been laid out in seg yet
	end      uint64 // position after the last byte laid out
	capacity uint64 // bytes of stream in seg
	sizes    segmentSizes
	chunks   []chunk
	idle     []chunk  // the other list, for take to swap in
	buffers  [][]byte // empty, to be used again
	random   func() uint64
}

// segmentSizes decides how large segments are. A log that has had little to keep has small ones.
type segmentSizes struct {
	first   int64
	fitting func() int64     // how large one may be at most
	decided map[uint64]int64 // of the segment that is being filled, and of the next one, by number
}

// decide gives a segment its size when the one before it begins at a position.
func (s *segmentSizes) decide(number, position uint64) {
	most := s.fitting()
	size := min(s.first, most)
	for size < most && uint64(size) <= position/4 {
		size = min(2*size, most)
	}
	s.decided[number] = size
}

// newTail continues at position start with segment number, of size bytes; sizes are those of the
// segments after it.
func newTail(mark, number, start uint64, size int64, sizes segmentSizes,
	random func() uint64) *tail {
	sizes.decided = map[uint64]int64{number: size}
	t := &tail{mark: mark, random: random, sizes: sizes, end: start}
	t.turn(number)
	return t
}

// turn makes number the segment that is being filled.
func (t *tail) turn(number uint64) {
	t.seg = identity{number: number, start: t.end, salt: t.random()}
	t.capacity = uint64(t.sizes.decided[number] - headerSize)
	t.sizes.decide(number+1, t.end)
	t.fresh = true
}

// left is how many bytes of stream still fit into the segment.
func (t *tail) left() int { return int(t.seg.start + t.capacity - t.end) }

var zeros [headerSize]byte

// begin starts a chunk, hint being how many bytes of frames will soon go into it.
func (t *tail) begin(hint int) {
	c := chunk{identity: t.seg, mark: t.mark, lsn: t.end}
	if n := len(t.buffers); n > 0 {
		c.buf, t.buffers = t.buffers[n-1], t.buffers[:n-1]
	}
	if t.fresh {
		c.head, t.fresh = headerSize, false
	}
	if need := c.head + groupHeaderSize + min(hint, chunkTarget+frameHeaderSize,
		t.left()); cap(c.buf) < need {
		c.buf = make([]byte, 0, need)
	}
	c.buf = append(c.buf, zeros[:c.head]...)
	c.buf = append(c.buf, zeros[:groupHeaderSize]...)
	t.chunks = append(t.chunks, c)
	t.end += groupHeaderSize
}

// room gives the chunk that takes the next frame and how large its payload may be.
func (t *tail) room(hint int) (*chunk, int) {
	if n := len(t.chunks); n > 0 && t.chunks[n-1].number == t.seg.number {
		if c := &t.chunks[n-1]; c.rest == nil && len(c.buf) < chunkTarget &&
			t.left() >= frameHeaderSize+minPayload {
			return c, min(t.left()-frameHeaderSize, maxPayload)
		}
	}
	if t.left() < groupHeaderSize+frameHeaderSize+minPayload {
		t.turn(t.seg.number + 1)
	}
	t.begin(hint)
	return &t.chunks[len(t.chunks)-1], min(t.left()-frameHeaderSize, maxPayload)
}

// payload is what is left of a batch that is being laid out: piece, and then more. It has size
// bytes.
type payload struct {
	piece []byte
	more  [][]byte
	size  int
}

// take gives n bytes, in the pieces that they stand in, to visit.
func (p *payload) take(n int, visit func(piece []byte)) {
	p.size -= n
	for {
		m := min(n, len(p.piece))
		visit(p.piece[:m:m])
		p.piece = p.piece[m:]
		if n -= m; n == 0 {
			return
		}
		p.piece, p.more = p.more[0], p.more[1:]
	}
}

// add lays batch out after all earlier ones. If it may keep the batch's memory, most of
// a large one is copied when it is written.
func (t *tail) add(batch payload, keep bool) {
	size := batch.size
	for flags := byte(flagFrame | flagFirst); ; flags = flagFrame {
		later := keep && flags == flagFrame
		hint := batch.size + frameHeaderSize
		if later {
			hint = 0
		}
		c, room := t.room(hint)
		linked := flags&flagFirst != 0 && batch.size > room
		if linked {
			room -= linkSize
		}
		n := min(batch.size, room)
		if !linked && n == batch.size {
			flags |= flagLast
		}
		at := len(c.buf)
		if later && at == c.head+groupHeaderSize {
			batch.take(n, func(piece []byte) { c.rest = append(c.rest, piece) })
			c.restSize, c.flags = n, flags
			t.end += uint64(frameHeaderSize + n)
			if flags&flagLast != 0 {
				return
			}
			continue
		}
		c.buf = append(c.buf, zeros[:frameHeaderSize]...)
		if linked {
			c.buf = le.AppendUint64(c.buf, uint64(size))
		}
		batch.take(n, func(piece []byte) { c.buf = append(c.buf, piece...) })
		sealFrame(c.buf[at:], flags, c.salt, t.end)
		t.end += uint64(len(c.buf) - at)
		if flags&flagLast != 0 {
			return
		}
	}
}

// take gives what has been laid out since the last take.
func (t *tail) take() []chunk {
	taken := t.chunks
	t.chunks, t.idle = t.idle[:0], nil
	return taken
}

// give returns the list of a take and the buffers in it. Buffers that a large batch
// made large, and those in excess, are left to the collector.
func (t *tail) give(chunks []chunk) {
	for i := range chunks {
		if b := chunks[i].buf; cap(b) > 0 && cap(b) <= keepBuffer && len(t.buffers) < keepBuffers {
			t.buffers = append(t.buffers, b[:0])
		}
	}
	clear(chunks)
	t.idle = chunks[:0]
}
