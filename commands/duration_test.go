package commands

import (
	"math"
	"testing"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "250": 250, "500ms": 500, "30s": 30_000, "10m": 600_000, "2h": 7_200_000,
		"7d": 604_800_000, "-5": -5, "-5s": -5000,
		"9223372036854775807": math.MaxInt64, "9223372036854775s": 9_223_372_036_854_775_000,
		"-9223372036854775s": -9_223_372_036_854_775_000,
	} {
		if got, ok := parseDuration([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "s", "ms", "1.5s", "1 s", "1S", "1h30m", "1w", "+5s",
		"9223372036854776s", "-9223372036854776s", "9223372036854775808", "106751991168d"} {
		if got, ok := parseDuration([]byte(text)); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestTimesWithUnits: in Keyp's own commands, each duration may have a unit.
func TestTimesWithUnits(t *testing.T) {
	table(t, `
		KEYP.LEASE ACQUIRE lease ann 30s -> [1700000000000001, 1700000030000]
		PTTL lease -> 30000
		KEYP.LEASE ACQUIRE lease ann 2m WAIT 1s DELAY 500ms -> [1700000000000001, 1700000120000]
		PTTL lease -> 120000
		KEYP.LEASE ACQUIRE lease ann half -> -ERR the time of a lease is a number of milliseconds, or has a unit, such as 30s
		KEYP.LEASE ACQUIRE lease ann -5s -> -ERR invalid expire time in 'keyp.lease|acquire' command
		KEYP.LEASE RENEW lease 1 1w -> -ERR the time of a lease is a number of milliseconds, or has a unit, such as 30s
		KEYP.DELAY ADD q a +30s x -> 1
		KEYP.DELAY ADD q b +500ms x -> 1
		KEYP.DELAY POP q VISIBILITY 1m -> nilarray
		advance 500ms
		KEYP.DELAY POP q VISIBILITY 1m -> [["b", "x", "1700000000000002-b", 1]]
		advance 29500ms
		KEYP.DELAY POP q VISIBILITY 1m -> [["a", "x", "1700000000000003-a", 1]]
		KEYP.DELAY POP q VISIBILITY 1m -> nilarray
		advance 1m
		KEYP.DELAY POP q COUNT 2 VISIBILITY 1m BLOCK 5s -> [["b", "x", "1700000000000004-b", 2], ["a", "x", "1700000000000005-a", 2]]
		KEYP.DELAY ADD q c +1.5s x -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q c 30s x -> -ERR due is in Unix milliseconds, up to 281474976710655, or + and a time from now, such as +60000 or +1m
		KEYP.DELAY ADD q c 60000 x -> -ERR due is in Unix milliseconds, and 60000 is before 2001; did you mean +60000?
		KEYP.DELAY ADD q c 978307199999 x -> -ERR due is in Unix milliseconds, and 978307199999 is before 2001; did you mean +978307199999?
		KEYP.DELAY ADD q c 978307200000 x -> 1
		KEYP.DELAY RESCHEDULE q c 1700000000 -> -ERR due is in Unix milliseconds, and 1700000000 is before 2001; did you mean 1700000000000?
		KEYP.DELAY RESCHEDULE q c +1d -> 1
		KEYP.LIMIT TAKE l 1 WINDOW 1 10s -> [1, 0, 0, [0], [10000]]
		KEYP.LIMIT PEEK l 1 WINDOW 1 10000 -> [0, 1, 10000, [0], [10000]]
		KEYP.LIMIT TAKE m 1 TOKENS 2 1 1h RESERVE r 30s -> [1, 0, 0, [1], [0]]
		KEYP.LIMIT TAKE m 1 TOKENS 2 1 1y -> -ERR times of limits are between 1 and 1000000000000 ms, or have a unit, such as 30s
		KEYP.LIMIT TAKE m 1 TOKENS 1h 1 1 -> -ERR numbers of limits are between 1 and 1000000000000
		XADD s 1-1 f v -> "1-1"
		XCFGSET s MAXAGE 1w -> -ERR MAXAGE must be between 0 and 281474976710655 milliseconds, or have a unit, such as 10m
	`)
}
