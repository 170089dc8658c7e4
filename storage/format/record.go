package format

import (
	"encoding/binary"
	"errors"

	"keyp/storage/object"
)

// Each record of the log begins with a tag, which says what kind of record it is (doc.go).
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
	RecPopulation // as RecCounts, and with Timed
)

// CutOf returns the tag of the record that removes a run of elements of a value of a type.
func CutOf(typ object.Type) byte {
	if typ == object.TypeStream {
		return RecTrim
	}
	return RecCut
}

// ErrBadRecord is the error for a log record that does not parse.
var ErrBadRecord = errors.New("storage: a log record does not parse")

// AppendRecord begins a record: its tag, and the integers it begins with.
func AppendRecord(dst []byte, tag byte, ints ...uint64) []byte {
	dst = append(dst, tag)
	for _, v := range ints {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// AppendBytes appends the length of b, and b.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// AppendDeadline appends a deadline (Unix ms, 0 for none) and, if there is one, the second in which
// it was set.
func AppendDeadline(dst []byte, deadline int64, created uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(deadline))
	if deadline != 0 {
		dst = binary.AppendUvarint(dst, uint64(created))
	}
	return dst
}

// Fields reads the fields of a record or another entry from Rest. After the first bad field
// everything reads as zero, and Bad is set.
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

// Instant reads an instant of a server's clock, Unix ms.
func (f *Fields) Instant() int64 {
	v := f.Int()
	if v > maxInstant {
		f.Bad, f.Rest = true, nil
		return 0
	}
	return int64(v)
}

// Bytes reads bytes after their length; they share Rest's memory.
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

// Record is a record of the log. Fields that its tag does not have are zero. Byte slices share the
// memory that was read.
type Record struct {
	Tag      byte
	Space    uint32 // the keyspace; of RecFlush, the one that the database gets
	Key      []byte
	ID       uint64 // of the value
	Type     object.Type
	Deadline int64  // of the key, or of the element; Unix ms, 0 for none
	Created  uint32 // the second in which the key's deadline was set
	Elem     []byte
	Value    []byte // of the key, or of the element; of RecRange, the bytes that are written

	Offset      uint64 // of RecRange
	First, Last int64  // of RecCut and RecTrim: the numbers of the run
	ToSpace     uint32 // of RecLink: the keyspace of To
	To          []byte // of RecLink: the key that gets the value

	DB, OtherDB   uint64 // of RecFlush and RecSwap
	Shard         uint64 // of RecPopulation, RecCounts and RecReaped
	Keys, Expires int64  // of RecPopulation and RecCounts
	Timed         int64  // of RecPopulation; of RecCounts Unknown
	Time          int64  // of RecTime: the instant; of RecReaped: due through; Unix ms
}

// ReadRecord reads a record of any kind; f.Bad is set if it does not parse.
func ReadRecord(f *Fields) (r Record) {
	r.Read(f)
	return r
}

// Read is ReadRecord into a Record that is used again.
func (r *Record) Read(f *Fields) {
	*r = Record{Tag: f.Rest[0]}
	f.Rest = f.Rest[1:]
	switch r.Tag {
	case RecReaped:
		r.Shard, r.Time = f.Int(), int64(f.Int())
	case RecTime:
		r.Time = f.Instant()
	case RecCounts, RecPopulation:
		r.Space, r.Shard, r.Keys, r.Expires, r.Timed = uint32(f.Int()), f.Int(), int64(f.Int()),
			int64(f.Int()), Unknown
		if r.Tag == RecPopulation {
			r.Timed = int64(f.Int())
		}
	case RecFlush:
		r.DB, r.Space = f.Int(), uint32(f.Int())
	case RecSwap:
		r.DB, r.OtherDB = f.Int(), f.Int()
	case RecMore, RecLess:
		r.element(f)
	case RecExpire:
		r.Deadline, r.Created = f.Deadline()
	default:
		r.Space, r.Key = uint32(f.Int()), f.Bytes()
		r.ofKey(f)
	}
}

// ofKey reads the rest of a record that begins with a key.
func (r *Record) ofKey(f *Fields) {
	switch r.Tag {
	case RecPut:
		r.Deadline, r.Created = f.Deadline()
		r.Value = f.Bytes()
	case RecLarge:
		r.ID = f.Int()
		r.Deadline, r.Created = f.Deadline()
		r.Type = f.Type()
	case RecElement, RecRemove:
		r.ID, r.Type = f.Int(), f.Type()
		r.element(f)
	case RecRange:
		r.ID, r.Type = f.Int(), object.TypeString
		r.Offset, r.Value = f.Int(), f.Bytes()
	case RecCut, RecTrim:
		r.ID, r.Type = f.Int(), object.TypeList
		if r.Tag == RecTrim {
			r.Type = object.TypeStream
		}
		r.First, r.Last = f.Number(), f.Number()
	case RecDelete:
	case RecDeadline:
		r.Deadline, r.Created = f.Deadline()
	case RecLink:
		r.ToSpace, r.To = uint32(f.Int()), f.Bytes()
		r.ID, r.Type = f.Int(), f.Type()
		r.Deadline, r.Created = f.Deadline()
	default:
		f.Bad = true
	}
}

// element reads an element's name and, if the record puts the element, its deadline and value.
func (r *Record) element(f *Fields) {
	r.Elem = f.Bytes()
	if r.Tag == RecElement || r.Tag == RecMore {
		r.Deadline, r.Value = int64(f.Int()), f.Bytes()
	}
}

// BatchTime returns the time in the record with which a batch begins; ok is false if the batch does
// not begin with a time. The time is also that of the batches after it.
func BatchTime(batch []byte) (ms int64, ok bool) {
	if len(batch) == 0 || batch[0] != RecTime {
		return 0, false
	}
	f := Fields{Rest: batch}
	r := ReadRecord(&f)
	return r.Time, !f.Bad
}
