// Recentevents keeps the events of the last minutes in a stream. The server removes events by their
// age, so nobody has to trim the stream. An event that the group of workers has not handled yet
// stays, however old it is.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Events is a stream of events that are kept for Age, and longer until Group has handled them.
type Events struct {
	Redis  *redis.Client
	Stream string
	Group  string
	Age    time.Duration
}

// Open creates the stream and its group, and sets how long events are kept. It may be called again.
func (e Events) Open(ctx context.Context) error {
	err := e.Redis.XGroupCreateMkStream(ctx, e.Stream, e.Group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return err
	}
	return e.Redis.Do(ctx, "XCFGSET", e.Stream, "MAXAGE", e.Age.Milliseconds(), "ACKED").Err()
}

// Add adds an event that happened at an instant, not before the last one. It returns its ID.
func (e Events) Add(ctx context.Context, at time.Time, text string) (string, error) {
	return e.Redis.XAdd(ctx, &redis.XAddArgs{
		Stream: e.Stream, ID: fmt.Sprintf("%d-*", at.UnixMilli()), Values: []string{"text", text},
	}).Result()
}

// Recent returns the texts of the events that are kept.
func (e Events) Recent(ctx context.Context) ([]string, error) {
	list, err := e.Redis.XRange(ctx, e.Stream, "-", "+").Result()
	var texts []string
	for _, m := range list {
		texts = append(texts, fmt.Sprint(m.Values["text"]))
	}
	return texts, err
}

// Handle gives the next event to a worker. It returns false if there is none.
func (e Events) Handle(ctx context.Context, worker string, handle func(text string)) (bool, error) {
	got, err := e.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: e.Group, Consumer: worker, Streams: []string{e.Stream, ">"}, Count: 1, Block: -1,
	}).Result()
	if err == redis.Nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m := got[0].Messages[0]
	handle(fmt.Sprint(m.Values["text"]))
	return true, e.Redis.XAck(ctx, e.Stream, e.Group, m.ID).Err()
}

func run(ctx context.Context, rdb *redis.Client, now time.Time, out io.Writer) error {
	events := Events{Redis: rdb, Stream: "events", Group: "mail", Age: 10 * time.Minute}
	if err := events.Open(ctx); err != nil {
		return err
	}
	for _, e := range []struct {
		ago  time.Duration
		text string
	}{{3 * time.Hour, "three hours ago"}, {2 * time.Hour, "two hours ago"}, {0, "now"}} {
		if _, err := events.Add(ctx, now.Add(-e.ago), e.text); err != nil {
			return err
		}
	}
	for {
		texts, err := events.Recent(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "kept: %s\n", strings.Join(texts, ", "))
		more, err := events.Handle(ctx, "w1", func(text string) {
			fmt.Fprintf(out, "handled: %s\n", text)
		})
		if err != nil || !more {
			return err
		}
	}
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, time.Now(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
