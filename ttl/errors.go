package ttl

import (
	"errors"
	"fmt"
)

// Errors of arguments. They leave the key unchanged.
var (
	// ErrInvalidTTL is a time to live that no deadline can express. It overflows 64 bits of
	// milliseconds, or is zero or negative where the command needs a future. The reply is "invalid
	// expire time in '<command>' command".
	ErrInvalidTTL = errors.New("invalid TTL value")

	// ErrInvalidTimestamp is the same error for an absolute time. errors.Is reports it as
	// ErrInvalidTTL too, since the reply is the same.
	ErrInvalidTimestamp = fmt.Errorf("invalid timestamp: %w", ErrInvalidTTL)

	// ErrNegative is a negative time for FieldDeadline. The text is Redis's.
	ErrNegative = errors.New("invalid expire time, must be >= 0")

	// ErrConditionNX is NX together with XX, GT or LT. The text is Redis's.
	ErrConditionNX = errors.New("NX and XX, GT or LT options at the same time are not compatible")

	// ErrConditionGTLT is GT together with LT. The text is Redis's.
	ErrConditionGTLT = errors.New("GT and LT options at the same time are not compatible")
)
