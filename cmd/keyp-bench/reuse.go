package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/cmd/keyp-bench/internal/wire"
)

const (
	// reuseCycles is how often all keys come and go: the first cycle makes the file as
	// large as it must be, the second is to find its room in it.
	reuseCycles = 2
	// reuseKeysPerMS sets how long a key lives: long enough for a checkpoint to write it
	// down, 33 seconds of 10M keys.
	reuseKeysPerMS = 300
)

// reuse measures whether the files keep their size when the same number of keys comes and
// goes again, and what compaction gives back.
func reuse(b *bench, ctx context.Context, s shape, t *target, _ int) ([]reading, error) {
	client, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	data := load.NewData(s.keys, b.size)
	life := max(int64(s.keys)/reuseKeysPerMS, 1)
	var readings []reading
	measure := func(when string) error {
		log, others, err := t.sizes()
		readings = append(readings, reading{when + ": data file", "MiB", mebibytes(others)},
			reading{when + ": log", "MiB", mebibytes(log)})
		return err
	}
	for cycle := range reuseCycles {
		if err := b.fill(ctx, "inserting keys that expire", load.Options{
			Addr: t.addr, Clients: burstClients, Pipeline: burstPipeline,
			Requests: int64(s.keys), Source: load.SetPX(data, life),
		}); err != nil {
			return nil, err
		}
		if _, err := b.untilBack(ctx, client, 0); err != nil {
			return nil, err
		}
		if err := b.settle(ctx, []*target{t}); err != nil {
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
	if err := b.compactFiles(ctx, t.server.Dir()); err != nil {
		return nil, err
	}
	return readings, measure("compacted")
}

// compactFiles runs --compact on the directory of a stopped server.
func (b *bench) compactFiles(ctx context.Context, dir string) error {
	words, err := proc.Split(b.compact)
	if err != nil {
		return err
	}
	words = proc.Fill(words, "", dir)
	defer b.progress.watch("compacting", nil)()
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%q: %w: %s", words, err, strings.TrimSpace(string(out)))
	}
	return nil
}
