package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"time"

	"keyp/internal/clock"
)

// This file measures how soon a server answers after a restart. It also measures reads when the
// data is larger than the memory that Keyp may use.

const (
	// farAway is the time to live of keys that must outlive the measurement.
	farAway = 24 * 60 * 60 * 1000 // ms
	// restartSample is how many keys are read back after a restart.
	restartSample = 1000
)

// always returns a function that gives all keys the same deadline.
func always(deadline int64) func(uint64) int64 { return func(uint64) int64 { return deadline } }

// restart measures how soon a server answers again: after kill -9 during writes, and after a clean
// stop. Each time it reads some keys and their deadlines. A key that is missing or wrong is a
// failure.
func restart(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	deadline := clock.System.Now() + farAway
	if err := b.load(ctx, s, ttlPrefix, w.keys, always(deadline)); err != nil {
		return nil, err
	}
	loaded := s.rssAnon()
	if err := b.killUnderLoad(ctx, w, s); err != nil {
		return nil, err
	}
	afterKill, err := b.comeBack(ctx, s, w.keys, deadline)
	if err != nil {
		return nil, fmt.Errorf("after kill -9: %w", err)
	}
	back := s.rssAnon()
	began := clock.System.Mono()
	if err := s.stop(syscall.SIGTERM, b.timeout); err != nil {
		return nil, err
	}
	stop := clock.System.Mono() - began
	afterStop, err := b.comeBack(ctx, s, w.keys, deadline)
	if err != nil {
		return nil, fmt.Errorf("after a clean stop: %w", err)
	}
	return []reading{
		{"kill -9: start to first right GET", "ms", millis(afterKill)},
		{"clean stop", "ms", millis(stop)},
		{"clean stop: start to first right GET", "ms", millis(afterStop)},
		{"RssAnon after loading", "MiB", mebibytes(loaded)},
		{"RssAnon after kill -9 and start", "MiB", mebibytes(back)},
	}, nil
}

// killUnderLoad kills the server while redis-benchmark writes to it with SET EX. It waits for the
// first of these writes, and then for the length of w.
func (b *bench) killUnderLoad(ctx context.Context, w workload, s *server) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := b.runRedisBenchmark(ctx, w, s, endless)
		cancel(fmt.Errorf("the load ended: %w", err))
	}()
	defer func() {
		cancel(nil)
		<-ended
	}()
	client := s.dial()
	defer client.Close()
	if err := b.untilSize(ctx, client, int64(w.keys)+1, math.MaxInt64); err != nil {
		return err
	}
	if err := pause(ctx, clock.System.Now()+w.length.Milliseconds()); err != nil {
		return err
	}
	return s.stop(syscall.SIGKILL, killTimeout)
}

// comeBack starts the server again. It returns the time from before the start to the first right
// answer to a GET of a random key. Then it reads more keys and their deadlines.
func (b *bench) comeBack(ctx context.Context, s *server, keys uint64,
	deadline int64) (took time.Duration, err error) {
	began := clock.System.Mono()
	if err := s.start(ctx); err != nil {
		return 0, err
	}
	client := s.dial()
	defer client.Close()
	for i := range restartSample {
		key := rand.Uint64N(keys)
		name := keyName(ttlPrefix, key)
		got, err := client.Get(ctx, name).Result()
		if i == 0 {
			took = clock.System.Mono() - began
		}
		at, err2 := client.Do(ctx, "PEXPIRETIME", name).Int64()
		if err := cmp.Or(err, err2); err != nil {
			return 0, fmt.Errorf("reading %s: %w", name, err)
		}
		if got != valueOf(key, b.size) || at != deadline {
			return 0, fmt.Errorf("%w: %s has the value %.100q and expires at %d, not at %d",
				errWrong, name, got, at, deadline)
		}
	}
	return took, nil
}

// biggerThanMemory measures reads of keys. Keyp keeps most of them only on disk. All keys must
// exist: a miss is a failure.
func biggerThanMemory(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	deadline := clock.System.Now() + farAway
	if err := b.load(ctx, s, ttlPrefix, w.keys, always(deadline)); err != nil {
		return nil, err
	}
	loaded := s.rssAnon()
	if err := s.waitIdle(ctx); err != nil {
		return nil, err
	}
	readings, err := b.send(ctx, w, s)
	if err != nil {
		return nil, err
	}
	readings = append(readings, reading{"RssAnon after loading", "MiB", mebibytes(loaded)},
		reading{"RssAnon after the GETs", "MiB", mebibytes(s.rssAnon())})
	client := s.dial()
	defer client.Close()
	missed := client.InfoMap(ctx, "stats").Item("Stats", "keyspace_misses")
	if missed != "0" {
		err = fmt.Errorf("%w: keyspace_misses is %q, so keys were missing", errWrong, missed)
	}
	return readings, err
}
