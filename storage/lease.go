package storage

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"keyp/storage/object"
	"keyp/ttl"
)

// A lease gives its owner the right to use something until a deadline. Its value has the owner and
// the token (object.Lease). The deadline of the lease is the deadline of its key, less its delay.
// So a lease expires, is stored, and moves with guarded time as any key.
//
//	granted                     deadline of the lease     deadline of the key
//	   │            held             │         delay             │      free
//	   └─────────────────────────────┴───────────────────────────┴──────────►
//
// # Tokens
//
// Tokens come from one counter, so that each token is larger than all earlier ones, whatever
// happens to keys. The counter is in memory. A reservation is a number among the server's own data
// that no token exceeds. The batch with a token contains the reservation, or a batch before it
// does. The reservation is in the shard of the lease's key, so a grant locks no further shard. It
// is far enough ahead that few grants write one. After a start the counter continues after the
// largest reservation.
//
// It also continues after the present microsecond of Unix time. That is for data that are older
// than they should be: an old copy of the directory, or the remains of a log that was not synced
// before a power failure. There are fewer grants than microseconds. So tokens stay above those that
// were granted after the copy, if the clock is right. RESTORE moves the counter past the token of a
// lease that it brings.

// leaseTokens is the counter.
type leaseTokens struct {
	s     *Store // constant
	last  atomic.Uint64
	shard []tokenReservation
}

// tokenReservation is the reservation of a shard. The shard's lock guards upTo.
type tokenReservation struct {
	key  Key // constant
	upTo uint64
}

const (
	// leaseTokensKey with a shard's tag is the key of a reservation.
	leaseTokensKey = "lease.tokens{"
	// tokensAhead is how many tokens are reserved at a time.
	tokensAhead = 1 << 16
	// restoredTokens is how many additional tokens are skipped when a backup is restored.
	restoredTokens = 1 << 32
	// maxTokenFromOutside bounds the value that clocks and payloads may give the counter. So tokens
	// stay exact in Lua's numbers, even if a clock is far ahead or a payload is forged. As a time
	// it is in the year 2112.
	maxTokenFromOutside = 1 << 52
)

// start sets the counter. Reservations of another number of shards count, and stay.
func (l *leaseTokens) start() error {
	s := l.s
	for i := range s.shards {
		l.shard = append(l.shard, tokenReservation{key: s.SystemKey(leaseTokensKey + s.TagOf(i) + "}")})
	}
	l.last.Store(uint64(max(0, min(s.clock.Now(), maxTokenFromOutside/1000)) * 1000))
	if s.options.ReadOnly {
		return nil
	}
	var names []string
	err := s.WalkSystem(func(name []byte, _ object.Type) bool {
		if strings.HasPrefix(string(name), leaseTokensKey) {
			names = append(names, string(name))
		}
		return true
	})
	if err != nil || len(names) == 0 {
		return err
	}
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	t.NoTouch = true // time is not known yet
	for _, name := range names {
		l.passReservation(t, s.SystemKey(name))
	}
	return nil
}

// passReservation moves the counter past a reservation.
func (l *leaseTokens) passReservation(t *Txn, k Key) {
	n, err := readReservation(t, k)
	if err != nil {
		l.s.options.Logger.Error("a reservation of leases' tokens is damaged: tokens go on behind the others and the clock", "name", strconv.Quote(string(k.Name)), "error", err)
	}
	l.last.Store(max(l.last.Load(), n))
}

// resume comes when the store becomes a leader's: the counter continues after the reservations of
// the previous leader. The transaction has all shards locked.
func (l *leaseTokens) resume(t *Txn) {
	for i := range l.shard {
		r := &l.shard[i]
		if p, c := t.look(r.key); t.s.resident(r.key) && (p == nil || !exists(c)) {
			continue // nothing is reserved
		}
		l.passReservation(t, r.key)
	}
}

// raise moves the counter past a token that may come from elsewhere.
func (l *leaseTokens) raise(token uint64) {
	token = min(token, maxTokenFromOutside)
	for last := l.last.Load(); last < token && !l.last.CompareAndSwap(last, token); last = l.last.Load() {
	}
}

// passBackup moves the counter past all tokens that may have been granted since a backup was made.
// instant is when the backup was made, in Unix ms. It counts the tokens that were reserved then,
// one for each microsecond since, and restoredTokens in case the clock is wrong.
func (l *leaseTokens) passBackup(instant int64) error {
	t := l.s.NewTxn()
	l.s.BeginAll(t)
	defer t.End()
	r := &l.shard[0]
	if err := t.Load(r.key); err != nil {
		return err
	}
	since := uint64(min(max(0, l.s.clock.Now()-instant), maxTokenFromOutside/1000)) * 1000
	r.upTo = max(l.last.Load(), min(l.last.Load()+since+restoredTokens, maxTokenFromOutside))
	t.SetString(r.key, strconv.AppendUint(nil, r.upTo, 10), ttl.Deadline{}, Event{})
	l.last.Store(r.upTo)
	return nil
}

func readReservation(t *Txn, k Key) (uint64, error) {
	if err := t.Load(k); err != nil {
		return 0, err
	}
	item, ok := t.Peek(k)
	if !ok {
		return 0, ErrCorrupt
	}
	text, err := item.String()
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(text), 10, 64)
}

// next gives a token for a lease of a key, and reserves more if none are left for its shard. It
// panics if the data file cannot be read. So nothing that depends on the token may be changed
// before the call.
func (l *leaseTokens) next(t *Txn, k Key) uint64 {
	token, r := l.last.Add(1), &l.shard[t.s.shardOf(k.Slot)]
	if token > r.upTo {
		if err := t.Load(r.key); err != nil && !errors.Is(err, ErrCorrupt) {
			panic(fmt.Errorf("storage: tokens cannot be reserved: %w", err))
		}
		upTo := token + tokensAhead - 1
		t.SetString(r.key, strconv.AppendUint(nil, upTo, 10), ttl.Deadline{}, Event{})
		r.upTo = upTo
	}
	return token
}

// arriving returns the value that a key gets when a value comes from elsewhere: by COPY, RENAME,
// MOVE or RESTORE. A lease gets a token of its own, since a key's tokens only grow, and none is
// below the one that the lease had elsewhere. The owner learns the token by asking again.
func (t *Txn) arriving(k Key, v object.Value) object.Value {
	l, ok := v.(*object.Lease)
	if !ok {
		return v
	}
	t.s.leases.raise(l.Token)
	return &object.Lease{Owner: bytes.Clone(l.Owner), Token: t.s.leases.next(t, k), Delay: l.Delay}
}

// Lease is the lease of a key at the instant of a transaction. Owner is valid until its next
// change.
type Lease struct {
	Owner    []byte
	Token    uint64
	Delay    int64 // ms
	Deadline int64 // Unix ms, until when it is held; 0: until somebody ends it
	Held     bool  // the deadline has not come; otherwise the key is not free yet
}

// FreeAt is when a lease's key is free if nobody does anything (Unix ms), 0: never.
func (l *Lease) FreeAt() int64 {
	if l.Deadline == ttl.None {
		return ttl.None
	}
	return l.Deadline + l.Delay
}

// LeaseOf gives the lease of an item; false if that is something else.
func (t *Txn) LeaseOf(item Item) (Lease, bool) {
	v, ok := item.Value().(*object.Lease)
	if !ok {
		return Lease{}, false
	}
	l := Lease{Owner: v.Owner, Token: v.Token, Delay: v.Delay, Held: true}
	if d := item.Deadline(); d != ttl.None {
		l.Deadline = d - v.Delay
		l.Held = t.now < l.Deadline
	}
	return l, true
}

// Lease finds the lease of a key; false for a missing or expired key, ErrWrongType for a key of
// another type.
func (t *Txn) Lease(k Key) (l Lease, ok bool, err error) {
	item, ok := t.Peek(k)
	if !ok {
		return l, false, nil
	}
	if l, ok = t.LeaseOf(item); !ok {
		return l, false, ErrWrongType
	}
	t.touch(k)
	return l, true, nil
}

// GrantLease makes a lease of a missing key, which is held until a deadline (Unix ms) that counts
// from now, and returns its token. Policies do not decide about it.
func (t *Txn) GrantLease(k Key, owner []byte, deadline, delay int64, ev Event) (token uint64) {
	token = t.s.leases.next(t, k)
	v := &object.Lease{Owner: bytes.Clone(owner), Token: token, Delay: delay}
	t.install(k, v, ttl.In(deadline+delay), t.createdAt(deadline+delay), t.s.firstAccess(t.now))
	t.Notify(k, ev)
	return token
}

// ExtendLease sets another deadline (Unix ms), counted from now, for a lease, which must exist.
func (t *Txn) ExtendLease(k Key, deadline int64, ev Event) {
	p, sl, c := t.live(k, false)
	deadline += p.objectOf(*c).val.(*object.Lease).Delay
	t.changeDeadline(p, sl, c, k, ttl.In(deadline), t.createdAt(deadline))
	t.Notify(k, ev)
}
