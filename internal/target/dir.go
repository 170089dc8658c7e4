package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"keyp/internal/clock"
	"keyp/internal/vfs"
)

// Unfinished is the end of a file's name until the file is complete and on disk.
const Unfinished = ".unfinished"

// Dir is a Folder for a directory.
type Dir string

// Path and the methods after it implement Folder.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

func (d Dir) List(context.Context) (files []File, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), Unfinished) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) { // it was removed just now
			continue
		} else if err != nil {
			return nil, err
		}
		files = append(files, File{e.Name(), info.Size()})
	}
	return files, nil
}

func (d Dir) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.Path(name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (d Dir) Create(_ context.Context, name string, _ int64,
	fill func(io.Writer) error) (size int64, err error) {
	path := d.Path(name)
	if _, err := os.Lstat(path); err == nil {
		return 0, exists(path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	part := path + Unfinished
	f, err := vfs.CreateOwned(part)
	if errors.Is(err, vfs.ErrLocked) {
		return 0, fmt.Errorf("another process writes %s", part)
	} else if err != nil {
		return 0, err
	}
	defer f.Close() // again after an error, otherwise behind the rename: until then it is locked
	counted := &counter{w: f}
	if err = fill(counted); err == nil {
		err = vfs.Sync(f)
	}
	if err == nil {
		err = rename(part, path)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(part))
	}
	return counted.n, errors.Join(f.Close(), vfs.OS.SyncDir(string(d)))
}

// rename renames a file. If the file system has links, it does not replace an existing file.
func rename(part, path string) error {
	err := os.Link(part, path)
	if err == nil {
		return os.Remove(part)
	}
	if errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Rename(part, path) // the file system has no links
}

func (d Dir) Remove(_ context.Context, name string) error { return os.Remove(d.Path(name)) }

// Tidy considers files as left over if nobody has written to them for age. It skips files that a
// process of this machine is writing, whatever the clock says.
func (d Dir) Tidy(_ context.Context, age time.Duration, dry bool) (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), Unfinished) {
			continue
		}
		info, err := e.Info()
		if err == nil && clock.System.Now()-info.ModTime().UnixMilli() >= age.Milliseconds() {
			if !dry {
				err = vfs.RemoveUnlocked(d.Path(e.Name()))
			}
			if errors.Is(err, vfs.ErrLocked) {
				continue
			}
			names = append(names, e.Name())
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return names, err
		}
	}
	return names, nil
}
