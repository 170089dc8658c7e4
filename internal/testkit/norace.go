//go:build !race

package testkit

// Race reports whether the test was built with the race detector. If so, the Keyp that the test
// builds has the race detector, too. It makes everything several times slower.
const Race = false
