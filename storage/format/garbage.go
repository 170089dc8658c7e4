package format

import "encoding/binary"

// The keys of bucket garbage, which name the data to be deleted from the data file:
//
//	'e' id         the elements of a value that no record names
//	's' space      all of a keyspace: its database was emptied
//	'k' space id   but not this value's elements: it belongs to another key now

// GarbageValue is the item for the elements of a value.
func GarbageValue(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'e'}, id) }

// GarbageSpace is the item for a keyspace.
func GarbageSpace(space uint32) []byte { return binary.BigEndian.AppendUint32([]byte{'s'}, space) }

// GarbageKeep is the item that excepts a value from what is deleted of a keyspace.
func GarbageKeep(space uint32, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{'k'}, space), id)
}
