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

// Seed is what a test draws at random from: the same each time, unless KEYP_SEED says
// another number or "random". The test's log says which.
func Seed(t testing.TB) uint64 {
	t.Helper()
	t.Logf("KEYP_SEED=%d", setup.Seed)
	return setup.Seed
}
