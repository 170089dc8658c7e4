// Package storage keeps the keys. Keys in use are in memory, recent changes are in the log, and all
// other data is in the data file.
//
// # Shape
//
// The keyspace is divided into Redis Cluster's hash slots; a run of slots, over all databases, is a
// shard with one lock. The data of one database in a shard is a part: a hash table per slot, whose
// entries are called cells; slabs for small strings, Go objects for all other values, and the
// expiration index. A Txn locks the shards of its keys, changes parts and records each change; its
// End appends the batch to the log (storage/wal). A checkpoint writes the changes to the data file
// (bbolt) and releases the log's older segments. In the data file the bucket values has the records
// of keys, and the bucket ttl an entry for each key with a deadline, in the order of time.
//
// # Invariants
//
//   - Memory equals the log: a replay from the newest checkpoint gives the same keys, values and
//     deadlines.
//   - A cell without the flag Dirty has the state that the data file has, or will have after the
//     checkpoint under way commits. Only such cells leave memory.
//   - In a slot that is not partial, a key that is not in the table does not exist. In a partial
//     slot it may be on disk.
//   - A key that was removed while the data file may have a copy (flagDisk) stays as a
//     tombstone until a checkpoint has committed its removal.
//   - A change reaches the data file only after the log has settled up to it (journal.go).
//   - A change of the bucket ttl may wait to be made (datafile/pending.go). Until then the keys of
//     its slot must stay in memory. After a crash it may be about a key that is dirty or gone.
//   - The expiration index has exactly the live keys in memory that have a deadline;
//     diskDeadlines has the keys that are only on disk, with deadlines up to some time.
//   - KEYP.TIMELINE needs counts of deadlines in spans of time (ttl.Bins). Those of the expiration
//     index count its entries. Those of a part's diskDues count the known deadlines of keys that
//     are only on disk (duedisk.go).
//
// # Locks
//
//	guard.turn        the end of a time in which the wall clock was not trusted (guard.go)
//	checkpointer.mu   the data file's writer: a checkpoint or a compaction at a time
//	diskDeadlines.turn       the reaper of keys that are only on disk
//	diskWalk.turn     the walk that finds the deadlines of keys that are only on disk
//	globalTxn.gate    the global transaction, and others while they lock several shards
//	shard.mu          by number; the global transaction alone locks out of order (globaltxn.go)
//	shown.mu          the log's records of the time that clients may know
//	datafile.File.mu  readers of the data file, and a compaction that replaces it
//	diskDeadlines.mu, loads.mu, arrivals.mu, garbage.mu, and the log's own
//
// must be locked in this order. Each is in a struct with the fields that it guards. The fields of a
// transaction belong to its goroutine. The type Store states for each other field when it is
// written.
package storage
