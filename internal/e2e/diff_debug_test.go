package e2e

import (
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// TestDiffDebug: the subcommands of DEBUG that the tests of clients use have the same replies as in
// redis-server. DIGEST is the same for the same data.
func TestDiffDebug(t *testing.T) {
	t.Parallel()
	allowed := []string{"--enable-debug-command", "yes", "--appendonly", "yes"}
	s := &both{redisServer: testkit.Redis(t, allowed...), keypServer: testkit.Keyp(t, allowed...)}
	s.keyp, s.redis = s.dial(t)
	compare := func(line string) {
		keyp, redis, err := s.ask(strings.Fields(line)...)
		if err != nil {
			t.Fatal(err)
		}
		if keyp.raw != redis.raw {
			t.Errorf("%s:\nkeyp  %q\nredis %q", line, keyp.raw, redis.raw)
		}
	}
	for _, line := range []string{
		"DEBUG DIGEST", "SET s text", "SET n 12", "SET e v EX 1000", "RPUSH l a b 3 a",
		"SADD set a b 3", "SADD ints 1 2 3",
		"ZADD z 1 a 2.5 b 1e20 c 1e17 d -inf e 0.1 f 123456789012345678 g 1e-5 h 1e-4 i",
		"HSET h f v g 1 h 2.5", "SETBIT bits 7 1", "PFADD hll a b",
		"XADD x 1-1 a 1 b 2", "XADD x 1-2 a 3", "XADD x 5-18446744073709551615 c 4", "XDEL x 1-2",
		"XGROUP CREATE x g 0",
		"DEBUG DIGEST", "DEBUG DIGEST-VALUE s n e l set ints z h bits hll x none", "SELECT 3",
		"SET s other", "DEBUG DIGEST", "DEBUG DIGEST-VALUE",
		"DEBUG CHANGE-REPL-ID", "DEBUG PROTOCOL x", "DEBUG RELOAD x", "DEBUG RELOAD",
		"DEBUG DIGEST", "DEBUG LOADAOF", "DEBUG DIGEST",
		"DEBUG HTSTATS x", "DEBUG HTSTATS 16", "DEBUG HTSTATS -1", "SELECT 0", "DEBUG SDSLEN none",
		"DEBUG SDSLEN n", "DEBUG SDSLEN l",
		"DEBUG ERROR ERR",
	} {
		compare(line)
	}
	for _, tt := range []struct{ line, beginning string }{
		{"DEBUG SDSLEN s", "+key_sds_len:1, "}, {"DEBUG HTSTATS 0", "[Dictionary HT]\n"},
		{"DEBUG HTSTATS 15", "[Dictionary HT]\n"},
	} {
		keyp, redis, err := s.ask(strings.Fields(tt.line)...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(keyp.raw, tt.beginning) || !strings.Contains(redis.raw, tt.beginning) {
			t.Errorf("%s:\nkeyp  %q\nredis %q", tt.line, keyp.raw, redis.raw)
		}
	}
	for _, proto := range []string{"2", "3"} {
		for _, side := range s.sides() {
			s.mustDo(t, side, "HELLO", proto)
		}
		for _, typ := range []string{"string", "integer", "double", "bignum", "null", "array",
			"set", "map", "verbatim", "true", "false", "INTEGER"} {
			compare("DEBUG PROTOCOL " + typ)
		}
	}
}
