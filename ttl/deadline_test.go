package ttl

import (
	"errors"
	"math"
	"testing"
)

const (
	maxMS  = math.MaxInt64
	minMS  = math.MinInt64
	maxSec = maxMS / 1000
	minSec = minMS / 1000
)

// TestResolve: Resolve computes a deadline from the argument of EXPIRE, PEXPIRE, EXPIREAT or
// PEXPIREAT. The expected results are those of Redis 7.0.15.
func TestResolve(t *testing.T) {
	const now = 1_700_000_000_000
	for _, c := range []struct {
		name string
		now  int64
		n    int64
		unit Unit
		base Base
		want int64
		err  error
	}{
		{"seconds from now", now, 10, Seconds, FromNow, now + 10_000, nil},
		{"milliseconds from now", now, 10, Milliseconds, FromNow, now + 10, nil},
		{"absolute seconds", now, 10, Seconds, Absolute, 10_000, nil},
		{"absolute milliseconds", now, 10, Milliseconds, Absolute, 10, nil},
		{"zero is now", now, 0, Seconds, FromNow, now, nil},
		{"negative is past", now, -1, Seconds, FromNow, now - 1000, nil},
		{"negative absolute", now, -7, Milliseconds, Absolute, -7, nil},

		{"absolute zero is past, not none", now, 0, Milliseconds, Absolute, -1, nil},
		{"absolute zero seconds", now, 0, Seconds, Absolute, -1, nil},
		{"back to the epoch is past, not none", now, -now, Milliseconds, FromNow, -1, nil},
		{"zero at zero is past, not none", 0, 0, Seconds, FromNow, -1, nil},

		{"latest seconds", now, maxSec, Seconds, Absolute, maxSec * 1000, nil},
		{"seconds overflow", now, maxSec + 1, Seconds, Absolute, 0, ErrInvalidTimestamp},
		{"earliest seconds", now, minSec, Seconds, Absolute, minSec * 1000, nil},
		{"seconds underflow", now, minSec - 1, Seconds, Absolute, 0, ErrInvalidTimestamp},
		{"seconds underflow from now", now, minSec - 1, Seconds, FromNow, 0, ErrInvalidTTL},
		{"latest milliseconds", now, maxMS, Milliseconds, Absolute, maxMS, nil},
		{"earliest milliseconds", now, minMS, Milliseconds, Absolute, minMS, nil},
		{"sum just fits", now, maxMS - now, Milliseconds, FromNow, maxMS, nil},
		{"sum overflows", now, maxMS - now + 1, Milliseconds, FromNow, 0, ErrInvalidTTL},
		{"sum of seconds overflows", now, maxSec, Seconds, FromNow, 0, ErrInvalidTTL},
		{"earliest from now", now, minMS, Milliseconds, FromNow, minMS + now, nil},
		{"sum at zero", 0, maxMS, Milliseconds, FromNow, maxMS, nil},
		{"sum before the epoch underflows", -1, minMS, Milliseconds, FromNow, 0, ErrInvalidTTL},
	} {
		got, err := Resolve(c.now, c.n, c.unit, c.base)
		if got.At != c.want || got.FromNow != (err == nil && c.base == FromNow) || err != c.err {
			t.Errorf("%s: Resolve(%d, %d, %d, %d) = %v, %v; want %d, %v",
				c.name, c.now, c.n, c.unit, c.base, got, err, c.want, c.err)
		}
	}
}

// The results are those of Redis 7.0.15 for SET, GETEX, SETEX, PSETEX.
func TestFutureDeadline(t *testing.T) {
	const now = 1_700_000_000_000
	for _, c := range []struct {
		n    int64
		unit Unit
		base Base
		want int64
		err  error
	}{
		{1, Seconds, FromNow, now + 1000, nil},
		{1, Milliseconds, Absolute, 1, nil},
		{0, Seconds, FromNow, 0, ErrInvalidTTL},
		{-1, Milliseconds, FromNow, 0, ErrInvalidTTL},
		{0, Seconds, Absolute, 0, ErrInvalidTimestamp},
		{-5, Milliseconds, Absolute, 0, ErrInvalidTimestamp},
		{minMS, Seconds, Absolute, 0, ErrInvalidTimestamp},
		{maxSec, Seconds, Absolute, maxSec * 1000, nil},
		{maxSec, Seconds, FromNow, 0, ErrInvalidTTL},
		{maxSec + 1, Seconds, FromNow, 0, ErrInvalidTTL},
		{maxMS, Milliseconds, FromNow, 0, ErrInvalidTTL},
		{maxMS - now, Milliseconds, FromNow, maxMS, nil},
	} {
		got, err := FutureDeadline(now, c.n, c.unit, c.base)
		if got.At != c.want || err != c.err {
			t.Errorf("FutureDeadline(%d, %d, %d) = %v, %v; want %d, %v",
				c.n, c.unit, c.base, got, err, c.want, c.err)
		}
	}
}

// A single check of ErrInvalidTTL maps both errors to the text that clients get.
func TestInvalidTimestampIsInvalidTTL(t *testing.T) {
	if !errors.Is(ErrInvalidTimestamp, ErrInvalidTTL) {
		t.Error("ErrInvalidTimestamp is not an ErrInvalidTTL")
	}
	if errors.Is(ErrInvalidTTL, ErrInvalidTimestamp) {
		t.Error("ErrInvalidTTL is an ErrInvalidTimestamp")
	}
}

func TestQueries(t *testing.T) {
	const now = 5_000
	for _, c := range []struct {
		deadline             int64
		expired              bool
		pttl, ttl            int64
		pexpireTime, expTime int64
	}{
		{None, false, Persistent, Persistent, Persistent, Persistent},
		{now, true, Missing, Missing, Missing, Missing},
		{now - 1, true, Missing, Missing, Missing, Missing},
		{-1, true, Missing, Missing, Missing, Missing},
		{minMS, true, Missing, Missing, Missing, Missing},
		{now + 1, false, 1, 0, 5_001, 5},
		{now + 499, false, 499, 0, 5_499, 5},
		{now + 500, false, 500, 1, 5_500, 6},
		{now + 1499, false, 1499, 1, 6_499, 6},
		{now + 1500, false, 1500, 2, 6_500, 7},
		{maxMS, false, maxMS - now, 9223372036854771, maxMS, 9223372036854776},
	} {
		if got := Expired(c.deadline, now); got != c.expired {
			t.Errorf("Expired(%d) = %v", c.deadline, got)
		}
		for _, q := range []struct {
			name string
			f    func(deadline, now int64) int64
			want int64
		}{
			{"RemainingMS", RemainingMS, c.pttl},
			{"RemainingSeconds", RemainingSeconds, c.ttl},
			{"ExpireTimeMS", ExpireTimeMS, c.pexpireTime},
			{"ExpireTimeSeconds", ExpireTimeSeconds, c.expTime},
		} {
			if got := q.f(c.deadline, now); got != q.want {
				t.Errorf("%s(%d, %d) = %d, want %d", q.name, c.deadline, now, got, q.want)
			}
		}
	}
}

// The bounds are those of Redis 8 for HEXPIRE and the like.
func TestFieldDeadline(t *testing.T) {
	const now = 1_700_000_000_000
	for _, c := range []struct {
		n    int64
		unit Unit
		base Base
		want int64
		err  error
	}{
		{10, Seconds, FromNow, now + 10_000, nil},
		{10, Milliseconds, FromNow, now + 10, nil},
		{0, Seconds, FromNow, now, nil},
		{0, Milliseconds, Absolute, past, nil},
		{1, Seconds, Absolute, 1000, nil},
		{-1, Seconds, FromNow, 0, ErrNegative},
		{-1, Milliseconds, Absolute, 0, ErrNegative},
		{MaxField, Milliseconds, Absolute, MaxField, nil},
		{MaxField + 1, Milliseconds, Absolute, 0, ErrInvalidTimestamp},
		{MaxField - now, Milliseconds, FromNow, MaxField, nil},
		{MaxField - now + 1, Milliseconds, FromNow, 0, ErrInvalidTTL},
		{MaxField / 1000, Seconds, Absolute, MaxField / 1000 * 1000, nil},
		{MaxField/1000 + 1, Seconds, Absolute, 0, ErrInvalidTimestamp},
		{math.MaxInt64, Milliseconds, FromNow, 0, ErrInvalidTTL},
		{math.MaxInt64, Seconds, Absolute, 0, ErrInvalidTimestamp},
	} {
		got, err := FieldDeadline(now, c.n, c.unit, c.base)
		if got.At != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%d of %d from %d: %v, %v; want %d, %v", c.n, c.unit, c.base, got,
				err, c.want, c.err)
		}
	}
}

func TestCeilSeconds(t *testing.T) {
	for ms, want := range map[int64]int64{Missing: Missing, Persistent: Persistent, 0: 0, 1: 1,
		999: 1, 1000: 1, 1001: 2, MaxField: 70368744178} {
		if got := CeilSeconds(ms); got != want {
			t.Errorf("%d ms: %d, want %d", ms, got, want)
		}
	}
}
