package storage

import "keyp/storage/format"

// Key addresses one key of a database.
type Key = format.Key

// Slots is the number of hash slots, as in Redis Cluster.
const Slots = format.Slots

// Slot is the hash slot of a key.
func Slot(name []byte) uint16 { return format.Slot(name) }

// Key resolves name in database db. Name is not copied.
func (s *Store) Key(db int, name []byte) Key {
	return Key{DB: db, Slot: Slot(name), Hash: s.hash(name), Name: name}
}

// keyIn is Key for a name whose slot is known. It has no database.
func (s *Store) keyIn(sl *slot, name []byte) Key {
	return Key{Slot: sl.num, Hash: s.hash(name), Name: name}
}

func (s *Store) hash(name []byte) uint64 { return s.seed.Hash(name) }

// Errors of the data file.
var (
	// ErrCorrupt: a record on disk fails its checksum. It is never served.
	ErrCorrupt = format.ErrCorrupt
	// ErrFormat: the data file was written by another version.
	ErrFormat = format.ErrFormat
)
