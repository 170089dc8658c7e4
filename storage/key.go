package storage

import (
	"bytes"

	"github.com/dchest/siphash"
)

// Slots is the number of hash slots, as in Redis Cluster.
const Slots = 16384

// Key addresses one key: the database's number, the name, and what is derived from
// the name once and used by every look-up.
type Key struct {
	DB   int
	Slot uint16
	Hash uint64
	Name []byte
}

// Key resolves name in database db. Name is not copied.
func (s *Store) Key(db int, name []byte) Key {
	return Key{DB: db, Slot: Slot(name), Hash: s.hash(name), Name: name}
}

// hash is keyed by a secret of the data directory, so that nobody can choose keys
// that collide; it is stable over restarts because SCAN cursors and the order of keys
// on disk are made of it.
func (s *Store) hash(name []byte) uint64 { return siphash.Hash(s.seed[0], s.seed[1], name) }

// Slot is the hash slot of a key: CRC16 (XMODEM) of the name, or of its hash tag,
// the part between the first '{' and the next '}' when that is not empty
// (Redis Cluster specification).
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
