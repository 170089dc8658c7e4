package rdb

import (
	"encoding/binary"
	"hash/crc64"
)

// Newest is the newest version that Decode accepts, the version of Redis 8.8.
const Newest = 14

const (
	version5_0 = 9
	version7_0 = 10 // what Encode writes
	version7_2 = 11
	version7_4 = 12 // for hashes whose fields have deadlines
	version8_6 = 13 // for streams with idempotent ids
	version8_8 = 14 // for streams with pending entries without a consumer

	trailerBytes = 2 + 8
)

// jones is the polynomial of Redis's checksums, reflected.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum returns Redis's CRC-64. It starts at 0 and is not inverted at the end; hash/crc64
// inverts both.
func checksum(b []byte) uint64 { return ^crc64.Update(^uint64(0), jones, b) }

// seal appends the trailer: the version and the checksum.
func seal(b []byte, version uint16) []byte {
	b = binary.LittleEndian.AppendUint16(b, version)
	return binary.LittleEndian.AppendUint64(b, checksum(b))
}

// open returns a payload without its trailer, or ErrPayload.
func open(payload []byte) ([]byte, error) {
	if len(payload) < trailerBytes {
		return nil, ErrPayload
	}
	body, trailer := payload[:len(payload)-trailerBytes], payload[len(payload)-trailerBytes:]
	if binary.LittleEndian.Uint16(trailer) > Newest ||
		binary.LittleEndian.Uint64(trailer[2:]) != checksum(payload[:len(payload)-8]) {
		return nil, ErrPayload
	}
	return body, nil
}
