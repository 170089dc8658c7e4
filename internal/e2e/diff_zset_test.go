package e2e

import (
	"slices"
	"strconv"
	"strings"
)

var zsetGenerators = []generator{
	{16, drawZAdd},
	{5, func(g *gen) []string { return []string{"ZINCRBY", g.zset(), g.score(), g.zmember()} }},
	{3, func(g *gen) []string {
		return []string{"SADD", g.from("z", "y", "sz"), g.from("1", "5"), g.from("5", "-1")}
	}},
	{6, func(g *gen) []string { return append([]string{"ZREM", g.anyZSet()}, g.zmembers(3)...) }},
	{3, func(g *gen) []string { return []string{"ZCARD", g.anyZSet()} }},
	{5, func(g *gen) []string {
		return []string{g.from("ZSCORE", "ZRANK", "ZREVRANK"), g.anyZSet(), g.zmember()}
	}},
	{3, func(g *gen) []string {
		return append([]string{"ZMSCORE", g.anyZSet()}, g.zmembers(4)...)
	}},
	{4, func(g *gen) []string { return []string{"ZCOUNT", g.zset(), g.scoreEnd(), g.scoreEnd()} }},
	{4, func(g *gen) []string { return []string{"ZLEXCOUNT", g.lexSet(), g.lexEnd(), g.lexEnd()} }},
	{10, drawZRange},
	{8, drawOldZRange},
	{6, drawZRangeStore},
	{3, func(g *gen) []string {
		return []string{"ZREMRANGEBYRANK", g.anyZSet(), g.rank(), g.rank()}
	}},
	{3, func(g *gen) []string {
		return []string{"ZREMRANGEBYSCORE", g.zset(), g.scoreEnd(), g.scoreEnd()}
	}},
	{3, func(g *gen) []string {
		return []string{"ZREMRANGEBYLEX", g.lexSet(), g.lexEnd(), g.lexEnd()}
	}},
	{5, drawZPop},
	{4, drawZMPop},
	{10, drawZCombine},
	{3, drawZInterCard},
	{4, drawZRandMember},
	{3, func(g *gen) []string {
		return append([]string{"ZSCAN", g.anyZSet()}, drawScan(g)[1:]...)
	}},
	{6, drawOnZSet},
}

var zsetValues = []func(key string) []string{
	func(key string) []string { return []string{"ZRANGE", key, "0", "-1", "WITHSCORES"} },
}

// zset draws a key that mostly holds a sorted set with arbitrary scores.
func (g *gen) zset() string {
	if g.chance(12) {
		return g.key()
	}
	return g.from("z", "z", "z", "y", "sz")
}

// lexSet draws a key whose members all have the score 0. With other scores Redis does not define
// the result of a range by bytes.
func (g *gen) lexSet() string { return g.from("lex", "lex", "lex2", "h", "none") }

func (g *gen) anyZSet() string {
	if g.chance(30) {
		return g.from("lex", "lex2")
	}
	return g.zset()
}

func (g *gen) zmember() string {
	switch {
	case g.chance(2):
		return strings.Repeat("m", one(g, 63, 64, 65, 300))
	case g.chance(10):
		return g.from("", "m\x00\r\n\xff", "-1", "007", "日本語", "5")
	}
	return g.from("a", "b", "c", "d", "e", "ab", "abc", "B", "1")
}

func (g *gen) zmembers(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.zmember()
	}
	return list
}

func (g *gen) score() string {
	switch {
	case g.chance(8):
		return g.odd()
	case g.chance(8):
		return g.float()
	case g.chance(8):
		return g.from("inf", "-inf", "+inf", "0.1", "1e-400", "1e-320", "0x1F", "1e17", "-1e17",
			"1700000000.123456")
	}
	return g.between(-3, 5)
}

func (g *gen) scoreEnd() string {
	text := g.score()
	if g.chance(20) {
		text = g.from("-inf", "+inf")
	}
	if g.chance(25) {
		return "(" + text
	}
	return text
}

func (g *gen) lexEnd() string {
	switch {
	case g.chance(40):
		return g.from("-", "+")
	case g.chance(8):
		return g.from("", "a", "-a", "+\x00", "[", "(", "*")
	}
	return g.from("[", "(") + g.zmember()
}

func (g *gen) rank() string {
	if g.chance(8) {
		return g.odd()
	}
	return g.between(-6, 6)
}

// drawZAdd adds a few members, or enough to make the sorted set a large one.
func drawZAdd(g *gen) []string {
	if g.chance(30) {
		args := []string{"ZADD", g.from("lex", "lex2")}
		for _, member := range g.zmembers(5) {
			args = append(args, "0", member)
		}
		return args
	}
	args := []string{"ZADD", g.zset()}
	if g.chance(3) {
		for i := range one(g, 126, 128, 129, 200) {
			args = append(args, strconv.Itoa(i%50), "many"+strconv.Itoa(i))
		}
		return args
	}
	for _, option := range []string{"NX", "XX", "GT", "LT", "CH", "incr"} {
		if g.chance(14) {
			args = append(args, option)
		}
	}
	for _, member := range g.zmembers(4) {
		args = append(args, g.score(), member)
		if g.chance(40) {
			break
		}
	}
	return args
}

// by draws the kind of a range in ZRANGE, and its ends.
func (g *gen) by() (low, high string, option []string, key string) {
	switch g.IntN(3) {
	case 0:
		return g.rank(), g.rank(), nil, g.anyZSet()
	case 1:
		return g.scoreEnd(), g.scoreEnd(), []string{"BYSCORE"}, g.zset()
	}
	return g.lexEnd(), g.lexEnd(), []string{g.from("BYLEX", "bylex")}, g.lexSet()
}

func (g *gen) zlimit() []string { return []string{"LIMIT", g.rank(), g.rank()} }

func drawZRange(g *gen) []string {
	low, high, by, key := g.by()
	options := [][]string{by}
	if g.chance(40) {
		options = append(options, []string{"REV"})
	}
	if g.chance(30) {
		options = append(options, g.zlimit())
	}
	if g.chance(50) {
		options = append(options, []string{"WITHSCORES"})
	}
	if g.chance(4) {
		options = append(options, []string{g.from("REV", "LIMIT", "BYSCORE", "BAD")})
	}
	return append([]string{"ZRANGE", key, low, high}, g.shuffle(options)...)
}

func drawOldZRange(g *gen) []string {
	var options [][]string
	if g.chance(40) {
		options = append(options, []string{"withscores"})
	}
	if g.chance(40) {
		options = append(options, g.zlimit())
	}
	if g.chance(4) {
		options = append(options, []string{g.from("REV", "BYSCORE", "BYLEX")})
	}
	words := g.shuffle(options)
	switch g.IntN(3) {
	case 0:
		return append([]string{"ZREVRANGE", g.anyZSet(), g.rank(), g.rank()}, words...)
	case 1:
		return append([]string{g.from("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), g.zset(), g.scoreEnd(),
			g.scoreEnd()}, words...)
	}
	return append([]string{g.from("ZRANGEBYLEX", "ZREVRANGEBYLEX"), g.lexSet(), g.lexEnd(),
		g.lexEnd()}, words...)
}

func drawZRangeStore(g *gen) []string {
	low, high, by, key := g.by()
	options := [][]string{by}
	if g.chance(30) {
		options = append(options, []string{"REV"})
	}
	if g.chance(30) {
		options = append(options, g.zlimit())
	}
	if g.chance(3) {
		options = append(options, []string{"WITHSCORES"})
	}
	return append([]string{"ZRANGESTORE", g.zset(), key, low, high}, g.shuffle(options)...)
}

func drawZPop(g *gen) []string {
	args := []string{g.from("ZPOPMIN", "ZPOPMAX"), g.anyZSet()}
	if g.chance(60) {
		args = append(args, g.from("0", "1", "2", "5", "1000", "-1", "x", ""))
	}
	return args
}

// counted draws keys, preceded by their number. The number is sometimes wrong.
func (g *gen) counted() []string {
	keys := make([]string, 1+g.IntN(3))
	for i := range keys {
		keys[i] = g.anyZSet()
	}
	n := strconv.Itoa(len(keys))
	if g.chance(6) {
		n = g.from("0", "-1", "x", "4", "100", "9223372036854775807")
	}
	return append([]string{n}, keys...)
}

func drawZMPop(g *gen) []string {
	args := append(append([]string{"ZMPOP"}, g.counted()...), g.from("MIN", "MAX", "min", "BAD"))
	if g.chance(50) {
		args = append(args, "COUNT", g.from("1", "2", "10", "0", "-1", "x"))
	}
	return args
}

func drawZCombine(g *gen) []string {
	args := []string{g.from("ZUNION", "ZINTER", "ZDIFF")}
	if g.chance(50) {
		args = []string{args[0] + "STORE", g.zset()}
	}
	keys := g.counted()
	var options [][]string
	if g.chance(35) {
		weights := []string{"WEIGHTS"}
		for range keys[1:] {
			weights = append(weights, g.score())
		}
		options = append(options, weights)
	}
	if g.chance(35) {
		options = append(options, []string{"AGGREGATE", g.from("SUM", "MIN", "MAX", "max", "AVG")})
	}
	if g.chance(35) {
		options = append(options, []string{"WITHSCORES"})
	}
	return slices.Concat(args, keys, g.shuffle(options))
}

func drawZInterCard(g *gen) []string {
	args := append([]string{"ZINTERCARD"}, g.counted()...)
	if g.chance(40) {
		args = append(args, "LIMIT", g.from("0", "1", "2", "100", "-1", "x"))
	}
	return args
}

func drawZRandMember(g *gen) []string {
	args := []string{"ZRANDMEMBER", g.anyZSet()}
	if g.chance(80) {
		args = append(args, g.from("1", "2", "3", "1000", "-1", "-5", "0", "x", "1.0", "",
			"4611686018427387904", "-9223372036854775808"))
		if g.chance(50) {
			args = append(args, g.from("WITHSCORES", "withscores", "BAD"))
		}
	}
	return args
}

// drawOnZSet draws a command for keys of any type.
func drawOnZSet(g *gen) []string {
	switch g.IntN(6) {
	case 0:
		return []string{"RENAME", g.zset(), g.zset()}
	case 1:
		return []string{"COPY", g.anyZSet(), g.zset(), "REPLACE"}
	case 2:
		return []string{"DEL", g.anyZSet()}
	case 3:
		name, unit := g.relative("PEXPIRE", "PEXPIREAT", true)
		return []string{name, g.anyZSet(), g.time(unit)}
	case 4:
		return []string{"OBJECT", "ENCODING", g.anyZSet()}
	}
	return []string{g.from("PERSIST", "TYPE", "PTTL"), g.anyZSet()}
}

// alikeZSet compares replies with scores, which redis-server 7.0.15 writes with 17 digits. ZSCAN
// returns members in arbitrary order, and ZRANDMEMBER arbitrary members.
func (p pair) alikeZSet(args []string, keyp, redis reply) (bool, error) {
	switch strings.ToUpper(args[0]) {
	case "ZSCAN":
		ours, theirs := drawn(keyp, true), drawn(redis, true)
		for member, score := range ours {
			if other := theirs[member]; other == nil || !sameNumbers(*score, *other) {
				return false, nil
			}
		}
		return len(ours) == len(theirs), nil
	case "ZRANDMEMBER":
		return p.areScored(args, keyp, redis)
	}
	return sameNumbers(keyp, redis), nil
}

// sameNumbers returns true if replies are the same except for the notation of their numbers.
func sameNumbers(a, b reply) bool {
	if a.kind != b.kind || a.null != b.null || !slices.EqualFunc(a.items, b.items, sameNumbers) {
		return false
	}
	if a.text == b.text || a.items != nil {
		return true
	}
	x, err := strconv.ParseFloat(a.text, 64)
	y, otherErr := strconv.ParseFloat(b.text, 64)
	return (a.kind == '$' || a.kind == ',') && err == nil && otherErr == nil && x == y
}

// areScored returns true if the replies of both servers to ZRANDMEMBER have the same number of
// members of the sorted set. Scores must be right if the command asks for them, and members must be
// different unless the count is negative.
func (p pair) areScored(args []string, keyp, redis reply) (bool, error) {
	if keyp.kind != redis.kind || len(keyp.items) != len(redis.items) {
		return false, nil
	}
	ours, theirs := drawn(keyp, len(args) > 3), drawn(redis, len(args) > 3)
	if len(args) > 2 && !strings.HasPrefix(args[2], "-") && len(ours) != len(theirs) {
		return false, nil
	}
	for _, side := range []struct {
		*wire
		members map[string]*reply
	}{{p.keyp, ours}, {p.redis, theirs}} {
		for member, score := range side.members {
			got, err := side.do("ZSCORE", args[1], member)
			if err != nil || got.null || score != nil && got.text != score.text {
				return false, err
			}
		}
	}
	return true, nil
}
