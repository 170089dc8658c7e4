package rdb

// The methods here find where a value ends and do not check its content. Each step takes at least
// a byte, so a loop over too large a count stops at the end of the bytes.

// skipString skips a string without unpacking it.
func (c *cursor) skipString() {
	if len(c.rest) == 0 || c.rest[0]>>6 != formSpecial {
		c.take(c.length())
		return
	}
	switch c.byte() {
	case specialInt8:
		c.take(1)
	case specialInt16:
		c.take(2)
	case specialInt32:
		c.take(4)
	case specialLZF:
		n := c.length()
		c.length()
		c.take(n)
	default:
		c.fail()
	}
}

func (c *cursor) skipStrings(n int) {
	for ; n > 0; n-- {
		c.skipString()
	}
}

func (c *cursor) skipLengths(n int) {
	for ; n > 0; n-- {
		c.length()
	}
}

// times reads a count and calls skip so many times.
func (c *cursor) times(skip func()) {
	for n := c.length(); n > 0 && !c.bad; n-- {
		skip()
	}
}

// skipCollection skips a list, set, sorted set or hash.
func (c *cursor) skipCollection(kind byte) {
	switch kind {
	case kindList, kindSet, kindListZiplists:
		c.times(c.skipString)
	case kindHash:
		c.times(func() { c.skipStrings(2) })
	case kindZSetText:
		c.times(func() {
			c.skipString()
			if n := c.byte(); n < scoreNaN {
				c.take(uint64(n))
			}
		})
	case kindZSet:
		c.times(func() { c.skipString(); c.take(8) })
	case kindListListpacks:
		c.times(func() { c.length(); c.skipString() })
	case kindHashTimed0, kindHashTimed:
		if kind == kindHashTimed {
			c.take(8)
		}
		c.times(func() { c.length(); c.skipStrings(2) })
	case kindHashPackTimed:
		c.take(8)
		c.skipString()
	default: // all else is packed
		c.skipString()
	}
}

// skipStream skips a stream.
func (c *cursor) skipStream(kind byte) {
	c.times(func() { c.skipStrings(2) })
	c.skipLengths(3)
	if kind >= kindStream2 {
		c.skipLengths(5)
	}
	c.times(func() {
		c.skipString()
		c.skipLengths(2)
		if kind >= kindStream2 {
			c.length()
		}
		c.times(func() { c.take(idBytes + 8); c.length() })
		c.times(func() {
			c.skipString()
			c.take(8)
			if kind >= kindStream3 {
				c.take(8)
			}
			c.times(func() { c.take(idBytes) })
		})
		if kind >= kindStream5 {
			c.times(func() { c.take(idBytes) })
		}
	})
	if kind >= kindStream4 {
		c.skipLengths(2)
		c.times(func() {
			c.skipString()
			c.times(func() { c.skipString(); c.skipLengths(2) })
		})
		c.skipLengths(2)
	}
}

// The opcodes of modules' data.
const (
	moduleEnd = iota
	moduleSigned
	moduleUnsigned
	moduleFloat
	moduleDouble
	moduleString
)

// skipModule skips a module's data, up to their end.
func (c *cursor) skipModule() {
	for !c.bad {
		switch c.length() {
		case moduleEnd:
			return
		case moduleSigned, moduleUnsigned:
			c.length()
		case moduleFloat:
			c.take(4)
		case moduleDouble:
			c.take(8)
		case moduleString:
			c.skipString()
		default:
			c.fail()
		}
	}
}

// skipArray skips a value of Redis's type array.
func (c *cursor) skipArray() {
	n := c.length()
	if c.length() != 0 {
		c.length()
	}
	for ; n > 0 && !c.bad; n-- {
		c.length()
		if tag := c.length(); tag == 0 || tag == 3 {
			c.skipString()
		} else {
			c.take(8)
		}
	}
}
