package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"keyp/commands"
	"keyp/internal/config"
	"keyp/internal/exporter"
	"keyp/storage"
)

// keyp export opens a data directory as a server does. exportMemory is the maxmemory for that,
// unless KEYP_MAXMEMORY is set.
const exportMemory = "256mb"

// fromDir exports a data directory that no server uses, without changing it.
func (e *export) fromDir(ctx context.Context, to io.Writer) (got *exporter.Report, err error) {
	cfg, err := config.Load(nil, os.Environ(), nil)
	if err != nil {
		return nil, err
	}
	if cfg.Int("maxmemory") == 0 {
		if err := cfg.Set(config.Pair{Name: "maxmemory", Value: exportMemory}); err != nil {
			return nil, err
		}
	}
	limit, patience := commands.ClockGuard(cfg)
	store, _, err := openDir(storage.Options{
		Dir: e.from, LockWait: toolWait, Databases: int(cfg.Int("databases")),
		MaxMemory: cfg.Int("maxmemory"), Clock: e.o.Clock,
		Logger: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelWarn})),
		ReadOnly: true, NoBackground: true, Progress: e.o.Progress, ClockJumpLimit: limit,
		ClockJumpPatience: patience,
	})
	if err != nil {
		return nil, inUse(err)
	}
	defer func() { err = errors.Join(err, store.Close(false)) }()
	defer tuneCollector(cfg)()
	return exporter.Export(ctx, exporter.Store{Store: store}, to, e.o)
}
