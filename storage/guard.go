package storage

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"keyp/storage/clockguard"
	"keyp/ttl"
)

// clockGuard is the store's side of package clockguard, which decides what time it is when the wall
// clock may be wrong. While the guard is on, the store's time continues evenly from the last time
// that was trusted: the guarded time. This type stores the guard's Record for the next start, among
// the server's own data, and ends the guard.
//
// While the wall clock is ahead of the guarded time, the store notes the deadlines that are set
// relative to the guarded time (guardnotes.go). If it turns out that the wall clock is right, the
// store's time jumps forward, and these deadlines move by the same amount. That is one transaction
// with all shards locked: its batch contains the moved deadlines, the removal of the notes and the
// new Record. So after a crash either all of it has happened, or nothing.
//
// If the wall clock is behind the guarded time and turns out to be right, no deadline moves.
// Everything that is due is removed, and then the store's time goes back to the wall clock's
// (stepBack).
type clockGuard struct {
	s *Store // constant
	clockguard.Guard

	moved, unmoved atomic.Int64 // see ClockGuard

	notes []Key // of each shard: the hash with its notes; constant
	// foreign: the store's record may be another server's, as this one has become the leader.
	foreign atomic.Bool

	// turn is locked to end the guard or to write the record.
	turn struct {
		sync.Mutex
		written clockguard.Record // the record that the store has
	}
}

// ErrNoClockStep: there is no step of the clock to confirm.
var ErrNoClockStep = errors.New("storage: the clock is not guarded")

// clockKey is the name of the record.
const clockKey = "clock"

// init is called before the data is read. Time stands still until start.
func (g *clockGuard) init(s *Store) {
	g.s = s
	g.Init(clockguard.Options{
		Clock: s.clock, Logger: s.options.Logger, Member: s.options.Member,
		Limit: s.options.ClockJumpLimit, Patience: s.options.ClockJumpPatience,
		Newest: s.instant.Load,
		Begins: func() { s.wake(1) }, // the reaper sleeps by the wall clock
	})
}

// start reads the record. After that the store's time runs.
func (g *clockGuard) start() {
	s := g.s
	for i := range s.shards {
		g.notes = append(g.notes, s.notesKey(i))
	}
	var found clockguard.Record
	if !s.options.ReadOnly {
		found = g.recorded()
	}
	g.turn.written = found
	if s.Follower() {
		// It is the leader's, whose guard may end meanwhile: see succeed.
		found = clockguard.Record{}
	}
	g.Open(found)
}

// succeed is called when the store becomes a leader's. If the previous leader's time was guarded,
// the time of this leader is guarded, too. This store has the noted deadlines, and the guard ends
// as any other. The transaction has all shards locked.
func (g *clockGuard) succeed(t *Txn) {
	s, k := g.s, g.s.SystemKey(clockKey)
	g.foreign.Store(true)
	var found clockguard.Record
	if t.Load(k) == nil { // an error is logged
		found = g.parse(t.Peek(k))
	}
	if s.options.Member && s.groupTime.known.Load() {
		now := max(s.sentTime(), s.instant.Load())
		s.instant.Store(now)
		g.Lead(now, found)
		return
	}
	g.Succeed(found)
}

// endStart is called at the end of a start. If time is not guarded, no notes are left afterwards.
// The log gets the clock's record, which a next start needs, before anything else.
func (g *clockGuard) endStart() {
	if g.s.options.ReadOnly || g.Since() != 0 || g.s.Follower() {
		return
	}
	g.turn.Lock()
	defer g.turn.Unlock()
	g.end(true)
}

// reading returns the store's time as the clocks show it now. It may be before the newest instant.
func (s *Store) reading() int64 {
	if s.follows() {
		return s.sentTime()
	}
	return s.guard.Now()
}

// SetClockGuard changes ClockJumpLimit and ClockJumpPatience.
func (s *Store) SetClockGuard(limit, patience time.Duration) { s.guard.Set(limit, patience) }

// ClockGuard compares the store's time with the wall clock's.
type ClockGuard struct {
	Wall, Now int64 // Unix ms
	Since     int64 // the store's time at which the guard began; 0: it is off
	// How far the wall clock is ahead of the store's time, in ms. Without a guard it is 0, except
	// at a follower that knows the group's time.
	Ahead int64
	// In how many ms the guard ends by itself; 0 without a guard. -1: it does not end as long as
	// another member's clock agrees with it.
	Patience int64
	// Since the start: how often the guard began, how many deadlines moved with a step, and how
	// many that counted from the guarded time do not.
	Began, Moved, Unmoved int64
}

// ClockGuard returns the present times and the state of the guard.
func (s *Store) ClockGuard() ClockGuard {
	g := &s.guard
	c := ClockGuard{Now: s.now(), Wall: s.clock.Now(), Since: g.Since(), Began: g.Began(),
		Moved: g.moved.Load(), Unmoved: g.unmoved.Load()}
	if c.Since != 0 || s.follows() && s.groupTime.known.Load() {
		c.Ahead = c.Wall - c.Now
	}
	c.Patience = g.Left(c.Now)
	return c
}

// Now returns the present instant in Unix ms, as a transaction that begins now would get it.
func (s *Store) Now() int64 { return s.now() }

// Micros returns the wall clock's reading in microseconds, or the guarded time while the guard is
// on. At a member that follows, it returns the group's time.
func (s *Store) Micros() int64 {
	if s.follows() {
		return s.now() * 1000
	}
	return s.guard.Micros()
}

// HoldClock(true) keeps a guard from ending by itself, because another member's clock agrees with
// the group's time. With false no other clock agrees, and the guard may end by itself again.
func (s *Store) HoldClock(on bool) { s.guard.Hold(on) }

// keep is called by housekeeping: it ends the guard, or keeps the record.
func (g *clockGuard) keep() {
	s := g.s
	if s.options.ReadOnly || s.Err() != nil || !g.turn.TryLock() {
		return
	}
	now, since := s.now(), g.Since()
	if s.follows() {
		s.keepGroupTime()
	}
	over := g.Over(since, now)
	if since == 0 || !g.IsBack() && !over {
		defer g.turn.Unlock()
		_ = g.write() // the next round tries again
		return
	}
	s.goBackground(func() {
		defer g.turn.Unlock()
		if s.quit.Err() == nil {
			g.end(over)
		}
	})
}

// ConfirmClock confirms a step of the wall clock. Afterwards the store's time is the wall clock's,
// deadlines that counted from the guarded time have moved, and the log is durable that far. It
// returns ErrNoClockStep if time is not guarded. It also does so if the wall clock is back, since
// the next round of housekeeping then ends the guard.
func (s *Store) ConfirmClock() error {
	g := &s.guard
	g.turn.Lock()
	defer g.turn.Unlock()
	if s.Follower() {
		return ErrFollower
	}
	if s.now(); g.Since() == 0 || g.IsBack() {
		return ErrNoClockStep
	}
	g.end(true)
	return s.log.Settled(s.quit, s.log.End())
}

// end makes time follow the wall clock again. Unless the clock is back, it moves deadlines that
// counted from the guarded time along with it. If the clock is not back and the step is not
// confirmed, it does nothing. turn is locked.
func (g *clockGuard) end(confirmed bool) {
	s, t := g.s, g.s.NewTxn()
	g.loadNoted()
	s.BeginAll(t)
	guarded := g.Since() != 0 // and it stays so
	step, moved := g.Step(), int64(0)
	if guarded && !step.Back && !confirmed {
		// It has begun, or the clock has stepped again, since somebody looked.
		t.End()
		return
	}
	leads := !s.Follower() // otherwise deadlines and notes are the leader's
	returns := guarded && !step.Back && leads && step.By < 0
	if guarded && !step.Back && leads && !returns {
		moved = g.moveNoted(t, step.By)
	}
	if leads {
		g.dropNotes(t)
	}
	// A walk over the keyspace logs no time that follows the wall clock before the log has this
	// transaction.
	s.shown.mu.Lock()
	g.Follow(step, returns)
	if leads {
		g.record(t)
	}
	t.shown = true
	t.End()
	s.shown.mu.Unlock()
	s.log.CommitAsync()
	if guarded && step.Back {
		s.options.Logger.Warn("the wall clock is back: time is no longer guarded", "ms", step.By)
	} else if guarded {
		g.moved.Add(moved)
		s.options.Logger.Warn("the step of the wall clock is taken as right: time follows it", "ms",
			step.By, "deadlines moved", moved)
	}
	s.wake(1) // the reaper slept by the guarded time
	if returns && s.stepped.CompareAndSwap(false, true) {
		s.stepBack()
	}
}

// recorded reads the record and returns it. It returns the zero value if there is none, or if it
// cannot be read.
func (g *clockGuard) recorded() (r clockguard.Record) {
	t, k := g.s.NewTxn(), g.s.SystemKey(clockKey)
	if err := g.s.BeginBeside(t, []Key{k}); err != nil {
		return r // it is logged
	}
	defer t.End()
	return g.parse(t.Peek(k))
}

// parse decodes the record in the value of a key. It returns the zero value if ok is false, or if
// the value cannot be decoded.
func (g *clockGuard) parse(item Item, ok bool) (r clockguard.Record) {
	if !ok {
		return r
	}
	text, err := item.String()
	if err == nil {
		r, err = clockguard.Parse(text)
	}
	if err != nil {
		g.s.options.Logger.Error("what the store had noted of the clock cannot be read",
			"error", err)
	}
	return r
}

// write writes the record if the written one differs too much from the present state. turn is
// locked.
func (g *clockGuard) write() error {
	s := g.s
	if s.Follower() || !g.foreign.Load() && g.Record().Near(g.turn.written) {
		return nil
	}
	t := s.NewTxn()
	if err := s.BeginBeside(t, []Key{s.SystemKey(clockKey)}); err != nil {
		return err // it is logged
	}
	if !s.Follower() {
		g.record(t)
	}
	t.End()
	s.log.CommitAsync()
	return nil
}

// record makes the transaction write the record. The transaction has locked the record's shard.
func (g *clockGuard) record(t *Txn) {
	k, r := g.s.SystemKey(clockKey), g.Record()
	if _ = t.Load(k); r == (clockguard.Record{}) { // an old one that cannot be read is replaced
		t.Delete(k, Event{})
	} else {
		t.SetString(k, r.Bytes(), ttl.Deadline{}, Event{})
	}
	g.turn.written = r
	g.foreign.Store(false)
}
