package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"keyp/internal/clock"
	"keyp/storage"
)

// check opens a data directory as the server would (so no server may have it open),
// which verifies the log, and then compares data file, memory and index.
func check(args []string, out io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("usage: keyp check DIR")
	}
	dir := args[0]
	// Opening makes what is missing; here that would be an answer to another question.
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	store, found, err := storage.Open(storage.Options{
		Dir: dir, Clock: clock.System, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		NoBackground: true,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, store.Close(false)) }()
	if err := store.Check(); err != nil {
		return fmt.Errorf("%s is damaged: %w", dir, err)
	}
	_, err = fmt.Fprintf(out, "%s is sound: %d keys, %d with a deadline, %d batches in the log, checked in %v\n",
		dir, found.Keys, found.Deadlines, found.Batches, found.Took)
	return err
}
