package snapshotfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	_ "keyp/internal/testkit/setup"
	"keyp/internal/vfs"
)

const pageSize = 4096

// made returns the content of a data file, and the snapshot stream that sends it.
func made(t *testing.T) (stream, file []byte) {
	file = make([]byte, 40*pageSize)
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{PageSize: pageSize, Size: int64(len(file)), Position: 7,
		Through: 9, Keys: 3, Note: []byte("note")})
	for i := 0; i < 40 && err == nil; i += 4 {
		piece := file[i*pageSize:][:(1+i%3)*pageSize]
		for j := range piece {
			piece[j] = byte(i + j*j)
		}
		err = w.Piece(int64(i*pageSize), piece)
	}
	if err == nil {
		err = errors.Join(w.Record(8, []byte("one")), w.Record(9, nil), w.End())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), file
}

func readAll(stream []byte) (h Header, file []byte, records []string, err error) {
	r, err := NewReader(bytes.NewReader(stream))
	if err != nil {
		return h, nil, nil, err
	}
	file = make([]byte, r.Header.Size)
	for {
		p, err := r.Next()
		if err == io.EOF {
			return r.Header, file, records, nil
		}
		if err != nil {
			return h, nil, nil, err
		}
		if p.Record {
			records = append(records, fmt.Sprint(p.At, string(p.Bytes)))
			continue
		}
		copy(file[p.At:], p.Bytes)
	}
}

func TestStream(t *testing.T) {
	stream, want := made(t)
	h, got, records, err := readAll(stream)
	if err != nil || !bytes.Equal(got, want) || h.Position != 7 || h.Through != 9 || h.Keys != 3 ||
		string(h.Note) != "note" || !slices.Equal(records, []string{"8one", "9"}) {
		t.Fatalf("%+v, %v", h, err)
	}
}

// TestDamagedStream: a stream is refused if any bit is changed, if it is cut anywhere, or if pieces
// are missing, doubled or out of order.
func TestDamagedStream(t *testing.T) {
	stream, _ := made(t)
	refused := func(what string, b []byte) {
		t.Helper()
		if _, err := Verify(bytes.NewReader(b)); !errors.Is(err, ErrBad) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := range stream {
		if at > 2000 && at%97 != 0 && at < len(stream)-100 {
			continue
		}
		b := bytes.Clone(stream)
		b[at] ^= 1 << (at % 8)
		refused(fmt.Sprint("byte ", at), b)
		refused(fmt.Sprint("cut at ", at), stream[:at])
	}
	begin := bytes.Index(stream, []byte{pieceTag, 0, 16, 0, 0}) // of the first piece, of one page
	size := partHead + pageSize
	if begin < 0 || stream[begin+size] != pieceTag {
		t.Fatal("the first piece is not where it should be")
	}
	piece := stream[begin : begin+size]
	refused("missing", append(bytes.Clone(stream[:begin]), stream[begin+size:]...))
	refused("twice", append(append(bytes.Clone(stream[:begin+size]), piece...),
		stream[begin+size:]...))
	refused("at the end",
		append(append(append(bytes.Clone(stream[:begin]),
			stream[begin+size:len(stream)-partHead]...), piece...),
			stream[len(stream)-partHead:]...))
	refused("longer", append(bytes.Clone(stream), 0))
	refused("nothing", nil)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		for err == nil {
			_, err = r.Next()
		}
		if err != io.EOF && !errors.Is(err, ErrBad) {
			t.Error(err)
		}
	})
}

// TestKeep: each operation fails once, and the power fails after each. The file is then the old one
// or the whole new one. Once Keep has returned, there are no other files. Without an error it is
// the new file.
func TestKeep(t *testing.T) {
	stream, _ := made(t)
	broken := errors.New("broken")
	for at := 0; ; at++ {
		fs, n := vfs.NewMem(), 0
		write := func(b []byte) func(io.Writer) error {
			return func(w io.Writer) error {
				for ; len(b) > 0; b = b[min(len(b), 10_000):] {
					if _, err := w.Write(b[:min(len(b), 10_000)]); err != nil {
						return err
					}
				}
				return nil
			}
		}
		if err := errors.Join(fs.MkdirAll("/d"), fs.SyncDir("/"),
			Keep(fs, "/d/f", write([]byte("old")))); err != nil {
			t.Fatal(err)
		}
		content := func(fs vfs.FS) []byte {
			t.Helper()
			f, err := fs.Open("/d/f")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			return b
		}
		left := func(fs vfs.FS, after string) {
			t.Helper()
			if b := content(fs); string(b) != "old" && !bytes.Equal(b, stream) {
				t.Fatalf("operation %d, %s: the file has %d bytes, and is neither",
					at, after, len(b))
			}
		}
		rng := rand.New(rand.NewPCG(1, uint64(at)))
		err := Keep(vfs.Inject(fs, func(op vfs.Op, _ string, _ int64, _ int) error {
			left(fs.Crash(rng), "a crash")
			if n++; n == at+1 && op != vfs.OpRemove {
				return broken
			}
			return nil
		}), "/d/f", write(stream))
		left(fs, "as it is")
		left(fs.Crash(rng), "a crash at the end")
		if n <= at { // nothing failed
			if err != nil || !bytes.Equal(content(fs.Crash(rng)), stream) {
				t.Fatalf("without a fault: %v", err)
			}
			if at < 10 {
				t.Fatalf("there are only %d operations", at)
			}
			return
		}
		if err == nil {
			t.Fatalf("operation %d fails, and Keep does not report it", at)
		}
	}
}
