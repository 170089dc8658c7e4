package main

import (
	"context"
	_ "embed" // the library's source
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"keyp/cmd/keyp-bench/internal/proc"
)

const (
	// slowSyncDelay is how much longer each sync takes.
	slowSyncDelay = 2 * time.Millisecond
	// slowReaders is how many connections read beside the writers.
	slowReaders = 10
	// slowPipeline is that of the writers.
	slowPipeline = 16
)

//go:embed preload/slowsync.c
var slowSyncSource string

// slowSync is the library that delays the syncs of a server, built when it is first needed.
type slowSync struct {
	dir  string
	path string
	err  error
}

// library builds the library and gives its path. Errors are errSkip.
func (l *slowSync) library(parent string) (string, error) {
	if l.path == "" && l.err == nil {
		if err := l.build(parent); err != nil {
			l.err = fmt.Errorf("%w: %w", errSkip, err)
		}
	}
	return l.path, l.err
}

func (l *slowSync) build(parent string) (err error) {
	if runtime.GOOS != "linux" {
		return errors.New("a server's syncs can be delayed (by LD_PRELOAD) on Linux only")
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return errors.New("there is no C compiler (cc) for the library that delays a server's syncs")
	}
	if l.dir, err = os.MkdirTemp(parent, "keyp-bench-"); err != nil {
		return err
	}
	source, path := filepath.Join(l.dir, "slowsync.c"), filepath.Join(l.dir, "slowsync.so")
	if err := os.WriteFile(source, []byte(slowSyncSource), 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(compiler, "-O1", "-shared", "-fPIC", "-o", path, source).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", compiler, err, out)
	}
	l.path = path
	return nil
}

// close removes what was built.
func (l *slowSync) close() error {
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}

// onSlowDisk starts Keyp with its own option, others with the library.
func onSlowDisk(b *bench, s side) (proc.Extra, error) {
	us := strconv.FormatInt(slowSyncDelay.Microseconds(), 10)
	if s.isKeyp() {
		return proc.Extra{Args: "--debug-sync-delay " + us}, nil
	}
	path, err := b.slowSync.library(b.dir)
	return proc.Extra{Env: []string{"LD_PRELOAD=" + path, "KEYP_BENCH_SYNC_DELAY=" + us}}, err
}

// slowDisk measures writes whose syncs take longer, and reads beside these writes.
func slowDisk(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	if err := b.load(ctx, t, l.keys); err != nil {
		return nil, err
	}
	l.pipeline = slowPipeline
	set, err := b.sendFor(ctx, l, t)
	if err != nil {
		return nil, err
	}
	writers, err := b.startBackground(ctx, l, t)
	if err != nil {
		return nil, err
	}
	l.requests, l.pipeline, l.clients = getRequests, 1, slowReaders
	get, err := b.sendFor(ctx, l, t)
	if err := errors.Join(err, writers.end()); err != nil {
		return nil, err
	}
	return []reading{
		{fmt.Sprintf("SET, pipeline %d", slowPipeline), "op/s", set.OpsPerSec},
		{fmt.Sprintf("SET, pipeline %d: p99", slowPipeline), "ms", set.P99},
		{"GET beside it", "op/s", get.OpsPerSec},
		{"GET beside it: p50", "ms", get.P50},
		{"GET beside it: p99", "ms", get.P99},
		{"GET beside it: max", "ms", get.Max},
	}, nil
}
