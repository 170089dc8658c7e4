package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"keyp/storage/backupfile"
)

// Format is the format that is written, and the only one that is read.
const Format = 1

// ErrBad: a file is damaged, or does not belong where it is found.
var ErrBad = errors.New("archive: the file is not sound")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

const (
	// maxHeader bounds a header, in bytes.
	maxHeader = 4096
	// readStep is how much of a batch is read before memory is taken for the next part: its length
	// may be damaged.
	readStep = 1 << 20
)

// Header says what a file has.
type Header struct {
	Format int `json:"format"`
	// History is the log's (wal.Log.History).
	History string `json:"history"`
	// Member is Options.Member.
	Member string `json:"member,omitempty"`
	// From is the position behind which the file's batches stand, the LSN of the last batch of the
	// file before it.
	From uint64 `json:"from"`
	// Previous is the sum of all before, in hexadecimal digits; empty: there is none, since the
	// archive begins here.
	Previous string `json:"previous,omitempty"`
	// Untimed are the parts of the log of which it has no times, as far as the file has some of
	// them, and maybe later ones.
	Untimed []Span `json:"untimed,omitempty"`
}

// Name is the name of a file.
func Name(history string, from uint64) string {
	return fmt.Sprintf("keyp-%s-%016x.log", history, from)
}

// parseName gives what a name says; false: no file of an archive has it.
func parseName(name string) (history string, from uint64, ok bool) {
	history, position, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "keyp-"),
		".log"), "-")
	from, err := strconv.ParseUint(position, 16, 64)
	return history, from, ok && err == nil && Name(history, from) == name
}

// newSum begins the sum of a file: of what was summed before it, and of all of it behind the
// header.
func newSum(h *Header) hash.Hash {
	sum := sha256.New()
	io.WriteString(sum, h.Previous)
	return sum
}

func hexOf(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// writer writes a file.
type writer struct {
	to   *backupfile.Writer
	sum  hash.Hash
	last uint64 // LSN of the last batch
	buf  []byte
}

func newWriter(w io.Writer, h Header) (*writer, error) {
	h.Format = Format
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	to, err := backupfile.NewWriter(w)
	if err != nil {
		return nil, err
	}
	if _, err := to.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))),
		text...)); err != nil {
		to.Abort()
		return nil, err
	}
	return &writer{to: to, sum: newSum(&h), last: h.From}, nil
}

// batch writes a batch.
func (w *writer) batch(lsn uint64, b []byte) error {
	w.buf = binary.AppendUvarint(binary.AppendUvarint(w.buf[:0], lsn-w.last), uint64(len(b)))
	w.last = lsn
	for _, part := range [][]byte{w.buf, b} {
		w.sum.Write(part)
		if _, err := w.to.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// end ends the file, and gives its sum.
func (w *writer) end() (sum string, err error) { return hexOf(w.sum), w.to.Close() }

// Reader reads a file, and trusts nothing of it.
type Reader struct {
	Header Header

	from *backupfile.Reader
	in   *bytesReader
	sum  hash.Hash
	last uint64
}

// NewReader begins to read a file. An error is ErrBad, one of backupfile, or one of reading.
func NewReader(r io.Reader) (*Reader, error) {
	from, err := backupfile.NewReader(r)
	if err != nil {
		return nil, err
	}
	a := &Reader{from: from, in: &bytesReader{r: from}}
	if err := a.head(); err != nil {
		from.Close()
		return nil, err
	}
	a.sum, a.last = newSum(&a.Header), a.Header.From
	return a, nil
}

func (r *Reader) head() error {
	var length [4]byte
	if err := r.fill(length[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxHeader {
		return bad("its header has %d bytes", n)
	}
	text := make([]byte, n)
	if err := r.fill(text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &r.Header); err != nil {
		return bad("its header does not parse: %v", err)
	}
	if r.Header.Format != Format {
		return bad("it has format %d, and this version reads %d", r.Header.Format, Format)
	}
	return nil
}

func (r *Reader) fill(b []byte) error { return cut(readFull(r.in, b)) }

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return err
}

// cut is what an error means where the file must go on.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("it ends amid a batch")
	}
	return err
}

// Next gives the next batch and its LSN. At the file's end, which has been proven then, it returns
// io.EOF.
func (r *Reader) Next() (lsn uint64, batch []byte, err error) {
	lsn, pieces, err := r.NextPieces()
	return lsn, joined(pieces), err
}

func joined(pieces [][]byte) []byte {
	if len(pieces) == 1 {
		return pieces[0]
	}
	return bytes.Join(pieces, nil)
}

// NextPieces is Next of a batch in pieces of readStep bytes, the last one of which may be shorter:
// a large batch takes no more memory than it has bytes. They are the caller's.
func (r *Reader) NextPieces() (lsn uint64, pieces [][]byte, err error) {
	r.in.summed = r.sum
	step, err := binary.ReadUvarint(r.in)
	if err == io.EOF {
		return 0, nil, io.EOF
	}
	if err != nil {
		return 0, nil, cut(err)
	}
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, cut(err)
	}
	if step == 0 || r.last+step < r.last || step < size {
		return 0, nil, bad("a batch of %d bytes stands %d behind position %d", size, step, r.last)
	}
	for left := size; left > 0 || pieces == nil; {
		piece := make([]byte, min(left, readStep))
		if err := r.fill(piece); err != nil {
			return 0, nil, err
		}
		pieces, left = append(pieces, piece), left-uint64(len(piece))
	}
	r.last += step
	return r.last, pieces, nil
}

// Last is the LSN of the last batch that was read, or where the file begins.
func (r *Reader) Last() uint64 { return r.last }

// Sum is the sum of all up to there.
func (r *Reader) Sum() string { return hexOf(r.sum) }

// Close frees memory; what is below stays open.
func (r *Reader) Close() { r.from.Close() }

// bytesReader reads single bytes too, and sums up what is read.
type bytesReader struct {
	r      io.Reader
	summed io.Writer // nil: not yet
	one    [1]byte
}

func (b *bytesReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.summed != nil {
		b.summed.Write(p[:n])
	}
	return n, err
}

func (b *bytesReader) ReadByte() (byte, error) {
	err := readFull(b, b.one[:])
	return b.one[0], err
}
