// Package leases implements leases with fencing tokens.
//
// A lease gives its owner the right to use something until a deadline. Its value has the owner and
// the token (object.Lease). Its deadline is the deadline of its key, less a delay. So a lease is a
// key with a deadline: it is stored and expires as any other key. Like these it does not end early
// if the wall clock jumps forward by mistake (package clockguard).
//
//	granted                     deadline of the lease     deadline of the key
//	   │            held             │         delay             │      free
//	   └─────────────────────────────┴───────────────────────────┴──────────►
//
// # Tokens
//
// Tokens come from one counter, so that each token is larger than all earlier ones, whatever
// happens to keys. The counter is in memory. A reservation is a number, among the server's own
// data, that no token exceeds. It is in the same batch as the token, or in an earlier one. The
// reservation is in the shard of the lease's key, so a grant locks no further shard. It is far
// enough ahead that few grants write one. After a start the counter continues after the largest
// reservation.
//
// After a start the counter is also at least the present microsecond of Unix time. This protects
// against data that is older than it should be. Examples are an old copy of the directory, or the
// remains of a log that was not synced before a power failure. There are fewer grants than
// microseconds. So new tokens are above those that were granted after the copy, if the clock is
// right. RESTORE moves the counter past the token of a lease that it brings.
package leases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"keyp/internal/clock"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// Leases grants the leases of a store. It has the counter of tokens, which also gives the receipts
// of delay queues. It must be among the store's hooks, or be the store's hooks.
type Leases struct {
	storage.NoHooks
	s     *storage.Store // constant
	clock clock.Clock
	log   *slog.Logger
	last  atomic.Uint64 // the token that was given last
	shard []reservation
}

// reservation is the reservation of a shard. The shard's lock guards upTo.
type reservation struct {
	key  storage.Key // constant
	upTo uint64
}

// New returns the leases of a store, for storage.Options.Hooks. The store calls Start before any
// other method.
func New(s *storage.Store) *Leases {
	of := s.Options()
	return &Leases{s: s, clock: of.Clock, log: of.Logger}
}

// In returns the leases of a store. It panics if they are not among its hooks: the store is
// read-only, or was opened without them.
func In(s *storage.Store) *Leases { return s.Hooks().(interface{ leases() *Leases }).leases() }

// leases makes In possible: the hooks of a store are a type that embeds Leases.
func (l *Leases) leases() *Leases { return l }

const (
	// tokensKey with a shard's tag is the key of a reservation.
	tokensKey = "lease.tokens{"
	// tokensAhead is how many tokens are reserved at a time.
	tokensAhead = 1 << 16
	// restoredTokens is how many additional tokens are skipped when a backup is restored.
	restoredTokens = 1 << 32
	// maxTokenFromOutside bounds the value that clocks and payloads may give the counter. So tokens
	// stay exact in Lua's numbers, even if a clock is far ahead or a payload is forged. As a time
	// it is in the year 2112.
	maxTokenFromOutside = 1 << 52
)

// Start sets the counter, once. It also reads the reservations that were made with another number
// of shards, and keeps them.
func (l *Leases) Start(context.Context) error {
	s := l.s
	for i := range s.Shards() {
		l.shard = append(l.shard, reservation{key: s.SystemKey(tokensKey + s.TagOf(i) + "}")})
	}
	l.last.Store(uint64(max(0, min(l.clock.Now(), maxTokenFromOutside/1000)) * 1000))
	var names []string
	err := s.WalkSystem(func(name []byte, _ object.Type) bool {
		if strings.HasPrefix(string(name), tokensKey) {
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

// passReservation moves the counter past a reservation, if there is one.
func (l *Leases) passReservation(t *storage.Txn, k storage.Key) {
	n, err := readReservation(t, k)
	if err != nil {
		l.log.Error("a reservation of leases' tokens is damaged: tokens go on behind the others and the clock",
			"name", strconv.Quote(string(k.Name)), "error", err)
	}
	storage.RaiseTo(&l.last, n)
}

// Leads is called when the store becomes that of a leader. The counter continues after the
// reservations of the previous leader. The transaction has all shards locked.
func (l *Leases) Leads(t *storage.Txn) {
	for i := range l.shard {
		l.passReservation(t, l.shard[i].key)
	}
}

// raise moves the counter past a token that may come from elsewhere.
func (l *Leases) raise(token uint64) {
	token = min(token, maxTokenFromOutside)
	storage.RaiseTo(&l.last, token)
}

// Restored moves the counter past all tokens that may have been granted since the restored backup
// was made. instant is the moment that was restored, in Unix ms. It counts the tokens that were
// reserved then, one for each microsecond since, and restoredTokens in case the clock is wrong.
func (l *Leases) Restored(instant int64) error {
	t := l.s.NewTxn()
	l.s.BeginAll(t)
	defer t.End()
	r := &l.shard[0]
	if err := t.Load(r.key); err != nil {
		return err
	}
	since := uint64(min(max(0, l.clock.Now()-instant), maxTokenFromOutside/1000)) * 1000
	r.upTo = max(l.last.Load(), min(l.last.Load()+since+restoredTokens, maxTokenFromOutside))
	t.SetString(r.key, strconv.AppendUint(nil, r.upTo, 10), ttl.Deadline{}, storage.Event{})
	l.last.Store(r.upTo)
	return nil
}

// readReservation returns the reservation of a key, or 0 if there is none.
func readReservation(t *storage.Txn, k storage.Key) (uint64, error) {
	if err := t.Load(k); err != nil {
		return 0, err
	}
	item, ok := t.Peek(k)
	if !ok {
		return 0, nil
	}
	text, err := item.String()
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(text), 10, 64)
}

// Next returns a token for a lease of a key, or a receipt for a delay queue. It reserves more
// tokens if none are left for the key's shard. It panics if the data file cannot be read. So
// nothing that depends on the token may be changed before the call.
func (l *Leases) Next(t *storage.Txn, k storage.Key) uint64 {
	token, r := l.last.Add(1), &l.shard[l.s.ShardOf(k)]
	if token > r.upTo {
		if err := t.Load(r.key); err != nil && !errors.Is(err, storage.ErrCorrupt) {
			panic(fmt.Errorf("leases: tokens cannot be reserved: %w", err))
		}
		upTo := token + tokensAhead - 1
		t.SetString(r.key, strconv.AppendUint(nil, upTo, 10), ttl.Deadline{}, storage.Event{})
		r.upTo = upTo
	}
	return token
}

// Arriving gives a new token to a lease that comes from elsewhere. The token must be above all
// earlier ones of the key, and above the token that the lease had elsewhere. The owner learns the
// token by asking again. Other values stay unchanged.
func (l *Leases) Arriving(t *storage.Txn, k storage.Key, v object.Value) object.Value {
	from, ok := v.(*object.Lease)
	if !ok {
		return v
	}
	l.raise(from.Token)
	return &object.Lease{Owner: bytes.Clone(from.Owner), Token: l.Next(t, k), Delay: from.Delay}
}
