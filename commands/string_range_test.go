package commands

import (
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	table(t, `
		APPEND k Hello -> 5
		OBJECT ENCODING k -> "embstr"
		APPEND k " World" -> 11
		GET k -> "Hello World"
		OBJECT ENCODING k -> "raw"
		events -> append:k append:k
		APPEND k "" -> 11
		APPEND empty "" -> 0
		EXISTS empty -> 1
		APPEND n 1 -> 1
		OBJECT ENCODING n -> "int"
		APPEND n 2 -> 2
		OBJECT ENCODING n -> "raw"
		INCR n -> 13
		EXPIRE k 10 -> 1
		APPEND k ! -> 12
		TTL k -> 10
		reopen
		GET k -> "Hello World!"
		TTL k -> 10
		advance 10s
		APPEND k new -> 3
		TTL k -> -1
	`)
}

// TestAppendLong: a long string that grows is not written as a whole, so this test covers a
// different path through the code.
func TestAppendLong(t *testing.T) {
	h := newHarness(t)
	want := ""
	for i := range 300 {
		piece := strings.Repeat(string(rune('a'+i%26)), 500)
		want += piece
		h.do("APPEND", "k", piece)
	}
	h.do("SETRANGE", "k", "140000", "middle")
	want = want[:140000] + "middle" + want[140006:]
	h.do("SETRANGE", "k", "150005", "end")
	want += strings.Repeat("\x00", 5) + "end"
	for range 2 {
		if got := string(h.raw([]byte("GET"), []byte("k"))); !strings.Contains(got, want) {
			t.Fatalf("the value differs: %d bytes, want %d", len(got), len(want))
		}
		h.run(`STRLEN k -> 150008`)
		h.run(`GETRANGE k 139998 140007 -> "ttmiddleuu"`)
		h.reopen()
	}
}

func TestRanges(t *testing.T) {
	table(t, `
		STRLEN k -> 0
		GETRANGE k 0 -1 -> ""
		SET k "This is a string" -> +OK
		STRLEN k -> 16
		GETRANGE k 0 3 -> "This"
		GETRANGE k -3 -1 -> "ing"
		GETRANGE k 0 -1 -> "This is a string"
		GETRANGE k 10 100 -> "string"
		GETRANGE k 16 100 -> ""
		GETRANGE k 5 4 -> ""
		GETRANGE k -1 -5 -> ""
		GETRANGE k 0 -100 -> ""
		GETRANGE k 1 -100 -> ""
		GETRANGE k -100 -100 -> ""
		GETRANGE k -100 -101 -> ""
		GETRANGE k -9223372036854775808 9223372036854775807 -> "This is a string"
		GETRANGE k 9223372036854775807 -9223372036854775808 -> ""
		GETRANGE k a 1 -> -ERR value is not an integer or out of range
		GETRANGE k 1 1.0 -> -ERR value is not an integer or out of range
		SUBSTR k 5 6 -> "is"
		SUBSTR k -100 0 -> "T"
		SET e "" -> +OK
		GETRANGE e 0 0 -> ""
		GETRANGE e -1 -1 -> ""
		SET k v PX 1 -> +OK
		advance 1ms
		STRLEN k -> 0
		GETRANGE k 0 -1 -> ""
	`)
}

func TestSetRange(t *testing.T) {
	table(t, `
		SET k "Hello World" -> +OK
		SETRANGE k 6 Redis -> 11
		GET k -> "Hello Redis"
		events -> set:k setrange:k
		SETRANGE k 6 "" -> 11
		SETRANGE k 100 "" -> 11
		SETRANGE none 5 "" -> 0
		EXISTS none -> 0
		events -> 
		SETRANGE new 3 x -> 4
		GET new -> "\x00\x00\x00x"
		SETRANGE new 0 abcdef -> 6
		GET new -> "abcdef"
		OBJECT ENCODING new -> "raw"
		SET n 123 -> +OK
		SETRANGE n 1 9 -> 3
		INCR n -> 194
		SETRANGE k -1 x -> -ERR offset is out of range
		SETRANGE k -1 "" -> -ERR offset is out of range
		SETRANGE k x y -> -ERR value is not an integer or out of range
		SETRANGE k 536870912 x -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 536870911 xy -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 9223372036854775807 x -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE none 9223372036854775807 x -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		EXISTS none -> 0
		EXPIRE k 5 -> 1
		SETRANGE k 0 J -> 11
		TTL k -> 5
		reopen
		GET k -> "Jello Redis"
	`)
}

// TestStringLimit: proto-max-bulk-len limits the length to which a string may grow.
func TestStringLimit(t *testing.T) {
	h := newHarness(t)
	h.run(`config proto-max-bulk-len 1mb`)
	half := strings.Repeat("x", 512<<10)
	h.do("SET", "k", half)
	h.do("APPEND", "k", half)
	h.run(`
		STRLEN k -> 1048576
		APPEND k "" -> 1048576
		APPEND k x -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 1048576 x -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
		SETRANGE k 1048575 x -> 1048576
		STRLEN k -> 1048576
	`)
}
