package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// noon is a time far from midnight, on a day that no other test uses.
var noon = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), noon, &out); err != nil {
		t.Fatal(err)
	}
	want := `second 0: allowed
second 1: allowed
second 2: allowed
second 3: wait 57s
second 60: allowed
second 61: allowed
second 62: no more today
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestReserve: concurrent clients together get no more reservations than the limit. A reservation
// that is given back frees its part of the limit once. Reservations survive a restart with their
// deadlines.
func TestReserve(t *testing.T) {
	server := testkit.Keyp(t)
	limiter := Limiter{server.Client(3), 20, 1000}
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for worker := range 10 {
		wg.Go(func() {
			for n := range 10 {
				id := fmt.Sprint(worker, "-", n)
				v, err := limiter.Reserve(t.Context(), "c", id,
					noon.Add(time.Duration(n)*time.Millisecond))
				if err != nil {
					t.Error(err)
				}
				if v.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	inMinute := limiter.Redis.ZCard(t.Context(), minuteKey("c")).Val()
	if n := allowed.Load(); n > 20 || n != inMinute {
		t.Errorf("%d of 100 requests are allowed and %d have a place, at most 20 may", n, inMinute)
	}
	today, err := limiter.Redis.Get(t.Context(), dailyKey("c", noon)).Int64()
	if err != nil || today != inMinute {
		t.Errorf("the day has %d requests, %v; the minute %d", today, err, inMinute)
	}
	for _, key := range []string{minuteKey("c"), dailyKey("c", noon)} {
		if ttl := limiter.Redis.TTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("%s has the time to live %v", key, ttl)
		}
	}
	ends := limiter.Redis.PExpireTime(t.Context(), dailyKey("c", noon)).Val()
	server.Kill()
	server.Start()
	if again := limiter.Redis.PExpireTime(t.Context(), dailyKey("c", noon)).Val(); again != ends {
		t.Errorf("the counter's deadline moved from %v to %v", ends, again)
	}
	if n := limiter.Redis.ZCard(t.Context(), minuteKey("c")).Val(); n != inMinute {
		t.Errorf("after a restart %d requests have a place, want %d", n, inMinute)
	}
}

func TestRelease(t *testing.T) {
	limiter := Limiter{testkit.Keyp(t).Client(2), 1, 10}
	reserve := func(id string, after time.Duration) Verdict {
		t.Helper()
		v, err := limiter.Reserve(t.Context(), "c", id, noon.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := reserve("a", 0); !v.Allowed {
		t.Fatalf("the first request: %+v", v)
	}
	if v := reserve("b", 1500*time.Millisecond); v.Allowed || v.Wait != 58500*time.Millisecond {
		t.Errorf("a request too many: %+v", v)
	}
	for range 2 {
		if err := limiter.Release(t.Context(), "c", "a", noon); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := limiter.Redis.Get(t.Context(), dailyKey("c", noon)).Int64(); n != 0 || err != nil {
		t.Errorf("after a release the day has %d requests, %v", n, err)
	}
	if err := limiter.Redis.ZScore(t.Context(), minuteKey("c"), "a").Err(); err != redis.Nil {
		t.Errorf("a released request is there: %v", err)
	}
	if v := reserve("c", 2*time.Second); !v.Allowed {
		t.Errorf("after a release: %+v", v)
	}
}
