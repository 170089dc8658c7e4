package ttl

// A Manager runs commands such as EXPIRE and TTL. Transaction has the methods of the store's
// transactions that it needs for that. K names a key. A key that is missing or expired does not
// exist.
type Transaction[K any] interface {
	// Now returns the instant of the transaction in Unix milliseconds.
	Now() int64

	// Deadline returns the deadline of key, or None without one. If key does not exist, exists
	// is false. The call does not count as an access.
	Deadline(key K) (deadline int64, exists bool)

	// Expire replaces the deadline of key by deadline, which is not None. If that has passed,
	// it deletes key. It returns false if key does not exist or cond forbids the change.
	Expire(key K, deadline Deadline, cond Condition) bool

	// Persist removes the deadline of key. It returns false if key does not exist or has none.
	Persist(key K) bool
}

// Manager answers the TTL commands within a transaction, so each of its methods is one step.
// It has no state: a command makes one where it needs it.
type Manager[K any] struct {
	txn Transaction[K]
}

// NewManager returns a Manager over txn.
func NewManager[K any](txn Transaction[K]) Manager[K] { return Manager[K]{txn} }

// SetExpire sets the time to live of key to n units from now. It returns 1 if done, and 0 if key
// does not exist or cond forbids it. Zero or negative n deletes key and also returns 1. Arguments
// are checked first: errors are those of Condition.Check, and ErrInvalidTTL if the deadline
// overflows.
func (m Manager[K]) SetExpire(key K, n int64, unit Unit, cond Condition) (int, error) {
	return m.set(key, n, unit, FromNow, cond)
}

// SetExpireAt does what SetExpire does, with a Unix timestamp. If the deadline overflows, the error
// is ErrInvalidTimestamp.
func (m Manager[K]) SetExpireAt(key K, timestamp int64, unit Unit, cond Condition) (int, error) {
	return m.set(key, timestamp, unit, Absolute, cond)
}

func (m Manager[K]) set(key K, n int64, unit Unit, base Base, cond Condition) (int, error) {
	if err := cond.Check(); err != nil {
		return 0, err
	}
	deadline, err := Resolve(m.txn.Now(), n, unit, base)
	if err != nil {
		return 0, err
	}
	return count(m.txn.Expire(key, deadline, cond)), nil
}

// GetTTL returns the remaining time in seconds, rounded to the nearest; or Persistent or Missing.
func (m Manager[K]) GetTTL(key K) int64 { return m.query(key, RemainingSeconds) }

// GetPTTL returns the remaining time in milliseconds; or Persistent or Missing.
func (m Manager[K]) GetPTTL(key K) int64 { return m.query(key, RemainingMS) }

// GetExpireTime returns the deadline as a Unix timestamp in seconds, rounded to the nearest; or
// Persistent or Missing.
func (m Manager[K]) GetExpireTime(key K) int64 { return m.query(key, ExpireTimeSeconds) }

// GetPExpireTime returns the deadline in Unix milliseconds; or Persistent or Missing.
func (m Manager[K]) GetPExpireTime(key K) int64 { return m.query(key, ExpireTimeMS) }

// Persist removes the deadline of key. It returns 1 if key had one, and 0 if not or if key does not
// exist.
func (m Manager[K]) Persist(key K) int { return count(m.txn.Persist(key)) }

// query returns answer(deadline, now) for an existing key, and Missing for any other.
func (m Manager[K]) query(key K, answer func(deadline, now int64) int64) int64 {
	deadline, exists := m.txn.Deadline(key)
	if !exists {
		return Missing
	}
	return answer(deadline, m.txn.Now())
}

func count(done bool) int {
	if done {
		return 1
	}
	return 0
}
