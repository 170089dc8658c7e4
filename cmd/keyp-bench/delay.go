package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

const (
	// delayKey begins the names of the queues.
	delayKey = "bench-delay:"
	// delayClients is how many clients add jobs, have them delivered and acknowledge them.
	delayClients = 50
	// delayBatch is how many jobs each of them has at a time, where it has several.
	delayBatch = 10
	// delayWaiters is how many clients wait for jobs to be due, and delayRate how many jobs are due a second then.
	delayWaiters = 8
	delayRate    = 1000
	// delayAhead is how many ms ahead they are added.
	delayAhead = 200
	// delayBlock is how many ms a client waits at a time: when all jobs are done, it sees that after this.
	delayBlock = 500
)

// delay has clients add jobs that are due, have them delivered and acknowledge them, and measures how many they get done; then how
// late those are that are due later, for clients that wait.
func delay(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	client := t.dial(b.timeout)
	defer client.Close()
	var readings []reading
	for _, size := range []int{1, delayBatch} {
		key := delayKey + "work"
		rate, err := workOff(ctx, l, t, b.timeout, key, size)
		if err = errors.Join(err, client.Del(ctx, key).Err()); err != nil {
			return nil, err
		}
		readings = append(readings, reading{fmt.Sprintf("jobs done, %d at a time", size), "1/s", rate})
	}
	key := delayKey + "due"
	late, err := awaitJobs(ctx, l, t, client, b.timeout, key)
	if err = errors.Join(err, client.Del(ctx, key).Err()); err != nil {
		return nil, err
	}
	p50, p99, largest := quantiles(late)
	return append(readings,
		reading{"late p50", "ms", millis(p50)}, reading{"late p99", "ms", millis(p99)}, reading{"late max", "ms", millis(largest)}), nil
}

// workOff returns how many jobs a second are added, delivered and acknowledged, each client having size of them at a time.
func workOff(ctx context.Context, l line, t *target, timeout time.Duration, key string, size int) (perSecond float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	payload := strings.Repeat("x", 100)
	began := clock.System.Mono()
	for i := range delayClients {
		wg.Go(func() {
			c := t.dial(timeout)
			defer c.Close()
			for n := 0; clock.System.Mono() < began+l.duration && ctx.Err() == nil; n++ {
				acked, err := workOnce(ctx, c, key, fmt.Sprint(i, "-", n, "-"), payload, size)
				if err != nil {
					cancel(err)
				}
				done.Add(acked)
			}
		})
	}
	wg.Wait()
	took := clock.System.Mono() - began
	return float64(done.Load()) / took.Seconds(), context.Cause(ctx)
}

// workOnce adds jobs, takes as many, which others may have added, and acknowledges those.
func workOnce(ctx context.Context, c *redis.Client, key, id, payload string, size int) (acked int64, err error) {
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range size {
			p.Do(ctx, "KEYP.DELAY", "ADD", key, id+strconv.Itoa(i), 0, payload)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	jobs, err := c.Do(ctx, "KEYP.DELAY", "POP", key, "COUNT", size, "VISIBILITY", 600_000).Slice()
	if errors.Is(err, redis.Nil) { // others have them
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ack := []any{"KEYP.DELAY", "ACK", key}
	for _, j := range jobs {
		ack = append(ack, j.([]any)[2])
	}
	acked, err = c.Do(ctx, ack...).Int64()
	if err == nil && acked != int64(len(jobs)) {
		err = fmt.Errorf("%d of %d jobs are acknowledged", acked, len(jobs))
	}
	return acked, err
}

// awaitJobs adds jobs for as long as the workload lasts, and returns how late each was in the hands of a client that waits. Jobs are due
// at instants of whole milliseconds, and so is what it takes from them: up to a millisecond is not seen.
func awaitJobs(ctx context.Context, l line, t *target, client *redis.Client, timeout time.Duration, key string) (late []time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu struct {
		sync.Mutex
		late []time.Duration
	}
	var added, adding atomic.Int64
	adding.Store(1)
	var wg sync.WaitGroup
	for range delayWaiters {
		wg.Go(func() {
			c := t.dial(timeout)
			defer c.Close()
			for ctx.Err() == nil {
				jobs, err := c.Do(ctx, "KEYP.DELAY", "POP", key, "BLOCK", delayBlock, "NOACK").Slice()
				now := clock.System.Now()
				if errors.Is(err, redis.Nil) {
					continue
				}
				if err != nil {
					if ctx.Err() == nil {
						cancel(err)
					}
					return
				}
				due, err := strconv.ParseInt(jobs[0].([]any)[1].(string), 10, 64)
				if err != nil || now < due {
					cancel(fmt.Errorf("a job that is due at %d comes at %d: %v", due, now, err))
					return
				}
				mu.Lock()
				mu.late = append(mu.late, time.Duration(now-due)*time.Millisecond)
				all := adding.Load() == 0 && int64(len(mu.late)) == added.Load()
				mu.Unlock()
				if all {
					cancel(errAllDone)
				}
			}
		})
	}
	began := clock.System.Mono()
	for n := 0; clock.System.Mono() < began+l.duration && ctx.Err() == nil; n++ {
		due := clock.System.Now() + delayAhead
		if err := client.Do(ctx, "KEYP.DELAY", "ADD", key, n, due, due).Err(); err != nil {
			cancel(err)
			break
		}
		added.Add(1)
		if next := began + time.Duration(n+1)*time.Second/delayRate; next > clock.System.Mono() {
			time.Sleep(next - clock.System.Mono())
		}
	}
	// One more is added once all is known, so that somebody sees that it is the last.
	adding.Store(0)
	due := clock.System.Now() + delayAhead
	added.Add(1)
	if err := client.Do(ctx, "KEYP.DELAY", "ADD", key, "last", due, due).Err(); err != nil {
		cancel(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(timeout):
		cancel(errors.New("jobs are missing"))
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errAllDone) {
		return nil, err
	}
	return mu.late, nil
}

var errAllDone = errors.New("all jobs are done")
