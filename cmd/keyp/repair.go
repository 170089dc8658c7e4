package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"keyp/features/leases"
	"keyp/internal/clock"
	"keyp/storage"
	"keyp/storage/repair"
)

const repairUsage = "usage: keyp repair DIR NEWDIR"

// These are the exit statuses of repair. The status is 0 if nothing was lost.
const (
	statusLost   = 1
	statusFailed = 2
)

// renewLeases returns the hooks for leases. If the last state of a lease is lost, they give the
// lease a new token, larger than any token that another owner may have.
func renewLeases(s *storage.Store) storage.Hooks { return leases.New(s) }

// repairDir saves the readable data of a damaged data directory into a new one, and lists the
// losses. No server may use the directory meanwhile.
func repairDir(args []string, out io.Writer) error {
	if len(args) != 2 || strings.HasPrefix(args[0], "-") {
		return exit{statusFailed, errors.New(repairUsage)}
	}
	dir, to := args[0], args[1]
	notes, lost, doubtful := listing{out: out, most: shown}, listing{out: out}, listing{out: out}
	got, err := repair.Repair(storage.Options{Dir: dir, LockWait: toolWait, Clock: clock.System,
		Logger: slog.New(slog.DiscardHandler), Progress: toolProgress(), Hooks: renewLeases}, to,
		func(l repair.Loss) {
			switch l.Kind {
			case repair.Note:
				notes.add("damage: ", l.What)
			case repair.Doubtful:
				doubtful.add("doubtful: ", l.What)
			default:
				lost.add("lost: ", l.What)
			}
		})
	if err := errors.Join(err, notes.end("damage: "), lost.err, doubtful.err); err != nil {
		return exit{statusFailed, fmt.Errorf("%s cannot be repaired: %w", dir, inUse(err))}
	}
	_, err = fmt.Fprintf(out, "%s has %s, %d with a deadline; %s of the log applied\n", to,
		count(got.Keys, "key"), got.Deadlines, count(got.Log.Batches, "batch"))
	if err != nil {
		return exit{statusFailed, err}
	}
	switch {
	case lost.lines > 0 && doubtful.lines > 0:
		err = fmt.Errorf("not all of %s could be saved: %s, %s", dir, count(lost.lines, "loss"),
			count(doubtful.lines, "doubtful key"))
	case lost.lines > 0:
		err = fmt.Errorf("not all of %s could be saved: %s", dir, count(lost.lines, "loss"))
	case doubtful.lines > 0:
		err = fmt.Errorf("not all of %s could be saved: %s", dir,
			count(doubtful.lines, "doubtful key"))
	default:
		return nil
	}
	return exit{statusLost, err}
}
