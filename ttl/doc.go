// Package ttl owns time to live: what a deadline is, in which order deadlines
// come, and when due keys go. It knows nothing of values, files or connections.
//
// The parts, from the bottom up:
//
//   - deadline.go is the only place with deadline arithmetic: from a command's
//     argument to a deadline, from a deadline to a reply.
//   - condition.go decides NX, XX, GT and LT.
//   - index.go keeps deadlines in order, one Index per shard.
//   - lateness.go measures how late removals are.
//   - manager.go answers EXPIRE, TTL, PERSIST and their kin over a Keyspace.
//   - reaper.go sleeps until the earliest deadline and has due keys removed.
//
// # Invariants
//
// A deadline is an absolute instant in Unix milliseconds. None (0) means that a
// key has no deadline; every other value is one, also a negative value, which is
// merely long past. Arithmetic never gives None for a deadline that somebody
// asked for, so "expire at 0" and "never expires" can't be mistaken.
//
// A key is expired from the first millisecond of its deadline on: Expired is
// deadline <= now. From then on it does not exist, removed or not.
//
// Nothing is removed before its deadline, and nothing is sampled: a due key is
// found because it is the first of its index.
package ttl
