package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"keyp/internal/clock"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
)

// TestCrashWhileMade interrupts the creation of a data file. The next start creates it again.
func TestCrashWhileMade(t *testing.T) {
	for _, at := range []datafile.Step{datafile.StepMade, datafile.StepNamed} {
		t.Run(string(at), func(t *testing.T) {
			o := Options{FS: vfs.NewMem(), Dir: t.TempDir(), Clock: clock.NewFake(1),
				NoBackground: true, InitialMmap: 1 << 20}
			cut := errors.New("cut")
			o.Testing.OnStep = func(step datafile.Step) error {
				if step != at {
					return nil
				}
				return cut
			}
			if _, _, err := Open(o); !errors.Is(err, cut) {
				t.Fatalf("open: %v", err)
			}
			if at == datafile.StepMade {
				// Unsynced data may be lost, so only the file's length may remain.
				if err := os.WriteFile(filepath.Join(o.Dir, datafile.NewName),
					make([]byte, 4*format.PageSize), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o.Testing.OnStep = nil
			s, _, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Check(), s.Close(true)); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(o.Dir, datafile.NewName)); !errors.Is(err,
				os.ErrNotExist) {
				t.Errorf("the half file: %v", err)
			}
		})
	}
}
