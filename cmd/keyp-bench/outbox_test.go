package main

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestPassOver: entries of keys that were loaded too late, and have expired since, are not taken for those of the keys that
// were loaded after them.
func TestPassOver(t *testing.T) {
	ctx, c := await.Context(t), testkit.Keyp(t).Client(2)
	for _, command := range [][]any{
		{"KEYP.OUTBOX", "SET", outboxName, "PATTERN", ttlPrefix + "*", "STREAM", outboxStream},
		{"XGROUP", "CREATE", outboxStream, outboxGroup, "0", "MKSTREAM"},
		{"SET", ttlPrefix + "1", "v", "PXAT", 1},
		{"SET", ttlPrefix + "2", "v", "PX", 1},
	} {
		if err := c.Do(ctx, command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the key has expired", func() bool { return c.Exists(ctx, ttlPrefix+"2").Val() == 0 })
	read := func() error {
		return c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: outboxGroup, Consumer: "c", Streams: []string{outboxStream, ">"}, Block: -1}).Err()
	}
	if err := passOver(ctx, c, clock.System.Now()+await.Bound.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	if err := read(); !errors.Is(err, redis.Nil) {
		t.Errorf("the group has something to read: %v", err)
	}
	if err := c.Set(ctx, ttlPrefix+"3", "v", 1).Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the entry of a later key is read", func() bool { return read() == nil })
}
