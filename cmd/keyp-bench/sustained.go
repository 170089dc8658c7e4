package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"keyp/internal/clock"
)

// sustainedPipeline is that of the writers.
const sustainedPipeline = 16

// sustained writes for long enough that background work (checkpoints, rewrites of the log)
// matters, and asks the server each second for its number of commands. So the rate includes
// the slowest second.
func sustained(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	l.pipeline = sustainedPipeline
	writers, err := b.startBackground(ctx, l, t)
	if err != nil {
		return nil, err
	}
	seen, err := b.watchSeconds(ctx, l, t)
	if err := errors.Join(err, writers.end()); err != nil {
		return nil, err
	}
	if err := b.waitIdle(ctx, []*target{t}); err != nil {
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

// seconds are a server's figures, second by second.
type seconds struct {
	average float64   // commands per second over the whole time
	rates   []float64 // of each second
	log     int64     // bytes, the most
	rss     int64     // bytes, the most
}

// watchSeconds looks at the server for the duration of s. A second in which it does not
// answer counts with the next.
func (b *bench) watchSeconds(ctx context.Context, l line, t *target) (seconds, error) {
	client := t.dial(b.timeout)
	defer client.Close()
	count := func() (int64, time.Duration, error) {
		n, err := infoInt(ctx, client, "stats", "total_commands_processed")
		return n, clock.System.Mono(), err
	}
	var seen seconds
	first, began, err := count()
	last, at := first, began
	// In steps of a quarter when the whole is no more than seconds.
	step := min(time.Second, l.duration/4)
	for err == nil && (len(seen.rates) == 0 || at < began+l.duration) {
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
