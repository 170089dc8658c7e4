package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math"
	"slices"
	"strconv"
)

// A file has a header, records, and an end:
//
//	REDISnnnn | VALKEYnnn     format and version, in digits
//	opcode or kind, …         records, until opcode FF
//	CRC-64, LE                of all before; 0: not computed. Not before version 5
//
//	F2 id count fields        fields of hashes (kinds 30 and 32), which refer to them by the id
//	F3 count (class, data)    what modules keep of the next key (Redis)
//	F3 name count (from, to)  slots whose migration had not ended (Valkey)
//	F4 slot keys deadlines    number of keys in a hash slot, and of those with a deadline
//	F5 source                 library of functions
//	F6 name engine 0|1 text code   the same, before 7.0
//	F7 module 2 when data     what a module keeps beside keys
//	F8 seconds                the next key's idle time
//	F9 frequency, 1 B         the next key's access frequency
//	FA name value             about the file
//	FB keys deadlines         number of keys in the database, and of those with a deadline
//	FC ms, 8 B, LE            the next key's deadline
//	FD s, 4 B, LE             the same
//	FE number                 database of the keys that follow
//	kind key value            a key
//
// Values have the form that they have in DUMP's payloads (doc.go). Some kinds are only in files:
//
//	 7 module                 module, data
//	22 hash                   in Valkey's files: count, (field, value, ms, 8 B, LE; -1: no deadline)
//	28 array                  count; 0, or 1 and a next index; (index, tag, value): the value is a
//	                          string for tags 0 and 3, 8 B for tags 1 and 2
//	30 hash                   listpack of id, values
//	32 hash                   id, values
//
// A module is the number that encodes its name. Its data are opcodes, each with its operand: 1 and
// 2 a length, 3 has 4 B, 4 has 8 B, 5 a string; 0 ends the data.
const (
	opTemplate         = 0xf2
	opMeta             = 0xf3
	opSlot             = 0xf4
	opFunctionOld      = 0xf6
	opModule           = 0xf7
	opIdle             = 0xf8
	opFreq             = 0xf9
	opAux              = 0xfa
	opSizes            = 0xfb
	opDeadlineMs       = 0xfc
	opDeadline         = 0xfd
	opDatabase         = 0xfe
	opEnd              = 0xff
	kindModule         = 7
	kindArray          = 28
	kindTemplatePacked = 30
	kindTemplate       = 32
)

const (
	headerBytes   = 9
	checksumBytes = 8
	newestRedis   = 15 // of Redis 8.10
	newestValkey  = 80 // of Valkey 9
	checkedSince  = 5  // version from which on there is a checksum
	crcPiece      = 256 << 10
)

// ErrNoFile is the error for bytes that are not an RDB file.
var ErrNoFile = errors.New("rdb: not an RDB file")

// ErrTruncated is the error for a file whose bytes end before its last record.
var ErrTruncated = errors.New("rdb: the file ends early")

// ErrChecksum is for a file whose checksum is wrong.
var ErrChecksum = errors.New("rdb: the file's checksum is wrong")

// FileError is an error in a file, with its place.
type FileError struct {
	Offset int64
	Err    error
}

func (e *FileError) Error() string { return fmt.Sprintf("%v at byte %d", e.Err, e.Offset) }
func (e *FileError) Unwrap() error { return e.Err }

// RecordKind is the kind of a record.
type RecordKind uint8

// The kinds of records.
const (
	RecordKey      RecordKind = iota + 1
	RecordFunction            // Source is a library's
	RecordSkipped             // What is in the file and in no payload; Key is set if a key is lost
	RecordEnd                 // the last one, after the checksum was compared
)

// Record is a key, or other data in a file.
type Record struct {
	Kind RecordKind
	DB   uint64
	Key  []byte
	// Deadline is in Unix ms, if Expires.
	Expires    bool
	Deadline   int64
	Idle, Freq int64 // seconds, and 0 to 255; -1: not in the file
	// Type is the type of the key's value.
	Type Type
	// Skipped names the data that is skipped.
	Skipped string
	Source  []byte

	kind byte
	body []byte
}

// Value checks the whole value and returns it, or ErrFormat.
func (r *Record) Value() (Value, error) { return decode(r.kind, r.body) }

// AppendPayload appends the value as a payload of DUMP, with the oldest version that has its
// encoding.
func (r *Record) AppendPayload(b []byte) []byte {
	start := len(b)
	b = append(append(b, r.kind), r.body...)
	b = binary.LittleEndian.AppendUint16(b, versionOf(r.kind))
	return binary.LittleEndian.AppendUint64(b, checksum(b[start:]))
}

// PayloadBytes returns how many bytes AppendPayload appends.
func (r *Record) PayloadBytes() int { return 1 + len(r.body) + trailerBytes }

func versionOf(kind byte) uint16 {
	switch {
	case kind <= kindStream:
		return version5_0
	case kind <= kindStream2:
		return version7_0
	case kind <= kindStream3:
		return version7_2
	case kind <= kindHashPackTimed:
		return version7_4
	case kind == kindStream4:
		return version8_6
	default:
		return version8_8
	}
}

// File reads an RDB file from memory (a mapped file, say), which must not change.
//
// It finds where each value ends, and does not check the value's content: Record.Value does. It
// takes memory only for one packed string at a time, for the fields that hashes refer to, and for
// hashes that it must rewrite.
type File struct {
	cursor
	all     []byte
	valkey  bool
	version uint64

	db        uint64
	next      Record // data about the next key from records before it
	templates map[uint64][][]byte

	crc     uint64
	checked int  // bytes of all that crc is of
	ended   bool // or something was wrong
}

// IsFile reports whether b begins as an RDB file does.
func IsFile(b []byte) bool {
	return len(b) >= 5 && string(b[:5]) == "REDIS" || len(b) >= 6 && string(b[:6]) == "VALKEY"
}

// OpenFile returns a File for the RDB file at the beginning of b. Bytes after that file are
// ignored. Errors are ErrNoFile, a FileError with ErrTruncated, and one for a version that is too
// new.
func OpenFile(b []byte) (*File, error) {
	f := &File{all: b}
	if !IsFile(b) {
		return nil, ErrNoFile
	}
	if len(b) < headerBytes {
		return nil, &FileError{int64(len(b)), ErrTruncated}
	}
	f.valkey = b[0] == 'V'
	digits, newest := b[5:headerBytes], uint64(newestRedis)
	if f.valkey {
		digits, newest = b[6:headerBytes], newestValkey
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || n == 0 {
		return nil, ErrNoFile
	}
	if n > newest {
		return nil, fmt.Errorf("rdb: the file's version is %d, and %d is the newest that is known",
			n, newest)
	}
	f.version, f.rest = n, b[headerBytes:]
	f.forget()
	return f, nil
}

// Offset returns how many bytes were read.
func (f *File) Offset() int64 { return int64(f.at()) }

func (f *File) at() int {
	if f.bad {
		return len(f.all)
	}
	return len(f.all) - len(f.rest)
}

// forget drops data of earlier records about the next key.
func (f *File) forget() { f.next = Record{Idle: -1, Freq: -1} }

// Next returns the next record. Its slices are valid as long as the file's bytes are. Errors are
// FileErrors; after an error, and after RecordEnd, Next returns io.EOF.
func (f *File) Next() (Record, error) {
	if f.ended {
		return Record{}, io.EOF
	}
	for {
		at := f.at()
		f.room, f.blobRoom = nil, nil // the last record may refer to them
		r, problem := f.record()
		if f.bad || problem != nil {
			f.ended = true
			if problem == nil && f.short {
				problem = ErrTruncated
			} else if problem == nil {
				problem = ErrFormat
			}
			return Record{}, &FileError{int64(at), problem}
		}
		if r.Kind == RecordEnd {
			f.ended = true
		}
		f.sum(crcPiece)
		if r.Kind != 0 {
			return r, nil
		}
	}
}

// sum updates the checksum with the bytes read since the last update, if they are at least least.
func (f *File) sum(least int) {
	if at := f.at(); at-f.checked >= least {
		f.crc = ^crc64.Update(^f.crc, jones, f.all[f.checked:at])
		f.checked = at
	}
}

// record reads one record. Its Kind is 0 if the record only describes others.
func (f *File) record() (r Record, err error) {
	switch op := f.byte(); op {
	case opEnd:
		return f.end()
	case opDatabase:
		f.db = f.length()
	case opDeadline:
		f.next.Expires, f.next.Deadline = true, int64(int32(f.uint(4)))*1000
	case opDeadlineMs:
		f.next.Expires, f.next.Deadline = true, int64(f.uint(8))
	case opIdle:
		f.next.Idle = int64(min(f.length(), math.MaxInt64))
	case opFreq:
		f.next.Freq = int64(f.byte())
	case opAux:
		f.skipStrings(2)
	case opSizes:
		f.skipLengths(2)
	case opSlot:
		f.skipLengths(3)
	case kindLibrary:
		return Record{Kind: RecordFunction, Source: f.string()}, nil
	case opFunctionOld:
		return f.oldFunction(), nil
	case opModule:
		r = Record{Kind: RecordSkipped, Skipped: "data of module " + moduleName(f.length())}
		f.skipLengths(2)
		f.skipModule()
	case opMeta:
		return f.meta(), nil
	case opTemplate:
		f.template()
	default:
		return f.key(op)
	}
	return r, nil
}

// end compares the checksum and returns the last record, or ErrChecksum.
func (f *File) end() (Record, error) {
	f.sum(0)
	if f.version >= checkedSince {
		if want := f.uint(checksumBytes); !f.bad && want != 0 && want != f.crc {
			return Record{}, ErrChecksum
		}
	}
	return Record{Kind: RecordEnd}, nil
}

func (f *File) oldFunction() Record {
	name := string(f.string())
	f.skipString() // the engine
	if f.length() != 0 {
		f.skipString()
	}
	f.skipString()
	return Record{Kind: RecordSkipped,
		Skipped: fmt.Sprintf("library %.100q in the format before 7.0", name)}
}

// meta skips modules' metadata of the next key (Redis), or slots (Valkey).
func (f *File) meta() Record {
	r := Record{Kind: RecordSkipped, DB: f.db}
	if f.valkey {
		r.Skipped = "slots whose migration had not ended"
		f.skipString()
		for n := f.length(); n > 0 && !f.bad; n-- {
			f.skipLengths(2)
		}
		return r
	}
	r.Skipped = "modules' metadata of a key"
	for n := f.length(); n > 0 && !f.bad; n-- {
		f.take(4)
		f.skipModule()
	}
	return r
}

// template reads the fields of a template, to which hashes refer.
func (f *File) template() {
	id, n := f.length(), f.count(1)
	var fields [][]byte
	for ; n > 0 && !f.bad; n-- {
		fields = append(fields, f.string())
	}
	if f.templates == nil {
		f.templates = map[uint64][][]byte{}
	}
	f.templates[id] = fields
}

// key reads a key whose value is of the given kind.
func (f *File) key(kind byte) (Record, error) {
	r := f.next
	f.forget()
	r.DB, r.Key, r.Kind, r.kind, r.Type = f.db, f.string(), RecordKey, kind, types[kind]
	before := f.rest
	switch {
	case kind == kindModule:
		r.Kind, r.Skipped = RecordSkipped, "value of module "+moduleName(f.length())
		f.skipModule()
	case kind == kindArray:
		r.Kind, r.Skipped = RecordSkipped, "array"
		f.skipArray()
	case kind == kindTemplate || kind == kindTemplatePacked:
		f.templated(&r)
		return r, nil
	case kind == kindHashTimed0 && f.valkey:
		f.timedByValkey(&r)
		return r, nil
	case kind == kindString:
		r.Type = String
		f.skipString()
	case isStream(kind):
		r.Type = Stream
		f.skipStream(kind)
	case r.Type == 0 || kind >= kindSetTimed:
		return Record{}, fmt.Errorf("rdb: value of the unknown kind %d", kind)
	default:
		f.skipCollection(kind)
	}
	if !f.bad {
		r.body = before[:len(before)-len(f.rest)]
	}
	return r, nil
}

// templated reads a hash whose fields are in a template, and rewrites it as a plain hash.
func (f *File) templated(r *Record) {
	kind := r.kind
	r.kind, r.Type = kindHash, Hash
	var from entries
	var id uint64
	if kind == kindTemplatePacked {
		from = openListpack(&f.cursor)
		if !from.more() {
			f.fail()
			return
		}
		n, err := strconv.ParseUint(string(from.next()), 10, 64)
		if err != nil {
			f.fail()
		}
		id = n
	} else {
		id = f.length()
	}
	fields := f.templates[id]
	if len(fields) == 0 || f.bad {
		f.fail()
		return
	}
	if from == nil {
		from = &plain{&f.cursor, uint64(len(fields))}
	}
	w := &writer{}
	w.length(uint64(len(fields)))
	for _, field := range fields {
		if !from.more() {
			f.fail()
			return
		}
		w.string(field)
		w.string(from.next())
	}
	if from.more() {
		f.fail()
	}
	r.body = w.b
}

// timedByValkey reads a Valkey hash whose fields have deadlines, and converts it to Redis's form.
// It copies the strings unchanged.
func (f *File) timedByValkey(r *Record) {
	r.kind, r.Type = kindHashTimed, Hash
	first := uint64(maxDeadline + 1)
	walk := func(visit func(pair []byte, deadline uint64)) (n uint64) {
		n = f.count(10)
		for left := n; left > 0 && !f.bad; left-- {
			before := f.rest
			f.skipStrings(2)
			if f.bad {
				return n
			}
			pair, deadline := before[:len(before)-len(f.rest)], f.uint(8)
			switch {
			case deadline == math.MaxUint64: // -1
				deadline = 0
			case deadline == 0:
				deadline = 1 // passed long ago; 0 is none
			case deadline > maxDeadline:
				f.fail()
				return n
			}
			visit(pair, deadline)
		}
		return n
	}
	start := f.rest
	n := walk(func(_ []byte, deadline uint64) {
		if deadline != 0 {
			first = min(first, deadline)
		}
	})
	if f.bad {
		return
	}
	w := &writer{b: binary.LittleEndian.AppendUint64(nil, first)}
	w.length(n)
	f.rest = start
	walk(func(pair []byte, deadline uint64) {
		if deadline != 0 {
			deadline -= first - 1
		}
		w.length(deadline)
		w.b = append(w.b, pair...)
	})
	r.body = w.b
}

// moduleName decodes the name in a module's id: 9 letters of 6 bits, then a version of 10 bits.
func moduleName(id uint64) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var name [9]byte
	for i := range name {
		name[i] = letters[id>>(58-6*i)&63]
	}
	return string(name[:])
}

func isStream(kind byte) bool {
	return slices.Contains([]byte{kindStream, kindStream2, kindStream3, kindStream4, kindStream5},
		kind)
}
