package testkit

import (
	"os"
	"strconv"
	"testing"

	"keyp/internal/testkit/setup"
)

// Number is what an environment variable says, or otherwise when it is not set.
func Number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s is not a number", name, text)
	}
	return n
}

// Long says that tests are to take the time for more cases, as under `make check`.
func Long() bool { return os.Getenv("KEYP_LONG") == "1" }

// Cases returns how many cases a test has: few, or all when tests may take their time.
func Cases(few, all int) int {
	if Long() {
		return all
	}
	return few
}

// MemoryDir is a directory that the system keeps in memory, where it has such a place.
func MemoryDir(t testing.TB) string {
	t.Helper()
	if setup.RAM == "" || os.MkdirAll(setup.RAM, 0o700) != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(setup.RAM, "")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Seed is what a test draws at random from: the same each time, unless KEYP_SEED says
// another number or "random". The test's log says which.
func Seed(t testing.TB) uint64 {
	t.Helper()
	t.Logf("KEYP_SEED=%d", setup.Seed)
	return setup.Seed
}
