package snapshotfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Header describes the file that the stream is a copy of.
type Header struct {
	// Format is the format of the stream: Version.
	Format int `json:"format"`
	// DataFormat is the format of the data file. PageSize and Size are its page size and its
	// length, in bytes.
	DataFormat int   `json:"data_format"`
	PageSize   int   `json:"page_size"`
	Size       int64 `json:"size"`
	// Member: the data file belongs to a member of a group, whose log has one position for all.
	Member bool `json:"member,omitempty"`
	// Segment and Position are the place in the log from which on the data file needs the log.
	// Through is the position up to which it needs the log. The data is not of one moment until all
	// of the log up to there is replayed.
	Segment  uint64 `json:"segment"`
	Position uint64 `json:"position"`
	Through  uint64 `json:"through"`
	// Time is when the copy began, in Unix ms. Server is the version of the server.
	Time   int64  `json:"time"`
	Server string `json:"server,omitempty"`
	// Keys and Deadlines are the numbers at Position, or in a backup about those at Through.
	// They include what was due and not yet removed.
	Keys      int64 `json:"keys"`
	Deadlines int64 `json:"deadlines"`
	// Note is for the sender's own use.
	Note []byte `json:"note,omitempty"`
}

// Version is the format that is written, and the only one that is read.
const Version = 1

// MaxPiece is the largest piece, MaxRecord the largest record, and maxHeader the largest header, in
// bytes.
const (
	MaxPiece  = 1 << 20
	MaxRecord = 4 << 20
	maxHeader = 1 << 20
)

// ErrBad is returned if the stream is damaged, truncated, or not of this format.
var ErrBad = errors.New("snapshotfile: the stream is not whole and sound")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

const (
	magic     = "keypsnap"
	pieceTag  = 'p'
	recordTag = 'r'
	endTag    = 'e'

	headerHead = 4 + 4
	partHead   = 1 + 4 + 8 + 4
)

var (
	le    = binary.LittleEndian
	table = crc32.MakeTable(crc32.Castagnoli)
)

// Writer writes a stream.
type Writer struct {
	w     io.Writer
	crc   uint32
	parts uint32
	bytes uint64
}

// NewWriter writes the beginning of a stream. It sets the Format of the header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format = Version
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf("snapshotfile: a header of %d bytes", len(text))
	}
	to := &Writer{w: w}
	head := append([]byte(magic), make([]byte, headerHead)...)
	le.PutUint32(head[len(magic):], uint32(len(text)))
	to.sum(head[:len(magic)+4], text)
	le.PutUint32(head[len(magic)+4:], to.crc)
	return to, to.put(head, text)
}

func (w *Writer) sum(parts ...[]byte) {
	for _, p := range parts {
		w.crc = crc32.Update(w.crc, table, p)
	}
}

func (w *Writer) put(parts ...[]byte) error {
	for _, p := range parts {
		if _, err := w.w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Piece writes a piece of the data file, of 1 to MaxPiece bytes. The offset must be after the
// previous piece.
func (w *Writer) Piece(offset int64, b []byte) error {
	if len(b) == 0 || len(b) > MaxPiece {
		return fmt.Errorf("snapshotfile: a piece of %d bytes", len(b))
	}
	return w.part(pieceTag, uint64(offset), b)
}

// Record writes a record of at most MaxRecord bytes. All pieces must be written before. The meaning
// of position is up to the sender.
func (w *Writer) Record(position uint64, b []byte) error {
	if len(b) > MaxRecord {
		return fmt.Errorf("snapshotfile: a record of %d bytes", len(b))
	}
	return w.part(recordTag, position, b)
}

func (w *Writer) part(tag byte, at uint64, b []byte) error {
	head := w.head(tag, uint32(len(b)), at, b)
	w.parts, w.bytes = w.parts+1, w.bytes+uint64(len(b))
	return w.put(head[:], b)
}

func (w *Writer) head(tag byte, n uint32, at uint64, b []byte) (head [partHead]byte) {
	head[0] = tag
	le.PutUint32(head[1:], n)
	le.PutUint64(head[5:], at)
	w.sum(head[:13], b)
	le.PutUint32(head[13:], w.crc)
	return head
}

// End ends the stream.
func (w *Writer) End() error {
	end := w.head(endTag, w.parts, w.bytes, nil)
	return w.put(end[:])
}

// Reader reads a stream, and trusts nothing of it.
type Reader struct {
	// Header is the header of the stream.
	Header Header

	r       io.Reader
	crc     uint32
	parts   uint32
	bytes   uint64
	records bool  // no piece comes any more
	behind  int64 // where the next piece begins at the earliest
	buf     []byte
}

// NewReader reads the header. Errors are ErrBad and those of reading.
func NewReader(r io.Reader) (*Reader, error) {
	from := &Reader{r: r}
	var head [len(magic) + headerHead]byte
	if err := from.read(head[:]); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(head[:], []byte(magic)) {
		return nil, bad("it does not begin as one")
	}
	n := le.Uint32(head[len(magic):])
	if n > maxHeader {
		return nil, bad("its header has %d bytes", n)
	}
	text := make([]byte, n)
	if err := from.read(text); err != nil {
		return nil, err
	}
	if !from.agrees(le.Uint32(head[len(magic)+4:]), head[:len(magic)+4], text) {
		return nil, bad("its header fails its checksum")
	}
	h := &from.Header
	if err := json.Unmarshal(text, h); err != nil {
		return nil, bad("its header does not parse: %v", err)
	}
	if h.Format != Version {
		return nil, bad("it has format %d, and this version reads %d", h.Format, Version)
	}
	if h.PageSize <= 0 || h.Size <= 0 || h.Size%int64(h.PageSize) != 0 {
		return nil, bad("it is of a file of %d bytes in pages of %d", h.Size, h.PageSize)
	}
	return from, nil
}

// read fills b. If the stream ends too early, the error is ErrBad.
func (r *Reader) read(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("it ends too early")
	}
	return err
}

// agrees continues the checksum and compares it with want.
func (r *Reader) agrees(want uint32, parts ...[]byte) bool {
	for _, p := range parts {
		r.crc = crc32.Update(r.crc, table, p)
	}
	return r.crc == want
}

// Part is a piece or a record.
type Part struct {
	// Record: it is a record, and At is its position. Otherwise it is a piece, and At is its offset
	// in the data file.
	Record bool
	At     uint64
	Bytes  []byte // valid until the next call
}

// Next returns the next part. At the end of the stream it returns io.EOF. Only then is the stream
// known to be whole.
func (r *Reader) Next() (p Part, err error) {
	var head [partHead]byte
	if err := r.read(head[:]); err != nil {
		return p, err
	}
	n, at, sum := le.Uint32(head[1:]), le.Uint64(head[5:]), le.Uint32(head[13:])
	switch tag := head[0]; {
	case tag == endTag:
		if !r.agrees(sum, head[:13]) || n != r.parts || at != r.bytes {
			return p, bad("its end fails its checksum")
		}
		return p, io.EOF
	case tag == recordTag && n <= MaxRecord:
		r.records = true
	case tag != pieceTag || r.records:
		return p, bad("something of kind %q and %d bytes stands in it", tag, n)
	case n == 0 || n > MaxPiece || at < uint64(r.behind) || at > uint64(r.Header.Size) ||
		uint64(n) > uint64(r.Header.Size)-at:
		return p, bad("a piece of %d bytes at %d, behind %d, of a file of %d", n, at,
			r.behind, r.Header.Size)
	default:
		r.behind = int64(at) + int64(n)
	}
	if uint32(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if err := r.read(b); err != nil {
		return p, err
	}
	if !r.agrees(sum, head[:13], b) {
		return p, bad("the part at %d fails its checksum", at)
	}
	r.parts, r.bytes = r.parts+1, r.bytes+uint64(n)
	return Part{r.records, at, b}, nil
}
