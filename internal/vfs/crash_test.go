package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestCrashKeepsWhatWasSynced: crashes keep synced bytes, and lose unsynced ones in every possible
// way: over many crashes each outcome must occur.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	old, changed := bytes.Repeat([]byte{1}, 2*pageSize), bytes.Repeat([]byte{2}, 2*pageSize)
	m := NewMem()
	f, err := m.Create("/f")
	must(t, err)
	write(t, f, 0, string(old))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	write(t, f, pageSize, string(changed))

	seen := map[string]bool{}
	for seed := range uint64(400) {
		after := []byte(content(t, m.Crash(rand.New(rand.NewPCG(seed, 1))), "/f"))
		if !bytes.Equal(after[:pageSize], old[:pageSize]) {
			t.Fatal("synced bytes changed")
		}
		switch len(after) {
		case 2 * pageSize:
			seen["size undone"] = true
		case 3 * pageSize:
			seen["size kept"] = true
		default:
			t.Fatalf("size %d was never there", len(after))
		}
		page := after[pageSize : 2*pageSize]
		switch bytes.Count(page, []byte{2}) {
		case 0:
			seen["page lost"] = true
		case pageSize:
			seen["page kept"] = true
		default:
			seen["page torn"] = true
		}
		for s := 0; s < len(page); s += sectorSize {
			if n := bytes.Count(page[s:s+sectorSize], []byte{2}); n != 0 && n != sectorSize {
				t.Fatal("a sector is mixed")
			}
		}
	}
	for _, outcome := range []string{"size undone", "size kept", "page lost",
		"page kept", "page torn"} {
		if !seen[outcome] {
			t.Errorf("no crash of 400 gave %q", outcome)
		}
	}
}

func TestCrashUndoesNames(t *testing.T) {
	create := func(m *Mem, name, data string) {
		f, err := m.Create(name)
		must(t, err)
		write(t, f, 0, data)
		must(t, f.Sync())
		must(t, f.Close())
	}
	m := NewMem()
	create(m, "/kept", "k")
	create(m, "/renamed", "r")
	must(t, m.SyncDir("/"))
	create(m, "/tmp", "t")
	must(t, m.Rename("/tmp", "/new"))
	must(t, m.Rename("/renamed", "/after"))

	seen := map[string]bool{}
	for seed := range uint64(200) {
		after := m.Crash(rand.New(rand.NewPCG(seed, 2)))
		names, err := after.List("/")
		must(t, err)
		has := map[string]bool{}
		for _, n := range names {
			has[n] = true
			seen[n] = true
		}
		if !has["kept"] || has["renamed"] == has["after"] || has["tmp"] && has["new"] {
			t.Fatalf("impossible names %q", names)
		}
		if has["after"] && content(t, after, "/after") != "r" {
			t.Fatal("a renamed file lost its bytes")
		}
		if !has["tmp"] && !has["new"] {
			seen["creation undone"] = true
		}
	}
	for _, outcome := range []string{"tmp", "new", "renamed", "after", "creation undone"} {
		if !seen[outcome] {
			t.Errorf("no crash of 200 gave %q", outcome)
		}
	}
}

// TestCrashUndoesDirectories: a directory and its synced content survive every crash only once all
// directories above it were synced.
func TestCrashUndoesDirectories(t *testing.T) {
	for _, dir := range []string{"/a/b", "a/b"} {
		m := NewMem()
		must(t, m.MkdirAll(dir))
		f, err := m.Create(filepath.Join(dir, "f"))
		must(t, err)
		write(t, f, 0, "text")
		must(t, errors.Join(f.Sync(), m.SyncDir(dir)))
		lost := func() (n int) {
			for seed := range uint64(50) {
				after := m.Crash(rand.New(rand.NewPCG(seed, 6)))
				if _, err := after.Open(filepath.Join(dir, "f")); errors.Is(err, fs.ErrNotExist) {
					n++
				} else if got := content(t, after, filepath.Join(dir, "f")); got != "text" {
					t.Fatalf("the file holds %q", got)
				}
				// The directory can be used after the crash.
				must(t, errors.Join(after.MkdirAll(dir), after.SyncDir(dir)))
			}
			return n
		}
		if n := lost(); n < 25 || n == 50 {
			t.Errorf("%s: lost in %d of 50 crashes before any sync above it", dir, n)
		}
		must(t, m.SyncDir(filepath.Dir(dir)))
		if n := lost(); n == 0 || n == 50 {
			t.Errorf("%s: lost in %d of 50 crashes with one of two syncs", dir, n)
		}
		must(t, m.SyncDir(filepath.Dir(filepath.Dir(dir))))
		if n := lost(); n != 0 {
			t.Errorf("%s: lost in %d of 50 crashes after both syncs", dir, n)
		}
	}
}

// TestCrashModel: after any operations and a crash, each byte has a value that it had at the last
// sync of the file or later.
func TestCrashModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := NewMem()
		f, err := m.Create("/f")
		must(t, err)
		must(t, m.SyncDir("/"))
		history := [][]byte{{}}
		var model []byte
		for range rapid.IntRange(0, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				must(t, f.Sync())
				history = [][]byte{bytes.Clone(model)}
			case 1:
				size := rapid.IntRange(0, 3000).Draw(rt, "size")
				must(t, f.Truncate(int64(size)))
				model = resized(model, size)
				history = append(history, bytes.Clone(model))
			default:
				off := rapid.IntRange(0, 2000).Draw(rt, "off")
				data := bytes.Repeat([]byte{rapid.Byte().Draw(rt, "byte")},
					rapid.IntRange(1, 1500).Draw(rt, "n"))
				write(t, f, int64(off), string(data))
				model = resized(model, max(len(model), off+len(data)))
				copy(model[off:], data)
				history = append(history, bytes.Clone(model))
			}
		}
		if got := content(t, m, "/f"); got != string(model) {
			rt.Fatalf("before the crash the file differs from the model")
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		after := []byte(content(t, m.Crash(rand.New(rand.NewPCG(seed, 3))), "/f"))
		for i, b := range after {
			possible := b == 0
			for _, h := range history {
				possible = possible || i < len(h) && h[i] == b
			}
			if !possible {
				rt.Fatalf("byte %d is %d, which it never was", i, b)
			}
		}
	})
}

func TestFailedSync(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(50) {
		m := NewMem()
		f, err := m.Create("/f")
		must(t, err)
		must(t, m.SyncDir("/"))
		write(t, f, 0, "old")
		must(t, f.Sync())
		write(t, f, 0, "new")
		m.FailSync("/f", rand.New(rand.NewPCG(seed, 4)))
		if got := content(t, m, "/f"); got != "new" {
			t.Fatalf("after the failed sync the file reads %q", got)
		}
		must(t, f.Sync()) // which has nothing left to write
		after := content(t, m.Crash(rand.New(rand.NewPCG(seed, 5))), "/f")
		seen[after] = true
		must(t, f.Reread())
		if got := content(t, m, "/f"); got != after {
			t.Fatalf("the device has %q, and the file reads %q", after, got)
		}
	}
	if !seen["old"] || !seen["new"] || len(seen) != 2 {
		t.Errorf("crashes left %v", seen)
	}
}
