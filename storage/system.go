package storage

// What the server keeps for itself (the libraries of functions) stands in a database of its
// own, behind those that clients can choose. It is durable, checkpointed, kept by compaction
// and checked like any other; FLUSHALL and SWAPDB leave it alone, and nobody hears of events
// or changes in it. Its keyspace id never changes, so that it stays the same when the number
// of databases does (format.SystemSpace).

// SystemKey addresses what the server keeps for itself under a name, for transactions like any
// key.
func (s *Store) SystemKey(name string) Key { return s.Key(s.options.Databases, []byte(name)) }

// WalkSystem visits what the server keeps for itself, as Walk does the keys of a database.
func (v View) WalkSystem(visit func(Item) bool) error { return v.Walk(v.s.options.Databases, visit) }
