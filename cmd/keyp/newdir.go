package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"keyp/internal/vfs"
)

// newDir makes a data directory. fill writes it under another name, dir with a suffix. When all of
// it is durable, newDir renames it to dir, which must be empty or missing. If dir is a symbolic
// link, newDir replaces the directory that the link names. After an error newDir removes the files
// that it has made, unless only the last sync of the directory failed.
func newDir(dir, suffix string, fill func(part string) error) error {
	dir, err := placeOf(dir)
	if err != nil {
		return err
	}
	part := dir + suffix
	if err := os.Mkdir(part, 0o700); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: remove what an interrupted run left", err)
	} else if err != nil {
		return err
	}
	if err = fill(part); err == nil {
		err = replace(dir, part)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return vfs.OS.SyncDir(filepath.Dir(dir))
}

// placeOf returns the path at which a directory is to be made. It returns an error if the directory
// cannot be made there, so that the tool fails before its work begins.
func placeOf(dir string) (string, error) {
	place, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(place); errors.Is(err, os.ErrNotExist) {
		return place, nil
	}
	if place, err = filepath.EvalSymlinks(place); err != nil {
		return "", err
	}
	if list, err := os.ReadDir(place); err != nil {
		return "", err
	} else if len(list) > 0 {
		return "", fmt.Errorf("%s is not empty", dir)
	}
	return place, replaceable(dir, place)
}

// replaceable returns an error for an empty directory that cannot be replaced by another one.
func replaceable(dir, place string) error {
	var infos [3]os.FileInfo
	for i, path := range []string{place, filepath.Dir(place), "."} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		infos[i] = info
	}
	own, ok := infos[0].Sys().(*syscall.Stat_t)
	above, okAbove := infos[1].Sys().(*syscall.Stat_t)
	switch {
	case ok && okAbove && own.Dev != above.Dev:
		return fmt.Errorf(
			"%s is where a file system is mounted, and cannot be replaced: name a directory in it",
			dir)
	case os.SameFile(infos[0], infos[2]):
		return fmt.Errorf(
			"%s is the working directory, and cannot be replaced: name a directory in it", dir)
	}
	return nil
}

// replace renames part to dir, which is empty or does not exist.
func replace(dir, part string) error {
	if err := vfs.OS.SyncDir(part); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(part, dir)
}
