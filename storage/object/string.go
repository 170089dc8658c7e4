package object

import (
	"encoding/binary"
	"errors"

	"keyp/internal/bigcopy"
)

// ChunkSize is the length in bytes of a large string's elements on disk. Element i has the bytes
// from i*ChunkSize on. A change to a range of bytes affects only its chunks.
const ChunkSize = 16 << 10

// MaxString is larger than any string, in bytes. A record with an offset beyond it is damaged.
const MaxString = 1 << 40

var errBadChunk = errors.New("object: string chunk with a bad number or length")

// String is a string value that is too large for the slabs. In memory it is one piece; its elements
// are its chunks.
type String struct {
	Data []byte
}

// Type returns TypeString.
func (s *String) Type() Type { return TypeString }

// Put writes one chunk; the string grows as needed. It returns an error for a bad chunk.
func (s *String) Put(elem, val []byte, _ int64) error {
	if len(elem) != 8 || len(val) > ChunkSize {
		return errBadChunk
	}
	n := binary.BigEndian.Uint64(elem)
	if n >= MaxString/ChunkSize {
		return errBadChunk
	}
	s.WriteAt(int(n)*ChunkSize, val)
	return nil
}

// Remove truncates the string where chunk elem begins: chunks are removed only at the end.
func (s *String) Remove(elem []byte) {
	if len(elem) != 8 {
		return
	}
	if n := binary.BigEndian.Uint64(elem); n < uint64(s.Len()) {
		s.Data = s.Data[:int(n)*ChunkSize]
	}
}

// Element returns chunk elem; ok is false if there is none.
func (s *String) Element(elem []byte) ([]byte, int64, bool) {
	if len(elem) != 8 {
		return nil, 0, false
	}
	n := binary.BigEndian.Uint64(elem)
	if n >= uint64(s.Len()) {
		return nil, 0, false
	}
	off := int(n) * ChunkSize
	return s.Data[off:min(off+ChunkSize, len(s.Data))], 0, true
}

// Walk visits the chunks in order.
func (s *String) Walk(fn func(elem, val []byte, deadline int64) bool) {
	var elem [8]byte
	for off := 0; off < len(s.Data); off += ChunkSize {
		binary.BigEndian.PutUint64(elem[:], uint64(off/ChunkSize))
		if !fn(elem[:], s.Data[off:min(off+ChunkSize, len(s.Data))], 0) {
			return
		}
	}
}

// Scan visits count chunks from number cursor on.
func (s *String) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	n := uint64(s.Len())
	end := min(cursor+uint64(count), n)
	for ; cursor < end; cursor++ {
		elem := binary.BigEndian.AppendUint64(nil, cursor)
		val, _, _ := s.Element(elem)
		fn(elem, val, 0)
	}
	if end == n {
		return 0
	}
	return end
}

// Len returns the number of chunks.
func (s *String) Len() int { return (len(s.Data) + ChunkSize - 1) / ChunkSize }

// Bytes returns the memory used, in bytes.
func (s *String) Bytes() int { return cap(s.Data) + 24 }

// WriteAt writes data at off; a gap before it is filled with zeros.
func (s *String) WriteAt(off int, data []byte) {
	end := off + len(data)
	if end > cap(s.Data) {
		grown := make([]byte, max(len(s.Data), end), max(end, cap(s.Data)+cap(s.Data)/2))
		bigcopy.Copy(grown, s.Data)
		s.Data = grown
	} else if end > len(s.Data) {
		old := len(s.Data)
		s.Data = s.Data[:end]
		clear(s.Data[old:min(max(off, old), end)])
	}
	bigcopy.Copy(s.Data[off:], data)
}

// Chunks calls fn with the element keys of the chunks in the range [off, off+n).
func Chunks(off, n int, fn func(elem []byte)) {
	var elem [8]byte
	for c := off / ChunkSize; c*ChunkSize < off+n; c++ {
		binary.BigEndian.PutUint64(elem[:], uint64(c))
		fn(elem[:])
	}
}

// Earliest returns 0: chunks have no deadlines.
func (s *String) Earliest() int64 { return 0 }

// LenAt returns Len.
func (s *String) LenAt(int64) int { return s.Len() }

// Due removes nothing.
func (s *String) Due(int64, int, func(elem, val []byte, deadline int64)) int { return 0 }
