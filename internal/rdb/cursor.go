package rdb

import (
	"encoding/binary"
	"strconv"
)

// maxString is the longest string that is unpacked, in bytes. No value has a longer one, because
// proto-max-bulk-len cannot be larger.
const maxString = 512 << 20

// The forms of a length, given by its two highest bits. Below are the first bytes of long lengths,
// and of strings in form special.
const (
	form6 = iota
	form14
	formWide
	formSpecial

	lengthIs32 = 0x80
	lengthIs64 = 0x81

	specialInt8  = 0xc0
	specialInt16 = 0xc1
	specialInt32 = 0xc2
	specialLZF   = 0xc3
)

// cursor reads a payload from its front. The first error sets bad and drops the rest, and every
// later read returns an empty result. So a caller checks bad only before it uses its results.
type cursor struct {
	rest []byte
	bad  bool
	// short is set when the first error is that the bytes end too early.
	short bool

	// room has space for strings that are not in the payload byte for byte, such as packed ones. It
	// is used again for each element.
	room []byte
	// blobRoom is the same for blobs, and is used again for each blob.
	blobRoom []byte
}

func (c *cursor) fail() { c.bad, c.rest = true, nil }

// take returns the next n bytes. They are a part of the payload, not a copy.
func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.short = c.short || !c.bad
		c.fail()
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

// byte returns the next byte, 0 if there is none.
func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uint returns a number of size bytes, least significant first. size is at most 8.
func (c *cursor) uint(size uint64) (n uint64) {
	for i, b := range c.take(size) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

// length returns a length, or any number that is written as one.
func (c *cursor) length() uint64 {
	b := c.byte()
	switch b >> 6 {
	case form6:
		return uint64(b)
	case form14:
		return uint64(b&0x3f)<<8 | uint64(c.byte())
	}
	switch b {
	case lengthIs32:
		if b := c.take(4); b != nil {
			return uint64(binary.BigEndian.Uint32(b))
		}
	case lengthIs64:
		if b := c.take(8); b != nil {
			return binary.BigEndian.Uint64(b)
		}
	default:
		c.fail()
	}
	return 0
}

// count reads how many items of at least min bytes follow. It fails for 0, and if the payload is
// too short for the items.
func (c *cursor) count(min uint64) uint64 {
	n := c.length()
	if n == 0 || n > uint64(len(c.rest))/min {
		c.fail()
		return 0
	}
	return n
}

// string returns a string, in the payload or in the room.
func (c *cursor) string() []byte {
	if len(c.rest) == 0 || c.rest[0]>>6 != formSpecial {
		return c.take(c.length())
	}
	switch c.byte() {
	case specialInt8:
		return c.digits(int64(int8(c.uint(1))))
	case specialInt16:
		return c.digits(int64(int16(c.uint(2))))
	case specialInt32:
		return c.digits(int64(int32(c.uint(4))))
	case specialLZF:
		return c.unpacked()
	}
	c.fail()
	return nil
}

// digits writes n in the room.
func (c *cursor) digits(n int64) []byte {
	start := len(c.room)
	c.room = strconv.AppendInt(c.room, n, 10)
	return c.room[start:len(c.room):len(c.room)]
}

// unpacked unpacks an LZF string into the room.
func (c *cursor) unpacked() []byte {
	packedLen, size := c.length(), c.length()
	packed := c.take(packedLen)
	if size > maxString || size > uint64(len(packed))*lzfExpansion {
		c.fail()
		return nil
	}
	start := len(c.room)
	room, ok := unpack(grow(c.room, int(size)), packed, int(size))
	if !ok {
		c.fail()
		return nil
	}
	c.room = room
	return room[start:len(room):len(room)]
}

// grow makes room for exactly n more bytes, so that one large string takes no more memory than its
// size.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return append(make([]byte, 0, len(b)+n), b...)
}

// blob returns the string that contains a packed value. It is valid until the next blob, so it
// outlives the elements in it.
func (c *cursor) blob() []byte {
	c.room, c.blobRoom = c.blobRoom[:0], c.room
	b := c.string()
	c.room, c.blobRoom = c.blobRoom, c.room
	return b
}
