package commands

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUntimed(t *testing.T) {
	table(t, `
		KEYP.UNTIMED -> ["0", []]
		KEYP.UNTIMED COUNT 0 -> -ERR syntax error
		KEYP.UNTIMED COUNT x -> -ERR value is not an integer or out of range
		KEYP.UNTIMED COUNT -> -ERR syntax error
		KEYP.UNTIMED ELEMENTS -> -ERR syntax error
		KEYP.UNTIMED 0 -> -ERR syntax error
		KEYP.UNTIMED CURSOR x -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR -1 -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR "" -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR 18446744073709551616 -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR 18446744073709551615 -> ["0", []]
		KEYP.UNTIMED CURSOR 0000000000000000000000000000000000000000000000000000000000000000 -> ["0", []]
		KEYP.UNTIMED CURSOR 00000000000000000000000000000000000000000000000000000000000000000 -> -ERR invalid cursor
		SET timed v PX 5000 -> +OK
		KEYP.UNTIMED -> ["0", []]
		HSET h f v g w -> 2
		HPEXPIRE h 5000 FIELDS 2 f g -> [1, 1]
		KEYP.UNTIMED -> ["0", ["h"]]
		KEYP.UNTIMED TYPE HASH MATCH h* COUNT 99999999999 -> ["0", ["h"]]
		KEYP.UNTIMED type string -> ["0", []]
		KEYP.UNTIMED type nonsense -> ["0", []]
		KEYP.UNTIMED match x* -> ["0", []]
		select 1
		KEYP.UNTIMED -> ["0", []]
		select 0
		PERSIST timed -> 1
		DEL h -> 1
		KEYP.UNTIMED -> ["0", ["timed"]]
		EVAL "return redis.call('KEYP.UNTIMED')" 0 -> ["0", ["timed"]]
		MULTI -> +OK
		SET within v -> +QUEUED
		PEXPIRE timed 5000 -> +QUEUED
		KEYP.UNTIMED -> +QUEUED
		EXEC -> [+OK, 1, ["0", ["within"]]]
		reopen
		KEYP.UNTIMED -> ["0", ["within"]]
		HSET within f v -> -WRONGTYPE Operation against a key holding the wrong kind of value
		DEL within timed -> 2
		HSET h f v -> 1
		HPEXPIRE h 5000 FIELDS 1 f -> [1]
		advance 5s
		KEYP.UNTIMED -> ["0", []]
	`)
}

// untimed walks all keys without a deadline, in pages of count keys, and says how often each came.
func untimed(h *harness, count func() int, options ...string) map[string]int {
	h.t.Helper()
	found := map[string]int{}
	cursor := "0"
	for range 100_000 {
		reply := h.raw(byteArgs(append([]string{"KEYP.UNTIMED", "CURSOR", cursor, "COUNT", strconv.Itoa(count())}, options...)...)...)
		parts := strings.Split(string(reply), "\r\n") // keys have no line ends
		cursor = parts[2]
		for i := 5; i < len(parts); i += 2 {
			found[parts[i]]++
		}
		if cursor == "0" {
			return found
		}
	}
	h.t.Fatalf("KEYP.UNTIMED does not end")
	return nil
}

// Each key without a deadline comes once while nothing changes, in pages of any size, whether keys are in memory, on disk or
// both, in one slot or in many.
func TestUntimedFindsAll(t *testing.T) {
	h := newHarness(t)
	want := map[string]int{}
	for i := range 1500 {
		key := fmt.Sprintf("key:%d", i)
		if i%2 == 0 {
			key = fmt.Sprintf("{one slot}:%d", i)
		}
		switch {
		case i%3 == 0:
			h.do("SET", key, "v", "PX", "100000")
			continue
		case i%3 == 1:
			h.do("SET", key, "v")
		default:
			h.do("HSET", key, "f", "v")
			h.do("HPEXPIRE", key, "100000", "FIELDS", "1", "f")
		}
		want[key] = 1
	}
	compare := func(place string) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			sizes := rapid.SampledFrom([]int{3, 50, 2000, 20_000}).Draw(rt, "sizes")
			found := untimed(h, func() int { return rapid.IntRange(1+sizes/10, sizes).Draw(rt, "count") })
			if !maps.Equal(found, want) {
				rt.Fatalf("%s: %d keys, want %d", place, len(found), len(want))
			}
		})
		all := func() int { return 100 }
		if found := untimed(h, all, "MATCH", "{one*7"); len(found) != 0 {
			t.Errorf("%s: MATCH: %v", place, found)
		}
		hashes := 0
		for key := range untimed(h, all, "TYPE", "hash") {
			i, err := strconv.Atoi(key[strings.IndexByte(key, ':')+1:])
			if hashes++; err != nil || i%3 != 2 {
				t.Errorf("%s: %s is no hash", place, key)
			}
		}
		if hashes != 500 {
			t.Errorf("%s: %d hashes", place, hashes)
		}
	}
	compare("in memory")
	h.reopen()
	compare("on disk")
	for i := range 750 { // comes into memory
		h.do("EXISTS", fmt.Sprintf("{one slot}:%d", i))
	}
	h.do("SET", "{one slot}:new", "v")
	want["{one slot}:new"] = 1
	compare("in both")
}

// A user sees the keys whose deadline it may ask for.
func TestKeypRights(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET a v -> +OK
		SET b v -> +OK
		ACL SETUSER none on nopass +@all -@keyp ~* -> +OK
		ACL SETUSER keyp on nopass +@keyp +pexpiretime ~a -> +OK
		ACL SETUSER write on nopass +@keyp +pexpiretime %W~a -> +OK
		ACL SETUSER blind on nopass +@keyp ~* -> +OK
		ACL SETUSER keyspace on nopass +@keyspace -@dangerous %R~b -> +OK
		user none
		KEYP.UNTIMED -> -NOPERM User none has no permissions to run the 'keyp.untimed' command
		user keyp
		KEYP.UNTIMED -> ["0", ["a"]]
		user write
		KEYP.UNTIMED -> ["0", []]
		user blind
		KEYP.UNTIMED -> ["0", []]
		user keyspace
		KEYP.UNTIMED -> ["0", ["b"]]
		user default
		ACL CAT keyp -> ["keyp.untimed"]
		COMMAND INFO keyp.untimed -> [["keyp.untimed", -1, [+readonly], 0, 0, 0, [+@keyspace, +@read, +@slow, +@keyp], ["nondeterministic_output", "request_policy:special"], [], []]]
	`)
	for _, spec := range keypCommands {
		if words := h.env.Table.Lookup([]byte(spec.Name)).categories(); !slices.Contains(words, "@keyp") || slices.Contains(words, "@dangerous") {
			t.Errorf("%s: categories %v", spec.Name, words)
		}
	}
}
