//go:build !race

package testkit

// Race is whether the test, and so the Keyp that it builds, looks for data races. That makes
// everything several times slower.
const Race = false
