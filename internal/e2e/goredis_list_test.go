package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

// TestGoRedisLists: for the commands for lists and for SORT, go-redis gets the same replies from
// Keyp as from Redis.
func TestGoRedisLists(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "push and pop", run: listPushPop},
		{name: "elements", run: listElements},
		{name: "LPOS", run: listPositions},
		{name: "LTRIM", run: listTrim},
		{name: "moves", run: listMoves},
		{name: "LMPOP", run: listMPop},
		{name: "a long list", run: listLong},
		{name: "expiry", run: listExpiry},
		{name: "SORT", run: sortKeys},
		{name: "SORT BY and GET", run: sortByKeys},
		{name: "errors", run: listErrors},
	})
}

func listPushPop(t *testing.T, c subject) {
	is(t, int64(0))(c.LPushX(ctx, "l", "x").Result())
	is(t, int64(0))(c.RPushX(ctx, "l", "x").Result())
	is(t, int64(2))(c.LPush(ctx, "l", "b", "a").Result())
	is(t, int64(4))(c.RPush(ctx, "l", "c", "\x00\r\n").Result())
	is(t, int64(5))(c.LPushX(ctx, "l", "").Result())
	is(t, int64(7))(c.RPushX(ctx, "l", 6, 7.5).Result())
	is(t, []string{"", "a", "b", "c", "\x00\r\n", "6", "7.5"})(c.LRange(ctx, "l", 0, -1).Result())
	is(t, int64(7))(c.LLen(ctx, "l").Result())
	is(t, "list")(c.Type(ctx, "l").Result())
	is(t, "")(c.LPop(ctx, "l").Result())
	is(t, "7.5")(c.RPop(ctx, "l").Result())
	is(t, []string{"6", "\x00\r\n"})(c.RPopCount(ctx, "l", 2).Result())
	is(t, []string{})(c.LPopCount(ctx, "l", 0).Result())
	is(t, []string{"a", "b", "c"})(c.LPopCount(ctx, "l", 10).Result())
	gone(t, c, "l")
	missing(t, c.LPop(ctx, "l"))
	missing(t, c.RPop(ctx, "l"))
	missing(t, c.LPopCount(ctx, "l", 1))
	is(t, int64(0))(c.LLen(ctx, "l").Result())
	is(t, []string{})(c.LRange(ctx, "l", 0, -1).Result())
}

func listElements(t *testing.T, c subject) {
	is(t, int64(0))(c.LInsertBefore(ctx, "l", "a", "x").Result())
	is(t, int64(3))(c.RPush(ctx, "l", "a", "b", "a").Result())
	is(t, "a")(c.LIndex(ctx, "l", -1).Result())
	missing(t, c.LIndex(ctx, "l", 3))
	missing(t, c.LIndex(ctx, "none", 0))
	is(t, int64(4))(c.LInsertBefore(ctx, "l", "b", "1").Result())
	is(t, int64(5))(c.LInsertAfter(ctx, "l", "a", "2").Result())
	is(t, int64(-1))(c.LInsert(ctx, "l", "after", "none", "3").Result())
	is(t, "OK")(c.LSet(ctx, "l", -2, "B").Result())
	is(t, []string{"a", "2", "1", "B", "a"})(c.LRange(ctx, "l", 0, -1).Result())
	is(t, int64(1))(c.LRem(ctx, "l", -1, "a").Result())
	is(t, int64(0))(c.LRem(ctx, "l", 0, "none").Result())
	is(t, []string{"a", "2", "1", "B"})(c.LRange(ctx, "l", 0, -1).Result())
}

func listPositions(t *testing.T, c subject) {
	is(t, int64(8))(c.RPush(ctx, "l", "a", "b", "c", "1", "2", "3", "c", "c").Result())
	is(t, int64(2))(c.LPos(ctx, "l", "c", redis.LPosArgs{}).Result())
	is(t, int64(7))(c.LPos(ctx, "l", "c", redis.LPosArgs{Rank: -1}).Result())
	missing(t, c.LPos(ctx, "l", "c", redis.LPosArgs{Rank: 1, MaxLen: 2}))
	is(t, []int64{2, 6, 7})(c.LPosCount(ctx, "l", "c", 0, redis.LPosArgs{}).Result())
	is(t, []int64{6, 2})(c.LPosCount(ctx, "l", "c", 5, redis.LPosArgs{Rank: -2}).Result())
	is(t, []int64{})(c.LPosCount(ctx, "l", "none", 5, redis.LPosArgs{}).Result())
}

func listTrim(t *testing.T, c subject) {
	is(t, "OK")(c.LTrim(ctx, "none", 0, 1).Result())
	is(t, int64(5))(c.RPush(ctx, "l", 1, 2, 3, 4, 5).Result())
	is(t, "OK")(c.LTrim(ctx, "l", 1, -2).Result())
	is(t, []string{"2", "3", "4"})(c.LRange(ctx, "l", 0, -1).Result())
	is(t, []string{"3", "4"})(c.LRange(ctx, "l", -2, 100).Result())
	is(t, "OK")(c.LTrim(ctx, "l", 5, 10).Result())
	gone(t, c, "l")
}

func listMoves(t *testing.T, c subject) {
	is(t, int64(3))(c.RPush(ctx, "a", 1, 2, 3).Result())
	is[any](t, "3")(c.do("RPOPLPUSH", "a", "b"))
	is(t, "1")(c.LMove(ctx, "a", "b", "LEFT", "RIGHT").Result())
	is(t, "2")(c.LMove(ctx, "a", "b", "right", "left").Result())
	gone(t, c, "a")
	is(t, []string{"2", "3", "1"})(c.LRange(ctx, "b", 0, -1).Result())
	is[any](t, "1")(c.do("RPOPLPUSH", "b", "b"))
	is(t, []string{"1", "2", "3"})(c.LRange(ctx, "b", 0, -1).Result())
	missing(t, c.Do(ctx, "RPOPLPUSH", "none", "b"))
	missing(t, c.LMove(ctx, "none", "b", "LEFT", "LEFT"))
}

func listMPop(t *testing.T, c subject) {
	missing(t, c.LMPop(ctx, "left", 1, "none", "l"))
	is(t, int64(4))(c.RPush(ctx, "l", 1, 2, 3, 4).Result())
	for _, step := range []struct {
		end   string
		count int64
		want  []string
	}{{"left", 1, []string{"1"}}, {"right", 2, []string{"4", "3"}}, {"left", 9, []string{"2"}}} {
		key, vals, err := c.LMPop(ctx, step.end, step.count, "none", "l").Result()
		if err != nil || key != "l" || !slices.Equal(vals, step.want) {
			t.Errorf("LMPOP %s %d: %q, %q, %v, want %q", step.end, step.count, key,
				vals, err, step.want)
		}
	}
	gone(t, c, "l")
}

func listLong(t *testing.T, c subject) {
	var want []string
	var vals []any
	for i := range 3000 {
		want = append(want, fmt.Sprintf("element %d", i))
		vals = append(vals, want[i])
	}
	is(t, int64(3000))(c.RPush(ctx, "l", vals...).Result())
	is(t, "quicklist")(c.ObjectEncoding(ctx, "l").Result())
	is(t, int64(1500))(c.LPos(ctx, "l", "element 1500", redis.LPosArgs{}).Result())
	is(t, int64(3001))(c.LInsertAfter(ctx, "l", "element 1500", "new").Result())
	last := slices.Clone(want[2500:])
	slices.Reverse(last)
	is(t, last)(c.RPopCount(ctx, "l", 500).Result())
	want = slices.Insert(want[:2500], 1501, "new")
	is(t, want)(c.LRange(ctx, "l", 0, -1).Result())
}

func listExpiry(t *testing.T, c subject) {
	is(t, int64(1))(c.RPush(ctx, "l", "a").Result())
	is(t, true)(c.Expire(ctx, "l", time.Minute).Result())
	is(t, int64(2))(c.RPush(ctx, "l", "b").Result())
	is[any](t, "b")(c.do("RPOPLPUSH", "l", "l"))
	expires(t, c, "l", time.Minute)
	is(t, true)(c.PExpire(ctx, "l", time.Millisecond).Result())
	await.Until(t, "the list expires", func() bool { return c.Exists(ctx, "l").Val() == 0 })
	gone(t, c, "l")
	is(t, int64(1))(c.RPush(ctx, "l", "c").Result())
	persists(t, c, "l")
}

func sortKeys(t *testing.T, c subject) {
	is(t, []string{})(c.Sort(ctx, "l", &redis.Sort{}).Result())
	is(t, int64(4))(c.RPush(ctx, "l", 10, 9, -1.5, 100).Result())
	is(t, []string{"-1.5", "9", "10", "100"})(c.Sort(ctx, "l", &redis.Sort{}).Result())
	is(t, []string{"100", "10"})(c.SortRO(ctx, "l", &redis.Sort{Order: "DESC", Count: 2}).Result())
	is(t, []string{"10", "100"})(c.Sort(ctx, "l",
		&redis.Sort{Alpha: true, Offset: 1, Count: 2}).Result())
	is(t, int64(4))(c.SortStore(ctx, "l", "sorted", &redis.Sort{Order: "DESC"}).Result())
	is(t, []string{"100", "10", "9", "-1.5"})(c.LRange(ctx, "sorted", 0, -1).Result())
	is(t, int64(0))(c.SortStore(ctx, "none", "sorted", &redis.Sort{}).Result())
	gone(t, c, "sorted")
	is(t, int64(3))(c.SAdd(ctx, "s", "c", "a", "b").Result())
	is(t, []string{"a", "b", "c"})(c.Sort(ctx, "s", &redis.Sort{Alpha: true}).Result())
	is(t, int64(2))(c.ZAdd(ctx, "z", redis.Z{Score: 2, Member: "1"},
		redis.Z{Score: 1, Member: "2"}).Result())
	is(t, []string{"1", "2"})(c.Sort(ctx, "z", &redis.Sort{}).Result())
	is(t, []string{"2", "1"})(c.Sort(ctx, "z", &redis.Sort{By: "nosort"}).Result())
	is(t, []string{"1", "2"})(c.Sort(ctx, "z", &redis.Sort{By: "nosort", Order: "DESC"}).Result())
}

func sortByKeys(t *testing.T, c subject) {
	is(t, int64(3))(c.RPush(ctx, "users", 1, 2, 3).Result())
	for i, name := range []string{"carol", "alice", "bob"} {
		is(t, int64(2))(c.HSet(ctx, fmt.Sprintf("user:%d", i+1), "name", name, "age",
			40-10*i).Result())
	}
	is(t, "OK")(c.Set(ctx, "mail:2", "alice@example.com", 0).Result())
	is(t, []string{"3", "2", "1"})(c.Sort(ctx, "users", &redis.Sort{By: "user:*->age"}).Result())
	is(t, []string{"alice", "bob", "carol"})(c.Sort(ctx, "users",
		&redis.Sort{By: "user:*->name", Alpha: true, Get: []string{"user:*->name"}}).Result())
	is(t, []any{"1", nil, "2", "alice@example.com", "3", nil})(
		c.SortInterfaces(ctx, "users", &redis.Sort{Get: []string{"#", "mail:*"}}).Result())
	is(t, int64(6))(c.SortStore(ctx, "users", "out",
		&redis.Sort{Get: []string{"#", "mail:*"}}).Result())
	is(t, []string{"1", "", "2", "alice@example.com", "3", ""})(c.LRange(ctx, "out",
		0, -1).Result())
}

func listErrors(t *testing.T, c subject) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	is(t, "OK")(c.Set(ctx, "s", "v", 0).Result())
	is(t, int64(1))(c.RPush(ctx, "l", "a").Result())
	for _, tt := range []struct {
		args string
		want string
	}{
		{"LPUSH s a", wrongType},
		{"RPUSHX s a", wrongType},
		{"LPOP s", wrongType},
		{"LLEN s", wrongType},
		{"LRANGE s 0 1", wrongType},
		{"LINDEX s 0", wrongType},
		{"RPOPLPUSH l s", wrongType},
		{"LMPOP 1 s LEFT", wrongType},
		{"SORT s", wrongType},
		{"GET l", wrongType},
		{"LPUSH l", "ERR wrong number of arguments for 'lpush' command"},
		{"LPOP l 1 2", "ERR wrong number of arguments for 'lpop' command"},
		{"LPOP l -1", "ERR value is out of range, must be positive"},
		{"LSET none 0 v", "ERR no such key"},
		{"LSET l 5 v", "ERR index out of range"},
		{"LRANGE l a b", "ERR value is not an integer or out of range"},
		{"LINSERT l AT a b", "ERR syntax error"},
		{"LMOVE l l UP DOWN", "ERR syntax error"},
		{"LMPOP 0 l LEFT", "ERR numkeys should be greater than 0"},
		{"LMPOP 1 l LEFT COUNT 0", "ERR count should be greater than 0"},
		{"LPOS l a COUNT -1", "ERR COUNT can't be negative"},
		{"LPOS l a MAXLEN -1", "ERR MAXLEN can't be negative"},
		{"SORT l", "ERR One or more scores can't be converted into double"},
		{"SORT l LIMIT 1", "ERR syntax error"},
		{"SORT_RO l STORE d", "ERR syntax error"},
	} {
		fails(t, tt.want, c.Do(ctx, words(tt.args)...))
	}
	is(t, []string{"a"})(c.LRange(ctx, "l", 0, -1).Result())
}
