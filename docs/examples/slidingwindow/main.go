// Slidingwindow has two limits for requests: within any 60 seconds, and per day. A request reserves
// its place before it does its work, and gives the place back if the work fails.
//
//	rate:minute:<client>              sorted set: request ids by the time they came
//	rate:daily:<client>:<yyyy-MM-dd>  counter, which ends at midnight
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// window is the time for which a request counts. keep is the time for which the sorted set of a
// client is kept after its last request.
const (
	window = 60 * time.Second
	keep   = 90 * time.Second
)

// Limiter allows PerMinute requests of a client in any 60 seconds and PerDay on a day.
type Limiter struct {
	Redis     *redis.Client
	PerMinute int64
	PerDay    int64
}

// Verdict is the decision about a request: it is allowed, or may be tried again after Wait, or is
// refused until tomorrow (Daily).
type Verdict struct {
	Allowed bool
	Daily   bool
	Wait    time.Duration
}

func minuteKey(client string) string { return "rate:minute:" + client }

func dailyKey(client string, now time.Time) string {
	return "rate:daily:" + client + ":" + now.Format(time.DateOnly)
}

// seconds returns a time as a score: Unix seconds with a fraction.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Reserve takes a place for the request id and counts afterwards. So it never allows too many of
// several simultaneous requests.
func (l Limiter) Reserve(ctx context.Context, client, id string, now time.Time) (Verdict, error) {
	minute, daily := minuteKey(client), dailyKey(client, now)
	var inMinute, today *redis.IntCmd
	var ttl *redis.DurationCmd
	_, err := l.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRemRangeByScore(ctx, minute, "-inf",
			strconv.FormatFloat(seconds(now.Add(-window)), 'f', 3, 64))
		p.ZAdd(ctx, minute, redis.Z{Score: seconds(now), Member: id})
		p.Expire(ctx, minute, keep)
		inMinute = p.ZCard(ctx, minute)
		today = p.Incr(ctx, daily)
		ttl = p.TTL(ctx, daily)
		return nil
	})
	if err != nil {
		return Verdict{}, err
	}
	if ttl.Val() < 0 { // the first request of the day
		midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, now.Location())
		if err := l.Redis.Expire(ctx, daily, midnight.Sub(now)).Err(); err != nil {
			return Verdict{}, err
		}
	}
	switch {
	case today.Val() > l.PerDay:
		return Verdict{Daily: true}, l.Release(ctx, client, id, now)
	case inMinute.Val() > l.PerMinute:
		oldest, err := l.Redis.ZRangeWithScores(ctx, minute, 0, 0).Result()
		if err != nil {
			return Verdict{}, err
		}
		return Verdict{Wait: wait(oldest, now)}, l.Release(ctx, client, id, now)
	}
	return Verdict{Allowed: true}, nil
}

// wait returns the time until the oldest request no longer counts.
func wait(oldest []redis.Z, now time.Time) time.Duration {
	if len(oldest) == 0 {
		return 0
	}
	left := oldest[0].Score + window.Seconds() - seconds(now)
	return time.Duration(math.Round(left*1000)) * time.Millisecond
}

// Release gives a place back. A second call has no effect.
func (l Limiter) Release(ctx context.Context, client, id string, now time.Time) error {
	removed, err := l.Redis.ZRem(ctx, minuteKey(client), id).Result()
	if err != nil || removed == 0 {
		return err
	}
	return l.Redis.Decr(ctx, dailyKey(client, now)).Err()
}

func run(ctx context.Context, rdb *redis.Client, now time.Time, out io.Writer) error {
	scans := Limiter{Redis: rdb, PerMinute: 3, PerDay: 5}
	for n, after := range []int{0, 1, 2, 3, 60, 61, 62} {
		v, err := scans.Reserve(ctx, "192.168.1.1:a3b2c1d0", fmt.Sprint("request-", n),
			now.Add(time.Duration(after)*time.Second))
		if err != nil {
			return err
		}
		switch {
		case v.Allowed:
			fmt.Fprintf(out, "second %d: allowed\n", after)
		case v.Daily:
			fmt.Fprintf(out, "second %d: no more today\n", after)
		default:
			fmt.Fprintf(out, "second %d: wait %v\n", after, v.Wait)
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
