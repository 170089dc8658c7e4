package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestPauseStopsWriters: after the reply to CLIENT PAUSE … WRITE, no key changes before the pause
// ends. That holds also for commands that had begun: values stored in tasks beside the event loop,
// commands on very many keys, and scripts.
func TestPauseStopsWriters(t *testing.T) {
	t.Parallel()
	server := testkit.Keyp(t, "--enable-debug-command", "yes", "--busy-reply-threshold", "0")
	c := server.Client(3)
	const large = 1 << 20
	pairs, names := make([]any, 0, 2*10_000), make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("many:", i)
		pairs = append(pairs, names[i], i)
	}
	members := make([]any, 20_000)
	for i := range members {
		members[i] = i
	}
	is(t, int64(len(members)))(c.SAdd(ctx, "members", members...).Result())
	writers := []func(n int) error{
		func(n int) error {
			return c.Set(ctx, "large", strings.Repeat(fmt.Sprint(n%10), large+n%10), 0).Err()
		},
		func(n int) error {
			return c.SUnionStore(ctx, fmt.Sprint("union:", n%3), "members", "added").Err()
		},
		func(n int) error { return c.SAdd(ctx, "added", fmt.Sprint("m", n)).Err() },
		func(n int) error { return c.Copy(ctx, "large", fmt.Sprint("copy:", n%3), 0, true).Err() },
		func(n int) error {
			if n%2 == 0 {
				return c.MSet(ctx, pairs...).Err()
			}
			return c.Del(ctx, names...).Err()
		},
		func(n int) error {
			return c.Eval(ctx, "for i = 1, 20000 do redis.call('INCR', KEYS[1]) end return 1",
				[]string{"counter"}).Err()
		},
	}
	var wg sync.WaitGroup
	wrote, stop := make([]atomic.Int64, len(writers)), make(chan struct{})
	for i, write := range writers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := write(n); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
				wrote[i].Add(1)
			}
		})
	}
	defer wg.Wait()
	defer close(stop)
	for round := range often(12) {
		if t.Failed() {
			return
		}
		seen := make([]int64, len(wrote))
		for i := range wrote {
			seen[i] = wrote[i].Load()
		}
		await.Until(t, "some writers write", func() bool {
			return t.Failed() || wrote[round%len(wrote)].Load() > seen[round%len(wrote)]
		})
		is(t, "OK")(c.Do(ctx, "CLIENT", "PAUSE", 3_600_000, "WRITE").Text())
		first := digest(t, c)
		for range 2 {
			if next := digest(t, c); next != first {
				t.Errorf("in pause %d keys change: %s, then %s", round, first, next)
			}
		}
		is(t, true)(c.ClientUnpause(ctx).Result())
	}
}

// digest returns the number of keys and a digest of them all.
func digest(t *testing.T, c *redis.Client) string {
	t.Helper()
	n, err := c.DBSize(ctx).Result()
	sum, failed := c.Do(ctx, "DEBUG", "DIGEST").Text()
	if err != nil || failed != nil {
		t.Error(err, failed)
	}
	return fmt.Sprint(n, " keys, ", sum)
}

// TestPausedIsNotUnblocked: CLIENT UNBLOCK does not end a command that waits only for the end of
// CLIENT PAUSE. Redis does so since 8.2.
func TestPausedIsNotUnblocked(t *testing.T) {
	t.Parallel()
	server := testkit.Keyp(t)
	c, paused := server.Client(2), server.Client(2)
	conn := paused.Conn()
	defer conn.Close()
	id, err := conn.ClientID(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	is[any](t, "OK")(c.Do(ctx, "CLIENT", "PAUSE", "600000", "WRITE").Result())
	set := make(chan error, 1)
	go func() { set <- conn.Set(ctx, "k", "v", 0).Err() }()
	await.Until(t, "the client is held up", func() bool {
		list, err := c.Do(ctx, "CLIENT", "LIST", "ID", id).Text()
		return err == nil && strings.Contains(list, " flags=b ")
	})
	for _, how := range []string{"TIMEOUT", "ERROR"} {
		is[any](t, int64(0))(c.Do(ctx, "CLIENT", "UNBLOCK", id, how).Result())
	}
	is[any](t, "OK")(c.Do(ctx, "CLIENT", "UNPAUSE").Result())
	if err := await.For(t, "the write ends", set); err != nil {
		t.Error(err)
	}
}
