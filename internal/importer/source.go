package importer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"keyp/internal/rdb"
	"keyp/resp"
)

// Source is the files to import, in the order in which Redis loads them.
type Source struct{ files []*file }

// file is a mapped file.
type file struct {
	name string
	all  []byte
	aof  int // where its commands begin; len(all): it has none
	end  int // where they end, without what is torn
}

// Open maps a file, or the files of a directory that Redis writes.
func Open(path string) (*Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = manifest(path); err != nil {
			return nil, err
		}
	}
	s := &Source{}
	for _, name := range names {
		all, err := mapFile(name)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.files = append(s.files, &file{name: name, all: all})
	}
	return s, nil
}

// Close unmaps the files.
func (s *Source) Close() (err error) {
	for _, f := range s.files {
		if len(f.all) > 0 {
			err = errors.Join(err, unix.Munmap(f.all))
		}
	}
	s.files = nil
	return err
}

// Bytes returns the length of all files together.
func (s *Source) Bytes() (n int64) {
	for _, f := range s.files {
		n += int64(len(f.all))
	}
	return n
}

func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Size() == 0:
		return nil, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be mapped: %w", name, err)
	}
	_ = unix.Madvise(b, unix.MADV_SEQUENTIAL) // it is only faster
	return b, nil
}

// manifest returns the files that the manifest in a directory, or in its appendonlydir, names.
func manifest(dir string) ([]string, error) {
	for _, dir := range []string{dir, filepath.Join(dir, "appendonlydir")} {
		found, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`,
			`\?`, `[`, `\[`).Replace(dir), "*.manifest"))
		switch {
		case err != nil:
			return nil, err
		case len(found) > 1:
			return nil, fmt.Errorf("%s has %d manifests", dir, len(found))
		case len(found) == 1:
			text, err := os.ReadFile(found[0])
			if err != nil {
				return nil, err
			}
			names, err := parseManifest(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", found[0], err)
			}
			for i, name := range names {
				names[i] = filepath.Join(dir, name)
			}
			return names, nil
		}
	}
	return nil,
		fmt.Errorf(
			"%s has no manifest of an append-only file: an RDB file is given by its own name", dir)
}

// parseManifest returns the names of the base and the increments, in the order of a manifest:
//
//	file NAME seq NUMBER type b | h | i
func parseManifest(text []byte) (names []string, err error) {
	last, base := int64(0), false
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		words, ok := resp.SplitArgs(line)
		values := map[string]string{}
		for i := 0; ok && i+1 < len(words); i += 2 {
			values[strings.ToLower(string(words[i]))] = string(words[i+1])
		}
		name, kind := values["file"], values["type"]
		seq, err := strconv.ParseInt(values["seq"], 10, 64)
		if !ok || len(words)%2 != 0 || err != nil || name == "" || name != filepath.Base(name) ||
			name == ".." || name == "." {
			return nil, fmt.Errorf("%.200q is not a line of a manifest", line)
		}
		switch kind {
		case "h":
			continue
		case "b":
			if base || len(names) > 0 {
				return nil, errors.New("the base is not the first file")
			}
			base = true
		case "i":
			if seq <= last {
				return nil, errors.New("the increments are not in their order")
			}
			last = seq
		default:
			return nil, fmt.Errorf("%.200q is not a line of a manifest", line)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, errors.New("it names no file")
	}
	return names, nil
}

// rdbLength reads the RDB file at the beginning of f and returns its length; 0 if there is none.
func (f *file) rdbLength(visit func(rdb.Record) error) (int, error) {
	if !rdb.IsFile(f.all) {
		return 0, nil
	}
	in, err := rdb.OpenFile(f.all)
	if err != nil {
		return 0, err
	}
	for {
		r, err := in.Next()
		if err != nil {
			return 0, err
		}
		if r.Kind == rdb.RecordEnd {
			return int(in.Offset()), nil
		}
		if err := visit(r); err != nil {
			return 0, err
		}
	}
}
