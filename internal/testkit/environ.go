package testkit

import (
	"os"
	"strconv"
	"testing"

	"keyp/internal/testkit/setup"
)

// Number returns the number in the environment variable called name. If the variable is not set or
// empty, it returns the value of otherwise.
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

// Long reports whether tests should run more cases, as under `make check`.
func Long() bool { return os.Getenv("KEYP_LONG") == "1" }

// Cases returns the number of cases of a test: few, or all with Long.
func Cases(few, all int) int {
	if Long() {
		return all
	}
	return few
}

// MemoryDir returns a directory in memory, or on disk if the system has no such place.
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

// Seed returns the seed of a test's random numbers, and logs it. It is the same each time, unless
// KEYP_SEED sets another number or "random".
func Seed(t testing.TB) uint64 {
	t.Helper()
	t.Logf("KEYP_SEED=%d", setup.Seed)
	return setup.Seed
}
