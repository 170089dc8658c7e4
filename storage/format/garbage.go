package format

import "encoding/binary"

// The keys of the bucket garbage name data that is still to be deleted from the data file, and
// exceptions:
//
//	'e' id         the elements of a value that no record names
//	's' space      all of a keyspace: its database was emptied
//	'k' space id   keep the elements of this value of the keyspace: it belongs to another key now

// GarbageValue returns the item that lets all elements of a value be deleted.
func GarbageValue(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'e'}, id) }

// GarbageSpace returns the item that lets a whole keyspace be deleted.
func GarbageSpace(space uint32) []byte { return binary.BigEndian.AppendUint32([]byte{'s'}, space) }

// GarbageKeep returns the item that keeps the elements of a value when its keyspace is deleted.
func GarbageKeep(space uint32, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{'k'}, space), id)
}
