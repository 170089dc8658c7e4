package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// mixedGenerators has the generators of all families and some more, for cases in which all types
// are used on few keys. Commands of one type meet keys of another type. SET, RENAME, COPY and DEL
// change types. Values exceed limits, which change too.
var mixedGenerators = slices.Concat(generators, []generator{
	{30, func(g *gen) []string { return append([]string{"DEL"}, g.keys(2)...) }},
	{8, drawSomeZSet},
	{6, func(g *gen) []string { return append([]string{"ZREM", g.key()}, g.members(3)...) }},
	{5, func(g *gen) []string {
		return []string{"ZRANGE", g.key(), g.index(), g.index(), "WITHSCORES"}
	}},
	{3, func(g *gen) []string {
		return []string{g.from("ZPOPMIN", "ZPOPMAX"), g.key(), g.between(0, 3)}
	}},
	{3, func(g *gen) []string {
		return []string{g.from("ZCARD", "LLEN", "HLEN", "SCARD", "STRLEN"), g.key()}
	}},
	{4, func(g *gen) []string {
		return []string{g.from("ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"), g.key(), "2",
			g.key(), g.key()}
	}},
	{10, func(g *gen) []string { return []string{"OBJECT", "ENCODING", g.key()} }},
	{5, func(g *gen) []string { return []string{"TYPE", g.key()} }},
	{6, drawLimit},
	{5, drawGrowing},
})

// usualLimits resets the limits that drawLimit changes.
var usualLimits = []string{"CONFIG", "SET", "hash-max-listpack-entries", "512",
	"hash-max-listpack-value", "64",
	"zset-max-listpack-entries", "128", "zset-max-listpack-value", "64", "set-max-intset-entries",
	"512", "hll-sparse-max-bytes", "3000"}

func drawSomeZSet(g *gen) []string {
	args := []string{"ZADD", g.key()}
	for _, m := range g.members(5) {
		args = append(args, g.between(-3, 3), m)
	}
	return args
}

// Each of lowLimits is higher than the number of elements in a short command. Newer versions judge
// a new value by the number of elements that the command names, even if some are equal.
var lowLimits = []string{"8", "10", "16", "128"}

// drawLimit changes the limits up to which values count as small.
func drawLimit(g *gen) []string {
	return one(g,
		[]string{"CONFIG", "SET", g.from("hash-max-listpack-entries", "hash-max-ziplist-entries"),
			g.from(lowLimits...)},
		[]string{"CONFIG", "SET", g.from("zset-max-listpack-entries", "zset-max-ziplist-entries"),
			g.from(lowLimits...)},
		[]string{"CONFIG", "SET", "set-max-intset-entries", g.from(lowLimits...)},
		[]string{"CONFIG", "SET", g.from("hash-max-listpack-value", "zset-max-ziplist-value"),
			g.from("5", "64")},
	)
}

// drawGrowing adds a few elements, mostly new ones.
func drawGrowing(g *gen) []string {
	name := g.from("HSET", "SADD", "ZADD", "RPUSH")
	args := []string{name, g.key()}
	for range 6 {
		element := strconv.Itoa(g.IntN(40))
		switch name {
		case "HSET":
			args = append(args, element, g.between(0, 9))
		case "ZADD":
			args = append(args, g.between(0, 9), element)
		default:
			args = append(args, element)
		}
	}
	return args
}

// TestDiffMixedTypes runs mixedGenerators.
func TestDiffMixedTypes(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...), keypServer: testkit.Keyp(t, bulkFlag...)}
	s.run(t, diffCases(t), true, nil)
}

// TestDiffMixedTypesOverRestarts is TestDiffMixedTypes while Keyp is killed and started again
// between commands. The limits are set again after each start.
func TestDiffMixedTypesOverRestarts(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...), keypServer: testkit.Keyp(t, bulkFlag...)}
	s.run(t, diffShare(t, 6), true, func(r *diffRun) error { return r.restartWithLimits(s) })
}

// restartWithLimits restarts Keyp, and sets its limits to those that a step may have set.
func (r *diffRun) restartWithLimits(s *both) error {
	limits, err := r.conns[0].redis.do("CONFIG", "GET", "*-max-*")
	if err != nil {
		return err
	}
	if err := r.restart(s); err != nil {
		return err
	}
	for option := range slices.Chunk(limits.texts(), 2) {
		if strings.Contains(option[0], "-max-listpack-") || strings.Contains(option[0],
			"-max-intset-") || strings.HasPrefix(option[0], "hll-sparse-") {
			if set, err := r.conns[0].keyp.do("CONFIG", "SET", option[0], option[1]); err != nil ||
				set.text != "OK" {
				return fmt.Errorf("CONFIG SET %q: %s, %w", option, brief(set.raw), err)
			}
		}
	}
	return nil
}
