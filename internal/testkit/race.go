//go:build race

package testkit

// Race says whether the test, and the keyp that it builds, look for data races. That makes
// everything several times slower.
const Race = true
