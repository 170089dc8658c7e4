package wal

import (
	"fmt"
	"hash/crc32"
)

// Replicator is what a commit is handed to instead of the disk, in the prototype of replication.
type Replicator interface {
	// Pass proposes what was appended.
	Pass() error
	// Leased reports whether reads may leave.
	Leased() bool
}

// SetReplicator comes before the first append.
func (l *Log) SetReplicator(r Replicator) { l.replicator = r }

// Replicated reports whether Durable means committed by a group.
func (l *Log) Replicated() bool { return l.replicator != nil }

// Leased reports whether reads may leave.
func (l *Log) Leased() bool { return l.replicator == nil || l.replicator.Leased() }

// Chunk is a group that is on its way to the disk.
type Chunk struct {
	c    chunk
	Term uint64
}

// Frames is what an entry has of the chunk.
func (c *Chunk) Frames() []byte { return c.c.buf[c.c.head+groupHeaderSize:] }

// End is the LSN of the last batch in it.
func (c *Chunk) End() uint64 { return c.c.end() }

// Name gives the chunk its place in the group's log.
func (c *Chunk) Name(term, index, commit uint64) {
	c.c.term, c.c.index, c.c.commit = term, index, commit
}

// Pending reports whether there is something to take.
func (l *Log) Pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.tail.chunks) > 0
}

// TakeChunks gives what was laid out since the last take, to be written in this order.
func (l *Log) TakeChunks(dst []Chunk) []Chunk {
	l.mu.Lock()
	chunks := l.mu.tail.take()
	l.mu.Unlock()
	for i := range chunks {
		chunks[i].complete(nil)
		dst = append(dst, Chunk{c: chunks[i]})
	}
	l.mu.Lock()
	for i := range chunks {
		chunks[i].buf = nil // it belongs to dst now
	}
	l.mu.tail.give(chunks)
	l.mu.Unlock()
	return dst
}

// AppendEntry lays out an entry of another member as a group of its own, with local salt and position.
func (l *Log) AppendEntry(frames []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.mu.tail
	if !t.fresh && t.left() < groupHeaderSize+len(frames) {
		t.turn(t.seg.number + 1)
	}
	t.begin(len(frames))
	c := &t.chunks[len(t.chunks)-1]
	at := len(c.buf)
	c.buf = append(c.buf, frames...)
	for b := c.buf[at:]; len(b) > 0; {
		if len(b) < frameHeaderSize {
			return fmt.Errorf("wal: an entry does not parse")
		}
		word := le.Uint32(b[4:])
		size := frameHeaderSize + int(word&0xffffff)
		if size > len(b) {
			return fmt.Errorf("wal: an entry does not parse")
		}
		le.PutUint32(b, crc32.Update(seed(c.salt, t.end), castagnoli, b[4:size]))
		t.end += uint64(size)
		b = b[size:]
	}
	return nil
}

// WriteChunks writes chunks, in the order in which they were taken, and syncs them once.
func (l *Log) WriteChunks(chunks []Chunk) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	for i := range chunks {
		c := &chunks[i].c
		if c.head > 0 {
			if err := l.enter(c.identity, true); err != nil {
				return err
			}
		}
		if err := l.write(c); err != nil {
			return err
		}
	}
	if err := l.sync(); err != nil {
		return err
	}
	l.mu.Lock()
	for i := range chunks {
		if b := chunks[i].c.buf; cap(b) <= keepBuffer && len(l.mu.tail.buffers) < 8 {
			l.mu.tail.buffers = append(l.mu.tail.buffers, b[:0])
		}
		chunks[i].c.buf = nil
	}
	l.mu.Unlock()
	return nil
}

// Acknowledge makes lsn what Durable says: a majority has it.
func (l *Log) Acknowledge(lsn uint64) {
	raise(&l.durable, lsn)
	l.tellDurable()
}

// Batches puts the frames of entries together again.
type Batches struct{ partial []byte }

// Each visits the batches that are whole with the frames of the next entry.
func (b *Batches) Each(frames []byte, visit func(batch []byte)) {
	for len(frames) > 0 {
		word := le.Uint32(frames[4:])
		size, flags := frameHeaderSize+int(word&0xffffff), byte(word>>24)
		payload := frames[frameHeaderSize:size]
		frames = frames[size:]
		switch flags & (flagFirst | flagLast) {
		case flagFirst | flagLast:
			visit(payload)
		case flagFirst:
			b.partial = append([]byte(nil), payload[linkSize:]...)
		default:
			b.partial = append(b.partial, payload...)
			if flags&flagLast != 0 {
				visit(b.partial)
			}
		}
	}
}
