// Package rdb reads and writes single values as DUMP gives and RESTORE takes them: in
// Redis's own format, so that values move between Redis and Keyp both ways. It also reads whole
// RDB files of Redis and Valkey (file.go), whose values are those of payloads, and writes those of
// Redis (filewrite.go). It knows neither storage nor commands; a Value is all that passes.
//
// # Payload
//
//	+------+-----------------------+-------------+--------------------+
//	| type | value, by the type    | version, LE | CRC-64, LE         |
//	| 1 B  |                       | 2 B         | 8 B, of all before |
//	+------+-----------------------+-------------+--------------------+
//
// The checksum is CRC-64/Jones (reflected, starts at 0). A version above Newest is
// refused, as Redis refuses what is newer than itself. Encode writes version 10 (Redis
// 7.0) unless an element has a deadline, which needs version 12 (Redis 7.4).
//
// # Lengths and strings
//
//	00nnnnnn                  length, 6 bits
//	01nnnnnn nnnnnnnn         length, 14 bits
//	10000000 n×4              length, 32 bits, big endian
//	10000001 n×8              length, 64 bits, big endian
//	11000000 i×1              string: the digits of an int8
//	11000001 i×2              string: the digits of an int16, little endian
//	11000010 i×4              string: the digits of an int32, little endian
//	11000011 packed unpacked  string: two lengths and an LZF stream (lzf.go)
//
// A string is one of the last four or a length and as many bytes.
//
// # Values
//
//	 0 string                 string
//	 1 list                   count, strings
//	 2 set                    count, strings
//	 3 sorted set             count, (string, score as text)
//	 4 hash                   count, (field, value)
//	 5 sorted set             count, (string, score as float64, LE)
//	 9 hash                   zipmap
//	10 list                   ziplist
//	11 set                    intset
//	12 sorted set             ziplist of member, score
//	13 hash                   ziplist of field, value
//	14 list                   count, ziplists
//	16 hash                   listpack of field, value
//	17 sorted set             listpack of member, score
//	18 list                   count, (1, string: one element | 2, listpack)
//	15 stream                 nodes, length, last id, groups
//	19 stream                 nodes, length, last id, first id, highest deleted id, entries added, groups
//	20 set                    listpack
//	21 stream                 as 19; consumers with the time of their activity
//	26 stream                 as 21, idempotent ids
//	27 stream                 as 26; groups with pending entries that belong to no consumer
//	22 hash                   count, (deadline, field, value); before 7.4.0
//	23 hash                   listpack of field, value, deadline; before 7.4.0
//	24 hash                   first deadline, count, (deadline - first + 1 or 0, field, value)
//	25 hash                   first deadline, listpack of field, value, deadline
//	224 set                   first deadline, count, (deadline as in 24, member)
//	225 sorted set            first deadline, count, (deadline as in 24, member, score as in 5)
//	226 lease                 token, delay, owner (a string); both numbers as lengths
//	227 limits                first deadline, count, (deadline as in 24, element, value)
//	228 delay queue           count, (id, value of the job's element, whose number does not count, and receipt 0)
//
// Those from 224 on are Keyp's own, which Redis refuses: it has no deadlines there, and members
// would live for ever, or no such type. What an element of limits or a job is, who restores it
// looks at.
//
// Listpacks, ziplists, intsets and zipmaps stand in a string each, which may be packed;
// listpack.go and oldpack.go draw them.
//
// The nodes of a stream are a count, and for each its id, 16 bytes, and a listpack (stream.go). A
// group is its name, the last id, entries read (not in 15), its pending entries (id, time, count)
// and its consumers, each with its name, times, and the ids of those of the pending entries that
// are its own. Idempotent ids are two settings, producers with names and ids, and two counts.
// Encode writes 19 unless a stream has what needs 26 or 27; then the time of activity is lost,
// which RESTORE takes to be the time seen.
//
// # What is refused
//
// A payload comes from anybody, and its checksum proves nothing. So Decode looks at all
// of it before it gives a Value, as Redis does with sanitize-dump-payload yes: every
// length against the bytes that are there, every header, back length and count of a
// packed value against its entries, members and fields for doubles, scores for NaN,
// and that nothing is left over. Empty collections are refused too. Redis is laxer in
// some things that no server writes: bytes left over, numbers where only a length can
// stand, scores that are no numbers.
//
// Memory is bounded by the payload: a string is unpacked only if its claimed length can
// come of its packed one, elements are handed over one by one instead of being
// collected, and the search for doubles keeps 16 bytes an element.
//
// # Why no library
//
// The Go libraries for this format read whole files that a server of the user's own
// wrote, and trust them: a wrong length there is a panic or an allocation of its size.
// Here the input is hostile, and refusing it exactly is most of the work.
package rdb
