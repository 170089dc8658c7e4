package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

func TestGoRedisSets(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "members", run: setMembers},
		{name: "SMOVE", run: setMove},
		{name: "SPOP and SRANDMEMBER", run: setRandom},
		{name: "SINTER, SUNION and SDIFF", run: setAlgebra},
		{name: "SSCAN", run: setScan},
		{name: "errors", run: setTypeErrors},
		{name: "EXPIREMEMBER", run: expireMember, newer: "KeyDB's"},
		{name: "EXPIREMEMBER of other types", run: expireMemberOfOthers, newer: "KeyDB's"},
	})
}

// hasMembers checks that a set has exactly these members.
func hasMembers(t *testing.T, c subject, key string, want ...string) {
	t.Helper()
	got, err := c.SMembers(ctx, key).Result()
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s has %q, %v, want %q", key, got, err, want)
	}
}

// unordered checks a list of members, in any order.
func unordered(t *testing.T, want ...string) func([]string, error) {
	t.Helper()
	return func(got []string, err error) {
		t.Helper()
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func setMembers(t *testing.T, c subject) {
	hasMembers(t, c, "s")
	is(t, int64(3))(c.SAdd(ctx, "s", "a", "b\r\n\x00", "").Result())
	is(t, int64(1))(c.SAdd(ctx, "s", "a", 7).Result())
	is(t, int64(4))(c.SCard(ctx, "s").Result())
	is(t, true)(c.SIsMember(ctx, "s", 7).Result())
	is(t, false)(c.SIsMember(ctx, "s", "none").Result())
	is(t, []bool{true, false, true})(c.SMIsMember(ctx, "s", "a", "none", "").Result())
	is(t, map[string]struct{}{"a": {}, "b\r\n\x00": {}, "": {}, "7": {}})(
		c.SMembersMap(ctx, "s").Result())
	is(t, int64(2))(c.SRem(ctx, "s", "a", "", "none").Result())
	hasMembers(t, c, "s", "7", "b\r\n\x00")
	is(t, "set")(c.Type(ctx, "s").Result())
	is(t, int64(2))(c.SRem(ctx, "s", "7", "b\r\n\x00").Result())
	is(t, int64(0))(c.Exists(ctx, "s").Result())
	for i := range 2000 {
		is(t, int64(1))(c.SAdd(ctx, "many", i).Result())
	}
	is(t, int64(2000))(c.SCard(ctx, "many").Result())
	is(t, "hashtable")(c.ObjectEncoding(ctx, "many").Result())
}

func setMove(t *testing.T, c subject) {
	is(t, int64(2))(c.SAdd(ctx, "a", "x", "y").Result())
	is(t, true)(c.SMove(ctx, "a", "b", "x").Result())
	is(t, false)(c.SMove(ctx, "a", "b", "x").Result())
	is(t, false)(c.SMove(ctx, "none", "b", "x").Result())
	is(t, true)(c.SMove(ctx, "a", "b", "y").Result())
	is(t, int64(0))(c.Exists(ctx, "a").Result())
	hasMembers(t, c, "b", "x", "y")
}

func setRandom(t *testing.T, c subject) {
	missing(t, c.SPop(ctx, "s"))
	missing(t, c.SRandMember(ctx, "s"))
	is(t, []string{})(c.SPopN(ctx, "s", 3).Result())
	is(t, []string{})(c.SRandMemberN(ctx, "s", 3).Result())
	left := map[string]bool{}
	for i := range 300 {
		m := fmt.Sprint("m", i)
		left[m] = true
		is(t, int64(1))(c.SAdd(ctx, "s", m).Result())
	}
	one, err := c.SRandMember(ctx, "s").Result()
	if err != nil || !left[one] {
		t.Errorf("SRANDMEMBER: %q, %v", one, err)
	}
	for count, want := range map[int64]int{0: 0, 5: 5, 200: 200, 1000: 300, -5: 5, -1000: 1000} {
		got, err := c.SRandMemberN(ctx, "s", count).Result()
		for _, m := range got {
			if !left[m] {
				t.Errorf("SRANDMEMBER made %q up", m)
			}
		}
		if err != nil || len(got) != want {
			t.Errorf("SRANDMEMBER s %d gave %d, %v", count, len(got), err)
		}
		slices.Sort(got)
		if count > 0 && len(slices.Compact(got)) != want {
			t.Errorf("SRANDMEMBER s %d repeats itself", count)
		}
	}
	for _, count := range []int64{1, 20, 260, 1000} {
		got, err := c.SPopN(ctx, "s", count).Result()
		if want := min(int(count), len(left)); err != nil || len(got) != want {
			t.Errorf("SPOP s %d gave %d, %v", count, len(got), err)
		}
		for _, m := range got {
			if !left[m] {
				t.Errorf("SPOP gave %q, which was not there any more", m)
			}
			delete(left, m)
		}
		is(t, int64(len(left)))(c.SCard(ctx, "s").Result())
	}
	is(t, int64(0))(c.Exists(ctx, "s").Result())
	is(t, int64(1))(c.SAdd(ctx, "s", "last").Result())
	is(t, "last")(c.SPop(ctx, "s").Result())
	is(t, int64(0))(c.Exists(ctx, "s").Result())
}

func setAlgebra(t *testing.T, c subject) {
	is(t, int64(4))(c.SAdd(ctx, "a", 1, 2, 3, "x").Result())
	is(t, int64(3))(c.SAdd(ctx, "b", 2, 3, "y").Result())
	is(t, int64(2))(c.SAdd(ctx, "c", 3, "x").Result())
	unordered(t, "2", "3")(c.SInter(ctx, "a", "b").Result())
	unordered(t, "3")(c.SInter(ctx, "a", "b", "c").Result())
	unordered(t)(c.SInter(ctx, "a", "none").Result())
	unordered(t, "1", "2", "3", "x", "y")(c.SUnion(ctx, "a", "b", "none").Result())
	unordered(t, "1", "x")(c.SDiff(ctx, "a", "b").Result())
	unordered(t, "1")(c.SDiff(ctx, "a", "b", "c").Result())
	is(t, int64(2))(c.SInterCard(ctx, 0, "a", "b").Result())
	is(t, int64(1))(c.SInterCard(ctx, 1, "a", "b").Result())
	is(t, int64(2))(c.SInterStore(ctx, "to", "a", "b").Result())
	hasMembers(t, c, "to", "2", "3")
	is(t, int64(5))(c.SUnionStore(ctx, "to", "a", "b").Result())
	is(t, int64(2))(c.SDiffStore(ctx, "to", "a", "b").Result())
	hasMembers(t, c, "to", "1", "x")
	is(t, int64(0))(c.SDiffStore(ctx, "to", "none").Result())
	is(t, int64(0))(c.Exists(ctx, "to").Result())
	is(t, "OK")(c.Set(ctx, "to", "a string", time.Hour).Result())
	is(t, int64(4))(c.SUnionStore(ctx, "to", "a").Result())
	persists(t, c, "to")
}

func setScan(t *testing.T, c subject) {
	want := make([]string, 1000)
	for i := range want {
		want[i] = fmt.Sprintf("m%03d", i)
		is(t, int64(1))(c.SAdd(ctx, "s", want[i]).Result())
	}
	var got []string
	for it := c.SScan(ctx, "s", 0, "m*", 50).Iterator(); it.Next(ctx); {
		got = append(got, it.Val())
	}
	slices.Sort(got)
	if !slices.Equal(slices.Compact(got), want) {
		t.Errorf("SSCAN gave %d members", len(got))
	}
	keys, cursor, err := c.SScan(ctx, "none", 0, "", 0).Result()
	if err != nil || len(keys) != 0 || cursor != 0 {
		t.Errorf("SSCAN of nothing: %v, %d, %v", keys, cursor, err)
	}
}

func setTypeErrors(t *testing.T, c subject) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	is(t, "OK")(c.Set(ctx, "str", "v", 0).Result())
	for _, words := range [][]any{
		{"SADD", "str", "a"}, {"SREM", "str", "a"}, {"SCARD", "str"}, {"SMEMBERS", "str"},
		{"SISMEMBER", "str", "a"},
		{"SMISMEMBER", "str", "a"}, {"SPOP", "str"}, {"SRANDMEMBER", "str"},
		{"SMOVE", "str", "b", "a"}, {"SINTER", "str"},
		{"SUNION", "none", "str"}, {"SDIFF", "none", "str"}, {"SINTERSTORE", "to", "none", "str"},
		{"SUNIONSTORE", "to", "str"},
		{"SDIFFSTORE", "to", "str"}, {"SINTERCARD", 1, "str"}, {"SSCAN", "str", 0},
	} {
		fails(t, wrongType, c.Do(ctx, words...))
	}
	is(t, int64(1))(c.SAdd(ctx, "s", "a").Result())
	fails(t, wrongType, c.Get(ctx, "s"))
	fails(t, wrongType, c.SMove(ctx, "s", "str", "a"))
	fails(t, "ERR value is out of range, must be positive", c.SPopN(ctx, "s", -1))
	fails(t, "ERR syntax error", c.Do(ctx, "SPOP", "s", 1, 2))
	fails(t, "ERR numkeys should be greater than 0", c.Do(ctx, "SINTERCARD", 0, "s"))
	fails(t, "ERR Number of keys can't be greater than number of args",
		c.Do(ctx, "SINTERCARD", 2, "s"))
	fails(t, "ERR LIMIT can't be negative", c.Do(ctx, "SINTERCARD", 1, "s", "LIMIT", -1))
}

func expireMember(t *testing.T, c subject) {
	is(t, int64(3))(c.SAdd(ctx, "s", "a", "b", "c").Result())
	is[any](t, int64(1))(c.do("EXPIREMEMBER", "s", "a", 100))
	is[any](t, int64(1))(c.do("EXPIREMEMBER", "s", "b", 50, "ms"))
	is[any](t, int64(1))(c.do("EXPIREMEMBERAT", "s", "c", time.Now().Unix()+1000))
	is[any](t, int64(0))(c.do("EXPIREMEMBER", "s", "none", 100))
	if got, err := c.Do(ctx, "TTL", "s", "c").Int(); err != nil ||
		got < 1000-int(c.age()/time.Second) || got > 1000 {
		t.Errorf("TTL s c: %d, %v", got, err)
	}
	await.Until(t, "the member expires", func() bool { return !c.SIsMember(ctx, "s", "b").Val() })
	hasMembers(t, c, "s", "a", "c")
	is[any](t, int64(-2))(c.do("PTTL", "s", "b"))
	is[any](t, int64(1))(c.do("PERSIST", "s", "a"))
	is[any](t, int64(-1))(c.do("TTL", "s", "a"))
	is[any](t, int64(1))(c.do("PEXPIREMEMBERAT", "s", "c", time.Now().UnixMilli()))
	hasMembers(t, c, "s", "a")
	persists(t, c, "s")
	fails(t, "ERR Invalid unit arg", c.Do(ctx, "EXPIREMEMBER", "s", "a", 1, "m"))
}

func expireMemberOfOthers(t *testing.T, c subject) {
	is(t, int64(1))(c.HSet(ctx, "h", "f", "v").Result())
	is[any](t, int64(1))(c.do("EXPIREMEMBER", "h", "f", 100))
	fieldExpires(t, c, "h", "f", 100*time.Second)
	is[any](t, int64(1))(c.do("ZADD", "z", 1, "m"))
	is[any](t, int64(1))(c.do("EXPIREMEMBER", "z", "m", 0))
	is(t, int64(0))(c.Exists(ctx, "z").Result())
	is(t, "OK")(c.Set(ctx, "str", "v", 0).Result())
	fails(t, "ERR object type is unsupported", c.Do(ctx, "EXPIREMEMBER", "str", "v", 1))
}
