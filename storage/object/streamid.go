package object

import (
	"cmp"
	"encoding/binary"
	"math"
	"strconv"
)

// StreamID names an entry of a stream: Unix milliseconds, and a number that
// distinguishes entries of one millisecond. The zero value is below any entry's.
type StreamID struct{ Ms, Seq uint64 }

// MaxStreamID is the highest id.
var MaxStreamID = StreamID{math.MaxUint64, math.MaxUint64}

// Compare returns a number below, equal to or above 0 if id is before, equal to or after other.
func (id StreamID) Compare(other StreamID) int {
	if c := cmp.Compare(id.Ms, other.Ms); c != 0 {
		return c
	}
	return cmp.Compare(id.Seq, other.Seq)
}

// Next returns the id after id; false if id is the last one.
func (id StreamID) Next() (StreamID, bool) {
	switch {
	case id.Seq < math.MaxUint64:
		return StreamID{id.Ms, id.Seq + 1}, true
	case id.Ms < math.MaxUint64:
		return StreamID{id.Ms + 1, 0}, true
	default:
		return id, false
	}
}

// Prev returns the id before id; false if id is the first one.
func (id StreamID) Prev() (StreamID, bool) {
	switch {
	case id.Seq > 0:
		return StreamID{id.Ms, id.Seq - 1}, true
	case id.Ms > 0:
		return StreamID{id.Ms - 1, math.MaxUint64}, true
	default:
		return id, false
	}
}

// Append appends id as clients write it: ms-seq.
func (id StreamID) Append(dst []byte) []byte {
	dst = append(strconv.AppendUint(dst, id.Ms, 10), '-')
	return strconv.AppendUint(dst, id.Seq, 10)
}

// String returns id as clients write it.
func (id StreamID) String() string { return string(id.Append(nil)) }

func appendID(dst []byte, id StreamID) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, id.Ms), id.Seq)
}

// fieldsOf reads the fields of a stream's element. After the first bad field all others read as
// zero, and bad is set.
type fieldsOf struct {
	rest []byte
	bad  bool
}

func (f *fieldsOf) uint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// int reads a number that is not negative.
func (f *fieldsOf) int() int64 {
	v := f.uint()
	if v > math.MaxInt64 {
		f.bad = true
		return 0
	}
	return int64(v)
}

// known reads a number that was written plus one; 0 stands for -1, not known. Numbers that had
// overflowed were once written too large. They read as -1, too.
func (f *fieldsOf) known() int64 { return max(int64(f.uint()-1), -1) }

// number reads the number of a group or a consumer.
func (f *fieldsOf) number() uint32 {
	v := f.uint()
	if v > maxStreamNumber {
		f.bad = true
		return 0
	}
	return uint32(v)
}

func (f *fieldsOf) id() StreamID { return StreamID{f.uint(), f.uint()} }

func (f *fieldsOf) bytes() []byte {
	n := f.uint()
	if n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

// done reports whether all fields were there and no bytes are left.
func (f *fieldsOf) done() bool { return !f.bad && len(f.rest) == 0 }

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
