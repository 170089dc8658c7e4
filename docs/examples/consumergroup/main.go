// Consumergroup shares the entries of a stream among workers. Each entry goes to one worker and
// stays pending until that worker has acknowledged it. If a worker dies, another one claims its
// entries after a while. An entry that fails too often is put aside.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Work is a stream of orders and the group of workers that handle them.
type Work struct {
	Redis  *redis.Client
	Stream string
	Group  string
	// Idle is the time for which an order is pending before another worker takes it over.
	Idle time.Duration
	// Tries is the number of deliveries of an order before it is put aside.
	Tries int64
}

func (w Work) failed() string { return w.Stream + ":failed" }

// Open creates the stream and the group, unless they exist.
func (w Work) Open(ctx context.Context) error {
	err := w.Redis.XGroupCreateMkStream(ctx, w.Stream, w.Group, "0").Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return err
}

// Add adds an order and returns its ID. The stream keeps about the last 10,000 orders.
func (w Work) Add(ctx context.Context, order string) (string, error) {
	return w.Redis.XAdd(ctx, &redis.XAddArgs{Stream: w.Stream, MaxLen: 10_000, Approx: true,
		Values: []string{"order", order}}).Result()
}

// Next returns an order for a worker: one that another worker has had for too long, or a new one,
// for which it waits. It returns nil if none came in time.
func (w Work) Next(ctx context.Context, worker string,
	wait time.Duration) (*redis.XMessage, error) {
	for {
		claimed, _, err := w.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: w.Stream, Group: w.Group, Consumer: worker, MinIdle: w.Idle,
			Start: "0", Count: 1,
		}).Result()
		if err != nil {
			return nil, err
		}
		if len(claimed) == 0 {
			break
		}
		hopeless, err := w.setAside(ctx, worker, claimed[0])
		if err != nil {
			return nil, err
		}
		if !hopeless {
			return &claimed[0], nil
		}
	}
	streams, err := w.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: w.Group, Consumer: worker, Streams: []string{w.Stream, ">"}, Count: 1, Block: wait,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &streams[0].Messages[0], nil
}

// setAside moves an order that was delivered too often to another stream. It reports whether it
// did.
func (w Work) setAside(ctx context.Context, worker string, m redis.XMessage) (bool, error) {
	pending, err := w.Redis.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: w.Stream, Group: w.Group, Start: m.ID, End: m.ID, Count: 1, Consumer: worker,
	}).Result()
	if err != nil || len(pending) == 0 || pending[0].RetryCount <= w.Tries {
		return false, err
	}
	_, err = w.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XAdd(ctx, &redis.XAddArgs{Stream: w.failed(), Values: m.Values})
		p.XAck(ctx, w.Stream, w.Group, m.ID)
		return nil
	})
	return true, err
}

// Done acknowledges an order.
func (w Work) Done(ctx context.Context, id string) error {
	return w.Redis.XAck(ctx, w.Stream, w.Group, id).Err()
}

// pending is the time after which other workers may take over an order.
const pending = 200 * time.Millisecond

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	w := Work{Redis: rdb, Stream: "orders", Group: "workers", Idle: pending, Tries: 3}
	if err := w.Open(ctx); err != nil {
		return err
	}
	for _, order := range []string{"tea", "coffee"} {
		if _, err := w.Add(ctx, order); err != nil {
			return err
		}
	}
	m, err := w.Next(ctx, "Ann", time.Second)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Ann takes %s and dies\n", m.Values["order"])
	for done := 0; done < 2; {
		m, err := w.Next(ctx, "Bob", pending)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		fmt.Fprintf(out, "Bob makes %s\n", m.Values["order"])
		if err := w.Done(ctx, m.ID); err != nil {
			return err
		}
		done++
	}
	left, err := rdb.XPending(ctx, w.Stream, w.Group).Result()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d are pending\n", left.Count)
	return nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
