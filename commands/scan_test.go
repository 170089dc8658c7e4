package commands

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"

	"keyp/storage/object"
)

func TestParseScan(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "\"\" 10 \"\""},
		{[]string{"MATCH", "a*", "COUNT", "5"}, "\"a*\" 5 \"\""},
		{[]string{"match", "*", "type", "STRING"}, "\"\" 10 \"string\""},
		{[]string{"COUNT", "9223372036854775807"}, "\"\" 2147483647 \"\""},
		{[]string{"COUNT", "0"}, "ERR syntax error"},
		{[]string{"COUNT", "-1"}, "ERR syntax error"},
		{[]string{"COUNT", "x"}, "ERR value is not an integer or out of range"},
		{[]string{"COUNT"}, "ERR syntax error"},
		{[]string{"MATCH"}, "ERR syntax error"},
		{[]string{"TYPE"}, "ERR syntax error"},
		{[]string{"LIMIT", "1"}, "ERR syntax error"},
		{[]string{"NOVALUES"}, "ERR NOVALUES option can only be used in HSCAN"},
	} {
		o, err := parseScan(cursor(c.args...), object.None)
		got := fmt.Sprintf("%q %d %q", o.match, o.count, o.typ)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("SCAN 0 %q: %s, want %s", c.args, got, c.want)
		}
	}
}

func TestScanErrors(t *testing.T) {
	table(t, `
		SCAN 0 -> ["0", []]
		SCAN 0 COUNT 0 -> -ERR syntax error
		SCAN x -> -ERR invalid cursor
		SCAN "" -> -ERR invalid cursor
		SCAN " 0" -> -ERR invalid cursor
		SCAN -1 -> -ERR invalid cursor
		SCAN 18446744073709551616 -> -ERR invalid cursor
		SCAN x COUNT 0 -> -ERR invalid cursor
		SCAN -> -ERR wrong number of arguments for 'scan' command
		SET k v -> +OK
		SCAN 00 COUNT 1000000 -> ["0", ["k"]]
		SCAN 0 COUNT 1000000 TYPE string -> ["0", ["k"]]
		SCAN 0 COUNT 1000000 TYPE STRING -> ["0", ["k"]]
		SCAN 0 COUNT 1000000 TYPE hash -> ["0", []]
		SCAN 0 COUNT 1000000 TYPE nonsense -> ["0", []]
		SCAN 0 COUNT 1000000 MATCH k* -> ["0", ["k"]]
		SCAN 0 COUNT 1000000 MATCH K* -> ["0", []]
		SCAN 0 COUNT 1000000 MATCH k MATCH x -> ["0", []]
		PEXPIRE k 1 -> 1
		advance 1ms
		SCAN 0 COUNT 1000000 -> ["0", []]
		KEYS * -> []
		RANDOMKEY -> nil
		proto 3
		RANDOMKEY -> null
	`)
}

// scanAll scans all keys, and returns how often each was found.
func scanAll(h *harness, options ...string) map[string]int {
	h.t.Helper()
	found := map[string]int{}
	cursor := "0"
	for range 100_000 {
		reply := h.raw(byteArgs(append([]string{"SCAN", cursor}, options...)...)...)
		parts := strings.Split(string(reply), "\r\n") // keys have no line ends
		cursor = parts[2]
		for i := 5; i < len(parts); i += 2 {
			found[parts[i]]++
		}
		if cursor == "0" {
			return found
		}
		if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
			h.t.Fatalf("cursor %q", cursor)
		}
	}
	h.t.Fatalf("SCAN does not end")
	return nil
}

func byteArgs(args ...string) [][]byte {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = []byte(arg)
	}
	return list
}

// TestScanFindsAll: while nothing changes, every key is found once, whatever COUNT is. This holds
// also in one huge slot and after a restart.
func TestScanFindsAll(t *testing.T) {
	h := newHarness(t)
	want := map[string]bool{}
	for i := range 2000 {
		key := fmt.Sprintf("key:%d", i)
		if i%2 == 0 {
			key = fmt.Sprintf("{one slot}:%d", i)
		}
		want[key] = true
		h.do("SET", key, "v")
	}
	h.run(`
		select 1
		SET elsewhere 1 -> +OK
		select 0
	`)
	for range 2 {
		for _, count := range []string{"7", "100", "100000"} {
			found := scanAll(h, "COUNT", count)
			for key, n := range found {
				if n != 1 || !want[key] {
					t.Errorf("COUNT %s: %q came %d times", count, key, n)
				}
			}
			if len(found) != len(want) {
				t.Errorf("COUNT %s: %d keys, want %d", count, len(found), len(want))
			}
		}
		if found := scanAll(h, "COUNT", "50", "MATCH", "{one*8"); len(found) != 200 {
			t.Errorf("MATCH: %d keys, want 200", len(found))
		}
		h.run(`DBSIZE -> 2000`)
		h.reopen()
	}
}

// TestScanBesideChanges: a key that exists during the whole scan is found, whatever other keys are
// added or removed.
func TestScanBesideChanges(t *testing.T) {
	h := newHarness(t)
	stay := map[string]bool{}
	for i := range 500 {
		key := fmt.Sprintf("{s%d}stay:%d", i%3, i)
		stay[key] = true
		h.do("SET", key, "v")
		h.do("SET", fmt.Sprintf("{s%d}go:%d", i%3, i), "v")
	}
	found := map[string]int{}
	cursor := "0"
	for n := range 10_000 {
		parts := strings.Split(string(h.raw(byteArgs("SCAN", cursor, "COUNT", "20")...)), "\r\n")
		cursor = parts[2]
		for i := 5; i < len(parts); i += 2 {
			found[parts[i]]++
		}
		h.do("DEL", fmt.Sprintf("{s%d}go:%d", n%3, n))
		h.do("SET", fmt.Sprintf("{s%d}new:%d", n%3, n), "v")
		if cursor == "0" {
			break
		}
	}
	if cursor != "0" {
		t.Fatal("SCAN does not end")
	}
	for key := range stay {
		if found[key] == 0 {
			t.Errorf("%q was missed", key)
		}
	}
}

func TestKeysAndRandomKey(t *testing.T) {
	h := newHarness(t)
	h.run(`
		KEYS * -> []
		MSET one 1 two 2 three 3 four 4 -> +OK
		KEYS one -> ["one"]
		KEYS *x* -> []
		KEYS -> -ERR wrong number of arguments for 'keys' command
	`)
	reply := strings.Split(strings.Trim(h.do("KEYS", "[ot]*"), "[]"), ", ")
	sort.Strings(reply)
	if got := strings.Join(reply, " "); got != `"one" "three" "two"` {
		t.Errorf("KEYS [ot]*: %s", got)
	}
	seen := map[string]bool{}
	for range 200 {
		seen[h.do("RANDOMKEY")] = true
	}
	if len(seen) != 4 || !seen[`"three"`] {
		t.Errorf("RANDOMKEY found %v", seen)
	}
}
