package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/importer"
	"keyp/server"
	"keyp/storage"
)

const importUsage = "usage: keyp import FILE|DIR --dir NEWDIR | --to ADDR | --dry-run [--to ADDR] [--db N] [--match PATTERN] [--replace]; --db and --match choose keys and leave out libraries; for ADDR: " + serverUsage

// importFiles imports files of Redis or Valkey into a new data directory or a server.
func importFiles(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dir, to := flags.String("dir", "", ""), flags.String("to", "", "")
	db, match := importer.AllDBs, flags.String("match", "", "")
	flags.Func("db", "", func(text string) (err error) {
		if db, err = strconv.Atoi(text); err != nil || db < 0 {
			err = errors.New("it is the number of a database, 0 or more")
		}
		return err
	})
	replace, dry := flags.Bool("replace", false, ""), flags.Bool("dry-run", false, "")
	server := addServerFlags(flags)
	from, err := parseWords(flags, args)
	if err != nil {
		return exit{statusFailed, fmt.Errorf("%w; %s", err, importUsage)}
	}
	if len(from) != 1 || (*dir != "") == (*to != "") && (!*dry || *to != "") {
		return exit{statusFailed, errors.New(importUsage)}
	}
	table := commands.NewTable()
	o := importer.Options{DB: db, Match: *match, Replace: *replace, DryRun: *dry,
		Clock: clock.System, Progress: toolProgress(),
		Allowed: func(args [][]byte) bool { return importable(table, args) },
		Keys: func(args [][]byte, db int) ([]importer.Key, bool) {
			return keysOf(table, args, db)
		}}
	source, err := importer.Open(from[0])
	if _, _, noAddress := net.SplitHostPort(from[0]); errors.Is(err, fs.ErrNotExist) &&
		noAddress == nil {
		return exit{statusFailed,
			fmt.Errorf("%s: there is no such file; `redis-cli -h HOST -p PORT --rdb FILE` has a server of Redis write one",
				from[0])}
	}
	if err != nil {
		return exit{statusFailed, err}
	}
	defer source.Close() // read only
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	var got *importer.Report
	switch {
	case *dry && *to == "":
		got, err = importer.Import(source, o)
	case *dir != "":
		got, err = importIntoDir(ctx, source, o, *dir)
	default:
		got, err = importInto(ctx, source, o, server, *to)
	}
	if err != nil {
		return exit{statusFailed, fmt.Errorf("%s cannot be imported: %w", from[0], err)}
	}
	return printImport(out, from[0], got, *dry, time.Since(began))
}

// importable reports whether Redis writes a command to append-only files: the command changes data
// and never blocks.
func importable(table *commands.Table, args [][]byte) bool {
	spec := table.Of(args)
	if spec == nil {
		return false
	}
	switch spec.FullName() {
	case "multi", "exec", "script|load":
		return true
	case "migrate", "restore-asking":
		return false
	}
	return (spec.Is(commands.Write) || spec.Is(commands.MayReplicate)) &&
		!spec.Is(commands.Blocking)
}

// keysOf returns the keys that a command names.
func keysOf(table *commands.Table, args [][]byte, db int) (keys []importer.Key, ok bool) {
	spec := table.Of(args)
	if spec == nil {
		return nil, false
	}
	named, ok := spec.KeysOf(args, db)
	for _, k := range named {
		keys = append(keys, importer.Key(k))
	}
	return keys, ok
}

// importInto imports into the server at an address, and waits until the data is durable there.
func importInto(ctx context.Context, source *importer.Source, o importer.Options,
	server *serverFlags, addr string) (*importer.Report, error) {
	conn, err := server.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // all replies have come
	o.Conn, o.Durable = conn, true
	got, err := importer.Import(source, o)
	return got, errors.Join(ctx.Err(), err)
}

// importIntoDir runs a server on a new directory next to dir. When the new directory is complete
// and durable, it is renamed to dir.
func importIntoDir(ctx context.Context, source *importer.Source, o importer.Options,
	dir string) (got *importer.Report, err error) {
	err = newDir(dir, ".import", func(part string) (err error) {
		got, err = importWithServer(ctx, source, o, part)
		return err
	})
	return got, err
}

// importMemory bounds the memory of the data during an import, unless the environment sets a limit.
const importMemory = "1gb"

func importWithServer(ctx context.Context, source *importer.Source, o importer.Options,
	dir string) (got *importer.Report, err error) {
	cfg, err := config.Load([]string{"--dir", dir, "--appendfsync", "no"}, os.Environ(), nil)
	if err != nil {
		return nil, err
	}
	if cfg.Int("maxmemory") == 0 {
		if err := cfg.Set(config.Pair{Name: "maxmemory", Value: importMemory}); err != nil {
			return nil, err
		}
	}
	commands.SetThresholds(cfg)
	defer tuneCollector(cfg)()
	var bell server.Bell
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, _, err := storage.Open(storeOptions(cfg.String("dir"), cfg, clock.System, logger, &bell))
	if err != nil {
		return nil, err
	}
	env := commands.NewEnv(store, cfg, logger, clock.System)
	srv, err := server.New(server.Options{Config: cfg, Env: env, Log: logger, Clock: clock.System,
		Bell: &bell, Inside: true})
	if err != nil {
		return nil, errors.Join(err, store.Close(false))
	}
	server.SpareProcs()
	running, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(running) }()
	conn, err := srv.Connect("import")
	if err == nil {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		o.Conn = conn
		got, err = importer.Import(source, o)
		stop()
		err = errors.Join(err, ctx.Err())
		conn.Close() // all replies have come, or it failed
	}
	end()
	if failed := <-ended; failed != nil {
		return nil, errors.Join(err, failed, closeFailed(store))
	}
	return got, errors.Join(err, store.Close(false)) // the log is synced, and has all
}

// printImport prints a summary of an import. It returns an error if something was not imported.
func printImport(out io.Writer, from string, got *importer.Report, dry bool,
	took time.Duration) error {
	var text strings.Builder
	if got.NotSaid {
		text.WriteString("whether all of that is on its disk the server cannot say (Redis can since 7.2): SAVE there makes sure\n")
	}
	if got.Torn > 0 {
		fmt.Fprintf(&text,
			"torn: the last %d bytes of %s are no whole command, and were left out as Redis does\n",
			got.Torn, got.TornFile)
	}
	refused := writeRefusals(&text, "refused", got.Refused)
	for _, kind := range slices.Sorted(maps.Keys(got.Types)) {
		fmt.Fprintf(&text, "%s: %d\n", kind, got.Types[kind])
	}
	verb := "has been imported"
	if dry {
		verb = "would be imported"
	}
	fmt.Fprintf(&text,
		"%s %s: %s, %d with a deadline; %d had expired, %d left out; %d libraries; %d commands; %v, %.0f keys/s\n",
		from, verb, count(int(got.Keys), "key"), got.Deadlines, got.Expired, got.LeftOut,
		got.Libraries, got.Commands,
		took.Round(time.Millisecond), float64(got.Keys+got.Commands)/max(took.Seconds(), 0.001))
	if _, err := io.WriteString(out, text.String()); err != nil {
		return exit{statusFailed, err}
	}
	if refused > 0 {
		return exit{statusLost, fmt.Errorf("not all of %s is imported: %d refused", from, refused)}
	}
	return nil
}

// writeRefusals writes the reasons why things were refused, and returns the number of these things.
func writeRefusals(text *strings.Builder, what string, all importer.Refusals) (sum int64) {
	for _, r := range all {
		sum += r.Count
		names := make([]string, len(r.First))
		for i, name := range r.First {
			names[i] = strconv.Quote(name)
		}
		fmt.Fprintf(text, "%s: %d, %s: %s\n", what, r.Count, r.Reason, strings.Join(names, " "))
	}
	return sum
}
