package ttl

// Transaction is the part of the store that a Manager needs: one transaction, in which K names a
// key. A key that is missing or expired does not exist.
type Transaction[K any] interface {
	// Now is the instant of the transaction in Unix milliseconds.
	Now() int64

	// Deadline is the deadline of key, None without one; false if key does not exist. It
	// does not count as an access.
	Deadline(key K) (deadline int64, exists bool)

	// Expire gives key a deadline, which is not None, in place of any other, and deletes the
	// key when the deadline has passed. It returns false if key does not exist, and when
	// cond forbids it.
	Expire(key K, deadline Deadline, cond Condition) bool

	// Persist removes the deadline of key; false if key does not exist or has none.
	Persist(key K) bool
}

// Manager answers the TTL commands within a transaction, so each of its methods is one step.
// It has no state: a command makes one where it needs it.
type Manager[K any] struct {
	txn Transaction[K]
}

// NewManager returns a Manager over txn.
func NewManager[K any](txn Transaction[K]) Manager[K] { return Manager[K]{txn} }

// SetExpire gives key a time to live, counted from now: 1 if done, 0 if the key does not
// exist or cond forbids it. Zero or less deletes the key, which is also 1. Errors of the
// arguments come before anything is looked up: those of Condition.Check, and ErrInvalidTTL
// if the deadline overflows.
func (m Manager[K]) SetExpire(key K, n int64, unit Unit, cond Condition) (int, error) {
	return m.set(key, n, unit, FromNow, cond)
}

// SetExpireAt is SetExpire with a Unix timestamp. ErrInvalidTimestamp if the deadline
// overflows.
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

// GetTTL is the remaining time in seconds, rounded to the nearest; Persistent or
// Missing.
func (m Manager[K]) GetTTL(key K) int64 { return m.query(key, RemainingSeconds) }

// GetPTTL is the remaining time in milliseconds, Persistent or Missing.
func (m Manager[K]) GetPTTL(key K) int64 { return m.query(key, RemainingMS) }

// GetExpireTime is the deadline as a Unix timestamp in seconds, rounded to the
// nearest; Persistent or Missing.
func (m Manager[K]) GetExpireTime(key K) int64 { return m.query(key, ExpireTimeSeconds) }

// GetPExpireTime is the deadline in Unix milliseconds, Persistent or Missing.
func (m Manager[K]) GetPExpireTime(key K) int64 { return m.query(key, ExpireTimeMS) }

// Persist removes the deadline of key: 1 if it had one, 0 if not or if the key
// does not exist.
func (m Manager[K]) Persist(key K) int { return count(m.txn.Persist(key)) }

// query is answer(deadline, now) for an existing key.
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
