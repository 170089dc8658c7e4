package rdb

import "encoding/binary"

// A listpack has strings and integers, and can be read from both ends:
//
//	+-------+-------+------------------------------+----+
//	| bytes | count | entry, back length, entry, … | FF |
//	| 4, LE | 2, LE |                              |    |
//	+-------+-------+------------------------------+----+
//
//	0nnnnnnn                 integer from 0 to 127
//	10nnnnnn string          up to 63 bytes
//	110nnnnn nnnnnnnn        integer of 13 bits
//	1110nnnn nnnnnnnn string up to 4095 bytes
//	F0 n×4, LE string        longer
//	F1, F2, F3, F4           integer of 2, 3, 4, 8 bytes, LE
//
// bytes is the length of the whole listpack; count is 65535 if it does not fit. A back length is
// the length of the entry before it, in groups of 7 bits, most significant first. All its bytes but
// the first have the high bit set.
const (
	packHead     = 6
	packEnd      = 0xff
	countUnknown = 1<<16 - 1

	packString32 = 0xf0
	packInt16    = 0xf1
	packInt24    = 0xf2
	packInt32    = 0xf3
	packInt64    = 0xf4
)

// listpack reads the entries of a listpack.
type listpack struct {
	*cursor        // of the payload, which has the room and becomes bad
	in      cursor // the entries
	count   uint64 // as the head claims
	seen    uint64
}

func openListpack(c *cursor) entries {
	l := &listpack{cursor: c}
	blob := c.blob()
	if len(blob) <= packHead || blob[len(blob)-1] != packEnd ||
		uint64(binary.LittleEndian.Uint32(blob)) != uint64(len(blob)) {
		c.fail()
		return l
	}
	l.count = uint64(binary.LittleEndian.Uint16(blob[4:]))
	l.in.rest = blob[packHead : len(blob)-1]
	return l
}

func (l *listpack) more() bool {
	if l.bad || len(l.in.rest) > 0 {
		return !l.bad
	}
	if l.count != countUnknown && l.count != l.seen {
		l.fail()
	}
	return false
}

func (l *listpack) next() []byte {
	before := l.in.rest
	s := l.entry()
	size := len(before) - len(l.in.rest)
	var back [5]byte
	want := backLength(back[:0], size)
	if string(l.in.take(uint64(len(want)))) != string(want) || l.in.bad {
		l.fail()
		return nil
	}
	l.seen++
	return s
}

func (l *listpack) entry() []byte {
	b := l.in.byte()
	switch {
	case b < 0x80:
		return l.digits(int64(b))
	case b < 0xc0:
		return l.in.take(uint64(b & 0x3f))
	case b < 0xe0:
		n := uint64(b&0x1f)<<8 | uint64(l.in.byte())
		return l.digits(signed(n, 13))
	case b < 0xf0:
		return l.in.take(uint64(b&0x0f)<<8 | uint64(l.in.byte()))
	}
	switch b {
	case packString32:
		return l.in.take(l.in.uint(4))
	case packInt16:
		return l.digits(signed(l.in.uint(2), 16))
	case packInt24:
		return l.digits(signed(l.in.uint(3), 24))
	case packInt32:
		return l.digits(signed(l.in.uint(4), 32))
	case packInt64:
		return l.digits(int64(l.in.uint(8)))
	}
	l.in.fail()
	return nil
}

// signed reads the lowest bits as a two's complement number.
func signed(n uint64, bits int) int64 { return int64(n<<(64-bits)) >> (64 - bits) }

// packWriter writes a listpack.
type packWriter struct {
	b     []byte
	count int
}

func newPack() *packWriter { return &packWriter{b: make([]byte, packHead, 64)} }

func (p *packWriter) add(s []byte) {
	start := len(p.b)
	if n, ok := integer(s); ok {
		p.b = appendPackInt(p.b, n)
	} else {
		p.b = appendPackString(p.b, s)
	}
	p.b = backLength(p.b, len(p.b)-start)
	p.count++
}

// end completes the listpack and returns it.
func (p *packWriter) end() []byte {
	p.b = append(p.b, packEnd)
	binary.LittleEndian.PutUint32(p.b, uint32(len(p.b)))
	binary.LittleEndian.PutUint16(p.b[4:], uint16(min(p.count, countUnknown)))
	return p.b
}

func appendPackInt(b []byte, n int64) []byte {
	var le [8]byte
	binary.LittleEndian.PutUint64(le[:], uint64(n))
	switch {
	case n >= 0 && n <= 127:
		return append(b, byte(n))
	case n == signed(uint64(n), 13):
		return append(b, 0xc0|byte(n>>8)&0x1f, byte(n))
	case n == signed(uint64(n), 16):
		return append(append(b, packInt16), le[:2]...)
	case n == signed(uint64(n), 24):
		return append(append(b, packInt24), le[:3]...)
	case n == signed(uint64(n), 32):
		return append(append(b, packInt32), le[:4]...)
	default:
		return append(append(b, packInt64), le[:]...)
	}
}

func appendPackString(b, s []byte) []byte {
	switch n := len(s); {
	case n < 1<<6:
		b = append(b, 0x80|byte(n))
	case n < 1<<12:
		b = append(b, 0xe0|byte(n>>8), byte(n))
	default:
		b = binary.LittleEndian.AppendUint32(append(b, packString32), uint32(n))
	}
	return append(b, s...)
}

// backLength appends the back length of an entry of n bytes. Redis takes one byte more
// than it needs at the upper end of the longer forms.
func backLength(b []byte, n int) []byte {
	switch {
	case n <= 127:
		return append(b, byte(n))
	case n < 1<<14-1:
		return append(b, byte(n>>7), byte(n)|0x80)
	case n < 1<<21-1:
		return append(b, byte(n>>14), byte(n>>7)|0x80, byte(n)|0x80)
	case n < 1<<28-1:
		return append(b, byte(n>>21), byte(n>>14)|0x80, byte(n>>7)|0x80, byte(n)|0x80)
	default:
		return append(b, byte(n>>28), byte(n>>21)|0x80, byte(n>>14)|0x80,
			byte(n>>7)|0x80, byte(n)|0x80)
	}
}
