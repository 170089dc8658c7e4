package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	if want :=
		"two orders: 5 in stock\npaid in time: true, timed out: 1\nafterwards: 8 in stock\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestNothingIsLost: a worker dies after it has read some expired orders, and orders expire while
// the server is down. Everything that the expired orders had reserved is given back exactly once.
func TestNothingIsLost(t *testing.T) {
	server := testkit.Keyp(t)
	orders := Orders{server.Client(3), 50 * time.Millisecond}
	if err := orders.Redis.Set(t.Context(), stock, 100, 0).Err(); err != nil {
		t.Fatal(err)
	}
	place := func(from, to int) {
		for i := from; i < to; i++ {
			if err := orders.Place(t.Context(), fmt.Sprint(i), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // again changes nothing
		if err := orders.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	place(0, 20)
	await.Until(t, "a worker reads entries, and dies", func() bool {
		read, err := orders.Redis.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: group, Consumer: "dead", Streams: []string{stream, ">"}, Count: 5, Block: -1,
		}).Result()
		return err == nil && len(read[0].Messages) > 0
	})
	place(20, 40)
	server.Kill()
	server.Start()
	done := 0
	await.Until(t, "all pieces are given back", func() bool {
		n, err := orders.Work(t.Context(), "worker", -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		done += n
		left, err := orders.Redis.Get(t.Context(), stock).Int()
		return err == nil && left >= 100
	})
	if left, err := orders.Redis.Get(t.Context(), stock).Int(); err != nil ||
		left != 100 || done != 40 {
		t.Errorf("%d in stock after %d orders, %v", left, done, err)
	}
	if n, err := orders.Work(t.Context(), "worker", -1, 0); err != nil || n != 0 {
		t.Errorf("%d orders more, %v", n, err)
	}
}
