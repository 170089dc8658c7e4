// Package object holds the value types. For the log and for the disk every value is
// a set of elements; a type implements Value and needs no other storage code: replay,
// checkpoint, load and eviction are written against this contract alone.
//
//	type        element key              element value
//	string      chunk number, 8 bytes BE  up to ChunkSize bytes (only when too large to stand inline)
//	hash        field                    value
//	set         member                   (empty)
//	sorted set  member                   score, 8 bytes
//	list        sequence number          value
package object

// Type names a value's type on disk and in the log. Numbers are never reused.
type Type uint8

// The types. None is what a missing key has.
const (
	None Type = iota
	TypeString
)

// String is the name that TYPE replies.
func (t Type) String() string {
	switch t {
	case TypeString:
		return "string"
	default:
		return "none"
	}
}

// Value is one typed value as a set of elements. Element keys are unique within a
// value; element deadlines are Unix milliseconds, 0 for none.
type Value interface {
	Type() Type

	// Put sets an element, as replay or a load from disk found it. The slices
	// belong to the caller.
	Put(elem, val []byte, deadline int64) error
	// Remove takes an element away; a missing one is no error.
	Remove(elem []byte)
	// Element gives an element's present value; ok is false where there is none.
	// val is valid until the value changes.
	Element(elem []byte) (val []byte, deadline int64, ok bool)
	// Walk visits all elements until fn returns false.
	Walk(fn func(elem, val []byte, deadline int64) bool)

	// Len is the number of elements, Bytes the memory the value takes.
	Len() int
	Bytes() int
}

// New returns an empty value of type t, or nil for a type that is not known.
func New(t Type) Value {
	switch t {
	case TypeString:
		return &String{}
	default:
		return nil
	}
}
