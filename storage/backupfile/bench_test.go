package backupfile

import (
	"io"
	"testing"
)

// BenchmarkWriter packs data, half of which is random.
func BenchmarkWriter(b *testing.B) {
	_, content := made(b, 16*blockSize)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		w, err := NewWriter(io.Discard)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
