package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

// sustainedPipeline is that of the writers.
const sustainedPipeline = 16

// sustained writes long enough for the background's work (checkpoints, rewrites of the
// log) to matter, and asks the server each second how much it has done. The rate is the
// server's own count, so it is that of the whole time, the worst second included.
func sustained(b *bench, ctx context.Context, s shape, t *target, _ int) ([]reading, error) {
	s.requests, s.pipeline = setRequests, sustainedPipeline
	writers, err := b.beside(ctx, s, t)
	if err != nil {
		return nil, err
	}
	seen, err := b.watchSeconds(ctx, s, t)
	if err := errors.Join(err, writers.end()); err != nil {
		return nil, err
	}
	if err := b.settle(ctx, []*target{t}); err != nil {
		return nil, err
	}
	log, others, err := t.sizes()
	if err != nil {
		return nil, err
	}
	slowest := slices.Min(seen.rates)
	return []reading{
		{"SET, pipeline 16, average", "op/s", seen.average},
		{"slowest second", "op/s", slowest},
		{"slowest second, of the average", "%", 100 * ratio(slowest, seen.average)},
		{"log at its largest", "MiB", mebibytes(seen.log)},
		{"log at the end", "MiB", mebibytes(log)},
		{"other files at the end", "MiB", mebibytes(others)},
		{"RssAnon at its largest", "MiB", mebibytes(seen.rss)},
	}, nil
}

// seconds is what was seen of a server second by second.
type seconds struct {
	average float64   // commands per second over the whole time
	rates   []float64 // of each second
	log     int64     // bytes, the most
	rss     int64     // bytes, the most
}

// watchSeconds looks at the server for the duration of s. A second in which it does not
// answer counts with the next.
func (b *bench) watchSeconds(ctx context.Context, s shape, t *target) (seconds, error) {
	client, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return seconds{}, err
	}
	defer client.Close()
	count := func() (int64, time.Duration, error) {
		fields, err := info(client, "stats")
		if err != nil {
			return 0, 0, err
		}
		n, err := infoInt(fields, "total_commands_processed")
		return n, clock.System.Mono(), err
	}
	var seen seconds
	first, began, err := count()
	last, at := first, began
	// In steps of a quarter when the whole is no more than seconds.
	step := min(time.Second, s.duration/4)
	for err == nil && (len(seen.rates) == 0 || at < began+s.duration) {
		if err := pause(ctx, clock.System.Now()+max(step-(clock.System.Mono()-at), time.Millisecond).Milliseconds()); err != nil {
			return seen, err
		}
		var n int64
		var now time.Duration
		if n, now, err = count(); err != nil {
			break
		}
		seen.rates = append(seen.rates, float64(n-last)/(now-at).Seconds())
		seen.average = float64(n-first) / (now - began).Seconds()
		last, at = n, now
		var log int64
		log, _, err = t.sizes()
		seen.log, seen.rss = max(seen.log, log), max(seen.rss, t.rssAnon())
	}
	return seen, err
}
