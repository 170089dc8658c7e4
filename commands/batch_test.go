package commands

import (
	"strings"
	"testing"
)

// TestBatchIsBounded: once a script or transaction has written more than maxmemory, its further
// writes are refused. Its earlier writes stay, and commands that free memory still run.
func TestBatchIsBounded(t *testing.T) {
	table(t, `
		CONFIG SET maxmemory 2mb -> +OK
		EVAL "local v = string.rep('x', 1000000) for i = 1, 3 do redis.call('set', i, v) end return redis.pcall('set', 4, v)" 0 -> -OOM command not allowed when used memory > 'maxmemory'.
		EXISTS 1 2 3 4 -> 3
		EVAL "local v = string.rep('x', 1000000) for i = 1, 3 do redis.call('set', i, v) end return redis.call('del', 1)" 0 -> 1
		EXISTS 1 2 3 -> 2
		MULTI -> +OK
		COPY 2 a -> +QUEUED
		COPY 2 b -> +QUEUED
		COPY 2 c -> +QUEUED
		COPY 2 d -> +QUEUED
		DEL a -> +QUEUED
		EXEC -> [1, 1, 1, -OOM command not allowed when used memory > 'maxmemory'., 1]
		EXISTS a b c d -> 2
		reopen
		EXISTS a b c d 1 2 3 -> 4
	`)
}

// TestQueueIsBounded: commands that grow the data are not queued beyond maxmemory.
func TestQueueIsBounded(t *testing.T) {
	h := newHarness(t)
	h.do("CONFIG", "SET", "maxmemory", "3mb")
	h.do("MULTI")
	v := strings.Repeat("x", 1_000_000)
	for i, want := range []string{"+QUEUED", "+QUEUED", "+QUEUED", "-" + string(errOOM)} {
		if got := h.do("SET", "k", v); got != want {
			t.Errorf("command %d: %s, want %s", i, got, want)
		}
	}
	if got := h.do("GET", "k"); got != "+QUEUED" {
		t.Errorf("a read: %s", got)
	}
	if got := h.do("EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
		t.Errorf("EXEC: %s", got)
	}
	if got := h.do("SET", "k", v); got != "+OK" {
		t.Errorf("alone: %s", got)
	}
}
