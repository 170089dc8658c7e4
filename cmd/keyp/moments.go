package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"keyp/internal/target"
	"keyp/storage/archive"
)

// parseMoment reads an LSN or a time. A time without a zone is UTC.
func parseMoment(text string) (lsn uint64, ms int64, err error) {
	if lsn, err := strconv.ParseUint(text, 10, 64); err == nil && lsn > 0 {
		return lsn, 0, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, text); err == nil && at.UnixMilli() > 0 {
			return 0, at.UnixMilli(), nil
		}
	}
	return 0, 0, fmt.Errorf("%q is neither an LSN nor a time as 2006-01-02T15:04:05.000Z", text)
}

// largeRemoval is the least number of keys for which a removal is listed.
const largeRemoval = 100

// listMoments lists the content of each archive after a backup: where the archive's files begin and
// end, and which commands removed many keys at once.
func listMoments(ctx context.Context, from string, remote target.Options, archives []archive.Files,
	out io.Writer) error {
	h, history, err := readBackup(ctx, from, remote, true)
	if err != nil {
		return fmt.Errorf("%s is not sound: %w", from, err)
	}
	line := func(lsn uint64, at int64, what string) error {
		_, err := fmt.Fprintf(out, "%-14d %s  %s\n", lsn, instant(at), what)
		return err
	}
	if _, err := fmt.Fprintf(out, "%-14s %-24s  %s\n", "LSN", "TIME", "WHAT"); err != nil {
		return err
	}
	if err := line(h.Through, h.Time, "the backup"); err != nil {
		return err
	}
	for _, a := range archives {
		if len(archives) > 1 {
			if err := line(h.Through, h.Time, a.Path("")); err != nil {
				return err
			}
		}
		err := listArchive(ctx, a, history, h.Through, largeRemoval,
			func(e archiveEntry) error {
				return line(e.LSN, max(e.Time, h.Time), e.What)
			})
		if err != nil {
			return err
		}
	}
	return nil
}
