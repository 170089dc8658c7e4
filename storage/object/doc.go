// Package object has the value types. For the log and for the disk every value is
// a set of elements; a type implements Value and needs no other storage code: replay,
// checkpoint, load and eviction are written against this contract alone.
//
//	type        element key              element value
//	string      chunk number, 8 bytes BE  up to ChunkSize bytes (only when too large to stand inline)
//	hash        field                    value
//	list        sequence number, 8 bytes  value
//	set         member                   (empty)
//	sorted set  member                   score, 8 bytes
//	stream      number, 8 bytes; or tag…  entry; groups and the rest (streamelem.go)
//	lease       (empty)                   token, delay, owner (lease.go)
//	limit       tag…                      states, admissions and reservations (limit.go)
//	delay queue id of a job               when it is due, its state and payload (delay.go)
//
// # Small and large
//
// A collection begins in a small form, one packed piece of memory of a few bytes per
// element more than the elements themselves, and takes a large form when it passes the
// Limits. Hash, Set and ZSet are made of the same two: packed (packed.go, and ints.go for
// sets of integers) and dict (dict.go), which members.go joins. No form has a Go pointer
// per element, and no change copies more than a bounded piece of a large value, so that
// neither the collector nor a growing value ever stops others.
//
// # Order
//
// What Redis replies in a certain order comes in that order: a small hash as its fields
// were added, a set of integers sorted, another small set as its members were added, a
// sorted set by score and then member, a list as a list. Elements with a deadline come
// first in small hashes and sets, by deadline. Large hashes and sets have no order.
//
// # Streams
//
// A stream has its entries in runs of up to a hundred, each one piece of memory (streamrun.go), and
// the pending entries of its groups in ordered pieces (sorted.go). What follows from the entries,
// as the last id, is not an element of its own: an addition changes one element.
//
// # Deadlines of elements
//
// Elements of hashes, sets and sorted sets, and reservations of limits, may have deadlines of their
// own. A value keeps an element, due or not, until it is removed: before a command sees a value,
// the store calls Earliest, and calls Due, which removes due ones. Where too many are due at once,
// LenAt still counts exactly, and every visit passes the deadline.
//
// A value is used by one goroutine at a time. Slices that it gives are valid until it
// changes and must not be handed back to it, but to look something up or to delete it.
package object
