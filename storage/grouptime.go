package storage

import (
	"sync/atomic"

	"keyp/storage/clockguard"
)

// Members of a group have one time, whichever of them leads, and however far apart their wall
// clocks are. It is the leader's store time, and each message of the leader contains it.
//
//   - A follower's time is the last time that the leader sent, plus the time since then by a clock
//     that nobody sets (boot time). So it is behind the leader's by the time that the message took.
//     That is more than this machine's clock can gain until the next message, so no follower shows
//     a key as gone before the leader does. The time continues without a leader. No step of this
//     machine's wall clock changes it.
//   - If the leader's wall clock is set back by less than a second, the leader's time stands still
//     for that long. A follower learns of this with the next heartbeat. Until then it is ahead by
//     up to a tick (40 ms).
//   - A member that becomes the leader continues from the group's time. If its wall clock differs
//     from that by at most a second, its time then follows the wall clock: it stands still for the
//     difference, or jumps ahead by it. Otherwise the guard of the clock begins (guard.go), whether
//     the wall clock is ahead or behind: the group's time continues with boot time.
//   - If the leader's wall clock is set back by more than a second (clockguard.StepTolerance), the
//     group's time does not follow it: the guard begins, too. That does not apply if the guard is
//     turned off.
//
// A member that has started, and has heard from no other member yet, does not know the group's
// time. Its readers get the reading of its wall clock. It has readers at that time only with
// replica-serve-stale-data. The reading is stored in guess, but does not become the store's time. A
// member may be elected before it has heard the time, as after a start of all members. Then its
// time begins as that of a server that is alone.
type groupTime struct {
	known atomic.Bool
	lead  atomic.Int64 // by how much the group's time is ahead of boot time, at a follower
	// guess is the newest reading of the wall clock that readers got as the group's time.
	guess atomic.Int64
	// ahead: the last round of housekeeping has found the store's time ahead of the leader's.
	ahead atomic.Bool
}

// follows reports whether the store's time is the group's time that other members send. That is the
// case for a follower's store in a group.
func (s *Store) follows() bool { return s.options.Member && s.Follower() }

// sentTime returns the group's time at a follower. If it does not know that, it returns the newest
// instant of the store.
func (s *Store) sentTime() int64 {
	if !s.groupTime.known.Load() {
		return s.instant.Load()
	}
	return s.clock.Boot() + s.groupTime.lead.Load()
}

// guessTime returns the time for readers of a follower that has heard from no other member yet. It
// notes that time in guess.
func (s *Store) guessTime() int64 {
	now := max(s.clock.Now(), s.instant.Load())
	RaiseTo(&s.groupTime.guess, now)
	return now
}

// FollowTime sets a follower's time to the one that its leader has sent, in Unix ms. Like
// AdviseTime, it takes no lock.
func (s *Store) FollowTime(at int64) {
	if s.follows() {
		s.setGroupTime(at)
	}
}

// AdviseTime sets the time of a follower that does not know the group's time. at is the time that
// another member takes for it.
func (s *Store) AdviseTime(at int64) {
	if s.follows() && !s.groupTime.known.Load() {
		s.setGroupTime(at)
	}
}

func (s *Store) setGroupTime(at int64) {
	g := &s.groupTime
	g.lead.Store(at - s.clock.Boot())
	if g.known.Swap(true) {
		return
	}
	if max(g.guess.Load(), s.instant.Load()) > at {
		s.goBackground(s.returnToLeader)
	}
}

// KnownTime returns the group's time as this member knows it, in Unix ms; 0 if it does not know it.
// At the leader it returns the newest instant that was asked for. It takes no lock.
func (s *Store) KnownTime() int64 {
	switch {
	case !s.follows():
		return s.instant.Load()
	case s.groupTime.known.Load():
		return s.sentTime()
	}
	return 0
}

// GroupTime returns the group's time as this member knows it, in Unix ms. known is false if it does
// not know it.
func (s *Store) GroupTime() (at int64, known bool) {
	if s.follows() && !s.groupTime.known.Load() {
		return 0, false
	}
	return s.now(), true
}

// returnToLeader sets the time of a follower back if it is ahead of the leader's. Then the follower
// may show keys and elements again that it has hidden.
func (s *Store) returnToLeader() {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	if !s.follows() || s.quit.Err() != nil {
		return
	}
	was, now := max(s.instant.Load(), s.groupTime.guess.Swap(0)), s.sentTime()
	if now < was {
		s.goBack(was, now)
	}
}

// goBack sets a follower's time back. All shards are locked.
func (s *Store) goBack(was, now int64) {
	for _, sh := range s.shards {
		for _, p := range sh.mu.parts {
			if p != nil {
				p.unhideDue(was)
			}
		}
	}
	s.instant.Store(now)
}

// keepGroupTime is called by housekeeping. If two rounds in a row find a follower's time ahead of
// the leader's, it sets the time back. An operator may set the leader's time back, and a follower
// follows the record of that (followTime). But an older message may arrive after that record.
func (s *Store) keepGroupTime() {
	g := &s.groupTime
	ahead := g.known.Load() && s.instant.Load()-s.sentTime() >= clockguard.StepTolerance
	if g.ahead.Swap(ahead) && ahead {
		s.goBackground(s.returnToLeader)
	}
}

// beginFollowing is called before a leader's store becomes a follower's. The follower's time
// continues from now. All shards are locked.
func (s *Store) beginFollowing(now int64) {
	if !s.options.Member {
		return
	}
	s.groupTime.lead.Store(now - s.clock.Boot())
	s.groupTime.known.Store(true)
}
