// Package rdb reads and writes single values in the format of DUMP and RESTORE, which is Redis's
// own. So values can be moved between Redis and Keyp in both directions. The package also reads
// whole RDB files of Redis and Valkey (file.go), and writes those of Redis (filewrite.go). It
// depends on neither storage nor commands.
//
// # Payload
//
//	+------+-----------------------+-------------+--------------------+
//	| type | value, by the type    | version, LE | CRC-64, LE         |
//	| 1 B  |                       | 2 B         | 8 B, of all before |
//	+------+-----------------------+-------------+--------------------+
//
// The checksum is CRC-64/Jones (reflected, starts at 0). A version above Newest is refused, as
// Redis refuses payloads newer than itself. Encode writes version 10 (Redis 7.0). Deadlines of
// elements need version 12 (Redis 7.4), some streams 13 or 14 (Redis 8.6, 8.8).
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
// A string is one of the last four forms, or a length followed by so many bytes.
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
//	228 delay queue           count, (id, the job as it is stored, with number and receipt 0)
//
// Types from 224 on are Keyp's own, and Redis refuses them. Redis has no deadlines of members, so
// there the members would live for ever. Decode does not check the elements of limits and jobs; the
// caller does.
//
// Each listpack, ziplist, intset or zipmap is the content of a string, which may be packed;
// listpack.go and oldpack.go draw them.
//
// The nodes of a stream are a count, and for each its id, 16 bytes, and a listpack (stream.go). A
// group is its name, the last id, entries read (not in 15), its pending entries (id, time, count)
// and its consumers. A consumer is its name, its times and the ids of its pending entries.
// Idempotent ids are two settings, producers with names and ids, and two counts. Encode writes 19
// unless a stream needs 26 or 27. Type 19 loses the time of activity; RESTORE then uses the time
// seen.
//
// # What is refused
//
// A payload may come from anybody, and its checksum proves nothing. So Decode checks all of it
// before it returns a Value, as Redis does with sanitize-dump-payload yes. It checks every length
// against the bytes that are there, and every header, back length and count of a packed value
// against its entries. It refuses duplicate members and fields, NaN scores, bytes left over and
// empty collections. Redis is laxer in some things that no server writes: bytes left over, numbers
// where only a length can stand, scores that are no numbers.
//
// Memory is bounded by the payload. A string is unpacked only if its packed length can give its
// claimed one. Elements are passed on one by one, and the search for duplicates keeps 16 bytes an
// element.
//
// # Why no library
//
// The Go libraries for this format read whole files, and trust them because the user's own server
// wrote them. In such a library a wrong length causes a panic or an allocation of its size. Here
// the input may be hostile, and refusing it exactly is most of the work.
package rdb
