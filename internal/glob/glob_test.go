package glob

import (
	"bytes"
	"math/rand/v2"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestSteps: Steps limits the work of matching patterns: a step compares one byte. Steps.Match has
// the result of Match until its steps are used up. It never uses more than it has. A number of
// steps are free in each match, and are not counted.
func TestSteps(t *testing.T) {
	long := func(n int) []byte { return bytes.Repeat([]byte("a"), n) }
	for _, tt := range []struct {
		name       string
		pattern, s []byte
		left       Steps // at first
		ok, done   bool
		after      Steps
	}{
		{"what is free", []byte("*a*a*a*b"), long(500), 0, false, true, 0},
		{"literal", long(1 << 20), long(1 << 20), 0, true, true, 0},
		{"stars", append(bytes.Repeat([]byte("*"), 5000), 'b'), []byte("b"), 0, false, false, 0},
		{"stars at the end", bytes.Repeat([]byte("*"), 5000), nil, 1000, true, true,
			1000 - (5000 - leastSteps)},
		{"name and pattern", append(append([]byte("*"), long(1000)...), 'b'), long(10_000), 1000,
			false, false, 0},
		{"name and set", append(append([]byte("*["), long(5000)...), ']', 'b'), long(1), 2000,
			false, true, 1101},
		{"set", append(append([]byte("["), long(50_000)...), ']'), long(1), 1000, false, false, 0},
	} {
		left := tt.left
		ok, done := left.Match(tt.pattern, tt.s)
		if ok != tt.ok || done != tt.done || left != tt.after {
			t.Errorf("%s: %v, %v, %d steps are left", tt.name, ok, done, left)
		}
	}
}

func TestStepsAsMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := func(from string, most int) []byte {
			b := make([]byte, random.IntN(most))
			for i := range b {
				b[i] = from[random.IntN(len(from))]
			}
			return b
		}
		pattern, s := text(`ab*?[]^-\`, 12), text("ab-]", 10)
		left := Steps(1 << 20)
		if ok, done := left.Match(pattern, s); ok != Match(pattern, s) || !done {
			t.Fatalf("%q of %q: %v, %v", s, pattern, ok, done)
		}
	}
}
