package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

const (
	// leaseKey begins the names of the leases that are handed over, from one client to the next.
	leaseKey = "bench-lease:"
	// leaseWaiters is how many clients wait for it at a time.
	leaseWaiters = 8
	// leaseHeld is for how many ms the lease lasts that is handed over at its deadline.
	leaseHeld = 5
)

// handedOver is the grant of a lease: which client has it, and when its reply came.
type handedOver struct {
	token, deadline int64
	at              time.Duration // of the monotonic clock
	wall            int64         // Unix ms
	err             error
}

// lease has clients wait for a lease, and measures how long after its release, and after its deadline, the next one has the reply.
func lease(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	client := t.dial(b.timeout)
	defer client.Close()
	var readings []reading
	for _, part := range []struct {
		what string
		ttl  int64
	}{{"release", 3_600_000}, {"deadline", leaseHeld}} {
		key := leaseKey + part.what
		late, err := handOver(ctx, l, t, client, b.timeout, key, part.ttl, part.what == "release")
		err = errors.Join(err, client.Del(ctx, key).Err())
		if err != nil {
			return nil, err
		}
		p50, p99, largest := quantiles(late)
		readings = append(readings,
			reading{"grant p50 after " + part.what, "ms", millis(p50)}, reading{"grant p99 after " + part.what, "ms", millis(p99)}, reading{"grant max after " + part.what, "ms", millis(largest)})
	}
	return readings, nil
}

// handOver has the lease go from client to client for as long as the workload lasts, and returns how long each grant took. Deadlines are
// instants of whole milliseconds, and so is what it takes from them: up to a millisecond is not seen.
func handOver(ctx context.Context, l line, t *target, client *redis.Client, timeout time.Duration, key string, ttl int64, releases bool) (late []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	grants := make(chan handedOver)
	done := make(chan struct{}, leaseWaiters)
	var waiters []*redis.Client
	for i := range leaseWaiters {
		c := t.dial(timeout)
		waiters = append(waiters, c)
		go func() {
			defer func() { done <- struct{}{} }()
			for n := 0; ctx.Err() == nil; n++ { // an owner that held it still would have the same lease again
				reply, err := c.Do(ctx, "KEYP.LEASE", "ACQUIRE", key, fmt.Sprint("owner-", i, "-", n), ttl, "WAIT", max(timeout.Milliseconds()/2, 1)).Int64Slice()
				if errors.Is(err, redis.Nil) {
					continue
				}
				g := handedOver{at: clock.System.Mono(), wall: clock.System.Now(), err: err}
				if err == nil {
					g.token, g.deadline = reply[0], reply[1]
				}
				select {
				case grants <- g:
				case <-ctx.Done():
				}
			}
		}()
	}
	defer func() {
		cancel()
		for _, c := range waiters { // who waits for a reply sees no context that ends
			err = errors.Join(err, c.Close())
		}
		for range leaseWaiters {
			<-done
		}
	}()
	var last handedOver
	var released time.Duration
	for end := clock.System.Mono() + l.duration; clock.System.Mono() < end; {
		var g handedOver
		select {
		case g = <-grants:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(timeout):
			return nil, errors.New("nobody has the lease")
		}
		switch {
		case g.err != nil:
			return nil, g.err
		case !releases && g.token < last.token: // its reply came earlier than one that was read before it
			continue
		case g.token <= last.token:
			return nil, fmt.Errorf("token %d was granted after %d", g.token, last.token)
		case releases && last.token > 0:
			late = append(late, g.at-released)
		case last.token > 0:
			late = append(late, time.Duration(max(g.wall-last.deadline, 0))*time.Millisecond)
		}
		if last = g; releases {
			released = clock.System.Mono()
			if err := client.Do(ctx, "KEYP.LEASE", "RELEASE", key, g.token).Err(); err != nil {
				return nil, err
			}
		}
	}
	return late, nil
}
