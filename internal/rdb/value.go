package rdb

import (
	"errors"
	"iter"
)

// The errors of Decode.
var (
	// ErrPayload is a payload that is too short, too new, or has a wrong checksum.
	ErrPayload = errors.New("rdb: payload version or checksum are wrong")
	// ErrFormat is a payload with a right checksum that is no value all the same.
	ErrFormat = errors.New("rdb: bad data format")
)

// Type is what a value is, whatever its encoding.
type Type uint8

// The types.
const (
	String Type = iota + 1
	List
	Set
	ZSet
	Hash
	Stream
	Lease // Keyp's own
	Limit // its elements have names that are not text, and values
	Delay // Keyp's own: jobs, in their order
)

// String is the type's name as TYPE replies it, and empty for those that are Keyp's own.
func (t Type) String() string {
	return [...]string{String: "string", List: "list", Set: "set", ZSet: "zset", Hash: "hash", Stream: "stream", Lease: "", Limit: "", Delay: ""}[t]
}

// Value is one value, on its way into a payload or out of it.
type Value struct {
	Type Type
	// Str is a String's content, nil for collections.
	Str []byte
	// Len is how many elements a collection has, at least 1; Encode counts by itself.
	Len int
	// Elements walks a collection, as often as asked: a List from its head, a ZSet by
	// score and member when Encode takes it and in any order when Decode gives it, the
	// others in any order. Nil for a String, a stream and a lease.
	Elements iter.Seq[Element]
	// Stream is what a stream has, nil for other types.
	Stream *StreamValue
	// Lease is a lease, nil for other types.
	Lease *LeaseValue
}

// LeaseValue is a lease: who has it, by which token, and for how many ms its key is not free after
// it has expired. Decode does not know which of them can be.
type LeaseValue struct {
	Owner        []byte
	Token, Delay uint64
}

// Element is one element of a collection. The slices are valid until the next one.
type Element struct {
	// Name is a list's element, a set's or sorted set's member, a hash's field.
	Name []byte
	// Value is a hash's value.
	Value []byte
	// Score is a sorted set's; never NaN.
	Score float64
	// Deadline is that of a hash's field, or of a set's or sorted set's member, in Unix
	// milliseconds, 0 for none. Decode knows no time: what it gives may have passed.
	Deadline int64
}
