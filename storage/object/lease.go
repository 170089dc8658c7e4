package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"
)

// Lease is the value of a lease: its owner and its token. A granted lease does not change; another
// lease is another value. Its end is not stored here: it is the deadline of its key minus Delay.
type Lease struct {
	Owner []byte
	Token uint64 // above those of all leases that the key had before; 0: there is no lease
	Delay int64  // for how many ms the key is not free after the lease has expired
}

// MaxOwner is the largest length of an owner's name, in bytes. MaxDelay is the longest delay, in
// ms: a year.
const (
	MaxOwner       = 512
	MaxDelay int64 = 366 * 24 * 3600 * 1000
)

var errBadLease = errors.New("object: a lease that nobody can have been granted")

// A lease is one element without a name:
//
//	token, delay, owner (the rest)
func (l *Lease) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, l.Token), uint64(l.Delay))
	return append(dst, l.Owner...)
}

// Valid reports whether the lease can have been granted.
func (l *Lease) Valid() bool {
	return l.Token > 0 && l.Delay >= 0 && l.Delay <= MaxDelay && len(l.Owner) > 0 &&
		len(l.Owner) <= MaxOwner
}

// Type returns TypeLease.
func (l *Lease) Type() Type { return TypeLease }

// Encoding returns the reply of OBJECT ENCODING.
func (l *Lease) Encoding() string { return "lease" }

// Put replaces the whole lease. It returns an error if the new one is not valid.
func (l *Lease) Put(elem, val []byte, _ int64) error {
	token, n := binary.Uvarint(val)
	if n <= 0 || len(elem) > 0 {
		return errBadLease
	}
	delay, m := binary.Uvarint(val[n:])
	if m <= 0 {
		return errBadLease
	}
	read := Lease{Owner: bytes.Clone(val[n+m:]), Token: token, Delay: int64(delay)}
	if !read.Valid() {
		return errBadLease
	}
	*l = read
	return nil
}

// Remove removes the lease, whose only element has an empty key.
func (l *Lease) Remove(elem []byte) {
	if len(elem) == 0 {
		*l = Lease{}
	}
}

// Element returns the whole lease; ok is false if there is none.
func (l *Lease) Element(elem []byte) ([]byte, int64, bool) {
	if l.Token == 0 || len(elem) > 0 {
		return nil, 0, false
	}
	return l.append(nil), 0, true
}

// Walk visits the only element.
func (l *Lease) Walk(fn func(elem, val []byte, deadline int64) bool) {
	if l.Token != 0 {
		fn(nil, l.append(nil), 0)
	}
}

// Scan visits the only element, whatever cursor and count are.
func (l *Lease) Scan(_ uint64, _ int, fn func(elem, val []byte, deadline int64)) (next uint64) {
	if l.Token != 0 {
		fn(nil, l.append(nil), 0)
	}
	return 0
}

// Clone returns a copy.
func (l *Lease) Clone() Value {
	return &Lease{Owner: bytes.Clone(l.Owner), Token: l.Token, Delay: l.Delay}
}

// Len returns 1, or 0 without a lease.
func (l *Lease) Len() int {
	if l.Token == 0 {
		return 0
	}
	return 1
}

// Bytes returns the memory used, in bytes.
func (l *Lease) Bytes() int { return int(unsafe.Sizeof(*l)) + cap(l.Owner) }

// Earliest returns 0: the element has no deadline.
func (l *Lease) Earliest() int64 { return 0 }

// LenAt returns Len.
func (l *Lease) LenAt(int64) int { return l.Len() }

// Due removes nothing.
func (l *Lease) Due(int64, int, func(elem, val []byte, deadline int64)) int { return 0 }
