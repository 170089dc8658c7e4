package object

import (
	"encoding/binary"
	"strconv"
)

// A small set of integers is one piece of memory: a header (packed.go), and the members in
// ascending order, as little-endian numbers. Each member has 2, 4 or 8 bytes, as many as the widest
// one needs. A flag in the header gives the width.

// parseInt reads a member that is an integer in its canonical form: "0", "12", "-3", but not "+1",
// "007" or "-0".
func parseInt(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' || n > (1<<63)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case len(digits) < len(b) && n <= 1<<63:
		return -int64(n), true
	case len(digits) == len(b) && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// width returns the number of bytes of a member.
func (p packed) width() int {
	switch p[0] & flagInts {
	case flagInts2:
		return 2
	case flagInts4:
		return 4
	default:
		return 8
	}
}

func widthOf(v int64) (width int, flag byte) {
	switch {
	case v == int64(int16(v)):
		return 2, flagInts2
	case v == int64(int32(v)):
		return 4, flagInts4
	default:
		return 8, flagInts8
	}
}

// int returns member number i.
func (p packed) int(i int) int64 {
	switch w := p.width(); w {
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(p[packedHead+i*w:])))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(p[packedHead+i*w:])))
	default:
		return int64(binary.LittleEndian.Uint64(p[packedHead+i*w:]))
	}
}

func (p packed) setInt(i int, v int64) {
	switch w := p.width(); w {
	case 2:
		binary.LittleEndian.PutUint16(p[packedHead+i*w:], uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(p[packedHead+i*w:], uint32(v))
	default:
		binary.LittleEndian.PutUint64(p[packedHead+i*w:], uint64(v))
	}
}

// findInt returns the number of v. If v is missing, ok is false and i is the number that it would
// get.
func (p packed) findInt(v int64) (i int, ok bool) {
	lo, hi := 0, p.len()
	for lo < hi {
		if mid := (lo + hi) / 2; p.int(mid) < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < p.len() && p.int(lo) == v
}

// insertInt inserts v, which is new, as number i (see findInt).
func (p *packed) insertInt(i int, v int64) {
	need, flag := widthOf(v)
	if *p == nil {
		*p = resize(nil, packedHead, 0)
		clear(*p)
		(*p)[0] = flag
	}
	if need > p.width() {
		p.widen(need, flag)
	}
	w := p.width()
	p.splice(packedHead+i*w, 0, w)
	p.setInt(i, v)
	p.addLen(1)
}

// widen gives all members more bytes. It starts with the last one, so that none is overwritten.
func (p *packed) widen(width int, flag byte) {
	narrow := (*p)[0]
	n := p.len()
	*p = resize(*p, packedHead+n*width, spare(packedHead+n*width))
	for i := n - 1; i >= 0; i-- {
		(*p)[0] = narrow
		v := p.int(i)
		(*p)[0] = narrow&^flagInts | flag
		p.setInt(i, v)
	}
	(*p)[0] = narrow&^flagInts | flag
}

func (p *packed) removeInt(i int) {
	w := p.width()
	p.addLen(-1)
	p.splice(packedHead+i*w, w, 0)
}

// appendInt appends the decimal digits of member number i.
func (p packed) appendInt(dst []byte, i int) []byte { return strconv.AppendInt(dst, p.int(i), 10) }
