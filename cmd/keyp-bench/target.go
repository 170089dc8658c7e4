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

	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

const (
	// settleWait bounds the wait for the end of background work; what takes longer is
	// the server's way of life and belongs into the measurement.
	settleWait = 30 * time.Second
	settleAsk  = 20 // ms between questions
)

// target is the server of one measurement.
type target struct {
	side
	addr   string
	server *proc.Server // nil when it runs already
}

// open starts the side's server as s wants it, or takes the one that runs.
func (b *bench) open(ctx context.Context, s shape, from side) (*target, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if from.addr != "" {
		t := &target{side: from, addr: from.addr}
		b.report.addProduct(from.name, t.product(ctx, b.timeout))
		return t, nil
	}
	var extra proc.Extra
	if s.variant != nil {
		var err error
		if extra, err = s.variant(b, from); err != nil {
			return nil, err
		}
	}
	server, err := proc.New(from.command, b.dir, extra)
	if err != nil {
		return nil, err
	}
	defer b.progress.watch("starting", nil)()
	err = server.Start()
	if err == nil {
		err = server.Ready(ctx, b.timeout)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	t := &target{side: from, addr: server.Addr(), server: server}
	b.report.addProduct(from.name, t.product(ctx, b.timeout))
	return t, nil
}

func (t *target) close() error {
	if t.server == nil {
		return nil
	}
	return t.server.Close()
}

// rssAnon is the server's anonymous memory in bytes, 0 when it can't be read.
func (t *target) rssAnon() int64 {
	if t.server == nil {
		return 0
	}
	return t.server.RSSAnon()
}

// while gives a context that ends with ctx and when the server has ended by itself.
func (t *target) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.server != nil {
		go func() {
			select {
			case <-t.server.Exited():
				cancel(proc.ErrExited)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// explain adds what the server printed to an error, unless the user ended the run.
func (t *target) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if t.server != nil && !errors.Is(err, proc.ErrExited) {
		err = t.server.WithLog(err)
	}
	return fmt.Errorf("%s: %w", t.name, err)
}

// info asks for a section of INFO; a server that has none gives nothing.
func (t *target) info(ctx context.Context, timeout time.Duration, section string) (map[string]string, error) {
	client, err := wire.Dial(ctx, t.addr, timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return info(client, section)
}

func info(client *wire.Client, section string) (map[string]string, error) {
	reply, err := client.Do("INFO", section)
	if err != nil {
		return nil, fmt.Errorf("INFO %s: %w", section, err)
	}
	fields := map[string]string{}
	if reply.Kind == wire.Bulk {
		for line := range strings.Lines(string(reply.Text)) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
				fields[name] = value
			}
		}
	}
	return fields, nil
}

// infoInt is a number that a section of INFO must have.
func infoInt(fields map[string]string, name string) (int64, error) {
	n, err := strconv.ParseInt(fields[name], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO: %s is %q, not a number", name, fields[name])
	}
	return n, nil
}

// commands is how many commands the server has run.
func (t *target) commands(ctx context.Context, timeout time.Duration) (int64, error) {
	fields, err := t.info(ctx, timeout, "stats")
	if err != nil {
		return 0, err
	}
	return infoInt(fields, "total_commands_processed")
}

// product names the server as it names itself, empty where it does not.
func (t *target) product(ctx context.Context, timeout time.Duration) string {
	fields, err := t.info(ctx, timeout, "server")
	switch {
	case err != nil:
		return ""
	case fields["keyp_version"] != "":
		return "Keyp " + fields["keyp_version"]
	case fields["valkey_version"] != "":
		return "Valkey " + fields["valkey_version"]
	case fields["redis_version"] != "":
		return "Redis " + fields["redis_version"]
	}
	return ""
}

// settle waits until no server rewrites its log or saves: what the one does in the
// background is not to slow the other down, nor itself in the next measurement.
func (b *bench) settle(ctx context.Context, targets []*target) error {
	defer b.progress.watch("waiting for background work to end", nil)()
	until := clock.System.Mono() + settleWait
	for _, t := range targets {
		for clock.System.Mono() < until {
			fields, err := t.info(ctx, b.timeout, "persistence")
			if err != nil {
				return err
			}
			if fields["aof_rewrite_in_progress"] != "1" && fields["rdb_bgsave_in_progress"] != "1" {
				break
			}
			if err := pause(ctx, clock.System.Now()+settleAsk); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizes are the bytes of a server's files: those of its log (of Keyp the folder wal, of
// Redis appendonlydir) and all others. A file that goes away meanwhile counts nothing.
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

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
