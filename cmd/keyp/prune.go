package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"keyp/internal/target"
	"keyp/storage"
	"keyp/storage/archive"
	"keyp/storage/snapshotfile"
)

const pruneUsage = "usage: keyp backup prune DIR --keep N|DAYSd [--archive DIR] [--dry-run] [--force] (see keyp backup --help)"

// retention says which of a server's backups keyp prune keeps.
type retention struct {
	most  int           // the number of newest ones to keep; 0: the number does not count
	since time.Duration // all younger ones are kept, and the next older; 0: age does not count
}

func parseRetention(text string) (r retention, err error) {
	number, days := strings.CutSuffix(text, "d")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || n > 100_000:
		return r,
			fmt.Errorf("--keep %q is no number of backups, as 7, and no number of days, as 30d",
				text)
	case days:
		r.since = time.Duration(n) * 24 * time.Hour
	default:
		r.most = n
	}
	return r, nil
}

// backupFound is a backup in a directory.
type backupFound struct {
	target.File
	history string
	snapshotfile.Header
}

// prune removes the backups of a directory that the retention does not keep. It also removes the
// files of an archive that only these backups need.
func prune(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("prune", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	keep, archivePath := flags.String("keep", "", ""), flags.String("archive", "", "")
	dry, force := flags.Bool("dry-run", false, ""), flags.Bool("force", false, "")
	remote := addTargetFlags(flags)
	words, err := parseWords(flags, args)
	if err != nil {
		return fmt.Errorf("%w; %s", err, pruneUsage)
	}
	if len(words) != 1 || words[0] == "" {
		return errors.New(pruneUsage)
	}
	rule, err := parseRetention(*keep)
	if err != nil {
		return fmt.Errorf("%w; %s", err, pruneUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := &pruning{ctx: ctx, out: out, remote: *remote, dry: *dry, force: *force,
		now: time.Now(), rule: rule}
	if *archivePath != "" { // before anything is removed
		if p.archive, err = target.Open(*archivePath, *remote); err == nil {
			p.archived, err = p.archive.List(ctx)
		}
		if err != nil {
			return interruption(ctx, err)
		}
	}
	if p.from, err = target.Open(words[0], *remote); err == nil {
		err = p.folder()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], interruption(ctx, err))
	}
	return nil
}

// pruning is one run of prune.
type pruning struct {
	ctx      context.Context
	out      io.Writer
	remote   target.Options
	dry      bool
	force    bool
	now      time.Time
	rule     retention
	from     target.Folder
	archive  target.Folder // nil: none is pruned
	archived []target.File // what it has
	removed  int
	bytes    int64
}

// abandoned is the age from which an unfinished file counts as one that no run will finish.
const abandoned = 24 * time.Hour

// folder prunes each history separately, so the backups of other servers do not count.
func (p *pruning) folder() error {
	files, err := p.from.List(p.ctx)
	if err != nil {
		return err
	}
	histories := map[string][]backupFound{}
	for _, f := range files {
		if !strings.HasPrefix(f.Name, "keyp-") || !strings.HasSuffix(f.Name, ".backup") {
			continue
		}
		b := backupFound{File: f}
		if b.Header, b.history, err = readBackup(p.ctx, p.from.Path(f.Name),
			p.remote, false); err != nil {
			if err := p.keepBad(f.Name, err); err != nil {
				return err
			}
			continue
		}
		histories[b.history] = append(histories[b.history], b)
	}
	if err := p.plausible(histories); err != nil {
		return err
	}
	for _, history := range slices.Sorted(maps.Keys(histories)) {
		if err := p.history(history, histories[history]); err != nil {
			return err
		}
	}
	left, err := p.from.Tidy(p.ctx, abandoned, p.dry)
	for _, name := range left {
		if _, err := fmt.Fprintf(p.out, "%s, which no run will finish\n",
			p.from.Path(name)); err != nil {
			return err
		}
	}
	if p.removed += len(left); err != nil {
		return err
	}
	verb := "removed"
	if p.dry {
		verb = "would be removed"
	}
	_, err = fmt.Fprintf(p.out, "%s, %d bytes, %s\n", count(p.removed, "file"), p.bytes, verb)
	return err
}

// since returns the time from which on all backups are kept, in Unix ms; 0 if the rule has none.
func (p *pruning) since() int64 {
	if p.rule.since == 0 {
		return 0
	}
	return p.now.Add(-p.rule.since).UnixMilli()
}

// plausible returns an error if all backups seem too old, so that only one of each history would be
// kept. The clock may be far ahead, or no backups are made any more.
func (p *pruning) plausible(histories map[string][]backupFound) error {
	newest, more := int64(0), false
	for _, list := range histories {
		more = more || len(list) > 1
		for _, b := range list {
			newest = max(newest, b.Time)
		}
	}
	if p.force || !more || newest >= p.since() {
		return nil
	}
	return fmt.Errorf("the newest backup is of %s, and now is %s by the clock of this machine, so all are older than --keep says: nothing is removed; --force removes all but the newest one",
		instant(newest), instant(p.now.UnixMilli()))
}

// keepBad prints that a file is not a sound backup. The file is kept, so that somebody can examine
// it.
func (p *pruning) keepBad(name string, why error) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "%s is not sound, is left and does not count: %v\n",
		p.from.Path(name), why)
	return err
}

// history prunes the backups of one history. It verifies the backups to keep, from the newest on.
// Damaged ones do not count.
func (p *pruning) history(history string, list []backupFound) error {
	slices.SortFunc(list, func(a, b backupFound) int { return cmp.Compare(b.Through, a.Through) })
	kept, oldest := 0, uint64(0)
	done := false // all others go
	for _, b := range list {
		if !done {
			if _, _, err := readBackup(p.ctx, p.from.Path(b.Name), p.remote, true); err != nil {
				if err := p.keepBad(b.Name, err); err != nil {
					return err
				}
				continue
			}
			kept, oldest = kept+1, b.Through
			done = p.rule.most != 0 && kept >= p.rule.most || b.Time < p.since()
			continue
		}
		if err := p.remove(p.from, b.File); err != nil {
			return err
		}
	}
	if kept == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(p.out, "history %s: %s kept, the oldest of LSN %d\n", history,
		count(kept, "backup"), oldest); err != nil || p.archive == nil {
		return err
	}
	names, err := archive.Before(archiveFiles{p.ctx, p.archive}, history, oldest)
	if err != nil {
		return err
	}
	for _, f := range p.archived {
		if !slices.Contains(names, f.Name) {
			continue
		}
		if err := p.remove(p.archive, f); err != nil {
			return err
		}
	}
	return nil
}

func (p *pruning) remove(from target.Folder, f target.File) error {
	err := p.ctx.Err()
	if err == nil && !p.dry {
		err = from.Remove(p.ctx, f.Name)
	}
	if err != nil {
		return err
	}
	p.removed, p.bytes = p.removed+1, p.bytes+f.Size
	_, err = fmt.Fprintln(p.out, from.Path(f.Name))
	return err
}

// readBackup returns the header and the history of a backup. With whole it verifies all checksums.
func readBackup(ctx context.Context, path string, remote target.Options,
	whole bool) (h snapshotfile.Header, history string, err error) {
	errEnough := errors.New("that is all")
	err = unpacked(ctx, path, remote, nil, func(r io.Reader) error {
		from, err := snapshotfile.NewReader(r)
		if err != nil {
			return err
		}
		h = from.Header
		note, err := storage.ReadBackupNote(&h)
		if history = note.History; err != nil {
			return err
		}
		if !whole {
			return errEnough
		}
		for err == nil {
			_, err = from.Next()
		}
		if err == io.EOF {
			return nil
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return h, history, err
}
