package backupfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrBad is returned if the file is damaged, truncated, or not of this format.
var ErrBad = errors.New("backupfile: the file is not whole and sound")

var errAborted = errors.New("backupfile: the file was not written to its end")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

const (
	magic    = "keypback"
	blockTag = 'b'
	endTag   = 'e'
	partHead = 1 + 4 + 4 + 4

	// blockSize is how many bytes a block has before it is packed; a reader takes no larger ones.
	blockSize = 1 << 20
	// maxPacked bounds a packed block: zstd makes what cannot be compressed a little larger.
	maxPacked = blockSize + blockSize>>8 + 64
	// workers is how many blocks are packed at a time.
	workers = 2
)

var (
	le    = binary.LittleEndian
	table = crc32.MakeTable(crc32.Castagnoli)
)

// Writer writes a file. Close completes the file, and does not close the underlying writer.
type Writer struct {
	w      io.Writer
	zstd   *zstd.Encoder
	crc    uint32
	blocks uint32
	bytes  uint64
	buf    []byte   // of the next block
	free   [][]byte // buffers of blocks to use again
	spare  [][]byte // and those of packed ones
	under  []packing
	err    error
}

// packing is a block that is being packed.
type packing struct {
	raw  []byte
	done chan []byte // gets the packed block
}

// NewWriter writes the beginning of a file.
func NewWriter(w io.Writer) (*Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(workers), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	to := &Writer{w: w, zstd: encoder, buf: make([]byte, 0, blockSize)}
	to.crc = crc32.Update(0, table, []byte(magic))
	_, err = io.WriteString(w, magic)
	return to, err
}

// Write adds bytes. An error comes from the underlying writer, maybe for an earlier block. It is
// final.
func (w *Writer) Write(b []byte) (n int, err error) { return write(w, b) }

// WriteString adds the bytes of a string, as Write does.
func (w *Writer) WriteString(s string) (n int, err error) { return write(w, s) }

func write[T string | []byte](w *Writer, b T) (n int, err error) {
	for len(b) > 0 && w.err == nil {
		m := min(len(b), blockSize-len(w.buf))
		w.buf, b, n = append(w.buf, b[:m]...), b[m:], n+m
		if len(w.buf) == blockSize {
			w.pack()
		}
	}
	return n, w.err
}

// pack starts a goroutine that compresses the next block. If more than workers blocks have been
// started, it writes the first of them.
func (w *Writer) pack() {
	p := packing{raw: w.buf, done: make(chan []byte, 1)}
	w.buf = nil
	if n := len(w.free); n > 0 {
		w.buf, w.free = w.free[n-1][:0], w.free[:n-1]
	} else {
		w.buf = make([]byte, 0, blockSize)
	}
	var packed []byte
	if n := len(w.spare); n > 0 {
		packed, w.spare = w.spare[n-1][:0], w.spare[:n-1]
	} else {
		packed = make([]byte, 0, maxPacked)
	}
	go func() { p.done <- w.zstd.EncodeAll(p.raw, packed) }()
	if w.under = append(w.under, p); len(w.under) > workers {
		w.put()
	}
}

// put waits until the first started block is compressed, and writes it.
func (w *Writer) put() {
	p := w.under[0]
	w.under = w.under[1:]
	packed := <-p.done
	w.free, w.spare = append(w.free, p.raw), append(w.spare, packed)
	if w.err != nil {
		return
	}
	w.blocks, w.bytes = w.blocks+1, w.bytes+uint64(len(p.raw))
	w.part(blockTag, uint32(len(p.raw)), uint32(len(packed)), packed)
}

func (w *Writer) part(tag byte, a, b uint32, packed []byte) {
	head := partOf(tag, a, b)
	w.crc = crc32.Update(crc32.Update(w.crc, table, head[:9]), table, packed)
	le.PutUint32(head[9:], w.crc)
	for _, piece := range [][]byte{head[:], packed} {
		if _, err := w.w.Write(piece); err != nil && w.err == nil {
			w.err = err
		}
	}
}

func partOf(tag byte, a, b uint32) (head [partHead]byte) {
	head[0] = tag
	le.PutUint32(head[1:], a)
	le.PutUint32(head[5:], b)
	return head
}

// Abort stops the writer without completing the file. A reader reports the file as damaged.
func (w *Writer) Abort() {
	if w.err == nil {
		w.err = errAborted
	}
	w.buf = nil
	_ = w.Close()
}

// Close writes the remaining blocks and the part that marks the end. After an error it only waits
// for the goroutines.
func (w *Writer) Close() error {
	if len(w.buf) > 0 {
		w.pack()
	}
	for len(w.under) > 0 {
		w.put()
	}
	if w.err == nil {
		w.part(endTag, w.blocks, uint32(w.bytes), nil)
	}
	return errors.Join(w.err, w.zstd.Close())
}

// Reader reads a file without trusting its content. Its Read returns io.EOF only after a valid end.
type Reader struct {
	r      io.Reader
	zstd   *zstd.Decoder
	crc    uint32
	blocks uint32
	bytes  uint64
	packed []byte
	raw    []byte // of a block
	rest   []byte // what of raw was not read
	err    error
}

// NewReader reads the beginning of a file. Errors are ErrBad and those of reading.
func NewReader(r io.Reader) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(blockSize))
	if err != nil {
		return nil, err
	}
	from := &Reader{r: r, zstd: decoder}
	var head [len(magic)]byte
	if err := from.fill(head[:]); err != nil {
		from.Close()
		return nil, err
	}
	if string(head[:]) != magic {
		from.Close()
		return nil, bad("it does not begin as one")
	}
	from.crc = crc32.Update(0, table, head[:])
	return from, nil
}

// Close frees memory. It does not close the underlying reader.
func (r *Reader) Close() { r.zstd.Close() }

// fill fills b. If the file ends too early, the error is ErrBad.
func (r *Reader) fill(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("it ends too early")
	}
	return err
}

func (r *Reader) Read(b []byte) (n int, err error) {
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n = copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next reads a block. At the end, which must also be the end of the file, it returns io.EOF.
func (r *Reader) next() error {
	var head [partHead]byte
	if err := r.fill(head[:]); err != nil {
		return err
	}
	tag, size, packed, sum := head[0], le.Uint32(head[1:]), le.Uint32(head[5:]), le.Uint32(head[9:])
	switch {
	case tag == endTag:
		if r.crc = crc32.Update(r.crc, table, head[:9]); r.crc != sum || size != r.blocks ||
			packed != uint32(r.bytes) {
			return bad("its end fails its checksum")
		}
		var more [1]byte
		if n, err := io.ReadFull(r.r, more[:]); n > 0 {
			return bad("something stands behind its end")
		} else if err != io.EOF {
			return err
		}
		return io.EOF
	case tag != blockTag || size == 0 || size > blockSize || packed > maxPacked:
		return bad("something of kind %q, %d and %d stands in it", tag, size, packed)
	}
	if uint32(cap(r.packed)) < packed {
		r.packed = make([]byte, maxPacked)
	}
	b := r.packed[:packed]
	if err := r.fill(b); err != nil {
		return err
	}
	if r.crc = crc32.Update(crc32.Update(r.crc, table, head[:9]), table, b); r.crc != sum {
		return bad("the block behind %d bytes fails its checksum", r.bytes)
	}
	raw, err := r.zstd.DecodeAll(b, r.raw[:0])
	if err != nil || len(raw) != int(size) {
		return bad("the block behind %d bytes does not unpack: %d bytes, %v", r.bytes,
			len(raw), err)
	}
	r.raw, r.rest = raw, raw
	r.blocks, r.bytes = r.blocks+1, r.bytes+uint64(size)
	return nil
}
