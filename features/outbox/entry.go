package outbox

import (
	"encoding/binary"
	"math"
	"strconv"

	"keyp/storage/format"
	"keyp/storage/object"
)

// An outbox (KEYP.OUTBOX) reports expired keys to a stream. Each report is first an entry in a
// queue, with these fields. The deadline has 8 bytes, which sort in the order of time. Fields in
// brackets may be missing; the flags below say which are there.
//
//	deadline, time of removal, database, type, flags, key
//	[, element] [, value] [, size of the value]
const (
	entryElement = 1 << iota
	entryValue
	entrySize // of a value that is not there, or not as a whole
)

// entry is an expiry.
type entry struct {
	deadline, removed int64
	db                int
	typ               object.Type
	key               []byte
	element           []byte
	hasElement        bool
	value             []byte
	hasValue          bool
	size              int // 0: the value is there as a whole, or is not wanted
}

func (e *entry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.deadline)^1<<63)
	dst = binary.AppendUvarint(dst, uint64(e.removed))
	dst = binary.AppendUvarint(dst, uint64(e.db))
	flags := byte(0)
	if e.hasElement {
		flags |= entryElement
	}
	if e.hasValue {
		flags |= entryValue
	}
	if e.size != 0 {
		flags |= entrySize
	}
	dst = append(dst, byte(e.typ), flags)
	dst = format.AppendBytes(dst, e.key)
	if e.hasElement {
		dst = format.AppendBytes(dst, e.element)
	}
	if e.hasValue {
		dst = format.AppendBytes(dst, e.value)
	}
	if e.size != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.size))
	}
	return dst
}

func entryDeadline(b []byte) int64 {
	if len(b) < 8 {
		return math.MinInt64 // damaged: it goes first
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63)
}

// parseEntry parses an entry that append has written. The slices of the result are parts of b.
func parseEntry(b []byte) (e entry, ok bool) {
	if len(b) < 8 {
		return e, false
	}
	e.deadline = entryDeadline(b)
	f := format.Fields{Rest: b[8:]}
	e.removed, e.db = int64(f.Int()), int(f.Int())
	if len(f.Rest) < 2 {
		return e, false
	}
	e.typ = object.Type(f.Rest[0])
	flags := f.Rest[1]
	f.Rest = f.Rest[2:]
	e.key = f.Bytes()
	if e.hasElement = flags&entryElement != 0; e.hasElement {
		e.element = f.Bytes()
	}
	if e.hasValue = flags&entryValue != 0; e.hasValue {
		e.value = f.Bytes()
	}
	if flags&entrySize != 0 {
		e.size = int(f.Int())
	}
	return e, !f.Bad
}

// The fields of an entry in a stream.
var (
	fieldRule, fieldDB, fieldKey, fieldElement, fieldType = []byte("rule"), []byte("db"),
		[]byte("key"), []byte("element"), []byte("type")
	fieldDeadline, fieldRemoved, fieldValue, fieldSize = []byte("deadline"), []byte("removed"),
		[]byte("value"), []byte("value-bytes")
)

// entryWriter makes the fields of a stream's entry.
type entryWriter struct {
	list    [][]byte
	numbers []byte
}

// fields returns alternating names and values, which are valid until the next call.
func (w *entryWriter) fields(rule []byte, e *entry) [][]byte {
	w.list, w.numbers = w.list[:0], w.numbers[:0]
	if w.numbers == nil {
		w.numbers = make([]byte, 0, 128) // four numbers of up to 20 bytes: it does not grow
	}
	text := func(name, value []byte) { w.list = append(w.list, name, value) }
	number := func(name []byte, n int64) {
		from := len(w.numbers)
		w.numbers = strconv.AppendInt(w.numbers, n, 10)
		text(name, w.numbers[from:])
	}
	text(fieldRule, rule)
	number(fieldDB, int64(e.db))
	text(fieldKey, e.key)
	if e.hasElement {
		text(fieldElement, e.element)
	}
	text(fieldType, []byte(e.typ.String()))
	number(fieldDeadline, e.deadline)
	number(fieldRemoved, e.removed)
	if e.hasValue {
		text(fieldValue, e.value)
	}
	if e.size != 0 {
		number(fieldSize, int64(e.size))
	}
	return w.list
}
