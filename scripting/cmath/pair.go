package cmath

import "math"

// pair is the unevaluated sum of two doubles: hi is the sum rounded to a double, lo the remainder.
type pair struct{ hi, lo float64 }

// twoSum returns a+b without an error.
func twoSum(a, b float64) pair {
	s := a + b
	t := s - a
	return pair{s, (a - (s - t)) + (b - t)}
}

// fastSum is twoSum for an a that is zero or not smaller in magnitude than b.
func fastSum(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

// twoProduct returns a*b without an error.
func twoProduct(a, b float64) pair {
	p := a * b
	return pair{p, math.FMA(a, b, -p)}
}

func (a pair) add(b pair) pair {
	s, t := twoSum(a.hi, b.hi), twoSum(a.lo, b.lo)
	s = fastSum(s.hi, s.lo+t.hi)
	return fastSum(s.hi, s.lo+t.lo)
}

func (a pair) neg() pair { return pair{-a.hi, -a.lo} }

func (a pair) sub(b pair) pair { return a.add(b.neg()) }

func (a pair) mul(b pair) pair {
	p := twoProduct(a.hi, b.hi)
	return fastSum(p.hi, p.lo+(a.hi*b.lo+a.lo*b.hi))
}

func (a pair) times(b float64) pair {
	p := twoProduct(a.hi, b)
	return fastSum(p.hi, p.lo+a.lo*b)
}

func (a pair) div(b pair) pair {
	q1 := a.hi / b.hi
	r := a.sub(b.times(q1))
	q2 := r.hi / b.hi
	r = r.sub(b.times(q2))
	return fastSum(q1, q2).add(pair{r.hi / b.hi, 0})
}

// scale returns a times a power of two. Both products must be exact.
func (a pair) scale(by float64) pair { return pair{a.hi * by, a.lo * by} }

func (a pair) sqrt() pair {
	if a.hi <= 0 {
		return pair{}
	}
	root := math.Sqrt(a.hi)
	rest := a.sub(twoProduct(root, root))
	return fastSum(root, rest.hi/(2*root))
}

// polynomial returns c[0] + x*(c[1] + x*(…)).
func polynomial(x pair, c []pair) pair {
	sum := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		sum = sum.mul(x).add(c[i])
	}
	return sum
}
