// Ordertimeout returns the stock that unpaid orders have reserved. An order is a key with a
// deadline. When it expires, the server reports it in a stream, which a group of workers reads. An
// order that expires while no worker runs, or while the server is down, is still reported, once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The keys: order:<id> contains the number of pieces that an open order has reserved, and stock the
// number that are left. timeouts is the stream of orders that nobody has paid. An entry stays there
// at least until it is acknowledged.
const (
	stock  = "stock"
	stream = "timeouts"
	group  = "warehouse"
)

func key(order string) string { return "order:" + order }

// Orders manages orders, which are open until they are paid, for Patience at most.
type Orders struct {
	Redis    *redis.Client
	Patience time.Duration
}

// Prepare creates the rule that reports expired orders, and the group of its readers. Both are part
// of the data, so a second call changes nothing.
func (o Orders) Prepare(ctx context.Context) error {
	err := o.Redis.Do(ctx, "KEYP.OUTBOX", "SET", "orders", "PATTERN", key("*"), "STREAM", stream,
		"VALUE", 100).Err()
	if err != nil {
		return err
	}
	err = o.Redis.XGroupCreateMkStream(ctx, stream, group, "0").Err()
	if err != nil && redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return err
}

// Place reserves pieces for an order that is not paid yet.
func (o Orders) Place(ctx context.Context, order string, pieces int) error {
	_, err := o.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.DecrBy(ctx, stock, int64(pieces))
		p.Set(ctx, key(order), pieces, o.Patience)
		return nil
	})
	return err
}

// Pay ends an order. It returns false if the order has timed out before.
func (o Orders) Pay(ctx context.Context, order string) (bool, error) {
	n, err := o.Redis.Del(ctx, key(order)).Result()
	return n == 1, err
}

// Work returns the stock of timed-out orders. It is called by one of several workers, waits up to
// wait for the first entry, and returns the number of entries that it has handled. If a worker dies
// after it has read an entry, another worker gets that entry after idle.
func (o Orders) Work(ctx context.Context, worker string, wait, idle time.Duration) (int, error) {
	entries, _, err := o.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: stream, Group: group, Consumer: worker, MinIdle: idle, Start: "0", Count: 100,
	}).Result()
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		read, err := o.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: worker, Streams: []string{stream, ">"}, Count: 100, Block: wait,
		}).Result()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		entries = read[0].Messages
	}
	for i, entry := range entries {
		if err := o.giveBack(ctx, entry); err != nil {
			return i, err
		}
	}
	return len(entries), nil
}

// giveBack acknowledges an entry and returns its pieces; it does both or neither. If another worker
// has acknowledged the entry, it does nothing. So a worker may die at any time, and two workers may
// have the same entry.
var giveBack = redis.NewScript(`
	if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 1 then
		return redis.call('INCRBY', KEYS[2], ARGV[3])
	end`)

func (o Orders) giveBack(ctx context.Context, entry redis.XMessage) error {
	pieces, _ := entry.Values["value"].(string)
	if _, err := strconv.Atoi(pieces); err != nil {
		return fmt.Errorf("entry %s of %v: %w", entry.ID, entry.Values["key"], err)
	}
	err := giveBack.Run(ctx, o.Redis, []string{stream, stock}, group, entry.ID, pieces).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	orders := Orders{rdb, 200 * time.Millisecond}
	if err := orders.Prepare(ctx); err != nil {
		return err
	}
	if err := rdb.Set(ctx, stock, 10, 0).Err(); err != nil {
		return err
	}
	for order, pieces := range map[string]int{"paid": 2, "forgotten": 3} {
		if err := orders.Place(ctx, order, pieces); err != nil {
			return err
		}
	}
	left := func(when string) error {
		n, err := rdb.Get(ctx, stock).Int()
		fmt.Fprintf(out, "%s: %d in stock\n", when, n)
		return err
	}
	if err := left("two orders"); err != nil {
		return err
	}
	paid, err := orders.Pay(ctx, "paid")
	if err != nil {
		return err
	}
	n, err := orders.Work(ctx, "worker-1", time.Minute, time.Minute)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "paid in time: %v, timed out: %d\n", paid, n)
	return left("afterwards")
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
