package object

import (
	"encoding/binary"
	"hash/fnv"
	"hash/maphash"
	"math"

	"keyp/storage/hashtable"
)

// A hash, set or sorted set has its elements in memory as entries. A small one has them in one
// packed piece of memory, a large one in an arena. An entry has this form in both:
//
//	┌─────────────────────┬──────────────┬──────────┬─────┬───────┐
//	│key len<<2|flags     │value len     │deadline  │ key │ value │
//	└─────────────────────┴──────────────┴──────────┴─────┴───────┘
//	 uvarint               uvarint        8 bytes LE, only with flagTimed
//
// A sorted set's value is the score as 8 bytes; a set's is empty.
type entry struct {
	key, val []byte
	deadline int64 // Unix milliseconds, 0 for none
	size     int   // bytes of the entry
}

const (
	// flagGone marks an entry in an arena whose element was removed.
	flagGone = 1 << iota
	flagTimed
)

// entryAt reads the entry at the head of b.
func entryAt(b []byte) entry {
	head, vlen, n := uint64(b[0]), uint64(b[1]), 2
	if head|vlen >= 0x80 {
		head, n = binary.Uvarint(b)
		v, m := binary.Uvarint(b[n:])
		vlen, n = v, n+m
	}
	var e entry
	if head&flagTimed != 0 {
		e.deadline = int64(binary.LittleEndian.Uint64(b[n:]))
		n += 8
	}
	k := n + int(head>>2)
	e.size = k + int(vlen)
	e.key, e.val = b[n:k:k], b[k:e.size:e.size]
	return e
}

func entrySize(key, val []byte, deadline int64) int {
	n := uvarintLen(uint64(len(key))<<2) + uvarintLen(uint64(len(val))) + len(key) + len(val)
	if deadline != 0 {
		n += 8
	}
	return n
}

// putEntry writes an entry of entrySize bytes into b.
func putEntry(b, key, val []byte, deadline int64) {
	head := uint64(len(key)) << 2
	if deadline != 0 {
		head |= flagTimed
	}
	n := binary.PutUvarint(b, head)
	n += binary.PutUvarint(b[n:], uint64(len(val)))
	if deadline != 0 {
		binary.LittleEndian.PutUint64(b[n:], uint64(deadline))
		n += 8
	}
	n += copy(b[n:], key)
	copy(b[n:], val)
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// seed prevents clients from choosing elements whose hashes collide. It lasts as long as the
// process, so a cursor stays valid when a value is written to disk and loaded again.
var seed = maphash.MakeSeed()

// fixed is set by FixHashes.
var fixed bool

// FixHashes makes hashes the same in every process, and with them the order of elements. Tests need
// this to be repeatable from a seed. It must be called before any value is created.
func FixHashes() { fixed = true }

// HashOf returns the hash by which elements are found.
func HashOf(key []byte) uint64 {
	if fixed {
		f := fnv.New64a()
		f.Write(key)
		return f.Sum64()
	}
	return maphash.Bytes(seed, key)
}

// hashOf returns the hash of an element in a dict's index.
func hashOf(key []byte) uint64 { return HashOf(key) << 32 }

// cursorOf returns the part of hashOf by which elements are scanned.
func cursorOf(key []byte) uint32 { return uint32(hashOf(key) >> hashtable.HashShift) }

// Scores as elements have them: the bits of the float64, big-endian. Negative zero
// becomes zero, as in Redis's small sorted sets; a score is never NaN.

// AppendScore appends a score as an element's value.
func AppendScore(dst []byte, score float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(score+0))
}

// ScoreOf returns the score in an element value of a sorted set.
func ScoreOf(val []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(val)) }

// scoreKey maps scores to integers of the same order.
func scoreKey(score float64) uint64 {
	if b := math.Float64bits(score); b>>63 == 0 {
		return b | 1<<63
	} else {
		return ^b
	}
}
