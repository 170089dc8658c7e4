package main

import (
	"context"
	"fmt"

	"keyp/cmd/keyp-bench/internal/proc"
)

// withinBudget adds a memory limit to the command that starts Keyp. Another server gets none,
// because it would evict keys or refuse writes.
func withinBudget(b *bench, s side) (proc.Extra, error) {
	if !s.isKeyp() {
		return proc.Extra{}, nil
	}
	return proc.Extra{Args: "--maxmemory " + b.maxmemory}, nil
}

// biggerThanMemory measures reads of keys. Keyp keeps most of them only on disk. All keys must
// exist: a miss is a failure.
func biggerThanMemory(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	if err := b.loadTTL(ctx, t, l.keys, "PX", func(uint64) int64 { return farAway }); err != nil {
		return nil, err
	}
	loaded := t.rssAnon()
	if err := b.waitIdle(ctx, []*target{t}); err != nil {
		return nil, err
	}
	client := t.dial(b.timeout)
	defer client.Close()
	before, err := infoInt(ctx, client, "stats", "keyspace_misses")
	if err != nil {
		return nil, err
	}
	get, err := b.sendFor(ctx, l, t)
	if err != nil {
		return nil, err
	}
	after, err := infoInt(ctx, client, "stats", "keyspace_misses")
	if err != nil {
		return nil, err
	}
	if after > before {
		return nil, fmt.Errorf("%w: %d keys were missing", errWrong, after-before)
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
			reading{"RssAnon after the GETs", "MiB", mebibytes(t.rssAnon())})
	}
	return readings, nil
}
