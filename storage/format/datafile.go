package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"crypto/sha256"

	"keyp/storage/object"
)

// The buckets of the data file.
var (
	BucketValues   = []byte("values")
	BucketElements = []byte("elements")
	BucketTTL      = []byte("ttl")
	BucketSlots    = []byte("slots")
	BucketMeta     = []byte("meta")
	BucketGarbage  = []byte("garbage")
	BucketPending  = []byte("pending")

	// Buckets are all of them. A file of format 1 lacks the last.
	Buckets = [][]byte{BucketValues, BucketElements, BucketTTL, BucketSlots, BucketMeta,
		BucketGarbage, BucketPending}
)

// The keys of the meta bucket.
var (
	MetaFormat = []byte("format") // one byte: Version
	MetaSeed   = []byte("seed")   // Seed, sealed
	MetaState  = []byte("state")  // State, sealed
	// MetaDoubt is there if changes of ttl were damaged before they were made, so that ttl has
	// entries that belong to no key.
	MetaDoubt = []byte("doubt")
)

// Names within a data directory.
const (
	DataName = "keyp.db" // the data file
	LogDir   = "wal"     // the directory of the log's segments
	// MemberLogDir is that of a member of a group.
	MemberLogDir = "raft"
)

// SystemSpace is the keyspace of what the server keeps for itself, in every directory.
const SystemSpace = 0

const (
	// PageSize is that of the data file, in bytes.
	PageSize = 8 << 10
	// Version is the format that is written. 1 has no pending, 2 no checks in slots, meta and
	// garbage.
	Version = 3
	// PrefixLen is how many bytes of a key of values stand before the name.
	PrefixLen = 4 + 2 + 4
	// LongName is the size in bytes above which a key or an element stands under a digest: bbolt's
	// limit is 32 KB.
	LongName = 16 << 10
	// InlineMax is the size in bytes up to which a value stands in its record.
	InlineMax = 8 << 10

	inlineBit = 0x80
	timedBit  = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of the data file.
var (
	// ErrCorrupt says that something on disk fails its checksum. It is never served.
	ErrCorrupt = errors.New("storage: a record on disk is corrupt")
	// ErrFormat says that the data file was written by another version.
	ErrFormat = errors.New("storage: the data file has another format")
)

// DiskKey appends the key in values of a key in a keyspace.
func DiskKey(dst []byte, space uint32, k Key) []byte {
	dst = binary.BigEndian.AppendUint32(dst, space)
	dst = binary.BigEndian.AppendUint16(dst, k.Slot)
	dst = binary.BigEndian.AppendUint32(dst, uint32(k.Hash>>32))
	if len(k.Name) > LongName {
		sum := sha256.Sum256(k.Name)
		return append(append(dst, 1), sum[:]...)
	}
	return append(append(dst, 0), k.Name...)
}

// SlotKey appends the key in slots of a slot of a keyspace, with which the keys in values of that
// slot begin.
func SlotKey(dst []byte, space uint32, slot uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(dst, space), slot)
}

// TTLKey appends the key in ttl of an instant (Unix ms) at which the key at diskKey is due.
func TTLKey(dst []byte, deadline int64, diskKey []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(deadline)), diskKey...)
}

// Image is a key as its record in values has it.
type Image struct {
	Type   object.Type
	Inline bool
	ID     uint64
	Times
	Name    []byte // the key
	Payload []byte
	BadTime bool // the times failed their check and were taken as none (deadlines.go)
	// corrected are the times that failed their check, if one bit explains that.
	corrected *Times
	// partial: the elements on disk are not all, or not all as they are in the value,
	// and the log has what is missing.
	Partial bool
}

// Times are what a record says of when its key is due, in Unix ms and seconds.
type Times struct {
	Deadline int64 // the key's, 0 for none
	Created  uint32
	First    int64 // the first of an element, 0 for none
}

// Due is when the key is due, as its entry in ttl says: 0 is never.
func (t Times) Due() int64 { return Earlier(t.Deadline, t.First) }

// Entry is the value of the entry in ttl whose key is at.
func (t Times) Entry(at []byte) []byte {
	if t.Due() != t.Deadline {
		return appendCreated(nil, at)
	}
	return appendCreated(nil, at, t.Created)
}

// SameEntry says whether the key's entry in ttl is the same for both.
func (t Times) SameEntry(o Times) bool {
	return t.Due() == o.Due() && (t.Due() == t.Deadline) == (o.Due() == o.Deadline) &&
		(t.Due() != t.Deadline || t.Created == o.Created)
}

// Append encodes the record whose key in values is at.
func (m *Image) Append(dst, at []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	kind := byte(m.Type)
	if m.Inline {
		kind |= inlineBit
	}
	if m.First != 0 {
		kind |= timedBit
	}
	dst = append(dst, kind)
	dst = binary.AppendUvarint(dst, m.ID)
	from := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Deadline))
	dst = binary.BigEndian.AppendUint32(dst, m.Created)
	if m.First != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.First))
	}
	to := len(dst)
	if at[PrefixLen] == 1 {
		dst = AppendBytes(dst, m.Name)
	}
	dst = append(dst, m.Payload...)
	valueCheck, timeCheck := checks(at, dst[start+8:from], dst[from:to], dst[to:])
	binary.LittleEndian.PutUint32(dst[start:], valueCheck)
	binary.LittleEndian.PutUint32(dst[start+4:], timeCheck)
	return dst
}

func checks(at, head, times, tail []byte) (value, time uint32) {
	key := crc32.Checksum(at, castagnoli)
	value = crc32.Update(crc32.Update(key, castagnoli, head), castagnoli, tail)
	return value, crc32.Update(key, castagnoli, times)
}

// ParseImage reads a record, whose key in values is at; the slices of the image belong to the
// record. A record that fails its check is ErrCorrupt; times that fail theirs are 0, and BadTime
// says so.
func ParseImage(at, record []byte) (Image, error) {
	var m Image
	if len(record) < 8+1+1+12 || len(at) <= PrefixLen {
		return m, ErrCorrupt
	}
	f := Fields{Rest: record[9:]}
	m.ID = f.Int()
	timed := record[8]&timedBit != 0
	size := 12
	if timed {
		size += 8
	}
	if f.Bad || len(f.Rest) < size {
		return m, ErrCorrupt
	}
	from := len(record) - len(f.Rest)
	valueCheck, timeCheck := checks(at, record[8:from], record[from:from+size], record[from+size:])
	if valueCheck != binary.LittleEndian.Uint32(record) {
		return m, ErrCorrupt
	}
	m.Type, m.Inline = object.Type(record[8]&^(inlineBit|timedBit)), record[8]&inlineBit != 0
	if want := binary.LittleEndian.Uint32(record[4:]); timeCheck == want {
		m.Times = parseTimes(f.Rest[:size])
	} else {
		m.BadTime = true
		m.corrected = correct(at, f.Rest[:size], want)
	}
	f.Rest = f.Rest[size:]
	m.Name = at[PrefixLen+1:]
	if at[PrefixLen] == 1 {
		m.Name = f.Bytes()
	}
	m.Payload = f.Rest
	if f.Bad || object.New(m.Type) == nil {
		return m, ErrCorrupt
	}
	return m, nil
}

// parseTimes reads the times of a record, of 20 bytes if elements have deadlines, else of 12.
func parseTimes(b []byte) Times {
	t := Times{Deadline: int64(binary.BigEndian.Uint64(b)), Created: binary.BigEndian.Uint32(b[8:])}
	if len(b) > 12 {
		t.First = int64(binary.BigEndian.Uint64(b[12:]))
	}
	return t
}

// Digest is a record's part in its slot's digest: the exclusive or of these shows
// a missing or foreign record.
func Digest(record []byte) uint64 { return binary.LittleEndian.Uint64(record) }

// Stored is the value id if the record's elements stand under it, else 0.
func (m *Image) Stored() uint64 {
	if m.Inline {
		return 0
	}
	return m.ID
}

// Elements is how many the record of a value that stands by element says it has, -1 if
// that is damaged.
func (m *Image) Elements() int {
	want := Fields{Rest: m.Payload}
	if n := want.Int(); !want.Bad {
		return int(n)
	}
	return -1
}

// CheckWhole returns ErrCorrupt unless a value has as many elements as its record says.
func (m *Image) CheckWhole(v object.Value) error {
	if m.Elements() != v.Len() {
		return fmt.Errorf("%w: value %d has %d elements", ErrCorrupt, m.ID, v.Len())
	}
	return nil
}

// AppendInline encodes a small collection as the payload of its record.
func AppendInline(dst []byte, v object.Value) []byte {
	if s, ok := v.(*object.String); ok {
		return append(dst, s.Data...)
	}
	v.Walk(func(elem, val []byte, deadline int64) bool {
		dst = AppendBytes(dst, elem)
		dst = binary.AppendUvarint(dst, uint64(deadline))
		dst = AppendBytes(dst, val)
		return true
	})
	return dst
}

// EachInline calls put for each element of the payload of a small collection, until it returns an
// error.
func EachInline(payload []byte, put func(elem, val []byte, deadline int64) error) error {
	f := Fields{Rest: payload}
	for len(f.Rest) > 0 {
		elem, deadline, val := f.Bytes(), int64(f.Int()), f.Bytes()
		if f.Bad {
			return ErrCorrupt
		}
		if err := put(elem, val, deadline); err != nil {
			return err
		}
	}
	return nil
}

// ElementKey appends the key in elements of an element of the value with an id.
func ElementKey(dst []byte, id uint64, elem []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id)
	if len(elem) <= LongName {
		return append(dst, elem...)
	}
	sum := sha256.Sum256(elem)
	return append(append(dst, elem[:LongName]...), sum[:]...)
}

// AppendElement encodes the entry in elements whose key is at: check, deadline, the tail of
// a long element, value.
func AppendElement(dst, at, elem []byte, deadline int64, val []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(deadline))
	if len(elem) > LongName {
		dst = AppendBytes(dst, elem[LongName:])
	}
	dst = append(dst, val...)
	sum := crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, dst[start+4:])
	binary.LittleEndian.PutUint32(dst[start:], sum)
	return dst
}

// ParseElement reads an entry of elements; the slices belong to it. One that fails its check is
// ErrCorrupt.
func ParseElement(at, record []byte) (elem []byte, deadline int64, val []byte, err error) {
	if len(record) < 5 || len(at) < 8 {
		return nil, 0, nil, ErrCorrupt
	}
	if crc32.Update(crc32.Checksum(at, castagnoli), castagnoli,
		record[4:]) != binary.LittleEndian.Uint32(record) {
		return nil, 0, nil, ErrCorrupt
	}
	f := Fields{Rest: record[4:]}
	deadline = int64(f.Int())
	if elem = at[8:]; len(elem) > LongName {
		elem = append(elem[:LongName:LongName], f.Bytes()...)
	}
	if f.Bad {
		return nil, 0, nil, ErrCorrupt
	}
	return elem, deadline, f.Rest, nil
}

// appendCreated encodes a ttl entry's value: check, created if it is about a key.
func appendCreated(dst, at []byte, created ...uint32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, c := range created {
		dst = binary.BigEndian.AppendUint32(dst, c)
	}
	binary.LittleEndian.PutUint32(dst[start:], crc32.Update(crc32.Checksum(at, castagnoli),
		castagnoli, dst[start+4:]))
	return dst
}

// TTLEntry is an entry of the ttl bucket.
type TTLEntry struct {
	Due     int64
	On      []byte // where the key stands in values
	Element bool   // it is the first of the key's elements that is due, not the key
}

// ParseTTL reads an entry of ttl; false if it fails its check.
func ParseTTL(at, record []byte) (e TTLEntry, ok bool) {
	if len(at) <= 8+PrefixLen || len(record) != 8 && len(record) != 4 ||
		crc32.Update(crc32.Checksum(at, castagnoli), castagnoli,
			record[4:]) != binary.LittleEndian.Uint32(record) {
		return e, false
	}
	return TTLEntry{int64(binary.BigEndian.Uint64(at)), at[8:], len(record) == 4}, true
}

// SlotEntry is a slot's entry in slots.
type SlotEntry struct {
	Keys   int64
	Digest uint64
}

// Add counts a record into a slot's entry.
func (d *SlotEntry) Add(record []byte) {
	d.Keys++
	d.Digest ^= Digest(record)
}

// Seal encodes a slot's entry, whose key is at.
func (d SlotEntry) Seal(at []byte) []byte {
	return Seal(at, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil,
		uint64(d.Keys)), d.Digest))
}

// ParseSlot reads a slot's entry, whose key is at; false if it fails its check.
func ParseSlot(at, sealed []byte) (d SlotEntry, ok bool) {
	b, ok := Unseal(at, sealed)
	if !ok || len(b) != 16 {
		return SlotEntry{}, false
	}
	return SlotEntry{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}, true
}

// Seal appends a checksum of an entry's key and value to the value.
func Seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return binary.LittleEndian.AppendUint32(bytes.Clone(value), sum)
}

// Unseal gives a value without its checksum; false if it fails that.
func Unseal(key, sealed []byte) (value []byte, ok bool) {
	n := len(sealed) - 4
	if n < 0 {
		return nil, false
	}
	value = sealed[:n:n]
	return value, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli,
		value) == binary.LittleEndian.Uint32(sealed[n:])
}

// SlotName is what a key of slots names. OK: it parses.
type SlotName struct {
	Space uint32
	Slot  uint16
	OK    bool
}

// ParseSlotKey reads a key of slots.
func ParseSlotKey(b []byte) SlotName {
	if len(b) != 6 {
		return SlotName{}
	}
	n := SlotName{binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:]), true}
	n.OK = n.Slot < Slots
	return n
}

// FirstInline is the first deadline of the elements of a value that stands in its record.
func FirstInline(im *Image) (int64, error) {
	v := object.New(im.Type)
	err := EachInline(im.Payload, v.Put)
	return v.Earliest(), err
}

// Earlier returns the earlier of two deadlines; 0 is no deadline.
func Earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
