package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
)

// warnModes logs a warning for a part of a data directory that others than its owner may read or
// change. Keyp makes directories with mode 0700 and files with 0600, whatever the umask is. It does
// not change older or copied files, because somebody may have meant their modes.
func warnModes(dir string, logger *slog.Logger) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a log segment that was removed
		}
		if err != nil {
			return err
		}
		open := fs.FileMode(0o077)
		if entry.IsDir() {
			open = 0o022 // its files have modes of their own
		}
		if info.Mode().Perm()&open == 0 {
			return nil
		}
		if whole, err := filepath.Abs(path); err == nil {
			path = whole
		}
		logger.Warn("others than the owner may use the data", "path", path, "mode",
			info.Mode().String())
		return fs.SkipAll
	})
	if err != nil {
		logger.Warn("the modes of the data's files can't be looked at", "error", err)
	}
}
