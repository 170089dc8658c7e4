// Package ttl owns time to live: the meaning and the order of deadlines, and the removal of due
// keys. It does not depend on values, files or connections.
//
//	EXPIRE, TTL, PERSIST …                      the clock
//	      │ package commands                        │
//	      ▼                                         ▼
//	   Manager    arguments to deadlines,        Reaper    sleeps until the earliest
//	      │       deadlines to replies              │      deadline of all sources
//	      ▼                                         ▼
//	 Transaction  storage.Txn: one step of      Source.ReapDue
//	      │       the store, logged                 │
//	      ├───────────── Reaper.Wake ──▶ (Reaper)   │
//	      ▼                                         ▼
//	    Index     deadlines in order ─────────▶ a transaction that removes due keys
//
// Each arrow is a call. One goes sideways: a transaction that sets a deadline wakes the Reaper,
// which is asleep until a later one (Reaper.Wake). No other leads back up. The parts, from the
// bottom up:
//
//   - deadline.go is the only place with deadline arithmetic: from a command's
//     argument to a deadline, from a deadline to a reply.
//   - condition.go decides NX, XX, GT and LT.
//   - index.go keeps deadlines in order, one Index per database and shard.
//   - bins.go counts deadlines by spans of time, without a walk over a whole index.
//   - lateness.go measures how late removals are.
//   - manager.go answers EXPIRE, TTL, PERSIST and the like within a Transaction.
//   - reaper.go sleeps until the earliest deadline, and then makes the sources remove due keys.
//
// The store does the rest. Its transactions see no expired key, so commands need not check for
// expiry. When it opens, it fills its indexes from its files.
//
// # Invariants
//
// A deadline is an absolute instant in Unix milliseconds. None (0) means that a key has no
// deadline. Every other value is a deadline, even a negative one, which passed long ago. Arithmetic
// never returns None for a deadline that a command asks for. So "expire at 0" and "never expires"
// cannot be confused.
//
// A key is expired as soon as its deadline is reached: Expired is deadline <= now. An
// expired key does not exist, removed or not.
//
// Nothing is removed before its deadline, and nothing is sampled: a due key is
// found because it is the first of its index.
package ttl
