package commands

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/ttl"
)

func TestParseCondition(t *testing.T) {
	for _, c := range []struct {
		args []string
		want ttl.Condition
		err  string
	}{
		{nil, 0, ""},
		{[]string{"nx"}, ttl.NX, ""},
		{[]string{"NX", "NX"}, ttl.NX, ""},
		{[]string{"XX", "GT"}, ttl.XX | ttl.GT, ""},
		{[]string{"lt", "xx"}, ttl.XX | ttl.LT, ""},
		{[]string{"NX", "XX"}, 0,
			"NX and XX, GT or LT options at the same time are not compatible"},
		{[]string{"GT", "NX"}, 0,
			"NX and XX, GT or LT options at the same time are not compatible"},
		{[]string{"GT", "LT"}, 0, "GT and LT options at the same time are not compatible"},
		{[]string{"NX", "foo"}, 0, "ERR Unsupported option foo"},
		{[]string{""}, 0, "ERR Unsupported option "},
	} {
		got, err := parseCondition(cursor(c.args...))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.err || err == nil && got != c.want {
			t.Errorf("%q: %v, %q; want %v, %q", c.args, got, text, c.want, c.err)
		}
	}
}

func TestExpire(t *testing.T) {
	table(t, `
		EXPIRE k 10 -> 0
		TTL k -> -2
		PTTL k -> -2
		EXPIRETIME k -> -2
		PEXPIRETIME k -> -2
		PERSIST k -> 0
		SET k v -> +OK
		TTL k -> -1
		PTTL k -> -1
		EXPIRETIME k -> -1
		PEXPIRETIME k -> -1
		PERSIST k -> 0
		EXPIRE k 10 -> 1
		TTL k -> 10
		PTTL k -> 10000
		EXPIRETIME k -> 1700000010
		PEXPIRETIME k -> 1700000010000
		PEXPIRE k 1500 -> 1
		PTTL k -> 1500
		TTL k -> 2
		EXPIRETIME k -> 1700000002
		PEXPIRE k 1499 -> 1
		TTL k -> 1
		EXPIREAT k 1700000003 -> 1
		PTTL k -> 3000
		PEXPIREAT k 1700000003001 -> 1
		PTTL k -> 3001
		events -> set:k expire:k expire:k expire:k expire:k expire:k
		PERSIST k -> 1
		PERSIST k -> 0
		TTL k -> -1
		events -> persist:k
		EXPIRE k 3 -> 1
		advance 2999ms
		PTTL k -> 1
		TTL k -> 0
		GET k -> "v"
		advance 1ms
		TTL k -> -2
		PTTL k -> -2
		EXPIRETIME k -> -2
		PEXPIRETIME k -> -2
		PERSIST k -> 0
		EXPIRE k 10 -> 0
		GET k -> nil
		events -> expire:k expired:k
	`)
}

// TestExpireInThePast: a deadline in the past deletes the key at once, and the command replies 1.
func TestExpireInThePast(t *testing.T) {
	table(t, `
		MSET a 1 b 1 c 1 d 1 e 1 -> +OK
		EXPIRE a 0 -> 1
		EXPIRE b -1 -> 1
		PEXPIRE c -9223372036854775808 -> 1
		EXPIREAT d 1700000000 -> 1
		PEXPIREAT e 0 -> 1
		EXISTS a b c d e -> 0
		DBSIZE -> 0
		EXPIRE a -1 -> 0
		events -> set:a set:b set:c set:d set:e del:a del:b del:c del:d del:e
		SET a 1 -> +OK
		EXPIRE a -1 XX -> 0
		EXPIRE a -1 GT -> 0
		EXISTS a -> 1
		EXPIRE a -1 LT -> 1
		EXISTS a -> 0
		reopen
		DBSIZE -> 0
	`)
}

func TestExpireConditions(t *testing.T) {
	table(t, `
		SET k v -> +OK
		EXPIRE k 10 XX -> 0
		EXPIRE k 10 GT -> 0
		TTL k -> -1
		EXPIRE k 10 NX -> 1
		EXPIRE k 20 NX -> 0
		EXPIRE k 20 XX -> 1
		EXPIRE k 20 GT -> 0
		EXPIRE k 20 LT -> 0
		EXPIRE k 21 LT -> 0
		EXPIRE k 19 GT -> 0
		EXPIRE k 21 GT -> 1
		EXPIRE k 5 LT -> 1
		PEXPIRE k 5001 GT XX -> 1
		EXPIREAT k 1700000004 LT XX -> 1
		PEXPIREAT k 1700000004001 GT -> 1
		PTTL k -> 4001
		PERSIST k -> 1
		EXPIRE k 5 LT XX -> 0
		EXPIRE k 5 LT -> 1
		EXPIRE none 5 NX -> 0
		EXPIRE k 1 NX XX -> -ERR NX and XX, GT or LT options at the same time are not compatible
		EXPIRE k 1 NX GT -> -ERR NX and XX, GT or LT options at the same time are not compatible
		EXPIRE k 1 GT LT -> -ERR GT and LT options at the same time are not compatible
		EXPIRE k 1 FOO -> -ERR Unsupported option FOO
		EXPIRE k abc FOO -> -ERR Unsupported option FOO
		EXPIRE k abc -> -ERR value is not an integer or out of range
		EXPIRE none 1.5 -> -ERR value is not an integer or out of range
		EXPIRE k -> -ERR wrong number of arguments for 'expire' command
		TTL -> -ERR wrong number of arguments for 'ttl' command
		TTL k x y -> -ERR wrong number of arguments for 'ttl' command
		TTL k -> 5
	`)
}

func TestExpireOverflow(t *testing.T) {
	table(t, `
		SET k v -> +OK
		EXPIRE k 9223372036854775807 -> -ERR invalid expire time in 'expire' command
		EXPIRE k 9223372036854775 -> -ERR invalid expire time in 'expire' command
		EXPIRE k -9223372036854775808 -> -ERR invalid expire time in 'expire' command
		EXPIRE k 9223372036854775808 -> -ERR value is not an integer or out of range
		PEXPIRE k 9223372036854775807 -> -ERR invalid expire time in 'pexpire' command
		EXPIREAT k 9223372036854776 -> -ERR invalid expire time in 'expireat' command
		EXPIRE none 9223372036854775807 -> -ERR invalid expire time in 'expire' command
		TTL k -> -1
		PEXPIREAT k 9223372036854775807 -> 1
		PEXPIRETIME k -> 9223372036854775807
		EXPIRETIME k -> 9223372036854776
		PEXPIRE k 7523372036854775807 -> 1
		PTTL k -> 7523372036854775807
		EXPIREAT k 9223372036854775 -> 1
		reopen
		EXPIRETIME k -> 9223372036854775
		GET k -> "v"
	`)
}

// TestDeadlinesOverRestart: deadlines stay exact over a restart, also for a key that expires in the
// meantime.
func TestDeadlinesOverRestart(t *testing.T) {
	table(t, `
		SET a 1 PX 5000 -> +OK
		SET b 2 PX 7000 -> +OK
		SET c 3 -> +OK
		reopen
		PTTL a -> 5000
		TTL c -> -1
		advance 5s
		reopen
		GET a -> nil
		PTTL b -> 2000
		MGET b c -> ["2", "3"]
		PERSIST b -> 1
		advance 1h
		reopen
		MGET a b c -> [nil, "2", "3"]
		DBSIZE -> 2
	`)
}

// TestReaperRemoves: keys are removed at their deadline even if no command uses them.
func TestReaperRemoves(t *testing.T) {
	h := newHarness(t)
	h.run(`
		SET a 1 PX 100 -> +OK
		SET b 2 PX 200 -> +OK
		SET c 3 -> +OK
		events -> set:a expire:a set:b expire:b set:c
	`)
	h.store.SetActiveExpire(true)
	h.clock.Advance(99 * time.Millisecond)
	h.run(`PTTL a -> 1`)
	h.clock.Advance(time.Millisecond)
	h.await("expired:a")
	h.clock.Advance(100 * time.Millisecond)
	h.await("expired:b")
	h.run(`
		DBSIZE -> 1
		KEYS * -> ["c"]
		events -> 
	`)
}

// await waits until exactly these events were raised since the last check.
func (h *harness) await(want string) {
	h.t.Helper()
	got := ""
	if !await.Reached(func() bool {
		got = strings.TrimSpace(got + " " + h.heard())
		return got == want
	}) {
		h.t.Fatalf("events: %s, want %s", got, want)
	}
}
