// Package object has the value types. For the log and the disk, every value is a set of elements. A
// type implements Value and needs no other storage code. Replay, checkpoint, load and eviction use
// only Value.
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
// A collection begins in a small form: one packed piece of memory, with a few bytes per element
// more than the elements themselves. It takes a large form when it passes the Thresholds. Hash, Set
// and ZSet use the same two forms (members.go): packed (packed.go, and ints.go for sets of
// integers) and dict (dict.go). No form has a Go pointer per element. No change copies more than a
// bounded piece of a large value. So neither the garbage collector nor a growing value delays other
// work for long.
//
// # Order
//
// Where Redis replies in a certain order, Keyp does too. A small hash has its fields in the order
// in which they were added, and a small set its members. A set of integers is sorted, and a sorted
// set is ordered by score and then member. Elements with a deadline come first in small hashes and
// sets, by deadline. Large hashes and sets have no order.
//
// # Streams
//
// A stream has its entries in runs of up to a hundred, each one piece of memory (streamrun.go). It
// has the pending entries of its groups in ordered pieces (sorted.go). Data that follows from the
// entries, such as the last id, is not an element of its own. So an addition changes one element.
//
// # Deadlines of elements
//
// Elements of hashes, sets and sorted sets, and reservations of limits, may have deadlines of their
// own. A value keeps an element, due or not, until it is removed. Before a command sees a value,
// the store calls Earliest, and removes due elements by calling Due. One call of Due removes a
// limited number. Even if some are left, LenAt returns the number of elements that are not due.
// Functions that visit elements pass on the deadline of each, so that the caller can skip due
// elements.
//
// A value is used by one goroutine at a time. Slices that it returns are valid until it changes.
// They may be passed back to it only to look an element up or to delete it.
package object
