package scripting

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// msgpackNesting is how deep tables are packed; what is deeper becomes nil. Unpacking goes
// no deeper than msgpackDepth.
const (
	msgpackNesting = 16
	msgpackDepth   = 10000
)

func (st *state) openMsgpack() {
	library := st.library("cmsgpack", map[string]lua.LGFunction{
		"pack": st.msgpackPack, "unpack": st.msgpackUnpack, "unpack_one": st.msgpackOne, "unpack_limit": st.msgpackLimit,
	})
	library.RawSetString("_NAME", lua.LString("cmsgpack"))
	library.RawSetString("_VERSION", lua.LString("lua-cmsgpack 0.4.0"))
	library.RawSetString("_COPYRIGHT", lua.LString("Copyright (C) 2012, Salvatore Sanfilippo"))
	library.RawSetString("_DESCRIPTION", lua.LString("MessagePack C implementation for Lua"))
}

func (st *state) msgpackPack(L *lua.LState) int {
	n := L.GetTop()
	if n == 0 {
		argError(L, "pack", 0, "MessagePack pack needs input.")
	}
	var out []byte
	for i := 1; i <= n; i++ {
		out = st.appendMsgpack(L, out, L.Get(i), 0)
	}
	L.Push(lua.LString(out))
	return 1
}

func (st *state) appendMsgpack(L *lua.LState, out []byte, v lua.LValue, level int) []byte {
	st.room(L, len(out))
	switch v := v.(type) {
	case lua.LString:
		out = appendPackedString(out, len(v))
		return append(out, v...)
	case lua.LBool:
		if v {
			return append(out, 0xc3)
		}
		return append(out, 0xc2)
	case lua.LNumber:
		return appendPackedNumber(out, float64(v))
	case *lua.LTable:
		if level == msgpackNesting {
			return append(out, 0xc0)
		}
		return st.appendPackedTable(L, out, st.shown(v), level)
	}
	return append(out, 0xc0)
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

// packedSize writes the header of an array or a map of n: small is its form for n < 16,
// large the one for 16 bits, which the one for 32 follows.
func packedSize(out []byte, n int, small, large byte) []byte {
	switch {
	case n < 16:
		return append(out, small|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(out, large), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(out, large+1), uint32(n))
}

func (st *state) appendPackedTable(L *lua.LState, out []byte, t *lua.LTable, level int) []byte {
	n, array := packedShape(t)
	if array {
		out = packedSize(out, n, 0x90, 0xdc)
		for i := 1; i <= n; i++ {
			out = st.appendMsgpack(L, out, t.RawGet(lua.LNumber(i)), level+1)
		}
		return out
	}
	out = packedSize(out, n, 0x80, 0xde)
	for key, value := t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		out = st.appendMsgpack(L, out, key, level+1)
		out = st.appendMsgpack(L, out, value, level+1)
	}
	return out
}

// packedShape counts a table's elements and says whether its keys are 1 to their number.
func packedShape(t *lua.LTable) (n int, array bool) {
	most := 0.0
	array = true
	for key, _ := t.Next(lua.LNil); key != lua.LNil; key, _ = t.Next(key) {
		n++
		number, ok := key.(lua.LNumber)
		if f := float64(number); !ok || f <= 0 || f != math.Floor(f) {
			array = false
			continue
		}
		most = math.Max(most, float64(number))
	}
	return n, array && int(most) == n
}

// unpacker reads packed values.
type unpacker struct {
	st    *state
	L     *lua.LState
	b     string
	at    int
	depth int
}

func (st *state) msgpackUnpack(L *lua.LState) int {
	return st.unpackValues(L, "unpack", 0, 0, false)
}

func (st *state) msgpackOne(L *lua.LState) int {
	return st.unpackValues(L, "unpack_one", 1, optInt(L, "unpack_one", 2, 0), true)
}

func (st *state) msgpackLimit(L *lua.LState) int {
	limit := argInt(L, "unpack_limit", 2)
	return st.unpackValues(L, "unpack_limit", limit, optInt(L, "unpack_limit", 3, 0), true)
}

// unpackValues pushes up to limit values (0: all), behind the place where to go on, -1 for
// the end, if that is asked for.
func (st *state) unpackValues(L *lua.LState, name string, limit, offset int, next bool) int {
	u := unpacker{st: st, L: L, b: argString(L, name, 1), at: offset}
	if offset < 0 || limit < 0 {
		L.RaiseError("Invalid request to unpack with offset of %d and limit of %d.", offset, limit)
	}
	if offset > len(u.b) {
		L.RaiseError("Start offset %d greater than input length %d.", offset, len(u.b))
	}
	var values []lua.LValue
	all := limit == 0 && !next
	for u.at < len(u.b) && (all || len(values) < limit) {
		if len(values) >= maxUnpack {
			L.RaiseError("too many values to unpack")
		}
		values = append(values, u.value())
	}
	if next {
		at := u.at
		if at >= len(u.b) {
			at = -1
		}
		values = append([]lua.LValue{lua.LNumber(at)}, values...)
	}
	for _, v := range values {
		L.Push(v)
	}
	return len(values)
}

// take gives the next n bytes.
func (u *unpacker) take(n int) string {
	if n < 0 || len(u.b)-u.at < n {
		u.L.RaiseError("Missing bytes in input.")
	}
	u.at += n
	return u.b[u.at-n : u.at]
}

// uint reads a number of n bytes.
func (u *unpacker) uint(n int) uint64 {
	value := uint64(0)
	for _, c := range []byte(u.take(n)) {
		value = value<<8 | uint64(c)
	}
	return value
}

func (u *unpacker) value() lua.LValue {
	c := u.take(1)[0]
	switch {
	case c <= 0x7f:
		return lua.LNumber(c)
	case c >= 0xe0:
		return lua.LNumber(int8(c))
	case c&0xe0 == 0xa0:
		return piece(u.b, u.take(int(c&0x1f)))
	case c&0xf0 == 0x90:
		return u.array(int(c & 15))
	case c&0xf0 == 0x80:
		return u.pairs(int(c & 15))
	}
	switch c {
	case 0xc0:
		return lua.LNil
	case 0xc2, 0xc3:
		return lua.LBool(c == 0xc3)
	case 0xca:
		return lua.LNumber(math.Float32frombits(uint32(u.uint(4))))
	case 0xcb:
		return lua.LNumber(math.Float64frombits(u.uint(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return lua.LNumber(u.uint(1 << (c - 0xcc)))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c - 0xd0)
		shift := 64 - 8*size
		return lua.LNumber(int64(u.uint(size)<<shift) >> shift)
	case 0xd9, 0xda, 0xdb:
		return piece(u.b, u.take(int(u.uint(1<<(c-0xd9)))))
	case 0xdc, 0xdd:
		return u.array(int(u.uint(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return u.pairs(int(u.uint(2 << (c - 0xde))))
	}
	u.L.RaiseError("Bad data format in input.")
	return nil
}

func (u *unpacker) descend() {
	if u.depth++; u.depth > msgpackDepth {
		u.L.RaiseError("Bad data format in input.")
	}
}

func (u *unpacker) array(n int) lua.LValue {
	u.descend()
	t := u.st.L.CreateTable(min(n, len(u.b)-u.at), 0)
	for i := range n {
		t.RawSetInt(i+1, u.value())
	}
	u.depth--
	return t
}

func (u *unpacker) pairs(n int) lua.LValue {
	u.descend()
	t := u.st.L.CreateTable(0, 4)
	for range n {
		key := u.value()
		u.L.RawSet(t, key, u.value())
	}
	u.depth--
	return t
}
