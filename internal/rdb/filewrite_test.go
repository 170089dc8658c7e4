package rdb

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// failing is a writer that accepts a limited number of bytes.
type failing struct {
	room int
	bytes.Buffer
}

var errFull = errors.New("no room")

func (f *failing) Write(b []byte) (int, error) {
	if f.Len()+len(b) > f.room {
		return 0, errFull
	}
	return f.Buffer.Write(b)
}

// writeFile writes keys and a library, with values shorter and longer than the buffer.
func writeFile(f *FileWriter) error {
	return errors.Join(
		f.Library([]byte("#!lua name=lib")),
		f.Key(0, []byte("k"), 0, Encode(Value{Type: String, Str: []byte("v")})),
		f.Key(0, []byte("12345"), 4_000_000_000_123,
			Encode(Value{Type: String, Str: incompressible(3 * crcPiece)})),
		f.Key(70_000, bytes.Repeat([]byte("n"), 100), 0,
			Encode(Value{Type: String, Str: incompressible(crcPiece / 2)})),
		f.Key(3, []byte("x"), 1, Encode(Value{Type: String, Str: []byte("v")})),
		f.End(),
	)
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestFileWriter(t *testing.T) {
	var b bytes.Buffer
	if err := writeFile(NewFileWriter(&b, 11)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "REDIS0011\xf5") {
		t.Errorf("the file begins with %q", b.Bytes()[:20])
	}
	all, err := readFile(b.Bytes()) // which compares the checksum
	if err != nil || len(all) != 5 {
		t.Fatalf("%d records: %v", len(all), err)
	}
	if all[0].Kind != RecordFunction || string(all[0].Source) != "#!lua name=lib" {
		t.Errorf("%+v", all[0])
	}
	for i, want := range []struct {
		db       uint64
		key      string
		deadline int64
		text     []byte
	}{
		{0, "k", 0, []byte("v")}, {0, "12345", 4_000_000_000_123, incompressible(3 * crcPiece)},
		{70_000, strings.Repeat("n", 100), 0, incompressible(crcPiece / 2)},
		{3, "x", 1, []byte("v")},
	} {
		r := all[i+1]
		v, err := r.Value()
		if err != nil || r.DB != want.db || string(r.Key) != want.key ||
			r.Deadline != want.deadline || r.Expires != (want.deadline != 0) ||
			!bytes.Equal(v.Str, want.text) {
			t.Errorf("%d: %v: %.200v", i, err, r)
		}
	}
}

// TestFileWriterFails: after the writer's first error, every later call returns that error.
func TestFileWriterFails(t *testing.T) {
	var whole bytes.Buffer
	if err := writeFile(NewFileWriter(&whole, OldestWritten)); err != nil {
		t.Fatal(err)
	}
	for room := 0; room < whole.Len(); room += 64 << 10 {
		f := NewFileWriter(&failing{room: room}, OldestWritten)
		if err := writeFile(f); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		if err := f.End(); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes, the end: %v", room, err)
		}
	}
}

func TestPortable(t *testing.T) {
	timed := func(kind Type) Value {
		return Value{Type: kind, Len: 1, Elements: func(yield func(Element) bool) {
			yield(Element{Name: []byte("e"), Value: []byte("v"), Deadline: 5})
		}}
	}
	stream := func(s StreamValue) Value {
		s.Entries = func(func(StreamEntry) bool) {}
		return Value{Type: Stream, Stream: &s}
	}
	for _, tt := range []struct {
		name  string
		value Value
		since int // version; 0: none
		want  string
	}{
		{"string", Value{Type: String}, 10, ""},
		{"hash", timed(Hash), 12, "fields have deadlines need version 12"},
		{"idempotent", stream(StreamValue{Duration: 1, MaxSize: 1}), 13,
			"idempotent ids need version 13"},
		{"given back",
			stream(StreamValue{Groups: []StreamGroup{{Pending: []StreamPending{{Consumer: -1}},
				Nacked: []StreamID{{}}}}}), 14, "without a consumer need version 14"},
		{"set", timed(Set), 0, "sets whose members have deadlines are Keyp's own"},
		{"zset", timed(ZSet), 0, "sorted sets whose members have deadlines are Keyp's own"},
		{"lease", Value{Type: Lease, Lease: &LeaseValue{}}, 0, "leases are Keyp's own"},
		{"limits", timed(Limit), 0, "limits are Keyp's own"},
		{"delay queue", timed(Delay), 0, "delay queues are Keyp's own"},
	} {
		payload := Encode(tt.value)
		for version := OldestWritten; version <= NewestWritten; version++ {
			reason, err := Portable(payload, version)
			can := tt.since != 0 && version >= tt.since
			if err != nil || (reason == "") != can || !can && !strings.Contains(reason, tt.want) {
				t.Errorf("%s in version %d: %q, %v", tt.name, version, reason, err)
			}
		}
		payload[len(payload)-1] ^= 1
		if _, err := Portable(payload, NewestWritten); !errors.Is(err, ErrPayload) {
			t.Errorf("%s with a wrong checksum: %v", tt.name, err)
		}
	}
}

// TestFileRoundTrip: values written to a file are read back with the same names, databases and
// deadlines.
func TestFileRoundTrip(t *testing.T) {
	type key struct {
		db       uint64
		name     []byte
		deadline int64
		value    Value
	}
	keys := rapid.Custom(func(t *rapid.T) key {
		return key{
			rapid.SampledFrom([]uint64{0, 1, 63, 64, 16383, 16384, 1 << 33}).Draw(t, "db"),
			rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "name"),
			rapid.SampledFrom([]int64{0, 0, 1, 1_800_000_000_000, maxDeadline}).Draw(t, "deadline"),
			values().Draw(t, "value"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		f := NewFileWriter(&b, NewestWritten)
		var want []key
		for _, k := range rapid.SliceOfN(keys, 0, 10).Draw(t, "keys") {
			payload := Encode(k.value)
			if reason, err := Portable(payload, NewestWritten); err != nil {
				t.Fatal(err)
			} else if reason != "" {
				continue
			}
			if err := f.Key(k.db, k.name, k.deadline, payload); err != nil {
				t.Fatal(err)
			}
			want = append(want, k)
		}
		if err := f.End(); err != nil {
			t.Fatal(err)
		}
		all, err := readFile(b.Bytes())
		if err != nil || len(all) != len(want) {
			t.Fatalf("%d records, want %d: %v", len(all), len(want), err)
		}
		for i, k := range want {
			r := all[i]
			if r.DB != k.db || !bytes.Equal(r.Key, k.name) || r.Deadline != k.deadline ||
				r.Expires != (k.deadline != 0) || r.Type != k.value.Type {
				t.Fatalf("%+v, want %+v", r, k)
			}
			if payload := Encode(k.value); !bytes.Equal(r.AppendPayload(
				nil)[:len(payload)-trailerBytes], payload[:len(payload)-trailerBytes]) {
				t.Fatalf("the value of %q differs", k.name)
			}
		}
	})
}
