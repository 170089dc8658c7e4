package backupfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// made returns a file and its content, of which one part can be compressed and one cannot.
func made(t testing.TB, size int) (file, content []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	content = make([]byte, size)
	for i := range content {
		if content[i] = byte(i / 100); i%blockSize > blockSize/2 || size < 10_000 && i > size/2 {
			content[i] = byte(rng.Uint32())
		}
	}
	var b bytes.Buffer
	w, err := NewWriter(&b)
	for at := 0; at < size && err == nil; {
		n := min(1+rng.IntN(300_000), size-at)
		if n%2 == 0 {
			_, err = w.Write(content[at : at+n])
		} else {
			_, err = w.WriteString(string(content[at : at+n]))
		}
		at += n
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), content
}

func readAll(file []byte) ([]byte, error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// TestContent: reading returns the content written, whatever its length, and the file is
// compressed.
func TestContent(t *testing.T) {
	for _, size := range []int{0, 1, 1000, blockSize - 1, blockSize, blockSize + 1,
		5*blockSize + 17} {
		file, want := made(t, size)
		got, err := readAll(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d come back, %v", size, len(got), err)
		}
		if size > blockSize && len(file) > size*2/3 {
			t.Errorf("%d bytes take %d", size, len(file))
		}
	}
}

// TestDamaged: a file is refused if any byte is changed, if it is cut anywhere, or if blocks are
// missing, doubled or out of order.
func TestDamaged(t *testing.T) {
	refused := func(what string, b []byte) {
		t.Helper()
		if _, err := readAll(b); !errors.Is(err, ErrBad) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	file, _ := made(t, 2000)
	for at := range file {
		b := bytes.Clone(file)
		b[at] ^= 1 << (at % 8)
		refused(fmt.Sprint("byte ", at), b)
		refused(fmt.Sprint("cut at ", at), file[:at])
	}
	refused("longer", append(bytes.Clone(file), 0))
	refused("twice", append(bytes.Clone(file), file...))

	file, _ = made(t, 3*blockSize)
	size := func(at int) int { return partHead + int(le.Uint32(file[at+5:])) }
	begin := len(magic)
	first := file[begin : begin+size(begin)]
	second := file[begin+len(first):][:size(begin+len(first))]
	rest := file[begin+len(first)+len(second):]
	for what, parts := range map[string][][]byte{
		"the first is missing": {second, rest}, "the second is missing": {first, rest},
		"exchanged": {second, first, rest},
		"twice":     {first, first, second, rest},
		"no end":    {first, second, rest[:len(rest)-partHead]},
	} {
		refused(what, append([]byte(magic), bytes.Join(parts, nil)...))
	}
}

// failing is a writer that accepts some bytes and then fails.
type failing struct{ left int }

var errBroken = errors.New("broken")

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

// TestWriterFails: an error of the underlying writer is returned, wherever it happens.
func TestWriterFails(t *testing.T) {
	content := make([]byte, 6*blockSize)
	for _, most := range []int{8, 100, 200, 400} {
		w, err := NewWriter(&failing{left: most})
		if err != nil {
			t.Fatal(err)
		}
		_, wrote := w.Write(content)
		if err := w.Close(); !errors.Is(err, errBroken) ||
			wrote != nil && !errors.Is(wrote, errBroken) {
			t.Errorf("%d bytes: %v, %v", most, wrote, err)
		}
	}
	if _, err := NewWriter(&failing{left: 3}); !errors.Is(err, errBroken) {
		t.Errorf("the magic: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	file, _ := made(f, 500)
	f.Add(file)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := readAll(b); err != nil && !errors.Is(err, ErrBad) {
			t.Error(err)
		}
	})
}
