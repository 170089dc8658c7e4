package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"keyp/internal/clock"
	"keyp/internal/exporter"
	"keyp/internal/rdb"
	"keyp/internal/vfs"
	"keyp/storage"
)

const exportUsage = "usage: keyp export DIR|ADDR FILE|- [--format rdb|resp|json] [--rdb-version N] [--replace]; for ADDR: " + serverUsage

// exportFile writes the data of a data directory or a server to a file in another format.
func exportFile(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("export", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.String("format", string(exporter.RDB), "")
	version := flags.Int("rdb-version", rdb.OldestWritten, "")
	replace := flags.Bool("replace", false, "")
	server := addServerFlags(flags)
	words, err := parseWords(flags, args)
	if err != nil {
		return exit{statusFailed, fmt.Errorf("%w; %s", err, exportUsage)}
	}
	if len(words) != 2 || !slices.Contains(exporter.Formats, exporter.Format(*format)) {
		return exit{statusFailed, errors.New(exportUsage)}
	}
	if *version < rdb.OldestWritten || *version > rdb.NewestWritten {
		return exit{statusFailed, fmt.Errorf("--rdb-version is %d to %d", rdb.OldestWritten,
			rdb.NewestWritten)}
	}
	e := &export{from: words[0], to: words[1], replace: *replace, server: server,
		o: exporter.Options{Format: exporter.Format(*format), Version: *version,
			Clock: clock.System, Progress: toolProgress()}}
	ctx := context.Background()
	if e.to != "-" { // a signal ends what writes to a pipe at once: nothing is left of that
		interrupted, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		ctx = interrupted
	}
	began := time.Now()
	got, err := e.run(ctx, out)
	if err != nil {
		return exit{statusFailed, fmt.Errorf("%s cannot be exported: %w", e.from, err)}
	}
	if e.to == "-" {
		out = os.Stderr
	}
	return printExport(out, e.from, got, time.Since(began))
}

// export describes an export: its source, its target and its options.
type export struct {
	from, to string
	replace  bool
	server   *serverFlags
	o        exporter.Options
}

// run exports the data. The file gets its final name when it is complete and durable.
func (e *export) run(ctx context.Context, out io.Writer) (got *exporter.Report, err error) {
	if e.to == "-" {
		return e.write(ctx, out)
	}
	if info, err := os.Lstat(e.to); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", e.to)
	} else if err == nil && !e.replace {
		return nil, fmt.Errorf("%s exists: --replace overwrites it", e.to)
	}
	if storage.IsWithin(e.to, e.from) {
		return nil, fmt.Errorf("%s is in the directory of the data", e.to)
	}
	part := e.to + ".export"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: remove what an interrupted export left", err)
	} else if err != nil {
		return nil, err
	}
	got, err = e.write(ctx, file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = e.name(part)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(part))
	}
	return got, vfs.OS.SyncDir(filepath.Dir(e.to))
}

// name renames the written file to its final name. Without --replace it fails if others have made a
// file of that name meanwhile.
func (e *export) name(part string) error {
	if e.replace {
		return os.Rename(part, e.to)
	}
	if err := os.Link(part, e.to); err != nil {
		return err
	}
	return os.Remove(part)
}

func (e *export) write(ctx context.Context, to io.Writer) (*exporter.Report, error) {
	info, err := os.Stat(e.from)
	switch {
	case err == nil && info.IsDir():
		return e.fromDir(ctx, to)
	case err != nil && !strings.Contains(e.from, ":"):
		return nil, err
	}
	conn, err := e.server.dial(ctx, e.from)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // all replies have come
	source, err := exporter.NewServer(conn)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	got, err := exporter.Export(ctx, source, to, e.o)
	return got, errors.Join(ctx.Err(), err)
}

// printExport prints a summary of an export. It returns an error if something was left out.
func printExport(out io.Writer, from string, got *exporter.Report, took time.Duration) error {
	var text strings.Builder
	lost := writeRefusals(&text, "left out", got.LeftOut)
	for _, kind := range slices.Sorted(maps.Keys(got.Types)) {
		fmt.Fprintf(&text, "%s: %d\n", kind, got.Types[kind])
	}
	fmt.Fprintf(&text,
		"%s has been exported: %s, %d with a deadline; %d had expired; %d libraries; %v, %.0f keys/s\n",
		from, count(got.Keys, "key"), got.Deadlines, got.Expired, got.Libraries,
		took.Round(time.Millisecond), float64(got.Keys)/max(took.Seconds(), 0.001))
	if _, err := io.WriteString(out, text.String()); err != nil {
		return exit{statusFailed, err}
	}
	if lost > 0 {
		return exit{statusLost, fmt.Errorf("not all of %s is exported: %d left out", from, lost)}
	}
	return nil
}
