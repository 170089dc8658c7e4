package rdb

// LZF, as Redis packs strings:
//
//	000nnnnn bytes×(n+1)          n+1 bytes as they are
//	nnnooooo oooooooo             n+2 bytes from o+1 bytes before, n from 1 to 6
//	111ooooo nnnnnnnn oooooooo    n+9 bytes from o+1 bytes before
//
// A copy may overlap its own output, which repeats bytes.
const (
	lzfMaxLiteral  = 32
	lzfMaxMatch    = 264
	lzfMaxDistance = 8192

	// lzfExpansion is the largest number of bytes that one byte of a stream can become: a copy
	// takes 3 bytes and gives at most 264.
	lzfExpansion = 88
)

// unpack appends the content of the stream, which must be exactly size bytes. ok is false if it is
// not, or if the stream is invalid.
func unpack(dst, packed []byte, size int) (_ []byte, ok bool) {
	start := len(dst)
	end := start + size
	for len(packed) > 0 {
		control := int(packed[0])
		packed = packed[1:]
		if control < lzfMaxLiteral {
			n := control + 1
			if n > len(packed) || len(dst)+n > end {
				return nil, false
			}
			dst = append(dst, packed[:n]...)
			packed = packed[n:]
			continue
		}
		n := control>>5 + 2
		if n == 9 && len(packed) > 0 {
			n += int(packed[0])
			packed = packed[1:]
		}
		if len(packed) == 0 || len(dst)+n > end {
			return nil, false
		}
		from := len(dst) - (control&31<<8 | int(packed[0])) - 1
		packed = packed[1:]
		if from < start {
			return nil, false
		}
		for range n {
			dst = append(dst, dst[from])
			from++
		}
	}
	return dst, len(dst) == end
}

const lzfHashBits = 16

// packer packs strings one after the other.
//
// Its table maps a hash of three bytes to base plus the last position of such bytes. Entries of
// earlier strings are below base, so the table need not be cleared between strings. Position 0
// is never copied from, so an entry of 0 in a new table means that there is no position.
//
// The hash and the choices are those of Redis's packer, so that equal strings mostly give equal
// payloads. Nobody relies on this, because Redis does not clear its table.
type packer struct {
	table [1 << lzfHashBits]uint32
	base  uint32
}

// lzfHash returns the hash of the first three bytes of s.
func lzfHash(s []byte) uint32 {
	h := uint32(s[0])<<16 | uint32(s[1])<<8 | uint32(s[2])
	return (h>>(24-lzfHashBits) - h*5) % (1 << lzfHashBits)
}

// pack appends s in packed form, in at most limit bytes. If it does not fit, ok is false. s must
// have at least 4 bytes.
func (p *packer) pack(dst, s []byte, limit int) (_ []byte, ok bool) {
	if uint64(p.base)+uint64(len(s)) > 1<<32-1 {
		clear(p.table[:])
		p.base = 0
	}
	defer func() { p.base += uint32(len(s)) }()

	limit += len(dst)
	dst = append(dst, 0) // the head of the literals to come
	literals := 0        // since that head
	finish := func() {   // drops a head without literals
		if literals == 0 {
			dst = dst[:len(dst)-1]
		} else {
			dst[len(dst)-literals-1] = byte(literals - 1)
		}
	}
	i := 0
	for i < len(s)-2 {
		from, n := p.match(s, i)
		if n == 0 {
			if len(dst) >= limit {
				return nil, false
			}
			dst = append(dst, s[i])
			i++
			if literals++; literals == lzfMaxLiteral {
				finish()
				dst, literals = append(dst, 0), 0
			}
			continue
		}
		finish()
		if len(dst)+4 >= limit {
			return nil, false
		}
		distance := i - from - 1
		if n < 9 {
			dst = append(dst, byte((n-2)<<5|distance>>8), byte(distance), 0)
		} else {
			dst = append(dst, byte(7<<5|distance>>8), byte(n-9), byte(distance), 0)
		}
		literals = 0
		i += n
		for at := i - 2; at < i && i < len(s)-2; at++ {
			p.table[lzfHash(s[at:])] = p.base + uint32(at)
		}
	}
	if len(dst)+3 > limit {
		return nil, false
	}
	for ; i < len(s); i++ {
		dst = append(dst, s[i])
		if literals++; literals == lzfMaxLiteral {
			finish()
			dst, literals = append(dst, 0), 0
		}
	}
	finish()
	return dst, true
}

// match finds an earlier copy of the bytes at s[i:], and records position i. n is how many bytes
// are equal, 0 if less than 3.
func (p *packer) match(s []byte, i int) (from, n int) {
	slot := &p.table[lzfHash(s[i:])]
	seen := *slot
	*slot = p.base + uint32(i)
	if seen <= p.base {
		return 0, 0
	}
	from = int(seen - p.base)
	if i-from > lzfMaxDistance || s[from] != s[i] || s[from+1] != s[i+1] || s[from+2] != s[i+2] {
		return 0, 0
	}
	// As in Redis, a match does not include the last two bytes, unless the first steps of the
	// comparison reach them.
	most := min(max(len(s)-i-2, 3), lzfMaxMatch)
	if most > 16 {
		most = max(most, 19)
	}
	for n = 3; n < most && s[from+n] == s[i+n]; n++ {
	}
	return from, n
}
