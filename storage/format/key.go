package format

import (
	"bytes"
	"encoding/binary"

	"github.com/dchest/siphash"
)

// Slots is the number of hash slots, as in Redis Cluster.
const Slots = 16384

// Key identifies one key by the number of its database and by its name. Slot and Hash are computed
// from the name once, because every look-up uses them.
type Key struct {
	DB   int
	Slot uint16
	Hash uint64
	Name []byte
}

// Slot returns the hash slot of a key: CRC16 (XMODEM) of the name, or of its hash tag. That is the
// part between the first '{' and the next '}' if it is not empty (Redis Cluster specification).
func Slot(name []byte) uint16 {
	if open := bytes.IndexByte(name, '{'); open >= 0 {
		if n := bytes.IndexByte(name[open+1:], '}'); n > 0 {
			name = name[open+1 : open+1+n]
		}
	}
	var crc uint16
	for _, b := range name {
		crc = crc<<8 ^ crc16[byte(crc>>8)^b]
	}
	return crc % Slots
}

var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// seedSize is how many bytes a seed takes in the data file.
const seedSize = 16

// Seed is the secret key of the hash of names. Each data directory has its own.
type Seed [2]uint64

// ParseSeed reads a seed. It returns false if b does not have the length of a seed.
func ParseSeed(b []byte) (s Seed, ok bool) {
	if len(b) != seedSize {
		return s, false
	}
	return Seed{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// Append encodes a seed.
func (s Seed) Append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, s[0]), s[1])
}

// Hash returns the hash of a name. It uses a secret, so nobody can choose names that collide. It
// does not change after a restart, because SCAN cursors and the order of keys on disk depend on it.
func (s *Seed) Hash(name []byte) uint64 { return siphash.Hash(s[0], s[1], name) }
