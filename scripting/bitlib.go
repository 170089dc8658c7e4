package scripting

import (
	"math"
	"math/bits"

	"keyp/scripting/lua"
)

// openBit gives scripts the library bit, which has operations on the bits of 32-bit integers.
func (st *state) openBit() {
	functions := map[string]lua.Builtin{"tohex": bitToHex}
	for name, fn := range map[string]func(a uint32) uint32{
		"tobit": func(a uint32) uint32 { return a },
		"bnot":  func(a uint32) uint32 { return ^a },
		"bswap": bits.ReverseBytes32,
	} {
		functions[name] = func(L *lua.State) int { return pushBits(L, fn(argBits(L, 1))) }
	}
	for name, fn := range map[string]func(a, b uint32) uint32{
		"band": func(a, b uint32) uint32 { return a & b },
		"bor":  func(a, b uint32) uint32 { return a | b },
		"bxor": func(a, b uint32) uint32 { return a ^ b },
	} {
		functions[name] = func(L *lua.State) int {
			result := argBits(L, 1)
			for i := L.NArgs(); i > 1; i-- { // the last is checked first
				result = fn(result, argBits(L, i))
			}
			return pushBits(L, result)
		}
	}
	for name, fn := range map[string]func(a uint32, n int) uint32{
		"lshift":  func(a uint32, n int) uint32 { return a << n },
		"rshift":  func(a uint32, n int) uint32 { return a >> n },
		"arshift": func(a uint32, n int) uint32 { return uint32(int32(a) >> n) },
		"rol":     bits.RotateLeft32,
		"ror":     func(a uint32, n int) uint32 { return bits.RotateLeft32(a, -n) },
	} {
		functions[name] = func(L *lua.State) int {
			return pushBits(L, fn(argBits(L, 1), int(argBits(L, 2)&31)))
		}
	}
	st.library("bit", functions)
}

// argBits returns argument n, rounded to an integer, modulo 2^32.
func argBits(L *lua.State, n int) uint32 {
	f := math.RoundToEven(L.CheckNumber(n))
	if math.Abs(f) < 1<<51 {
		return uint32(int64(f))
	}
	const toBit = 1<<52 + 1<<51 // added as in BitOp: the low bits of the sum are the number
	return uint32(math.Float64bits(f + toBit))
}

// pushBits pushes v as a signed 32-bit number and returns 1, the number of results.
func pushBits(L *lua.State, v uint32) int {
	L.PushNumber(float64(int32(v)))
	return 1
}

func bitToHex(L *lua.State) int {
	v := argBits(L, 1)
	n := int32(8)
	if !L.Arg(2).IsNil() {
		n = int32(argBits(L, 2))
	}
	digits := hexDigits
	if n < 0 {
		n = -n
		digits = "0123456789ABCDEF"
	}
	if n > 8 || n < 0 {
		n = 8
	}
	b := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		b[i] = digits[v&15]
		v >>= 4
	}
	L.Push(L.Bytes(b))
	return 1
}
