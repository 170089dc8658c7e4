package server

import "keyp/resp"

// This file keeps unused input and output buffers for the next use. So idle connections need no
// buffers of their own.

const (
	// pooledBuffer is the least capacity of an output buffer, in bytes, and pooledLargest the most
	// that is kept for the next use. Larger buffers are left to the collector, so that the memory
	// of one large reply is not kept for ever.
	pooledBuffer  = 16 << 10
	pooledLargest = 256 << 10
	// pooledOutput bounds the buffers that wait for their next use, in bytes. A pass with more
	// output has to allocate memory.
	pooledOutput = 4 << 20
	// pooledReaders and pooledInput bound the readers that wait, in number and in
	// bytes of buffer. Sessions take turns with the same one, unless they keep theirs
	// because a command is incomplete.
	pooledReaders = 32
	pooledInput   = 256 << 10
)

// bufferPool keeps output buffers between uses. It belongs to the loop.
type bufferPool struct {
	free [][]byte
	size int // bytes
}

func (p *bufferPool) get() []byte {
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		p.size -= cap(b)
		return b
	}
	return make([]byte, 0, pooledBuffer)
}

func (p *bufferPool) put(b []byte) {
	if c := cap(b); c >= pooledBuffer && c <= pooledLargest && p.size+c <= pooledOutput {
		p.free = append(p.free, b[:0])
		p.size += c
	}
}

// readerPool keeps readers without input between uses. It belongs to the loop.
type readerPool struct{ free []*resp.Reader }

func (p *readerPool) get() *resp.Reader {
	if n := len(p.free); n > 0 {
		r := p.free[n-1]
		p.free = p.free[:n-1]
		return r
	}
	return new(resp.Reader)
}

// put takes back a reader that has no input; room is the size of its buffer.
func (p *readerPool) put(r *resp.Reader, room int) {
	if room <= pooledInput && len(p.free) < pooledReaders {
		p.free = append(p.free, r)
	}
}
