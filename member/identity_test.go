package member

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
)

// TestIdentity: only a server with cluster-enabled opens a member's directory, and only if the
// identity file is there. Otherwise it returns an error, and the directory does not change.
func TestIdentity(t *testing.T) {
	dir, model := alone(t, 5)
	logger := slog.New(slog.DiscardHandler)
	if err := convert(storeOptions(dir, newDisk(dir, nil), logger), someIdentity(),
		founded()); err != nil {
		t.Fatal(err)
	}
	if s, _, err := storage.Open(storeOptions(dir, newDisk(dir, nil), logger)); !errors.Is(err,
		storage.ErrMember) {
		t.Errorf("a server without cluster-enabled opens it: %v, %v", s != nil, err)
	}
	path := filepath.Join(dir, identityFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, want string) {
		t.Helper()
		if got, err := openDir(dir, newDisk(dir, nil), nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", what, got.store != nil, err)
		}
	}
	for what, text := range map[string]string{
		"empty":              "",
		"cut":                string(whole[:len(whole)/2]),
		"of another version": strings.Replace(string(whole), `"version": 1`, `"version": 2`, 1),
		"without a member":   strings.Replace(string(whole), `"id": 5`, `"id": 0`, 1),
		"without a cluster":  strings.Replace(string(whole), `"cluster": 3`, `"cluster": 0`, 1),
		"with a short node":  strings.Replace(string(whole), strings.Repeat("a", 40), "a", 1),
		"with a short shard": strings.Replace(string(whole), strings.Repeat("b", 40), "b", 1),
	} {
		if text == string(whole) {
			t.Fatalf("%s: nothing was changed", what)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(what, path+" cannot be read")
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(whole), `"id": 5`, `"id": 6`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	refused("of another member", "is of another member than "+identityFile)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused("missing", identityFile+" is missing")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := openDir(dir, newDisk(dir, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.has(t, "with its file", model)
	if err := got.close(); err != nil {
		t.Error(err)
	}
	// The log has lost its beginning.
	if err := os.RemoveAll(filepath.Join(dir, logDir)); err != nil {
		t.Fatal(err)
	}
	refused("without its log", "raft")
}

// TestLeave: a member that has left its group becomes an empty server in no group. A kill at any
// moment in between does not change that.
func TestLeave(t *testing.T) {
	start, model := alone(t, 5)
	logger := slog.New(slog.DiscardHandler)
	if err := convert(storeOptions(start, newDisk(start, nil), logger), someIdentity(),
		founded()); err != nil {
		t.Fatal(err)
	}
	gone := []string{format.DataName, logDir, identityFile, format.LogDir}
	for n := range len(gone) + 2 {
		dir := copied(t, start)
		want := map[string]string{}
		switch {
		case n == 0: // killed before it begins
			disk := newDisk(dir, nil)
			disk.kill(nil)
			if err := leave(storeOptions(dir, disk, logger)); !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			want = model
		case n == len(gone)+1:
			if err := leave(storeOptions(dir, newDisk(dir, nil), logger)); err != nil {
				t.Fatal(err)
			}
		default: // when some things are removed
			if err := os.Rename(filepath.Join(dir, identityFile),
				filepath.Join(dir, leavingFile)); err != nil {
				t.Fatal(err)
			}
			for _, name := range gone[:n-1] {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := openDir(dir, newDisk(dir, nil), nil)
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		got.has(t, fmt.Sprint(n), want)
		if _, _, ok := got.Grouped(); ok != (n == 0) {
			t.Errorf("%d: it is a member: %t", n, ok)
		}
		if err := got.store.Close(true); err != nil {
			t.Error(err)
		}
		if names, err := vfs.OS.List(dir); err != nil ||
			n > 0 && strings.Contains(strings.Join(names, " "), identityFile) {
			t.Errorf("%d: it has %q: %v", n, names, err)
		}
	}
	// If the data file is missing for another reason, the log is kept.
	if err := os.Remove(filepath.Join(start, format.DataName)); err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(start, newDisk(start, nil), nil); err == nil ||
		!strings.Contains(err.Error(), "has no data file") {
		t.Errorf("without a data file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(start, logDir)); err != nil {
		t.Errorf("the log is gone: %v", err)
	}
}
