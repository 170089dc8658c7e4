package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// This file encodes and parses the parts of the log's files. The format is described in doc.go.

const (
	headerSize      = 4096 // a segment's header block
	groupHeaderSize = 48
	frameHeaderSize = 8
	linkSize        = 8       // the batch size in a first frame that is not last
	maxPayload      = 1 << 20 // bytes of payload in one frame
	minPayload      = 64      // with less room than for this, a segment counts as full

	// firstLSN is where the stream of a fresh log starts, so that 0 is never an LSN.
	firstLSN = headerSize

	// minSegmentSize leaves room for some frames after the header.
	minSegmentSize = headerSize + 512

	version = 1
)

const (
	flagFirst = 0x01
	flagLast  = 0x02
	flagFrame = 0x40
)

var (
	segmentMagic = []byte("keypwal\n")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	le           = binary.LittleEndian
)

// identity distinguishes one life of a segment from every other.
type identity struct {
	number uint64
	start  uint64 // position of the first group
	salt   uint64
}

// offset returns the offset in the file of position p of the log.
func (id identity) offset(p uint64) int64 { return headerSize + int64(p-id.start) }

func segmentName(number uint64) string { return fmt.Sprintf("wal-%016x.log", number) }

func spareName(number uint64) string { return fmt.Sprintf("spare-%016x.log", number) }

const tmpName = "new.tmp"

// parseName returns the number in a name made by pattern ("wal-%016x.log").
func parseName(pattern, name string) (number uint64, ok bool) {
	if _, err := fmt.Sscanf(name, pattern, &number); err != nil {
		return 0, false
	}
	return number, fmt.Sprintf(pattern, number) == name
}

// header is the content of the block at the start of a segment in use.
type header struct {
	identity
	mark    uint64 // starts each group of this log
	durable uint64
}

// putHeader fills the start of b, whose first headerSize bytes are zero.
func putHeader(b []byte, h header) {
	copy(b, segmentMagic)
	le.PutUint32(b[8:], version)
	le.PutUint64(b[16:], h.number)
	le.PutUint64(b[24:], h.start)
	le.PutUint64(b[32:], h.salt)
	le.PutUint64(b[40:], h.mark)
	le.PutUint64(b[48:], h.durable)
	le.PutUint32(b[12:], headerCRC(b))
}

func headerCRC(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:56])
}

// parseHeader parses a block as the header of segment number. It returns ok = false if it is not
// that header, and an error if a later version wrote it.
func parseHeader(b []byte, number uint64) (h header, ok bool, err error) {
	if len(b) < headerSize || !bytes.HasPrefix(b, segmentMagic) ||
		le.Uint32(b[12:]) != headerCRC(b) {
		return header{}, false, nil
	}
	if v := le.Uint32(b[8:]); v != version {
		return header{}, false, fmt.Errorf("%w (format %d, this one knows %d)",
			ErrVersion, v, version)
	}
	h.number, h.start, h.salt = le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])
	h.mark, h.durable = le.Uint64(b[40:]), le.Uint64(b[48:])
	return h, h.number == number, nil
}

// group is the header of a group.
type group struct {
	identity
	mark    uint64
	length  int
	lsn     uint64 // position of the header
	durable uint64
}

func putGroup(b []byte, g group) {
	le.PutUint64(b, g.mark)
	le.PutUint32(b[12:], uint32(g.length))
	le.PutUint64(b[16:], g.salt)
	le.PutUint64(b[24:], g.number)
	le.PutUint64(b[32:], g.lsn)
	le.PutUint64(b[40:], g.durable)
	le.PutUint32(b[8:], crc32.Checksum(b[12:groupHeaderSize], castagnoli))
}

// parseGroup checks the checksum of a group header and returns the header. The caller checks that
// the group belongs to this segment and position. The header does not contain identity.start, so
// g.start is 0.
func parseGroup(b []byte) (g group, ok bool) {
	if len(b) < groupHeaderSize || le.Uint32(b[8:]) != crc32.Checksum(b[12:groupHeaderSize],
		castagnoli) {
		return group{}, false
	}
	g.mark = le.Uint64(b)
	g.length = int(le.Uint32(b[12:]))
	g.salt = le.Uint64(b[16:])
	g.number = le.Uint64(b[24:])
	g.lsn = le.Uint64(b[32:])
	g.durable = le.Uint64(b[40:])
	return g, g.durable <= g.lsn
}

// seed returns the initial value of the CRC of a frame at position lsn. Other positions and salts
// have other seeds, so a copied frame fails its CRC elsewhere. The chance that it passes is 1 in
// 2^32.
func seed(salt, lsn uint64) uint32 {
	x := salt ^ bits.RotateLeft64(lsn*0x9e3779b97f4a7c15, 29)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>29) * 0xc4ceb9fe1a85ec53
	return uint32(x >> 32)
}

// sealFrame fills the header of the frame that is all of b.
func sealFrame(b []byte, flags byte, salt, lsn uint64) {
	le.PutUint32(b[4:], uint32(len(b)-frameHeaderSize)|uint32(flags)<<24)
	le.PutUint32(b, crc32.Update(seed(salt, lsn), castagnoli, b[4:]))
}

// frame is one verified frame.
type frame struct {
	first, last bool
	payload     []byte
}

func (f frame) size() uint64 { return uint64(frameHeaderSize + len(f.payload)) }

// parseFrame verifies the frame at the start of b, which is at position lsn of the log.
func parseFrame(b []byte, salt, lsn uint64) (f frame, ok bool) {
	if len(b) < frameHeaderSize {
		return frame{}, false
	}
	word := le.Uint32(b[4:])
	length, flags := int(word&0xffffff), byte(word>>24)
	if flags&^(flagFirst|flagLast) != flagFrame || length > len(b)-frameHeaderSize {
		return frame{}, false
	}
	whole := b[4 : frameHeaderSize+length]
	if le.Uint32(b) != crc32.Update(seed(salt, lsn), castagnoli, whole) {
		return frame{}, false
	}
	return frame{first: flags&flagFirst != 0, last: flags&flagLast != 0, payload: whole[4:]}, true
}
