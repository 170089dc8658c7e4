package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

const (
	// burstBystanders is how many keys without a deadline the GETs read.
	burstBystanders = 10_000
	// burstClients and burstPipeline load the keys that will expire.
	burstClients  = 50
	burstPipeline = 16
	// burstEarlyBase, and a part for each connection, is how long before the instant the
	// keys must be in place and the GETs begin.
	burstEarlyBase      = 300 // ms
	burstEarlyPerClient = 0.2 // ms
	// burstRate is how many GETs a second all connections send: some tenth of what
	// either server answers, so that their latency is that of the server alone.
	burstRate = 10_000
	// burstAttempts bounds how often a later instant is tried when loading takes
	// too long for the first.
	burstAttempts = 4
)

// expireBurst makes many keys expire at one instant.
//
//	load …… T-300 ms: GETs begin …… T: recorded from here …… DBSIZE is back: end
//
// It fails when a key is gone before the instant or readable after it.
func expireBurst(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error) {
	bystanders := load.NewData(min(b.keys, burstBystanders), b.size)
	if err := b.preload(ctx, t, bystanders.Keys); err != nil {
		return nil, err
	}
	client, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	baseline, err := client.Int("DBSIZE")
	if err != nil {
		return nil, err
	}
	instant, err := b.loadBurst(ctx, t, s.keys, 0, client, baseline)
	if err != nil {
		return nil, err
	}
	memory := t.rssAnon()

	defer b.progress.watch("waiting for the instant and the end", nil)()
	if err := pause(ctx, instant-b.burstEarly()); err != nil {
		return nil, err
	}
	monoInstant := clock.System.Mono() + time.Duration(instant-clock.System.Now())*time.Millisecond
	gets := background(ctx, load.Options{
		Addr: t.addr, Clients: b.clients, Threads: b.threads, Rate: burstRate, Source: load.Get(bystanders),
		RecordFrom: monoInstant, Timeout: b.timeout,
	})
	defer gets.end()
	if err := gets.underWay(ctx); err != nil {
		return nil, err
	}
	if late := clock.System.Now() - instant; late >= 0 {
		return nil, fmt.Errorf("%d connections were ready %d ms after the keys expired; try fewer --clients", b.clients, late)
	}
	gone, err := b.waitGone(ctx, client, s.keys, baseline, instant, monoInstant)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, instant+s.duration.Milliseconds()); err != nil {
		return nil, err
	}
	gets.end()
	result, err := gets.wait()
	if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return nil, err // it has no other end, so there is one
	}
	b.report.addFailure(s, t.name, round, result.Errors, result.First)

	readings := []reading{
		{"all gone after", "ms", millis(gone)},
		{"GET p50 meanwhile", "ms", millis(result.Latency.Quantile(0.5))},
		{"GET p99 meanwhile", "ms", millis(result.Latency.Quantile(0.99))},
		{"GET max meanwhile", "ms", millis(result.Latency.Max())},
	}
	if memory > 0 {
		readings = append(readings, reading{"RssAnon before", "MiB", mebibytes(memory)})
	}
	return readings, nil
}

// burstEarly is the constant with its part for each connection, in milliseconds.
func (b *bench) burstEarly() int64 {
	return burstEarlyBase + int64(burstEarlyPerClient*float64(b.clients))
}

// loadBurst writes the keys and returns the instant at which they begin to expire, in Unix
// milliseconds; all have over milliseconds later. When loading takes longer than the time it guessed, it lets those
// keys go and tries again with a later instant.
func (b *bench) loadBurst(ctx context.Context, t *target, keys uint64, over int64, client *wire.Client, baseline int64) (int64, error) {
	data := load.NewData(keys, b.size)
	lead := 2*b.burstEarly() + int64(keys)/50
	for range burstAttempts {
		instant := clock.System.Now() + lead
		if err := b.preloadDeadlines(ctx, t, data, load.Deadlines{Keys: keys, From: instant, Over: over}); err != nil {
			return 0, err
		}
		if clock.System.Now() < instant-b.burstEarly() {
			return instant, nil
		}
		if err := pause(ctx, instant+over); err != nil {
			return 0, err
		}
		if _, err := b.untilBack(ctx, client, baseline); err != nil {
			return 0, err
		}
		lead *= 3
	}
	return 0, fmt.Errorf("loading %d keys takes longer than %d ms; try fewer --ttl-keys", keys, lead/3)
}

// waitGone watches DBSIZE from before the instant until it is back at baseline
// and returns how long after the instant that was, to about a millisecond and
// never below one.
func (b *bench) waitGone(ctx context.Context, client *wire.Client, keys uint64, baseline, instant int64,
	monoInstant time.Duration) (time.Duration, error) {
	full := baseline + int64(keys)
	for clock.System.Now() < instant {
		size, err := client.Int("DBSIZE")
		if err != nil {
			return 0, err
		}
		// The clock is read after the reply: only then was the reply before the instant.
		if now := clock.System.Now(); now < instant && size != full {
			return 0, fmt.Errorf("%w: DBSIZE is %d, not %d, %d ms before the keys expire", errWrong, size, full, instant-now)
		}
		if err := pause(ctx, min(clock.System.Now()+10, instant)); err != nil {
			return 0, err
		}
	}
	// Redis takes a key for expired when the deadline is past, not when it is
	// reached. The last key written is the last that a sweep in order would reach.
	if err := pause(ctx, instant+1); err != nil {
		return 0, err
	}
	key := load.Key(load.TTLPrefix, keys-1)
	reply, err := client.Do("GET", key)
	if err != nil {
		return 0, err
	}
	if !reply.Null {
		return 0, fmt.Errorf("%w: GET %s after its deadline gave %v", errWrong, key, reply)
	}
	back, err := b.untilBack(ctx, client, baseline)
	return max(back-monoInstant, 0), err
}

// untilBack asks DBSIZE about every millisecond until it is at most baseline and
// returns the time of that reply, on the monotonic clock.
func (b *bench) untilBack(ctx context.Context, client *wire.Client, baseline int64) (time.Duration, error) {
	until := clock.System.Mono() + b.timeout
	for {
		size, err := client.Int("DBSIZE")
		now := clock.System.Mono()
		if err != nil {
			return 0, err
		}
		if size <= baseline {
			return now, nil
		}
		if now > until {
			return 0, fmt.Errorf("%w: %d keys still count %v after they expired", errWrong, size-baseline, b.timeout)
		}
		if err := pause(ctx, clock.System.Now()+1); err != nil {
			return 0, err
		}
	}
}
