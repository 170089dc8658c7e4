package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

// expireEvents makes keys expire over a while, and measures how long after each key's deadline a
// subscriber receives the event.
func expireEvents(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	client := s.dial()
	defer client.Close()
	if err := client.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		return nil, err
	}
	over := w.length.Milliseconds()
	instant, err := b.loadBurst(ctx, s, w.keys, over, client, 0)
	if err != nil {
		return nil, err
	}
	events := client.Subscribe(ctx, "__keyevent@0__:expired")
	defer events.Close()
	if _, err := events.Receive(ctx); err != nil {
		return nil, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	if late := clock.System.Now() - instant; late >= 0 {
		return nil, fmt.Errorf("the subscriber was ready %d ms after the first key expired", late)
	}
	lateness, err := receiveExpired(func() (string, error) {
		message, err := events.ReceiveTimeout(ctx, b.timeout)
		if m, ok := message.(*redis.Message); ok {
			return m.Payload, errors.Join(err, ctx.Err())
		}
		return "", errors.Join(err, ctx.Err())
	}, deadlines{w.keys, instant, over})
	p50, p99, largest := quantiles(lateness)
	return []reading{
		{"lateness of an event p50", "ms", millis(p50)},
		{"lateness of an event p99", "ms", millis(p99)},
		{"lateness of an event max", "ms", millis(largest)},
	}, err
}

// receiveExpired receives the names of expired keys until it has received each key once. It ignores
// other names. It returns how late the event of each key was, and errWrong for keys that expired
// twice or too early.
func receiveExpired(receive func() (string, error), d deadlines) ([]time.Duration, error) {
	var lateness []time.Duration
	var wrong error // the first one
	seen := make([]bool, d.keys)
	wall, mono := clock.System.Now(), clock.System.Mono()
	for uint64(len(lateness)) < d.keys {
		name, err := receive()
		if err != nil {
			return lateness, fmt.Errorf("after %d of %d events: %w", len(lateness), d.keys, err)
		}
		late := clock.System.Mono() - mono
		digits, own := strings.CutPrefix(name, ttlPrefix)
		key, err := strconv.ParseUint(digits, 10, 64)
		if !own || err != nil || key >= d.keys {
			continue
		}
		late += time.Duration(wall-d.at(key)) * time.Millisecond
		switch {
		case wrong != nil:
		case seen[key]:
			wrong = fmt.Errorf("%w: key %d expired twice", errWrong, key)
		case late < -2*time.Millisecond: // because wall is rounded down
			wrong = fmt.Errorf("%w: key %d expired %v before its deadline", errWrong, key, -late)
		}
		if !seen[key] {
			seen[key] = true
			lateness = append(lateness, max(late, 0))
		}
	}
	return lateness, wrong
}
