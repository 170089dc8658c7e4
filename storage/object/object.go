package object

import "errors"

// Type names a value's type on disk and in the log. Numbers are never reused.
type Type uint8

// The types. None is what a missing key has.
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

// String is the name that TYPE replies.
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

	// Put sets an element, as replay or a load from disk found it. The slices
	// belong to the caller and are not parts of the value.
	Put(elem, val []byte, deadline int64) error
	// Remove removes an element; a missing one is no error.
	Remove(elem []byte)
	// Element gives an element's present value; ok is false where there is none.
	// val is valid until the value changes.
	Element(elem []byte) (val []byte, deadline int64, ok bool)
	// Walk visits all elements until fn returns false. Put into an empty value in
	// this order they give an equal one; where order means anything it is the same.
	Walk(fn func(elem, val []byte, deadline int64) bool)

	// Clone gives a copy that shares no memory with the value.
	Clone() Value

	// Scan visits about count elements from cursor on, 0 being the begin, and gives the
	// cursor to continue from; 0: that was all. An element that is there all the time is
	// visited once, whatever else is added and removed meanwhile.
	Scan(cursor uint64, count int, fn func(elem, val []byte, deadline int64)) (next uint64)

	// Len is the number of elements, Bytes the memory the value takes.
	Len() int
	Bytes() int

	// Earliest is the first deadline of an element, 0 if none has one: when the key
	// must be looked at.
	Earliest() int64
	// LenAt is the number of elements that are not due at now, an instant in Unix
	// milliseconds: an element expires at the first millisecond of its deadline.
	LenAt(now int64) int
	// Due removes at most limit elements that are due at now, the earliest first,
	// and reports how many. fn sees each before its removal.
	Due(now int64, limit int, fn func(elem, val []byte, deadline int64)) int
}

// HasMembers reports whether elements of the type have names that clients give, and can have
// deadlines that clients set: fields of hashes, and members of sets and sorted sets.
func HasMembers(t Type) bool { return t == TypeHash || t == TypeSet || t == TypeZSet }

// HasDeadlines reports whether elements of the type can have deadlines: members, and reservations
// of limits.
func HasDeadlines(t Type) bool { return HasMembers(t) || t == TypeLimit }

// OwnDeadline reports whether keys of the type have deadlines that policies leave alone: a lease
// ends as its owner knows it, limits when nothing of them counts any more, and the jobs of a delay
// queue have times of their own.
func (t Type) OwnDeadline() bool { return t == TypeLease || t == TypeLimit || t == TypeDelay }

// Names reports whether a value of the type can have an element with that name: those of lists
// and strings have numbers of eight bytes.
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

// Numbers reports whether an element of a value of the type has a number as its name: those of
// lists and the entries of streams do, NumberStep after one another as they are added.
func (t Type) Numbers(elem []byte) bool {
	return len(elem) == 8 && (t == TypeList || t == TypeStream)
}

// Numbered is a value that has elements with numbers, in their order.
type Numbered interface {
	Value
	// From visits the elements from the first on whose number is not below number, until fn returns
	// false.
	From(number int64, fn func(number int64, val []byte) bool)
	// LastNumber is the number of the last one; false if there is none.
	LastNumber() (number int64, ok bool)
	// RemoveNumbers removes the elements whose numbers are from first to last, and calls fn with
	// the numbers first: runs of n, each NumberStep after the one before.
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
