package e2e

import "testing"

// TestGoRedisHyperLogLog: for the commands for HyperLogLog, go-redis gets the same replies from
// Keyp as from Redis.
func TestGoRedisHyperLogLog(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "elements", run: hllElements},
		{name: "debugging", run: hllDebug},
	})
}

func hllElements(t *testing.T, c subject) {
	is(t, int64(1))(c.PFAdd(ctx, "a", "x", "y").Result())
	is(t, int64(0))(c.PFAdd(ctx, "a", "x").Result())
	is(t, int64(1))(c.PFAdd(ctx, "b", "y", "z").Result())
	is(t, int64(2))(c.PFCount(ctx, "a").Result())
	is(t, int64(3))(c.PFCount(ctx, "a", "b", "none").Result())
	is(t, "OK")(c.PFMerge(ctx, "all", "a", "b").Result())
	is(t, int64(3))(c.PFCount(ctx, "all").Result())
	is(t, "OK")(c.Set(ctx, "text", "v", 0).Result())
	fails(t, "WRONGTYPE Key is not a valid HyperLogLog string value.", c.PFAdd(ctx, "text", "x"))
}

func hllDebug(t *testing.T, c subject) {
	is(t, int64(1))(c.PFAdd(ctx, "a", "x").Result())
	is(t, any("sparse"))(c.Do(ctx, "PFDEBUG", "ENCODING", "a").Result())
	is(t, any(int64(1)))(c.Do(ctx, "PFDEBUG", "TODENSE", "a").Result())
	if c.keyp { // redis-server takes seconds for it
		is(t, any("OK"))(c.Do(ctx, "PFSELFTEST").Result())
	}
}
