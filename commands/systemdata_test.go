package commands

import (
	"bytes"
	"testing"
)

// What the server keeps of libraries and policies may be on disk only when a command reads, replaces or removes it, and
// when the server starts.
func TestOwnDataOnDisk(t *testing.T) {
	h := newHarness(t)
	evict := func() {
		t.Helper()
		if err := h.store.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		h.store.Manual().Evict(1)
	}
	do := func(want string, args ...string) {
		t.Helper()
		evict()
		if got := h.do(args...); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
	library := func(name, reply string) string {
		return "#!lua name=" + name + "\nredis.register_function('" + name + "', function() return '" + reply + "' end)"
	}
	restart := func() {
		t.Helper()
		evict()
		h.reopen()
	}
	for _, name := range []string{"a", "b", "c"} {
		h.do("FUNCTION", "LOAD", library(name, "first"))
		h.do("KEYP.POLICY", "SET", name, "PATTERN", name+":*", "DEFAULT", "1h", "ENFORCE")
	}
	if evict(); h.store.Stats().Evictions < 6 {
		t.Errorf("%d keys have left memory, want libraries and policies", h.store.Stats().Evictions)
	}
	do(`"first"`, "FCALL", "a", "0")
	do(`"a"`, "FUNCTION", "LOAD", "REPLACE", library("a", "second"))
	do("+OK", "FUNCTION", "DELETE", "b")
	do("+OK", "KEYP.POLICY", "SET", "a", "PATTERN", "a:*", "DEFAULT", "2h", "ENFORCE")
	do("1", "KEYP.POLICY", "DEL", "b")
	policies := h.do("KEYP.POLICY", "LIST")
	restart()
	do(policies, "KEYP.POLICY", "LIST")
	do(`"second"`, "FCALL", "a", "0")
	do(`"first"`, "FCALL", "c", "0")
	do("-ERR Function not found", "FCALL", "b", "0")
	do("+OK", "SET", "a:1", "v")
	do("7200000", "PTTL", "a:1")

	reply := h.raw(byteArgs("FUNCTION", "DUMP")...)
	payload := string(bytes.TrimSuffix(reply[bytes.IndexByte(reply, '\n')+1:], []byte("\r\n")))
	do("+OK", "FUNCTION", "FLUSH")
	restart()
	do("[]", "FUNCTION", "LIST")
	do("+OK", "FUNCTION", "RESTORE", payload)
	restart()
	do("+OK", "FUNCTION", "RESTORE", payload, "REPLACE")
	do("+OK", "FUNCTION", "RESTORE", payload, "FLUSH")
	restart()
	do(`"second"`, "FCALL", "a", "0")
	do(`"first"`, "FCALL", "c", "0")
	do("1", "KEYP.POLICY", "DEL", "a")
	do("1", "KEYP.POLICY", "DEL", "c")
	restart()
	do("[]", "KEYP.POLICY", "LIST")
}
