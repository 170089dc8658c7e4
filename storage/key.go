package storage

import "keyp/storage/format"

// Key addresses one key of a database.
type Key = format.Key

// Slots is the number of hash slots, as in Redis Cluster.
const Slots = format.Slots

// Slot returns the hash slot of a key.
func Slot(name []byte) uint16 { return format.Slot(name) }

// Key returns the Key for name in database db. It does not copy name.
func (s *Store) Key(db int, name []byte) Key {
	return Key{DB: db, Slot: Slot(name), Hash: s.hash(name), Name: name}
}

// keyIn returns the Key for a name whose slot is known. The Key's DB is not set.
func (s *Store) keyIn(sl *slot, name []byte) Key {
	return Key{Slot: sl.num, Hash: s.hash(name), Name: name}
}

func (s *Store) hash(name []byte) uint64 { return s.seed.Hash(name) }

// Errors of the data file.
var (
	// ErrCorrupt is the error for data on disk that fail their checksum. Such data are never
	// served.
	ErrCorrupt = format.ErrCorrupt
	// ErrFormat is the error for a data file that another version has written.
	ErrFormat = format.ErrFormat
)
