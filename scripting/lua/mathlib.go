package lua

import (
	"math"

	"keyp/scripting/cmath"
)

// OpenMath returns the table of the mathematical library, without random and randomseed.
func (L *State) OpenMath() *Table {
	t := L.NewTable(0, 32)
	L.Register(t, map[string]Builtin{"max": mathMax, "min": mathMin, "modf": mathModf,
		"frexp": mathFrexp, "ldexp": mathLdexp})
	const radian = math.Pi / 180
	for name, fn := range map[string]func(float64) float64{
		"abs": math.Abs, "acos": cmath.Acos, "asin": cmath.Asin, "atan": cmath.Atan,
		"ceil": math.Ceil,
		"cos":  cmath.Cos, "cosh": cmath.Cosh, "exp": cmath.Exp, "floor": math.Floor,
		"log":   cmath.Log,
		"log10": cmath.Log10, "sin": cmath.Sin, "sinh": cmath.Sinh, "sqrt": cmath.Sqrt,
		"tan":  cmath.Tan,
		"tanh": cmath.Tanh,
		"deg":  func(f float64) float64 { return f / radian },
		"rad":  func(f float64) float64 { return f * radian },
	} {
		t.SetString(L, name, L.NewFunction(name, func(L *State) int {
			L.PushNumber(fn(L.CheckNumber(1)))
			return 1
		}))
	}
	for name, fn := range map[string]func(a, b float64) float64{
		"atan2": cmath.Atan2, "fmod": cmath.Mod, "mod": cmath.Mod, "pow": cmath.Pow,
	} {
		t.SetString(L, name, L.NewFunction(name, func(L *State) int {
			b := L.CheckNumber(2) // looked at first, as Redis's compiler has it
			L.PushNumber(fn(L.CheckNumber(1), b))
			return 1
		}))
	}
	t.SetString(L, "pi", Number(math.Pi))
	t.SetString(L, "huge", Number(math.Inf(1)))
	return t
}

func mathMax(L *State) int {
	most := L.CheckNumber(1)
	for i := 2; i <= L.NArgs(); i++ {
		if f := L.CheckNumber(i); f > most {
			most = f
		}
	}
	L.PushNumber(most)
	return 1
}

func mathMin(L *State) int {
	least := L.CheckNumber(1)
	for i := 2; i <= L.NArgs(); i++ {
		if f := L.CheckNumber(i); f < least {
			least = f
		}
	}
	L.PushNumber(least)
	return 1
}

func mathModf(L *State) int {
	whole, part := math.Modf(L.CheckNumber(1))
	if math.IsInf(whole, 0) {
		part = math.Copysign(0, whole)
	}
	L.PushNumber(whole)
	L.PushNumber(part)
	return 2
}

func mathFrexp(L *State) int {
	part, exponent := math.Frexp(L.CheckNumber(1))
	L.PushNumber(part)
	L.PushNumber(float64(exponent))
	return 2
}

func mathLdexp(L *State) int {
	exponent := L.CheckInt(2)
	L.PushNumber(math.Ldexp(L.CheckNumber(1), exponent))
	return 1
}
