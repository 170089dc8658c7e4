package main

import (
	"context"
	"fmt"

	"keyp/internal/clock"
)

// biggerThanMemory measures reads of keys. Keyp keeps most of them only on disk. All keys must
// exist: a miss is a failure.
func biggerThanMemory(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	deadline := clock.System.Now() + farAway
	if err := b.loadTTL(ctx, s, w.keys, func(uint64) int64 { return deadline }); err != nil {
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
