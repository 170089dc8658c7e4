package main

import (
	"context"
	"fmt"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/internal/clock"
)

// memory measures what a key with a deadline costs while all are in memory.
func memory(b *bench, ctx context.Context, s shape, t *target, _ int) ([]reading, error) {
	empty := t.rssAnon()
	if empty == 0 {
		return nil, fmt.Errorf("%w: the system does not tell a process's RssAnon", errSkip)
	}
	if err := b.preloadTTL(ctx, t, load.NewData(s.keys, b.size), clock.System.Now()+farAway); err != nil {
		return nil, err
	}
	loaded := t.rssAnon()
	if err := b.settle(ctx, []*target{t}); err != nil {
		return nil, err
	}
	// A runtime gives memory back some time after it has freed it.
	if err := pause(ctx, clock.System.Now()+s.duration.Milliseconds()); err != nil {
		return nil, err
	}
	settled := t.rssAnon()
	perKey := func(rss int64) float64 { return float64(rss-empty) / float64(s.keys) }
	return []reading{
		{"RssAnon, empty", "MiB", mebibytes(empty)},
		{"RssAnon of a key, after loading", "B", perKey(loaded)},
		{"RssAnon of a key, at rest", "B", perKey(settled)},
	}, nil
}

// withinBudget starts Keyp with a bound of its memory. A peer that had one would lose
// keys or refuse them, so it has none.
func withinBudget(b *bench, s side) (proc.Extra, error) {
	if s.name != "keyp" {
		return proc.Extra{}, nil
	}
	words, err := proc.Split(b.boundedKeyp)
	return proc.Extra{Args: words}, err
}

// biggerThanMemory measures reads of keys most of which Keyp has on disk only. All must
// be there: a miss is a failure.
func biggerThanMemory(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error) {
	if err := b.preloadTTL(ctx, t, load.NewData(s.keys, b.size), clock.System.Now()+farAway); err != nil {
		return nil, err
	}
	loaded := t.rssAnon()
	if err := b.settle(ctx, []*target{t}); err != nil {
		return nil, err
	}
	before, err := t.misses(ctx, b)
	if err != nil {
		return nil, err
	}
	s.requests = getTTL
	get, err := b.loadFor(ctx, s, t)
	if err != nil {
		return nil, err
	}
	b.report.addFailure(s, t.name, round, get.Errors, get.first)
	after, err := t.misses(ctx, b)
	if err != nil {
		return nil, err
	}
	if after > before {
		return nil, fmt.Errorf("%w: %d keys were not there", errWrong, after-before)
	}
	_, others, err := t.sizes()
	if err != nil {
		return nil, err
	}
	readings := []reading{
		{"GET, pipeline 1", "op/s", get.OpsPerSec},
		{"GET: p50", "ms", get.P50},
		{"GET: p99", "ms", get.P99},
		{"GET: max", "ms", get.Max},
		{"data file", "MiB", mebibytes(others)},
	}
	if loaded > 0 {
		readings = append(readings, reading{"RssAnon after loading", "MiB", mebibytes(loaded)},
			reading{"RssAnon after the GETs", "MiB", mebibytes(get.RSSAnon)})
	}
	return readings, nil
}

// misses is how many look-ups found no key.
func (t *target) misses(ctx context.Context, b *bench) (int64, error) {
	fields, err := t.info(ctx, b.timeout, "stats")
	if err != nil {
		return 0, err
	}
	return infoInt(fields, "keyspace_misses")
}
