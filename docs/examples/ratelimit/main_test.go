package main

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want := `log-in 1 allowed: true
log-in 2 allowed: true
log-in 3 allowed: true
log-in 4 allowed: true
log-in 5 allowed: true
log-in 6 allowed: false
log-in 7 allowed: false
an hour later allowed: true
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestAllow: requests that come at the same time are counted one by one, and the first sets the
// deadline. Neither later requests nor a restart change the deadline or the count.
func TestAllow(t *testing.T) {
	server := testkit.Keyp(t)
	limiter := Limiter{server.Client(3), 100}
	now := time.Date(2025, 9, 30, 10, 59, 59, 0, time.UTC)
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 15 {
				ok, err := limiter.Allow(t.Context(), "u1", "/api/profiles", now)
				if err != nil {
					t.Error(err)
				}
				if ok {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 100 {
		t.Errorf("%d of 150 requests were allowed, want 100", allowed.Load())
	}
	const key = "rate:u1:/api/profiles:2025093010"
	at := limiter.Redis.PExpireTime(t.Context(), key).Val()
	if left := time.Until(time.UnixMilli(at.Milliseconds())); left > time.Hour ||
		left < 59*time.Minute {
		t.Errorf("the counter ends in %v, want 1h", left)
	}
	server.Kill()
	server.Start()
	if ok, err := limiter.Allow(t.Context(), "u1", "/api/profiles", now); ok || err != nil {
		t.Errorf("after a restart a request over the limit: %v, %v", ok, err)
	}
	if again := limiter.Redis.PExpireTime(t.Context(), key).Val(); again != at {
		t.Errorf("the deadline moved from %v to %v", at, again)
	}
}
