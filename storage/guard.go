package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"keyp/ttl"
)

// A wall clock that steps forward by mistake would make keys expire before their time. So the store
// compares it with the time since the machine started (clock.Clock.Boot). Nobody sets that clock,
// and it runs while the machine sleeps. As long as both agree, within ClockJumpLimit between two
// looks, the store's time is the wall clock's. When the wall clock is further ahead, the guard
// begins: the store's time continues with boot time from its last value. That is the guarded time;
// the store uses it for everything that depends on time.
//
// The guard ends, and time follows the wall clock again, when
//
//   - the wall clock has come back to within the limit of the guarded time, or
//   - the step is confirmed, by an operator (ConfirmClock) or since ClockJumpPatience is over: then
//     deadlines that counted from the guarded time move by as much as time does (guardnotes.go).
//
// In a group the guard begins in two more cases (grouptime.go): the leader's wall clock is set
// back, or the wall clock of a new leader differs from the group's time, both by more than a
// second. It ends when the wall clock is back to within a second. It does not end by itself as long
// as another member's clock agrees with the group's time. If a wall clock that is behind is
// confirmed, everything that is due is removed, and time goes back to the wall clock (stepBack); no
// deadline moves.
//
// The guard ends in one transaction, with all shards locked. Its batch contains the deadlines, the
// end of the notes and the new record. So after a crash either all of that has happened, or
// nothing.
//
// Boot time is read at most once in lookEvery: now() reads it when the wall clock has reached ask.
//
// A record among the server's own data contains what a start needs: by how much the store's time is
// ahead of boot time (lead), and for which run of the machine. So a start on the same run of the
// machine sees a step that came while the server was down, however long that was. After a restart
// of the machine nothing distinguishes a step from the time for which it was off. Then the store
// takes the wall clock as it is. If the guard was on, it continues from the guarded time in the
// record instead.
type clockGuard struct {
	s *Store // constant

	limit, patience atomic.Int64 // ms
	// ask is the reading of the wall clock from which on boot time is read.
	ask atomic.Int64
	// since is the store's time at which the guard began; 0: it is off. It becomes 0 while all
	// shards are locked.
	since atomic.Int64
	// ahead is how far the wall clock was ahead of the store's time at the last look; 0 without a
	// guard.
	ahead atomic.Int64

	// held: the guard does not end by itself.
	held atomic.Bool
	// returns: the wall clock, which is behind, was confirmed, and time is about to follow it back.
	returns atomic.Bool

	began, moved, unmoved atomic.Int64 // see ClockGuard

	notes []Key // of each shard: the hash with its notes; constant
	// foreign: the store's record may be another server's, as this one has become the leader.
	foreign atomic.Bool

	// turn is locked to end the guard or to write the record.
	turn struct {
		sync.Mutex
		written clockRecord // the record that the store has
	}
	mu struct {
		sync.Mutex
		opening bool  // the record is not read yet: time stands still
		lead    int64 // by how much the store's time is ahead of boot time
	}
}

// ErrNoClockStep: there is no step of the clock to confirm.
var ErrNoClockStep = errors.New("storage: the clock is not guarded")

const (
	// lookEvery is the least time between two readings of boot time, in ms of the wall clock.
	lookEvery = 1000
	// leadTolerance is the largest error of the recorded lead, in ms.
	leadTolerance = 1000
	// clockKey is the name of the record.
	clockKey = "clock"
)

// init is called before the data is read. Time stands still until start.
func (g *clockGuard) init(s *Store) {
	g.s = s
	g.limit.Store(s.options.ClockJumpLimit.Milliseconds())
	g.patience.Store(s.options.ClockJumpPatience.Milliseconds())
	g.mu.opening = true
	g.ask.Store(math.MinInt64)
}

// start reads the record. After that the store's time runs.
func (g *clockGuard) start() {
	s := g.s
	for i := range s.shards {
		g.notes = append(g.notes, s.notesKey(i))
	}
	var found clockRecord
	if !s.options.ReadOnly {
		found = g.recorded()
	}
	g.turn.written = found
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.opening = false
	if s.Follower() {
		found = clockRecord{} // it is the leader's, whose guard may end meanwhile: see succeed
	}
	g.goOn(found)
}

// goOn resumes the store's time from a record.
func (g *clockGuard) goOn(found clockRecord) {
	wall, boot := g.read()
	same := found.boot != 0 && found.boot == g.s.clock.BootID()
	switch {
	case same && (found.since != 0 || g.limit.Load() > 0):
		g.mu.lead = found.lead
	case found.since != 0:
		g.mu.lead = max(found.at, g.s.instant.Load()) - boot
	default:
		g.mu.lead = wall - boot
	}
	g.since.Store(found.since)
}

// succeed is called when the store becomes a leader's. If the previous leader's time was guarded,
// this one's is guarded, too. This store has the noted deadlines, and the guard ends as any other.
// The transaction has all shards locked.
func (g *clockGuard) succeed(t *Txn) {
	g.foreign.Store(true)
	k := g.s.SystemKey(clockKey)
	var found clockRecord
	if t.Load(k) == nil { // an error is logged
		found = g.parse(t.Peek(k))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.s.options.Member && g.s.groupTime.known.Load() {
		g.goOnFrom(max(g.s.sentTime(), g.s.instant.Load()), found.since)
		return
	}
	if found.since != 0 && g.since.Load() == 0 {
		g.goOn(found)
		g.ask.Store(math.MinInt64)
	}
}

// goOnFrom continues the group's time with this member as the leader. since is when the guard of
// the previous leader began, 0 if it had none. g.mu is locked.
func (g *clockGuard) goOnFrom(now, since int64) {
	g.s.instant.Store(now)
	wall, boot := g.read()
	g.mu.lead = now - boot
	by := wall - now
	switch {
	case since != 0:
		g.since.Store(since)
	case !g.apart(by):
		g.follow(wall, boot)
		return
	default:
		g.begin(now, by)
		g.s.options.Logger.Warn("this server leads now, and its wall clock is apart from the group's time, which goes on without it: until the clock is right, KEYP.CLOCK CONFIRM, or another member leads",
			"ms", by, "patience", g.patienceText())
	}
	g.ask.Store(math.MinInt64)
	g.ahead.Store(by)
}

// apart reports whether the guard is needed for a wall clock that is ahead of the group's time by
// by, or behind it if by is negative.
func (g *clockGuard) apart(by int64) bool {
	return g.limit.Load() > 0 && g.patience.Load() > 0 && max(by, -by) > g.tolerance()
}

// tolerance returns the largest difference from the store's time at which the store follows the
// wall clock again.
func (g *clockGuard) tolerance() int64 {
	if g.s.options.Member {
		return min(g.limit.Load(), stepTolerance)
	}
	return g.limit.Load()
}

// begin turns the guard on at now. ahead is how far the wall clock is ahead of the store's time.
// g.mu is locked.
func (g *clockGuard) begin(now, ahead int64) {
	g.ahead.Store(ahead)
	g.since.Store(max(now, 1))
	g.ask.Store(math.MinInt64)
	g.began.Add(1)
	g.s.wake(1) // the reaper sleeps by the wall clock
}

func (g *clockGuard) patienceText() string {
	return (time.Duration(g.patience.Load()) * time.Millisecond).String()
}

// yield is called when the store becomes a follower's. A member's guard ends then, since the leader
// decides whether time is guarded.
func (g *clockGuard) yield() {
	if g.s.options.Member {
		g.since.Store(0)
		g.ahead.Store(0)
		g.returns.Store(false)
	}
}

// goesOn reports whether a wall clock that stepped back is not followed, because a group's time
// continues.
func (g *clockGuard) goesOn() bool {
	if !g.s.options.Member || g.limit.Load() == 0 || g.patience.Load() == 0 || g.returns.Load() {
		return false
	}
	g.look()
	return g.since.Load() != 0
}

// endStart is called at the end of a start. If time is not guarded, no notes are left afterwards.
// The log gets the clock's record, which a next start needs, before anything else.
func (g *clockGuard) endStart() {
	if g.s.options.ReadOnly || g.since.Load() != 0 || g.s.Follower() {
		return
	}
	g.turn.Lock()
	defer g.turn.Unlock()
	g.end(true)
}

// read reads both clocks at about one time.
func (g *clockGuard) read() (wall, boot int64) {
	const apart, tries = 100, 10
	for range tries {
		before := g.s.clock.Boot()
		wall = g.s.clock.Now()
		if boot = g.s.clock.Boot(); boot-before <= apart {
			break
		}
	}
	return wall, boot
}

// reading returns the store's time as the clocks show it now. It may be before the newest instant.
func (s *Store) reading() int64 {
	if s.follows() {
		return s.sentTime()
	}
	if wall := s.clock.Now(); wall < s.guard.ask.Load() {
		return wall
	}
	return s.guard.look()
}

// look compares the clocks, and returns the wall clock's reading or the guarded time.
func (g *clockGuard) look() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.opening {
		return g.s.instant.Load()
	}
	wall, boot := g.read()
	if g.since.Load() == 0 {
		// Since the last look it has followed the wall clock.
		g.mu.lead = max(g.mu.lead, g.s.instant.Load()-boot)
		ahead, limit, log := wall-boot-g.mu.lead, g.limit.Load(), g.s.options.Logger
		stepped := limit > 0 && ahead > limit
		if g.s.options.Member && ahead < 0 && g.apart(ahead) && !g.returns.Load() {
			g.begin(boot+g.mu.lead, ahead)
			log.Warn("the wall clock stepped back: the group's time goes on without it until it is right, KEYP.CLOCK CONFIRM, or another member leads",
				"ms", -ahead, "patience", g.patienceText())
			return boot + g.mu.lead
		}
		if !stepped || g.patience.Load() == 0 {
			if stepped {
				log.Warn("the wall clock stepped forward, and the store's time follows it, as clock-jump-patience is 0",
					"ms", ahead)
			}
			g.follow(wall, boot)
			return wall
		}
		g.begin(boot+g.mu.lead, ahead)
		log.Warn("the wall clock stepped forward by more than clock-jump-limit: keys expire by guarded time until it is back, KEYP.CLOCK CONFIRM, or clock-jump-patience is over",
			"ms", ahead, "patience", g.patienceText())
	}
	g.ahead.Store(wall - boot - g.mu.lead)
	return boot + g.mu.lead
}

// follow makes the store's time follow the wall clock.
func (g *clockGuard) follow(wall, boot int64) {
	g.mu.lead = wall - boot
	g.since.Store(0)
	g.ahead.Store(0)
	g.ask.Store(wall + lookEvery)
}

// steppedBack restarts the guard from the wall clock, which the store's time follows again.
func (g *clockGuard) steppedBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.returns.Store(false)
	if g.since.Load() == 0 {
		g.follow(g.read())
	}
}

// SetClockGuard changes ClockJumpLimit and ClockJumpPatience.
func (s *Store) SetClockGuard(limit, patience time.Duration) {
	s.guard.limit.Store(limit.Milliseconds())
	s.guard.patience.Store(patience.Milliseconds())
}

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
	c := ClockGuard{Now: s.now(), Wall: s.clock.Now(), Began: g.began.Load(), Moved: g.moved.Load(),
		Unmoved: g.unmoved.Load()}
	if c.Since = g.since.Load(); c.Since != 0 {
		c.Ahead = c.Wall - c.Now
		c.Patience = max(c.Since+g.patience.Load()-c.Now, 0)
		if g.held.Load() {
			c.Patience = -1
		}
	} else if s.follows() && s.groupTime.known.Load() {
		c.Ahead = c.Wall - c.Now
	}
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
	return s.clock.Micros() - s.guard.ahead.Load()*1000
}

// HoldClock(true) keeps a guard from ending by itself, because another member's clock agrees with
// the group's time. With false no other clock agrees, and the guard may end by itself again.
func (s *Store) HoldClock(on bool) { s.guard.held.Store(on) }

// keep is called by housekeeping: it ends the guard, or keeps the record.
func (g *clockGuard) keep() {
	s := g.s
	if s.options.ReadOnly || s.Err() != nil || !g.turn.TryLock() {
		return
	}
	now, since := s.now(), g.since.Load()
	if s.follows() {
		s.keepGroupTime()
	}
	over := g.limit.Load() == 0 || now-since >= g.patience.Load() && !(g.held.Load() &&
		g.patience.Load() > 0)
	if since == 0 || !g.isBack() && !over {
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

// isBack reports whether the wall clock was close enough to the guarded time at the last look.
func (g *clockGuard) isBack() bool { return g.limit.Load() > 0 && g.near(g.ahead.Load()) }

// near reports whether the store may follow a wall clock that is ahead of its time by this much, in
// ms, without moving deadlines.
func (g *clockGuard) near(ahead int64) bool {
	return ahead <= g.tolerance() && (ahead >= -g.tolerance() || !g.s.options.Member)
}

// ConfirmClock confirms a step of the wall clock: the store's time is the wall clock's afterwards,
// deadlines that counted from the guarded time have moved, and the log is durable that far.
// ErrNoClockStep: time is not guarded, or no more than until the next round of housekeeping, as the
// wall clock is back.
func (s *Store) ConfirmClock() error {
	g := &s.guard
	g.turn.Lock()
	defer g.turn.Unlock()
	if s.Follower() {
		return ErrFollower
	}
	if s.now(); g.since.Load() == 0 || g.isBack() {
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
	guarded := g.since.Load() != 0 // and it stays so
	g.mu.Lock()
	wall, boot := g.read()
	by := wall - boot - g.mu.lead
	g.mu.Unlock()
	back, moved := g.near(by), int64(0)
	if guarded && !back && !confirmed {
		// It has begun, or the clock has stepped again, since somebody looked.
		t.End()
		return
	}
	leads := !s.Follower() // otherwise deadlines and notes are the leader's
	returns := guarded && !back && leads && by < 0
	if guarded && !back && leads && !returns {
		moved = g.moveNoted(t, by)
	}
	if leads {
		g.dropNotes(t)
	}
	// A walk over the keyspace logs no time that follows the wall clock before the log has this
	// transaction.
	s.shown.mu.Lock()
	g.mu.Lock()
	g.returns.Store(returns)
	g.follow(wall, boot)
	g.mu.Unlock()
	if leads {
		g.record(t)
	}
	t.shown = true
	t.End()
	s.shown.mu.Unlock()
	s.log.CommitAsync()
	if guarded && back {
		s.options.Logger.Warn("the wall clock is back: time is no longer guarded", "ms", by)
	} else if guarded {
		g.moved.Add(moved)
		s.options.Logger.Warn("the step of the wall clock is taken as right: time follows it", "ms",
			by, "deadlines moved", moved)
	}
	s.wake(1) // the reaper slept by the guarded time
	if returns && s.stepped.CompareAndSwap(false, true) {
		s.stepBack()
	}
}

// clockRecord contains the data on the clocks that a start needs.
type clockRecord struct {
	boot  uint64 // the run of the machine
	lead  int64
	since int64
	at    int64 // the guarded time when the record was written; 0 without a guard
}

const clockForm = "%x %d %d %d"

func (r *clockRecord) bytes() []byte {
	return fmt.Appendf(nil, clockForm, r.boot, r.lead, r.since, r.at)
}

// recorded reads the record and returns it. It returns the zero value if there is none, or if it
// cannot be read.
func (g *clockGuard) recorded() (r clockRecord) {
	t, k := g.s.NewTxn(), g.s.SystemKey(clockKey)
	if err := g.s.BeginBeside(t, []Key{k}); err != nil {
		return r // it is logged
	}
	defer t.End()
	return g.parse(t.Peek(k))
}

// parse decodes the record in the value of a key. It returns the zero value if ok is false, or if
// the value cannot be decoded.
func (g *clockGuard) parse(item Item, ok bool) (r clockRecord) {
	if !ok {
		return r
	}
	text, err := item.String()
	if err == nil {
		_, err = fmt.Sscanf(string(text), clockForm, &r.boot, &r.lead, &r.since, &r.at)
	}
	if err != nil {
		g.s.options.Logger.Error("what the store had noted of the clock cannot be read",
			"error", err)
		return clockRecord{}
	}
	return r
}

// current returns the record that the store should have now.
func (g *clockGuard) current() (r clockRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.since.Load()
	if since == 0 && g.limit.Load() == 0 {
		return r
	}
	r = clockRecord{boot: g.s.clock.BootID(), lead: g.mu.lead, since: since}
	if since != 0 {
		r.at = g.s.instant.Load()
	}
	return r
}

// write writes the record if the written one differs too much from the present state. turn is
// locked.
func (g *clockGuard) write() error {
	s, r, was := g.s, g.current(), &g.turn.written
	near := max(r.lead-was.lead, was.lead-r.lead) < leadTolerance
	if s.Follower() || !g.foreign.Load() && r.boot == was.boot && near && r.since == was.since &&
		r.at-was.at < lookEvery {
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
	k, r := g.s.SystemKey(clockKey), g.current()
	if _ = t.Load(k); r == (clockRecord{}) { // an old one that cannot be read is replaced
		t.Delete(k, Event{})
	} else {
		t.SetString(k, r.bytes(), ttl.Deadline{}, Event{})
	}
	g.turn.written = r
	g.foreign.Store(false)
}
