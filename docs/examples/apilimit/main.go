// Apilimit limits the requests of an API's clients: per second, with bursts, and per day, until
// midnight. One command checks both: a request counts for both or for none.
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

// Limiter allows PerSecond requests a second, Burst of them at once, and PerDay until midnight.
type Limiter struct {
	Redis                    *redis.Client
	Burst, PerSecond, PerDay int64
}

// Verdict is the decision about a request.
type Verdict struct {
	Allowed  bool
	Limit    int           // the number of the one that refuses, from 1
	Retry    time.Duration // when to try again
	LeftADay int64
}

// Allow counts a request of a client at an instant, whose day (UTC) it counts for.
func (l Limiter) Allow(ctx context.Context, client string, now time.Time) (Verdict, error) {
	midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	reply, err := l.Redis.Do(ctx, "KEYP.LIMIT", "TAKE", "api:"+client, 1,
		"TOKENS", l.Burst, l.PerSecond, 1000,
		"UNTIL", l.PerDay, midnight.UnixMilli()).Slice()
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Allowed: reply[0].(int64) == 1, Limit: int(reply[1].(int64))}
	v.Retry = time.Duration(reply[2].(int64)) * time.Millisecond
	v.LeftADay = reply[3].([]any)[1].(int64)
	return v, nil
}

func run(ctx context.Context, rdb *redis.Client, now time.Time, out io.Writer) error {
	limiter := Limiter{Redis: rdb, Burst: 3, PerSecond: 1, PerDay: 2}
	for n := range 3 {
		v, err := limiter.Allow(ctx, "c1", now)
		if err != nil {
			return err
		}
		if v.Allowed {
			fmt.Fprintf(out, "request %d: allowed, %d more today\n", n+1, v.LeftADay)
		} else {
			fmt.Fprintf(out, "request %d: refused by limit %d, %d more today\n", n+1,
				v.Limit, v.LeftADay)
		}
	}
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
