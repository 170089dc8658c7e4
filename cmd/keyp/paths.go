package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"keyp/internal/config"
	"keyp/member"
	"keyp/storage"
)

// namedFile is a file that the configuration names.
type namedFile struct {
	option  string
	path    string
	written bool // by the server
}

// namedFiles returns the configuration file, the files that it includes, and the files that the
// options name. It leaves out devices and pipes.
func namedFiles(cfg *config.Config) (files []namedFile) {
	add := func(option, path string, written bool) {
		if path != "" && (!isDevice(path) || option == "unixsocket") {
			files = append(files, namedFile{option, path, written})
		}
	}
	add("the configuration file", cfg.Path(), true)
	for _, path := range slices.Compact(slices.Sorted(slices.Values(cfg.Included()))) {
		add("an included file", path, false)
	}
	for _, option := range []string{"logfile", "pidfile", "unixsocket", "aclfile"} {
		add(option, cfg.PathOf(option), true)
	}
	for _, option := range []string{"tls-cert-file", "tls-key-file", "tls-ca-cert-file",
		"cluster-secret-file"} {
		add(option, cfg.PathOf(option), false)
	}
	return files
}

// isDevice reports whether a path is that of a device or a pipe, such as /dev/stdout. Writing to it
// replaces no data.
func isDevice(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&(os.ModeDevice|os.ModeNamedPipe) != 0
}

// checkFiles returns all errors in the paths of the configuration. If the server writes a file, no
// other option may name that file. No option may name a data file of the server.
func checkFiles(cfg *config.Config) (all []error) {
	files, dir := namedFiles(cfg), cfg.PathOf("dir")
	authorities := cfg.PathOf("tls-ca-cert-dir")
	if err := checkDirectory(dir); err != nil {
		return []error{fmt.Errorf("dir: %w", err)}
	}
	for i, f := range files {
		for _, other := range files[:i] {
			if (f.written || other.written) && samePlace(f.path, other.path) {
				all = append(all, fmt.Errorf("%s and %s are the same file, %s", other.option,
					f.option, f.path))
			}
		}
		if name := nameWithin(f.path, dir); storage.OwnFile(name) || member.OwnFile(name) ||
			real(f.path) == real(dir) {
			all = append(all, fmt.Errorf("%s is %s, where the server keeps its data",
				f.option, f.path))
		} else if f.written && authorities != "" && nameWithin(f.path, authorities) != "" {
			all = append(all, fmt.Errorf("%s is %s, among the certificates of tls-ca-cert-dir",
				f.option, f.path))
		} else if err := checkPlace(f, dir); err != nil {
			all = append(all, fmt.Errorf("%s: %w", f.option, err))
		}
	}
	if err := checkPIDFile(cfg.PathOf("pidfile")); err != nil {
		all = append(all, err)
	}
	return all
}

// checkDirectory returns an error for a path that is not a directory. The path may not exist yet.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	switch _, link := os.Readlink(dir); {
	case errors.Is(err, os.ErrNotExist) && link == nil:
		return fmt.Errorf("%s is a symbolic link to nothing", dir)
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

// checkPlace returns an error if the server cannot make a file at the start. The log file is opened
// before the data directory is made, and the other files are opened after that.
func checkPlace(f namedFile, dir string) error {
	if !f.written || f.option == "aclfile" { // which is there
		return nil
	}
	switch info, err := os.Stat(f.path); {
	case err != nil:
	case info.IsDir():
		return fmt.Errorf("%s is a directory", f.path)
	case f.option == "unixsocket" && info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is there, and is not a socket", f.path)
	}
	parent := filepath.Dir(f.path)
	if _, err := os.Stat(parent); errors.Is(err, os.ErrNotExist) &&
		(f.option == "logfile" || real(parent) != real(dir)) {
		return fmt.Errorf("there is no directory %s", parent)
	}
	return nil
}

// checkPIDFile returns an error if the pidfile exists and has other content than a process id. The
// server would overwrite that content.
func checkPIDFile(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("pidfile: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("pidfile %s is not a regular file", path)
	}
	const longest = 32
	text := []byte("more than a number")
	if info.Size() <= longest {
		if text, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("pidfile: %w", err)
		}
	}
	if len(bytes.Trim(text, "0123456789 \r\n")) > 0 {
		return fmt.Errorf("pidfile %s holds something else than the id of a process, and the server would write over it",
			path)
	}
	return nil
}

// samePlace reports whether two paths lead to one file, which may not exist yet.
func samePlace(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	return real(a) == real(b)
}

// real returns the absolute path without symbolic links. A link may lead to a file that does not
// exist yet.
func real(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	const most = 40 // links, as for the system
	for links, up, rest := 0, path, ""; ; up, rest = filepath.Dir(up),
		filepath.Join(filepath.Base(up), rest) {
		if found, err := filepath.EvalSymlinks(up); err == nil {
			return filepath.Join(found, rest)
		}
		for to, err := os.Readlink(up); err == nil && links < most; to, err = os.Readlink(up) {
			// to nothing.
			if links++; !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(up), to)
			}
			up = to
		}
		if up == filepath.Dir(up) {
			return path
		}
	}
}

// nameWithin returns the name of the entry of dir that contains the path, or is the path. It
// returns an empty string if the path is not in dir.
func nameWithin(path, dir string) string {
	rel, err := filepath.Rel(real(dir), real(path))
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return ""
	}
	name, _, _ := strings.Cut(rel, string(filepath.Separator))
	return name
}
