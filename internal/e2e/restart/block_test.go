package restart

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// queueTest is a server with two queues, with clients that push items and clients that wait for
// items. Each pusher numbers its items ("0:17") and uses one queue.
type queueTest struct {
	t        *testing.T
	server   *testkit.Server
	pushers  [6]pusher
	poppers  [3]taker // BLPOP and BLMPOP
	movers   [2]taker // BLMOVE to "moved"
	ends     int
	minimum  int // items that make a round
	progress chan struct{}
}

// pusher is a client that pushes.
type pusher struct {
	next  int
	acked []int // numbers that the server acknowledged
}

// taker is a client that waits, with the items it got, in order.
type taker struct{ got []string }

// TestBlockingOverKills lets clients push and wait while the server is killed again and again. No
// acknowledged item is delivered twice. The only items that may be lost were on their way to a
// client when the server ended. All delivered items are in order.
func TestBlockingOverKills(t *testing.T) {
	rounds := 6
	if n, err := strconv.Atoi(os.Getenv("KEYP_KILLS")); err == nil {
		rounds = max(rounds, n/10)
	}
	q := &queueTest{t: t, server: testkit.Keyp(t, "--wal-segment-size", "64kb",
		"--checkpoint-log-size", "1mb"), minimum: 150}
	for round := range rounds {
		q.round(round%3 == 2)
		q.server.Start()
	}
	q.check()
}

// round lets all clients work until some items have come through, and then ends the server.
func (q *queueTest) round(stop bool) {
	q.progress = make(chan struct{}, 1<<16)
	var all sync.WaitGroup
	for i := range q.pushers {
		all.Go(func() { q.push(i) })
	}
	for i := range q.poppers {
		all.Go(func() {
			q.take(&q.poppers[i], func(c *redis.Conn) (string, error) {
				if i == 0 {
					_, got, err := c.BLMPop(ctx, 0, "LEFT", 1, "q1", "q0").Result()
					return strings.Join(got, " "), err
				}
				got, err := c.BLPop(ctx, time.Minute, "q0", "q1").Result()
				if err != nil {
					return "", err
				}
				return got[1], nil
			})
		})
	}
	for i := range q.movers {
		all.Go(func() {
			q.take(&q.movers[i], func(c *redis.Conn) (string, error) {
				return c.BLMove(ctx, fmt.Sprint("q", i), "moved", "LEFT", "RIGHT", 0).Result()
			})
		})
	}
	for range q.minimum {
		await.For(q.t, "a client makes progress", q.progress)
	}
	if stop {
		q.server.Stop()
	} else {
		q.server.Kill()
	}
	all.Wait()
	q.ends++
}

func queueOf(pusher int) string { return fmt.Sprint("q", pusher%2) }

// push pushes items until the server has gone.
func (q *queueTest) push(i int) {
	client := q.server.Client(2 + i%2)
	defer client.Close()
	for p := &q.pushers[i]; ; {
		n := p.next
		p.next++
		if err := client.RPush(ctx, queueOf(i), fmt.Sprint(i, ":", n)).Err(); err != nil {
			return
		}
		p.acked = append(p.acked, n)
	}
}

// take takes items until the server has gone.
func (q *queueTest) take(w *taker, next func(*redis.Conn) (string, error)) {
	client := q.server.Client(3)
	defer client.Close()
	c := client.Conn()
	defer c.Close()
	for {
		item, err := next(c)
		if errors.Is(err, redis.Nil) {
			q.t.Error("the time is up, although items come")
		}
		if err != nil {
			return
		}
		w.got = append(w.got, item)
		select {
		case q.progress <- struct{}{}:
		default:
		}
	}
}

// check checks that every item was delivered, is still in its queue, or may be lost.
func (q *queueTest) check() {
	t := q.t
	c := q.server.Client(2)
	list := func(key string) []string {
		items, err := c.LRange(ctx, key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		return items
	}
	where := map[string]string{}
	note := func(place string, items []string) {
		for _, item := range items {
			if before := where[item]; before != "" {
				t.Errorf("%s is in %s and in %s", item, before, place)
			}
			where[item] = place
		}
		q.inOrder(place, items)
	}
	moved := list("moved")
	note("moved", moved)
	for i := range q.poppers {
		note(fmt.Sprint("popper ", i), q.poppers[i].got)
	}
	last := map[int]int{} // the last number of each pusher that was taken
	for item := range where {
		i, n := number(t, item)
		last[i] = max(last[i], n)
	}
	for i := range q.movers {
		q.inOrder(fmt.Sprint("mover ", i), q.movers[i].got)
		for _, item := range q.movers[i].got {
			if !slices.Contains(moved, item) {
				t.Errorf("mover %d got %s, which is not moved", i, item)
			}
		}
	}
	for _, queue := range []string{"q0", "q1"} {
		left := list(queue)
		note(queue, left)
		for _, item := range left {
			if i, n := number(t, item); n < last[i] {
				t.Errorf("%s is left, although %d:%d was taken", item, i, last[i])
			}
		}
	}
	lost, acked := 0, 0
	for i := range q.pushers {
		acked += len(q.pushers[i].acked)
		for _, n := range q.pushers[i].acked {
			if where[fmt.Sprint(i, ":", n)] == "" {
				lost++
			}
		}
	}
	if most := q.ends * len(q.poppers); lost > most {
		t.Errorf("%d items are lost; no more than %d can have been on their way", lost, most)
	}
	// The last item that each pusher sent before an end may have been taken without being
	// acknowledged.
	if acked < q.ends*(q.minimum-len(q.pushers)) {
		t.Errorf("%d items were pushed", acked)
	}
	t.Logf("%d items over %d ends of the server, %d lost on their way to a client",
		acked, q.ends, lost)
}

// inOrder checks that the items of each pusher are in the order in which the client pushed them.
func (q *queueTest) inOrder(place string, items []string) {
	last := map[int]int{}
	for _, item := range items {
		i, n := number(q.t, item)
		if before, any := last[i]; any && n <= before {
			q.t.Errorf("%s: %s comes behind %d:%d", place, item, i, before)
		}
		last[i] = n
		if n >= q.pushers[i].next {
			q.t.Errorf("%s: nobody pushed %s", place, item)
		}
	}
}

func number(t *testing.T, item string) (pusher, n int) {
	t.Helper()
	if _, err := fmt.Sscanf(item, "%d:%d", &pusher, &n); err != nil {
		t.Fatalf("%q: %v", item, err)
	}
	return pusher, n
}
