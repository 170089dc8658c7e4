// Lock lets one worker at a time take an issue. issue_lock_<id> is set only if it does not exist,
// with a deadline. So the lock of a worker that died ends by itself.
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

// Timeout is the time after which a lock ends by itself: longer than any assignment takes.
const Timeout = 600 * time.Second

// Locks manages the locks of issues.
type Locks struct {
	Redis   *redis.Client
	Timeout time.Duration
}

func key(issue int) string { return fmt.Sprintf("issue_lock_%d", issue) }

// Acquire takes the lock of an issue. It returns false if another worker has it. Value and deadline
// are set in one step, so there is never a lock without a deadline.
func (l Locks) Acquire(ctx context.Context, issue int) (bool, error) {
	return l.Redis.SetNX(ctx, key(issue), "locked", l.Timeout).Result()
}

// Release releases the lock. Only its owner may do so, and only within Timeout.
func (l Locks) Release(ctx context.Context, issue int) error {
	return l.Redis.Del(ctx, key(issue)).Err()
}

// Assign does the work for the first issue that no other worker has. After success the lock stays
// until its deadline: no other worker needs the issue. After a failure Assign releases it, so that
// others can try.
func (l Locks) Assign(ctx context.Context, issues []int,
	work func(issue int) error) (assigned int, err error) {
	for _, issue := range issues {
		ok, err := l.Acquire(ctx, issue)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		if err := work(issue); err != nil {
			if releaseErr := l.Release(ctx, issue); releaseErr != nil {
				return 0, releaseErr
			}
			return 0, err
		}
		return issue, nil
	}
	return 0, nil
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	locks := Locks{rdb, Timeout}
	for _, worker := range []string{"first", "second", "third"} {
		issue, err := locks.Assign(ctx, []int{123, 124}, func(int) error { return nil })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s worker: issue %d\n", worker, issue)
	}
	if err := locks.Release(ctx, 123); err != nil {
		return err
	}
	return locks.Release(ctx, 124)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
