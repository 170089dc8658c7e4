package format

import (
	"encoding/binary"
	"errors"

	"keyp/storage/object"
)

// Tags of records.
const (
	RecPut = 1 + iota
	RecLarge
	RecElement
	RecRemove
	RecRange
	_
	RecDelete
	RecDeadline
	RecReaped
	RecCounts
	RecLink
	RecFlush
	RecSwap
	RecMore
	RecLess
	RecCut
	RecTime
	RecTrim
	RecExpire
)

// CutOf is the tag of the record that removes a run of elements of a value of a type.
func CutOf(typ object.Type) byte {
	if typ == object.TypeStream {
		return RecTrim
	}
	return RecCut
}

// ErrBadRecord says that a record of the log does not parse.
var ErrBadRecord = errors.New("storage: a log record does not parse")

// AppendRecord begins a record: its tag, and the integers it begins with.
func AppendRecord(dst []byte, tag byte, ints ...uint64) []byte {
	dst = append(dst, tag)
	for _, v := range ints {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// AppendBytes appends bytes behind their length.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// AppendDeadline appends a deadline (Unix ms, 0 for none) and, if there is one, the second in which it was set.
func AppendDeadline(dst []byte, deadline int64, created uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(deadline))
	if deadline != 0 {
		dst = binary.AppendUvarint(dst, uint64(created))
	}
	return dst
}

// Fields reads what a record or another entry has, from Rest on. After the first bad field everything
// reads as zero, and Bad is set.
type Fields struct {
	Rest []byte
	Bad  bool
}

// Int reads an integer.
func (f *Fields) Int() uint64 {
	v, n := binary.Uvarint(f.Rest)
	if n <= 0 {
		f.Bad, f.Rest = true, nil
		return 0
	}
	f.Rest = f.Rest[n:]
	return v
}

// Below reads a number that is less than n: of a shard, of a database.
func (f *Fields) Below(n int) int {
	v := f.Int()
	if v >= uint64(n) {
		f.Bad, f.Rest = true, nil
		return 0
	}
	return int(v)
}

// maxInstant is the latest instant that a clock of a server can have shown, Unix ms: some 285,000
// years, so that a span can be added to it.
const maxInstant = 1 << 53

// Instant reads an instant at which a server was, Unix ms.
func (f *Fields) Instant() int64 {
	v := f.Int()
	if v > maxInstant {
		f.Bad, f.Rest = true, nil
		return 0
	}
	return int64(v)
}

// Bytes reads bytes behind their length; they belong to Rest.
func (f *Fields) Bytes() []byte {
	n := f.Int()
	if n > uint64(len(f.Rest)) {
		f.Bad, f.Rest = true, nil
		return nil
	}
	b := f.Rest[:n:n]
	f.Rest = f.Rest[n:]
	return b
}

// Number reads the number of an element.
func (f *Fields) Number() int64 {
	const size = 8
	if len(f.Rest) < size {
		f.Bad, f.Rest = true, nil
		return 0
	}
	n := object.ListNumber(f.Rest[:size])
	f.Rest = f.Rest[size:]
	return n
}

// Deadline reads what AppendDeadline has appended.
func (f *Fields) Deadline() (deadline int64, created uint32) {
	if deadline = int64(f.Int()); deadline != 0 {
		created = uint32(f.Int())
	}
	return deadline, created
}

// Type reads a type that this version knows.
func (f *Fields) Type() object.Type {
	if len(f.Rest) == 0 || object.New(object.Type(f.Rest[0])) == nil {
		f.Bad, f.Rest = true, nil
		return object.None
	}
	typ := object.Type(f.Rest[0])
	f.Rest = f.Rest[1:]
	return typ
}

// Record is what a record says of keys and values; fields that a tag does not have are zero.
type Record struct {
	Tag     byte
	Space   uint32 // of flush: the one that the database gets
	Shard   uint64 // of counts
	Time    int64
	Key     []byte
	ToSpace uint32
	To      []byte
	ID      uint64
	Type    object.Type
}

// ReadRecord reads a record of any kind; f.Bad says that it does not parse.
func ReadRecord(f *Fields) (r Record) {
	r.Tag = f.Rest[0]
	f.Rest = f.Rest[1:]
	switch r.Tag {
	case RecReaped:
		f.Int()
		f.Int()
		return r
	case RecTime:
		r.Time = f.Instant()
		return r
	case RecCounts:
		r.Space, r.Shard = uint32(f.Int()), f.Int()
		f.Int()
		f.Int()
		return r
	case RecFlush:
		f.Int()
		r.Space = uint32(f.Int())
		return r
	case RecSwap:
		f.Int()
		f.Int()
		return r
	case RecMore, RecLess:
		r.element(f, r.Tag == RecMore)
		return r
	case RecExpire:
		f.Deadline()
		return r
	}
	r.Space, r.Key = uint32(f.Int()), f.Bytes()
	switch r.Tag {
	case RecPut:
		f.Deadline()
		f.Bytes()
	case RecLarge:
		r.ID = f.Int()
		f.Deadline()
		r.Type = f.Type()
	case RecElement, RecRemove:
		r.ID, r.Type = f.Int(), f.Type()
		r.element(f, r.Tag == RecElement)
	case RecRange:
		r.ID, r.Type = f.Int(), object.TypeString
		f.Int()
		f.Bytes()
	case RecCut, RecTrim:
		r.ID, r.Type = f.Int(), object.TypeList
		if r.Tag == RecTrim {
			r.Type = object.TypeStream
		}
		f.Number()
		f.Number()
	case RecDelete:
	case RecDeadline:
		f.Deadline()
	case RecLink:
		r.ToSpace, r.To = uint32(f.Int()), f.Bytes()
		r.ID, r.Type = f.Int(), f.Type()
		f.Deadline()
	default:
		f.Bad = true
	}
	return r
}

func (r *Record) element(f *Fields, put bool) {
	f.Bytes()
	if put {
		f.Int()
		f.Bytes()
	}
}
