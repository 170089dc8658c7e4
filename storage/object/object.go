package object

import "errors"

// Type names a value's type on disk and in the log. Numbers are never reused.
type Type uint8

// The types. A missing key has None.
const (
	None Type = iota
	TypeString
	TypeHash
	TypeList
	TypeSet
	TypeZSet
	TypeStream
	TypeLease
	TypeLimit
	TypeDelay
)

// String returns the reply of TYPE.
func (t Type) String() string {
	switch t {
	case TypeString:
		return "string"
	case TypeHash:
		return "hash"
	case TypeList:
		return "list"
	case TypeSet:
		return "set"
	case TypeZSet:
		return "zset"
	case TypeStream:
		return "stream"
	case TypeLease:
		return "lease"
	case TypeLimit:
		return "limit"
	case TypeDelay:
		return "delay"
	default:
		return "none"
	}
}

// Value is one typed value as a set of elements. Element keys are unique within a
// value; element deadlines are Unix milliseconds, 0 for none.
type Value interface {
	Type() Type

	// Put sets an element that replay or a load from disk has read. The value copies the
	// slices. Put returns an error if the type has no such element.
	Put(elem, val []byte, deadline int64) error
	// Remove removes an element, if it exists.
	Remove(elem []byte)
	// Element returns an element's value and deadline; ok is false if there is no such element.
	// val is valid until the value changes.
	Element(elem []byte) (val []byte, deadline int64, ok bool)
	// Walk visits all elements until fn returns false. Putting them into an empty value in this
	// order makes an equal value, with the same order if the type has one.
	Walk(fn func(elem, val []byte, deadline int64) bool)

	// Clone returns a copy that shares no memory with the value.
	Clone() Value

	// Scan visits about count elements from cursor on; 0 is the beginning. It returns the next
	// cursor; 0: there are no more. An element that is there all the time is visited once,
	// whatever else is added and removed meanwhile.
	Scan(cursor uint64, count int, fn func(elem, val []byte, deadline int64)) (next uint64)

	// Len returns the number of elements, and Bytes the memory of the value in bytes.
	Len() int
	Bytes() int

	// Earliest returns the first deadline of an element; 0 if none has one. At that time the
	// key must be checked.
	Earliest() int64
	// LenAt returns the number of elements that are not due at now, in Unix milliseconds. An
	// element is due from the first millisecond of its deadline on.
	LenAt(now int64) int
	// Due removes at most limit elements that are due at now, the earliest first. It passes
	// each to fn before the removal, and returns how many they are.
	Due(now int64, limit int, fn func(elem, val []byte, deadline int64)) int
}

// HasMembers reports whether elements of the type have names that clients give, and can have
// deadlines that clients set: fields of hashes, and members of sets and sorted sets.
func HasMembers(t Type) bool { return t == TypeHash || t == TypeSet || t == TypeZSet }

// HasDeadlines reports whether elements of the type can have deadlines: members, and reservations
// of limits.
func HasDeadlines(t Type) bool { return HasMembers(t) || t == TypeLimit }

// OwnDeadline reports whether keys of the type have deadlines that policies leave alone. A lease
// ends when its owner expects it. A limit ends when nothing of it counts any more. The jobs of a
// delay queue have times of their own.
func (t Type) OwnDeadline() bool { return t == TypeLease || t == TypeLimit || t == TypeDelay }

// Names reports whether elem can be an element key of a value of the type. Keys in lists and
// strings are numbers of eight bytes.
func (t Type) Names(elem []byte) bool {
	switch t {
	case TypeList, TypeString:
		return len(elem) == 8
	case TypeStream:
		return namesStream(elem)
	case TypeLease:
		return len(elem) == 0
	case TypeLimit:
		return namesLimit(elem)
	case TypeDelay:
		return namesJob(elem)
	default:
		return true
	}
}

// Numbers reports whether elem, an element key of the type, is a number. This is so for list
// elements and stream entries. The number of an added element is NumberStep after the one before.
func (t Type) Numbers(elem []byte) bool {
	return len(elem) == 8 && (t == TypeList || t == TypeStream)
}

// Numbered is a value that has elements with numbers, in their order.
type Numbered interface {
	Value
	// From visits the elements whose numbers are not below number, in order, until fn returns
	// false.
	From(number int64, fn func(number int64, val []byte) bool)
	// LastNumber returns the number of the last element; ok is false if there is none.
	LastNumber() (number int64, ok bool)
	// RemoveNumbers removes the elements whose numbers are from first to last. Before it
	// removes some, it calls fn with their numbers: n numbers from first on, each NumberStep
	// after the one before.
	RemoveNumbers(first, last int64, fn func(first int64, n int))
}

var errBadElement = errors.New("object: an element that its type does not have")

// New returns an empty value of type t, or nil for a type that is not known.
func New(t Type) Value {
	switch t {
	case TypeString:
		return &String{}
	case TypeHash:
		return &Hash{}
	case TypeList:
		return &List{}
	case TypeSet:
		return &Set{}
	case TypeZSet:
		return &ZSet{}
	case TypeStream:
		return &Stream{}
	case TypeLease:
		return &Lease{}
	case TypeLimit:
		return &Limit{}
	case TypeDelay:
		return NewDelayQueue()
	default:
		return nil
	}
}
