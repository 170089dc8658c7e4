package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// archive writes all files of the directory dir into a tar.gz, in a directory called name. The
// files in it belong to root and have the time when. They are in the order of their names, so the
// same files give the same bytes.
func archive(path, dir, name string, when time.Time) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		// WalkDir visits files in the order of their names.
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		within, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		head := tar.Header{Name: name + "/" + filepath.ToSlash(within), Mode: 0o644,
			Size: info.Size(), ModTime: when, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if info.Mode()&0o100 != 0 {
			head.Mode = 0o755
		}
		if err := out.WriteHeader(&head); err != nil {
			return err
		}
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, in.Close())
	})
	return errors.Join(err, out.Close(), zip.Close())
}

// checksums writes the SHA-256 of the files in the format of `sha256sum -c`.
func checksums(path string, files []string) error {
	var b strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), filepath.Base(name))
	}
	return put(path, []byte(b.String()))
}
