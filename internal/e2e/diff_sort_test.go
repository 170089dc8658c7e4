package e2e

import (
	"slices"
	"strings"
)

// Keys for SORT: "n" is a list, "ns" a set and "nz" a sorted set of few numbers. "w_…" and "h_…"
// are the keys to which their elements lead. No value contains numbers that versions of Redis read
// differently, so that stored results are the same.
var sortGenerators = []generator{
	{5, func(g *gen) []string { return append([]string{"RPUSH", "n"}, g.numbers()...) }},
	{2, func(g *gen) []string { return append([]string{"SADD", "ns"}, g.numbers()...) }},
	{2, func(g *gen) []string { return []string{"ZADD", "nz", g.between(1, 100000), g.number()} }},
	{5, func(g *gen) []string { return []string{"SET", "w_" + g.number(), g.number()} }},
	{4, func(g *gen) []string { return []string{"HSET", "h_" + g.number(), "f", g.number()} }},
	{1, func(g *gen) []string {
		return []string{"DEL", g.from("n", "ns", "nz", "w_1", "w_2", "h_1", "h_2")}
	}},
	{12, drawSort},
}

func (g *gen) number() string {
	if g.chance(2) {
		return g.from("x", "1e400", "1,5", "")
	}
	return g.from("1", "2", "3", "4", "10", "-1", "-20", "1.5", "1.0", "1e2", "-inf")
}

func (g *gen) numbers() []string {
	list := make([]string, 1+g.IntN(5))
	for i := range list {
		list[i] = g.number()
	}
	return list
}

func drawSort(g *gen) []string {
	source := g.from("n", "n", "n", "ns", "nz", "w_1", "h_1", "nosuch")
	args := []string{g.from("SORT", "SORT", "SORT_RO"), source}
	var options [][]string
	alpha, by := g.chance(30), ""
	if alpha {
		options = append(options, []string{g.from("ALPHA", "alpha")})
	}
	if g.chance(60) {
		by = g.from("w_*", "h_*->f", "w_*", "h_*->f", "nosort", "#", "*", "h_*->", "h_*",
			"w_*->f", "none_*")
		options = append(options, []string{g.from("BY", "by"), by})
	}
	if g.chance(40) {
		options = append(options, []string{g.from("ASC", "DESC", "desc")})
	}
	for range one(g, 0, 0, 1, 2) {
		options = append(options,
			[]string{"GET", g.from("#", "w_*", "h_*->f", "*", "w_1", "h_*->none", "h_*")})
	}
	// A result without a defined order cannot be compared if it is cut or stored.
	if !alpha && source != "ns" || by == "" {
		if g.chance(40) {
			options = append(options, []string{"LIMIT", g.from("0", "1", "2", "-1", "x",
				"9223372036854775807"), g.from("0", "1", "3", "-1", "-7", "100", "")})
		}
		if g.chance(25) {
			options = append(options, []string{"STORE", g.from("n", "stored", g.list())})
		}
	}
	if g.chance(5) {
		options = append(options, []string{g.from("LIMIT", "BY", "GET", "STORE", "BAD", "NX")})
	}
	return append(args, g.shuffle(options)...)
}

// alikeSort compares results whose order is not defined: those of elements that are equal in an
// ALPHA BY, and those of an unsorted set.
func alikeSort(args []string, keyp, redis reply) bool {
	has := func(word string) bool {
		return slices.ContainsFunc(args, func(arg string) bool {
			return strings.EqualFold(arg, word)
		})
	}
	open := has("BY") && (has("ALPHA") || args[1] == "ns")
	return open && keyp.kind == '*' && keyp.unordered(1) == redis.unordered(1)
}
