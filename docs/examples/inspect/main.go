// Inspect looks at the keys of a server, as an operator does: how many keys each category has, and
// how long they live. It also makes a key permanent.
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

// Count returns the number of keys that match a pattern. Unlike KEYS it does not block the server.
// It may count a key twice that is deleted and set again meanwhile.
func Count(ctx context.Context, rdb *redis.Client, pattern string) (n int, err error) {
	keys := rdb.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		n++
	}
	return n, keys.Err()
}

// Lifetime describes in words how long a key lives.
func Lifetime(ctx context.Context, rdb *redis.Client, key string) (string, error) {
	switch ttl, err := rdb.TTL(ctx, key).Result(); {
	case err != nil:
		return "", err
	case ttl == -2:
		return "does not exist", nil
	case ttl == -1:
		return "lives for ever", nil
	default:
		return "lives for " + ttl.Round(time.Minute).String(), nil
	}
}

func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	for key, ttl := range map[string]time.Duration{
		"session:u1:a": time.Hour, "session:u2:b": time.Hour,
		"blacklist:access:x": 15 * time.Minute,
		"cache:profile:u1":   5 * time.Minute, "rate:u1:/api/profiles:2025093010": time.Hour,
	} {
		if err := rdb.Set(ctx, key, "…", ttl).Err(); err != nil {
			return err
		}
	}
	total, err := rdb.DBSize(ctx).Result()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "keys:", total)
	for _, pattern := range []string{"session:*", "blacklist:*", "cache:*", "rate:*"} {
		n, err := Count(ctx, rdb, pattern)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, pattern, n)
	}
	if err := rdb.Expire(ctx, "session:u2:b", 2*time.Hour).Err(); err != nil { // longer
		return err
	}
	if err := rdb.Persist(ctx, "cache:profile:u1").Err(); err != nil { // for ever
		return err
	}
	for _, key := range []string{"session:u1:a", "session:u2:b", "cache:profile:u1",
		"session:u3:c"} {
		life, err := Lifetime(ctx, rdb, key)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, key, life)
	}
	return nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	rdb := redis.NewClient(&redis.Options{Addr: *addr})
	if err := run(context.Background(), rdb, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
