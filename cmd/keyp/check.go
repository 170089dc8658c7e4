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

// shown is how many of the things that are wrong are printed.
const shown = 100

// check proves that a data directory is sound, and prints what is not. It changes nothing,
// and no server may use the directory meanwhile.
func check(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: keyp check DIR")
	}
	dir := args[0]
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	list := listing{out: out}
	got, err := storage.Inspect(storage.Options{Dir: dir, Clock: clock.System, Logger: slog.New(slog.DiscardHandler)}, func(f storage.Finding) {
		if f.Harmless {
			list.add("harmless: ", f.String())
		} else {
			list.add("damage: ", f.String())
			list.wrong++
		}
	})
	if err := errors.Join(err, list.end()); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if list.wrong > 0 {
		return fmt.Errorf("%s is damaged in %d places; `keyp repair %s NEWDIR` saves what is left", dir, list.wrong, dir)
	}
	_, err = fmt.Fprintf(out, "%s is sound: %d keys, %d with a deadline, %d batches in the log, %d elements and %d pages in the data file, checked in %v\n",
		dir, got.Keys, got.Deadlines, got.Log.Batches, got.Elements, got.Pages, got.Took)
	return err
}

// listing prints lines, but not more than shown.
type listing struct {
	out          io.Writer
	lines, wrong int
	err          error
}

func (l *listing) add(kind, text string) {
	if l.lines++; l.lines <= shown && l.err == nil {
		_, l.err = fmt.Fprintln(l.out, kind+text)
	}
}

// end says how many lines there were not.
func (l *listing) end() error {
	if more := l.lines - shown; more > 0 && l.err == nil {
		_, l.err = fmt.Fprintf(l.out, "and %d more\n", more)
	}
	return l.err
}
