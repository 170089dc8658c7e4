package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"keyp/cmd/keyp-bench/internal/proc"
)

const (
	// reuseCycles is how often all keys are inserted and expire: the first cycle grows the
	// file, the second should reuse its pages.
	reuseCycles = 2
	// reuseKeysPerMS sets the life of a key: long enough for a checkpoint to write it,
	// 33 seconds for 10M keys.
	reuseKeysPerMS = 300
)

// reuse measures whether the files keep their size when the same number of keys is inserted
// and expires again, and how much space compaction frees.
func reuse(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	client := t.dial(b.timeout)
	defer client.Close()
	life := max(int64(l.keys)/reuseKeysPerMS, 1)
	var readings []reading
	measure := func(when string) error {
		log, others, err := t.sizes()
		readings = append(readings, reading{when + ": data file", "MiB", mebibytes(others)},
			reading{when + ": log", "MiB", mebibytes(log)})
		return err
	}
	for cycle := range reuseCycles {
		if err := b.loadTTL(ctx, t, l.keys, "PX", func(uint64) int64 { return life }); err != nil {
			return nil, err
		}
		if _, err := b.untilBack(ctx, client, 0); err != nil {
			return nil, err
		}
		if err := b.waitIdle(ctx, []*target{t}); err != nil {
			return nil, err
		}
		if err := measure(fmt.Sprintf("cycle %d", cycle+1)); err != nil {
			return nil, err
		}
	}
	if err := t.server.Stop(syscall.SIGTERM, b.timeout); err != nil {
		return nil, err
	}
	if err := measure("clean stop"); err != nil || b.compact == "" {
		return readings, err
	}
	if err := b.compactFiles(t.server.Dir()); err != nil {
		return nil, err
	}
	return readings, measure("compacted")
}

// compactFiles runs --compact on the directory of a stopped server.
func (b *bench) compactFiles(dir string) error {
	line := proc.Fill(b.compact, "", dir)
	out, err := proc.Command(line).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(out)))
	}
	return nil
}
