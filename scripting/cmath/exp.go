package cmath

import "math"

// This file computes exponentials, logarithms and powers.

var (
	ln2 = pair{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}

	expSeries = factorials(1, 1, 12)  // of (e^x-1)/x
	logSeries = oddReciprocals(1, 12) // of atanh(x)/x, in x*x
)

const (
	// halvings is the number of times that exp halves its argument before it computes the series.
	// Afterwards the result is squared as many times.
	halvings = 8
	// nearOne is the distance from 1 within which the logarithm uses its series.
	nearOne = 0.02

	largestExp  = 710  // e^x is infinite from here up
	smallestExp = -746 // and zero up to here
)

// NaN returns the processor's NaN for an invalid operation, whose sign is set.
func NaN() float64 { return math.Float64frombits(0xfff8 << 48) }

// factorials returns n of 1/first!, 1/(first+step)!, …
func factorials(first, step, n int) []pair {
	list := make([]pair, 0, n)
	f := pair{1, 0}
	for i := 1; len(list) < n; i++ {
		f = f.times(float64(i))
		if i >= first && (i-first)%step == 0 {
			list = append(list, pair{1, 0}.div(f))
		}
	}
	return list
}

// oddReciprocals returns n of 1, sign/3, 1/5, sign/7 …
func oddReciprocals(sign float64, n int) []pair {
	list := make([]pair, n)
	s := 1.0
	for i := range list {
		list[i] = pair{s, 0}.div(pair{float64(2*i + 1), 0})
		s *= sign
	}
	return list
}

// expm1 returns p and k such that e^x-1 is (1+p)·2^k - 1.
func expm1(x pair) (p pair, k int) {
	n := math.RoundToEven(x.hi / math.Ln2)
	r := x.sub(ln2.times(n)).scale(1.0 / (1 << halvings))
	p = polynomial(r, expSeries).mul(r)
	for range halvings {
		p = p.scale(2).add(p.mul(p))
	}
	return p, int(n)
}

// power2 returns a·2^k, rounded once, even if the result is subnormal.
func power2(a pair, k int) float64 {
	_, e := math.Frexp(a.hi)
	if e+k > -1022 {
		return math.Ldexp(a.hi, k)
	}
	unit := math.Ldexp(1, -1074-k+52) // so that a sum's last bit is the result's
	t := unit + a.hi
	rest := a.hi - (t - unit) + a.lo
	return math.Ldexp(t+rest-unit, k)
}

func expPair(x pair) float64 {
	switch {
	case x.hi >= largestExp:
		return math.Inf(1)
	case x.hi <= smallestExp:
		return 0
	}
	p, k := expm1(x)
	return power2(pair{1, 0}.add(p), k)
}

// Exp returns e^x.
func Exp(x float64) float64 {
	if x != x || math.IsInf(x, 0) {
		return math.Exp(x)
	}
	return expPair(pair{x, 0})
}

// logPair returns the natural logarithm of x, which is positive and finite.
func logPair(x float64) pair {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	return logNear(m).add(ln2.times(float64(e)))
}

// logNear returns the natural logarithm of x, which is within a factor of two of 1.
func logNear(x float64) pair {
	if math.Abs(x-1) < nearOne {
		d := x - 1
		s := pair{d, 0}.div(twoSum(2, d))
		return polynomial(s.mul(s), logSeries).mul(s).scale(2)
	}
	y := math.Log(x)
	p, k := expm1(pair{-y, 0})
	one := pair{1, 0}
	z := one.add(p).times(x).scale(math.Ldexp(1, k)).sub(one) // x·e^-y - 1
	return pair{y, 0}.add(z.sub(z.mul(z).scale(0.5)))
}

// Log returns the natural logarithm of x.
func Log(x float64) float64 {
	switch {
	case x != x, math.IsInf(x, 1):
		return x
	case x == 0:
		return math.Inf(-1)
	case x < 0:
		return NaN()
	}
	return logPair(x).hi
}

// Log10 returns the decimal logarithm of x. Like glibc it computes it from the natural logarithm of
// a number between 1/2 and 2. The result is not always the nearest double.
func Log10(x float64) float64 {
	switch {
	case x != x, math.IsInf(x, 1):
		return x
	case x == 0:
		return math.Inf(-1)
	case x < 0:
		return math.NaN() // glibc's has no sign here
	}
	const (
		overLn10 = 4.34294481903251816668e-01
		log2High = 3.01029995663611771306e-01 // log10 of 2, the first bits
		log2Low  = 3.69423907715893078616e-13 // and the other bits
	)
	m, e := math.Frexp(x) // m from 1/2 on
	e--
	m *= 2
	if e < 0 {
		e++
		m /= 2
	}
	n := float64(e)
	low := float64(n * log2Low)
	return float64(low+float64(overLn10*Log(m))) + float64(n*log2High)
}

// Pow returns x to the power of y.
func Pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case x != x && y == y:
		return nanPower(x, y)
	case x != x || y != y:
		return x + y
	case x == 0 || math.IsInf(x, 0) || math.IsInf(y, 0):
		return math.Pow(x, y)
	case y == 1:
		return x
	case y == 2:
		return x * x
	}
	sign := 1.0
	if x < 0 {
		if y != math.Trunc(y) {
			return NaN()
		}
		if math.Mod(y, 2) != 0 {
			sign = -1
		}
		x = -x
	}
	if x == 1 {
		return sign
	}
	l := logPair(x)
	switch product := l.hi * y; {
	case product >= largestExp:
		return sign * math.Inf(1)
	case product <= smallestExp:
		return sign * 0
	}
	return sign * expPair(l.times(y))
}

// nanPower returns the power of a NaN, with the sign that glibc returns.
func nanPower(x, y float64) float64 {
	if math.Signbit(x) && math.Mod(y, 2) != 0 && y == math.Trunc(y) {
		return -x
	}
	return x
}
