package e2e

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// workers is the number of concurrent clients in these tests.
const workers = 16

// often returns how often to repeat something: n times in long runs, otherwise less often. With
// -race everything is several times slower.
func often(n int) int {
	switch {
	case testkit.Race:
		return n / 3
	case testkit.Long():
		return n
	}
	return max(1, n/4)
}

func TestGoRedisConcurrency(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "INCR totals", run: incrTotals},
		{name: "one SETNX winner", run: oneWinner},
		{name: "one GETDEL winner", run: oneTaker},
		{name: "APPEND keeps every piece", run: appendPieces},
		{name: "MSET is whole", run: msetIsWhole},
		{name: "pipelines", run: pipelines},
		{name: "pipeline with errors", run: pipelineErrors},
		{name: "SCAN while keys come and go", run: scanWhileChanging},
		{name: "rename chain", run: renameChain},
		{name: "short deadlines in a loop", run: shortDeadlines},
	})
}

// together runs fn once per worker, each with its own connection, and waits for all.
func together(t *testing.T, s subject, fn func(worker int, c *redis.Conn)) {
	t.Helper()
	var wg sync.WaitGroup
	for worker := range workers {
		c := s.conn(t)
		wg.Go(func() { fn(worker, c) })
	}
	wg.Wait()
}

func incrTotals(t *testing.T, s subject) {
	rounds := often(60)
	together(t, s, func(worker int, c *redis.Conn) {
		for range rounds {
			for _, cmd := range []redis.Cmder{
				c.Incr(ctx, "one"), c.IncrBy(ctx, "many", int64(worker)), c.DecrBy(ctx, "down", 2),
				c.IncrByFloat(ctx, "halves", 0.5), c.Incr(ctx, fmt.Sprint("own:", worker)),
			} {
				if cmd.Err() != nil {
					t.Error(cmd)
					return
				}
			}
		}
	})
	is(t, fmt.Sprint(workers*rounds))(s.Get(ctx, "one").Result())
	is(t, fmt.Sprint(workers*(workers-1)/2*rounds))(s.Get(ctx, "many").Result())
	is(t, fmt.Sprint(-2*workers*rounds))(s.Get(ctx, "down").Result())
	is(t, fmt.Sprint(float64(workers*rounds)/2))(s.Get(ctx, "halves").Result())
	for worker := range workers {
		is(t, fmt.Sprint(rounds))(s.Get(ctx, fmt.Sprint("own:", worker)).Result())
	}
}

func oneWinner(t *testing.T, s subject) {
	const locks = 50
	won := make([]atomic.Int32, locks)
	var winner [locks]atomic.Int32
	together(t, s, func(worker int, c *redis.Conn) {
		for lock := range locks {
			ok, err := c.SetNX(ctx, fmt.Sprint("lock:", lock), worker, time.Minute).Result()
			if err != nil {
				t.Error(err)
			}
			if ok {
				won[lock].Add(1)
				winner[lock].Store(int32(worker))
			}
		}
	})
	for lock := range locks {
		key := fmt.Sprint("lock:", lock)
		if n := won[lock].Load(); n != 1 {
			t.Errorf("%s has %d winners", key, n)
		}
		is(t, fmt.Sprint(winner[lock].Load()))(s.Get(ctx, key).Result())
		expires(t, s, key, time.Minute)
	}
}

func oneTaker(t *testing.T, s subject) {
	const items = 100
	for item := range items {
		is(t, "OK")(s.Set(ctx, fmt.Sprint("item:", item), item, 0).Result())
	}
	var taken [items]atomic.Int32
	together(t, s, func(_ int, c *redis.Conn) {
		for item := range items {
			switch err := c.GetDel(ctx, fmt.Sprint("item:", item)).Err(); {
			case err == nil:
				taken[item].Add(1)
			case !errors.Is(err, redis.Nil):
				t.Error(err)
			}
		}
	})
	for item := range items {
		if n := taken[item].Load(); n != 1 {
			t.Errorf("item %d was taken %d times", item, n)
		}
	}
	is(t, int64(0))(s.DBSize(ctx).Result())
}

func appendPieces(t *testing.T, s subject) {
	rounds := often(50)
	together(t, s, func(worker int, c *redis.Conn) {
		for range rounds {
			if err := c.Append(ctx, "log", string(rune('a'+worker))).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	count := map[rune]int{}
	for _, r := range s.Get(ctx, "log").Val() {
		count[r]++
	}
	for worker := range workers {
		is(t, rounds)(count[rune('a'+worker)], nil)
	}
}

// msetIsWhole: no client ever sees a part of an MSET.
func msetIsWhole(t *testing.T, s subject) {
	keys := []string{"x", "y", "z"} // in different slots, so in different shards
	is(t, "OK")(s.MSet(ctx, "x", "0", "y", "0", "z", "0").Result())
	together(t, s, func(worker int, c *redis.Conn) {
		for round := range often(100) {
			if worker%2 == 0 {
				value := fmt.Sprint(worker*1000 + round)
				if err := c.MSet(ctx, "x", value, "y", value, "z", value).Err(); err != nil {
					t.Error(err)
				}
				continue
			}
			got, err := c.MGet(ctx, keys...).Result()
			if err != nil || got[0] == nil || got[0] != got[1] || got[1] != got[2] {
				t.Errorf("MGET shows a part of an MSET: %v, %v", got, err)
				return
			}
		}
	})
}

func pipelines(t *testing.T, s subject) {
	together(t, s, func(worker int, c *redis.Conn) {
		for round := range often(10) {
			checkPipeline(t, c, fmt.Sprintf("%d:%d:", worker, round))
		}
	})
	is(t, fmt.Sprint(workers*often(10)*100))(s.Get(ctx, "shared").Result())
}

// checkPipeline sends 300 commands at once, and checks that it gets their replies in order.
func checkPipeline(t *testing.T, c *redis.Conn, prefix string) {
	pipe := c.Pipeline()
	for i := range 100 {
		pipe.Set(ctx, prefix+fmt.Sprint(i), i, time.Minute)
		pipe.Incr(ctx, "shared")
		pipe.GetDel(ctx, prefix+fmt.Sprint(i))
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	last := int64(0)
	for i := range 100 {
		total, got := cmds[3*i+1].(*redis.IntCmd).Val(), cmds[3*i+2].(*redis.StringCmd).Val()
		if got != fmt.Sprint(i) || total <= last {
			t.Errorf("%s%d: got %q after total %d, then %d", prefix, i, got, last, total)
			return
		}
		last = total
	}
}

func pipelineErrors(t *testing.T, s subject) {
	cmds, err := s.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "k", "text", 0)
		p.Incr(ctx, "k")
		p.Do(ctx, "NOPE")
		p.Get(ctx, "none")
		p.Do(ctx, "SET", "k")
		p.Get(ctx, "k")
		return nil
	})
	if err == nil || len(cmds) != 6 {
		t.Fatalf("%d replies, error %v", len(cmds), err)
	}
	fails(t, "ERR value is not an integer or out of range", cmds[1])
	fails(t, "ERR unknown command 'NOPE', with args beginning with: ", cmds[2])
	missing(t, cmds[3])
	fails(t, "ERR wrong number of arguments for 'set' command", cmds[4])
	is(t, "text")(cmds[5].(*redis.StringCmd).Result())
}

// scanWhileChanging: SCAN returns every key that exists from its start to its end, while other keys
// come and go.
func scanWhileChanging(t *testing.T, s subject) {
	const stay = 500
	var want []string
	for i := range stay {
		key := fmt.Sprintf("stay:%03d", i)
		is(t, "OK")(s.Set(ctx, key, i, 0).Result())
		want = append(want, key)
	}
	stop := make(chan struct{})
	var changing sync.WaitGroup
	for worker := range 4 {
		c := s.conn(t)
		changing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				pipe := c.Pipeline()
				for j := range 20 {
					pipe.Set(ctx, fmt.Sprintf("go:%d:%d:%d", worker, i, j), "", time.Minute)
					pipe.Del(ctx, fmt.Sprintf("go:%d:%d:%d", worker, i-10, j))
				}
				if _, err := pipe.Exec(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		for _, count := range []int64{10, 1000} {
			if got := scanAll(t, s.Client, "stay:*", count); !slices.Equal(got, want) {
				t.Errorf("COUNT %d: SCAN shows %d of the %d keys that stay", count, len(got), stay)
			}
		}
	}
	close(stop)
	changing.Wait()
}

// renameChain: a key that is renamed all the time exists at every moment, exactly once.
func renameChain(t *testing.T, s subject) {
	const places = 4
	is(t, "OK")(s.Set(ctx, "place:0", "the one", 0).Result())
	var moved atomic.Int64
	together(t, s, func(worker int, c *redis.Conn) {
		for i := range often(80) {
			from, to := fmt.Sprint("place:", (worker+i)%places),
				fmt.Sprint("place:", (worker+i+1)%places)
			switch err := c.Rename(ctx, from, to).Err(); {
			case err == nil:
				moved.Add(1)
			case err.Error() != "ERR no such key":
				t.Error(err)
			}
			if n, err := c.Exists(ctx, "place:0", "place:1", "place:2",
				"place:3").Result(); err != nil || n != 1 {
				t.Errorf("the key exists %d times, %v", n, err)
				return
			}
		}
	})
	if moved.Load() == 0 {
		t.Error("no RENAME went through")
	}
}

// shortDeadlines: a lock that expires is free again at its deadline, and two clients never hold it
// at the same time.
func shortDeadlines(t *testing.T, s subject) {
	const want = 10 // turns to watch
	// life is the lifetime of the lock in ms. It is doubled if a machine is so busy that a reply
	// arrives after the lock's deadline.
	var life atomic.Int64
	life.Store(10)
	// A span is a time in which the lock is certainly held: from the reply until ttl after the
	// request.
	type span struct{ from, to time.Time }
	var mu sync.Mutex
	var held []span
	var turns atomic.Int32
	together(t, s, func(_ int, c *redis.Conn) {
		for end := time.Now().Add(await.Bound); turns.Load() < want && time.Now().Before(end); {
			ttl := time.Duration(life.Load()) * time.Millisecond
			asked := time.Now()
			ok, err := c.SetNX(ctx, "lock", "", ttl).Result()
			if err != nil {
				t.Error(err)
				return
			}
			// The server counts whole milliseconds, so the real lifetime may be up to one
			// millisecond shorter.
			if now := time.Now(); ok && now.Before(asked.Add(ttl-time.Millisecond)) {
				turns.Add(1)
				mu.Lock()
				held = append(held, span{now, asked.Add(ttl - time.Millisecond)})
				mu.Unlock()
			} else if ok {
				life.Store(2 * ttl.Milliseconds())
			}
		}
	})
	slices.SortFunc(held, func(a, b span) int { return a.from.Compare(b.from) })
	for i := 1; i < len(held); i++ {
		if held[i].from.Before(held[i-1].to) {
			t.Errorf("two clients hold the lock: until %v and from %v", held[i-1].to, held[i].from)
		}
	}
	if len(held) < want {
		t.Errorf("the lock was free only %d times in %v", len(held), await.Bound)
	}
	await.Until(t, "the lock expires", func() bool { return s.Exists(ctx, "lock").Val() == 0 })
}
