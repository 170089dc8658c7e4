package commands

import (
	"strings"
	"testing"
)

// TestFinalBringsKeys: a command whose keys leave memory again and again runs in the end, because
// the keys are then read while they are locked.
func TestFinalBringsKeys(t *testing.T) {
	h := newHarness(t)
	h.run(`
		MSET a 1 b 2 -> +OK
		HSET h f v -> 1
	`)
	h.bare = true
	for _, tt := range []struct{ args, reply string }{
		{"MGET a none b", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n"},
		{"HGET h f", "$1\r\nv\r\n"},
		{"EXEC", "*2\r\n$1\r\n1\r\n:1\r\n"},
	} {
		h.reopen()
		if tt.args == "EXEC" {
			h.run(`
				MULTI -> +OK
				GET a -> +QUEUED
				HDEL h f -> +QUEUED
			`)
		}
		c := &h.ctx
		c.Args = byteArgs(strings.Fields(tt.args)...)
		for _, final := range []bool{false, true} {
			c.Past.Loads = 0
			if final {
				c.Past.Loads = lateLoads
			}
			c.Out.Truncate(0)
			if outcome := h.env.Dispatch(c); (outcome == Done) != final {
				t.Fatalf("%s, final %v: outcome %d", tt.args, final, outcome)
			}
		}
		if got := string(c.Out.Buf); got != tt.reply {
			t.Errorf("%s: %q", tt.args, got)
		}
	}
}
