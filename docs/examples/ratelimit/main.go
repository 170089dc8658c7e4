// Ratelimit counts the requests of a user to an endpoint within each hour, under
// rate:<user>:<endpoint>:<yyyyMMddHH>. Each hour has its own key; old keys expire.
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

// Limiter allows Limit requests per user, endpoint and hour.
type Limiter struct {
	Redis *redis.Client
	Limit int64
}

func key(user, endpoint string, now time.Time) string {
	return "rate:" + user + ":" + endpoint + ":" + now.UTC().Format("2006010215")
}

// Allow counts a request and reports whether it is within the limit.
func (l Limiter) Allow(ctx context.Context, user, endpoint string, now time.Time) (bool, error) {
	k := key(user, endpoint, now)
	var count *redis.IntCmd
	// Both commands are sent at once, and NX sets the deadline only if there is none. So no
	// crash in between leaves a counter that never ends.
	_, err := l.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		count = p.Incr(ctx, k)
		p.ExpireNX(ctx, k, time.Hour)
		return nil
	})
	if err != nil {
		return false, err
	}
	return count.Val() <= l.Limit, nil
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	logins := Limiter{Redis: rdb, Limit: 5}
	now := time.Now()
	for n := range 7 {
		ok, err := logins.Allow(ctx, "192.168.1.100", "/auth/login", now)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "log-in %d allowed: %v\n", n+1, ok)
	}
	ok, err := logins.Allow(ctx, "192.168.1.100", "/auth/login", now.Add(time.Hour))
	fmt.Fprintf(out, "an hour later allowed: %v\n", ok)
	return err
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
