package e2e

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// step is one command of a generated case, sent on one of the connections.
type step struct {
	conn int
	args []string // with times still symbolic: see resolve
	wait bool     // a deadline may be a moment away: go on when it has passed
}

// Symbolic times start with a byte that no generated text starts with. When the step is sent, they
// get the same values for both servers.
const symbol = "\x02"

// near is the largest distance, in milliseconds, of a near deadline.
const near = 10

// resolve returns the arguments to send. Durations differ between the steps of a case by far more
// than the delay between the servers, so that GT and LT have the same result on both. The distance
// of near times is multiplied by slack.
func (s step) resolve(index int, now time.Time, slack int64) []string {
	args := make([]string, len(s.args))
	for i, arg := range s.args {
		kind, found := strings.CutPrefix(arg, symbol)
		if !found {
			args[i] = arg
			continue
		}
		kind, by, _ := strings.Cut(kind, " ")
		offset, err := strconv.ParseInt(by, 10, 64)
		if err != nil {
			panic(err) // the generators below write them
		}
		far := 1_000_000 + offset*1000*int64(index+1)
		switch kind {
		case "for-ms":
			args[i] = strconv.FormatInt(far*1000, 10)
		case "for-s":
			args[i] = strconv.FormatInt(far, 10)
		case "at-ms":
			if offset > 0 && offset <= near {
				offset *= slack
			}
			args[i] = strconv.FormatInt(now.UnixMilli()+offset, 10)
		case "at-s":
			args[i] = strconv.FormatInt(now.Unix()+offset, 10)
		}
	}
	return args
}

// soon returns true if an argument is a near time.
func (s step) soon() bool {
	return slices.ContainsFunc(s.args, func(arg string) bool {
		by, found := strings.CutPrefix(arg, symbol+"at-ms ")
		offset, err := strconv.ParseInt(by, 10, 64)
		return found && err == nil && offset > 0 && offset <= near
	})
}

// timeUnit is the unit in which a command counts deadlines.
type timeUnit struct {
	word     string // SET's option
	millis   bool
	absolute bool
}

var timeUnits = []timeUnit{{"EX", false, false}, {"PX", true, false}, {"EXAT", false, true},
	{"PXAT", true, true}}

// gen draws the parts of commands. wait is set once a near deadline is drawn.
type gen struct {
	*rand.Rand
	absolute bool // deadlines are Unix times only, so that both servers have the same ones
	few      bool // all types meet on few keys
	wait     bool
	pool     []generator // nil: all
}

// from draws one of the list.
func (g *gen) from(list ...string) string { return list[g.IntN(len(list))] }

// one draws one of the list.
func one[T any](g *gen, list ...T) T { return list[g.IntN(len(list))] }

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

// between draws a number, both ends included, as text.
func (g *gen) between(low, high int) string { return strconv.Itoa(low + g.IntN(high-low+1)) }

// key draws one of few keys, so that steps use the same keys.
func (g *gen) key() string {
	if g.few {
		return g.from("a", "b", "c")
	}
	return g.from("a", "a", "a", "b", "b", "{a}x", "", "k\x00\r\n\xff",
		"long:"+strings.Repeat("k", 300))
}

func (g *gen) keys(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.key()
	}
	return list
}

// oddNumbers has numbers that parsers treat differently.
var oddNumbers = []string{
	"", " 5", "5 ", "+5", "05", "-0", "00", "0x10", "1e3", "1.0", "5.", ".5", "abc", "nan", "inf",
	"-inf", "1_000", "٣",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
	"18446744073709551615", "18446744073709551616", "99999999999999999999999999", "2147483647",
	"2147483648", "-2147483649",
	"5\x00", "--5", "-", "+",
}

func (g *gen) odd() string { return g.from(oddNumbers...) }

// integer draws mostly a small number.
func (g *gen) integer() string {
	if g.chance(15) {
		return g.odd()
	}
	return g.between(-20, 100)
}

// index draws an offset into a string, sometimes far outside it.
func (g *gen) index() string {
	switch {
	case g.chance(10):
		return g.odd()
	case g.chance(15):
		return g.from("1048575", "1048576", "1048577", "-1048577", "536870911", "536870912",
			"4294967295", "-4294967296")
	}
	return g.between(-12, 12)
}

func (g *gen) float() string {
	switch {
	case g.chance(25):
		return g.odd()
	case g.chance(20):
		return g.from("1e400", "-1e400", "1e4931", "1e4932", "1e-4950", "1e308", "1.7e308", "0.1",
			"3.0e3", "-0.0", "0x1p3", "infinity",
			"123456789012345678901234567890", "0.00000000000000000001", "1.23456789012345678901",
			"5e", "1e+2", "+1.5", " 1.5", "1.5 ")
	}
	return strconv.FormatFloat(2000*g.Float64()-1000, 'f', g.IntN(21), 64)
}

func (g *gen) value() string {
	switch {
	case g.chance(30):
		return g.integer()
	case g.chance(15):
		return g.float()
	case g.chance(10):
		return strings.Repeat("v", one(g, 31, 32, 39, 40, 43, 44, 45, 63, 64, 65, 255, 256, 5000))
	case g.chance(10):
		return g.from("", "\x00", "\r\n", "\xff\xfe", "日本語")
	}
	var b strings.Builder
	for range g.IntN(13) {
		b.WriteByte("abcab "[g.IntN(6)])
	}
	return b.String()
}

func (g *gen) db() string {
	if g.chance(15) {
		return g.from("16", "-1", "x", "", " 1", "01", "2147483648", "99999999999")
	}
	return g.from("0", "0", "1", "1", "9")
}

// time draws a deadline in the unit: far, near, past, or nonsense.
func (g *gen) time(u timeUnit) string {
	if g.chance(12) {
		return g.from("0", "-1", "-100", "-9223372036854775808", "9223372036854775807",
			"9223372036854774807", "x", "", "1.5")
	}
	if u.absolute {
		if g.chance(3) {
			return "9223372036854775" // seconds: the last that fit
		}
		switch {
		case u.millis && g.chance(25):
			g.wait = true
			return symbol + "at-ms " + g.between(1, near)
		case g.chance(20):
			return g.from("1", "1000000000", symbol+"at-s -10")
		case u.millis:
			return symbol + "at-ms " + g.between(100_000, 10_000_000)
		}
		return symbol + "at-s " + g.between(100, 10_000)
	}
	if u.millis && g.chance(25) {
		g.wait = true
		return g.between(1, near)
	}
	kind := "for-s "
	if u.millis {
		kind = "for-ms "
	}
	return symbol + kind + g.from("1", "-1")
}

// unit draws a unit that the case allows.
func (g *gen) unit() timeUnit {
	if g.absolute {
		return one(g, timeUnits[2:]...)
	}
	return one(g, timeUnits...)
}

// relative returns a command with a relative time, or its form with an absolute time if the case
// uses only Unix times.
func (g *gen) relative(relative, absolute string, millis bool) (string, timeUnit) {
	if g.absolute {
		return absolute, timeUnit{millis: millis, absolute: true}
	}
	return relative, timeUnit{millis: millis}
}

func (g *gen) pattern() string {
	return g.from("*", "a", "?", "??", "[ab]", "[^a]", "[a-c]*", `\a`, `\*`, "[", "[a", "a*", "*x",
		"{a}*", "k*", "**a**", "", "[]a]", "[z-a]", "*\xff", "long:*k*k*k*", "x*")
}

// command draws a command.
func (g *gen) command() []string {
	pool := generators
	switch {
	case g.pool != nil:
		pool = g.pool
	case g.few:
		pool = mixedGenerators
	}
	var total int
	for _, c := range pool {
		total += c.weight
	}
	n := g.IntN(total)
	for _, c := range pool {
		if n -= c.weight; n < 0 {
			return g.disturb(c.draw(g))
		}
	}
	panic("the weights do not add up")
}

// disturb sometimes makes a command invalid, or changes only its spelling.
func (g *gen) disturb(args []string) []string {
	if g.chance(15) {
		args[0] = mixedCase(args[0])
	}
	if !g.chance(8) || len(args) < 2 {
		return args
	}
	at := 1 + g.IntN(len(args)-1)
	switch g.IntN(4) {
	case 0: // one too few
		return append(args[:at:at], args[at+1:]...)
	case 1: // one twice
		return append(args[:at:at], args[at-1:]...)
	case 2: // one too many
		return append(args, g.from("", "NX", "x", "GET", "1", "MATCH"))
	}
	args[at] = mixedCase(args[at])
	return args
}

// mixedCase changes the case of every second letter.
func mixedCase(word string) string {
	if strings.HasPrefix(word, symbol) {
		return word
	}
	b := []byte(word)
	for i := range b {
		if lower := b[i] | 0x20; i%2 == 0 && lower >= 'a' && lower <= 'z' {
			b[i] ^= 0x20
		}
	}
	return string(b)
}
