package cmath

import (
	"math"
	"math/big"
	"sync"
)

// This file computes sines, cosines, tangents and their inverses.

var (
	halfPi = [3]float64{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110}

	sinSeries = alternating(factorials(1, 2, 14)) // of sin(x)/x, in x*x
	cosSeries = append([]pair{{1, 0}}, alternating(factorials(2, 2, 14))...)
)

// reducible is the largest argument that is reduced to a quarter turn with halfPi: above it, halfPi
// has too few bits.
const reducible = 1 << 27

func init() {
	for i := range cosSeries[1:] {
		cosSeries[i+1] = cosSeries[i+1].neg()
	}
}

// alternating changes the sign of every second coefficient.
func alternating(list []pair) []pair {
	for i := 1; i < len(list); i += 2 {
		list[i] = list[i].neg()
	}
	return list
}

// sinCos returns the sine and the cosine of x, which is finite.
func sinCos(x float64) (sin, cos pair) {
	var r pair
	var quarters int64
	if math.Abs(x) < reducible {
		n := math.RoundToEven(x / (math.Pi / 2))
		r = pair{x, 0}.sub(twoProduct(n, halfPi[0])).sub(twoProduct(n, halfPi[1])).sub(
			twoProduct(n, halfPi[2]))
		quarters = int64(n)
	} else {
		r, quarters = reduceLarge(x)
	}
	square := r.mul(r)
	sin, cos = polynomial(square, sinSeries).mul(r), polynomial(square, cosSeries)
	switch quarters & 3 {
	case 1:
		return cos, sin.neg()
	case 2:
		return sin.neg(), cos.neg()
	case 3:
		return cos.neg(), sin
	}
	return sin, cos
}

// turnBits is the number of bits after the binary point of a quarter turn. They suffice for the
// largest double, and for the doubles nearest to a multiple of a quarter turn.
const turnBits = 1024 + 64 + 128

// quarterTurn returns half of pi, times 2 to the turnBits, by Machin's formula, pi/4 = 4*atan(1/5)
// - atan(1/239).
var quarterTurn = sync.OnceValue(func() *big.Int {
	const guard = 32 // bits that the roundings of the sums may change
	atan := func(of int64) *big.Int {
		power := new(big.Int).Lsh(big.NewInt(1), turnBits+guard)
		power.Quo(power, big.NewInt(of))
		sum, square := new(big.Int), big.NewInt(of*of)
		for n := int64(1); power.Sign() != 0; n += 2 {
			term := new(big.Int).Quo(power, big.NewInt(n))
			if n&2 != 0 {
				term.Neg(term)
			}
			sum.Add(sum, term)
			power.Quo(power, square)
		}
		return sum
	}
	half := atan(5)
	half.Lsh(half, 2).Sub(half, atan(239))
	return half.Rsh(half, guard-1)
})

// reduceLarge splits x, at least reducible, into quarter turns and a remainder of at most half a
// quarter turn.
func reduceLarge(x float64) (r pair, quarters int64) {
	fraction, exponent := math.Frexp(x)
	rest := big.NewInt(int64(fraction * (1 << 53)))
	rest.Lsh(rest, uint(exponent-53+turnBits))
	turn, n := quarterTurn(), new(big.Int)
	n.DivMod(rest, turn, rest)
	quarters = new(big.Int).And(n, big.NewInt(3)).Int64()
	if new(big.Int).Lsh(rest, 1).Cmp(turn) > 0 {
		rest.Sub(rest, turn)
		quarters++
	}
	exact := new(big.Float).SetInt(rest)
	exact.SetMantExp(exact, -turnBits)
	r.hi, _ = exact.Float64()
	r.lo, _ = exact.Sub(exact, big.NewFloat(r.hi)).Float64()
	return r, quarters
}

// Sin returns the sine of x radians.
func Sin(x float64) float64 {
	switch {
	case math.IsInf(x, 0):
		return NaN()
	case x == 0 || x != x:
		return x
	}
	sin, _ := sinCos(x)
	return sin.hi
}

// Cos returns the cosine of x radians.
func Cos(x float64) float64 {
	switch {
	case math.IsInf(x, 0):
		return NaN()
	case x != x:
		return x
	}
	_, cos := sinCos(x)
	return cos.hi
}

// Tan returns the tangent of x radians.
func Tan(x float64) float64 {
	switch {
	case math.IsInf(x, 0):
		return NaN()
	case x == 0 || x != x:
		return x
	}
	sin, cos := sinCos(x)
	return sin.div(cos).hi
}

// angle returns the angle of the point (x, y), both finite and not both zero.
func angle(y, x pair) float64 {
	a := math.Atan2(y.hi, x.hi)
	sin, cos := sinCos(a)
	across := y.mul(cos).sub(x.mul(sin))
	along := x.mul(cos).add(y.mul(sin))
	return pair{a, 0}.add(across.div(along)).hi
}

const (
	// largeAngle is the ratio of coordinates that pairs cannot represent any more.
	largeAngle = 1e100
)

// Atan returns the angle whose tangent is x.
func Atan(x float64) float64 {
	if x == 0 || x != x || math.Abs(x) > largeAngle || math.Abs(x) < 1/largeAngle {
		return math.Atan(x)
	}
	return angle(pair{x, 0}, pair{1, 0})
}

// Atan2 returns the angle of the point (x, y).
func Atan2(y, x float64) float64 {
	for _, v := range []float64{x, y} {
		if v != v {
			return x + y
		}
		if a := math.Abs(v); a > largeAngle || a < 1/largeAngle {
			return math.Atan2(y, x)
		}
	}
	return angle(pair{y, 0}, pair{x, 0})
}

// Asin returns the angle whose sine is x.
func Asin(x float64) float64 {
	switch {
	case math.Abs(x) > 1:
		return math.NaN() // glibc's has no sign here
	case x != x || math.Abs(x) < 1/largeAngle:
		return x
	}
	return angle(pair{x, 0}, opposite(x))
}

// Acos returns the angle whose cosine is x.
func Acos(x float64) float64 {
	switch {
	case math.Abs(x) > 1:
		return math.NaN() // glibc's has no sign here
	case x == 1 || x != x:
		return math.Acos(x)
	}
	return angle(opposite(x), pair{x, 0})
}

// opposite returns the square root of 1-x².
func opposite(x float64) pair {
	return twoSum(1, -x).mul(twoSum(1, x)).sqrt()
}
