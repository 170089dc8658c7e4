package consensus

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Kind is the kind of a frame. It decides the format of the body.
type Kind uint8

// The kinds of frames.
const (
	KindHello   Kind = 1 + iota // the caller, and a nonce to sign
	KindAnswer                  // the called member, and a nonce to sign
	KindProof                   // a signature
	KindMessage                 // a message of the library
	KindIdle                    // the sender is there
	KindCall                    // a request
	KindPart                    // a part of its answer
	KindEnd                     // the end of the answer, with a text if the answer is not whole
)

const (
	frameHeader = 17
	// MaxFrame is the maximum size of a frame, in bytes. It leaves room for the largest entry
	// (MaxEntry).
	MaxFrame = 4 << 20
)

var (
	// ErrFrame is the error for received data that is not a frame, or a damaged one. The
	// connection must be closed.
	ErrFrame = errors.New("consensus: a frame is damaged")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// Frame is a received frame, whole and undamaged. Its receiver owns the body's memory.
type Frame struct {
	Kind  Kind
	Group uint64
	Body  []byte
}

// beginFrame appends the header of a frame, whose body is to be appended; sealFrame ends it.
func beginFrame(dst []byte, kind Kind, group uint64) []byte {
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(kind))
	return le.AppendUint64(dst, group)
}

// sealFrame fills in the header of the frame b[at:].
func sealFrame(b []byte, at int) []byte {
	le.PutUint32(b[at:], uint32(len(b)-at))
	le.PutUint32(b[at+4:], crc32.Checksum(b[at+8:], castagnoli))
	return b
}

// AppendFrame appends a frame.
func AppendFrame(dst []byte, kind Kind, group uint64, body []byte) []byte {
	at := len(dst)
	return sealFrame(append(beginFrame(dst, kind, group), body...), at)
}

// ParseFrame parses b as one frame. It returns ErrFrame if b is anything else.
func ParseFrame(b []byte) (Frame, error) {
	switch {
	case len(b) < frameHeader || len(b) > MaxFrame || le.Uint32(b) != uint32(len(b)):
		return Frame{}, fmt.Errorf("%w: it has %d bytes", ErrFrame, len(b))
	case le.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli):
		return Frame{}, fmt.Errorf("%w: its checksum differs", ErrFrame)
	}
	return Frame{Kind: Kind(b[8]), Group: le.Uint64(b[9:]), Body: b[frameHeader:]}, nil
}

// ReadFrame reads one frame of at most limit bytes. It returns io.EOF if the connection has ended
// between frames.
func ReadFrame(r *bufio.Reader, limit int) (Frame, error) {
	head, err := r.Peek(4)
	if len(head) > 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Frame{}, err
	}
	length := le.Uint32(head)
	if length < frameHeader || int(length) > limit {
		return Frame{}, fmt.Errorf("%w: its length is %d", ErrFrame, length)
	}
	b := make([]byte, length)
	if _, err := io.ReadFull(r, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return ParseFrame(b)
}

// Whole reports whether r has a whole frame in its buffer, so that reading it does not block.
func Whole(r *bufio.Reader) bool {
	if r.Buffered() < frameHeader {
		return false
	}
	head, err := r.Peek(4)
	return err == nil && uint32(r.Buffered()) >= le.Uint32(head)
}
