package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// each runs a test on the real file system and on the one in memory, because both have to keep the
// same promises.
func each(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("OS", func(t *testing.T) { test(t, OS, t.TempDir()) })
	t.Run("Mem", func(t *testing.T) { test(t, NewMem(), "/") })
	t.Run("Inject", func(t *testing.T) {
		test(t, Inject(NewMem(), func(Op, string, int64, int) error { return nil }), "/")
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, f File, off int64, s string) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), off); err != nil || n != len(s) {
		t.Fatalf("WriteAt = %d, %v", n, err)
	}
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(b)
}

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		dir = filepath.Join(dir, "a", "b")
		must(t, fsys.MkdirAll(dir))
		must(t, fsys.MkdirAll(dir))
		name := filepath.Join(dir, "x")
		f, err := fsys.Create(name)
		must(t, err)
		write(t, f, 3, "abc")
		must(t, f.Sync())
		must(t, f.Reread())
		if got := content(t, fsys, name); got != "\x00\x00\x00abc" {
			t.Errorf("a hole and three bytes read as %q", got)
		}
		must(t, f.Truncate(4))
		must(t, f.Truncate(6))
		if got := content(t, fsys, name); got != "\x00\x00\x00a\x00\x00" {
			t.Errorf("after two Truncates: %q", got)
		}
		p := make([]byte, 4)
		if n, err := f.ReadAt(p, 4); n != 2 || err != io.EOF {
			t.Errorf("reading over the end = %d, %v", n, err)
		}
		must(t, f.Close())

		must(t, fsys.Rename(name, filepath.Join(dir, "y")))
		if _, err := fsys.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening a name renamed away: %v", err)
		}
		f, err = fsys.Create(filepath.Join(dir, "a"))
		must(t, err)
		must(t, f.Close())
		names, err := fsys.List(dir)
		must(t, err)
		if !slices.Equal(names, []string{"a", "y"}) {
			t.Errorf("List = %q", names)
		}
		f, err = fsys.Create(filepath.Join(dir, "y"))
		must(t, err)
		must(t, f.Close())
		if got := content(t, fsys, filepath.Join(dir, "y")); got != "" {
			t.Errorf("Create of an existing file leaves %q", got)
		}
		must(t, fsys.Remove(filepath.Join(dir, "y")))
		if err := fsys.Remove(filepath.Join(dir, "y")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("removing twice: %v", err)
		}
		must(t, fsys.SyncDir(dir))
		if _, err := fsys.List(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("listing no directory: %v", err)
		}
		if free, err := fsys.Free(dir); err != nil || free == 0 {
			t.Errorf("Free = %d, %v", free, err)
		}
	})
}

func TestLockExcludesAnotherHandle(t *testing.T) {
	each(t, func(t *testing.T, fsys FS, dir string) {
		name := filepath.Join(dir, "lock")
		l, err := fsys.Lock(name)
		must(t, err)
		if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
			t.Fatalf("second Lock: %v", err)
		}
		if runtime.GOOS == "linux" && fsys == OS && Holder(name) != os.Getpid() {
			t.Errorf("the lock is process %d's, want %d", Holder(name), os.Getpid())
		}
		must(t, l.Close())
		if pid := Holder(name); pid != 0 {
			t.Errorf("nobody has the lock, and it is process %d's", pid)
		}
		l, err = fsys.Lock(name)
		must(t, err)
		must(t, l.Close())
	})
}

func TestMemNoRoom(t *testing.T) {
	m := NewMem()
	f, err := m.Create("x")
	must(t, err)
	m.SetFree(10)
	write(t, f, 0, "0123456789")
	if _, err := f.WriteAt([]byte("a"), 10); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write beyond the room: %v", err)
	}
	write(t, f, 5, "abcde") // in place
	must(t, m.Remove("x"))
	if free, _ := m.Free("/"); free != 10 {
		t.Errorf("after Remove %d bytes are free, want 10", free)
	}
}

func TestInjectFailures(t *testing.T) {
	boom := errors.New("boom")
	mem := NewMem()
	var fail Op = 255
	var slept bool
	fsys := Inject(mem, func(op Op, name string, off int64, n int) error {
		if op == OpSync {
			slept = true
		}
		if op != fail {
			return nil
		}
		if op == OpWrite {
			return &ShortWrite{N: 2, Err: boom}
		}
		return boom
	})
	f, err := fsys.Create("x")
	must(t, err)

	fail = OpWrite
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || !errors.Is(err, boom) {
		t.Errorf("short write = %d, %v", n, err)
	}
	if got := content(t, mem, "x"); got != "ab" {
		t.Errorf("after a short write the file holds %q", got)
	}
	fail = OpSync
	if err := f.Sync(); err != boom || !slept {
		t.Errorf("failed sync: %v", err)
	}
	calls := map[Op]func() error{
		OpCreate:   func() error { _, err := fsys.Create("y"); return err },
		OpOpen:     func() error { _, err := fsys.Open("x"); return err },
		OpRemove:   func() error { return fsys.Remove("x") },
		OpRename:   func() error { return fsys.Rename("x", "y") },
		OpList:     func() error { _, err := fsys.List("/"); return err },
		OpMkdir:    func() error { return fsys.MkdirAll("/d") },
		OpSyncDir:  func() error { return fsys.SyncDir("/") },
		OpLock:     func() error { _, err := fsys.Lock("l"); return err },
		OpFree:     func() error { _, err := fsys.Free("/"); return err },
		OpRead:     func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		OpTruncate: func() error { return f.Truncate(0) },
		OpSize:     func() error { _, err := f.Size(); return err },
		OpReread:   f.Reread,
	}
	for op, call := range calls {
		fail = op
		if err := call(); err != boom {
			t.Errorf("%v: %v", op, err)
		}
	}
	fail = OpClose
	if err := f.Close(); err != boom {
		t.Errorf("close: %v", err)
	}
	if got := content(t, mem, "x"); !bytes.Equal([]byte(got), []byte("ab")) {
		t.Errorf("failed operations changed the file: %q", got)
	}
}
