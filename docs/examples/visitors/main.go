// Visitors estimates the number of different visitors of a page on a day, under
// visitors:<page>:<yyyyMMdd>. It takes at most 12 KB for any number of visitors. A day expires
// after a month.
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

// Kept is the time for which a day is kept after its first visit.
const Kept = 31 * 24 * time.Hour

// Page counts the visitors of one page.
type Page struct {
	Redis *redis.Client
	Name  string
}

func (p Page) key(day time.Time) string {
	return "visitors:" + p.Name + ":" + day.UTC().Format("20060102")
}

// Visit notes a visitor. A second visit on the day changes nothing.
func (p Page) Visit(ctx context.Context, visitor string, now time.Time) error {
	key := p.key(now)
	_, err := p.Redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.PFAdd(ctx, key, visitor)
		pipe.ExpireNX(ctx, key, Kept) // the first visit of a day sets the deadline
		return nil
	})
	return err
}

// Visitors estimates the number of different visitors within a number of days, the last of which is
// day. The standard error is 0.81%.
func (p Page) Visitors(ctx context.Context, day time.Time, days int) (int64, error) {
	keys := make([]string, days)
	for i := range keys {
		keys[i] = p.key(day.AddDate(0, 0, -i))
	}
	return p.Redis.PFCount(ctx, keys...).Result()
}

func run(ctx context.Context, rdb *redis.Client, now time.Time, out io.Writer) error {
	page := Page{Redis: rdb, Name: "home"}
	yesterday := now.AddDate(0, 0, -1)
	for _, v := range []string{"ann", "bob", "ann"} {
		if err := page.Visit(ctx, v, yesterday); err != nil {
			return err
		}
	}
	for _, v := range []string{"bob", "cid"} {
		if err := page.Visit(ctx, v, now); err != nil {
			return err
		}
	}
	for days := 1; days <= 2; days++ {
		n, err := page.Visitors(ctx, now, days)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "days: %d, visitors: %d\n", days, n)
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
