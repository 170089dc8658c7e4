package e2e

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestGoRedisSortedSets(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "ZADD and scores", run: zaddAndScores},
		{name: "ZADD options", run: zaddOptions},
		{name: "ranks and counts", run: zsetRanks},
		{name: "rank with score", run: zsetRankWithScore, newer: "7.2"},
		{name: "ranges", run: zsetRanges},
		{name: "ranges by their old names", run: zsetOldRanges},
		{name: "removals and pops", run: zsetRemovals},
		{name: "unions, intersections, differences", run: zsetCombinations},
		{name: "AGGREGATE COUNT", run: zsetAggregateCount, newer: "8.8"},
		{name: "random members", run: zsetRandom},
		{name: "walks", run: zsetWalks},
		{name: "a large one", run: largeZSet},
		{name: "errors", run: zsetErrors},
	})
}

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// board adds three players.
func board(t *testing.T, c subject, key string) {
	t.Helper()
	is(t, int64(3))(c.ZAdd(ctx, key, z(1.5, "ann"), z(2, "bob"), z(3, "cid")).Result())
}

func zaddAndScores(t *testing.T, c subject) {
	board(t, c, "z")
	is(t, int64(1))(c.ZAdd(ctx, "z", z(4, "ann"), z(-0.1, "dan")).Result())
	is(t, 4.0)(c.ZScore(ctx, "z", "ann").Result())
	is(t, -0.1)(c.ZScore(ctx, "z", "dan").Result())
	missing(t, c.ZScore(ctx, "z", "nobody"))
	missing(t, c.ZScore(ctx, "none", "ann"))
	is(t, []float64{4, 0, 2})(c.ZMScore(ctx, "z", "ann", "nobody", "bob").Result())
	is(t, 4.25)(c.ZIncrBy(ctx, "z", 0.25, "ann").Result())
	is(t, 7.0)(c.ZIncrBy(ctx, "z", 7, "new").Result())
	is(t, int64(2))(c.ZAdd(ctx, "inf", z(math.Inf(1), "top"), z(math.Inf(-1), "low")).Result())
	is(t, []redis.Z{z(math.Inf(-1), "low"), z(math.Inf(1), "top")})(c.ZRangeWithScores(ctx, "inf",
		0, -1).Result())
	is(t, int64(5))(c.ZCard(ctx, "z").Result())
	is(t, int64(0))(c.ZCard(ctx, "none").Result())
	is(t, "zset")(c.Type(ctx, "z").Result())
}

func zaddOptions(t *testing.T, c subject) {
	board(t, c, "z")
	is(t, int64(1))(c.ZAddNX(ctx, "z", z(9, "ann"), z(9, "dan")).Result())
	is(t, int64(0))(c.ZAddXX(ctx, "z", z(5, "ann"), z(9, "eve")).Result())
	is(t, int64(0))(c.ZAddGT(ctx, "z", z(1, "ann")).Result())
	is(t, 5.0)(c.ZScore(ctx, "z", "ann").Result())
	is(t, int64(0))(c.ZAddLT(ctx, "z", z(1, "ann")).Result())
	is(t, 1.0)(c.ZScore(ctx, "z", "ann").Result())
	is(t, int64(2))(c.ZAddArgs(ctx, "z", redis.ZAddArgs{Ch: true,
		Members: []redis.Z{z(2, "ann"), z(2, "bob"), z(1, "eve")}}).Result())
	is(t, 3.5)(c.ZAddArgsIncr(ctx, "z", redis.ZAddArgs{Members: []redis.Z{z(1.5, "ann")}}).Result())
	missing(t, c.ZAddArgsIncr(ctx, "z", redis.ZAddArgs{NX: true, Members: []redis.Z{z(1, "ann")}}))
	missing(t, c.ZAddArgsIncr(ctx, "none",
		redis.ZAddArgs{XX: true, Members: []redis.Z{z(1, "ann")}}))
	is(t, int64(0))(c.Exists(ctx, "none").Result())
}

func zsetRanks(t *testing.T, c subject) {
	board(t, c, "z")
	is(t, int64(0))(c.ZRank(ctx, "z", "ann").Result())
	is(t, int64(2))(c.ZRevRank(ctx, "z", "ann").Result())
	missing(t, c.ZRank(ctx, "z", "nobody"))
	missing(t, c.ZRevRank(ctx, "none", "ann"))
	is(t, int64(2))(c.ZCount(ctx, "z", "(1.5", "+inf").Result())
	is(t, int64(1))(c.ZCount(ctx, "z", "-inf", "(2").Result())
	is(t, int64(4))(c.ZAdd(ctx, "lex", z(0, "a"), z(0, "b"), z(0, "c"), z(0, "d")).Result())
	is(t, int64(2))(c.ZLexCount(ctx, "lex", "(a", "[c").Result())
	is(t, int64(4))(c.ZLexCount(ctx, "lex", "-", "+").Result())
}

func zsetRankWithScore(t *testing.T, c subject) {
	board(t, c, "z")
	is(t, redis.RankScore{Rank: 0, Score: 1.5})(c.ZRankWithScore(ctx, "z", "ann").Result())
	is(t, redis.RankScore{Rank: 2, Score: 1.5})(c.ZRevRankWithScore(ctx, "z", "ann").Result())
	missing(t, c.ZRankWithScore(ctx, "z", "nobody"))
}

func zsetRanges(t *testing.T, c subject) {
	board(t, c, "z")
	is(t, []string{"ann", "bob", "cid"})(c.ZRange(ctx, "z", 0, -1).Result())
	is(t, []redis.Z{z(2, "bob"), z(3, "cid")})(c.ZRangeWithScores(ctx, "z", -2, -1).Result())
	is(t, []string{})(c.ZRange(ctx, "none", 0, -1).Result())
	is(t, []string{"cid", "bob"})(c.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "z", Start: "+inf",
		Stop: "(1.5", ByScore: true, Rev: true}).Result())
	is(t, []redis.Z{z(2, "bob")})(c.ZRangeArgsWithScores(ctx,
		redis.ZRangeArgs{Key: "z", Start: "-inf", Stop: "+inf", ByScore: true, Offset: 1,
			Count: 1}).Result())
	is(t, int64(3))(c.ZAdd(ctx, "lex", z(0, "a"), z(0, "b"), z(0, "c")).Result())
	is(t, []string{"b", "c"})(c.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "lex", Start: "[b", Stop: "+",
		ByLex: true}).Result())
	is(t, "OK")(c.Set(ctx, "dst", "v", time.Minute).Result())
	is(t, int64(2))(c.ZRangeStore(ctx, "dst", redis.ZRangeArgs{Key: "z", Start: 0, Stop: 1,
		Rev: true}).Result())
	is(t, []redis.Z{z(2, "bob"), z(3, "cid")})(c.ZRangeWithScores(ctx, "dst", 0, -1).Result())
	persists(t, c, "dst")
	is(t, int64(0))(c.ZRangeStore(ctx, "dst",
		redis.ZRangeArgs{Key: "none", Start: 0, Stop: 1}).Result())
	gone(t, c, "dst")
}

func zsetOldRanges(t *testing.T, c subject) {
	board(t, c, "z")
	all := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Offset: 1, Count: 1}
	is[any](t, []any{"cid", "bob"})(c.do("ZREVRANGE", "z", 0, 1))
	is(t, []redis.Z{z(3, "cid")})(c.ZRevRangeWithScores(ctx, "z", 0, 0).Result())
	is[any](t, []any{"bob"})(c.do("ZRANGEBYSCORE", "z", "-inf", "+inf", "LIMIT", 1, 1))
	is(t, []redis.Z{z(2, "bob")})(c.ZRangeByScoreWithScores(ctx, "z", all).Result())
	is[any](t, []any{"bob"})(c.do("ZREVRANGEBYSCORE", "z", "+inf", "-inf", "LIMIT", 1, 1))
	is(t, []redis.Z{z(2, "bob")})(c.ZRevRangeByScoreWithScores(ctx, "z", all).Result())
	is(t, int64(3))(c.ZAdd(ctx, "lex", z(0, "a"), z(0, "b"), z(0, "c")).Result())
	is[any](t, []any{"a", "b"})(c.do("ZRANGEBYLEX", "lex", "-", "(c"))
	is[any](t, []any{"b", "a"})(c.do("ZREVRANGEBYLEX", "lex", "(c", "-"))
}

func zsetRemovals(t *testing.T, c subject) {
	for i := range 20 {
		is(t, int64(1))(c.ZAdd(ctx, "z", z(float64(i), fmt.Sprint("m", i))).Result())
	}
	is(t, int64(2))(c.ZRem(ctx, "z", "m0", "nobody", "m1").Result())
	is(t, int64(2))(c.ZRemRangeByRank(ctx, "z", 0, 1).Result())
	is(t, int64(5))(c.ZRemRangeByScore(ctx, "z", "(14", "+inf").Result())
	is(t, []redis.Z{z(4, "m4")})(c.ZPopMin(ctx, "z").Result())
	is(t, []redis.Z{z(14, "m14"), z(13, "m13")})(c.ZPopMax(ctx, "z", 2).Result())
	key, popped, err := c.ZMPop(ctx, "max", 2, "none", "z").Result()
	if want := []redis.Z{z(12, "m12"), z(11, "m11")}; err != nil || key != "z" ||
		!slices.Equal(popped, want) {
		t.Errorf("ZMPOP gives %s, %v, %v", key, popped, err)
	}
	missing(t, c.ZMPop(ctx, "min", 1, "none"))
	is(t, int64(3))(c.ZAdd(ctx, "lex", z(0, "a"), z(0, "b"), z(0, "c")).Result())
	is(t, int64(1))(c.ZRemRangeByLex(ctx, "lex", "(a", "(c").Result())
	is(t, int64(2))(c.ZRemRangeByLex(ctx, "lex", "-", "+").Result())
	is(t, int64(0))(c.Exists(ctx, "lex").Result())
}

func zsetCombinations(t *testing.T, c subject) {
	board(t, c, "a")
	is(t, int64(2))(c.ZAdd(ctx, "b", z(10, "bob"), z(20, "dan")).Result())
	is(t, int64(2))(c.SAdd(ctx, "s", "bob", "eve").Result())
	both := redis.ZStore{Keys: []string{"a", "b"}}
	weighed := redis.ZStore{Keys: []string{"a", "b"}, Weights: []float64{2, 0.5}, Aggregate: "MAX"}
	is(t, []string{"ann", "cid", "bob", "dan"})(c.ZUnion(ctx, both).Result())
	is(t, []redis.Z{z(3, "ann"), z(5, "bob"), z(6, "cid"), z(10, "dan")})(c.ZUnionWithScores(ctx,
		weighed).Result())
	is(t, []string{"bob"})(c.ZInter(ctx, &both).Result())
	is(t, []redis.Z{z(13, "bob")})(c.ZInterWithScores(ctx,
		&redis.ZStore{Keys: []string{"a", "b", "s"}}).Result())
	is(t, int64(1))(c.ZInterCard(ctx, 0, "a", "b").Result())
	is(t, []string{"ann", "cid"})(c.ZDiff(ctx, "a", "b").Result())
	is(t, []redis.Z{z(1.5, "ann"), z(3, "cid")})(c.ZDiffWithScores(ctx, "a", "s").Result())
	is(t, int64(4))(c.ZUnionStore(ctx, "dst", &both).Result())
	is(t, []redis.Z{z(1.5, "ann"), z(3, "cid"), z(12, "bob"), z(20, "dan")})(c.ZRangeWithScores(ctx,
		"dst", 0, -1).Result())
	is(t, int64(1))(c.ZInterStore(ctx, "dst", &weighed).Result())
	is(t, int64(2))(c.ZDiffStore(ctx, "dst", "a", "b").Result())
	is(t, int64(0))(c.ZDiffStore(ctx, "dst", "a", "a").Result())
	is(t, int64(0))(c.Exists(ctx, "dst").Result())
}

func zsetAggregateCount(t *testing.T, c subject) {
	board(t, c, "a")
	is(t, int64(2))(c.ZAdd(ctx, "b", z(10, "bob"), z(20, "dan")).Result())
	is(t, []redis.Z{z(1, "ann"), z(1, "cid"), z(1, "dan"), z(2, "bob")})(c.ZUnionWithScores(ctx,
		redis.ZStore{Keys: []string{"a", "b"}, Aggregate: "COUNT"}).Result())
}

func zsetRandom(t *testing.T, c subject) {
	board(t, c, "z")
	scores := map[any]float64{"ann": 1.5, "bob": 2, "cid": 3}
	got, err := c.ZRandMemberWithScores(ctx, "z", -20).Result()
	if err != nil || len(got) != 20 {
		t.Errorf("20 random members: %v, %v", got, err)
	}
	for _, one := range got {
		if score, ok := scores[one.Member]; !ok || score != one.Score {
			t.Errorf("a random member that there is not: %v", one)
		}
	}
	members, err := c.ZRandMember(ctx, "z", 10).Result()
	if slices.Sort(members); err != nil || !slices.Equal(members, []string{"ann", "bob", "cid"}) {
		t.Errorf("all members at random: %v, %v", members, err)
	}
	missing(t, c.Do(ctx, "ZRANDMEMBER", "none"))
}

func zsetWalks(t *testing.T, c subject) {
	var many []redis.Z
	for i := range 1000 {
		many = append(many, z(float64(i)/8, fmt.Sprint("m", i)))
	}
	is(t, int64(1000))(c.ZAdd(ctx, "z", many...).Result())
	seen := map[string]string{}
	var page []string
	var err error
	for cursor, rounds := uint64(0), 0; rounds == 0 || cursor != 0; rounds++ {
		if page, cursor, err = c.ZScan(ctx, "z", cursor, "m*", 50).Result(); err != nil ||
			rounds > 1000 {
			t.Fatalf("round %d: %v", rounds, err)
		}
		for pair := range slices.Chunk(page, 2) {
			seen[pair[0]] = pair[1]
		}
	}
	if len(seen) != 1000 || seen["m1"] != "0.125" || seen["m999"] != "124.875" {
		t.Errorf("the walk visits %d of 1000, m1 with %s", len(seen), seen["m1"])
	}
}

func largeZSet(t *testing.T, c subject) {
	const n = 20_000
	for from := 0; from < n; from += 1000 {
		var part []redis.Z
		for i := from; i < from+1000; i++ {
			part = append(part, z(float64(i%100), fmt.Sprintf("m%05d", i)))
		}
		is(t, int64(1000))(c.ZAdd(ctx, "z", part...).Result())
	}
	is(t, int64(n))(c.ZCard(ctx, "z").Result())
	is(t, int64(200*51))(c.ZCount(ctx, "z", "10", "60").Result())
	is(t, []string{"m00050", "m00150"})(c.ZRange(ctx, "z", 10_000, 10_001).Result())
	is(t, int64(10_001))(c.ZRank(ctx, "z", "m00150").Result())
	is(t, int64(n))(c.ZUnionStore(ctx, "twice", &redis.ZStore{Keys: []string{"z", "z"}}).Result())
	is(t, []redis.Z{z(198, "m19999")})(c.ZRevRangeWithScores(ctx, "twice", 0, 0).Result())
	is(t, int64(200*50))(c.ZRemRangeByScore(ctx, "z", "-inf", "(50").Result())
	is(t, []string{"m00050"})(c.ZRange(ctx, "z", 0, 0).Result())
	all, err := c.ZRangeWithScores(ctx, "twice", 0, -1).Result()
	if err != nil || len(all) != n {
		t.Errorf("all of it: %d members, %v", len(all), err)
	}
}

func zsetErrors(t *testing.T, c subject) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	is(t, "OK")(c.Set(ctx, "s", "v", 0).Result())
	for line, want := range map[string]string{
		"ZADD s 1 a":              wrongType,
		"ZRANGE s 0 -1":           wrongType,
		"ZPOPMIN s":               wrongType,
		"ZUNION 1 s":              wrongType,
		"ZADD z 1":                "ERR wrong number of arguments for 'zadd' command",
		"ZADD z x a":              "ERR value is not a valid float",
		"ZADD z NX XX 1 a":        "ERR XX and NX options at the same time are not compatible",
		"ZADD z GT LT 1 a":        "ERR GT, LT, and/or NX options at the same time are not compatible",
		"ZADD z INCR 1 a 2 b":     "ERR INCR option supports a single increment-element pair",
		"ZCOUNT z a b":            "ERR min or max is not a float",
		"ZLEXCOUNT z a b":         "ERR min or max not valid string range item",
		"ZRANGE z 0 1 LIMIT 0 1":  "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
		"ZRANGEBYLEX z - + LIMIT": "ERR syntax error",
		"ZUNION 0 z":              "ERR at least 1 input key is needed for 'zunion' command",
		"ZUNION 1 z WEIGHTS a":    "ERR weight value is not a float",
		"ZMPOP 0 z MIN":           "ERR numkeys should be greater than 0",
		"ZINTERCARD 1 z LIMIT -1": "ERR LIMIT can't be negative",
	} {
		fails(t, want, c.Do(ctx, words(line)...))
	}
	is(t, int64(1))(c.ZAdd(ctx, "inf", z(math.Inf(1), "a")).Result())
	fails(t, "ERR resulting score is not a number (NaN)", c.Do(ctx, "ZINCRBY", "inf", "-inf", "a"))
	large := strings.Repeat("m", 100_000)
	is(t, int64(1))(c.ZAdd(ctx, "z", z(1, large)).Result())
	is(t, []string{large})(c.ZRange(ctx, "z", 0, -1).Result())
}
