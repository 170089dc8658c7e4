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

	// Buckets contains the names of all buckets. A file of format 1 lacks the last one.
	Buckets = [][]byte{BucketValues, BucketElements, BucketTTL, BucketSlots, BucketMeta,
		BucketGarbage, BucketPending}
)

// The keys of the meta bucket.
var (
	MetaFormat = []byte("format") // one byte: Version
	MetaSeed   = []byte("seed")   // Seed, sealed
	MetaState  = []byte("state")  // State, sealed
	// MetaDoubt exists if pending changes of ttl were damaged before they were applied. Then ttl
	// may have entries that belong to no key.
	MetaDoubt = []byte("doubt")
)

// Names within a data directory.
const (
	DataName = "keyp.db" // the data file
	LogDir   = "wal"     // the directory of the log's segments
	// MemberLogDir is the directory of the log of a member of a group.
	MemberLogDir = "raft"
)

// SystemSpace is the id of the keyspace with the server's own data, in every data directory.
const SystemSpace = 0

const (
	// PageSize is the size of a page of the data file, in bytes.
	PageSize = 8 << 10
	// Version is the number of the format that is written. Format 1 has no bucket pending. Format 2
	// has no checks in the buckets slots, meta and garbage.
	Version = 3
	// PrefixLen is the number of bytes before the name in a key of the bucket values.
	PrefixLen = 4 + 2 + 4
	// LongName is the largest size in bytes of a key or an element that is stored under its full
	// name. A longer one is stored under a digest, since bbolt limits its keys to 32 KB.
	LongName = 16 << 10
	// InlineMax is the largest size in bytes of a value that is stored within its record.
	InlineMax = 8 << 10

	inlineBit = 0x80
	timedBit  = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of the data file.
var (
	// ErrCorrupt is the error for data on disk that fail their checksum, or cannot be parsed. Such
	// data are never served.
	ErrCorrupt = errors.New("storage: a record on disk is corrupt")
	// ErrFormat is the error for a data file that another version has written.
	ErrFormat = errors.New("storage: the data file has another format")
)

// DiskKey appends the place of a key of a keyspace, which is its key in the bucket values.
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

// SlotKey appends the key of a slot of a keyspace in the bucket slots. The keys of all records of
// that slot in the bucket values begin with the same bytes.
func SlotKey(dst []byte, space uint32, slot uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(dst, space), slot)
}

// TTLKey appends the key of an entry in the bucket ttl. The entry is for a key that is due at
// deadline (Unix ms), and whose place in values is diskKey.
func TTLKey(dst []byte, deadline int64, diskKey []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(deadline)), diskKey...)
}

// Image is the content of a key's record in the bucket values.
type Image struct {
	Type   object.Type
	Inline bool
	ID     uint64
	Times
	Name    []byte // the key
	Payload []byte
	BadTime bool // the times failed their check and were taken as none (deadlines.go)
	// corrected contains the times after one bit was corrected. It is nil if the times pass their
	// check, or if a single bit does not explain why they fail it.
	corrected *Times
	// Partial: some elements are missing on disk, or are older there than in the value. The log has
	// the missing changes.
	Partial bool
}

// Times contains the times in a record. Deadline and First are in Unix milliseconds, Created is in
// Unix seconds.
type Times struct {
	Deadline int64 // the key's, 0 for none
	Created  uint32
	First    int64 // the first of an element, 0 for none
}

// Due returns the time in Unix ms at which the key has its entry in ttl. It is the earlier of
// Deadline and First; 0 means never.
func (t Times) Due() int64 { return Earlier(t.Deadline, t.First) }

// Entry returns the value of the key's entry in ttl. at is the key of that entry.
func (t Times) Entry(at []byte) []byte {
	if t.Due() != t.Deadline {
		return appendCreated(nil, at)
	}
	return appendCreated(nil, at, t.Created)
}

// SameEntry reports whether a key has the same entry in ttl with either of the two times.
func (t Times) SameEntry(o Times) bool {
	return t.Due() == o.Due() && (t.Due() == t.Deadline) == (o.Due() == o.Deadline) &&
		(t.Due() != t.Deadline || t.Created == o.Created)
}

// Append appends the encoded record to dst. at is the key of the record in the bucket values.
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

// ParseImage decodes a record whose key in values is at. The image's slices share the memory of at
// and the record. It returns ErrCorrupt if the value fails its check. If only the times fail their
// check, they are 0 in the image, and BadTime is set.
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

// parseTimes decodes the times of a record. They take 20 bytes if elements have deadlines, and 12
// bytes otherwise.
func parseTimes(b []byte) Times {
	t := Times{Deadline: int64(binary.BigEndian.Uint64(b)), Created: binary.BigEndian.Uint32(b[8:])}
	if len(b) > 12 {
		t.First = int64(binary.BigEndian.Uint64(b[12:]))
	}
	return t
}

// Digest returns the digest of a record, which is its two checks. The digest of a slot is the
// exclusive or of its records' digests. So it reveals a missing or foreign record.
func Digest(record []byte) uint64 { return binary.LittleEndian.Uint64(record) }

// Stored returns the value's id if its elements are stored in the bucket elements, and 0 if the
// value is within the record.
func (m *Image) Stored() uint64 {
	if m.Inline {
		return 0
	}
	return m.ID
}

// Elements returns the number of elements, as it is in the record. It returns -1 if that number is
// damaged. It is only for a value whose elements are stored in the bucket elements.
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

// AppendInline appends the payload of a record that contains its value: a string or a small
// collection.
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

// EachInline calls put for each element in the payload of a small collection, until put returns an
// error. It returns that error, or ErrCorrupt if the payload cannot be parsed.
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

// ElementKey appends the key of an element in the bucket elements. id is the id of its value.
func ElementKey(dst []byte, id uint64, elem []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id)
	if len(elem) <= LongName {
		return append(dst, elem...)
	}
	sum := sha256.Sum256(elem)
	return append(append(dst, elem[:LongName]...), sum[:]...)
}

// AppendElement appends an element's entry in the bucket elements, whose key is at. The entry has
// the check, the deadline, the tail of a long element, and the value.
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

// ParseElement decodes an entry of the bucket elements. val shares the memory of record, and elem
// that of at, unless the element is long. It returns ErrCorrupt if the entry fails its check.
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

// appendCreated appends the value of an entry of ttl, whose key is at. It has a check, and then
// created if the entry is for a key and not for an element.
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

// ParseTTL decodes an entry of ttl. It returns false if the entry fails its check.
func ParseTTL(at, record []byte) (e TTLEntry, ok bool) {
	if len(at) <= 8+PrefixLen || len(record) != 8 && len(record) != 4 ||
		crc32.Update(crc32.Checksum(at, castagnoli), castagnoli,
			record[4:]) != binary.LittleEndian.Uint32(record) {
		return e, false
	}
	return TTLEntry{int64(binary.BigEndian.Uint64(at)), at[8:], len(record) == 4}, true
}

// SlotEntry is the entry of a slot in the bucket slots.
type SlotEntry struct {
	Keys   int64
	Digest uint64
}

// Add adds a record to the count and the digest of a slot's entry.
func (d *SlotEntry) Add(record []byte) {
	d.Keys++
	d.Digest ^= Digest(record)
}

// Seal returns the encoded entry of a slot with its checksum. at is the key of the entry.
func (d SlotEntry) Seal(at []byte) []byte {
	return Seal(at, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil,
		uint64(d.Keys)), d.Digest))
}

// ParseSlot decodes a slot's entry, whose key is at. It returns false if the entry fails its check.
func ParseSlot(at, sealed []byte) (d SlotEntry, ok bool) {
	b, ok := Unseal(at, sealed)
	if !ok || len(b) != 16 {
		return SlotEntry{}, false
	}
	return SlotEntry{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}, true
}

// Seal returns a copy of the value with a checksum of the entry's key and value at its end.
func Seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return binary.LittleEndian.AppendUint32(bytes.Clone(value), sum)
}

// Unseal returns a sealed value without its checksum. ok is false if the checksum does not match.
func Unseal(key, sealed []byte) (value []byte, ok bool) {
	n := len(sealed) - 4
	if n < 0 {
		return nil, false
	}
	value = sealed[:n:n]
	return value, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli,
		value) == binary.LittleEndian.Uint32(sealed[n:])
}

// SlotName is a decoded key of the bucket slots. OK reports whether the key could be decoded.
type SlotName struct {
	Space uint32
	Slot  uint16
	OK    bool
}

// ParseSlotKey decodes a key of the bucket slots.
func ParseSlotKey(b []byte) SlotName {
	if len(b) != 6 {
		return SlotName{}
	}
	n := SlotName{binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:]), true}
	n.OK = n.Slot < Slots
	return n
}

// FirstInline returns the earliest deadline of the elements of a value that is within its record.
func FirstInline(im *Image) (int64, error) {
	v := object.New(im.Type)
	err := EachInline(im.Payload, v.Put)
	return v.Earliest(), err
}

// Earlier returns the earlier of two deadlines. 0 means no deadline, so then it returns the other.
func Earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
