package commands

import (
	"testing"

	"keyp/internal/config"
	"keyp/storage/object"
)

// TestValueLimits: each option and its older name change what they are about.
func TestValueLimits(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { object.SetLimits(object.DefaultLimits) })
	if got := object.CurrentLimits(); got != object.DefaultLimits {
		t.Errorf("the options' defaults are %+v", got)
	}
	h.run(`
		CONFIG SET hash-max-listpack-entries 1 hash-max-listpack-value 2k list-max-listpack-size -3 -> +OK
		CONFIG SET set-max-intset-entries 4 set-max-listpack-entries 5 set-max-listpack-value 6 -> +OK
		CONFIG SET zset-max-listpack-entries 7 zset-max-listpack-value 8 -> +OK
	`)
	want := object.Limits{HashEntries: 1, HashValue: 2000, ListSize: -3, SetInts: 4, SetEntries: 5, SetValue: 6, ZSetEntries: 7, ZSetValue: 8}
	if got := object.CurrentLimits(); got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
	h.run(`
		CONFIG SET hash-max-ziplist-entries 10 hash-max-ziplist-value 11 list-max-ziplist-size 12 -> +OK
		CONFIG SET zset-max-ziplist-entries 13 zset-max-ziplist-value 14 -> +OK
		CONFIG GET list-max-* -> ["list-max-listpack-size", "12", "list-max-ziplist-size", "12"]
		CONFIG SET hash-max-listpack-entries -1 -> -ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - argument must be between 0 and 9223372036854775807 inclusive
		CONFIG SET hash-max-listpack-entries 1k -> -ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - argument couldn't be parsed into an integer
		CONFIG SET zset-max-listpack-value -1 -> -ERR CONFIG SET failed (possibly related to argument 'zset-max-listpack-value') - argument must be a memory value
		CONFIG SET list-max-listpack-size 2147483648 -> -ERR CONFIG SET failed (possibly related to argument 'list-max-listpack-size') - argument must be between -2147483648 and 2147483647 inclusive
		CONFIG SET list-compress-depth -1 -> -ERR CONFIG SET failed (possibly related to argument 'list-compress-depth') - argument must be between 0 and 2147483647 inclusive
		CONFIG SET list-compress-depth 2 -> +OK
	`)
	want.HashEntries, want.HashValue, want.ListSize, want.ZSetEntries, want.ZSetValue = 10, 11, 12, 13, 14
	if got := object.CurrentLimits(); got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
	SetValueLimits(config.New())
	if got := object.CurrentLimits(); got != object.DefaultLimits {
		t.Errorf("the options' defaults are %+v", got)
	}
}
