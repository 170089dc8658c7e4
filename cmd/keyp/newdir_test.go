package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewDir: tools such as keyp restore make a new data directory. If its path is a link, the
// directory is made at the link's target. If the directory cannot be made there, the tool fails
// before it starts to write. After an error nothing is left.
func TestNewDir(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	fill := func(part string) error {
		return os.WriteFile(filepath.Join(part, "data"), []byte("data"), 0o600)
	}
	for _, err := range []error{
		os.Mkdir(at("target"), 0o700), os.Symlink("target", at("link")),
		os.Symlink("absent", at("dangling")), os.WriteFile(at("file"), nil, 0o600),
		os.Mkdir(at("full"), 0o700), os.WriteFile(at("full/file"), nil, 0o600),
		os.Mkdir(at("empty"), 0o700), os.Mkdir(at("left.part"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"link", "new", "empty/"} {
		if err := newDir(at("")+"/"+name, ".part", fill); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(at(name), "data")); err != nil ||
			string(text) != "data" {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	if to, err := os.Readlink(at("link")); err != nil || to != "target" {
		t.Errorf("the link names %q, %v", to, err)
	}
	t.Chdir(t.TempDir())
	broken := errors.New("broken")
	for _, tt := range []struct{ to, want string }{
		{".", "is the working directory"}, {at("dangling"), "no such file"},
		{at("file"), "not a directory"}, {at("full"), "is not empty"},
		{at("left"), "remove what an interrupted run left"}, {at("absent/new"), "no such file"},
		{at("fails"), "broken"},
	} {
		began := false
		err := newDir(tt.to, ".part", func(string) error { began = true; return broken })
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(),
			"interrupted run") != (tt.to == at("left")) || began != (tt.to == at("fails")) {
			t.Errorf("%s: %v, begun %t, want %q", tt.to, err, began, tt.want)
		}
	}
	if left, err := filepath.Glob(at("*.part")); err != nil || len(left) != 1 {
		t.Errorf("%q are left, %v", left, err)
	}
}
