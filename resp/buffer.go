package resp

import "keyp/internal/bigcopy"

import "unsafe"

// This file manages the input buffer of a Reader: when it grows, moves and is freed.

const (
	// keptBuffer is how many bytes a busy connection may always keep.
	keptBuffer = 64 << 10
	// keptArgs is the longest argument list whose memory is reused.
	keptArgs = 4096
	// A buffer is too large if it could hold its recent content oversize times.
	oversize = 8
	// calmTurns is how often in a row an emptied buffer must have been too large before it is
	// dropped. So large commands with small ones between them do not allocate each time.
	calmTurns = 16
)

// Space returns at least atLeast writable bytes at the end of the buffer, for
// read(2); Advance reports how many were filled. It invalidates arguments.
//
// The buffer grows with the bytes received, never with the lengths announced. It grows to twice the
// bytes held, or only to the present argument's end if that is known and leaves enough room.
func (r *Reader) Space(atLeast int) []byte {
	atLeast = max(atLeast, 1)
	held := r.end - r.start
	if held == 0 {
		r.emptied(atLeast)
	}
	if len(r.buf)-r.end >= atLeast {
		return r.buf[r.end:]
	}
	fits := len(r.buf)-held >= atLeast
	if fits && held <= r.start && !r.tooLarge(atLeast) {
		copy(r.buf, r.buf[r.start:r.end])
		r.rebase(r.buf)
	} else {
		r.GoOnIn(r.Larger(atLeast))
	}
	return r.buf[r.end:]
}

// Moves returns how many bytes Space would copy to make room.
func (r *Reader) Moves(atLeast int) int {
	if len(r.buf)-r.end >= atLeast {
		return 0
	}
	return r.end - r.start
}

// Larger returns the buffer that Space would switch to, with a copy of the bytes held. It does not
// change the Reader, so any goroutine may call it while nobody else changes the Reader.
func (r *Reader) Larger(atLeast int) []byte {
	held := r.end - r.start
	fresh := make([]byte, held+r.growth(held, max(atLeast, 1)))
	bigcopy.Copy(fresh, r.buf[r.start:r.end])
	return fresh
}

// GoOnIn makes the Reader continue in the buffer that Larger made; the Reader must not have changed
// since. It invalidates arguments.
func (r *Reader) GoOnIn(larger []byte) {
	r.rebase(larger)
	r.forget()
}

// growth returns the room that a new buffer gets after the held bytes. It is as much again or, for
// an argument that is most of its command, only the bytes that the argument lacks. This excludes
// small arguments; otherwise the buffer for a command of many would grow by one argument at a time.
func (r *Reader) growth(held, atLeast int) int {
	grow := max(held, atLeast)
	if need := r.Need(); need > 0 && r.need >= held/2 {
		grow = min(grow, min(need, grow)+atLeast)
	}
	return grow
}

// Advance records that n bytes were read into the result of Space.
func (r *Reader) Advance(n int) {
	if n < 0 || n > len(r.buf)-r.end {
		panic("resp: Advance beyond the space given")
	}
	r.end += n
	r.peak = max(r.peak, r.end-r.start)
}

// Buffered returns the number of bytes received and not yet returned as commands.
func (r *Reader) Buffered() int { return r.end - r.start }

// Memory returns the memory of the Reader, in bytes.
func (r *Reader) Memory() int {
	return len(r.buf) + cap(r.spans)*int(unsafe.Sizeof(span{})) +
		cap(r.args)*int(unsafe.Sizeof([]byte{}))
}

// Need returns the number of bytes that are missing to the end of the present argument, so that the
// owner can size its reads. It is 0 if that is not known.
func (r *Reader) Need() int {
	if r.need == 0 {
		return 0
	}
	return max(0, r.need-(r.end-r.pos))
}

// Release frees memory of an idle connection. If nothing is buffered, it frees the whole buffer;
// otherwise it frees the part that the incomplete command does not fill. It invalidates arguments.
// The Reader remains usable.
func (r *Reader) Release() {
	r.args, r.length = nil, 0
	held := r.end - r.start
	if held == 0 {
		r.spans = nil
	}
	if len(r.buf) == held {
		return
	}
	var fitting []byte
	if held > 0 {
		fitting = make([]byte, held)
		copy(fitting, r.buf[r.start:r.end])
	}
	r.rebase(fitting)
}

// rebase switches to buf. The caller has copied the bytes held to its beginning.
func (r *Reader) rebase(buf []byte) {
	held := r.end - r.start
	r.moved += int64(held)
	r.pos -= r.start
	r.scan = max(0, r.scan-r.start)
	r.start, r.end = 0, held
	r.buf = buf
	r.peak = held
}

// emptied starts at the beginning of the empty buffer again, or drops a buffer that has long been
// too large.
func (r *Reader) emptied(atLeast int) {
	if r.tooLarge(atLeast) {
		r.calm++
	} else {
		r.calm = 0
	}
	buf := r.buf
	if r.calm == calmTurns {
		buf = nil
		r.calm = 0
		r.forget()
	}
	r.rebase(buf)
}

// tooLarge reports whether the buffer is far larger than its recent content.
func (r *Reader) tooLarge(atLeast int) bool {
	return len(r.buf) > keptBuffer && (r.peak+atLeast)*oversize <= len(r.buf)
}

// forget drops the slices of a buffer that was replaced, which would keep it alive.
func (r *Reader) forget() {
	clear(r.args[:cap(r.args)])
	r.args = r.args[:0]
}
