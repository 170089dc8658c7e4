package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"keyp/internal/clock"
	"keyp/internal/progress"
	"keyp/internal/target"
	"keyp/storage"
	"keyp/storage/archive"
	"keyp/storage/backupfile"
	"keyp/storage/repair"
	"keyp/storage/snapshotfile"
)

const restoreUsage = `usage: keyp restore BACKUP NEWDIR                make a data directory of a backup; BACKUP may be - for standard input
       keyp restore BACKUP NEWDIR --archive DIR  continue with an archive (archive-dir), to its end
       keyp restore BACKUP --archive DIR --list  show to which moments that can go
options: --archive more than once: where one archive of the server ends or lacks something, another one continues
         --to LSN or --to TIME: restore up to this LSN or time; TIME is as 2006-01-02T15:04:05.000Z
         --keep-expired: what was there at that moment and has expired since then loses its deadline; otherwise it is gone
BACKUP and DIR may be in a bucket, s3://BUCKET/PREFIX/NAME, that is reached as keyp backup --help says; option: ` + targetUsage

// restore makes a new data directory from a backup and, with --archive, from the log that was
// archived after it. With --list it makes nothing, and prints the points in time that it could
// restore.
func restore(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("restore", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	moment, list := flags.String("to", "", ""), flags.Bool("list", false, "")
	var archives []string
	flags.Func("archive", "", func(path string) error {
		archives = append(archives, path)
		return nil
	})
	keep := flags.Bool("keep-expired", false, "")
	remote := addTargetFlags(flags)
	words, err := parseWords(flags, args)
	if err != nil {
		return fmt.Errorf("%w (see keyp restore --help)", err)
	}
	dirs := 2
	if *list {
		dirs = 1
	}
	if len(words) != dirs || words[dirs-1] == "" ||
		len(archives) == 0 && (*list || *moment != "") || *list && (*moment != "" || *keep) {
		return errors.New(restoreUsage)
	}
	source := storage.Source{KeepExpired: *keep}
	if *moment != "" {
		if source.LSN, source.Time, err = parseMoment(*moment); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for _, path := range archives {
		a, err := archiveAt(ctx, path, *remote)
		if err != nil {
			return err
		}
		source.Archives = append(source.Archives, a)
	}
	if *list {
		return listMoments(ctx, words[0], *remote, source.Archives, out)
	}
	began, from, to := time.Now(), words[0], words[1]
	var m storage.Moment
	err = newDir(to, target.Unfinished, func(part string) (err error) {
		m, err = restoreInto(ctx, from, part, *remote, source, toolProgress())
		return err
	})
	if err != nil {
		return fmt.Errorf("%s is not restored: %w", from, interruption(ctx, err))
	}
	kept := ""
	if *keep {
		kept = fmt.Sprintf(", %s kept that would have expired", count(m.Kept, "key"))
	}
	_, err = fmt.Fprintf(out, "%s has the data of %s, LSN %d%s, restored in %v\n", to,
		instant(m.Time), m.Through, kept, time.Since(began).Round(time.Millisecond))
	if m.Unproven && err == nil {
		_, err = fmt.Fprintln(out, "The archive begins where the backup ends: nothing proves that "+
			"both are of the same copy of the directory.")
	}
	return err
}

// archiveFiles is an archive in a folder.
type archiveFiles struct {
	ctx context.Context
	target.Folder
}

// archiveAt returns the archive at a path. A missing folder is an error.
func archiveAt(ctx context.Context, path string, remote target.Options) (archive.Files, error) {
	folder, err := target.Open(path, remote)
	if err != nil {
		return nil, err
	}
	if _, err := folder.List(ctx); err != nil {
		return nil, err
	}
	return archiveFiles{ctx, folder}, nil
}

// List and Open implement archive.Files.
func (f archiveFiles) List() (names []string, err error) {
	files, err := f.Folder.List(f.ctx)
	for _, file := range files {
		names = append(names, file.Name)
	}
	return names, err
}

func (f archiveFiles) Open(name string) (io.ReadCloser, error) {
	file, _, err := f.Folder.Open(f.ctx, name)
	return file, err
}

// interruptible runs a function that takes no context. If ctx ends first, it waits at most one
// second longer and returns the error of ctx. Then the function may still run, so the caller must
// end soon.
func interruptible(ctx context.Context, run func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select { // a directory is better removed when nobody writes to it any more
	case <-ended:
	case <-time.After(time.Second):
	}
	return ctx.Err()
}

// restoreInto restores a backup into the new directory dir.
func restoreInto(ctx context.Context, from, dir string, remote target.Options,
	source storage.Source, meter *progress.Meter) (m storage.Moment, err error) {
	meter.Begin("restoring")
	defer meter.End()
	o := toolOptions(dir, nil) // what is read shows how far it is
	made := make(chan storage.Moment, 1)
	err = interruptible(ctx, func() error {
		return unpacked(ctx, from, remote, meter, func(r io.Reader) error {
			m, err := storage.RestoreTo(ctx, o, r, source)
			made <- m
			return err
		})
	})
	if err != nil {
		return m, err
	}
	return <-made, nil
}

// unsound returns the error for a backup that cannot be verified. The text says whether the backup
// itself is damaged.
func unsound(path string, err error) error {
	for _, is := range []error{backupfile.ErrBad, snapshotfile.ErrBad, storage.ErrCorrupt} {
		if errors.Is(err, is) {
			return fmt.Errorf("%s is not sound: %w", path, err)
		}
	}
	return fmt.Errorf("%s cannot be verified: %w", path, err)
}

// verifyBackup verifies a backup. It restores the backup into a temporary directory, which checks
// the checksums. Then it checks that directory as keyp check does, and removes it.
func verifyBackup(ctx context.Context, path string, remote target.Options,
	out io.Writer) (err error) {
	began, meter := time.Now(), toolProgress()
	dir, err := os.MkdirTemp("", "keyp-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	m, err := restoreInto(ctx, path, data, remote, storage.Source{}, meter)
	if err != nil {
		return unsound(path, interruption(ctx, err))
	}
	h := m.Backup
	note, err := storage.ReadBackupNote(&h)
	if err != nil {
		return unsound(path, err)
	}
	list := listing{out: out, most: shown}
	var got repair.Inspected
	err = interruptible(ctx, func() (err error) {
		got, err = repair.Inspect(storage.Options{Dir: data, Clock: clock.System,
			Logger: slog.New(slog.DiscardHandler), Progress: meter}, func(f repair.Finding) {
			if !f.Harmless {
				list.add("damage: ", f.String())
			}
		})
		return err
	})
	if ctx.Err() != nil { // it may still be about to add to the list
		return unsound(path, errInterrupted)
	}
	if err := errors.Join(err, list.end("damage: ")); err != nil {
		return fmt.Errorf("%s cannot be verified: %w", path, err)
	}
	if list.lines > 0 {
		return fmt.Errorf("%s is damaged in %s", path, count(list.lines, "place"))
	}
	meter.End()
	_, err = fmt.Fprintf(out,
		"%s is sound: %s, %d with a deadline, as of %s, LSN %d of history %s, verified in %v\n",
		path, count(got.Keys, "key"), got.Deadlines, instant(h.Time), h.Through, note.History,
		time.Since(began).Round(time.Millisecond))
	return err
}
