// Package format contains the encodings of a data directory: the entries of the data file, the
// records of the log, and how keys are addressed. It opens no file and knows no store. So the store
// shares it with the tools that read directories that no store could open (storage/repair).
//
// # The data file
//
// It is a file of bbolt. Its buckets:
//
//	values    space slot hash name → record         in slot order, so a slot is one range
//	elements  id, element → check, deadline, value   id is the value's
//	ttl       due space slot hash name → check, [created]     in order of time
//	slots     space slot → keys, digest, check      changes with the slot's records
//	meta      format, seed, state                   the last two with a check
//	garbage   what is left to delete → check        (garbage.go)
//	pending   number → changes of ttl to be made    (pending.go)
//
// space is the id of a keyspace. Each database has a keyspace, and gets a new one after FLUSHDB;
// SWAPDB exchanges the keyspaces of two databases. A name is a byte 0 and the key, or a byte 1 and
// the SHA-256 of a key too long for bbolt; then the record has the key. hash is the leading 32 bits
// of the key's hash. An element too long for bbolt has its head and the SHA-256 of all of it as its
// key, and its tail before its value. Integers in keys are big-endian.
//
//	record  0       4       8      9
//	       ┌───────┬───────┬──────┬──────┬──────────┬─────────┬───────────┬──────────────┬────────┐
//	       │ check │ check │ kind │ id   │ deadline │ created │ [first]   │ [key]        │ payload│
//	       │ value │ time  │      │      │          │         │ if timed  │ if name is 1 │        │
//	       └───────┴───────┴──────┴──────┴──────────┴─────────┴───────────┴──────────────┴────────┘
//
// check value is a CRC-32C over the entry's key and all of the record except the times. check time
// covers the key and the times. So damage to the times loses only the deadline. The low bits of
// kind are the type. Its bit 7 (inline) says that the payload is the value itself, as bytes
// (string) or as elements. Without it the payload is the number of elements. Its bit 6 (timed) says
// that elements have deadlines, and first is the earliest of them.
//
// A key has one entry in ttl if it or one of its elements has a deadline. The entry is at the key's
// deadline, or at the first deadline of an element if that is earlier. created, a Unix second, is
// the time when the deadline was set. In ttl it is there only if the entry is at the key's
// deadline.
//
// # The log
//
// A batch is what one transaction logs: records one after another. They say what the data is
// afterwards, not which command ran, and are idempotent. So any suffix of the log can be replayed
// over a newer state, with the same result. Integers are unsigned varints; bytes are a length and
// that many bytes. A shard is a number from 0 on, W an instant in Unix ms.
//
//	put      1 space key deadline [created] value         the whole of a small string key
//	large    2 space key id deadline [created] type       a new value without elements
//	element  3 space key id type elem deadline value      one element's value
//	remove   4 space key id type elem                     one element less
//	range    5 space key id offset value                  bytes of a large string
//	delete   7 space key                                  the key is gone
//	deadline 8 space key deadline [created]               0: none
//	reaped   9 shard W                                    all of the shard due by W is gone
//	counts  10 space shard keys expires                   live keys, and those with a deadline
//	link    11 space key space key id type deadline [created]  a rename: the value moves to the second key
//	flush   12 db space                                   the database starts over
//	swap    13 db db
//	more    14 elem deadline value                        as element ┐ of the value that the
//	less    15 elem                                       as remove  ┘ record before is about
//	cut     16 space key id number number                 all of a list from the one to the other
//	time    17 W                                          a client may know that W has passed; 0: forget it
//	trim    18 space key id number number                 as cut, of a stream
//	expire  19 deadline [created]                         as deadline, of the key that the
//	                                                      record before is about
//	population 20 space shard keys expires timed          as counts, and keys with timed elements
//
// id is the value's, which no other value ever gets. created is there when deadline is not 0.
// number is 8 bytes, as in object.ListKey. The record before more, less or expire is in the same
// batch, and is large, element, remove, more, less or expire. Tags are never reused; 6 is free.
package format
