package storage

import (
	"encoding/binary"
	"errors"

	"keyp/storage/object"
)

// A batch is what one transaction logs: records one after another, physical and
// idempotent, so that replaying any suffix of the log over a newer state converges.
// Integers are unsigned varints; bytes are a length and that many bytes.
//
//	put      1 space key deadline [created] value         the whole of a small string key
//	large    2 space key id deadline [created] type       a new value without elements
//	element  3 space key id type elem deadline value      one element's value
//	remove   4 space key id type elem                    one element less
//	range    5 space key id offset value                  bytes of a large string
//	delete   7 space key                                  the key is gone
//	deadline 8 space key deadline [created]               0: none
//	reaped   9 shard W                                    all of the shard due by W is gone
//	counts  10 space shard keys expires                   live keys, with a deadline
//	link    11 space key space key id type deadline [created]  the value id moves to the second
//	flush   12 db space                                   the database starts over
//	swap    13 db db
//	more    14 elem deadline value                        as element ┐ of the value that the
//	less    15 elem                                       as remove  ┘ record before is about
//	cut     16 space key id number number                 all of a list from the one to the other
//	time    17 W                                          time had come to W, and a walk has shown that; 0: forget it
//
// space is the keyspace's id; id is the value's (Object.id); created, a Unix second, is
// there when deadline is not 0; number is 8 bytes, as in object.ListKey. Before more and less stand large, element, remove, more
// or less, in the same batch. Numbers are never reused; 6 is free.
const (
	recPut = 1 + iota
	recLarge
	recElement
	recRemove
	recRange
	_
	recDelete
	recDeadline
	recReaped
	recCounts
	recLink
	recFlush
	recSwap
	recMore
	recLess
	recCut
	recTime
)

var errBadRecord = errors.New("storage: a log record does not parse")

// recordCost is about what replaying a record costs a processor, in nanoseconds: those
// that change a key instead of stating it may have to read it from the data file. To it
// comes byteCost for each byte of a batch.
var recordCost = [...]int64{recPut: 1000, recLarge: 2000, recElement: 1000, recRemove: 1000, recRange: 10_000, recDelete: 1000,
	recDeadline: 5000, recLink: 10_000, recMore: 300, recLess: 300, recCut: 10_000}

const byteCost = 1

func appendRecord(dst []byte, tag byte, ints ...uint64) []byte {
	dst = append(dst, tag)
	for _, v := range ints {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendDeadline(dst []byte, deadline int64, created uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(deadline))
	if deadline != 0 {
		dst = binary.AppendUvarint(dst, uint64(created))
	}
	return dst
}

// fields reads a record; after the first bad field everything reads as zero and bad
// is set.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) int() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// below reads a number that is less than n: of a shard, of a database.
func (f *fields) below(n int) int {
	v := f.int()
	if v >= uint64(n) {
		f.bad, f.rest = true, nil
		return 0
	}
	return int(v)
}

func (f *fields) bytes() []byte {
	n := f.int()
	if n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

// number reads the number of a list's element.
func (f *fields) number() int64 {
	const size = 8
	if len(f.rest) < size {
		f.bad, f.rest = true, nil
		return 0
	}
	n := object.ListNumber(f.rest[:size])
	f.rest = f.rest[size:]
	return n
}

func (f *fields) deadline() (deadline int64, created uint32) {
	if deadline = int64(f.int()); deadline != 0 {
		created = uint32(f.int())
	}
	return deadline, created
}

// typ reads a type that this version knows.
func (f *fields) typ() object.Type {
	if len(f.rest) == 0 || object.New(object.Type(f.rest[0])) == nil {
		f.bad, f.rest = true, nil
		return object.None
	}
	typ := object.Type(f.rest[0])
	f.rest = f.rest[1:]
	return typ
}
