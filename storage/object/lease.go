package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"
)

// Lease is who may use something, by a token. It does not change: another lease is another value.
// Until when it is held is not part of it: it is the deadline of its key, less Delay.
type Lease struct {
	Owner []byte
	Token uint64 // above those of all leases that the key had before; 0: there is no lease
	Delay int64  // for how many ms the key is not free after the lease has expired
}

// MaxOwner is how long an owner's name is at most, in bytes, and MaxDelay how long a delay, in ms:
// a year.
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

// Valid reports whether a lease can be one that was granted.
func (l *Lease) Valid() bool {
	return l.Token > 0 && l.Delay >= 0 && l.Delay <= MaxDelay && len(l.Owner) > 0 &&
		len(l.Owner) <= MaxOwner
}

// Type is TypeLease.
func (l *Lease) Type() Type { return TypeLease }

// Encoding is the name that OBJECT ENCODING gives.
func (l *Lease) Encoding() string { return "lease" }

// Put sets all of the lease.
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

// Remove removes the lease.
func (l *Lease) Remove(elem []byte) {
	if len(elem) == 0 {
		*l = Lease{}
	}
}

// Element gives all of the lease.
func (l *Lease) Element(elem []byte) ([]byte, int64, bool) {
	if l.Token == 0 || len(elem) > 0 {
		return nil, 0, false
	}
	return l.append(nil), 0, true
}

// Walk visits the element.
func (l *Lease) Walk(fn func(elem, val []byte, deadline int64) bool) {
	if l.Token != 0 {
		fn(nil, l.append(nil), 0)
	}
}

// Scan visits the element, whatever cursor and count are.
func (l *Lease) Scan(_ uint64, _ int, fn func(elem, val []byte, deadline int64)) (next uint64) {
	if l.Token != 0 {
		fn(nil, l.append(nil), 0)
	}
	return 0
}

// Clone copies the lease.
func (l *Lease) Clone() Value {
	return &Lease{Owner: bytes.Clone(l.Owner), Token: l.Token, Delay: l.Delay}
}

// Len is 1, or 0 where there is no lease.
func (l *Lease) Len() int {
	if l.Token == 0 {
		return 0
	}
	return 1
}

// Bytes is the memory used.
func (l *Lease) Bytes() int { return int(unsafe.Sizeof(*l)) + cap(l.Owner) }

// Earliest is 0: the element has no deadline.
func (l *Lease) Earliest() int64 { return 0 }

// LenAt is Len.
func (l *Lease) LenAt(int64) int { return l.Len() }

// Due removes nothing.
func (l *Lease) Due(int64, int, func(elem, val []byte, deadline int64)) int { return 0 }
