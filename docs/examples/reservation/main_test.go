package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
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

// registered works like register_script of the Python client: it sends the script's digest, and
// sends the text if the server does not know the digest.
type registered struct {
	client *redis.Client
	source string
}

func (s registered) call(ctx context.Context, keys []string, args ...any) *redis.Cmd {
	sum := sha1.Sum([]byte(s.source))
	cmd := s.client.EvalSha(ctx, hex.EncodeToString(sum[:]), keys, args...)
	if err := cmd.Err(); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		return s.client.Eval(ctx, s.source, keys, args...)
	}
	return cmd
}

// TestLimits: when 50 clients send many requests at once, exactly the permitted number is allowed.
// This holds in both protocols and for both ways to call a script, while scripts are flushed now
// and then.
func TestLimits(t *testing.T) {
	const clients, requests, perMinute = 50, 10, 20
	server := testkit.Keyp(t)
	for _, proto := range []int{2, 3} {
		for _, way := range []string{"Script.Run", "register_script"} {
			who := fmt.Sprint(way, proto)
			var taken, refused atomic.Int64
			var wg sync.WaitGroup
			for n := range clients {
				client := server.Client(proto)
				wg.Go(func() {
					for i := range requests {
						if n == 0 && i%3 == 1 {
							client.ScriptFlush(t.Context())
						}
						id := fmt.Sprint(n, "-", i)
						reply, err := reserve(t.Context(), client, way, who, id, perMinute, 1000)
						if err != nil {
							t.Error(err)
							return
						}
						v, err := verdict(reply)
						switch {
						case err != nil:
							t.Error(err)
						case v.Allowed:
							taken.Add(1)
						case v.Wait <= 0 || v.Wait > time.Minute:
							t.Errorf("%s: to wait %v", who, v.Wait)
						default:
							refused.Add(1)
						}
					}
				})
			}
			wg.Wait()
			client := server.Client(proto)
			inMinute := client.ZCard(t.Context(), keys(who, noon)[0]).Val()
			today, err := client.Get(t.Context(), keys(who, noon)[1]).Int64()
			if taken.Load() != perMinute || refused.Load() != clients*requests-perMinute ||
				inMinute != perMinute || today != perMinute || err != nil {
				t.Errorf("%s: %d taken, %d refused, %d in the minute, %d today, %v", who,
					taken.Load(), refused.Load(), inMinute, today, err)
			}
			for _, key := range keys(who, noon) {
				if ttl := client.TTL(t.Context(), key).Val(); ttl <= 0 {
					t.Errorf("%s: %s has the time to live %v", who, key, ttl)
				}
			}
		}
	}
}

// reserve runs the consuming script in one of the two ways.
func reserve(ctx context.Context, client *redis.Client, way, who, id string, perMinute,
	perDay int) ([]any, error) {
	args := []any{float64(noon.UnixMilli()) / 1000, id, perMinute, perDay, 12 * 60 * 60}
	if way == "Script.Run" {
		return consume.Run(ctx, client, keys(who, noon), args...).Slice()
	}
	return registered{client, consumeSource}.call(ctx, keys(who, noon), args...).Slice()
}

// TestDay: the limit per day also holds for 50 clients, and across a crash.
func TestDay(t *testing.T) {
	server := testkit.Keyp(t)
	try := func() (taken int64) {
		var n atomic.Int64
		var wg sync.WaitGroup
		for i := range 50 {
			client := server.Client(3)
			wg.Go(func() {
				v, err := Limiter{client, 1000, 30}.Reserve(t.Context(), "c", fmt.Sprint(i), noon)
				if err != nil {
					t.Error(err)
				}
				if v.Allowed {
					n.Add(1)
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	if n := try(); n != 30 {
		t.Errorf("%d of 50 requests are allowed, 30 may", n)
	}
	server.Kill()
	server.Start()
	if n := try(); n != 0 {
		t.Errorf("after a crash %d more are allowed", n)
	}
	if n := server.Client(2).ZCard(t.Context(), "rate:minute:c").Val(); n != 30 {
		t.Errorf("after a crash %d requests have a place", n)
	}
}

// TestRelease: a release frees a reservation once.
func TestRelease(t *testing.T) {
	l := Limiter{testkit.Keyp(t).Client(3), 1, 10}
	for _, step := range []struct {
		id      string
		allowed bool
	}{{"a", true}, {"b", false}} {
		if v, err := l.Reserve(t.Context(), "c", step.id, noon); err != nil ||
			v.Allowed != step.allowed {
			t.Fatalf("%s: %+v, %v", step.id, v, err)
		}
	}
	for i, want := range []bool{true, false} {
		if got, err := l.Release(t.Context(), "c", "a", noon); got != want || err != nil {
			t.Errorf("release %d: %v, %v", i+1, got, err)
		}
	}
	if v, err := l.Reserve(t.Context(), "c", "c", noon); err != nil || !v.Allowed {
		t.Errorf("after a release: %+v, %v", v, err)
	}
}
