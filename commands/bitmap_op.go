package commands

import (
	"strings"
	"unsafe"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

var bitOpCommands = []Spec{{
	Name: "BITOP", Group: Bitmap, Since: "2.6.0",
	Summary:    "Combines strings bit by bit, stores the result, which is as long as the longest of them, and replies its length.",
	Complexity: "O(N) in the bytes of all strings.",
	History:    [][2]string{{"8.2.0", "Added the `DIFF`, `DIFF1`, `ANDOR`, and `ONE` operations."}},
	Arity:      -4, Flags: Write | DenyOOM,
	Keys: []KeySpec{Key(2, OW|Update), KeysFrom(3, 1, RO|Access)},
	Args: []Arg{
		oneOf("operation", word("AND"), word("OR"), word("XOR"), word("NOT"), word("DIFF"),
			word("DIFF1"), word("ANDOR"), word("ONE")),
		keyArg("destkey"), keyArg("key").many(),
	},
	Offload: func(c *Ctx) bool { return c.Txn.Largest(c.Keys[1:]) >= largeValue },
	Run:     runBitOp,
}}

// bitOperation is an operation of BITOP. It processes the sources in chunks of words.
type bitOperation struct {
	least, most int // sources; most 0: any number
	// add combines the words of a further source into first and others. At the start, first has the
	// words of the first source, and others has zeros. add is nil if there is only one source.
	add func(first, others, source []uint64)
	// end computes the result from first and others, and writes it to first. If end is nil, first
	// already has the result.
	end func(first, others []uint64)
}

// keepFirst leaves first unchanged, and collects in others the bits of all other sources.
func keepFirst(_, others, source []uint64) {
	others = others[:len(source)]
	for i, w := range source {
		others[i] |= w
	}
}

var bitOperations = map[string]*bitOperation{
	"AND": {add: func(first, _, source []uint64) {
		first = first[:len(source)]
		for i, w := range source {
			first[i] &= w
		}
	}},
	"OR": {add: func(first, _, source []uint64) {
		first = first[:len(source)]
		for i, w := range source {
			first[i] |= w
		}
	}},
	"XOR": {add: func(first, _, source []uint64) {
		first = first[:len(source)]
		for i, w := range source {
			first[i] ^= w
		}
	}},
	"NOT": {most: 1, end: func(first, _ []uint64) {
		for i := range first {
			first[i] = ^first[i]
		}
	}},
	// In the first source and in no other.
	"DIFF": {least: 2, add: keepFirst, end: minus},
	// In another source, and not in the first.
	"DIFF1": {least: 2, add: keepFirst, end: func(first, others []uint64) {
		for i, w := range others {
			first[i] = w &^ first[i]
		}
	}},
	// In the first source and in another.
	"ANDOR": {least: 2, add: keepFirst, end: func(first, others []uint64) {
		for i, w := range others {
			first[i] &= w
		}
	}},
	// In one source alone: first has the bits of any source, others the bits of two or more.
	"ONE": {add: func(first, others, source []uint64) {
		for i, w := range source {
			others[i] |= first[i] & w
			first[i] |= w
		}
	}, end: minus},
}

func minus(first, others []uint64) {
	for i, w := range others {
		first[i] &^= w
	}
}

func runBitOp(c *Ctx) error {
	name := strings.ToUpper(string(c.Arg(1)))
	op := bitOperations[name]
	sources := len(c.Args) - 3
	switch {
	case op == nil:
		return ErrSyntax
	case op.most > 0 && sources > op.most:
		return Error("ERR BITOP " + name + " must be called with a single source key.")
	case sources < op.least:
		return Error("ERR BITOP " + name + " must be called with at least two source keys.")
	}
	values, longest := make([][]byte, sources), 0
	for i, k := range c.Keys[1:] {
		value, _, err := c.readString(k)
		if err != nil {
			return err
		}
		values[i], longest = value, max(longest, len(value))
	}
	switch {
	case c.Txn.Offloaded():
		// The store keeps the result itself, not a copy. The sources may be gone by now.
		c.overwrite(c.Keys[0], &object.String{Data: op.combine(values, longest)}, eventSet)
	case longest == 0:
		c.Txn.Delete(c.Keys[0], storage.Deleted)
	default:
		c.Txn.Overwriting(c.Keys[0], object.TypeString, ttl.None)
		c.Txn.SetRaw(c.Keys[0], op.combine(values, longest), ttl.Deadline{}, eventSet)
	}
	c.Out.Int(int64(longest))
	return nil
}

// bitChunk is how many words of each source are combined at a time: few enough to stay in the
// processor's caches.
const bitChunk = 512

// combine returns the result for sources; longest is the length of the longest one in bytes.
func (op *bitOperation) combine(sources [][]byte, longest int) []byte {
	words := make([]uint64, (longest+7)/8)
	result := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
	var spare [2][bitChunk]uint64
	for at := 0; at < len(words); at += bitChunk {
		first := words[at:min(at+bitChunk, len(words))]
		others := spare[0][:len(first)]
		if from := sources[0][min(8*at, len(sources[0])):]; len(from) > 0 {
			copy(result[8*at:8*(at+len(first))], from)
		}
		clear(others)
		for _, s := range sources[1:] {
			op.add(first, others, wordsOf(s[min(8*at, len(s)):], spare[1][:len(first)]))
		}
		if op.end != nil {
			op.end(first, others)
		}
	}
	return result[:longest:longest]
}

// wordsOf returns the words at the beginning of s, with zeros after its end. The result is the
// memory of s if that is possible, otherwise words.
func wordsOf(s []byte, words []uint64) []uint64 {
	if start := unsafe.Pointer(unsafe.SliceData(s)); len(s) >= 8*len(words) &&
		uintptr(start)%8 == 0 {
		return unsafe.Slice((*uint64)(start), len(words))
	}
	in := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
	clear(in[copy(in, s):])
	return words
}
