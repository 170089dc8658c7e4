package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestCreateOwned: CreateOwned makes a new, empty file, in place of any other with that name. The
// old file is not written to, so its other hard links, and the target of a symbolic link, keep
// their content. A file that a process has locked is not replaced.
func TestCreateOwned(t *testing.T) {
	dir := t.TempDir()
	kept, name := filepath.Join(dir, "kept"), filepath.Join(dir, "name")
	must(t, os.WriteFile(kept, []byte("kept"), 0o600))
	for what, before := range map[string]func() error{
		"nothing":         func() error { return nil },
		"a file":          func() error { return os.WriteFile(name, []byte("old"), 0o666) },
		"a hard link":     func() error { return os.Link(kept, name) },
		"a symbolic link": func() error { return os.Symlink(kept, name) },
		"a dangling link": func() error { return os.Symlink(filepath.Join(dir, "absent"), name) },
	} {
		must(t, before())
		f, err := CreateOwned(name)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := CreateOwned(name); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: a second process gets %v", what, err)
		}
		_, err = io.WriteString(f, "new")
		must(t, err)
		must(t, f.Close())
		if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 || info.Size() != 3 {
			t.Errorf("%s: it is %v, %v", what, info, err)
		}
		if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
			t.Fatalf("%s: the other file has %q, %v", what, text, err)
		}
		must(t, os.Remove(name))
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the directory has %v, %v", names, err)
	}
	must(t, os.Mkdir(name, 0o700))
	if f, err := CreateOwned(name); err == nil {
		t.Errorf("a directory is replaced by %s", f.Name())
	}
}
