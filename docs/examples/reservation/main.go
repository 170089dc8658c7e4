// Reservation limits requests as slidingwindow does, within any 60 seconds and per day, but with
// two scripts. Each script runs as a whole. So a request that gets no place has changed nothing,
// and nobody sees a place that is only partly reserved.
//
//	rate:minute:<client>              sorted set: request ids by the time they came
//	rate:daily:<client>:<yyyy-MM-dd>  counter, which ends at midnight
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed consume.lua
var consumeSource string

//go:embed release.lua
var releaseSource string

// The scripts. Run sends a script's digest. It sends the text only if the server does not know the
// digest: after SCRIPT FLUSH, or a restart.
var (
	consume = redis.NewScript(consumeSource)
	release = redis.NewScript(releaseSource)
)

// Limiter allows PerMinute requests of a client in any 60 seconds and PerDay on a day.
type Limiter struct {
	Redis     redis.Scripter
	PerMinute int
	PerDay    int
}

// The statuses that consume.lua returns.
const (
	allowed = iota
	minuteFull
	dayFull
)

// Verdict is the decision about a request: it is allowed, or may be tried again after Wait, or is
// refused until tomorrow (Daily).
type Verdict struct {
	Allowed bool
	Daily   bool
	Wait    time.Duration
}

func keys(client string, now time.Time) []string {
	return []string{"rate:minute:" + client, "rate:daily:" + client + ":" +
		now.Format(time.DateOnly)}
}

// Reserve takes a place for the request id, if there is one.
func (l Limiter) Reserve(ctx context.Context, client, id string, now time.Time) (Verdict, error) {
	year, month, day := now.Date()
	midnight := time.Date(year, month, day+1, 0, 0, 0, 0, now.Location())
	reply, err := consume.Run(ctx, l.Redis, keys(client, now),
		float64(now.UnixMilli())/1000, id, l.PerMinute, l.PerDay,
		int(midnight.Sub(now).Seconds())+1).Slice()
	if err != nil {
		return Verdict{}, err
	}
	return verdict(reply)
}

// verdict reads the script's reply.
func verdict(reply []any) (Verdict, error) {
	if len(reply) != 2 {
		return Verdict{}, fmt.Errorf("the script replied %v", reply)
	}
	switch status, _ := reply[0].(int64); status {
	case allowed:
		return Verdict{Allowed: true}, nil
	case minuteFull:
		seconds, ok := reply[1].(int64)
		if !ok {
			return Verdict{}, errors.New("the script gave no time to wait")
		}
		return Verdict{Wait: time.Duration(seconds) * time.Second}, nil
	default:
		return Verdict{Daily: true}, nil
	}
}

// Release gives back the place of a request whose work failed. It reports whether the request had
// one.
func (l Limiter) Release(ctx context.Context, client, id string, now time.Time) (bool, error) {
	return release.Run(ctx, l.Redis, keys(client, now), id).Bool()
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	client := redis.NewClient(&redis.Options{Addr: *addr})
	defer client.Close()
	if err := run(context.Background(), client, time.Now(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run sends requests of a client that may send three in any 60 seconds and five a day.
func run(ctx context.Context, client *redis.Client, now time.Time, out io.Writer) error {
	l := Limiter{Redis: client, PerMinute: 3, PerDay: 5}
	who := fmt.Sprintf("example-%d", now.UnixMilli())
	for i, after := range []int{0, 1, 2, 3, 60, 61, 62} {
		at := now.Add(time.Duration(after) * time.Second)
		v, err := l.Reserve(ctx, who, fmt.Sprint("request-", i), at)
		switch {
		case err != nil:
			return err
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
