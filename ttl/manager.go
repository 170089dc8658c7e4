package ttl

import "errors"

// Keyspace is what a Manager needs of the store. Each call is one transaction, or
// part of the caller's if the Keyspace is one.
type Keyspace interface {
	// Now is the instant of the transaction in Unix milliseconds.
	Now() int64

	// Deadline gives the deadline of key, None if it has none. An expired key does
	// not exist; as long as it has not been removed its deadline is told all the
	// same. ErrTTLNotFound and ErrTTLCorrupted say that the key exists and its
	// deadline can't be known; logging and counting that is the Keyspace's part.
	Deadline(key []byte) (deadline int64, exists bool, err error)

	// SetDeadline gives key a deadline in place of any other, removes it when
	// deadline is None, and deletes the key when the deadline is expired. changed
	// is false if the key does not exist, or had no deadline to remove.
	SetDeadline(key []byte, deadline int64) (changed bool, err error)

	// Reap removes all keys that are expired at now.
	Reap(now int64) (removed int, err error)

	// Restore makes the deadlines on disk known again after a restart.
	Restore() (deadlines int, err error)
}

// Manager answers the TTL commands over a Keyspace. It is a value of two words
// without state, made where it is needed and as atomic as its Keyspace: over a
// command's transaction every method is one step. Over a store whose calls are
// transactions of their own this holds for all methods but Expire with a
// condition, which looks before it sets.
//
// A key whose stored deadline is lost or corrupt counts as persistent.
type Manager struct {
	keys Keyspace
}

// NewManager returns a Manager over keys.
func NewManager(keys Keyspace) Manager { return Manager{keys} }

// Expire gives key a deadline (see Deadline, which never gives None) if cond
// allows it: 1 if so, 0 if the key does not exist or cond says no. A deadline
// that is past deletes the key, which is also 1. Errors of the arguments come
// before anything is looked at: ErrInvalidTimestamp for None, and those of
// Condition.Check.
func (m Manager) Expire(key []byte, deadline int64, cond Condition) (int, error) {
	if deadline == None {
		return 0, ErrInvalidTimestamp
	}
	if err := cond.Check(); err != nil {
		return 0, err
	}
	if cond != 0 {
		old, exists, err := m.lookup(key)
		if err != nil || !exists || !cond.Allows(old, deadline) {
			return 0, err
		}
	}
	return count(m.keys.SetDeadline(key, deadline))
}

// SetExpire gives key a time to live in seconds, counted from now: 1 if done, 0
// if the key does not exist. Zero or less deletes the key. ErrInvalidTTL if the
// deadline overflows.
func (m Manager) SetExpire(key []byte, seconds int64) (int, error) {
	deadline, err := Deadline(m.keys.Now(), seconds, Seconds, FromNow)
	if err != nil {
		return 0, err
	}
	return m.Expire(key, deadline, 0)
}

// SetExpireAt is SetExpire with a Unix timestamp in seconds. ErrInvalidTimestamp
// if the deadline overflows.
func (m Manager) SetExpireAt(key []byte, timestamp int64) (int, error) {
	deadline, err := Deadline(m.keys.Now(), timestamp, Seconds, Absolute)
	if err != nil {
		return 0, err
	}
	return m.Expire(key, deadline, 0)
}

// GetTTL is the remaining time in seconds, rounded to the nearest; Persistent or
// Missing.
func (m Manager) GetTTL(key []byte) (int64, error) {
	return m.query(key, RemainingSeconds)
}

// GetPTTL is the remaining time in milliseconds, Persistent or Missing.
func (m Manager) GetPTTL(key []byte) (int64, error) {
	return m.query(key, RemainingMS)
}

// GetExpireTime is the deadline as a Unix timestamp in seconds, rounded to the
// nearest; Persistent or Missing.
func (m Manager) GetExpireTime(key []byte) (int64, error) {
	return m.query(key, ExpireTimeSeconds)
}

// GetPExpireTime is the deadline in Unix milliseconds, Persistent or Missing.
func (m Manager) GetPExpireTime(key []byte) (int64, error) {
	return m.query(key, ExpireTimeMS)
}

// Persist removes the deadline of key: 1 if it had one, 0 if not or if the key
// does not exist.
func (m Manager) Persist(key []byte) (int, error) {
	return count(m.keys.SetDeadline(key, None))
}

// IsExpired reports whether key has passed its deadline and still waits to be
// removed. No command sees such a key; false for a key that lives or is gone.
func (m Manager) IsExpired(key []byte) (bool, error) {
	deadline, _, err := m.lookup(key)
	return Expired(deadline, m.keys.Now()), err
}

// CleanupExpired removes every key that is expired now.
func (m Manager) CleanupExpired() error {
	_, err := m.keys.Reap(m.keys.Now())
	return err
}

// RestoreTTL makes stored deadlines known again after a restart. Keys that
// expired in between do not exist; the next CleanupExpired removes them.
func (m Manager) RestoreTTL() error {
	_, err := m.keys.Restore()
	return err
}

// query is answer(deadline, now) for an existing key.
func (m Manager) query(key []byte, answer func(deadline, now int64) int64) (int64, error) {
	deadline, exists, err := m.lookup(key)
	switch {
	case err != nil:
		return 0, err
	case !exists:
		return Missing, nil
	}
	return answer(deadline, m.keys.Now()), nil
}

// lookup is Keyspace.Deadline with the rule for bad metadata applied.
func (m Manager) lookup(key []byte) (deadline int64, exists bool, err error) {
	deadline, exists, err = m.keys.Deadline(key)
	if errors.Is(err, ErrTTLCorrupted) || errors.Is(err, ErrTTLNotFound) {
		return None, true, nil
	}
	return deadline, exists, err
}

func count(changed bool, err error) (int, error) {
	if err != nil || !changed {
		return 0, err
	}
	return 1, nil
}
