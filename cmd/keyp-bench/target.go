package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/internal/clock"
)

const (
	// idleWait bounds the wait for the end of background work. Work that takes longer counts as
	// permanent, and is part of the measurement.
	idleWait = 30 * time.Second
	idleAsk  = 20 // ms between questions
)

// target is the server of one measurement.
type target struct {
	side
	addr   string
	server *proc.Server // nil when it runs already
}

// open starts the side's server with the options of l, or returns the server that already runs.
func (b *bench) open(ctx context.Context, l line, from side) (*target, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if from.addr != "" {
		t := &target{side: from, addr: from.addr}
		b.report.addProduct(from, t.product(ctx, b.timeout))
		return t, nil
	}
	var extra proc.Extra
	if l.variant != nil {
		var err error
		if extra, err = l.variant(b, from); err != nil {
			return nil, err
		}
	}
	server, err := proc.New(from.command, b.dir, extra)
	if err != nil {
		return nil, err
	}
	err = server.Start()
	if err == nil {
		err = server.Ready(ctx, b.timeout)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	t := &target{side: from, addr: server.Addr(), server: server}
	b.report.addProduct(from, t.product(ctx, b.timeout))
	return t, nil
}

func (t *target) close() error {
	if t.server == nil {
		return nil
	}
	return t.server.Close()
}

// rssAnon returns the server's anonymous memory in bytes, or 0 if it cannot be read.
func (t *target) rssAnon() int64 {
	if t.server == nil {
		return 0
	}
	return t.server.RSSAnon()
}

// cpu returns the processor time of the server so far, or 0 if it cannot be read.
func (t *target) cpu() time.Duration {
	if t.server == nil {
		return 0
	}
	return t.server.CPU()
}

// dial returns a client of one connection to the server.
func (t *target) dial(timeout time.Duration) *redis.Client { return proc.Dial(t.addr, timeout) }

// while returns a context that ends when ctx ends or when the server has ended by itself.
func (t *target) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.server != nil {
		exited := t.server.Exited() // for this process; a restart makes another one
		go func() {
			select {
			case <-exited:
				cancel(proc.ErrExited)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// explain adds the server's output to an error, unless the user ended the run.
func (t *target) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if t.server != nil && !errors.Is(err, proc.ErrExited) {
		err = t.server.WithLog(err)
	}
	return fmt.Errorf("%s: %w", t.name, err)
}

// info returns a section of INFO, or nil if the server does not have it.
func info(ctx context.Context, client *redis.Client, section string) (map[string]string, error) {
	sections, err := client.InfoMap(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("INFO %s: %w", section, err)
	}
	for _, fields := range sections {
		return fields, nil
	}
	return nil, nil
}

// infoInt returns a number that a section of INFO must have.
func infoInt(ctx context.Context, client *redis.Client, section, name string) (int64, error) {
	fields, err := info(ctx, client, section)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(fields[name], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO: %s is %q, not a number", name, fields[name])
	}
	return n, nil
}

// commands returns the number of commands that the server has run.
func (t *target) commands(ctx context.Context, timeout time.Duration) (int64, error) {
	client := t.dial(timeout)
	defer client.Close()
	return infoInt(ctx, client, "stats", "total_commands_processed")
}

// product returns the server's name and version, or "" if the server does not report them.
func (t *target) product(ctx context.Context, timeout time.Duration) string {
	client := t.dial(timeout)
	defer client.Close()
	fields, err := info(ctx, client, "server")
	if err != nil {
		return ""
	}
	for _, name := range []string{"Keyp", "Valkey", "Redis"} {
		if version := fields[strings.ToLower(name)+"_version"]; version != "" {
			return name + " " + version
		}
	}
	return ""
}

// waitIdle waits until no server rewrites its log or saves, for idleWait at most. Background work
// of one server must not slow down the next measurement.
func (b *bench) waitIdle(ctx context.Context, targets []*target) error {
	until := clock.System.Mono() + idleWait
	for _, t := range targets {
		client := t.dial(b.timeout)
		defer client.Close()
		for clock.System.Mono() < until {
			fields, err := info(ctx, client, "persistence")
			if err != nil {
				return err
			}
			if fields["aof_rewrite_in_progress"] != "1" && fields["rdb_bgsave_in_progress"] != "1" {
				break
			}
			if err := pause(ctx, clock.System.Now()+idleAsk); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizes returns the bytes of a server's log files (in the folder wal of Keyp, appendonlydir of
// Redis) and of all other files. It ignores files that are removed meanwhile.
func (t *target) sizes() (log, others int64, err error) {
	err = filepath.WalkDir(t.server.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		switch filepath.Base(filepath.Dir(path)) {
		case "wal", "appendonlydir":
			log += info.Size()
		default:
			others += info.Size()
		}
		return nil
	})
	return log, others, err
}

// pause waits until the wall clock shows ms, or ctx ends.
func pause(ctx context.Context, ms int64) error {
	for clock.System.Now() < ms {
		reached, release := clock.System.Until(ms)
		select {
		case <-reached:
		case <-ctx.Done():
		}
		release()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return ctx.Err()
}
