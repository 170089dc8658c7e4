package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"keyp/internal/testkit/await"
)

// TestArchiveCommandIsKilled: when an archive-command is stopped, all its child processes are
// killed too, even one that ignores SIGTERM.
func TestArchiveCommandIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alive, never := filepath.Join(dir, "alive"), filepath.Join(dir, "never")
	for _, path := range []string{alive, never} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	command := fmt.Sprintf(`(trap "" TERM; exec 3>'%s'; echo runs >&3; read x <>'%s') & wait`,
		alive, never)
	go func() { ended <- runArchive(ctx, command, ".", "file", slog.New(slog.DiscardHandler)) }()
	f, err := os.Open(alive) // waits for the child
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fscanln(f, new(string)); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := await.For(t, "the command ends", ended); err == nil ||
		!strings.Contains(err.Error(), "archive-command: ") {
		t.Errorf("it ends with %v", err)
	}
	gone := make(chan error, 1)
	go func() { // its end of the pipe is closed
		_, err := io.Copy(io.Discard, f)
		gone <- err
	}()
	if err := await.For(t, "the child ends", gone); err != nil {
		t.Error(err)
	}
}
