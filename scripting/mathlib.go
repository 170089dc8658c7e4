package scripting

import (
	"math"

	"keyp/scripting/lua"
)

func (st *state) openMath() {
	library := st.L.OpenMath()
	st.L.Register(library, map[string]lua.Builtin{"random": st.mathRandom,
		"randomseed": st.mathRandomSeed})
	st.globals.SetString(st.L, "math", library.Value())
}

// rand48 is the generator of drand48(3), which Redis scripts use: the same numbers on every
// machine.
type rand48 struct{ x uint64 }

const (
	rand48Factor = 0x5deece66d
	rand48Add    = 0xb
	rand48Mask   = 1<<48 - 1
	rand48Low    = 0x330e
	rand48Max    = 1<<31 - 1
	rand48First  = 0x1234abcd330e // before any seed
)

func (r *rand48) seed(n int32) { r.x = uint64(uint32(n))<<16 | rand48Low }

func (r *rand48) next() int64 {
	r.x = (r.x*rand48Factor + rand48Add) & rand48Mask
	return int64(r.x >> 17)
}

func (st *state) mathRandom(L *lua.State) int {
	if st.run == nil {
		L.Errorf("math.random can only be called inside a script invocation")
	}
	r := float64(st.random.next()%rand48Max) / rand48Max
	low, high := 1, 0
	switch L.NArgs() {
	case 0:
		L.PushNumber(r)
		return 1
	case 1:
		high = L.CheckInt(1)
		if low > high {
			L.ArgError(1, "interval is empty")
		}
	case 2:
		low, high = L.CheckInt(1), L.CheckInt(2)
		if low > high {
			L.ArgError(2, "interval is empty")
		}
	default:
		L.Errorf("wrong number of arguments")
	}
	L.PushNumber(math.Floor(r*(float64(high)-float64(low)+1)) + float64(low))
	return 1
}

func (st *state) mathRandomSeed(L *lua.State) int {
	if st.run == nil {
		L.Errorf("math.randomseed can only be called inside a script invocation")
	}
	st.random.seed(int32(L.CheckInt(1)))
	return 0
}
