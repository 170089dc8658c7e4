package cmath

import "math"

// Mod returns the remainder of x/y, with x's sign.
func Mod(x, y float64) float64 {
	switch {
	case x != x || y != y:
		return x * y
	case y == 0 || math.IsInf(x, 0):
		return NaN()
	}
	return math.Mod(x, y)
}

// Sqrt returns the square root of x.
func Sqrt(x float64) float64 {
	if x < 0 {
		return NaN()
	}
	return math.Sqrt(x)
}

// The hyperbolic functions use glibc's formulas over e^x-1 and e^x, which round more than once.

const (
	wideHyper = 22     // e^-x is negligible beside e^x from here up
	wideExp   = 709.78 // up to here e^x is finite
	tiny      = 1.0 / (1 << 28)
)

// Sinh returns the hyperbolic sine of x.
func Sinh(x float64) float64 {
	a, half := math.Abs(x), math.Copysign(0.5, x)
	switch {
	case x != x || math.IsInf(x, 0) || a < tiny:
		return x
	case a < 1:
		t := math.Expm1(a)
		return half * (2*t - float64(t*t)/(t+1))
	case a < wideHyper:
		t := math.Expm1(a)
		return half * (t + t/(t+1))
	}
	return 2 * half * halfExp(a)
}

// halfExp returns e^x/2, even if e^x is infinite.
func halfExp(x float64) float64 {
	if x < wideExp {
		return 0.5 * Exp(x)
	}
	w := Exp(0.5 * x)
	return float64(0.5*w) * w
}

// Cosh returns the hyperbolic cosine of x.
func Cosh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case x != x || math.IsInf(x, 0):
		return x * x
	case a < math.Ln2/2:
		t := math.Expm1(a)
		w := 1 + t
		return 1 + float64(t*t)/(w+w)
	case a < wideHyper:
		t := Exp(a)
		return float64(0.5*t) + 0.5/t
	}
	return halfExp(a)
}

// Tanh returns the hyperbolic tangent of x.
func Tanh(x float64) float64 {
	a, z := math.Abs(x), 1.0
	switch {
	case x != x || x == 0:
		return x
	case a < 1.0/(1<<55):
		return x * (1 + x)
	case a < 1:
		t := math.Expm1(-2 * a)
		z = -t / (t + 2)
	case a < wideHyper:
		z = 1 - 2/(math.Expm1(2*a)+2)
	}
	return math.Copysign(z, x)
}
