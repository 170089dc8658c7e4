package repair_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/repair"
)

// A data file that another process has locked is not damaged.
func TestInspectLockedFile(t *testing.T) {
	o := storage.Options{Dir: testkit.MemoryDir(t), Clock: clock.System, InitialMmap: 1 << 22,
		Logger: slog.New(slog.DiscardHandler)}
	s, _, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(o.Dir, format.DataName))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = repair.Inspect(o, func(f repair.Finding) { t.Errorf("damage: %v", f) })
	if !errors.Is(err, storage.ErrLocked) {
		t.Errorf("the error is %v", err)
	}
}
