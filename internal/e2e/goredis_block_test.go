package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestGoRedisBlocking(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "with something there", run: blockNothing},
		{name: "lists", run: blockOnLists},
		{name: "sorted sets", run: blockOnZSets},
		{name: "moves", run: blockMoves},
		{name: "timeouts", run: blockTimeouts},
		{name: "transactions", run: blockTransactions},
		{name: "CLIENT UNBLOCK", run: blockUnblock},
		{name: "in order", run: blockOrder},
		{name: "a queue of many hands", run: blockQueue},
		{name: "whatever makes the key", run: blockWakers},
		{name: "contexts", run: blockContexts},
		{name: "errors", run: blockErrors},
		{name: "timeouts out of range", newer: "7.2", run: func(t *testing.T, c subject) {
			for _, timeout := range []string{"inf", "1e16", "9223372036000000"} {
				fails(t, "ERR timeout is out of range", c.Do(ctx, "BRPOP", "k", timeout))
			}
		}},
	})
}

// waiting waits until n connections are blocked.
func (s subject) waiting(t *testing.T, n int) {
	t.Helper()
	await.Until(t, fmt.Sprint(n, " connections wait"), func() bool { return s.blocked(t) == n })
}

// blocked returns the number of blocked connections.
func (s subject) blocked(t *testing.T) (n int) {
	t.Helper()
	info, err := s.Info(ctx, "clients").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "\nblocked_clients:")
	if _, err := fmt.Sscanf(after, "%d", &n); err != nil {
		t.Fatalf("%v of %q", err, info)
	}
	return n
}

// later starts a blocking call in the background, and returns a function that waits for its result.
func later[T any](t *testing.T, s subject, call func(c *redis.Conn) (T, error)) func() (T, error) {
	t.Helper()
	c := s.conn(t)
	var got T
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { got, err = call(c) })
	return func() (T, error) {
		wg.Wait()
		return got, err
	}
}

func blockNothing(t *testing.T, c subject) {
	is(t, int64(7))(c.RPush(ctx, "l", 1, 2, 3, 4, 5, 6, 7).Result())
	is(t, []string{"l", "1"})(c.BLPop(ctx, 0, "none", "l").Result())
	is(t, []string{"l", "7"})(c.BRPop(ctx, time.Second, "l").Result())
	is(t, "2")(c.BLMove(ctx, "l", "m", "LEFT", "RIGHT", 0).Result())
	is[any](t, "6")(c.do("BRPOPLPUSH", "l", "m", 0))
	key, values, err := c.BLMPop(ctx, 0, "LEFT", 2, "none", "l").Result()
	if key != "l" || !slices.Equal(values, []string{"3", "4"}) || err != nil {
		t.Errorf("BLMPOP: %s %v %v", key, values, err)
	}
	is(t, []string{"6", "2"})(c.LRange(ctx, "m", 0, -1).Result())
	c.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"},
		redis.Z{Score: 3, Member: "c"}, redis.Z{Score: 4, Member: "d"})
	is(t, &redis.ZWithKey{Key: "z", Z: redis.Z{Score: 1, Member: "a"}})(c.BZPopMin(ctx, 0,
		"none", "z").Result())
	is(t, &redis.ZWithKey{Key: "z", Z: redis.Z{Score: 4, Member: "d"}})(c.BZPopMax(ctx,
		time.Second, "z").Result())
	key, members, err := c.BZMPop(ctx, 0, "MAX", 5, "none", "z").Result()
	if key != "z" || !slices.Equal(members,
		[]redis.Z{{Score: 3, Member: "c"}, {Score: 2.5, Member: "b"}}) || err != nil {
		t.Errorf("BZMPOP: %s %v %v", key, members, err)
	}
	gone(t, c, "z")
}

func blockOnLists(t *testing.T, c subject) {
	first := later(t, c, func(c *redis.Conn) ([]string, error) {
		return c.BLPop(ctx, 0, "a", "b").Result()
	})
	c.waiting(t, 1)
	second := later(t, c, func(c *redis.Conn) ([]string, error) {
		return c.BRPop(ctx, time.Minute, "b").Result()
	})
	c.waiting(t, 2)
	is(t, int64(3))(c.RPush(ctx, "b", "x", "y", "z").Result())
	is(t, []string{"b", "x"})(first())
	is(t, []string{"b", "z"})(second())
	is(t, []string{"y"})(c.LRange(ctx, "b", 0, -1).Result())
	third := later(t, c, func(c *redis.Conn) (string, error) {
		key, values, err := c.BLMPop(ctx, 0, "RIGHT", 2, "a").Result()
		return fmt.Sprint(key, values), err
	})
	c.waiting(t, 1)
	is(t, "OK")(c.Rename(ctx, "b", "a").Result())
	is(t, "a[y]")(third())
	gone(t, c, "a")
}

func blockOnZSets(t *testing.T, c subject) {
	first := later(t, c, func(c *redis.Conn) (*redis.ZWithKey, error) {
		return c.BZPopMin(ctx, 0, "z", "y").Result()
	})
	c.waiting(t, 1)
	second := later(t, c, func(c *redis.Conn) (*redis.ZWithKey, error) {
		return c.BZPopMax(ctx, 0, "y").Result()
	})
	c.waiting(t, 2)
	third := later(t, c, func(c *redis.Conn) (string, error) {
		key, members, err := c.BZMPop(ctx, 0, "MIN", 2, "y").Result()
		return fmt.Sprint(key, members), err
	})
	c.waiting(t, 3)
	list := later(t, c, func(c *redis.Conn) ([]string, error) {
		return c.BLPop(ctx, 0, "y").Result()
	})
	c.waiting(t, 4)
	c.ZAdd(ctx, "y", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2, Member: "b"},
		redis.Z{Score: 3, Member: "c"})
	is(t, &redis.ZWithKey{Key: "y", Z: redis.Z{Score: 1, Member: "a"}})(first())
	is(t, &redis.ZWithKey{Key: "y", Z: redis.Z{Score: 3, Member: "c"}})(second())
	is(t, "y[{2 b}]")(third())
	is(t, int64(1))(c.LPush(ctx, "y", "v").Result())
	is(t, []string{"y", "v"})(list())
}

func blockMoves(t *testing.T, c subject) {
	first := later(t, c, func(c *redis.Conn) (string, error) {
		return c.BLMove(ctx, "a", "b", "LEFT", "RIGHT", 0).Result()
	})
	c.waiting(t, 1)
	second := later(t, c, func(c *redis.Conn) (string, error) {
		return c.Do(ctx, "BRPOPLPUSH", "b", "c", 0).Text()
	})
	c.waiting(t, 2)
	third := later(t, c, func(c *redis.Conn) ([]string, error) {
		return c.BLPop(ctx, 0, "c").Result()
	})
	c.waiting(t, 3)
	is(t, int64(2))(c.RPush(ctx, "a", "v", "w").Result())
	is(t, "v")(first())
	is(t, "v")(second())
	is(t, []string{"c", "v"})(third())
	is(t, int64(1))(c.Exists(ctx, "a", "b", "c").Result())
}

func blockTimeouts(t *testing.T, c subject) {
	began := time.Now()
	missing(t, c.BLPop(ctx, time.Second, "k"))
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("BLPOP waits %v, not a second", took)
	}
	began = time.Now()
	if _, err := c.do("BLPOP", "k", "0.05"); err != redis.Nil {
		t.Errorf("BLPOP: %v", err)
	}
	if took := time.Since(began); took < 45*time.Millisecond {
		t.Errorf("BLPOP waits %v, not 50 ms", took)
	}
	for _, args := range [][]any{
		{"BRPOP", "k", "0.01"}, {"BLMOVE", "k", "l", "LEFT", "LEFT", "0.01"},
		{"BRPOPLPUSH", "k", "l", "0.01"},
		{"BLMPOP", "0.01", "1", "k", "LEFT"}, {"BZPOPMIN", "k", "0.01"}, {"BZPOPMAX", "k", "0.01"},
		{"BZMPOP", "0.01", "1", "k", "MAX"},
	} {
		if got, err := c.do(args...); err != redis.Nil {
			t.Errorf("%v: %v, %v", args, got, err)
		}
	}
	is(t, int64(0))(c.Exists(ctx, "k", "l").Result())
}

// blockTransactions: a waiter is served from the state at the end of a transaction, and commands
// within a transaction do not wait.
func blockTransactions(t *testing.T, c subject) {
	first := later(t, c, func(c *redis.Conn) ([]string, error) {
		return c.BLPop(ctx, 0, "a").Result()
	})
	c.waiting(t, 1)
	second := later(t, c, func(c *redis.Conn) (*redis.ZWithKey, error) {
		return c.BZPopMin(ctx, 0, "z").Result()
	})
	c.waiting(t, 2)
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "m"})
		p.Del(ctx, "z")
		p.RPush(ctx, "a", "x")
		p.LPop(ctx, "a")
		p.RPush(ctx, "a", "y", "z")
		p.LPush(ctx, "a", "first")
		p.DBSize(ctx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	is(t, []string{"a", "first"})(first())
	is(t, []string{"y", "z"})(c.LRange(ctx, "a", 0, -1).Result())
	c.waiting(t, 1)
	is(t, int64(1))(c.ZAdd(ctx, "z", redis.Z{Score: 2, Member: "m"}).Result())
	is(t, &redis.ZWithKey{Key: "z", Z: redis.Z{Score: 2, Member: "m"}})(second())

	var taken *redis.StringSliceCmd
	var nothing *redis.StringSliceCmd
	var moved *redis.StringCmd
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		taken, nothing = p.BLPop(ctx, 0, "none", "a"), p.BRPop(ctx, 0, "none")
		moved = p.BLMove(ctx, "none", "a", "LEFT", "LEFT", 0)
		return nil
	}); err != redis.Nil {
		t.Fatal(err)
	}
	is(t, []string{"a", "y"})(taken.Result())
	missing(t, nothing)
	missing(t, moved)

	// When a waiter takes an element, the key counts as changed for connections that watch it.
	move := later(t, c, func(c *redis.Conn) (string, error) {
		return c.BLMove(ctx, "from", "to", "LEFT", "LEFT", 0).Result()
	})
	c.waiting(t, 1)
	watches := c.conn(t)
	is[any](t, "OK")(watches.Do(ctx, "WATCH", "to").Result())
	is(t, int64(1))(c.RPush(ctx, "from", "v").Result())
	is(t, "v")(move())
	is[any](t, "OK")(watches.Do(ctx, "MULTI").Result())
	missing(t, watches.Do(ctx, "EXEC"))
}

func blockUnblock(t *testing.T, c subject) {
	for _, how := range []string{"TIMEOUT", "ERROR"} {
		ids := make(chan int64, 1)
		wait := later(t, c, func(c *redis.Conn) ([]string, error) {
			ids <- c.ClientID(ctx).Val()
			return c.BLPop(ctx, 0, "k").Result()
		})
		id := await.For(t, "the client's id", ids)
		c.waiting(t, 1)
		if how == "TIMEOUT" {
			is(t, int64(1))(c.ClientUnblock(ctx, id).Result())
		} else {
			is(t, int64(1))(c.ClientUnblockWithError(ctx, id).Result())
		}
		_, err := wait()
		if how == "TIMEOUT" && err != redis.Nil || how == "ERROR" && (err == nil ||
			err.Error() != "UNBLOCKED client unblocked via CLIENT UNBLOCK") {
			t.Errorf("%s: %v", how, err)
		}
		is(t, int64(0))(c.ClientUnblock(ctx, id).Result())
	}
}

// blockOrder: the client that has waited longest is served first.
func blockOrder(t *testing.T, c subject) {
	const n = 20
	var waits []func() ([]string, error)
	for i := range n {
		waits = append(waits, later(t, c, func(c *redis.Conn) ([]string, error) {
			return c.BLPop(ctx, 0, "k", fmt.Sprint("k", i)).Result()
		}))
		c.waiting(t, i+1)
	}
	pipe := c.Pipeline()
	for i := range n {
		pipe.RPush(ctx, "k", i)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for i, wait := range waits {
		is(t, []string{"k", fmt.Sprint(i)})(wait())
	}
}

// blockQueue: every pushed element is taken exactly once.
func blockQueue(t *testing.T, c subject) {
	items := often(100)
	var mu sync.Mutex
	taken := map[string]int{}
	together(t, c, func(worker int, conn *redis.Conn) {
		for i := range items {
			if worker%2 == 0 {
				if err := conn.LPush(ctx, fmt.Sprint("q", i%3),
					fmt.Sprint(worker, ":", i)).Err(); err != nil {
					t.Error(err)
				}
				continue
			}
			got, err := conn.BRPop(ctx, await.Bound, "q0", "q1", "q2").Result()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			taken[got[1]]++
			mu.Unlock()
		}
	})
	for item, times := range taken {
		if times != 1 {
			t.Errorf("%s is taken %d times", item, times)
		}
	}
	if len(taken) != items*workers/2 {
		t.Errorf("%d of %d are taken", len(taken), items*workers/2)
	}
}

func blockErrors(t *testing.T, c subject) {
	const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	is(t, "OK")(c.Set(ctx, "s", "x", 0).Result())
	is(t, int64(1))(c.LPush(ctx, "l", "x").Result())
	fails(t, wrongType, c.BLPop(ctx, 0, "none", "s"))
	fails(t, wrongType, c.BLMove(ctx, "l", "s", "LEFT", "LEFT", 0))
	fails(t, wrongType, c.Do(ctx, "BRPOPLPUSH", "s", "l", 0))
	fails(t, wrongType, c.BZPopMin(ctx, 0, "l"))
	fails(t, wrongType, c.BLMPop(ctx, 0, "LEFT", 1, "s"))
	fails(t, wrongType, c.BZMPop(ctx, 0, "MIN", 1, "s"))
	fails(t, "ERR timeout is not a float or out of range", c.Do(ctx, "BLPOP", "k", "soon"))
	fails(t, "ERR timeout is negative", c.Do(ctx, "BRPOP", "k", "-1"))
	fails(t, "ERR numkeys should be greater than 0", c.Do(ctx, "BLMPOP", "0", "0", "k", "LEFT"))
	fails(t, "ERR count should be greater than 0",
		c.Do(ctx, "BZMPOP", "0", "1", "k", "MIN", "COUNT", "0"))
	fails(t, "ERR syntax error", c.Do(ctx, "BLMOVE", "k", "l", "LEFT", "UP", "0"))
}

func blockWakers(t *testing.T, c subject) {
	for _, way := range []struct {
		name string
		make func()
	}{
		{"LPUSH", func() { is(t, int64(1))(c.LPush(ctx, "l", "v").Result()) }},
		{"RENAME", func() {
			is(t, int64(1))(c.LPush(ctx, "other", "v").Result())
			is(t, "OK")(c.Rename(ctx, "other", "l").Result())
		}},
		{"COPY", func() {
			is(t, int64(1))(c.LPush(ctx, "other", "v").Result())
			is(t, int64(1))(c.Copy(ctx, "other", "l", 0, false).Result())
		}},
		{"MOVE", func() {
			is(t, int64(1))(c.other(1).LPush(ctx, "l", "v").Result())
			is(t, true)(c.other(1).Move(ctx, "l", 0).Result())
		}},
		{"LMOVE", func() {
			is(t, int64(1))(c.LPush(ctx, "another", "v").Result())
			is(t, "v")(c.LMove(ctx, "another", "l", "LEFT", "LEFT").Result())
		}},
		{"SORT STORE", func() {
			is(t, int64(1))(c.SAdd(ctx, "set", "v").Result())
			is(t, int64(1))(c.SortStore(ctx, "set", "l", &redis.Sort{Alpha: true}).Result())
		}},
		{"RESTORE", func() {
			is(t, int64(1))(c.LPush(ctx, "dumped", "v").Result())
			is(t, "OK")(c.Restore(ctx, "l", 0, c.Dump(ctx, "dumped").Val()).Result())
		}},
	} {
		l := later(t, c, func(c *redis.Conn) ([]string, error) {
			return c.BLPop(ctx, 0, "l").Result()
		})
		c.waiting(t, 1)
		is(t, "OK")(c.Set(ctx, "unrelated", way.name, 0).Result())
		way.make()
		if got, err := l(); err != nil || fmt.Sprint(got) != "[l v]" {
			t.Errorf("%s: %v, %v", way.name, got, err)
		}
		gone(t, c, "l")
	}
	// A key of another type does not end the wait.
	l := later(t, c, func(c *redis.Conn) ([]string, error) { return c.BLPop(ctx, 0, "l").Result() })
	c.waiting(t, 1)
	is(t, int64(1))(c.SAdd(ctx, "l", "member").Result())
	is(t, int64(1))(c.Del(ctx, "l").Result())
	is(t, int64(1))(c.RPush(ctx, "l", "v").Result())
	is(t, []string{"l", "v"})(l())
}

// blockContexts: a client that has given up takes no element from other clients.
func blockContexts(t *testing.T, s subject) {
	options := *s.Options()
	options.ContextTimeoutEnabled = true
	c := testkit.NewClient(t, &options)
	// On a busy machine the client may give up before the server gets its command.
	seen := false
	for life := 50 * time.Millisecond; !seen; life *= 4 {
		hurried, cancel := await.Hurried(ctx, life)
		ended := make(chan error, 1)
		go func() { ended <- c.BLPop(hurried, 0, "l").Err() }()
		var err error
		await.Until(t, "the client gives up", func() bool {
			seen = seen || s.blocked(t) == 1
			select {
			case err = <-ended:
				return true
			default:
				return false
			}
		})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("BLPOP after the context's end: %v", err)
		}
	}
	s.waiting(t, 0)
	is(t, int64(1))(s.RPush(ctx, "l", "v").Result())
	is(t, []string{"l", "v"})(s.BLPop(ctx, 0, "l").Result())
}
