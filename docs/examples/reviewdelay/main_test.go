package main

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want :=
		"after 1m0s: false, PENDING\nafter 4m0s: false, PENDING\nafter 5m0s: true, READY_FOR_ASSIGNMENT\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestFirstFindCounts: many agents find the same issue at different times, and the delay counts
// from the first of them. This also holds if the server dies in between. The issue is forgotten a
// day later.
func TestFirstFindCounts(t *testing.T) {
	server := testkit.Keyp(t)
	reviews := Reviews{server.Client(3), Delay}
	first := time.Date(2025, 10, 21, 10, 0, 0, 0, time.UTC)
	if err := reviews.Found(t.Context(), 1582, 1583, first); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if err := reviews.Found(t.Context(), 1582, 9999,
				first.Add(time.Duration(n)*time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, status := range []string{Pending, Ready} {
		server.Kill()
		server.Start()
		want := map[string]string{"found_at": "2025-10-21T10:00:00Z", "pr_number": "1583",
			"status": status}
		if got := reviews.Redis.HGetAll(t.Context(), key(1582)).Val(); !maps.Equal(got, want) {
			t.Errorf("the hash is %v, want %v", got, want)
		}
		if ttl := reviews.Redis.TTL(t.Context(), key(1582)).Val(); ttl > Memory ||
			ttl < Memory-time.Minute {
			t.Errorf("it ends in %v, want %v", ttl, Memory)
		}
		early := first.Add(Delay - time.Second)
		if ok, err := reviews.Assignable(t.Context(), 1582, early); ok != (status == Ready) ||
			err != nil {
			t.Errorf("%s, a second too early: %v, %v", status, ok, err)
		}
		if ok, err := reviews.Assignable(t.Context(), 1582, first.Add(Delay)); !ok || err != nil {
			t.Errorf("%s, in time: %v, %v", status, ok, err)
		}
	}
}

// TestForgotten: an issue whose hash is gone is not assignable, and does not come back.
func TestForgotten(t *testing.T) {
	rdb := testkit.Keyp(t).Client(3)
	reviews := Reviews{rdb, Delay}
	now := time.Now()
	if ok, err := reviews.Assignable(t.Context(), 7, now); ok || err != nil {
		t.Errorf("never found: %v, %v", ok, err)
	}
	if err := reviews.Found(t.Context(), 7, 8, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if done, err := rdb.PExpire(t.Context(), key(7), 20*time.Millisecond).Result(); !done ||
		err != nil {
		t.Fatal(done, err)
	}
	await.Until(t, "the issue is forgotten", func() bool {
		n, err := rdb.DBSize(t.Context()).Result()
		return n == 0 && err == nil
	})
	if ok, err := reviews.Assignable(t.Context(), 7, now); ok || err != nil {
		t.Errorf("forgotten: %v, %v", ok, err)
	}
	if err := reviews.Found(t.Context(), 7, 8, now); err != nil {
		t.Fatal(err)
	}
	if err := reviews.Assigned(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if n := rdb.Exists(t.Context(), key(7)).Val(); n != 0 {
		t.Errorf("an assigned issue still waits")
	}
}
