package e2e

import (
	"math"
	"strconv"
)

var listGenerators = []generator{
	{14, func(g *gen) []string { return drawPush(g, g.from("LPUSH", "RPUSH", "RPUSH")) }},
	{3, func(g *gen) []string { return drawPush(g, g.from("LPUSHX", "RPUSHX")) }},
	{7, drawPop},
	{2, func(g *gen) []string { return []string{"LLEN", g.list()} }},
	{4, func(g *gen) []string { return []string{"LRANGE", g.list(), g.index(), g.index()} }},
	{3, func(g *gen) []string { return []string{"LINDEX", g.list(), g.index()} }},
	{4, func(g *gen) []string { return []string{"LSET", g.list(), g.index(), g.element()} }},
	{5, func(g *gen) []string {
		return []string{"LINSERT", g.list(), g.from("BEFORE", "AFTER", "after", "AT"),
			g.element(), g.element()}
	}},
	{4, func(g *gen) []string { return []string{"LREM", g.list(), g.matches(), g.element()} }},
	{3, func(g *gen) []string {
		return []string{"LTRIM", g.list(), g.from("0", "1", g.index()),
			g.from("-1", "-2", g.index())}
	}},
	{6, drawLPos},
	{4, func(g *gen) []string { return []string{"RPOPLPUSH", g.list(), g.list()} }},
	{5, func(g *gen) []string { return []string{"LMOVE", g.list(), g.list(), g.end(), g.end()} }},
	{5, drawLMPop},
}

var listValues = []func(key string) []string{
	func(key string) []string { return []string{"LRANGE", key, "0", "-1"} },
}

// list draws a key that mostly holds a list.
func (g *gen) list() string {
	if g.few || g.chance(15) {
		return g.key()
	}
	return g.from("l", "l", "m")
}

// element draws mostly one of few elements, so that searches find some.
func (g *gen) element() string {
	if g.chance(15) {
		return g.value()
	}
	return g.from("a", "b", "c", "1", "2", "-7")
}

// matches draws the number of equal elements to act on. It leaves out the smallest int64, which
// cannot be negated: Redis 8.0 and later call it out of range.
func (g *gen) matches() string {
	if odd := g.odd(); g.chance(15) && odd != strconv.Itoa(math.MinInt64) {
		return odd
	}
	return g.between(-3, 3)
}

func (g *gen) end() string { return g.from("LEFT", "RIGHT", "LEFT", "RIGHT", "left", "BOTH") }

// drawPush adds a few elements, or enough to make the list a long one.
func drawPush(g *gen, name string) []string {
	args := []string{name, g.list()}
	n := 1 + g.IntN(5)
	if g.chance(5) {
		n = one(g, 127, 128, 129, 600)
	}
	for range n {
		args = append(args, g.element())
	}
	return args
}

func drawPop(g *gen) []string {
	args := []string{g.from("LPOP", "RPOP"), g.list()}
	switch {
	case g.chance(40):
		args = append(args, g.between(0, 4))
	case g.chance(15):
		args = append(args, g.integer())
	}
	return args
}

func drawLPos(g *gen) []string {
	args := []string{"LPOS", g.list(), g.element()}
	var options [][]string
	for _, option := range []string{"RANK", "COUNT", "maxlen"} {
		if g.chance(45) {
			options = append(options, []string{option, g.matches()})
		}
	}
	if g.chance(5) {
		options = append(options, []string{g.from("RANK", "BAD", "COUNT")})
	}
	return append(args, g.shuffle(options)...)
}

func drawLMPop(g *gen) []string {
	args := []string{"LMPOP", ""}
	n := 1 + g.IntN(3)
	for range n {
		args = append(args, g.list())
	}
	args[1] = strconv.Itoa(n)
	if g.chance(10) { // Redis adds to the number without a check
		args[1] = g.from("0", "-1", "x", "", "1", "4", "1.0", strconv.Itoa(math.MaxInt/2))
	}
	args = append(args, g.end())
	if g.chance(50) {
		args = append(args, g.from("COUNT", "count"), g.between(-1, 6))
	}
	if g.chance(5) {
		args = append(args, g.from("COUNT", "BAD"))
	}
	return args
}
