// Package storage keeps the keys: in memory while they are used, in the log from the
// moment they change, in the data file otherwise.
//
// # Shape
//
// The keyspace is divided into Redis Cluster's hash slots; a run of slots, over all databases, is a
// shard with one lock. What a database has in a shard is a part: a table per slot, slabs for small
// strings, Go objects for the rest, and the expiration index. A Txn locks the shards of its keys,
// changes parts and records each change; its End appends the batch to the log (storage/wal). A
// checkpoint writes the changes to the data file (bbolt) and releases the log's older segments.
//
// # Invariants
//
//   - Memory equals the log: a batch that replays from the newest checkpoint gives the
//     same keys, values and deadlines.
//   - A cell without cellDirty shows what the data file has, or will have once the
//     checkpoint in flight commits. Only such cells leave memory.
//   - In a slot that is not partial, a key that is not in the table does not exist. In
//     a partial one it may be on disk.
//   - A key that was removed while the data file may have a copy (flagDisk) stays as a
//     tombstone until a checkpoint has committed its removal.
//   - Nothing reaches the data file before the log has settled that far (journal.go).
//   - Pending changes of ttl (pending.go) are about slots whose keys do not leave memory or,
//     after a crash, about keys that are dirty or gone.
//   - The expiration index has exactly the live keys in memory that have a deadline;
//     the window has every key with a deadline before its end that is only on disk.
//   - The cells of the expiration index count its entries; those of a part's diskDues count the
//     deadlines of its keys that are only on disk, as far as they are known (duedisk.go).
//
// # Locks
//
//	guard.turn        the end of the clock's guard, and what a start needs to know of it
//	checkpointer.mu   the data file's writer: a checkpoint or a compaction at a time
//	window.turn       the reaper of keys that are only on disk
//	diskWalk.turn     the walk that finds the deadlines of keys that are only on disk
//	globalTxn.gate    the global transaction, and others while they lock several shards
//	shard.mu          by number; the global transaction alone locks out of order (globaltxn.go)
//	shown.mu          the records of the time
//	dataFile.mu       readers of the data file, and a compaction that replaces it
//	guard.mu, window.mu, loads.mu, arrivals.mu, garbage.mu, pagePool.mu, and the log's own
//
// in this order. Each stands in a struct with the fields that it guards. What a transaction has is
// its goroutine's. The type Store says of each other field when it is written.
package storage
