package e2e

import "strconv"

var bitmapGenerators = []generator{
	{6, func(g *gen) []string {
		return []string{"SETBIT", g.bits(), g.bit(), g.from("0", "1", "1", "1", "2", "x")}
	}},
	{3, func(g *gen) []string { return []string{"GETBIT", g.bits(), g.bit()} }},
	{4, func(g *gen) []string { return append([]string{"BITCOUNT", g.bits()}, g.bitRange(2)...) }},
	{5, func(g *gen) []string {
		return append([]string{"BITPOS", g.bits(), g.from("0", "1", "0", "1", "2", "x")},
			g.bitRange(1)...)
	}},
	{5, drawBitOp},
	{8, drawBitField},
}

// bits draws a key that mostly holds a bitmap.
func (g *gen) bits() string {
	if g.few || g.chance(25) {
		return g.key()
	}
	return g.from("bits", "bits", "bits", "bits2")
}

// bit draws the offset of a bit, mostly a small one.
func (g *gen) bit() string {
	if g.chance(5) {
		return g.from("-1", "x", "", "9223372036854775807", "8388608", "+1", "4095", "40000")
	}
	return g.between(0, 100)
}

// bitRange draws nothing, or a start and an end, each with or without a unit. If least is 1 or
// more, it may draw a start alone.
func (g *gen) bitRange(least int) []string {
	switch {
	case g.chance(20):
		return nil
	case least < 2 && g.chance(30):
		return []string{g.between(-10, 10)}
	case g.chance(40):
		return []string{g.between(-10, 10), g.between(-10, 10)}
	}
	return []string{g.between(-90, 90), g.between(-90, 90), g.from("BIT", "bit", "BYTE")}
}

// drawBitOp draws the operations that Redis 7.0 has.
func drawBitOp(g *gen) []string {
	args := []string{"BITOP", g.from("AND", "OR", "XOR", "NOT", "and", "NAND"), g.bits()}
	for range 1 + g.IntN(3) {
		args = append(args, g.bits())
	}
	return args
}

func drawBitField(g *gen) []string {
	args := []string{g.from("BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"), g.bits()}
	for range g.IntN(4) {
		switch g.IntN(6) {
		case 0, 1:
			args = append(args, "GET", g.fieldType(), g.fieldOffset())
		case 2, 3:
			args = append(args, "SET", g.fieldType(), g.fieldOffset(), g.operand())
		case 4:
			args = append(args, "INCRBY", g.fieldType(), g.fieldOffset(), g.operand())
		case 5:
			args = append(args, "OVERFLOW", g.from("WRAP", "SAT", "FAIL", "fail", "NONE"))
		}
	}
	return args
}

func (g *gen) fieldType() string {
	if g.chance(4) {
		return g.from("u64", "i65", "i0", "x8", "", "i", "I8", "u-1")
	}
	if g.chance(30) {
		return g.from("i64", "u63", "i63", "u1", "i1", "u62")
	}
	return g.from("u", "i") + strconv.Itoa(1+g.IntN(33))
}

func (g *gen) fieldOffset() string {
	if g.chance(30) {
		return "#" + g.between(0, 12)
	}
	return g.bit()
}

func (g *gen) operand() string {
	if g.chance(20) {
		return g.from("9223372036854775807", "-9223372036854775808", "4294967295",
			"-4294967296", "x")
	}
	return g.between(-300, 300)
}
