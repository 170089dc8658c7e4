// Dailyusers notes the active users of a day under users:<yyyyMMdd>, with one bit per user number,
// so counts are exact. A day expires after 90 days.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Kept is the time for which a day is kept after its first user.
const Kept = 90 * 24 * time.Hour

// Days stores the users of each day.
type Days struct{ Redis *redis.Client }

func key(day time.Time) string { return "users:" + day.UTC().Format("20060102") }

// Seen notes that a user is active. Users have numbers from 0 on.
func (d Days) Seen(ctx context.Context, user int64, now time.Time) error {
	_, err := d.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SetBit(ctx, key(now), user, 1)
		p.ExpireNX(ctx, key(now), Kept)
		return nil
	})
	return err
}

// Active reports whether a user was active on a day.
func (d Days) Active(ctx context.Context, user int64, day time.Time) (bool, error) {
	bit, err := d.Redis.GetBit(ctx, key(day), user).Result()
	return bit == 1, err
}

// Count returns the number of users that were active on a day.
func (d Days) Count(ctx context.Context, day time.Time) (int64, error) {
	return d.Redis.BitCount(ctx, key(day), nil).Result()
}

// Returned returns the number of users that were active on both of two days.
func (d Days) Returned(ctx context.Context, first, second time.Time) (int64, error) {
	const both = "users:both"
	var n *redis.IntCmd
	_, err := d.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.BitOpAnd(ctx, both, key(first), key(second))
		n = p.BitCount(ctx, both, nil)
		p.Del(ctx, both)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n.Val(), nil
}

func run(ctx context.Context, rdb *redis.Client, now time.Time, out io.Writer) error {
	days := Days{rdb}
	yesterday := now.AddDate(0, 0, -1)
	for user := range int64(10) {
		if err := days.Seen(ctx, user, yesterday); err != nil {
			return err
		}
		if err := days.Seen(ctx, 2*user, now); err != nil {
			return err
		}
	}
	n, err := days.Count(ctx, now)
	if err != nil {
		return err
	}
	again, err := days.Returned(ctx, yesterday, now)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "active today: %d, of them yesterday too: %d\n", n, again)
	return nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, time.Now(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
