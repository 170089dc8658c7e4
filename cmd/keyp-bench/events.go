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

// expiredChannel is the channel on which database 0 publishes the keys that expire.
const expiredChannel = "__keyevent@0__:expired"

// expireEvents makes keys expire over a while, and measures how long after each key's deadline a
// subscriber receives the event.
func expireEvents(b *bench, ctx context.Context, l line, t *target, round int) ([]reading, error) {
	client := t.dial(b.timeout)
	defer client.Close()
	if err := client.ConfigSet(ctx, "notify-keyspace-events", "Ex").Err(); err != nil {
		return nil, err
	}
	baseline, err := client.DBSize(ctx).Result()
	if err != nil {
		return nil, err
	}
	over := l.duration.Milliseconds()
	instant, err := b.loadBurst(ctx, t, l.keys, over, burstEarly, client, baseline)
	if err != nil {
		return nil, err
	}
	listener := t.dial(b.timeout)
	defer listener.Close()
	events := listener.Subscribe(ctx, expiredChannel)
	defer events.Close()
	if _, err := events.Receive(ctx); err != nil {
		return nil, fmt.Errorf("SUBSCRIBE: %w", err)
	}
	if late := clock.System.Now() - instant; late >= 0 {
		return nil, fmt.Errorf("the subscriber was ready %d ms after the first key expired", late)
	}
	receive := func() (string, error) {
		message, err := events.ReceiveTimeout(ctx, b.timeout)
		if err != nil {
			return "", err
		}
		if m, ok := message.(*redis.Message); ok {
			return m.Payload, nil
		}
		return fmt.Sprint(message), nil
	}
	received, err := receiveExpired(receive, deadlines{l.keys, instant, over})
	b.report.addFailure(l, t.name, round, int64(len(received.wrong)),
		errors.Join(received.wrong...))
	if err != nil {
		return nil, fmt.Errorf("after %d of %d events: %w", len(received.lateness), l.keys, err)
	}
	p50, p99, largest := quantiles(received.lateness)
	return []reading{
		{"lateness of an event p50", "ms", millis(p50)},
		{"lateness of an event p99", "ms", millis(p99)},
		{"lateness of an event max", "ms", millis(largest)},
	}, nil
}

// expiredEvents are the events that a subscriber received.
type expiredEvents struct {
	lateness []time.Duration // of each key
	wrong    []error         // a key that expired twice or too early
}

// receiveExpired receives the names of expired keys until it has received each key once. It ignores
// other names.
func receiveExpired(receive func() (string, error), d deadlines) (*expiredEvents, error) {
	got := &expiredEvents{}
	seen := make([]bool, d.keys)
	wall, mono := clock.System.Now(), clock.System.Mono()
	for uint64(len(got.lateness)) < d.keys {
		name, err := receive()
		if err != nil {
			return got, err
		}
		late := clock.System.Mono() - mono
		digits, own := strings.CutPrefix(name, ttlPrefix)
		key, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case !own || err != nil || key >= d.keys:
			continue
		case seen[key]:
			got.wrong = append(got.wrong, fmt.Errorf("%w: key %d expired twice", errWrong, key))
			continue
		}
		seen[key] = true
		late += time.Duration(wall-d.at(key)) * time.Millisecond
		if late < -2*time.Millisecond { // because wall is rounded down
			got.wrong = append(got.wrong, fmt.Errorf("%w: key %d expired %v before its deadline",
				errWrong, key, -late))
		}
		got.lateness = append(got.lateness, max(late, 0))
	}
	return got, nil
}
