package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keyp/internal/config"
	"keyp/storage"
	"keyp/storage/archive"
)

// commandPatience bounds how long archive-command may take to end after SIGTERM.
const commandPatience = 5 * time.Second

// archiveOf returns the archive that the options describe.
func archiveOf(cfg *config.Config, logger *slog.Logger) storage.Archive {
	a := storage.Archive{Dir: cfg.PathOf("archive-dir"), Timeout: func() time.Duration {
		return time.Duration(cfg.Int("archive-timeout")) * time.Second
	}}
	if command := cfg.String("archive-command"); command != "" {
		a.Run = func(ctx context.Context, path string) error {
			return runArchive(ctx, command, cfg.Start(), path, logger)
		}
	}
	return a
}

// runArchive runs the archive command for a file. The command runs in dir, or in the data directory
// if dir is gone. When ctx ends, the command and all its processes get SIGTERM, and after
// commandPatience SIGKILL. After an error no process of the command is left.
func runArchive(ctx context.Context, command, dir, path string, logger *slog.Logger) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	text := strings.NewReplacer("%p", path, "%f", filepath.Base(path), "%%", "%").Replace(command)
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
	if _, err := os.Stat(dir); err == nil { // otherwise it runs in the data directory
		cmd.Dir = dir
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = commandPatience
	var out firstBytes
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	long := time.AfterFunc(archive.RunLimit, func() {
		logger.Error("archive-command has not ended yet: the log is kept meanwhile", "file",
			filepath.Base(path), "after", archive.RunLimit.String())
	})
	defer long.Stop()
	if err := cmd.Run(); err != nil {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // no process may survive
		}
		if text := bytes.TrimSpace(out.b); len(text) > 0 {
			return fmt.Errorf("archive-command: %w: %s", err, text)
		}
		return fmt.Errorf("archive-command: %w", err)
	}
	logger.Debug("archived", "file", filepath.Base(path), "took", time.Since(began).String())
	return nil
}

// firstBytes keeps the first bytes that are written.
type firstBytes struct{ b []byte }

func (f *firstBytes) Write(b []byte) (int, error) {
	const most = 500
	f.b = append(f.b, b[:min(len(b), most-len(f.b))]...)
	return len(b), nil
}
