package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage/snapshotfile"
	"keyp/storage/wal"
)

// This file contains Archiver, which copies the write-ahead log to files while the server writes
// the log. It can also pass each file to a command of the user.

const (
	// fileSize is about how many bytes of the log a file contains when it is complete.
	fileSize = 64 << 20
	// lookInterval is how often the archiver looks whether there is something to do, in
	// milliseconds.
	lookInterval = 500
	// longestPause is the longest time for which the archiver waits after an error, in
	// milliseconds. It waits twice as long after each further error, up to that.
	longestPause = 10_000
	// logInterval is how often errors that differ are logged.
	logInterval = time.Minute
	// closePatience is how long Close may take to archive the rest of the log.
	closePatience = 10 * time.Second
	// RunLimit is how long a command may run until that counts as a failure.
	RunLimit = 5 * time.Minute
	// stateName is the file of State, in the directory of the data.
	stateName = "archive.json"
	// spoolName is the directory there of files for a command.
	spoolName = "archive"
)

// Log is a log that is archived.
type Log interface {
	// History names the log.
	History() string
	// Begin returns the position at which the first batch begins, and End the LSN of the last
	// one.
	Begin() uint64
	End() uint64
	// Durable, Synced and Settled are those of storage.Journal: nothing up to a position that is
	// settled is ever taken back.
	Durable() uint64
	Synced() uint64
	Settled(ctx context.Context, lsn uint64) error
	// KeepFrom makes the log keep everything after a position, as far as that still exists.
	KeepFrom(position uint64) Kept
}

// Kept is the part of a log that is kept for a reader.
type Kept interface {
	// Bytes returns how much of the log is kept for that reader alone.
	Bytes() int64
	// Batches calls fn with each batch that ends after the position after and not after
	// through, all of which are settled. It ends with fn's error, or with wal.ErrReleased if
	// the log lacks some of them. fn may neither change nor keep a batch.
	Batches(after, through uint64, fn func(lsn uint64, batch []byte) error) error
	// MoveTo makes the log keep only what is after a position. Any goroutine may call it.
	MoveTo(position uint64) error
	// LetGo ends the keeping. A second call does nothing.
	LetGo() error
}

// Options are those of an Archiver.
type Options struct {
	FS  vfs.FS
	Log Log
	// Timed is the position from which on the log has the times of all batches, whether it is
	// archived or not.
	Timed uint64
	// Member names the member of a group whose log it is; other members have the same log.
	// Empty: the server is alone.
	Member string
	// Data is the directory of the data.
	Data string
	// Dir is the directory of the files. Empty: Run gets the path of each file, and returns nil
	// once there is a durable copy. It may get the same file again.
	Dir string
	Run func(ctx context.Context, path string) error
	// Timeout returns how long a durable batch may stay without being archived.
	Timeout func() time.Duration
	Clock   clock.Clock
	Logger  *slog.Logger
	// Directory is the value for State.Directory.
	Directory string
	// NoBackground starts no goroutine: the caller calls Round.
	NoBackground bool
	// FileSize replaces fileSize, unless it is 0.
	FileSize uint64
}

// Archiver archives a log while that is written.
type Archiver struct {
	o     Options
	ended chan struct{}
	ctx   context.Context // of commands
	stop  context.CancelFunc
	kept  Kept

	// What the rounds know; one goroutine makes them.
	round struct {
		State
		ready  bool          // the directory is there, and State is noted
		waits  bool          // there is something that is not archived
		since  time.Duration // when that was seen first, a reading of Mono
		failed string        // the last error that was logged; empty: it works
		logged time.Duration // when that was, a reading of Mono
	}
	status atomic.Pointer[Status]
	// When the running command began, a reading of Mono; nil: none runs.
	runs atomic.Pointer[time.Duration]
}

var (
	errLate = fmt.Errorf(
		"archive: a stop waits %v for the archive; the next start archives the rest", closePatience)
	errHangs = fmt.Errorf("archive: the command has not ended for %v", RunLimit)
)

// Status returns the state of the archive.
type Status struct {
	// Through is the LSN up to which the log is archived.
	Through uint64
	// Files and Bytes are how many were archived since the start. Failures is how often that
	// failed, and Holes how often a part of the log was lost for the archive.
	Files, Bytes, Failures, Holes int64
	// Last is the last time when a file was archived or nothing was left to archive, in Unix ms; 0:
	// never.
	Last int64
	// Err is why the last attempt failed; nil: it did not. A command that runs for longer than
	// RunLimit has failed.
	Err error
	// Runs is how long the running command has run; 0: none runs.
	Runs time.Duration
}

// Start begins to archive the batches of the log that are not archived yet.
func Start(o Options) (*Archiver, error) {
	a := &Archiver{o: o, ended: make(chan struct{})}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.status.Store(&Status{})
	a.o.FileSize = cmp.Or(o.FileSize, fileSize)
	if o.Dir == "" {
		a.o.Dir = filepath.Join(o.Data, spoolName)
	}
	state, err := ReadState(o.FS, o.Data)
	if err != nil {
		return nil, err
	}
	if state.moved(&o) {
		o.Logger.Warn("the directory of the data was copied, or moved to another file system, since it was archived: no other copy may run with this archive; of one of them make a backup, and restore that to a new directory",
			"dir", o.Data)
	}
	on := state.on(o.Log.History(), o.Timed)
	on.Directory = o.Directory
	a.round.State, a.kept = on, o.Log.KeepFrom(on.Through)
	a.note(func(s *Status) { s.Through = on.Through })
	if state.Off != 0 || state.History != on.History || state.Directory != on.Directory {
		err = on.save(o.FS, o.Data) // otherwise the next file does that
	}
	_ = a.report(cmp.Or(err, a.prepare())) // otherwise each round tries it again
	if o.NoBackground {
		close(a.ended)
	} else {
		go a.loop()
	}
	return a, nil
}

// prepare makes the directory, and begins an archive there if there is none.
func (a *Archiver) prepare() (err error) {
	if a.round.ready {
		return nil
	}
	err = errors.Join(a.o.FS.MkdirAll(a.o.Dir), a.o.FS.SyncDir(filepath.Dir(a.o.Dir)))
	if err == nil && a.o.Run != nil {
		err = a.tidy()
	}
	if err == nil && a.round.Through == 0 {
		err = a.begin()
	}
	if err == nil && a.o.Member != "" {
		err = a.unshared()
	}
	a.round.ready = err == nil
	return err
}

// unshared returns an error if another member has made the newest file of the log.
func (a *Archiver) unshared() error {
	from := Dir(a.o.FS, a.o.Dir)
	files, _, err := filesOf(from, a.round.History)
	if err != nil || len(files) == 0 {
		return err
	}
	name := files[len(files)-1].name()
	file, err := from.Open(name)
	if err != nil {
		return err
	}
	r, err := NewReader(file)
	if err == nil {
		if r.Header.Member != a.o.Member {
			err = a.foreign(from.Path(name))
		}
		r.Close()
	}
	return errors.Join(err, file.Close())
}

// tidy removes the files that the command has taken already, and those of other logs.
func (a *Archiver) tidy() error {
	names, err := a.o.FS.List(a.o.Dir)
	for _, name := range names {
		if history, from, ok := parseName(name); ok && err == nil &&
			(history != a.round.History || from < a.round.Through) {
			err = a.o.FS.Remove(filepath.Join(a.o.Dir, name))
		}
	}
	return err
}

func (a *Archiver) loop() {
	defer close(a.ended)
	pause := int64(0)
	for a.ctx.Err() == nil {
		pause = pauseAfter(a.Round(false), pause) // the error is noted and logged
		timer, stop := a.o.Clock.Until(a.o.Clock.Now() + pause)
		select {
		case <-timer:
		case <-a.ctx.Done():
		}
		stop()
	}
}

// pauseAfter returns for how many milliseconds the loop waits after a round. last was the pause
// before it.
func pauseAfter(err error, last int64) int64 {
	if err == nil {
		return lookInterval
	}
	return min(max(2*last, lookInterval), longestPause)
}

// Close archives the rest of the log that is synced, or as much of it as it can in closePatience,
// and ends. The log must still be open.
func (a *Archiver) Close() {
	a.stop()
	<-a.ended
	a.ctx, a.stop = context.WithCancel(context.Background())
	defer a.stop()
	go a.endLate(a.ctx, a.stop, a.o.Clock.Mono())
	_ = a.Round(true) // it is noted and logged, and the next start goes on
}

// endLate ends the context of the last round when that takes too long.
func (a *Archiver) endLate(ctx context.Context, end func(), began time.Duration) {
	defer end()
	for a.o.Clock.Mono()-began < closePatience {
		timer, stop := a.o.Clock.Until(a.o.Clock.Now() + lookInterval) // it may fire early
		select {
		case <-timer:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// Status returns the state of the archive.
func (a *Archiver) Status() Status {
	s := *a.status.Load()
	if began := a.runs.Load(); began != nil {
		if s.Runs = a.o.Clock.Mono() - *began; s.Runs >= RunLimit {
			s.Err = cmp.Or(s.Err, errHangs)
		}
	}
	return s
}

// note changes the status.
func (a *Archiver) note(change func(*Status)) {
	s := *a.status.Load()
	change(&s)
	a.status.Store(&s)
}

// Round archives whole files, and also the rest of the log if now is true or the timeout is over.
// Without NoBackground the archiver calls it by itself.
func (a *Archiver) Round(now bool) error {
	err := a.prepare()
	if err == nil {
		err = a.archive(now)
	}
	if err != nil && a.ctx.Err() != nil && !now {
		return nil // the store closes
	}
	return a.report(err)
}

// report notes and logs how a round has ended.
func (a *Archiver) report(err error) error {
	switch {
	case err == nil:
		if a.round.failed != "" {
			a.round.failed = ""
			a.o.Logger.Info("the log is archived again", "through", a.round.Through)
		}
		a.note(func(s *Status) { s.Err = nil })
	default:
		mono := a.o.Clock.Mono()
		if text := err.Error(); a.round.failed == "" ||
			text != a.round.failed && mono-a.round.logged >= logInterval {
			a.round.failed, a.round.logged = text, mono
			a.o.Logger.Error("the log is not archived, and kept", "error", err)
		}
		a.note(func(s *Status) { s.Err = err; s.Failures++ })
	}
	return err
}

// archive makes files while there is enough for one.
func (a *Archiver) archive(now bool) error {
	if end := a.o.Log.End(); a.round.Through > end {
		return fmt.Errorf("%w: the log of %s ends at %d, and is archived up to %d", ErrBad,
			a.o.Data, end, a.round.Through)
	}
	for {
		if a.ctx.Err() != nil {
			return errLate
		}
		end := a.settled()
		if end <= a.round.Through {
			a.round.waits = false
			a.note(func(s *Status) { s.Last = a.o.Clock.Now() })
			return nil
		}
		mono := a.o.Clock.Mono()
		if !a.round.waits {
			a.round.waits, a.round.since = true, mono
		}
		if end-a.round.Through < a.o.FileSize && !now && mono-a.round.since < a.o.Timeout() {
			return nil
		}
		switch err := a.file(end); {
		case errors.Is(err, errNothing):
			return nil
		case errors.Is(err, wal.ErrReleased):
			if err := a.begin(); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// settled returns the position up to which the log may be archived once Log.Settled has returned
// for it. A power failure, or another leader, may take back later batches.
func (a *Archiver) settled() uint64 { return min(a.o.Log.Durable(), a.o.Log.Synced()) }

// begin starts an archive at the present beginning of the log. It is called if there is no archive
// yet, or if the log has lost the next batches.
func (a *Archiver) begin() error {
	start := a.o.Log.Begin()
	files, _, err := filesOf(Dir(a.o.FS, a.o.Dir), a.round.History)
	if err != nil {
		return err
	}
	if n := len(files); n > 0 && files[n-1].from > a.round.Through {
		// Another copy has archived them.
		return a.foreign(filepath.Join(a.o.Dir, files[n-1].name()))
	}
	if a.round.Through != 0 {
		a.o.Logger.Error("the archive has a hole: "+a.needed(), "from", a.round.Through, "to",
			start)
		a.note(func(s *Status) { s.Holes++ })
	}
	return a.save(start, "")
}

// needed returns the text that says how an operator closes a hole.
func (a *Archiver) needed() string {
	if a.o.Member != "" {
		return "a new backup is needed, unless another member has archived what is missing"
	}
	return "a new backup is needed"
}

// GiveUp lets the log release what was not archived, since the disk is nearly full. Any goroutine
// may call it: the command may never end.
func (a *Archiver) GiveUp() {
	if a.kept.Bytes() == 0 {
		return
	}
	if err := a.kept.MoveTo(a.settled()); err != nil {
		a.o.Logger.Error("the log cannot be released", "error", err)
	}
}

// file waits until the log has settled up to end, and makes the next file, which contains the log
// up to end at most.
func (a *Archiver) file(end uint64) error {
	if err := a.o.Log.Settled(a.ctx, end); err != nil {
		return err
	}
	path := filepath.Join(a.o.Dir, Name(a.round.History, a.round.Through))
	through, sum, size, err := a.adopt(path, end)
	if errors.Is(err, fs.ErrNotExist) {
		err = snapshotfile.Keep(a.o.FS, path, func(w io.Writer) (err error) {
			through, sum, size, err = a.write(w, end)
			return err
		})
	}
	if err == nil && a.o.Run != nil {
		err = a.run(path)
	}
	if err == nil {
		err = a.save(through, sum)
	}
	if err == nil && a.o.Run != nil {
		err = a.o.FS.Remove(path)
	}
	if err != nil {
		return err
	}
	a.round.waits = false
	a.note(func(s *Status) { s.Files++; s.Bytes += size; s.Last = a.o.Clock.Now() })
	return nil
}

// run passes a file to the command.
func (a *Archiver) run(path string) error {
	began := a.o.Clock.Mono()
	a.runs.Store(&began)
	defer a.runs.Store(nil)
	return a.o.Run(a.ctx, path)
}

var (
	// errEnough ends Batches.
	errEnough = errors.New("archive: the file has enough")
	// errNothing: no batch ends after the archived ones.
	errNothing = errors.New("archive: there is nothing for a file")
)

// batches calls fn with the batches after those that are archived, up to a position, until the
// archiver ends or fn returns errEnough.
func (a *Archiver) batches(end uint64, fn func(lsn uint64, batch []byte) error) error {
	err := a.kept.Batches(a.round.Through, end, func(lsn uint64, batch []byte) error {
		if a.ctx.Err() != nil {
			return errLate
		}
		return fn(lsn, batch)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// write writes batches up to a position, but not more than fill a file. It returns the LSN of the
// last one, the sum, and the length of the file.
func (a *Archiver) write(w io.Writer,
	end uint64) (through uint64, sum string, size int64, err error) {
	counted := &counter{w: w}
	h := Header{History: a.round.History, Member: a.o.Member, From: a.round.Through,
		Previous: a.round.Sum, Untimed: a.round.Untimed}
	to, err := newWriter(counted, h)
	if err != nil {
		return 0, "", 0, err
	}
	if err := a.batches(end, func(lsn uint64, batch []byte) error {
		if to.last > h.From && lsn > h.From+a.o.FileSize {
			return errEnough
		}
		return to.batch(lsn, batch)
	}); err != nil || to.last == h.From {
		to.to.Abort()
		return 0, "", 0, cmp.Or(err, errNothing)
	}
	sum, err = to.end()
	return to.last, sum, counted.n, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// adopt uses the next file if it exists already, because the process ended before it noted the
// file. The file must have the same batches as the log, which is settled up to end.
func (a *Archiver) adopt(path string,
	end uint64) (through uint64, sum string, size int64, err error) {
	f, err := a.o.FS.Open(path)
	if err != nil {
		return 0, "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err = f.Size(); err != nil {
		return 0, "", 0, err
	}
	r, err := NewReader(io.NewSectionReader(f, 0, size))
	if err != nil {
		return 0, "", 0, fmt.Errorf("%s: %w", path, err)
	}
	defer r.Close()
	if h := &r.Header; h.History != a.round.History || h.Member != a.o.Member ||
		h.From != a.round.Through || h.Previous != a.round.Sum {
		return 0, "", 0, a.foreign(path)
	}
	ended := false
	err = a.batches(end, func(own uint64, with []byte) error {
		lsn, batch, err := r.Next()
		switch {
		case err == io.EOF:
			ended = true
			return errEnough
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		case own != lsn || !bytes.Equal(with, batch):
			return a.foreign(path)
		}
		return nil
	})
	if err == nil && !ended {
		switch _, _, err = r.Next(); err {
		case io.EOF:
			err = nil
		case nil:
			err = a.foreign(path)
		default:
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	return r.Last(), r.Sum(), size, err
}

func (a *Archiver) foreign(path string) error {
	if a.o.Member != "" {
		return fmt.Errorf("%w: %s is of another member of the group, or of one that this server was before: each member needs a directory of its own, "+
			"of which a restore can read several", ErrBad, path)
	}
	return fmt.Errorf("%w: %s has something else than the log of %s, which is a copy of another directory or an older state of its own: "+
		"back it up and restore that to a new directory, which has a history of its own",
		ErrBad, path, a.o.Data)
}

// save notes how far the log is archived.
func (a *Archiver) save(through uint64, sum string) error {
	state := State{History: a.round.History, Through: through, Sum: sum, Directory: a.o.Directory}
	for _, span := range a.round.Untimed {
		if span.To > through {
			state.Untimed = append(state.Untimed, span)
		}
	}
	if err := state.save(a.o.FS, a.o.Data); err != nil {
		return err
	}
	a.round.State = state
	a.note(func(s *Status) { s.Through = through })
	return a.kept.MoveTo(through)
}
