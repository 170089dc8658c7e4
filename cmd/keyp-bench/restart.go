package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/clock"
)

const (
	// farAway is the time to live of keys that must outlive the measurement.
	farAway = 24 * 60 * 60 * 1000 // ms
	// restartSample is how many keys are read back after a restart.
	restartSample = 1000
)

// restart measures how soon a server answers again: after kill -9 during writes, and after a clean
// stop. Each time it reads keys and their deadlines. A missing acknowledged write fails the run.
func restart(b *bench, ctx context.Context, l line, t *target, round int) ([]reading, error) {
	deadline := clock.System.Now() + farAway
	if err := b.loadTTL(ctx, t, l.keys, "PXAT", func(uint64) int64 {
		return deadline
	}); err != nil {
		return nil, err
	}
	loaded := t.rssAnon()

	if err := b.killUnderLoad(ctx, l, t); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(round), 4))
	afterKill, err := b.comeBack(ctx, t, l.keys, deadline, rng)
	if err != nil {
		return nil, fmt.Errorf("after kill -9: %w", err)
	}
	back := t.rssAnon()

	began := clock.System.Mono()
	err = t.server.Stop(syscall.SIGTERM, b.timeout)
	stop := clock.System.Mono() - began
	if err != nil {
		return nil, err
	}
	afterStop, err := b.comeBack(ctx, t, l.keys, deadline, rng)
	if err != nil {
		return nil, fmt.Errorf("after a clean stop: %w", err)
	}
	readings := []reading{
		{"kill -9: start to first right GET", "ms", millis(afterKill)},
		{"clean stop", "ms", millis(stop)},
		{"clean stop: start to first right GET", "ms", millis(afterStop)},
	}
	if loaded > 0 {
		readings = append(readings, reading{"RssAnon after loading", "MiB", mebibytes(loaded)})
	}
	if back > 0 {
		readings = append(readings, reading{"RssAnon after kill -9 and start", "MiB",
			mebibytes(back)})
	}
	return readings, nil
}

// killUnderLoad kills the server while SET EX run, after the duration of l.
func (b *bench) killUnderLoad(ctx context.Context, l line, t *target) error {
	l.keys = b.keys
	writers, err := b.startBackground(ctx, l, t)
	if err != nil {
		return err
	}
	err = errors.Join(pause(ctx, clock.System.Now()+l.duration.Milliseconds()), writers.running())
	if err != nil {
		return errors.Join(err, writers.end())
	}
	err = t.server.Stop(syscall.SIGKILL, b.timeout)
	_ = writers.end() // the writers have ended with the server
	return err
}

// comeBack starts the server again. It returns the time from before the start to the first right
// answer to a GET of a random key. Then it reads more keys and their deadlines.
func (b *bench) comeBack(ctx context.Context, t *target, keys uint64, deadline int64,
	rng *rand.Rand) (time.Duration, error) {
	var took time.Duration
	began := clock.System.Mono()
	if err := t.server.Start(); err != nil {
		return 0, err
	}
	err := t.server.Poll(ctx, b.timeout, func(client *redis.Client) (bool, error) {
		err := b.rightValue(ctx, client, rng.Uint64N(keys))
		if err != nil && !errors.Is(err, errWrong) || redis.HasErrorPrefix(err, "LOADING") {
			return false, nil
		}
		took = clock.System.Mono() - began
		return true, err
	})
	if err != nil {
		return 0, err
	}
	client := t.dial(b.timeout)
	defer client.Close()
	for range restartSample {
		key := rng.Uint64N(keys)
		if err := b.rightValue(ctx, client, key); err != nil {
			return 0, err
		}
		got, err := client.Do(ctx, "PEXPIRETIME", keyName(ttlPrefix, key)).Int64()
		if err != nil {
			return 0, err
		}
		if got != deadline {
			return 0, fmt.Errorf("%w: key %d expires at %d, not at %d", errWrong,
				key, got, deadline)
		}
	}
	return took, nil
}

// rightValue reads a key. It returns errWrong unless the key exists with its value.
func (b *bench) rightValue(ctx context.Context, client *redis.Client, key uint64) error {
	got, err := client.Get(ctx, keyName(ttlPrefix, key)).Result()
	if refused := redis.Error(nil); err != nil && !errors.As(err, &refused) {
		return err
	}
	if err != nil || got != valueOf(key, b.size) {
		return fmt.Errorf("%w: GET %s gave %.100q (%w), not its value", errWrong,
			keyName(ttlPrefix, key), got, err)
	}
	return nil
}
