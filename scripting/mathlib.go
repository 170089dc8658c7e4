package scripting

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

func (st *state) openMath() {
	functions := map[string]lua.LGFunction{
		"max": mathMax, "min": mathMin, "modf": mathModf, "frexp": mathFrexp, "ldexp": mathLdexp,
		"random": st.mathRandom, "randomseed": st.mathRandomSeed,
	}
	for name, fn := range map[string]func(float64) float64{
		"abs": math.Abs, "acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "ceil": math.Ceil,
		"cos": math.Cos, "cosh": math.Cosh, "exp": math.Exp, "floor": math.Floor, "log": math.Log,
		"log10": math.Log10, "sin": math.Sin, "sinh": math.Sinh, "sqrt": math.Sqrt, "tan": math.Tan,
		"tanh": math.Tanh,
		"deg":  func(f float64) float64 { return f / (math.Pi / 180) },
		"rad":  func(f float64) float64 { return f * (math.Pi / 180) },
	} {
		functions[name] = func(L *lua.LState) int {
			L.Push(lua.LNumber(fn(argNumber(L, name, 1))))
			return 1
		}
	}
	for name, fn := range map[string]func(a, b float64) float64{
		"atan2": math.Atan2, "fmod": math.Mod, "mod": math.Mod, "pow": power,
	} {
		functions[name] = func(L *lua.LState) int {
			b := argNumber(L, name, 2) // looked at first, as Redis's compiler has it
			L.Push(lua.LNumber(fn(argNumber(L, name, 1), b)))
			return 1
		}
	}
	library := st.library("math", functions)
	library.RawSetString("pi", lua.LNumber(math.Pi))
	library.RawSetString("huge", lua.LNumber(math.Inf(1)))
}

func power(a, b float64) float64 { return math.Pow(a, b) }

// modulo is Lua's %: the result has the divisor's sign.
func modulo(a, b float64) float64 { return a - math.Floor(a/b)*b }

func mathMax(L *lua.LState) int {
	most := argNumber(L, "max", 1)
	for i := 2; i <= L.GetTop(); i++ {
		if f := argNumber(L, "max", i); f > most {
			most = f
		}
	}
	L.Push(lua.LNumber(most))
	return 1
}

func mathMin(L *lua.LState) int {
	least := argNumber(L, "min", 1)
	for i := 2; i <= L.GetTop(); i++ {
		if f := argNumber(L, "min", i); f < least {
			least = f
		}
	}
	L.Push(lua.LNumber(least))
	return 1
}

func mathModf(L *lua.LState) int {
	whole, part := math.Modf(argNumber(L, "modf", 1))
	if math.IsInf(whole, 0) {
		part = 0
	}
	L.Push(lua.LNumber(whole))
	L.Push(lua.LNumber(part))
	return 2
}

func mathFrexp(L *lua.LState) int {
	part, exponent := math.Frexp(argNumber(L, "frexp", 1))
	L.Push(lua.LNumber(part))
	L.Push(lua.LNumber(exponent))
	return 2
}

func mathLdexp(L *lua.LState) int {
	L.Push(lua.LNumber(math.Ldexp(argNumber(L, "ldexp", 1), argInt(L, "ldexp", 2))))
	return 1
}

// rand48 is the generator of drand48(3), as Redis has it in scripts: the same numbers on
// every machine.
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

func (st *state) mathRandom(L *lua.LState) int {
	if st.run == nil {
		L.RaiseError("math.random can only be called inside a script invocation")
	}
	r := float64(st.random.next()%rand48Max) / rand48Max
	low, high := 1, 0
	switch L.GetTop() {
	case 0:
		L.Push(lua.LNumber(r))
		return 1
	case 1:
		high = argInt(L, "random", 1)
		if low > high {
			argError(L, "random", 1, "interval is empty")
		}
	case 2:
		low, high = argInt(L, "random", 1), argInt(L, "random", 2)
		if low > high {
			argError(L, "random", 2, "interval is empty")
		}
	default:
		L.RaiseError("wrong number of arguments")
	}
	L.Push(lua.LNumber(math.Floor(r*(float64(high)-float64(low)+1)) + float64(low)))
	return 1
}

func (st *state) mathRandomSeed(L *lua.LState) int {
	if st.run == nil {
		L.RaiseError("math.randomseed can only be called inside a script invocation")
	}
	st.random.seed(int32(argInt(L, "randomseed", 1)))
	return 0
}
