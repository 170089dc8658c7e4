package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

const (
	// farAway is a life of keys that are to be there after everything.
	farAway = 24 * 60 * 60 * 1000 // ms
	// restartSample is how many keys are read back after a restart.
	restartSample = 1000
)

// restart measures how soon a server is back: after kill -9 in the midst of
// writes, and after a clean stop. Each time it reads keys back, with their
// deadlines: an acknowledged write that is missing fails the run.
func restart(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error) {
	data := load.NewData(s.keys, b.size)
	deadline := clock.System.Now() + farAway
	if err := b.preloadTTL(ctx, t, data, deadline); err != nil {
		return nil, err
	}
	loaded := t.rssAnon()

	if err := b.killUnderLoad(ctx, s, t); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(round), 4))
	afterKill, err := b.comeBack(ctx, t, data, deadline, rng)
	if err != nil {
		return nil, fmt.Errorf("after kill -9: %w", err)
	}
	back := t.rssAnon()

	endWatch := b.progress.watch("stopping", nil)
	began := clock.System.Mono()
	err = t.server.Stop(syscall.SIGTERM, b.timeout)
	stop := clock.System.Mono() - began
	endWatch()
	if err != nil {
		return nil, err
	}
	afterStop, err := b.comeBack(ctx, t, data, deadline, rng)
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
		readings = append(readings, reading{"RssAnon after kill -9 and start", "MiB", mebibytes(back)})
	}
	return readings, nil
}

// killUnderLoad lets SET EX run for the duration of s and kills the server while they
// do.
func (b *bench) killUnderLoad(ctx context.Context, s shape, t *target) error {
	defer b.progress.watch("kill -9 under load", nil)()
	bg := background(ctx, load.Options{
		Addr: t.addr, Clients: b.clients, Threads: b.threads,
		Source: load.SetEX(load.NewData(b.keys, b.size)), Timeout: b.timeout,
	})
	defer bg.end()
	if err := bg.underWay(ctx); err != nil {
		return err
	}
	if err := pause(ctx, clock.System.Now()+s.duration.Milliseconds()); err != nil {
		return err
	}
	if err := t.server.Stop(syscall.SIGKILL, b.timeout); err != nil {
		return err
	}
	result, err := bg.wait()
	if !errors.Is(err, load.ErrClosed) {
		return err // it has no other end, so there is one
	}
	if result.Errors > 0 {
		return fmt.Errorf("%w to %d requests under load, the first: %w", errWrong, result.Errors, result.First)
	}
	return nil
}

// comeBack starts the server again and returns how long that took: from before
// its start to the first right answer to a GET of a random key. Then it reads
// more keys and their deadlines.
func (b *bench) comeBack(ctx context.Context, t *target, data *load.Data, deadline int64, rng *rand.Rand) (time.Duration, error) {
	defer b.progress.watch("starting again", nil)()
	var took time.Duration
	began := clock.System.Mono()
	if err := t.server.Start(); err != nil {
		return 0, err
	}
	err := t.server.Poll(ctx, b.timeout, func(client *wire.Client) (bool, error) {
		key := rng.Uint64N(data.Keys)
		reply, err := client.Do("GET", load.Key(load.TTLPrefix, key))
		if err != nil || reply.Kind == wire.Error && bytes.HasPrefix(reply.Text, []byte("LOADING")) {
			return false, nil
		}
		took = clock.System.Mono() - began
		return true, rightValue(data, key, reply)
	})
	if err != nil {
		return 0, err
	}
	client, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for range restartSample {
		key := rng.Uint64N(data.Keys)
		reply, err := client.Do("GET", load.Key(load.TTLPrefix, key))
		if err == nil {
			err = rightValue(data, key, reply)
		}
		if err != nil {
			return 0, err
		}
		got, err := client.Int("PEXPIRETIME", load.Key(load.TTLPrefix, key))
		if err != nil {
			return 0, err
		}
		if got != deadline {
			return 0, fmt.Errorf("%w: key %d expires at %d, not at %d", errWrong, key, got, deadline)
		}
	}
	return took, nil
}

// rightValue says whether a reply is the value of a key that must be there.
func rightValue(data *load.Data, key uint64, reply wire.Reply) error {
	if reply.Kind == wire.Bulk && !reply.Null && bytes.Equal(reply.Text, data.Value(key)) {
		return nil
	}
	return fmt.Errorf("%w: GET %s gave %v, not its value", errWrong, load.Key(load.TTLPrefix, key), reply)
}
