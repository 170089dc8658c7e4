package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"crypto/sha256"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/object"
)

// The data file is where state rests. Its buckets:
//
//	values    space slot hash name → record            in slot order, so a slot is one range
//	elements  id, element → check, deadline, value      id is the value's (Object.id)
//	ttl       due space slot hash name → check, [created]        in order of time
//	slots     space slot → keys, digest, check         changed with the slot's records
//	meta      format, seed, state                      the last two with a check
//	garbage   what is left to delete → check           (garbage.go)
//	pending   number → changes of ttl that are to be made (pending.go)
//
// A name is a byte 0 and the key, or a byte 1 and the SHA-256 of a key too long for
// bbolt; the record then holds the key. An element too long for bbolt stands under its
// head and the SHA-256 of it, and its tail before its value. hash is the leading 32 bits of the key's hash.
// Integers in keys are big-endian.
//
//	record  0       4       8      9
//	       ┌───────┬───────┬──────┬──────┬──────────┬─────────┬───────────┬──────────────┬────────┐
//	       │ check │ check │ kind │ id   │ deadline │ created │ [first]   │ [key]        │ payload│
//	       │ value │ time  │      │      │          │         │ if timed  │ if name is 1 │        │
//	       └───────┴───────┴──────┴──────┴──────────┴─────────┴───────────┴──────────────┴────────┘
//
// check value is a CRC-32C over the file's key and all of the record but the times;
// check time covers key and times, so a damaged deadline costs the deadline alone.
// The low bits of kind are the type; inlineBit says that the payload is the value
// itself, as bytes (string) or as elements; else it is the number of elements. timedBit
// says that elements have deadlines, of which first is the earliest.
//
// A key stands in ttl when it is due, once: at its deadline, or at the first deadline of
// an element if that is earlier; created is there in the former case only.
var (
	bucketValues   = []byte("values")
	bucketElements = []byte("elements")
	bucketTTL      = []byte("ttl")
	bucketSlots    = []byte("slots")
	bucketMeta     = []byte("meta")
	bucketGarbage  = []byte("garbage")
	bucketPending  = []byte("pending")

	metaFormat = []byte("format")
	metaSeed   = []byte("seed")
	metaState  = []byte("state")
	// metaDoubt is there if changes of ttl were damaged before they were made, so that ttl has
	// entries which are no key's.
	metaDoubt = []byte("doubt")
)

const (
	formatVersion = 3 // 1: without pending; 2: without checks in slots, meta and garbage
	inlineBit     = 0x80
	timedBit      = 0x40

	prefixLen = 4 + 2 + 4
	// longName is from where a key stands under its digest: bbolt's limit is 32 KB.
	longName = 16 << 10
	// inlineMax is the size up to which a value stands in its record.
	inlineMax = 8 << 10
	// openTimeout is how long another process may hold the data file.
	openTimeout = 500 * time.Millisecond
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of the data file.
var (
	// ErrCorrupt says that a record on disk fails its checksum. It is never served.
	ErrCorrupt = errors.New("storage: a record on disk is corrupt")
	// ErrFormat says that the data file was written by another version.
	ErrFormat = errors.New("storage: the data file has another format")
)

// diskKey appends where a key stands in values.
func diskKey(dst []byte, space uint32, k Key) []byte {
	dst = binary.BigEndian.AppendUint32(dst, space)
	dst = binary.BigEndian.AppendUint16(dst, k.Slot)
	dst = binary.BigEndian.AppendUint32(dst, uint32(k.Hash>>32))
	if len(k.Name) > longName {
		sum := sha256.Sum256(k.Name)
		return append(append(dst, 1), sum[:]...)
	}
	return append(append(dst, 0), k.Name...)
}

func slotKey(dst []byte, space uint32, slot uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(dst, space), slot)
}

// ttlKey is where a deadline stands in ttl.
func ttlKey(dst []byte, deadline int64, diskKey []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(deadline)), diskKey...)
}

// image is a key as the data file has it.
type image struct {
	typ    object.Type
	inline bool
	id     uint64
	times
	name    []byte // the key
	payload []byte
	badTime bool // the times failed their check and were taken as none (mend.go)
	// partial: the elements on disk are not all, or not all as they are in the value,
	// and the log has what is missing.
	partial bool
}

// times are what a record says of when its key is due.
type times struct {
	deadline int64 // the key's, 0 for none
	created  uint32
	first    int64 // the first of an element, 0 for none
}

// due is where the record's key stands in ttl, 0 for nowhere.
func (t times) due() int64 { return earlier(t.deadline, t.first) }

// entry is the value of the key's entry in ttl, which stands at at.
func (t times) entry(at []byte) []byte {
	if t.due() != t.deadline {
		return appendCreated(nil, at)
	}
	return appendCreated(nil, at, t.created)
}

// sameEntry says whether the key's entry in ttl is the same for both.
func (t times) sameEntry(o times) bool {
	return t.due() == o.due() && (t.due() == t.deadline) == (o.due() == o.deadline) &&
		(t.due() != t.deadline || t.created == o.created)
}

// append encodes the record for disk key at.
func (m *image) append(dst, at []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	kind := byte(m.typ)
	if m.inline {
		kind |= inlineBit
	}
	if m.first != 0 {
		kind |= timedBit
	}
	dst = append(dst, kind)
	dst = binary.AppendUvarint(dst, m.id)
	from := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.deadline))
	dst = binary.BigEndian.AppendUint32(dst, m.created)
	if m.first != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.first))
	}
	to := len(dst)
	if at[prefixLen] == 1 {
		dst = appendBytes(dst, m.name)
	}
	dst = append(dst, m.payload...)
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

// parseImage reads a record; the slices of the image are of the record. A record that
// fails its check is ErrCorrupt.
func parseImage(at, record []byte) (image, error) {
	var m image
	if len(record) < 8+1+1+12 || len(at) <= prefixLen {
		return m, ErrCorrupt
	}
	f := fields{rest: record[9:]}
	m.id = f.int()
	timed := record[8]&timedBit != 0
	size := 12
	if timed {
		size += 8
	}
	if f.bad || len(f.rest) < size {
		return m, ErrCorrupt
	}
	from := len(record) - len(f.rest)
	valueCheck, timeCheck := checks(at, record[8:from], record[from:from+size], record[from+size:])
	if valueCheck != binary.LittleEndian.Uint32(record) {
		return m, ErrCorrupt
	}
	m.typ, m.inline = object.Type(record[8]&^(inlineBit|timedBit)), record[8]&inlineBit != 0
	if timeCheck == binary.LittleEndian.Uint32(record[4:]) {
		m.deadline = int64(binary.BigEndian.Uint64(f.rest))
		m.created = binary.BigEndian.Uint32(f.rest[8:])
		if timed {
			m.first = int64(binary.BigEndian.Uint64(f.rest[12:]))
		}
	} else {
		m.badTime = true
	}
	f.rest = f.rest[size:]
	m.name = at[prefixLen+1:]
	if at[prefixLen] == 1 {
		m.name = f.bytes()
	}
	m.payload = f.rest
	if f.bad || object.New(m.typ) == nil {
		return m, ErrCorrupt
	}
	return m, nil
}

// digestOf is a record's part in its slot's digest: the exclusive or of these tells a
// missing or foreign record.
func digestOf(record []byte) uint64 { return binary.LittleEndian.Uint64(record) }

// stored is the value id if the record's elements stand under it, else 0.
func (m *image) stored() uint64 {
	if m.inline {
		return 0
	}
	return m.id
}

// value makes the Go value of an image.
func (m *image) value(tx *bolt.Tx) (object.Value, error) {
	if !m.inline {
		v, err := readElements(tx, m.typ, m.id)
		if err == nil && !m.partial {
			err = m.counts(v)
		}
		return v, err
	}
	v := object.New(m.typ)
	if s, ok := v.(*object.String); ok {
		s.Data = append([]byte(nil), m.payload...)
		return v, nil
	}
	return v, eachInline(m.payload, v.Put)
}

// elements is how many the record of a value that stands by element says it has, -1 if
// that is damaged.
func (m *image) elements() int {
	want := fields{rest: m.payload}
	if n := want.int(); !want.bad {
		return int(n)
	}
	return -1
}

// counts checks that a value is whole.
func (m *image) counts(v object.Value) error {
	if m.elements() != v.Len() {
		return fmt.Errorf("%w: value %d has %d elements", ErrCorrupt, m.id, v.Len())
	}
	return nil
}

// live says whether there is something of the key at an instant, in Unix milliseconds.
func (m *image) live(tx *bolt.Tx, now int64) (bool, error) {
	if m.deadline != 0 && m.deadline <= now {
		return false, nil
	}
	if m.first == 0 || m.first > now {
		return true, nil
	}
	alive := false
	see := func(_, _ []byte, deadline int64) error {
		if alive = deadline == 0 || deadline > now; alive {
			return errEnough
		}
		return nil
	}
	var err error
	if m.inline {
		err = eachInline(m.payload, see)
	} else {
		err = eachElement(tx, m.id, nil, see)
	}
	if alive {
		err = nil
	}
	return alive, err
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// readElements makes a value of the elements that stand under its id.
func readElements(tx *bolt.Tx, typ object.Type, id uint64) (object.Value, error) {
	v := object.New(typ)
	if err := eachElement(tx, id, nil, v.Put); err != nil {
		return nil, badElement(id, err)
	}
	return v, nil
}

func badElement(id uint64, err error) error {
	return fmt.Errorf("%w: elements of value %d: %w", ErrCorrupt, id, err)
}

// eachElement visits the elements that stand under an id, from one on, nil being the first,
// until fn gives an error; errEnough is none.
func eachElement(tx *bolt.Tx, id uint64, from []byte, fn func(elem, val []byte, deadline int64) error) error {
	prefix := binary.BigEndian.AppendUint64(nil, id)
	err := each(tx, bucketElements, elementKey(nil, id, from), nil, func(k, rec []byte) error {
		if !hasPrefix(k, prefix) {
			return errEnough
		}
		elem, deadline, val, err := parseElement(k, rec)
		if err == nil {
			err = fn(elem, val, deadline)
		}
		return err
	})
	if err == errEnough {
		return nil
	}
	return err
}

// appendInline encodes a small collection as the payload of its record.
func appendInline(dst []byte, v object.Value) []byte {
	if s, ok := v.(*object.String); ok {
		return append(dst, s.Data...)
	}
	v.Walk(func(elem, val []byte, deadline int64) bool {
		dst = appendBytes(dst, elem)
		dst = binary.AppendUvarint(dst, uint64(deadline))
		dst = appendBytes(dst, val)
		return true
	})
	return dst
}

func eachInline(payload []byte, put func(elem, val []byte, deadline int64) error) error {
	f := fields{rest: payload}
	for len(f.rest) > 0 {
		elem, deadline, val := f.bytes(), int64(f.int()), f.bytes()
		if f.bad {
			return ErrCorrupt
		}
		if err := put(elem, val, deadline); err != nil {
			return err
		}
	}
	return nil
}

// elementKey appends where an element of the value with an id stands in elements.
func elementKey(dst []byte, id uint64, elem []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id)
	if len(elem) <= longName {
		return append(dst, elem...)
	}
	sum := sha256.Sum256(elem)
	return append(append(dst, elem[:longName]...), sum[:]...)
}

// appendElement encodes an element's value for disk key at: check, deadline, the tail of
// a long element, value.
func appendElement(dst, at, elem []byte, deadline int64, val []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(deadline))
	if len(elem) > longName {
		dst = appendBytes(dst, elem[longName:])
	}
	dst = append(dst, val...)
	sum := crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, dst[start+4:])
	binary.LittleEndian.PutUint32(dst[start:], sum)
	return dst
}

func parseElement(at, record []byte) (elem []byte, deadline int64, val []byte, err error) {
	if len(record) < 5 || len(at) < 8 {
		return nil, 0, nil, ErrCorrupt
	}
	if crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, record[4:]) != binary.LittleEndian.Uint32(record) {
		return nil, 0, nil, ErrCorrupt
	}
	f := fields{rest: record[4:]}
	deadline = int64(f.int())
	if elem = at[8:]; len(elem) > longName {
		elem = append(elem[:longName:longName], f.bytes()...)
	}
	if f.bad {
		return nil, 0, nil, ErrCorrupt
	}
	return elem, deadline, f.rest, nil
}

// appendCreated encodes a ttl entry's value: check, created if it is about a key.
func appendCreated(dst, at []byte, created ...uint32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, c := range created {
		dst = binary.BigEndian.AppendUint32(dst, c)
	}
	binary.LittleEndian.PutUint32(dst[start:], crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, dst[start+4:]))
	return dst
}

// ttlEntry is an entry of the ttl bucket.
type ttlEntry struct {
	due     int64
	on      []byte // where the key stands in values
	element bool   // it is the first of the key's elements that is due, not the key
}

func parseTTL(at, record []byte) (e ttlEntry, ok bool) {
	if len(at) <= 8+prefixLen || len(record) != 8 && len(record) != 4 ||
		crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, record[4:]) != binary.LittleEndian.Uint32(record) {
		return e, false
	}
	return ttlEntry{int64(binary.BigEndian.Uint64(at)), at[8:], len(record) == 4}, true
}

// diskSlot is a slot's entry in slots.
type diskSlot struct {
	keys   int64
	digest uint64
}

// seal encodes a slot's entry, whose key is at.
func (d diskSlot) seal(at []byte) []byte {
	return seal(at, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(d.keys)), d.digest))
}

func parseSlot(at, sealed []byte) (d diskSlot, ok bool) {
	b, ok := unseal(at, sealed)
	if !ok || len(b) != 16 {
		return diskSlot{}, false
	}
	return diskSlot{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}, true
}
