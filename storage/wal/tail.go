package wal

import "slices"

// This file contains the tail of the log: the batches in memory that are not written to a file yet.

const (
	// Batches wait in memory, in chunks, until they are written. chunkTarget is the size in bytes
	// from which a chunk is full. So a large batch is in several chunks, which are written and
	// freed one after the other.
	chunkTarget = 1 << 20
	// keepBuffer is the largest size of a buffer that is kept for later chunks. It fits a chunk
	// just below its target with one more frame of the largest size.
	keepBuffer = chunkTarget + maxPayload + headerSize + groupHeaderSize + frameHeaderSize
	// keepBuffers is how many buffers are kept: one that is written and one that is filled.
	keepBuffers = 2
)

// chunk contains one group in the form that is written to the file. The header block precedes the
// group if it is the first of its segment. The group header is filled in when the chunk is written,
// since it contains the position up to which the log is durable then.
type chunk struct {
	identity
	mark uint64 // of the log
	lsn  uint64 // position of the group header
	head int    // bytes of buf before the group header: headerSize or 0
	buf  []byte
	// rest is the payload of the chunk's only frame while it is still in the caller's memory. It
	// has restSize bytes, and flags are the flags of the frame. complete copies it into buf. nil:
	// the chunk is complete.
	rest     [][]byte
	restSize int
	flags    byte
}

// size returns how many bytes the chunk takes in the file.
func (c *chunk) size() int {
	if c.rest == nil {
		return len(c.buf)
	}
	return len(c.buf) + frameHeaderSize + c.restSize
}

// end returns the position just after the chunk.
func (c *chunk) end() uint64 { return c.lsn + uint64(c.size()-c.head) }

// complete copies a payload that is still in the caller's memory, and seals its frame. It may use
// spare, whose content it overwrites. It returns the memory that is the spare of the next call.
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

// offset returns the offset in the file at which buf begins.
func (c *chunk) offset() int64 { return c.identity.offset(c.lsn) - int64(c.head) }

// seal writes the headers into buf. durable is a position up to which the log has been synced.
func (c *chunk) seal(durable uint64) {
	if c.head > 0 {
		putHeader(c.buf, header{identity: c.identity, mark: c.mark, durable: durable})
	}
	putGroup(c.buf[c.head:], group{
		identity: c.identity, mark: c.mark, length: len(c.buf) - c.head - groupHeaderSize,
		lsn: c.lsn, durable: durable,
	})
}

// tail assigns positions in the log to appended batches, and keeps the batches until they are
// written. It has no lock of its own; Log.mu guards it.
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

// segmentSizes determines the sizes of new segments. They are small at first, and grow with the
// position of the log.
type segmentSizes struct {
	first   int64
	fitting func() int64     // how large one may be at most
	decided map[uint64]int64 // of the segment that is being filled, and of the next one, by number
}

// decide sets the size of a segment. position is where the segment before it begins.
func (s *segmentSizes) decide(number, position uint64) {
	most := s.fitting()
	size := min(s.first, most)
	for size < most && uint64(size) <= position/4 {
		size = min(2*size, most)
	}
	s.decided[number] = size
}

// newTail returns a tail that continues at position start, with the segment number of size bytes.
// sizes determines the sizes of later segments.
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

// left returns how many bytes of the log still fit into the segment.
func (t *tail) left() int { return int(t.seg.start + t.capacity - t.end) }

var zeros [headerSize]byte

// begin starts a chunk. hint is about how many bytes of frames will soon be added to it.
func (t *tail) begin(hint int) {
	c := chunk{identity: t.seg, mark: t.mark, lsn: t.end}
	if n := len(t.buffers); n > 0 {
		c.buf, t.buffers = t.buffers[n-1], t.buffers[:n-1]
	}
	if t.fresh {
		c.head, t.fresh = headerSize, false
	}
	need := c.head + groupHeaderSize + min(hint, chunkTarget+frameHeaderSize, t.left())
	if cap(c.buf) < need {
		c.buf = make([]byte, 0, need)
	}
	c.buf = append(c.buf, zeros[:c.head]...)
	c.buf = append(c.buf, zeros[:groupHeaderSize]...)
	t.chunks = append(t.chunks, c)
	t.end += groupHeaderSize
}

// room returns the chunk for the next frame, and the largest payload of that frame. It starts a new
// chunk or segment if necessary, with hint as for begin.
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

// payload is the rest of a batch that is being added: first piece, and then the pieces of more. It
// has size bytes.
type payload struct {
	piece []byte
	more  [][]byte
	size  int
}

// take removes the next n bytes from the payload, and passes them to visit piece by piece.
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

// add appends a batch after all earlier ones. If keep is true, it may keep the batch's memory, and
// most of a large batch is copied only when it is written.
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

// take removes and returns the chunks that were added since the last take.
func (t *tail) take() []chunk {
	taken := t.chunks
	t.chunks, t.idle = t.idle[:0], nil
	return taken
}

// give takes back a list that take returned, and keeps its buffers for reuse. Buffers that are too
// large or too many are left to the garbage collector.
func (t *tail) give(chunks []chunk) {
	for i := range chunks {
		if b := chunks[i].buf; cap(b) > 0 && cap(b) <= keepBuffer && len(t.buffers) < keepBuffers {
			t.buffers = append(t.buffers, b[:0])
		}
	}
	clear(chunks)
	t.idle = chunks[:0]
}
