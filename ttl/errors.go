package ttl

import (
	"errors"
	"fmt"
)

// Errors of arguments. The key is as it was.
var (
	// ErrInvalidTTL is a time to live that no deadline can express: it overflows
	// 64 bits of milliseconds, or is zero or negative where the command needs a
	// future. Clients are told "invalid expire time in '<command>' command".
	ErrInvalidTTL = errors.New("invalid TTL value")

	// ErrInvalidTimestamp is the same for an absolute time. It is an ErrInvalidTTL
	// too (errors.Is), because clients are told the same.
	ErrInvalidTimestamp = fmt.Errorf("invalid timestamp: %w", ErrInvalidTTL)

	// ErrNegative is a negative time where there is none in the past. The text is
	// Redis's.
	ErrNegative = errors.New("invalid expire time, must be >= 0")

	// ErrConditionNX is NX together with XX, GT or LT. The text is Redis's.
	ErrConditionNX = errors.New("NX and XX, GT or LT options at the same time are not compatible")

	// ErrConditionGTLT is GT together with LT. The text is Redis's.
	ErrConditionGTLT = errors.New("GT and LT options at the same time are not compatible")
)

// Errors of stored deadlines, given by a Keyspace. The key itself is fine and
// counts as persistent, so that one bad entry costs one deadline and no data.
var (
	// ErrTTLNotFound says that a key claims a deadline that is stored nowhere.
	ErrTTLNotFound = errors.New("TTL not found for key")

	// ErrTTLCorrupted says that a key's deadline is stored but can't be read.
	ErrTTLCorrupted = errors.New("TTL metadata corrupted")
)
