package e2e

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mathFunctions has the functions of the Lua math library with the range of their arguments: any
// number, positive numbers, or numbers between -1 and 1. Some take two arguments, of which the
// second is an exponent or any number.
var mathFunctions = map[string]string{
	"sin": "any", "cos": "any", "tan": "any", "asin": "unit", "acos": "unit",
	"atan": "any", "atan2": "two",
	"sinh": "any", "cosh": "any", "tanh": "any", "exp": "any", "log": "positive",
	"log10": "positive",
	"pow":   "power", "sqrt": "positive", "fmod": "two", "deg": "any", "rad": "any",
	"frexp": "any", "modf": "any",
}

// mathArguments draws numbers that are small, medium, or anywhere up to 2^60.
func mathArguments(rng *rand.Rand, kind string, n int) (x, y []string) {
	wide := func() float64 {
		switch rng.IntN(10) {
		case 0, 1:
			return math.Copysign(math.Exp2(rng.Float64()*120-60), rng.Float64()-0.5)
		case 2, 3, 4:
			return rng.Float64()*1400 - 700
		}
		return rng.Float64()*40 - 20
	}
	for range n {
		a, b := wide(), wide()
		switch kind {
		case "unit":
			a = rng.Float64()*2 - 1
		case "positive":
			a = math.Abs(a)
		case "power":
			a, b = math.Abs(a), rng.Float64()*60-30
		}
		x, y = append(x, strconv.FormatFloat(a, 'g', -1, 64)),
			append(y, strconv.FormatFloat(b, 'g', -1, 64))
	}
	return x, y
}

// TestDiffMath compares the results of the mathematical functions for random arguments. KEYP_MATH
// is the number of arguments for each function (1,000 by default). Some results differ in the last
// digit, see docs/reference/redis.md.
func TestDiffMath(t *testing.T) {
	s := bothServers(t)
	n, portion := 1000, 1000
	if text := os.Getenv("KEYP_MATH"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, name := range slices.Sorted(maps.Keys(mathFunctions)) {
		kind := mathFunctions[name]
		script := "local o, n = {}, #ARGV/2 for i = 1, n do o[i] = string.format('%.17g', (math." +
			name +
			"(tonumber(ARGV[i]), tonumber(ARGV[n+i])))) end return table.concat(o, ' ')"
		different, worst := 0, uint64(0)
		for range n / portion {
			x, y := mathArguments(rng, kind, portion)
			call := append(append([]string{"EVAL", script, "0"}, x...), y...)
			got := strings.Fields(s.mustDo(t, s.keyp, call...).text)
			want := strings.Fields(s.mustDo(t, s.redis, call...).text)
			if len(got) != portion || len(want) != portion {
				t.Fatalf("%s: %d and %d results", name, len(got), len(want))
			}
			for i := range got {
				if got[i] == want[i] {
					continue
				}
				different++
				apart := unitsApart(t, got[i], want[i])
				worst = max(worst, apart)
				if apart > 3 {
					t.Errorf("%s(%s, %s): %s, Redis %s", name, x[i], y[i], got[i], want[i])
				}
			}
		}
		t.Logf("%s: %d of %d differ, by %d units of the last bit at most", name,
			different, n, worst)
		if different > n/100 {
			t.Errorf("%s: %d of %d results differ", name, different, n)
		}
	}
}

// unitsApart returns the difference of two results in units of the last bit. For a NaN, or results
// with different signs, the difference is huge.
func unitsApart(t *testing.T, a, b string) uint64 {
	t.Helper()
	x, err := strconv.ParseFloat(a, 64)
	if err != nil {
		return math.MaxUint64
	}
	y, err := strconv.ParseFloat(b, 64)
	if err != nil || x != x || y != y {
		return math.MaxUint64
	}
	p, q := math.Float64bits(x), math.Float64bits(y)
	return max(p, q) - min(p, q)
}
