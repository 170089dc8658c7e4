package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/progress"
	"keyp/member"
	"keyp/server"
	"keyp/storage"
	"keyp/web"
)

// serve runs the server until a signal or SHUTDOWN.
func serve(cfg *config.Config, machine *clock.Machine) (err error) {
	logs, err := openLog(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && logs.apart() {
			logs.Error("the server ends", "error", err)
		}
		err = errors.Join(err, logs.close())
	}()
	logger := logs.Logger
	for _, text := range cfg.Warnings() {
		logger.Warn(text)
	}
	if err := fitFiles(cfg, logger); err != nil {
		return err
	}
	manager := newNotifier(os.Getenv, logger)
	defer manager.close()
	pages, err := serveHTTP(cfg, logger, machine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pages.Close()) }()

	commands.SetThresholds(cfg) // before any value is read
	defer tuneCollector(cfg)()

	var bell server.Bell
	options := storeOptions(".", cfg, machine, logger, &bell)
	options.Progress = progress.New(machine, logs.progress(), manager.loads())
	if _, err := os.Stat(cfg.String("dir")); errors.Is(err, os.ErrNotExist) {
		// A start that fails because of its port must not make the directory.
		if err := server.Probe(server.Options{Config: cfg, Log: logger}); err != nil {
			return err
		}
	}
	if err := enterDir(cfg.String("dir")); err != nil {
		return fmt.Errorf("cannot open the data in %s: %w", cfg.String("dir"), err)
	}
	warnOfRedis(logger, cfg.String("dir"))
	existed := storage.Exists(".")
	running, end := context.WithCancel(context.Background())
	defer end()
	open := storage.Open
	var env *commands.Env
	var group *member.Member
	if cfg.Bool("cluster-enabled") {
		if group, err = newMember(cfg, machine, logger, func() *commands.Env {
			return env
		}, end); err != nil {
			return err
		}
		open = group.Open
	}
	store, found, err := open(options)
	if err != nil {
		return fmt.Errorf("cannot open the data in %s: %w", cfg.String("dir"), err)
	}
	if !existed { // the option may name the wrong directory
		logger.Info("a new data directory was made: there was no data", "dir",
			filepath.Clean(cfg.PathOf("dir")))
	}
	warnModes(".", logger)
	env = commands.NewEnv(store, cfg, logger, machine)
	if err := errors.Join(joinGroup(env, group), env.LoadUsers()); err != nil {
		return errors.Join(err, store.Close(false))
	}
	serverOptions := server.Options{Config: cfg, Env: env, Log: logger, Clock: machine, Bell: &bell}
	if group != nil {
		serverOptions.BeforeStop = group.HandOver
	}
	srv, err := server.New(serverOptions)
	if err != nil {
		return errors.Join(err, store.Close(false))
	}
	removePID, err := writePID(cfg.PathOf("pidfile"))
	if err != nil {
		return errors.Join(err, store.Close(false))
	}
	defer func() { err = errors.Join(err, removePID()) }()

	ctx, stop := stopOnSignal(logger)
	defer stop()
	if group != nil {
		if err := group.Start(srv); err != nil {
			return errors.Join(err, store.Close(false))
		}
	}
	logger.Info("ready", "version", config.Version, "listen", strings.Join(srv.Addrs(), " "),
		"http", cmp.Or(pages.URL(), "off"), "dir", cfg.String("dir"),
		"keys", found.Keys, "deadlines", found.Deadlines, "replayed", found.Batches, "took",
		found.Took.String(), "pid", os.Getpid())
	go debug.FreeOSMemory() // what recovery needed is garbage now
	server.SpareProcs()
	pages.Ready(env, srv.Connect)
	manager.ready(srv.Post)
	context.AfterFunc(ctx, func() {
		manager.stopping()
		pages.Stopping()
		end()
	})
	err = srv.Run(running)
	manager.stopping()
	pages.Withdraw()
	if group != nil {
		group.Stop()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the server had to stop: %w", err), closeFailed(store))
	}
	if err := store.Close(srv.SaveAtExit()); err != nil {
		return fmt.Errorf("closing the data: %w", err)
	}
	if group != nil {
		switch again, err := group.Finish(); {
		case again && err != nil:
			logger.Error("what the server was stopped for has failed", "error", err)
			return errAgain
		case again:
			return errAgain
		}
	}
	logger.Info("stopped")
	return nil
}

// enterDir makes the data directory, if there is none, and makes it the working directory of the
// process. So the names of its files stay valid when somebody moves the directory while the server
// runs.
func enterDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chdir(dir)
}

// warnOfRedis logs a warning if the working directory has files of Redis and no data of Keyp. The
// warning says that the server does not read these files.
func warnOfRedis(logger *slog.Logger, dir string) {
	if storage.Exists(".") {
		return
	}
	for _, name := range []string{"dump.rdb", "appendonlydir", "appendonly.aof"} {
		if _, err := os.Stat(name); err == nil {
			path := filepath.Join(dir, name)
			logger.Warn(
				"the directory has data of Redis, which this server does not read: `keyp import "+
					path+" --dir NEWDIR` makes a directory of Keyp of it", "file", path)
			return
		}
	}
}

// joinGroup connects the commands with the server's group. A server without a group becomes the
// only node of its cluster.
func joinGroup(env *commands.Env, group *member.Member) error {
	if group == nil {
		return env.LoadCluster()
	}
	env.SetMembership(group)
	if node, shard, ok := group.Grouped(); ok {
		env.LoadMember(node, shard)
		return nil
	}
	return env.LoadCluster()
}

// storeOptions returns the options of a server's store in a directory, except for the ones that
// show the progress of a start.
func storeOptions(dir string, cfg *config.Config, clk clock.Clock, logger *slog.Logger,
	bell *server.Bell) storage.Options {
	limit, patience := commands.ClockGuard(cfg)
	return storage.Options{
		Dir: dir, LockWait: lockWait, FS: logFiles(cfg.Int("debug-sync-delay")),
		Databases: int(cfg.Int("databases")), Shards: int(cfg.Int("shards")),
		Sync: commands.SyncPolicy(cfg), SegmentSize: cfg.Int("wal-segment-size"),
		DiskReserve:     uint64(cfg.Int("disk-reserve")),
		CheckpointBytes: cfg.Int("checkpoint-log-size"), MaxMemory: cfg.Int("maxmemory"),
		Frequency: commands.Frequency(cfg),
		ReapDelay: commands.ExpiredEventsDelay(cfg), ClockJumpLimit: limit,
		ClockJumpPatience: patience,
		Archive:           archiveOf(cfg, logger),
		Clock:             clk, Logger: logger, OnDurable: bell.Durable, OnFail: bell.Fail,
		Hooks: commands.Features,
	}
}

// serveHTTP serves the pages for people and programs that monitor the server, if http-addr is set.
func serveHTTP(cfg *config.Config, logger *slog.Logger, clk clock.Clock) (*web.Server, error) {
	o := web.Options{Config: cfg, Log: logger, Clock: clk}
	if cfg.String("http-addr") != "" && cfg.Bool("http-tls") {
		certificates, err := server.FollowTLS(cfg, logger)
		if err != nil {
			return nil, err
		}
		o.TLS = certificates.Config
	}
	return web.Listen(o)
}

// lockWait is the longest time that a start waits for the end of the previous process. A process
// needs about half a second to end for each GB of its memory.
const lockWait = 10 * time.Second

// failedCloseTime is the longest time that closing a store may take after a failure.
const failedCloseTime = 10 * time.Second

// closeFailed closes the store of a server that failed. A lock may still be held after the failure,
// so closeFailed waits at most failedCloseTime. All acknowledged data is in the log.
func closeFailed(store *storage.Store) error {
	closed := make(chan error, 1)
	go func() { closed <- store.Close(false) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(failedCloseTime):
		return errors.New("the data could not be closed in time")
	}
}

// stopOnSignal ends the context at SIGINT or SIGTERM. A second signal ends the process at once,
// with status 1. All acknowledged data is in the log even then.
func stopOnSignal(logger *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if ctx.Err() != nil {
				logger.Warn("stopping at once", "signal", s.String())
				os.Exit(1)
			}
			logger.Info("stopping", "signal", s.String())
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// writePID writes the process id to path, if that is not empty, and returns a function that removes
// the file.
func writePID(path string) (remove func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	if err := checkPIDFile(path); err != nil { // it may have become something else meanwhile
		return nil, err
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("cannot write the pidfile: %w", err)
	}
	return func() error {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil // somebody has moved it, or its directory
	}, nil
}
