package main

import (
	"log/slog"
	"os"

	"keyp/internal/clock"
	"keyp/internal/progress"
)

// toolProgress returns a meter that shows the progress of a tool on standard error: as a bar if
// that is a terminal, otherwise as lines.
func toolProgress() *progress.Meter {
	if tty := progress.OnTerminal(os.Stderr); tty != nil {
		return progress.New(clock.System, tty.Bar())
	}
	return progress.New(clock.System, progress.Log(slog.New(slog.NewTextHandler(os.Stderr, nil))))
}
