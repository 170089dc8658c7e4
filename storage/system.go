package storage

import (
	"strconv"

	"keyp/storage/object"
)

// The server's own data is in a database of its own, after those that clients can select. Examples
// are the libraries of functions and the record of the clock's guard. This database is durable,
// checkpointed, kept by compaction and checked like any other. FLUSHALL and SWAPDB do not touch it,
// and its events and changes are not reported. Its keyspace id never changes, so it stays the same
// when the number of databases changes (format.SystemSpace).

// SystemKey returns a key of the server's own data, for transactions like any key.
func (s *Store) SystemKey(name string) Key { return s.Key(s.options.Databases, []byte(name)) }

// WalkSystem visits the server's own data, as Walk does the keys of a database.
func (v View) WalkSystem(visit func(name []byte, typ object.Type) bool) error {
	return v.Walk(v.s.options.Databases, visit)
}

// TagOf returns a tag for a shard: each key with {tag} in its name is in that shard.
func (s *Store) TagOf(shard int) string {
	for i := 0; ; i++ {
		if tag := strconv.Itoa(i); s.shardOf(Slot([]byte("{"+tag+"}"))) == shard {
			return tag
		}
	}
}
