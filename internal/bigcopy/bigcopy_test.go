package bigcopy

import (
	"bytes"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestPieces: Clone, Copy and the other functions have the same results as those of Go, for lengths
// around that of a piece. They touch no other memory.
func TestPieces(t *testing.T) {
	for _, n := range []int{0, 1, Size - 1, Size, Size + 1, 3*Size + 5} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7 / 3)
		}
		c := Clone(b)
		if !bytes.Equal(c, b) || n > 0 && &c[0] == &b[0] {
			t.Errorf("Clone of %d bytes", n)
		}
		if got := make([]byte, n/2+1); Copy(got, b) != min(n, n/2+1) ||
			!bytes.Equal(got[:min(n, n/2+1)], b[:min(n, n/2+1)]) {
			t.Errorf("Copy of %d bytes", n)
		}
		g := Grow(b[:n:n], Size)
		if cap(g)-len(g) < Size || !bytes.Equal(g, b) {
			t.Errorf("Grow of %d bytes gives room for %d", n, cap(g)-len(g))
		}
		for _, m := range []int{0, 3, 2*Size + 1} {
			want := append(append([]byte(nil), b...), bytes.Repeat([]byte("x"), m)...)
			if got := Append(b[:n:n], bytes.Repeat([]byte("x"), m)); !bytes.Equal(got, want) {
				t.Errorf("Append of %d bytes to %d", m, n)
			}
			if got := Append(b[:n:n], string(bytes.Repeat([]byte("x"), m))); !bytes.Equal(got,
				want) {
				t.Errorf("Append of a string of %d bytes to %d", m, n)
			}
		}
	}
	if Clone(nil) != nil {
		t.Error("a clone of nil is something")
	}
}
