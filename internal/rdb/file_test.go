package rdb

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// file returns an RDB file with this header and these records.
func file(header string, parts ...any) []byte {
	b := raw(header, raw(parts...), opEnd)
	return raw(b, le64(checksum(b)))
}

// readFile returns all records of a file, except the end record.
func readFile(b []byte) (all []Record, err error) {
	f, err := OpenFile(b)
	if err != nil {
		return nil, err
	}
	for {
		r, err := f.Next()
		switch {
		case err != nil:
			return all, err
		case r.Kind == RecordEnd:
			if _, err := f.Next(); err != io.EOF {
				return all, errors.New("something is behind the end")
			}
			return all, nil
		}
		all = append(all, r)
	}
}

// TestFileValues puts every handmade payload into a file as a key's value, before another key.
func TestFileValues(t *testing.T) {
	for _, tt := range payloads() {
		if len(tt.body) == 0 || tt.body[0] >= kindSetTimed {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			all, err := readFile(file("REDIS0014", int(tt.body[0]), held("k"), tt.body[1:],
				kindString, held("next"), held("v")))
			if tt.want == nil {
				if err == nil && len(all) > 0 && all[0].Kind == RecordKey {
					if _, err = all[0].Value(); err == nil &&
						bytes.Equal(all[0].body, tt.body[1:]) {
						t.Fatalf("%q is read", tt.body)
					}
				}
				return
			}
			if err != nil || len(all) != 2 || string(all[0].Key) != "k" ||
				string(all[1].Key) != "next" {
				t.Fatalf("%v, %+v", err, all)
			}
			v, err := all[0].Value()
			if err != nil {
				t.Fatal(err)
			}
			same(t, v, *tt.want)
			if got := all[0].Type; got != tt.want.Type {
				t.Errorf("type %v, want %v", got, tt.want.Type)
			}
			if v, err = Decode(all[0].AppendPayload(nil)); err != nil {
				t.Fatal(err)
			}
			same(t, v, *tt.want)
			if got, want := len(all[0].AppendPayload(nil)), all[0].PayloadBytes(); got != want {
				t.Errorf("%d bytes, announced %d", got, want)
			}
		})
	}
}

func TestFileRecords(t *testing.T) {
	// The characters 0 to 6, - and _, and version 1.
	const name = 1<<52 | 2<<46 | 3<<40 | 4<<34 | 5<<28 | 6<<22 | 62<<16 | 63<<10 | 1
	module := raw(0x81, be64(name), 1, 0x81, be64(1<<40), 2, 7, 3, "1234", 4, "12345678", 5,
		held("text"), 0)
	array := raw(3, 1, 9, 0, 1, "12345678", 1, 3, held("small"), 7, 0, held("string"))
	pair := func(field, value string) []byte { return raw(held(field), held(value)) }
	tests := []struct {
		name   string
		header string
		body   []byte
		want   []string
	}{
		{"nothing", "REDIS0006", nil, nil},
		{"about the file", "REDIS0012", raw(opAux, held("redis-ver"), 0xc0, 7, opSizes, 1, 1,
			opSlot, 1, 2, 3), nil},
		{"databases", "REDIS0009", raw(kindString, held("a"), held("1"), opDatabase, 0x4f, 0,
			kindString, held("b"), 0xc0, 2),
			[]string{`0 a "1"`, `3840 b "2"`}},
		{"deadlines", "REDIS0009", raw(opDeadline, le32(5), kindString, held("a"), held("1"),
			opDeadlineMs, le64(1_700_000_000_123), kindString, held("b"), held("2"),
			kindString, held("c"), held("3")),
			[]string{`0 a "1" at 5000`, `0 b "2" at 1700000000123`, `0 c "3"`}},
		{"accesses", "REDIS0009", raw(opIdle, 0x40, 200, opDeadlineMs, le64(1), kindString,
			held("a"), held("1"), opFreq, 255, kindString, held("b"), held("2")),
			[]string{`0 a "1" at 1 idle 200`, `0 b "2" freq 255`}},
		{"functions", "REDIS0010", raw(kindLibrary, held("#!lua name=l"), opFunctionOld,
			held("old"), held("LUA"), 1, held("about"), held("code"),
			opFunctionOld, held("older"), held("LUA"), 0, held("code")),
			[]string{"function #!lua name=l", `skipped library "old" in the format before 7.0`,
				`skipped library "older" in the format before 7.0`}},
		{"modules", "REDIS0011", raw(opModule, 0x81, be64(name), 2, 2, 5, held("aux"), 0,
			kindModule, held("m"), module, kindString, held("s"), held("v"),
			opMeta, 1, "spec", 1, 5, 0, kindString, held("with"), held("meta")),
			[]string{"skipped data of module ABCDEFG-_", "skipped value of module ABCDEFG-_ of m",
				`0 s "v"`, "skipped modules' metadata of a key", `0 with "meta"`}},
		{"arrays", "REDIS0015", raw(kindArray, held("ar"), array, kindString, held("s"), held("v")),
			[]string{"skipped array of ar", `0 s "v"`}},
		{"templates", "REDIS0015", raw(opTemplate, 7, 2, held("f1"), held("f2"), kindTemplate,
			held("h"), 7, held("x"), 0xc0, 5,
			kindTemplatePacked, held("p"), lp(3, ent(7), txt("y"), ent(9))),
			[]string{`0 h [5 2 "f1" "x" "f2" "5"]`, `0 p [5 2 "f1" "y" "f2" "9"]`}},
		{"Valkey", "VALKEY080", raw(opMeta, held("job"), 2, 0, 5, 7, 9, kindHashTimed0, held("h"),
			3, pair("a", "1"), le64(1_700_000_000_000), pair("b", "2"), le64(1<<64-1),
			pair("c", "3"), le64(1_700_000_000_005)),
			[]string{"skipped slots whose migration had not ended",
				`0 h [5 3 "a"@1700000000000 "1" "b" "2" "c"@1700000000005 "3"]`}},
		{"Valkey without deadlines", "VALKEY080", raw(kindHashTimed0, held("h"), 1, pair("a", "1"),
			le64(1<<64-1)), []string{`0 h [5 1 "a" "1"]`}},
		{"Redis 7.4 before its release", "REDIS0012", raw(kindHashTimed0, held("h"), 1, 0x81,
			be64(1_700_000_000_000), pair("a", "1")), []string{`0 h [5 1 "a"@1700000000000 "1"]`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := readFile(file(tt.header, tt.body))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range all {
				got = append(got, describe(t, r))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// describe returns a record as one line.
func describe(t testing.TB, r Record) string {
	t.Helper()
	switch r.Kind {
	case RecordFunction:
		return "function " + string(r.Source)
	case RecordSkipped:
		text := "skipped " + r.Skipped
		if r.Key != nil {
			text += " of " + string(r.Key)
		}
		return text
	}
	v, err := r.Value()
	if err != nil {
		t.Fatal(err)
	}
	text := strconv.FormatUint(r.DB, 10) + " " + string(r.Key) + " "
	if v.Type == String {
		text += strconv.Quote(string(v.Str))
	} else {
		parts := []string{strconv.Itoa(int(v.Type)), strconv.Itoa(v.Len)}
		for e := range v.Elements {
			name := strconv.Quote(string(e.Name))
			if e.Deadline != 0 {
				name += "@" + strconv.FormatInt(e.Deadline, 10)
			}
			parts = append(parts, name, strconv.Quote(string(e.Value)))
		}
		text += "[" + strings.Join(parts, " ") + "]"
	}
	if r.Expires {
		text += " at " + strconv.FormatInt(r.Deadline, 10)
	}
	if r.Idle >= 0 {
		text += " idle " + strconv.FormatInt(r.Idle, 10)
	}
	if r.Freq >= 0 {
		text += " freq " + strconv.FormatInt(r.Freq, 10)
	}
	return text
}

func TestFileRefuses(t *testing.T) {
	key := raw(kindString, held("k"), held("v"))
	sound := file("REDIS0010", key)
	wrong := bytes.Clone(sound)
	wrong[len(wrong)-1]++
	unchecked := raw(sound[:len(sound)-checksumBytes], le64(0))
	tests := []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"sound", sound, nil},
		{"no checksum computed", unchecked, nil},
		{"version 4 has none", sound4(key), nil},
		{"followed by an AOF", raw(sound, "*1\r\n"), nil},
		{"checksum", wrong, ErrChecksum},
		{"nothing", nil, ErrNoFile},
		{"something else", []byte("*1\r\n$4\r\nPING\r\n"), ErrNoFile},
		{"no version", []byte("REDISabcd"), ErrNoFile},
		{"version 0", file("REDIS0000"), ErrNoFile},
		{"half a header", []byte("REDIS00"), ErrTruncated},
		{"no end", sound[:len(sound)-checksumBytes-1], ErrTruncated},
		{"no deadline", raw("REDIS0010", opDeadlineMs, "abc"), ErrTruncated},
		{"length that is none", raw("REDIS0010", opDatabase, 0xc5), ErrFormat},
		{"string that is none", raw("REDIS0010", kindString, 0xc9), ErrFormat},
		{"module's opcode", file("REDIS0010", kindModule, held("m"), 0, 6), ErrFormat},
		{"template that is missing", file("REDIS0015", kindTemplate, held("h"), 7, held("x")),
			ErrFormat},
		{"template with a value too much", file("REDIS0015", opTemplate, 1, 1, held("f"),
			kindTemplatePacked, held("h"), lp(3, ent(1), ent(2), ent(3))), ErrFormat},
		{"deadline of Valkey that is too late", file("VALKEY080", kindHashTimed0, held("h"), 1,
			held("f"), held("v"), le64(1<<60)), ErrFormat},
	}
	for _, tt := range tests {
		if _, err := readFile(tt.bytes); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	for _, b := range [][]byte{file("REDIS0016"), file("VALKEY999"), file("REDIS0010", 8,
		held("k")), file("REDIS0010", 6, held("k")), file("REDIS0010", kindSetTimed, held("k"))} {
		if _, err := readFile(b); err == nil {
			t.Errorf("%q is read", b)
		}
	}
}

func sound4(key []byte) []byte { return raw("REDIS0004", key, opEnd) }

// TestRedisFile reads a file that redis-server saves. It has every sample, deadlines, idle times,
// frequencies and functions.
func TestRedisFile(t *testing.T) {
	redis := startRedis(t)
	dir := redis.do("CONFIG", "GET", "dir").([]any)[1].(string)
	all := slices.Concat(samples(), streams())
	want := map[string][]byte{}
	for i, s := range all {
		if s.name == "" || firstDeadlineOf(s.value) || s.value.Type > Stream {
			continue
		}
		redis.do("SELECT", i%3)
		redis.store(s.name, s.value)
		want[strconv.Itoa(i%3)+s.name] = []byte(redis.do("DUMP", s.name).(string))
	}
	redis.do("SELECT", 5)
	redis.do("SET", "timed", "v", "PXAT", 4_000_000_000_123)
	redis.do("FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function('f', function() return 1 end)")
	redis.do("SAVE")
	b, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	records, err := readFile(b)
	if err != nil {
		t.Fatal(err)
	}
	functions, found := 0, 0
	for _, r := range records {
		switch {
		case r.Kind == RecordFunction:
			functions++
		case string(r.Key) == "timed":
			if r.DB != 5 || !r.Expires || r.Deadline != 4_000_000_000_123 {
				t.Errorf("got %+v", r)
			}
		default:
			name := strconv.FormatUint(r.DB, 10) + string(r.Key)
			payload, ok := want[name]
			if !ok {
				t.Fatalf("%s is nobody's", name)
			}
			found++
			v, err := r.Value()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			same(t, v, mustDecode(t, payload))
			redis.do("RESTORE", "again", 0, r.AppendPayload(nil), "REPLACE")
		}
	}
	if found != len(want) || functions != 1 || found < 80 {
		t.Errorf("%d keys of %d, %d functions", found, len(want), functions)
	}
	redis.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
	redis.do("FLUSHALL")
	redis.do("RESTORE", "k", 0, Encode(str("v")), "FREQ", 77)
	redis.do("SAVE")
	if b, err = os.ReadFile(filepath.Join(dir, "dump.rdb")); err != nil {
		t.Fatal(err)
	}
	if records, err = readFile(b); err != nil || len(records) != 2 || records[1].Freq != 77 ||
		records[1].Idle != -1 {
		t.Errorf("%+v, %v", records, err)
	}
}

func mustDecode(t testing.TB, payload []byte) Value {
	t.Helper()
	v, err := Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// firstDeadlineOf reports whether an element has a deadline, which Redis 7.0 does not support.
func firstDeadlineOf(v Value) bool {
	if v.Elements == nil {
		return false
	}
	for e := range v.Elements {
		if e.Deadline != 0 {
			return true
		}
	}
	return false
}

// everything returns a file with all kinds of records and values.
func everything() []byte {
	parts := raw(opAux, held("redis-ver"), held("7"), opTemplate, 1, 1, held("f"), kindLibrary,
		held("#!lua"), opDatabase, 1, opSizes, 9, 1)
	for i, p := range payloads() {
		if p.want == nil || p.body[0] >= kindSetTimed || len(p.body) > 400 {
			continue
		}
		parts = raw(parts, opDeadlineMs, le64(uint64(i)), opIdle, 3, int(p.body[0]),
			held(p.name), p.body[1:])
	}
	return file("REDIS0015", parts, kindModule, held("m"), 0x81, be64(1<<60), 5, held("x"), 0,
		kindArray, held("a"), 1, 0, 1, 0, held("s"), kindTemplate, held("t"), 1, held("v"))
}

// TestFileTruncated truncates a file after every byte.
func TestFileTruncated(t *testing.T) {
	whole := everything()
	if all, err := readFile(whole); err != nil || len(all) < 50 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	for n := range whole {
		if _, err := readFile(whole[:n:n]); err == nil {
			t.Fatalf("%d bytes of %d are a file", n, len(whole))
		}
	}
}

// TestFileMemory reads files with false lengths and counts. Reading them must not allocate much
// memory.
func TestFileMemory(t *testing.T) {
	huge := raw(0x81, be64(1<<62))
	for _, b := range [][]byte{
		raw("REDIS0015", kindString, huge), raw("REDIS0015", kindList, held("k"), huge, huge),
		raw("REDIS0015", kindStream5, held("k"), huge),
		raw("REDIS0015", opTemplate, 1, huge), raw("REDIS0015", opMeta, huge),
		raw("VALKEY080", kindHashTimed0, held("k"), huge),
		raw("REDIS0015", kindString, 0xc3, 1, huge, "a"),
		raw("REDIS0015", kindArray, held("k"), huge, 0),
	} {
		var err error
		if used := allocations(func() { _, err = readFile(b) }); used > 64<<10 || err == nil {
			t.Errorf("%q: %d bytes are allocated, %v", b, used, err)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(everything())
	f.Add(file("VALKEY080", opMeta, held("job"), 1, 0, 5, kindHashTimed0, held("h"), 1, held("a"),
		held("b"), le64(5)))
	f.Add(file("REDIS0006", kindHashZipmap, held("k"), held(1, 1, "a", 1, 0, "b", 0xff)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		_, _ = readFile(b)
		var all []Record
		if used := allocations(func() { all, _ = readFile(b) }); used > 1<<20+
			uint64(len(b))*lzfExpansion*64 {
			t.Fatalf("%d bytes are allocated for %d", used, len(b))
		}
		for _, r := range all {
			if r.Kind != RecordKey {
				continue
			}
			if _, err := r.Value(); err != nil {
				continue
			}
			if _, err := Decode(r.AppendPayload(nil)); err != nil {
				t.Fatalf("%q: the payload is refused: %v", r.Key, err)
			}
		}
	})
}
