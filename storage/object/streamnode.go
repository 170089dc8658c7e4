package object

import "strconv"

// A stream's runs end where Redis's nodes do, so that XTRIM with ~ and XINFO return the same. A
// node is a listpack. These are the sizes of its parts: its head and end, and the first entry's
// names as the master entry. Each entry adds its flags, its id as two differences, and how many
// elements it has.

const (
	packFrame = 6 + 1
	packFlags = 2
)

// packBack returns the size of the back length of an element of n bytes.
func packBack(n int) int {
	switch {
	case n <= 127:
		return 1
	case n < 1<<14-1:
		return 2
	case n < 1<<21-1:
		return 3
	case n < 1<<28-1:
		return 4
	default:
		return 5
	}
}

// packInt returns the size of a number in a listpack.
func packInt(n int64) int {
	switch {
	case n >= 0 && n <= 127:
		return 1 + 1
	case n >= -1<<12 && n < 1<<12:
		return 2 + 1
	case n >= -1<<15 && n < 1<<15:
		return 3 + 1
	case n >= -1<<23 && n < 1<<23:
		return 4 + 1
	case n >= -1<<31 && n < 1<<31:
		return 5 + 1
	default:
		return 9 + 1
	}
}

// packString returns the size of a string in a listpack, which stores a decimal integer as a
// number.
func packString(s []byte) int {
	if n := len(s); n > 0 && n <= 20 && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') {
		if v, err := strconv.ParseInt(string(s), 10, 64); err == nil && (s[0] != '0' || n == 1) &&
			(s[0] != '-' || s[1] != '0') {
			return packInt(v)
		}
	}
	n := len(s)
	switch {
	case n < 64:
		n++
	case n < 4096:
		n += 2
	default:
		n += 5
	}
	return n + packBack(n)
}

// nodeHead returns the size of a node without entries and without its two counts.
func nodeHead(fields [][]byte) int32 {
	size := packFrame + packInt(int64(len(fields)/2)) + packInt(0)
	for i := 0; i < len(fields); i += 2 {
		size += packString(fields[i])
	}
	return int32(size)
}

// nodeEntry returns the size of an entry in a node. own: its fields are not those of the master
// entry.
func nodeEntry(base, id StreamID, fields [][]byte, own bool) int32 {
	elements := 3 + len(fields)/2
	size := packFlags + packInt(int64(id.Ms-base.Ms)) + packInt(int64(id.Seq-base.Seq))
	if own {
		size += packInt(int64(len(fields) / 2))
		elements += len(fields)/2 + 1
	}
	for i, f := range fields {
		if own || i%2 == 1 {
			size += packString(f)
		}
	}
	return int32(size + packInt(int64(elements)))
}
