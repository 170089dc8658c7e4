// Reviewdelay waits some minutes before it assigns an issue that asks for a review, so that its
// author can still change it. review_delay_<id> is a hash with the time when the issue was found
// first. It expires after a day.
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

// Delay is the time for which a review waits, Memory the time for which an issue is remembered.
const (
	Delay  = 5 * time.Minute
	Memory = 24 * time.Hour
)

// The values of the field status.
const (
	Pending = "PENDING"
	Ready   = "READY_FOR_ASSIGNMENT"
)

// Reviews manages the issues that wait for a review.
type Reviews struct {
	Redis *redis.Client
	Delay time.Duration
}

func key(issue int) string { return fmt.Sprintf("review_delay_%d", issue) }

// Found notes that an issue asks for a review. Only the first call counts: none of these commands
// changes existing data. So the call may be repeated, and its caller may die half-way.
func (r Reviews) Found(ctx context.Context, issue, pull int, at time.Time) error {
	_, err := r.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, key(issue), "found_at", at.UTC().Format(time.RFC3339))
		p.HSetNX(ctx, key(issue), "pr_number", pull)
		p.HSetNX(ctx, key(issue), "status", Pending)
		p.ExpireNX(ctx, key(issue), Memory)
		return nil
	})
	return err
}

// Assignable reports whether an issue has waited for long enough, and notes it. It returns false if
// the issue was never found, or was found more than a day ago.
func (r Reviews) Assignable(ctx context.Context, issue int, now time.Time) (bool, error) {
	var wait struct {
		FoundAt string `redis:"found_at"`
		Status  string `redis:"status"`
	}
	if err := r.Redis.HMGet(ctx, key(issue), "found_at", "status").Scan(&wait); err != nil {
		return false, err
	}
	if wait.FoundAt == "" || wait.Status == Ready {
		return wait.Status == Ready, nil
	}
	found, err := time.Parse(time.RFC3339, wait.FoundAt)
	if err != nil {
		return false, err
	}
	if now.Sub(found) < r.Delay {
		return false, nil
	}
	// FXX sets the field only if it still exists. Otherwise a hash that has expired meanwhile would
	// come back, without a deadline.
	set, err := r.Redis.HSetEXWithArgs(ctx, key(issue),
		&redis.HSetEXOptions{Condition: redis.HSetEXFXX}, "status", Ready).Result()
	return set == 1, err
}

// Assigned forgets an issue that was assigned to somebody.
func (r Reviews) Assigned(ctx context.Context, issue int) error {
	return r.Redis.Del(ctx, key(issue)).Err()
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	reviews := Reviews{rdb, Delay}
	found := time.Date(2025, 10, 21, 10, 0, 0, 0, time.UTC)
	if err := reviews.Found(ctx, 1582, 1583, found); err != nil {
		return err
	}
	for _, waited := range []time.Duration{time.Minute, 4 * time.Minute, 5 * time.Minute} {
		ok, err := reviews.Assignable(ctx, 1582, found.Add(waited))
		if err != nil {
			return err
		}
		fields, err := rdb.HGetAll(ctx, key(1582)).Result()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "after %v: %v, %s\n", waited, ok, fields["status"])
	}
	return reviews.Assigned(ctx, 1582)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
