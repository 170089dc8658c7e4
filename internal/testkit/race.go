//go:build race

package testkit

// Race says that the test, and so the Keyp it builds, looks for data races. It makes
// everything several times slower.
const Race = true
