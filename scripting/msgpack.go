package scripting

import (
	"encoding/binary"
	"math"

	"keyp/scripting/lua"
)

// msgpackNesting is the maximum nesting depth of tables that are packed; deeper tables become nil.
// msgpackDepth is the maximum depth of data that is unpacked.
const (
	msgpackNesting = 16
	msgpackDepth   = 10000
)

func (st *state) openMsgpack() {
	library := st.library("cmsgpack", map[string]lua.Builtin{
		"pack": msgpackPack, "unpack": msgpackUnpack, "unpack_one": msgpackOne,
		"unpack_limit": msgpackLimit,
	})
	for name, text := range map[string]string{
		"_NAME": "cmsgpack", "_VERSION": "lua-cmsgpack 0.4.0",
		"_COPYRIGHT":   "Copyright (C) 2012, Salvatore Sanfilippo",
		"_DESCRIPTION": "MessagePack C implementation for Lua",
	} {
		library.SetString(st.L, name, st.L.String(text))
	}
}

func msgpackPack(L *lua.State) int {
	n := L.NArgs()
	if n == 0 {
		L.ArgError(0, "MessagePack pack needs input.")
	}
	out := buffer{L: L}
	for i := 1; i <= n; i++ {
		pack(&out, L.Arg(i), 0)
	}
	L.Push(out.value())
	return 1
}

// longestHead is the maximum size in bytes of a packed number, or of the header of a string or
// table.
const longestHead = 9

func pack(out *buffer, v lua.Value, level int) {
	out.L.Check()
	out.room(longestHead)
	switch v.Kind() {
	case lua.KindString:
		s, _ := v.AsString()
		out.b = appendPackedString(out.b, len(s))
		out.text(s)
	case lua.KindBoolean:
		if v.Truth() {
			out.byte(0xc3)
		} else {
			out.byte(0xc2)
		}
	case lua.KindNumber:
		f, _ := v.AsNumber()
		out.b = appendPackedNumber(out.b, f)
	case lua.KindTable:
		if level < msgpackNesting {
			packTable(out, v.AsTable(), level)
			return
		}
		out.byte(0xc0)
	default:
		out.byte(0xc0)
	}
}

func appendPackedString(out []byte, n int) []byte {
	switch {
	case n < 32:
		return append(out, 0xa0|byte(n))
	case n <= math.MaxUint8:
		return append(out, 0xd9, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(out, 0xda), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(out, 0xdb), uint32(n))
}

func appendPackedNumber(out []byte, f float64) []byte {
	if f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64 {
		return appendPackedInt(out, int64(f))
	}
	if single := float32(f); float64(single) == f {
		return binary.BigEndian.AppendUint32(append(out, 0xca), math.Float32bits(single))
	}
	return binary.BigEndian.AppendUint64(append(out, 0xcb), math.Float64bits(f))
}

func appendPackedInt(out []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= 127:
		return append(out, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		return append(out, 0xcc, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(out, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(out, 0xce), uint32(n))
	case n >= 0:
		return binary.BigEndian.AppendUint64(append(out, 0xcf), uint64(n))
	case n >= math.MinInt8:
		return append(out, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(out, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(out, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(out, 0xd3), uint64(n))
}

// packedSize writes the header of an array or a map of n elements. small is its type byte for
// n < 16, large the one for sizes of 16 bits, large+1 the one for sizes of 32 bits.
func packedSize(out []byte, n int, small, large byte) []byte {
	switch {
	case n < 16:
		return append(out, small|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(out, large), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(out, large+1), uint32(n))
}

func packTable(out *buffer, t *lua.Table, level int) {
	n, array := packedShape(out.L, t)
	if array {
		out.b = packedSize(out.b, n, 0x90, 0xdc)
		for i := 1; i <= n; i++ {
			pack(out, t.GetInt(i), level+1)
		}
		return
	}
	out.b = packedSize(out.b, n, 0x80, 0xde)
	for key, value, _ := t.Next(lua.Nil); !key.IsNil(); key, value, _ = t.Next(key) {
		pack(out, key, level+1)
		pack(out, value, level+1)
	}
}

// packedShape counts a table's elements; array reports whether its keys are exactly 1 to n.
func packedShape(L *lua.State, t *lua.Table) (n int, array bool) {
	most := 0.0
	array = true
	for key, _, _ := t.Next(lua.Nil); !key.IsNil(); key, _, _ = t.Next(key) {
		if n++; n%checkEvery == 0 {
			L.Check()
		}
		f, ok := key.AsNumber()
		if !ok || f <= 0 || f != math.Floor(f) {
			array = false
			continue
		}
		most = math.Max(most, f)
	}
	return n, array && most == float64(n)
}

// unpacker reads packed values. It fills a table only after putting it in its place (see place).
type unpacker struct {
	L     *lua.State
	b     string
	at    int
	depth int
}

func msgpackUnpack(L *lua.State) int { return unpackValues(L, 0, 0) }
func msgpackOne(L *lua.State) int    { return unpackValues(L, 1, L.OptInteger(2, 0)) }
func msgpackLimit(L *lua.State) int {
	limit := L.CheckInteger(2)
	return unpackValues(L, limit, L.OptInteger(3, 0))
}

// unpackValues pushes the offset at which to continue (-1 at the end), then up to limit values from
// offset on. Without limit and offset it pushes all values and no offset.
func unpackValues(L *lua.State, limit, offset int) int {
	u := unpacker{L: L, b: L.CheckString(1), at: offset}
	if offset < 0 || limit < 0 {
		// Redis's error shows the length of the input as the limit.
		L.Errorf("Invalid request to unpack with offset of %d and limit of %d.",
			int32(offset), len(u.b))
	}
	if offset > len(u.b) {
		L.Errorf("Start offset %d greater than input length %d.", int32(offset), len(u.b))
	}
	all := limit == 0 && offset == 0
	n := 0
	if !all {
		L.Push(lua.Nil) // for the place
	}
	for u.at < len(u.b) && (all || n < limit) {
		if !L.HasStack(2) {
			L.Errorf("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
		}
		L.EnsureStack(2)
		u.value(dest{})
		n++
	}
	if !all {
		at := u.at
		if at >= len(u.b) {
			at = -1
		}
		L.Replace(n+1, lua.Number(float64(at)))
		n++
	}
	return n
}

// take returns the next n bytes.
func (u *unpacker) take(n int) string {
	if n < 0 || len(u.b)-u.at < n {
		u.L.Errorf("Missing bytes in input.")
	}
	u.at += n
	return u.b[u.at-n : u.at]
}

// uint reads a number of n bytes.
func (u *unpacker) uint(n int) uint64 {
	value := uint64(0)
	for _, c := range bytesOf(u.take(n)) {
		value = value<<8 | uint64(c)
	}
	return value
}

// value reads a value and puts it where it belongs.
func (u *unpacker) value(to dest) {
	c := u.take(1)[0]
	switch {
	case c&0xf0 == 0x90:
		u.array(int(c&15), to)
	case c&0xf0 == 0x80:
		u.pairs(int(c&15), to)
	case c == 0xdc, c == 0xdd:
		u.array(int(u.uint(2<<(c-0xdc))), to)
	case c == 0xde, c == 0xdf:
		u.pairs(int(u.uint(2<<(c-0xde))), to)
	default:
		to.put(u.L, u.scalar(c))
	}
}

func (u *unpacker) scalar(c byte) lua.Value {
	switch {
	case c <= 0x7f:
		return lua.Number(float64(c))
	case c >= 0xe0:
		return lua.Number(float64(int8(c)))
	case c&0xe0 == 0xa0:
		return u.L.Copy(u.take(int(c & 0x1f)))
	}
	switch c {
	case 0xc0:
		return lua.Nil
	case 0xc2, 0xc3:
		return lua.Bool(c == 0xc3)
	case 0xca:
		return lua.Number(float64(math.Float32frombits(uint32(u.uint(4)))))
	case 0xcb:
		return lua.Number(math.Float64frombits(u.uint(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return lua.Number(float64(u.uint(1 << (c - 0xcc))))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c - 0xd0)
		shift := 64 - 8*size
		return lua.Number(float64(int64(u.uint(size)<<shift) >> shift))
	case 0xd9, 0xda, 0xdb:
		return u.L.Copy(u.take(int(u.uint(1 << (c - 0xd9)))))
	}
	u.L.Errorf("Bad data format in input.")
	return lua.Nil
}

func (u *unpacker) descend() {
	if u.depth++; u.depth > msgpackDepth {
		u.L.Errorf("Bad data format in input.")
	}
}

func (u *unpacker) array(n int, to dest) {
	u.descend()
	t := to.table(u.L)
	for i := 1; i <= n; i++ {
		u.L.Check()
		u.value(dest{t, i})
	}
	u.depth--
}

func (u *unpacker) pairs(n int, to dest) {
	u.descend()
	t := to.table(u.L)
	for range n {
		u.L.Check()
		u.value(dest{}) // the key stays on the stack meanwhile
		u.value(dest{t: t})
		u.L.Pop(1)
	}
	u.depth--
}
