package e2e

import (
	"strconv"
	"strings"
)

var hashGenerators = []generator{
	{14, drawHSet},
	{3, func(g *gen) []string { return []string{"HSETNX", g.hash(), g.field(), g.fieldValue()} }},
	{4, func(g *gen) []string { return []string{"HGET", g.hash(), g.field()} }},
	{3, func(g *gen) []string { return append([]string{"HMGET", g.hash()}, g.fields(4)...) }},
	{4, func(g *gen) []string {
		return []string{g.from("HGETALL", "HGETALL", "HKEYS", "HVALS"), g.hash()}
	}},
	{3, func(g *gen) []string { return []string{"HLEN", g.hash()} }},
	{3, func(g *gen) []string {
		return []string{g.from("HSTRLEN", "HEXISTS"), g.hash(), g.field()}
	}},
	{7, func(g *gen) []string { return append([]string{"HDEL", g.hash()}, g.fields(3)...) }},
	{6, func(g *gen) []string { return []string{"HINCRBY", g.hash(), g.field(), g.integer()} }},
	{6, func(g *gen) []string { return []string{"HINCRBYFLOAT", g.hash(), g.field(), g.float()} }},
	{5, drawHRandField},
	{4, drawHScan},
	{6, func(g *gen) []string { return drawOn(g, g.hash) }},
}

var hashValues = []func(key string) []string{
	func(key string) []string { return []string{"HGETALL", key} },
}

// hash draws a key that mostly holds a hash.
func (g *gen) hash() string {
	if g.few || g.chance(12) {
		return g.key()
	}
	return g.from("h", "h", "h", "g")
}

// field draws mostly one of few fields, so that steps use the same fields.
func (g *gen) field() string {
	switch {
	case g.chance(2):
		return strings.Repeat("f", one(g, 63, 64, 65, 300))
	case g.chance(10):
		return g.from("", "f\x00\r\n\xff", "-1", "007", "日本語")
	}
	return g.from("a", "b", "c", "d", "ab", "1")
}

func (g *gen) fields(most int) []string {
	list := make([]string, 1+g.IntN(most))
	for i := range list {
		list[i] = g.field()
	}
	return list
}

// fieldValue draws a mostly short value. Longer ones make a hash a large one.
func (g *gen) fieldValue() string {
	if v := g.value(); g.chance(5) || len(v) < 20 {
		return v
	}
	return g.integer()
}

// drawHSet sets a few fields, or enough to make the hash a large one.
func drawHSet(g *gen) []string {
	args := []string{g.from("HSET", "HSET", "HMSET"), g.hash()}
	if g.chance(3) {
		for i := range one(g, 510, 512, 513, 700) {
			args = append(args, "many"+strconv.Itoa(i), "v")
		}
		return args
	}
	for _, field := range g.fields(4) {
		args = append(args, field, g.fieldValue())
	}
	return args
}

func drawHRandField(g *gen) []string {
	args := []string{"HRANDFIELD", g.hash()}
	if g.chance(80) {
		args = append(args, g.from("1", "2", "3", "1000", "-1", "-5", "0", "x", "1.0", "",
			"4611686018427387904", "-9223372036854775808"))
		if g.chance(50) {
			args = append(args, g.from("WITHVALUES", "withvalues", "WITHVALUES", "BAD"))
		}
	}
	return args
}

func drawHScan(g *gen) []string {
	args := []string{"HSCAN", g.hash(), "0"}
	if g.chance(10) {
		args[2] = g.from("x", "", " 0", "0 ", "1.5", "18446744073709551616", "-")
	}
	var options [][]string
	if g.chance(50) {
		options = append(options, []string{"MATCH", g.from("*", "a*", "?", "many*1", "[ab]", "")})
	}
	if g.chance(50) {
		options = append(options,
			[]string{"COUNT", g.from("1", "2", "5", "1000", "0", "-1", "x", "2147483647")})
	}
	if g.chance(5) {
		options = append(options, []string{g.from("MATCH", "BAD", "TYPE hash")})
	}
	return append(args, g.shuffle(options)...)
}

// drawOn draws a command for keys of any type.
func drawOn(g *gen, key func() string) []string {
	switch g.IntN(6) {
	case 0:
		return []string{"RENAME", key(), key()}
	case 1:
		return []string{"COPY", key(), key(), "REPLACE"}
	case 2:
		return []string{"DEL", key()}
	case 3:
		name, unit := g.relative("PEXPIRE", "PEXPIREAT", true)
		return []string{name, key(), g.time(unit)}
	case 4:
		return []string{"OBJECT", "ENCODING", key()}
	}
	return []string{g.from("PERSIST", "TYPE", "PTTL"), key()}
}

// alikeHash compares replies that list the fields of a hash. It ignores the order, which is
// arbitrary in a large hash and after a hash is read from disk.
func (r *diffRun) alikeHash(p pair, args []string, keyp, redis reply) (bool, error) {
	if keyp.kind != redis.kind || len(keyp.items) != len(redis.items) {
		return false, nil
	}
	if strings.EqualFold(args[0], "HRANDFIELD") {
		return p.areFields(args, keyp, redis)
	}
	large, err := p.redis.do("OBJECT", "ENCODING", args[1])
	if err != nil || large.text != "hashtable" && !r.reloaded {
		return false, err
	}
	size := 1
	if strings.EqualFold(args[0], "HGETALL") {
		size = 2
	}
	return keyp.unordered(size) == redis.unordered(size), nil
}

// areFields returns true if the replies of both servers to HRANDFIELD contain fields of the hash,
// with their values if the command asks for them.
func (p pair) areFields(args []string, keyp, redis reply) (bool, error) {
	for _, side := range []struct {
		*wire
		reply
	}{{p.keyp, keyp}, {p.redis, redis}} {
		for field, value := range drawn(side.reply, len(args) > 3) {
			got, err := side.do("HGET", args[1], field)
			if err != nil || got.null || value != nil && got.text != value.text {
				return false, err
			}
		}
	}
	return true, nil
}

// drawn returns the fields of a reply to HRANDFIELD, with their values if the reply has them.
func drawn(r reply, values bool) map[string]*reply {
	if r.kind == '$' {
		return map[string]*reply{r.text: nil}
	}
	list := map[string]*reply{}
	for i := 0; i < len(r.items); i++ {
		switch item := r.items[i]; {
		case item.kind == '*':
			list[item.items[0].text] = &item.items[1]
		case values:
			i++
			list[item.text] = &r.items[i]
		default:
			list[item.text] = nil
		}
	}
	return list
}
