package main

import (
	"fmt"
	"log/slog"
	"strconv"

	"golang.org/x/sys/unix"

	"keyp/internal/config"
	"keyp/web"
)

// ownFiles is the number of files that the server itself needs: log segments, data file, listeners
// and a reserve.
const ownFiles = 64

// httpFiles is the number of additional files that serving HTTP needs. It is twice the limit of
// connections, because a connection that makes room is closed after the new one is accepted.
const httpFiles = 2 * web.MaxConns

// fitFiles raises the limit of open files to the number that maxclients needs. If the system does
// not allow that, fitFiles lowers maxclients instead, as Redis does. A later CONFIG SET maxclients
// fails in that case.
func fitFiles(cfg *config.Config, logger *slog.Logger) error {
	clients, ownFiles := cfg.Int("maxclients"), uint64(ownFiles)
	if cfg.String("http-addr") != "" {
		ownFiles += httpFiles
	}
	allowed, err := raiseFiles(uint64(clients) + ownFiles)
	if err != nil {
		return fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	if allowed <= ownFiles {
		return fmt.Errorf("the limit of open files is %d: that is too low, see ulimit -n", allowed)
	}
	if room := int64(min(allowed, 1<<32) - ownFiles); room < clients {
		logger.Warn("maxclients is lowered, since the system allows no more open files",
			"maxclients", room, "files", allowed)
		if err := cfg.Set(config.Pair{Name: "maxclients",
			Value: strconv.FormatInt(room, 10)}); err != nil {
			return err
		}
	}
	cfg.OnChange("maxclients", func() error {
		clients := cfg.Int("maxclients")
		allowed, err := raiseFiles(uint64(clients) + ownFiles)
		if err != nil || allowed < uint64(clients)+ownFiles {
			//lint:ignore ST1005 Redis's text
			return fmt.Errorf("The operating system is not able to handle the specified number of clients, try with %d",
				int64(min(allowed, 1<<32)-ownFiles))
		}
		return nil
	})
	return nil
}

// raiseFiles tries to raise the limit of open files to want, and returns the resulting limit.
func raiseFiles(want uint64) (allowed uint64, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if limit.Cur >= want {
		return limit.Cur, nil
	}
	// Any process may raise its limit up to the hard limit. Only a privileged process may exceed
	// it.
	for _, try := range []unix.Rlimit{{Cur: want, Max: max(want, limit.Max)},
		{Cur: min(want, limit.Max), Max: limit.Max}} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &try) == nil {
			return try.Cur, nil
		}
	}
	return limit.Cur, nil
}
