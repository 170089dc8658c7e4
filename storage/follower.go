package storage

import (
	"errors"
	"math"
	"sync/atomic"
)

// A store of a replicated server is a leader's or a follower's; one that is alone is a leader's. A follower's has
// what its leader did, and decides nothing by itself: it logs nothing, and removes nothing. What is due is
// absent for readers all the same, and stays where it is until the leader's removal comes: so whoever is the leader when it is
// removed has it to tell of, once (outbox.go). At rest are
//
//   - removals by look-ups (Txn.live), by the reaper and the window, and after a step back of the clock (stepBack),
//   - records of the time (logTime), of the guard of the clock (guard.go), and the moves of its end,
//   - the mover of outboxes, and the trimming of their streams,
//   - deadlines that a policy has follow reads.
//
// Checkpoints, loaders, eviction, compaction and defragmentation go on: they are about this server's disk and
// memory.
//
// The role changes while all shards are locked. So all that could log or remove looks at the role with its shard
// locked, and a batch is wholly from before the change or does not exist.
type follower struct {
	on atomic.Bool
	// applied is the LSN up to which memory has what the log has.
	applied atomic.Uint64
}

// ErrFollower: the store is a follower's, which only its leader changes.
var ErrFollower = errors.New("storage: the store is a follower's")

// errFollowerChanged ends a store whose memory has what its log has not.
var errFollowerChanged = errors.New("storage: a transaction has changed a follower's store")

// SetFollower changes the store's role. It locks the whole keyspace, as BeginAll does, and is for the goroutine
// that begins transactions (the server's loop), outside of any. None that writes over several transactions may be under way, nor
// a global one that needs this goroutine to end.
//
// Who becomes the leader removes what is due by now, and tells of it. Its time goes on from the newest instant that
// the store has seen: if the clock is behind that, as after a step back.
func (s *Store) SetFollower(on bool) {
	t := s.NewTxn()
	s.BeginAll(t)
	s.shown.mu.Lock()
	if on {
		s.follower.applied.Store(s.log.End())
	}
	s.follower.on.Store(on)
	s.shown.mu.Unlock()
	t.End()
	s.pauseReaper()
	if !on {
		s.guard.foreign.Store(true)
		s.wake(1) // the reaper slept
		s.outbox.mover.wake()
		s.now() // begins stepBack, if the clock is behind
	}
}

// Follower reports whether the store is a follower's.
func (s *Store) Follower() bool { return s.follower.on.Load() }

// Shown is the LSN that a reply depends on if it shows what the whole store has: the log's end, or of a follower's log what
// is applied. What stands behind that is in nobody's view yet.
func (s *Store) Shown() uint64 {
	if s.Follower() {
		return s.follower.applied.Load()
	}
	return s.log.End()
}

// pauseReaper has the reaper run, unless it is turned off or the store is a follower's.
func (s *Store) pauseReaper() { s.reaper.Pause(s.passive.Load() || s.Follower()) }

// hides reports whether nothing is left of a follower's key, which has something due, for readers.
func (t *Txn) hides(p *part, c cell) bool {
	now := t.instant(p, c)
	if d := p.deadline(c); d != 0 && d <= now {
		return true
	}
	o := p.objectOf(c)
	return o != nil && o.val.LenAt(now) == 0
}

// withoutDue is a value as a follower's readers see it: without the elements that are due. That is a copy, which
// is kept until the value changes or another element is due.
func (o *Object) withoutDue(now int64) *Object {
	if !o.elementDue(now) {
		return o
	}
	if v := o.side.visible; v != nil {
		if next := v.val.Earliest(); next == 0 || next > now {
			return v
		}
	}
	v := *o
	v.side, v.val = nil, o.val.Clone()
	v.val.Due(now, math.MaxInt, func([]byte, []byte, int64) {})
	o.side.visible = &v
	return &v
}
