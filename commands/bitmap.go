package commands

import (
	"encoding/binary"
	"math"
	"math/bits"

	"keyp/storage"
)

// Bitmaps are strings whose bits are numbered from the highest bit of the first byte on. Bits after
// a string's end, and all bits of a missing key, are 0.

// bitmapCommands are the commands of bitmaps. BITOP and the BITFIELD commands have files of their
// own.
var bitmapCommands = append([]Spec{
	{
		Name: "SETBIT", Group: Bitmap, Since: "2.2.0",
		Summary:    "Sets or clears a bit of a string, which grows with zero bits where it is too short, and replies the bit before.",
		Complexity: "O(1), and O(N) in the zeros added.",
		Arity:      4, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), intArg("offset"), intArg("value")},
		Run:  runSetBit,
	},
	{
		Name: "GETBIT", Group: Bitmap, Since: "2.2.0",
		Summary:    "Replies a bit of a string, 0 after its end.",
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), intArg("offset")},
		Run:  runGetBit,
	},
	{
		Name: "BITCOUNT", Group: Bitmap, Since: "2.6.0",
		Summary:    "Counts the bits of a string, or of a part of it, that are set.",
		Complexity: "O(N) in the bytes that are looked at.",
		History:    [][2]string{{"7.0.0", "Added the `BYTE|BIT` option."}},
		Arity:      -2, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), block("range", intArg("start"), intArg("end"),
			bitUnit).opt()},
		Offload: largeValues,
		Run:     runBitCount,
	},
	{
		Name: "BITPOS", Group: Bitmap, Since: "2.8.7",
		Summary:    "Finds the first bit of a string, or of a part of it, that is set or that is clear.",
		Complexity: "O(N) in the bytes that are looked at.",
		History:    [][2]string{{"7.0.0", "Added the `BYTE|BIT` option."}},
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{
			keyArg("key"), intArg("bit"),
			block("range", intArg("start"),
				block("end-unit-block", intArg("end"), bitUnit).opt()).opt(),
		},
		Offload: largeValues,
		Run:     runBitPos,
	},
}, append(bitOpCommands, bitFieldCommands...)...)

var bitUnit = oneOf("unit", word("BYTE"), word("BIT")).opt().since("7.0.0")

// The errors of bitmaps.
const (
	errBitOffset Error = "ERR bit offset is not an integer or out of range"
	errBitValue  Error = "ERR bit is not an integer or out of range"
	errBitWanted Error = "ERR The bit argument must be 1 or 0."
)

var eventSetBit = storage.Event{Class: storage.EventString, Name: "setbit"}

// bitOffset reads the number of a bit. The bit must be within the largest length of a string.
func (c *Ctx) bitOffset(arg []byte) (int64, error) {
	off, ok := ParseInt(arg)
	if !ok || off < 0 || off>>3 >= c.Env.maxBulk() {
		return 0, errBitOffset
	}
	return off, nil
}

func runSetBit(c *Ctx) error {
	k := c.Keys[0]
	off, err := c.bitOffset(c.Arg(2))
	if err != nil {
		return err
	}
	bit, ok := ParseInt(c.Arg(3))
	if !ok || bit != 0 && bit != 1 {
		return errBitValue
	}
	value, _, err := c.String(k)
	if err != nil {
		return err
	}
	at, mask := off>>3, byte(0x80)>>(off&7)
	var old byte
	if at < int64(len(value)) {
		old = value[at]
	}
	changed := old &^ mask
	if bit == 1 {
		changed |= mask
	}
	if changed != old || at >= int64(len(value)) {
		c.Txn.WriteRange(k, int(at), []byte{changed}, eventSetBit)
	} else {
		c.Txn.MarkRaw(k)
	}
	c.Out.Int(int64(bitAt(old, off)))
	return nil
}

// bitAt returns the bit at offset off of a string, where b is the byte that has this bit.
func bitAt(b byte, off int64) byte { return b >> (7 - off&7) & 1 }

func runGetBit(c *Ctx) error {
	off, err := c.bitOffset(c.Arg(2))
	if err != nil {
		return err
	}
	value, _, err := c.readString(c.Keys[0])
	if err != nil {
		return err
	}
	var bit byte
	if at := off >> 3; at < int64(len(value)) {
		bit = bitAt(value[at], off)
	}
	c.Out.Int(int64(bit))
	return nil
}

// bitRange is a part of a string, in the form of the arguments: its first and last position. They
// count bytes or bits; negative positions count from the end.
type bitRange struct {
	start, end int64
	hasEnd     bool
	inBits     bool
}

// bitRange reads start, end and unit. If several are wrong, the error is the same as in Redis:
// BITPOS checks the unit before the end.
func (a *Cursor) bitRange(unitFirst bool) (r bitRange, err error) {
	if a.Len() > 3 {
		return r, ErrSyntax
	}
	r.start, r.end = a.Int(), math.MaxInt64
	if a.Len() == 2 {
		if r.inBits = isWord(a.args[1], "BIT"); !r.inBits && !isWord(a.args[1], "BYTE") {
			err = ErrSyntax
		}
	}
	if unitFirst && err != nil {
		a.Fail(err)
	}
	if a.More() {
		r.end, r.hasEnd = a.Int(), true
	}
	if err != nil {
		a.Fail(err)
	}
	return r, a.Err()
}

// of returns the range in bits for a string of n bytes. The bit at from is the first one in the
// range, and the bit at to the first one after it.
func (r *bitRange) of(n int) (from, to int64) {
	total, scale := int64(n), int64(8)
	if r.inBits {
		total, scale = total*8, 1
	}
	start, end := r.start, r.end
	if start < 0 {
		start = max(start+total, 0)
	}
	if end < 0 {
		end = max(end+total, 0)
	}
	end = min(end, total-1)
	if start > end {
		return 0, 0
	}
	return start * scale, (end + 1) * scale
}

func runBitCount(c *Ctx) error {
	r := bitRange{end: -1}
	var err error
	if len(c.Args) > 2 {
		a := c.Cursor(2)
		if a.Len() == 1 {
			return ErrSyntax
		}
		if r, err = a.bitRange(false); err != nil {
			return err
		}
	}
	value, _, err := c.readString(c.Keys[0])
	if err != nil {
		return err
	}
	var n int64
	if backwards := r.start < 0 && r.end < 0 && r.start > r.end; !backwards {
		n = countBits(value, &r)
	}
	c.Out.Int(n)
	return nil
}

// countBits counts the bits in the range that are set.
func countBits(s []byte, r *bitRange) (n int64) {
	from, to := r.of(len(s))
	if from == to {
		return 0
	}
	first, last := from>>3, (to-1)>>3
	n -= int64(bits.OnesCount8(s[first] & ^(0xff >> (from & 7))))
	n -= int64(bits.OnesCount8(s[last] & (0x7f >> ((to - 1) & 7))))
	s = s[first : last+1]
	for ; len(s) >= 32; s = s[32:] {
		n += int64(bits.OnesCount64(binary.NativeEndian.Uint64(s)) +
			bits.OnesCount64(binary.NativeEndian.Uint64(s[8:])) +
			bits.OnesCount64(binary.NativeEndian.Uint64(s[16:])) +
			bits.OnesCount64(binary.NativeEndian.Uint64(s[24:])))
	}
	for _, b := range s {
		n += int64(bits.OnesCount8(b))
	}
	return n
}

func runBitPos(c *Ctx) error {
	a := c.Cursor(2)
	bit := a.Int()
	if a.Err() == nil && bit != 0 && bit != 1 {
		a.Fail(errBitWanted)
	}
	r := bitRange{end: math.MaxInt64}
	if a.More() {
		var err error
		if r, err = a.bitRange(true); err != nil {
			return err
		}
	}
	if err := a.Err(); err != nil {
		return err
	}
	value, ok, err := c.readString(c.Keys[0])
	switch {
	case err != nil:
		return err
	case !ok:
		c.Out.Int(-bit)
		return nil
	}
	from, to := r.of(len(value))
	pos := findBit(value, from, to, byte(bit))
	if pos < 0 && bit == 0 && from < to && !r.hasEnd {
		pos = int64(len(value)) * 8 // the first of the zeros behind the end
	}
	c.Out.Int(pos)
	return nil
}

// skipWords counts the bytes at the beginning of s that are whole words equal to value. It compares
// four words at a time, then one.
func skipWords(s []byte, value uint64) int64 {
	was := len(s)
	for len(s) >= 32 {
		a, b := binary.NativeEndian.Uint64(s)^value, binary.NativeEndian.Uint64(s[8:])^value
		c, d := binary.NativeEndian.Uint64(s[16:])^value, binary.NativeEndian.Uint64(s[24:])^value
		if a|b|c|d != 0 {
			break
		}
		s = s[32:]
	}
	for len(s) >= 8 && binary.NativeEndian.Uint64(s) == value {
		s = s[8:]
	}
	return int64(was - len(s))
}

// findBit returns the position of the first bit with this value among the bits at from and later,
// but before to. It returns -1 if there is none.
func findBit(s []byte, from, to int64, bit byte) int64 {
	var others uint64 // a word, and in its lowest byte a byte, without such a bit
	if bit == 0 {
		others = math.MaxUint64
	}
	s = s[:(to+7)>>3]
	for i := from >> 3; i<<3 < to; i++ {
		i += skipWords(s[i:], others)
		if i<<3 >= to {
			break
		}
		b := s[i] ^ byte(others)
		if i == from>>3 {
			b &= 0xff >> (from & 7)
		}
		if b != 0 {
			if pos := i<<3 + int64(bits.LeadingZeros8(b)); pos < to {
				return pos
			}
			return -1
		}
	}
	return -1
}
