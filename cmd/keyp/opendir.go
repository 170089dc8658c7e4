package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/progress"
	"keyp/member"
	"keyp/storage"
)

// toolOptions returns the options with which a tool opens a store.
func toolOptions(dir string, meter *progress.Meter) storage.Options {
	limit, patience := commands.ClockGuard(config.New())
	return storage.Options{
		Dir: dir, LockWait: toolWait, Clock: clock.System,
		Logger: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelWarn})),
		NoBackground: true, Progress: meter, ClockJumpLimit: limit, ClockJumpPatience: patience,
		Hooks:   commands.Features,
		Archive: storage.Archive{Keep: true},
	}
}

// openDir opens a directory that no server uses. If the directory is that of a member of a group,
// it is only read. Then the store has all entries that the member's log marks as committed, and
// closed describes the member. If the log has later entries, a message on standard error says that
// they are left out. For any other directory closed is nil.
func openDir(o storage.Options) (s *storage.Store, closed *member.Closed, err error) {
	o.Existing = true
	s, _, err = storage.Open(o)
	if errors.Is(err, storage.ErrMember) {
		if s, _, closed, err = member.OpenClosed(o, false); err == nil {
			s.SetDiskReserve(0) // nothing is written
			if more := closed.Last - closed.Taken; more > 0 {
				fmt.Fprintf(os.Stderr,
					"the log of this member of a group ends with entry %d, and does not say of the last %d that they are committed: these are left out (`keyp cluster recover` takes them)\n",
					closed.Last, more)
			}
		}
	}
	return s, closed, err
}
