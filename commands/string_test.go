package commands

import (
	"fmt"
	"testing"

	"keyp/ttl"
)

// cursor returns a Cursor over the given words, with which a command reads its arguments.
func cursor(words ...string) Cursor {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return Cursor{args: args}
}

func TestParseSet(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // the options, or the error
	}{
		{nil, "0  get=false keep=false none"},
		{[]string{"nx"}, "1  get=false keep=false none"},
		{[]string{"XX", "gEt"}, "2  get=true keep=false none"},
		{[]string{"NX", "NX", "GET", "GET"}, "1  get=true keep=false none"},
		{[]string{"NX", "XX"}, "ERR syntax error"},
		{[]string{"IFEQ", "a"}, "3 a get=false keep=false none"},
		{[]string{"IFNE", "GET"}, "4 GET get=false keep=false none"},
		{[]string{"ifdeq", "x"}, "5 x get=false keep=false none"},
		{[]string{"IFDNE", "x"}, "6 x get=false keep=false none"},
		{[]string{"IFDEQ", "a", "IFDNE", "a"}, "ERR syntax error"},
		{[]string{"IFEQ", "a", "IFEQ", "b"}, "3 b get=false keep=false none"},
		{[]string{"IFDEQ"}, "ERR syntax error"},
		{[]string{"IFEQ"}, "ERR syntax error"},
		{[]string{"IFEQ", "a", "IFNE", "b"}, "ERR syntax error"},
		{[]string{"NX", "IFEQ", "a"}, "ERR syntax error"},
		{[]string{"KEEPTTL"}, "0  get=false keep=true none"},
		{[]string{"KEEPTTL", "KEEPTTL"}, "0  get=false keep=true none"},
		{[]string{"EX", "10"}, "0  get=false keep=false 10*1000 from now"},
		{[]string{"px", "10"}, "0  get=false keep=false 10*1 from now"},
		{[]string{"EXAT", "10"}, "0  get=false keep=false 10*1000 absolute"},
		{[]string{"PXAT", "10"}, "0  get=false keep=false 10*1 absolute"},
		{[]string{"EX", "10", "EX", "20"}, "0  get=false keep=false 20*1000 from now"},
		{[]string{"EX", "x", "GET"}, "0  get=true keep=false x*1000 from now"},
		{[]string{"EX", "NX"}, "0  get=false keep=false NX*1000 from now"},
		{[]string{"EX"}, "ERR syntax error"},
		{[]string{"EX", "10", "PX", "10"}, "ERR syntax error"},
		{[]string{"EX", "10", "EXAT", "10"}, "ERR syntax error"},
		{[]string{"EX", "10", "KEEPTTL"}, "ERR syntax error"},
		{[]string{"KEEPTTL", "PXAT", "10"}, "ERR syntax error"},
		{[]string{"PERSIST"}, "ERR syntax error"},
		{[]string{""}, "ERR syntax error"},
	} {
		o, err := parseSet(cursor(c.args...))
		got := fmt.Sprintf("%d %s get=%v keep=%v %s", o.condition.when, o.condition.match, o.get,
			o.expiry.other, showExpiry(&o.expiry))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("SET k v %q: %s, want %s", c.args, got, c.want)
		}
	}
}

func showExpiry(e *expiry) string {
	if e.form == nil {
		return "none"
	}
	base := "from now"
	if e.form.base == ttl.Absolute {
		base = "absolute"
	}
	return fmt.Sprintf("%s*%d %s", e.arg, e.form.unit, base)
}

func TestParseGetEx(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "persist=false none"},
		{[]string{"PERSIST"}, "persist=true none"},
		{[]string{"EX", "1", "EX", "2"}, "persist=false 2*1000 from now"},
		{[]string{"PERSIST", "EX", "1"}, "ERR syntax error"},
		{[]string{"PXAT", "1", "PERSIST"}, "ERR syntax error"},
		{[]string{"KEEPTTL"}, "ERR syntax error"},
		{[]string{"GET"}, "ERR syntax error"},
		{[]string{"NX"}, "ERR syntax error"},
		{[]string{"PX"}, "ERR syntax error"},
	} {
		o, err := parseGetEx(cursor(c.args...))
		got := fmt.Sprintf("persist=%v %s", o.other, showExpiry(&o))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("GETEX k %q: %s, want %s", c.args, got, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	table(t, `
		GET k -> nil
		SET k v -> +OK
		GET k -> "v"
		events -> set:k
		set k "with \x00 bytes\r\n" -> +OK
		get k -> "with \x00 bytes\r\n"
		SET k "" -> +OK
		GET k -> ""
		SET "" empty -> +OK
		GET "" -> "empty"
		SET k -> -ERR wrong number of arguments for 'set' command
		SET k v XX YY -> -ERR syntax error
		proto 3
		GET missing -> null
		SET k v XX GET -> ""
	`)
}

func TestSetConditions(t *testing.T) {
	table(t, `
		SET k 1 XX -> nil
		SET k 1 NX -> +OK
		SET k 2 NX -> nil
		SET k 3 XX -> +OK
		GET k -> "3"
		# GET replies the old value whether or not it is replaced
		SET k 4 NX GET -> "3"
		SET k 4 XX GET -> "3"
		SET new 1 NX GET -> nil
		SET other 1 XX GET -> nil
		EXISTS new other -> 1
		SET k 5 GET -> "4"
		SET k 6 NX XX -> -ERR syntax error
		# compare and set
		SET k 6 IFEQ 4 -> nil
		SET k 6 IFEQ 5 -> +OK
		SET k 7 IFNE 6 -> nil
		SET k 7 IFNE 5 -> +OK
		SET k 8 IFEQ 1 GET -> "7"
		GET k -> "7"
		SET none 1 IFEQ "" -> nil
		SET none 1 IFEQ "" GET -> nil
		EXISTS none -> 0
		SET none "" IFNE 1 -> +OK
		SET none 2 IFEQ "" -> +OK
		GET none -> "2"
		# a key whose time has come does not exist
		SET k v PX 100 -> +OK
		advance 100ms
		SET k w XX -> nil
		SET k w NX GET -> nil
		GET k -> "w"
	`)
}

func TestSetExpiry(t *testing.T) {
	table(t, `
		SET k v EX 10 -> +OK
		events -> set:k expire:k
		PTTL k -> 10000
		SET k v PX 1500 -> +OK
		PTTL k -> 1500
		SET k v EXAT 1700000005 -> +OK
		PTTL k -> 5000
		SET k v PXAT 1700000000001 -> +OK
		PTTL k -> 1
		advance 1ms
		GET k -> nil
		events -> set:k expire:k set:k expire:k set:k expire:k expired:k
		# a plain SET takes the deadline away, KEEPTTL leaves it
		SET k v EX 10 -> +OK
		SET k w KEEPTTL -> +OK
		events -> set:k expire:k set:k
		advance 4s
		TTL k -> 6
		SET k x KEEPTTL GET -> "w"
		PTTL k -> 6000
		reopen
		PTTL k -> 6000
		SET k v -> +OK
		TTL k -> -1
		SET new v KEEPTTL -> +OK
		TTL new -> -1
		# an option that stores nothing changes no deadline
		SET k v EX 5 -> +OK
		SET k w EX 100 NX -> nil
		TTL k -> 5
		SET k v EX 0 -> -ERR invalid expire time in 'set' command
		SET k v PX -1 -> -ERR invalid expire time in 'set' command
		SET k v EXAT 0 -> -ERR invalid expire time in 'set' command
		SET k v EX 9223372036854775807 -> -ERR invalid expire time in 'set' command
		SET k v PX 9223372036854775807 -> -ERR invalid expire time in 'set' command
		SET k v EX 1.5 -> -ERR value is not an integer or out of range
		SET k v EX abc NX XX -> -ERR syntax error
		SET k v EX -> -ERR syntax error
		GET k -> "v"
		TTL k -> 5
	`)
}

// TestSetInThePast: SET with a deadline in the past stores nothing and removes the old value.
func TestSetInThePast(t *testing.T) {
	table(t, `
		SET k v PXAT 1700000000000 -> +OK
		events -> set:k expire:k expired:k
		EXISTS k -> 0
		SET k old -> +OK
		SET k v EXAT 1 GET -> "old"
		EXISTS k -> 0
		DBSIZE -> 0
		events -> set:k set:k expire:k expired:k
		SET k v NX PXAT 1 -> +OK
		SET k v XX PXAT 1 -> nil
		SET k v PXAT 1700000000001 -> +OK
		GET k -> "v"
		reopen
		GET k -> "v"
	`)
}

func TestSetVariants(t *testing.T) {
	table(t, `
		SETNX k 1 -> 1
		SETNX k 2 -> 0
		GET k -> "1"
		SETEX k 10 v -> +OK
		TTL k -> 10
		PSETEX k 10 v -> +OK
		PTTL k -> 10
		events -> set:k set:k expire:k set:k expire:k
		SETEX k 0 v -> -ERR invalid expire time in 'setex' command
		SETEX k -1 v -> -ERR invalid expire time in 'setex' command
		SETEX k 9223372036854775 v -> -ERR invalid expire time in 'setex' command
		SETEX k x v -> -ERR value is not an integer or out of range
		PSETEX k 0 v -> -ERR invalid expire time in 'psetex' command
		PSETEX k 9223372036854775807 v -> -ERR invalid expire time in 'psetex' command
		advance 10ms
		SETNX k 3 -> 1
		TTL k -> -1
		GETSET k 4 -> "3"
		GETSET new 1 -> nil
		GETSET k -> -ERR wrong number of arguments for 'getset' command
		SETEX k 10 v -> +OK
		GETSET k 5 -> "v"
		TTL k -> -1
	`)
}

func TestMultipleKeys(t *testing.T) {
	table(t, `
		MSET a 1 b 2 a 3 -> +OK
		events -> set:a set:b set:a
		MGET a b missing a -> ["3", "2", nil, "3"]
		MSET a -> -ERR wrong number of arguments for 'mset' command
		MSET a 1 b -> -ERR wrong number of arguments for 'mset' command
		MSETNX c 1 a 2 -> 0
		EXISTS c -> 0
		MSETNX c 1 d 2 c 3 -> 1
		MGET c d -> ["3", "2"]
		MSETNX c 1 d -> -ERR wrong number of arguments for 'msetnx' command
		events -> set:c set:d set:c
		PEXPIRE a 100 -> 1
		MSET a 9 -> +OK
		TTL a -> -1
		PEXPIRE a 100 -> 1
		advance 100ms
		MSETNX a 1 x 1 -> 1
		proto 3
		MGET a none -> ["1", null]
		reopen
		MGET a b c d x -> ["1", "2", "3", "2", "1"]
	`)
}

func TestGetDelAndGetEx(t *testing.T) {
	table(t, `
		GETDEL k -> nil
		SET k v -> +OK
		GETDEL k -> "v"
		EXISTS k -> 0
		events -> set:k del:k
		GETEX k -> nil
		# the number is read only if the key exists
		GETEX k EX abc -> nil
		GETEX k EX -5 -> nil
		GETEX k EX -> -ERR syntax error
		SET k v -> +OK
		GETEX k -> "v"
		TTL k -> -1
		GETEX k EX 10 -> "v"
		TTL k -> 10
		GETEX k PX 1500 -> "v"
		PTTL k -> 1500
		GETEX k -> "v"
		PTTL k -> 1500
		GETEX k EXAT 1700000020 -> "v"
		TTL k -> 20
		GETEX k PERSIST -> "v"
		TTL k -> -1
		GETEX k PERSIST -> "v"
		events -> set:k expire:k expire:k expire:k persist:k
		GETEX k EX 0 -> -ERR invalid expire time in 'getex' command
		GETEX k PX abc -> -ERR value is not an integer or out of range
		GETEX k PERSIST EX 1 -> -ERR syntax error
		GETEX k EX 1 PX 1 -> -ERR syntax error
		GETEX k KEEPTTL -> -ERR syntax error
		GETEX k PXAT 5 -> "v"
		GETEX k -> nil
		events -> del:k
		SET k v PX 5 -> +OK
		advance 5ms
		GETDEL k -> nil
		GETEX k -> nil
		events -> set:k expire:k expired:k
	`)
}

func TestHitsAndMisses(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET k v -> +OK
		GET k -> "v"
		GET missing -> nil
		EXISTS k missing -> 1
		TTL k -> -1
		TYPE missing -> +none
		INCR n -> 1
		DEL missing -> 0
	`)
	if hits, misses := h.env.Stats.Hits.Load(), h.env.Stats.Misses.Load(); hits != 3 ||
		misses != 3 {
		t.Errorf("%d hits and %d misses, want 3 and 3", hits, misses)
	}
}
