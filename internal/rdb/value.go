package rdb

import (
	"errors"
	"iter"
)

// The errors of Decode.
var (
	// ErrPayload is a payload that is too short, too new, or has a wrong checksum.
	ErrPayload = errors.New("rdb: payload version or checksum are wrong")
	// ErrFormat is a payload with a correct checksum but an invalid value.
	ErrFormat = errors.New("rdb: bad data format")
)

// Type is the type of a value, independent of its encoding.
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
	Limit // Keyp's own: elements with values, whose names are not text
	Delay // Keyp's own: jobs, in their order
)

// String returns the type's name in replies of TYPE; it is empty for Keyp's own types.
func (t Type) String() string {
	return [...]string{String: "string", List: "list", Set: "set", ZSet: "zset", Hash: "hash",
		Stream: "stream", Lease: "", Limit: "", Delay: ""}[t]
}

// Value is one value, decoded from a payload or to be encoded into one.
type Value struct {
	Type Type
	// Str is a String's content, nil for collections.
	Str []byte
	// Len is how many elements a collection has, at least 1; Encode counts by itself.
	Len int
	// Elements yields the elements, and may be called more than once. A List starts at its head;
	// a ZSet for Encode must be ordered by score and member. Other types, and a ZSet from
	// Decode, have any order. It is nil for a String, a stream and a lease.
	Elements iter.Seq[Element]
	// Stream is the content of a stream, nil for other types.
	Stream *StreamValue
	// Lease is a lease, nil for other types.
	Lease *LeaseValue
}

// LeaseValue is a lease: its owner, its token, and for how many ms its key stays taken after the
// lease expired. Decode does not check whether they are possible.
type LeaseValue struct {
	Owner        []byte
	Token, Delay uint64
}

// Element is one element of a collection. The slices are valid until the next one.
type Element struct {
	// Name is a list's element, a set's or sorted set's member, a hash's field.
	Name []byte
	// Value is the value of a hash's field, of a limit, or of a delay queue's job.
	Value []byte
	// Score is a sorted set's; never NaN.
	Score float64
	// Deadline is the deadline of the field, the member or the limit, in Unix milliseconds; 0
	// means none. Decode reads no clock, so a deadline may have passed.
	Deadline int64
}
