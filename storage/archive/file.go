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

// ErrBad is the error for a file that is damaged, or that does not belong to the place where it was
// found.
var ErrBad = errors.New("archive: the file is not sound")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

const (
	// maxHeader bounds a header, in bytes.
	maxHeader = 4096
	// readStep is how many bytes of a batch are read before memory is taken for the next ones,
	// since the length of the batch may be damaged.
	readStep = 1 << 20
)

// Header describes the content of a file of the archive.
type Header struct {
	Format int `json:"format"`
	// History identifies the log (wal.Log.History).
	History string `json:"history"`
	// Member is the name of the group's member that wrote the file (Options.Member).
	Member string `json:"member,omitempty"`
	// From is the position after which the file's batches follow. It is the LSN of the last batch
	// of the previous file.
	From uint64 `json:"from"`
	// Previous is the checksum of the previous file, in hexadecimal digits. It covers all files
	// before that, too. Empty: the archive begins with this file.
	Previous string `json:"previous,omitempty"`
	// Untimed contains the spans of the log for which it has no times, if the file has a part of
	// them. It may contain later spans, too.
	Untimed []Span `json:"untimed,omitempty"`
}

// Name returns the name of the file with the batches of a log after the position from.
func Name(history string, from uint64) string {
	return fmt.Sprintf("keyp-%s-%016x.log", history, from)
}

// parseName returns the history and the position in the name of a file. ok is false if the name is
// not one of a file of an archive.
func parseName(name string) (history string, from uint64, ok bool) {
	history, position, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "keyp-"),
		".log"), "-")
	from, err := strconv.ParseUint(position, 16, 64)
	return history, from, ok && err == nil && Name(history, from) == name
}

// newSum returns the hash for the checksum of a file. It covers the checksum of the previous file,
// and the content of this file after the header.
func newSum(h *Header) hash.Hash {
	sum := sha256.New()
	io.WriteString(sum, h.Previous)
	return sum
}

func hexOf(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// writer writes a file of the archive.
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

// end writes the end of the file, and returns the checksum of the file.
func (w *writer) end() (sum string, err error) { return hexOf(w.sum), w.to.Close() }

// Reader reads a file of the archive. It verifies everything in the file before it uses it.
type Reader struct {
	Header Header

	from *backupfile.Reader
	in   *bytesReader
	sum  hash.Hash
	last uint64
}

// NewReader returns a Reader of a file, and reads the header. The error is ErrBad, an error of
// backupfile, or an error of r.
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

// cut returns the error of a read within a batch or the header. There the end of the file means
// that the file is incomplete, so it becomes ErrBad.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("it ends amid a batch")
	}
	return err
}

// Next returns the next batch and its LSN. At the end of the file it returns io.EOF; the file is
// known to be complete then.
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

// NextPieces returns the next batch as Next does, but in pieces of readStep bytes; the last one may
// be shorter. So a large batch takes no more memory than it has bytes. The pieces belong to the
// caller.
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

// Last returns the LSN of the last batch that was read, or Header.From before the first one.
func (r *Reader) Last() uint64 { return r.last }

// Sum returns the checksum of everything up to Last, in hexadecimal digits.
func (r *Reader) Sum() string { return hexOf(r.sum) }

// Close frees memory. It does not close the reader that NewReader was called with.
func (r *Reader) Close() { r.from.Close() }

// bytesReader is an io.ByteReader, too. It writes all bytes that it reads to summed.
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
