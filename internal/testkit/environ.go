package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
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

// Seed is KEYP_SEED, or one of chance. The test's log says which.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := Number(t, "KEYP_SEED", rand.Uint64N(1<<40))
	t.Logf("KEYP_SEED=%d", seed)
	return seed
}
