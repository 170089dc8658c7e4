package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"keyp/internal/clock"
	"keyp/storage"
)

// Exit statuses of repair, beside 0 for nothing lost.
const (
	statusLost   = 1
	statusFailed = 2
)

// repair saves what can be saved of a damaged data directory into a new one, and lists what
// is lost. No server may use the directory meanwhile.
func repair(args []string, out io.Writer) error {
	if len(args) != 2 {
		return exit{statusFailed, errors.New("usage: keyp repair DIR NEWDIR")}
	}
	dir, to := args[0], args[1]
	list := listing{out: out}
	got, err := storage.Repair(storage.Options{Dir: dir, Clock: clock.System, Logger: slog.New(slog.DiscardHandler)}, to, func(l storage.Loss) {
		if l.Note {
			list.add("damage: ", l.What)
		} else {
			list.add("lost: ", l.What)
			list.wrong++
		}
	})
	if err := errors.Join(err, list.end()); err != nil {
		return exit{statusFailed, fmt.Errorf("%s cannot be repaired: %w", dir, err)}
	}
	_, err = fmt.Fprintf(out, "%s has %d keys, %d with a deadline; %d batches of the log were applied\n", to, got.Keys, got.Deadlines, got.Log.Batches)
	if err != nil {
		return exit{statusFailed, err}
	}
	if list.wrong > 0 {
		return exit{statusLost, fmt.Errorf("not all of %s could be saved: %d losses", dir, list.wrong)}
	}
	return nil
}
