package ttl

import "math"

// None is the deadline of a key that never expires.
const None int64 = 0

// Deadline is a deadline that a command gives to a key or an element. The zero value is none.
type Deadline struct {
	At int64 // Unix milliseconds, or None
	// FromNow means that the deadline counts from the instant of the command. If the clock was
	// wrong at that instant, the deadline is corrected with it.
	FromNow bool
}

// At returns a deadline at an instant in Unix milliseconds that does not count from now. At(None)
// is no deadline.
func At(ms int64) Deadline { return Deadline{At: ms} }

// In returns a deadline at an instant in Unix milliseconds that counts from now.
func In(ms int64) Deadline { return Deadline{At: ms, FromNow: true} }

// past stands for a deadline computed as 0, which would read as None. Both instants are before any
// time that Keyp's clock shows, so they mean the same: expired.
const past int64 = -1

// Replies for a key without a remaining time.
const (
	Persistent int64 = -1 // the key exists and has no deadline
	Missing    int64 = -2 // the key does not exist
)

// Unit is the unit of a command's argument, in milliseconds.
type Unit int64

// The units that commands use.
const (
	Milliseconds Unit = 1
	Seconds      Unit = 1000
)

// Base is what a command's argument counts from.
type Base uint8

// The bases that commands use.
const (
	FromNow  Base = iota // EXPIRE, PEXPIRE, EX, PX
	Absolute             // EXPIREAT, PEXPIREAT, EXAT, PXAT: the Unix epoch
)

// Resolve turns the argument n of the EXPIRE family into a deadline. Zero and negative n are
// allowed and result in a deadline that has already passed. For these commands that means: delete
// the key (see Expired).
//
// The result is never None. If n overflows, the error is ErrInvalidTTL, or ErrInvalidTimestamp for
// Absolute.
func Resolve(now, n int64, unit Unit, base Base) (Deadline, error) {
	if n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return Deadline{}, invalid(base)
	}
	n *= int64(unit)
	if base == FromNow {
		sum := n + now
		if (sum > n) != (now > 0) {
			return Deadline{}, invalid(base)
		}
		n = sum
	}
	if n == None {
		n = past
	}
	return Deadline{At: n, FromNow: base == FromNow}, nil
}

// FutureDeadline does what Resolve does, for SET, GETEX, SETEX and PSETEX. Zero or negative n is an
// error as well. An absolute n may still lie in the past. The caller then stores nothing, because
// the key would be expired at once.
func FutureDeadline(now, n int64, unit Unit, base Base) (Deadline, error) {
	if n <= 0 {
		return Deadline{}, invalid(base)
	}
	return Resolve(now, n, unit, base)
}

// MaxField is the last deadline that a field of a hash may have, in the year 4199.
const MaxField int64 = 1<<46 - 1

// FieldDeadline does what Resolve does, for fields of hashes. For a negative n the error is
// ErrNegative. For a deadline after MaxField it is ErrInvalidTTL or ErrInvalidTimestamp. The
// deadline may lie in the past.
func FieldDeadline(now, n int64, unit Unit, base Base) (Deadline, error) {
	if n < 0 {
		return Deadline{}, ErrNegative
	}
	deadline, err := Resolve(now, n, unit, base)
	if err == nil && deadline.At > MaxField {
		return Deadline{}, invalid(base)
	}
	return deadline, err
}

func invalid(base Base) error {
	if base == Absolute {
		return ErrInvalidTimestamp
	}
	return ErrInvalidTTL
}

// Expired reports whether a key with this deadline no longer exists at now.
func Expired(deadline, now int64) bool {
	return deadline != None && deadline <= now
}

// RemainingMS returns the reply of PTTL for a key that exists. It is the milliseconds until the
// deadline, Persistent without a deadline, or Missing if the key has expired.
func RemainingMS(deadline, now int64) int64 {
	switch {
	case deadline == None:
		return Persistent
	case deadline <= now:
		return Missing
	}
	return deadline - now
}

// RemainingSeconds returns the reply of TTL for a key that exists: RemainingMS in seconds, rounded
// to the nearest, and half a second upwards.
func RemainingSeconds(deadline, now int64) int64 {
	return roundToSeconds(RemainingMS(deadline, now))
}

// ExpireTimeMS returns the reply of PEXPIRETIME for a key that exists. It is the deadline in Unix
// milliseconds, Persistent without a deadline, or Missing if the key has expired.
func ExpireTimeMS(deadline, now int64) int64 {
	switch {
	case deadline == None:
		return Persistent
	case deadline <= now:
		return Missing
	}
	return deadline
}

// ExpireTimeSeconds returns the reply of EXPIRETIME for a key that exists: ExpireTimeMS in seconds,
// rounded to the nearest, and half a second upwards.
func ExpireTimeSeconds(deadline, now int64) int64 {
	return roundToSeconds(ExpireTimeMS(deadline, now))
}

// CeilSeconds turns an answer in milliseconds into one in seconds, rounded up, as the
// commands about fields reply. Persistent and Missing stay unchanged.
func CeilSeconds(ms int64) int64 {
	if ms < 0 {
		return ms
	}
	return (ms + 999) / 1000
}

// roundToSeconds returns ms in seconds, rounded to the nearest. Persistent and Missing stay
// unchanged. To add half a second first would overflow for the latest deadlines.
func roundToSeconds(ms int64) int64 {
	if ms < 0 {
		return ms
	}
	s := ms / 1000
	if ms%1000 >= 500 {
		s++
	}
	return s
}
