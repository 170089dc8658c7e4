package rdb

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"io"
)

// OldestWritten and NewestWritten bound the versions of RDB files that FileWriter writes. Older
// Redis does not know the encodings that Encode uses. The newest is the version with all types that
// Encode can write.
const (
	OldestWritten = version7_0
	NewestWritten = version8_8
)

// unportable names the values of payloads that Redis does not know.
var unportable = map[byte]string{
	kindSetTimed:  "sets whose members have deadlines",
	kindZSetTimed: "sorted sets whose members have deadlines",
	kindLease:     "leases",
	kindLimit:     "limits",
	kindDelay:     "delay queues",
}

// Portable returns why an RDB file of the given version cannot contain a payload of Encode. The
// reason is empty if the file can contain it. A server that writes files of that version cannot
// restore a payload that has a reason. err is ErrPayload for an invalid payload.
func Portable(payload []byte, version int) (reason string, err error) {
	body, err := open(payload)
	if err != nil || len(body) == 0 {
		return "", ErrPayload
	}
	kind := body[0]
	if what := unportable[kind]; what != "" {
		return what + " are Keyp's own", nil
	}
	if needs := versionOf(kind); int(needs) > version {
		what := "this kind of value needs"
		switch kind {
		case kindHashTimed:
			what = "hashes whose fields have deadlines need"
		case kindStream4:
			what = "streams with idempotent ids need"
		case kindStream5:
			what = "streams with pending entries without a consumer need"
		}
		return fmt.Sprintf("%s version %d of the format", what, needs), nil
	}
	return "", nil
}

// TypeOf returns the type of the value in a payload of Encode.
func TypeOf(payload []byte) Type {
	switch kind := payload[0]; {
	case kind == kindString:
		return String
	case isStream(kind):
		return Stream
	default:
		return types[kind]
	}
}

// FileWriter writes an RDB file of Redis. After the first error of out, every call returns that
// error.
type FileWriter struct {
	w   writer // bytes that are not written yet
	out io.Writer
	db  uint64
	any bool // a database was named
	crc uint64
	err error
}

// NewFileWriter returns a writer for a file of a version from OldestWritten to NewestWritten.
func NewFileWriter(out io.Writer, version int) *FileWriter {
	f := &FileWriter{out: out}
	f.w.b = fmt.Appendf(nil, "REDIS%04d", version)
	return f
}

// Library writes the source of a library of functions.
func (f *FileWriter) Library(source []byte) error {
	f.w.kind(kindLibrary)
	f.w.string(source)
	return f.flush(crcPiece)
}

// Key writes a key with the value of a payload, which must be portable to the file's version (see
// Portable). The deadline is in Unix ms; 0 means none.
func (f *FileWriter) Key(db uint64, name []byte, deadline int64, payload []byte) error {
	if !f.any || db != f.db {
		f.any, f.db = true, db
		f.w.kind(opDatabase)
		f.w.length(db)
	}
	if deadline != 0 {
		f.w.kind(opDeadlineMs)
		f.w.b = binary.LittleEndian.AppendUint64(f.w.b, uint64(deadline))
	}
	body := payload[:len(payload)-trailerBytes]
	f.w.kind(body[0])
	f.w.string(name)
	if body = body[1:]; len(body) < crcPiece {
		f.w.b = append(f.w.b, body...)
		return f.flush(crcPiece)
	}
	_ = f.flush(0) // write gives its error
	return f.write(body)
}

// End writes the end of the file. It neither flushes nor closes the underlying writer.
func (f *FileWriter) End() error {
	f.w.kind(opEnd)
	_ = f.flush(0) // write gives its error
	return f.write(binary.LittleEndian.AppendUint64(nil, f.crc))
}

// flush writes the buffer if its length is not below least.
func (f *FileWriter) flush(least int) error {
	if len(f.w.b) < least {
		return f.err
	}
	err := f.write(f.w.b)
	f.w.b = f.w.b[:0]
	return err
}

func (f *FileWriter) write(b []byte) error {
	if f.err == nil {
		f.crc = ^crc64.Update(^f.crc, jones, b)
		_, f.err = f.out.Write(b)
	}
	return f.err
}
