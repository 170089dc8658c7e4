package e2e

import "slices"

// generator draws a command. Keyp and Redis both run it, and their replies are compared. A
// generator with more weight is used more often, in particular for writes that leave data for other
// commands.
type generator struct {
	weight int
	draw   func(g *gen) []string
}

// generators has the generators of all families.
var generators = slices.Concat(keyGenerators, bitmapGenerators, hllGenerators, listGenerators,
	sortGenerators, hashGenerators, setGenerators, zsetGenerators, geoGenerators, streamGenerators)

// wholeValues has functions that return the commands by which all values are compared at the end.
var wholeValues = slices.Concat(stringValues, listValues, hashValues, setValues,
	zsetValues, streamValues)

var stringValues = []func(key string) []string{
	func(key string) []string { return []string{"GET", key} },
}

// keyGenerators draw commands for strings and for keys of any type.
var keyGenerators = []generator{
	{20, drawSet},
	{8, func(g *gen) []string { return []string{"GET", g.key()} }},
	{3, func(g *gen) []string { return []string{"GETSET", g.key(), g.value()} }},
	{3, func(g *gen) []string { return []string{"GETDEL", g.key()} }},
	{5, drawGetEx},
	{3, func(g *gen) []string { return append([]string{"MGET"}, g.keys(4)...) }},
	{3, func(g *gen) []string { return drawPairs(g, "MSET") }},
	{2, func(g *gen) []string { return drawPairs(g, "MSETNX") }},
	{4, func(g *gen) []string {
		name, unit := g.relative("SETEX", "SETEX", false)
		return []string{name, g.key(), g.setex(unit), g.value()}
	}},
	{4, func(g *gen) []string {
		name, unit := g.relative("PSETEX", "PSETEX", true)
		return []string{name, g.key(), g.setex(unit), g.value()}
	}},
	{3, func(g *gen) []string { return []string{"SETNX", g.key(), g.value()} }},
	{4, func(g *gen) []string { return []string{g.from("INCR", "DECR"), g.key()} }},
	{5, func(g *gen) []string {
		return []string{g.from("INCRBY", "DECRBY"), g.key(), g.integer()}
	}},
	{6, func(g *gen) []string { return []string{"INCRBYFLOAT", g.key(), g.float()} }},
	{5, drawAppend},
	{2, func(g *gen) []string { return []string{"STRLEN", g.key()} }},
	{5, func(g *gen) []string {
		return []string{g.from("GETRANGE", "SUBSTR"), g.key(), g.index(), g.index()}
	}},
	{4, func(g *gen) []string { return []string{"SETRANGE", g.key(), g.index(), g.value()} }},
	{4, drawLCS},

	{4, func(g *gen) []string { return append([]string{g.from("DEL", "UNLINK")}, g.keys(3)...) }},
	{4, func(g *gen) []string { return append([]string{g.from("EXISTS", "TOUCH")}, g.keys(3)...) }},
	{2, func(g *gen) []string { return []string{"TYPE", g.key()} }},
	{3, func(g *gen) []string { return []string{"KEYS", g.pattern()} }},
	{5, drawScan},
	{1, func(g *gen) []string { return []string{"RANDOMKEY"} }},
	{4, func(g *gen) []string { return []string{g.from("RENAME", "RENAMENX"), g.key(), g.key()} }},
	{4, drawCopy},
	{4, func(g *gen) []string { return []string{"MOVE", g.key(), g.db()} }},
	{2, func(g *gen) []string { return []string{"SWAPDB", g.db(), g.db()} }},
	{2, func(g *gen) []string { return []string{"DBSIZE"} }},
	{1, func(g *gen) []string {
		return append([]string{g.from("FLUSHDB", "FLUSHALL")},
			one(g, [][]string{{}, {"SYNC"}, {"ASYNC"}, {"async"}, {"x"}}...)...)
	}},
	{7, func(g *gen) []string {
		return []string{"OBJECT", g.from("ENCODING", "ENCODING", "encoding", "IDLETIME", "FREQ"),
			g.key()}
	}},
	{3, func(g *gen) []string { return []string{"SELECT", g.db()} }},

	{10, drawExpire},
	{7, func(g *gen) []string {
		return []string{g.from("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"), g.key()}
	}},
	{3, func(g *gen) []string { return []string{"PERSIST", g.key()} }},

	{1, func(g *gen) []string { return []string{"PING", g.value()} }},
	{1, func(g *gen) []string { return []string{"ECHO", g.value()} }},
	{1, func(g *gen) []string {
		// Leave out NUL: 7.0 compares names only up to a NUL, so its reply to "get\x00" depends on
		// how its table of commands happens to be hashed.
		return []string{g.from("NOSUCH", "", "GE", "get\x01", "object nope"), g.value(), g.key()}
	}},
	{1, func(g *gen) []string {
		return append([]string{"COMMAND", "GETKEYS"}, drawSet(g)...)
	}},
}

// setex draws a time for a command that has no form with an absolute time. In cases that use only
// Unix times, it draws a time that is refused.
func (g *gen) setex(unit timeUnit) string {
	if unit.absolute {
		return g.from("0", "-1", "x", "9223372036854775807")
	}
	return g.time(unit)
}

func drawSet(g *gen) []string {
	args := []string{"SET", g.key(), g.value()}
	var options [][]string
	if g.chance(45) {
		u := g.unit()
		options = append(options, []string{u.word, g.time(u)})
	}
	if g.chance(10) {
		options = append(options, []string{"KEEPTTL"})
	}
	if g.chance(30) {
		options = append(options, []string{g.from("NX", "XX", "nx")})
	}
	if g.chance(25) {
		options = append(options, []string{g.from("GET", "get")})
	}
	if g.chance(5) {
		options = append(options, []string{g.from("NX", "XX", "BAD", "EX", "PX 5", "PERSIST")})
	}
	return append(args, g.shuffle(options)...)
}

// drawAppend appends a text that is not empty. An empty one changes nothing in Keyp, but Redis then
// shows OBJECT ENCODING raw.
func drawAppend(g *gen) []string {
	value := g.value()
	if value == "" {
		value = "x"
	}
	return []string{"APPEND", g.key(), value}
}

// shuffle returns the words of the options, with the options in random order.
func (g *gen) shuffle(options [][]string) []string {
	var words []string
	g.Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
	for _, option := range options {
		words = append(words, option...)
	}
	return words
}

func drawGetEx(g *gen) []string {
	args := []string{"GETEX", g.key()}
	var options [][]string
	if g.chance(60) {
		u := g.unit()
		options = append(options, []string{u.word, g.time(u)})
	}
	if g.chance(25) {
		options = append(options, []string{g.from("PERSIST", "persist", "KEEPTTL", "NX")})
	}
	return append(args, g.shuffle(options)...)
}

func drawPairs(g *gen, name string) []string {
	args := []string{name}
	for _, key := range g.keys(4) {
		args = append(args, key, g.value())
	}
	return args
}

func drawLCS(g *gen) []string {
	args := []string{"LCS", g.key(), g.key()}
	var options [][]string
	if g.chance(40) {
		options = append(options, []string{"IDX"})
	}
	if g.chance(25) {
		options = append(options, []string{g.from("LEN", "len")})
	}
	if g.chance(30) {
		options = append(options, []string{"MINMATCHLEN", g.integer()})
	}
	if g.chance(30) {
		options = append(options, []string{"WITHMATCHLEN"})
	}
	return append(args, g.shuffle(options)...)
}

func drawScan(g *gen) []string {
	args := []string{"SCAN", "0"}
	if g.chance(10) {
		args[1] = g.from("x", "", " 0", "0 ", "1.5", "18446744073709551616", "-")
	}
	var options [][]string
	if g.chance(50) {
		options = append(options, []string{"MATCH", g.pattern()})
	}
	if g.chance(50) {
		options = append(options,
			[]string{"COUNT", g.from("1", "2", "5", "1000", "0", "-1", "x", "2147483647")})
	}
	if g.chance(30) {
		options = append(options, []string{"TYPE", g.from("string", "STRING", "hash", "list")})
	}
	if g.chance(5) {
		options = append(options, []string{g.from("MATCH", "BAD")})
	}
	return append(args, g.shuffle(options)...)
}

func drawCopy(g *gen) []string {
	args := []string{"COPY", g.key(), g.key()}
	var options [][]string
	if g.chance(50) {
		options = append(options, []string{g.from("DB", "db"), g.db()})
	}
	if g.chance(50) {
		options = append(options, []string{g.from("REPLACE", "replace")})
	}
	if g.chance(5) {
		options = append(options, []string{g.from("DB", "BAD", "ASYNC")})
	}
	return append(args, g.shuffle(options)...)
}

func drawExpire(g *gen) []string {
	millis := g.chance(60)
	name, unit := g.relative("EXPIRE", "EXPIREAT", millis)
	if g.chance(40) {
		name, unit.absolute = "EXPIREAT", true
	}
	if millis {
		name = "P" + name
	}
	args := []string{name, g.key(), g.time(unit)}
	for range one(g, 0, 0, 1, 1, 1, 2, 3) {
		args = append(args, g.from("NX", "XX", "GT", "LT", "gt", "lt", "nx", "xx", "BAD"))
	}
	return args
}
