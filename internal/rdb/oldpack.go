package rdb

import "encoding/binary"

// A ziplist is the predecessor of the listpack, from before Redis 7:
//
//	bytes 4, LE | offset of the last entry 4, LE | count 2, LE | entries | FF
//
// An entry begins with the length of the one before it, one byte or FE and 4 bytes, LE.
// Then:
//
//	00nnnnnn string               up to 63 bytes
//	01nnnnnn nnnnnnnn string      up to 16383 bytes
//	10______ n×4, big endian      longer
//	C0, D0, E0, F0, FE            integer of 2, 4, 8, 3, 1 bytes, LE
//	1111nnnn                      integer n-1, n from 1 to 13
const (
	ziplistHead = 10

	ziplistBig   = 0xfe // before a length of 4 bytes
	ziplistInt16 = 0xc0
	ziplistInt32 = 0xd0
	ziplistInt64 = 0xe0
	ziplistInt24 = 0xf0
	ziplistInt8  = 0xfe
	ziplistTiny  = 0xf1 // 0
	ziplistTinyN = 0xfd // 12
)

// ziplist reads the entries of a ziplist.
type ziplist struct {
	*cursor
	in     cursor
	count  uint64
	seen   uint64
	size   int // of the blob without the end
	last   int // offset of the last entry, as the head claims
	at     int // offset of the entry that was read last
	before int // its length
}

func openZiplist(c *cursor) entries {
	z := &ziplist{cursor: c, at: ziplistHead}
	blob := c.blob()
	if len(blob) <= ziplistHead || blob[len(blob)-1] != packEnd ||
		uint64(binary.LittleEndian.Uint32(blob)) != uint64(len(blob)) {
		c.fail()
		return z
	}
	z.last = int(binary.LittleEndian.Uint32(blob[4:]))
	z.count = uint64(binary.LittleEndian.Uint16(blob[8:]))
	z.size = len(blob) - 1
	z.in.rest = blob[ziplistHead:z.size]
	return z
}

func (z *ziplist) more() bool {
	if z.bad || len(z.in.rest) > 0 {
		return !z.bad
	}
	if z.last != z.at || z.count != countUnknown && z.count != z.seen {
		z.fail()
	}
	return false
}

func (z *ziplist) next() []byte {
	z.at = z.size - len(z.in.rest)
	before := uint64(z.in.byte())
	if before == ziplistBig {
		before = z.in.uint(4)
	}
	s := z.entry()
	if before != uint64(z.before) || z.in.bad {
		z.fail()
		return nil
	}
	z.before = z.size - len(z.in.rest) - z.at
	z.seen++
	return s
}

func (z *ziplist) entry() []byte {
	b := z.in.byte()
	switch b >> 6 {
	case 0:
		return z.in.take(uint64(b))
	case 1:
		return z.in.take(uint64(b&0x3f)<<8 | uint64(z.in.byte()))
	case 2:
		if n := z.in.take(4); n != nil {
			return z.in.take(uint64(binary.BigEndian.Uint32(n)))
		}
		return nil
	}
	switch b {
	case ziplistInt8:
		return z.digits(signed(z.in.uint(1), 8))
	case ziplistInt16:
		return z.digits(signed(z.in.uint(2), 16))
	case ziplistInt24:
		return z.digits(signed(z.in.uint(3), 24))
	case ziplistInt32:
		return z.digits(signed(z.in.uint(4), 32))
	case ziplistInt64:
		return z.digits(int64(z.in.uint(8)))
	}
	if b < ziplistTiny || b > ziplistTinyN {
		z.in.fail()
		return nil
	}
	return z.digits(int64(b - ziplistTiny))
}

// A zipmap is a small hash from before Redis 2.6:
//
//	count 1 | length, field, length, unused 1, value, unused bytes | … | FF
//
// A length is one byte or FE and 4 bytes, LE; count is FE when it doesn't fit.
const zipmapBig = 0xfe

// zipmap reads fields and values in turn.
type zipmap struct {
	*cursor
	in    cursor
	count uint64
	seen  uint64
	value bool // what comes next
}

func openZipmap(c *cursor) entries {
	z := &zipmap{cursor: c}
	blob := c.blob()
	if len(blob) < 2 || blob[len(blob)-1] != packEnd {
		c.fail()
		return z
	}
	z.count = uint64(blob[0])
	z.in.rest = blob[1 : len(blob)-1]
	return z
}

func (z *zipmap) more() bool {
	if z.bad || len(z.in.rest) > 0 {
		return !z.bad
	}
	if z.value || z.count != zipmapBig && z.count != z.seen {
		z.fail()
	}
	return false
}

func (z *zipmap) next() []byte {
	length := uint64(z.in.byte())
	switch length {
	case zipmapBig:
		if length = z.in.uint(4); length < zipmapBig {
			z.in.fail() // one byte would do
		}
	case packEnd:
		z.in.fail()
	}
	var unused uint64
	if z.value {
		unused = uint64(z.in.byte())
		z.seen++
	}
	s := z.in.take(length)
	z.in.take(unused)
	z.value = !z.value
	if z.in.bad {
		z.fail()
	}
	return s
}

// An intset is a sorted array of integers of 2, 4 or 8 bytes, all little endian:
//
//	bytes of an integer 4 | count 4 | integers

// intset reads the integers of an intset.
type intset struct {
	*cursor
	in       cursor
	width    uint64
	previous int64
	started  bool
}

func openIntset(c *cursor) entries {
	s := &intset{cursor: c}
	s.in.rest = c.blob()
	s.width = s.in.uint(4)
	count := s.in.uint(4)
	known := s.width == 2 || s.width == 4 || s.width == 8
	if s.in.bad || !known || count == 0 || count*s.width != uint64(len(s.in.rest)) {
		c.fail()
	}
	return s
}

func (s *intset) more() bool { return !s.bad && len(s.in.rest) > 0 }

func (s *intset) next() []byte {
	n := signed(s.in.uint(s.width), int(s.width)*8)
	if s.in.bad || s.started && n <= s.previous {
		s.fail()
		return nil
	}
	s.previous, s.started = n, true
	return s.digits(n)
}
