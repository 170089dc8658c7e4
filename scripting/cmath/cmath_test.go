package cmath

import (
	"math"
	"strconv"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestAsGlibc: the functions return the same results as glibc 2.36 on x86-64, to the last digit.
func TestAsGlibc(t *testing.T) {
	one := map[string]func(float64) float64{
		"exp": Exp, "log": Log, "log10": Log10, "sin": Sin, "cos": Cos, "tan": Tan, "asin": Asin,
		"acos": Acos, "atan": Atan,
		"sinh": Sinh, "cosh": Cosh, "tanh": Tanh, "sqrt": Sqrt,
	}
	two := map[string]func(a, b float64) float64{"pow": Pow, "fmod": Mod, "atan2": Atan2}
	for _, tt := range []struct {
		name string
		x, y float64
		want string
	}{
		{"sin", -2126415656506.4531, 0, "0.0012127774993768454"},
		{"cos", 311436833956292.25, 0, "-0.00020543925634993983"},
		{"tan", 21421798284627.81, 0, "-5.7028570511048239e-06"},
		{"sinh", -0.44461935795729346, 0, "-0.45941403678367515"},
		{"tanh", -0.5238613749854473, 0, "-0.48067472991563037"},
		{"acos", 0.5, 0, "1.0471975511965979"},
		{"acos", -0.10000000000000001, 0, "1.6709637479564565"},
		{"acos", 0.999, 0, "0.044725087168733454"},
		{"asin", 0.5, 0, "0.52359877559829893"},
		{"asin", -0.10000000000000001, 0, "-0.1001674211615598"},
		{"asin", 0.999, 0, "1.5260712396261631"},
		{"atan", 0.5, 0, "0.46364760900080609"},
		{"atan", -30, 0, "-1.5374753309166493"},
		{"atan", 100000000, 0, "1.5707963167948966"},
		{"atan2", 1, 2, "0.46364760900080609"},
		{"atan2", -1, -3, "-2.819842099193151"},
		{"atan2", 0, -1, "3.1415926535897931"},
		{"cos", 1, 0, "0.54030230586813977"},
		{"cos", 3, 0, "-0.98999249660044542"},
		{"cos", 100000, 0, "-0.99936080743821243"},
		{"cos", -0.69999999999999996, 0, "0.7648421872844885"},
		{"cosh", 0.10000000000000001, 0, "1.0050041680558035"},
		{"cosh", 2, 0, "3.7621956910836314"},
		{"cosh", -30, 0, "5343237290762.2314"},
		{"exp", 1, 0, "2.7182818284590451"},
		{"exp", -0.29999999999999999, 0, "0.74081822068171788"},
		{"exp", 20.5, 0, "799902177.47550535"},
		{"exp", -700.25, 0, "7.6787238131108719e-305"},
		{"exp", 709.70000000000005, 0, "1.6549840276802644e+308"},
		{"fmod", 5.5, 2, "1.5"},
		{"fmod", -7, 3, "-1"},
		{"fmod", 1, 0, "-nan"},
		{"log", 2, 0, "0.69314718055994529"},
		{"log", 10, 0, "2.3025850929940459"},
		{"log", 0.10000000000000001, 0, "-2.3025850929940455"},
		{"log", 1.0000001000000001, 0, "9.9999995058387044e-08"},
		{"log", 12345.678, 0, "9.4210613212918322"},
		{"log10", 1000, 0, "3"},
		{"log10", 1000000000000000, 0, "15"},
		{"log10", 1.0000000000000001e-05, 0, "-5"},
		{"log10", 2, 0, "0.3010299956639812"},
		{"log10", 123.456, 0, "2.0915122016277716"},
		{"pow", 2, 0.5, "1.4142135623730951"},
		{"pow", 10, -3, "0.001"},
		{"pow", 1.1000000000000001, 100, "13780.612339822381"},
		{"pow", -2, 3, "-8"},
		{"pow", -8, 0.33333333333333331, "-nan"},
		{"pow", 2, -1074, "4.9406564584124654e-324"},
		{"pow", 7, 200, "1.0461838291314358e+169"},
		{"sin", 1, 0, "0.8414709848078965"},
		{"sin", 3, 0, "0.14112000805986721"},
		{"sin", 100000, 0, "0.035748797972016508"},
		{"sin", -0.69999999999999996, 0, "-0.64421768723769102"},
		{"sinh", 0.5, 0, "0.52109530549374738"},
		{"sinh", -3, 0, "-10.017874927409903"},
		{"sinh", 30, 0, "5343237290762.2314"},
		{"sqrt", 2, 0, "1.4142135623730951"},
		{"sqrt", -1, 0, "-nan"},
		{"sqrt", 1.0000000000000001e+300, 0, "9.9999999999999998e+149"},
		{"tan", 1, 0, "1.5574077246549023"},
		{"tan", -2.5, 0, "0.74702229723866032"},
		{"tan", 100, 0, "-0.58721391515692911"},
		{"tanh", 0.10000000000000001, 0, "0.099667994624955819"},
		{"tanh", -0.69999999999999996, 0, "-0.60436777711716361"},
		{"tanh", 3, 0, "0.99505475368673046"},
	} {
		var got float64
		if fn := one[tt.name]; fn != nil {
			got = fn(tt.x)
		} else {
			got = two[tt.name](tt.x, tt.y)
		}
		text := strconv.FormatFloat(got, 'g', 17, 64)
		if want, err := strconv.ParseFloat(tt.want, 64); err == nil {
			if got != want {
				t.Errorf("%s(%v, %v) is %s, want %s", tt.name, tt.x, tt.y, text, tt.want)
			}
		} else if tt.want != "-nan" || !math.IsNaN(got) || !math.Signbit(got) {
			t.Errorf("%s(%v, %v) is %s, want %s", tt.name, tt.x, tt.y, text, tt.want)
		}
	}
}

// TestSpecial tests infinities, NaN and other special numbers.
func TestSpecial(t *testing.T) {
	inf := math.Inf(1)
	for i, tt := range []struct{ got, want float64 }{
		{Exp(inf), inf}, {Exp(-inf), 0}, {Exp(1000), inf}, {Exp(-1000), 0}, {Exp(-745.1), 5e-324},
		{Exp(-709), 1.216780750623423e-308},
		{Log(0), -inf}, {Log(inf), inf}, {Log(1), 0}, {Log(5e-324), -744.4400719213812},
		{Log10(0), -inf},
		{Pow(0, 0), 1}, {Pow(math.NaN(), 0), 1}, {Pow(1, math.NaN()), 1}, {Pow(-1, inf), 1},
		{Pow(0.5, inf), 0}, {Pow(2, inf), inf},
		{Pow(0, -1), inf}, {Pow(-2, 2), 4}, {Pow(2, 10000), inf}, {Pow(-2, 10001), -inf},
		{Pow(2, -10000), 0}, {Pow(1e-300, 1.05), 1e-315},
		{Sinh(1000), inf}, {Cosh(-1000), inf}, {Tanh(1000), 1}, {Tanh(-1000), -1},
		{Sinh(710.2), 1.3643036845527107e+308},
		{Asin(1), math.Pi / 2}, {Acos(1), 0}, {Acos(-1), math.Pi}, {Atan(inf), math.Pi / 2},
		{Atan2(inf, inf), math.Pi / 4},
		{Mod(5, inf), 5},
	} {
		if tt.got != tt.want {
			t.Errorf("%d: %v, want %v", i, tt.got, tt.want)
		}
	}
	for i, got := range []float64{Log(-1), Pow(-8, 0.5), Sin(inf), Cos(-inf), Tan(inf), Mod(inf, 1),
		Asin(2), Log10(-1), Sqrt(-1)} {
		if !math.IsNaN(got) {
			t.Errorf("%d: %v is a number", i, got)
		}
	}
}

func BenchmarkPow(b *testing.B) {
	sum := 0.0
	for i := range b.N {
		sum += Pow(1.0001, float64(i%1000)+0.5)
	}
	if sum == 0 {
		b.Fatal("nothing")
	}
}
