// Package clockguard decides what time it is for a store whose wall clock may be wrong.
//
// A wall clock that steps forward by mistake would make keys expire before their time. So the guard
// compares it with the time since the machine started (clock.Clock.Boot). Nobody sets that clock,
// and it runs while the machine sleeps. As long as both agree, within Limit between two readings,
// the store's time is the wall clock's. When the wall clock is further ahead, the guard begins: the
// store's time continues with boot time from its last value. That is the guarded time.
//
// The guard ends, and time follows the wall clock again, when
//
//   - the wall clock has come back to within the limit of the guarded time (IsBack), or
//   - the step is confirmed, by an operator or because Patience has passed (Over).
//
// In a group the guard begins in two more cases, both for differences of more than a second. The
// leader's wall clock is set back, or the wall clock of a new leader differs from the group's time.
// It ends when the wall clock is back to within a second. It does not end by itself as long as
// another member's clock agrees with the group's time (Hold).
//
// A Record contains what a start needs: by how much the store's time is ahead of boot time (lead),
// and for which run of the machine. So a start on the same run of the machine sees a step that came
// while the server was down, however long that was. After a restart of the machine nothing
// distinguishes a step from the time for which the machine was off. Then the store takes the wall
// clock as it is. If the guard was on, it continues from the guarded time in the record instead.
//
// The store decides when the guard ends, and what that changes (storage/guard.go).
package clockguard

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
)

const (
	// LookEvery is the least time between two readings of boot time, in ms of the wall clock.
	LookEvery = 1000
	// StepTolerance is the longest step back of the wall clock that the store just waits for, in
	// ms. It is also the largest difference of a member's wall clock that the guard ignores.
	StepTolerance = 1000
)

// Options configure a Guard.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// Limit is the largest step forward that is followed, and Patience how long the guard waits
	// before it takes a step as right. Set changes both.
	Limit, Patience time.Duration
	// Member: the store belongs to a member of a group.
	Member bool
	// Newest returns the newest instant that the store has had, in Unix ms.
	Newest func() int64
	// Begins is called when the guard begins. It may not call the Guard.
	Begins func()
}

// Guard is the guard of one store's time. All methods may be called by any goroutine.
type Guard struct {
	o Options // constant

	limit, patience atomic.Int64 // ms
	// ask is the reading of the wall clock from which on boot time is read.
	ask atomic.Int64
	// since is the store's time at which the guard began; 0: it is off.
	since atomic.Int64
	// ahead is how far the wall clock was ahead of the store's time at the last look; 0 without a
	// guard.
	ahead atomic.Int64
	// held: the guard does not end by itself.
	held atomic.Bool
	// returns: the wall clock, which is behind, was confirmed, and time is about to follow it back.
	returns atomic.Bool
	began   atomic.Int64

	mu struct {
		sync.Mutex
		opening bool  // Open was not called yet: time stands still
		lead    int64 // by how much the store's time is ahead of boot time
	}
}

// Init prepares a Guard. The time that it returns stands still until Open.
func (g *Guard) Init(o Options) {
	g.o = o
	g.Set(o.Limit, o.Patience)
	g.mu.opening = true
	g.ask.Store(math.MinInt64)
}

// Set changes Limit and Patience.
func (g *Guard) Set(limit, patience time.Duration) {
	g.limit.Store(limit.Milliseconds())
	g.patience.Store(patience.Milliseconds())
}

// Open makes the time run, from a record. The zero Record is that of a store without one.
func (g *Guard) Open(found Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.opening = false
	g.goOn(found)
}

// goOn resumes the store's time from a record. mu is locked.
func (g *Guard) goOn(found Record) {
	wall, boot := g.read()
	same := found.boot != 0 && found.boot == g.o.Clock.BootID()
	switch {
	case same && (found.since != 0 || g.limit.Load() > 0):
		g.mu.lead = found.lead
	case found.since != 0:
		g.mu.lead = max(found.at, g.o.Newest()) - boot
	default:
		g.mu.lead = wall - boot
	}
	g.since.Store(found.since)
}

// Succeed is called when the store becomes a leader's. If the record of the previous leader says
// that its time was guarded, the time of this leader is guarded, too.
func (g *Guard) Succeed(found Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if found.since != 0 && g.since.Load() == 0 {
		g.goOn(found)
		g.ask.Store(math.MinInt64)
	}
}

// Lead continues a group's time with this member as the leader, from now. found is the record of
// the previous leader.
func (g *Guard) Lead(now int64, found Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wall, boot := g.read()
	g.mu.lead = now - boot
	by := wall - now
	switch {
	case found.since != 0:
		g.since.Store(found.since)
	case !g.apart(by):
		g.follow(wall, boot)
		return
	default:
		g.begin(now, by)
		g.o.Logger.Warn("this server leads now, and its wall clock is apart from the group's time, which goes on without it: until the clock is right, KEYP.CLOCK CONFIRM, or another member leads",
			"ms", by, "patience", g.patienceText())
	}
	g.ask.Store(math.MinInt64)
	g.ahead.Store(by)
}

// Yield is called when the store becomes a follower's. A member's guard ends then, since the leader
// decides whether time is guarded.
func (g *Guard) Yield() {
	if g.o.Member {
		g.since.Store(0)
		g.ahead.Store(0)
		g.returns.Store(false)
	}
}

// apart reports whether a difference of by ms between the wall clock and the group's time needs the
// guard.
func (g *Guard) apart(by int64) bool {
	return g.limit.Load() > 0 && g.patience.Load() > 0 && max(by, -by) > g.tolerance()
}

// tolerance returns the largest difference from the store's time at which the store follows the
// wall clock again.
func (g *Guard) tolerance() int64 {
	if g.o.Member {
		return min(g.limit.Load(), StepTolerance)
	}
	return g.limit.Load()
}

// begin turns the guard on at now. ahead is how far the wall clock is ahead of the store's time. mu
// is locked.
func (g *Guard) begin(now, ahead int64) {
	g.ahead.Store(ahead)
	g.since.Store(max(now, 1))
	g.ask.Store(math.MinInt64)
	g.began.Add(1)
	g.o.Begins()
}

func (g *Guard) patienceText() string {
	return (time.Duration(g.patience.Load()) * time.Millisecond).String()
}

// read reads both clocks at about one time.
func (g *Guard) read() (wall, boot int64) {
	const apart, tries = 100, 10
	for range tries {
		before := g.o.Clock.Boot()
		wall = g.o.Clock.Now()
		if boot = g.o.Clock.Boot(); boot-before <= apart {
			break
		}
	}
	return wall, boot
}

// Now returns the store's time as the clocks show it, in Unix ms. It may be before the newest
// instant of the store.
func (g *Guard) Now() int64 {
	if wall := g.o.Clock.Now(); wall < g.ask.Load() {
		return wall
	}
	return g.look()
}

// Micros returns the wall clock's reading in microseconds, or the guarded time while the guard is
// on.
func (g *Guard) Micros() int64 { return g.o.Clock.Micros() - g.ahead.Load()*1000 }

// look compares the clocks, and returns the wall clock's reading or the guarded time.
func (g *Guard) look() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.opening {
		return g.o.Newest()
	}
	wall, boot := g.read()
	if g.since.Load() == 0 {
		// The store's time has followed the wall clock since the last look.
		g.mu.lead = max(g.mu.lead, g.o.Newest()-boot)
		ahead, limit, log := wall-boot-g.mu.lead, g.limit.Load(), g.o.Logger
		stepped := limit > 0 && ahead > limit
		if g.o.Member && ahead < 0 && g.apart(ahead) && !g.returns.Load() {
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

// GoesOn reports whether a wall clock that stepped back is not followed, because a group's time
// continues.
func (g *Guard) GoesOn() bool {
	if !g.o.Member || g.limit.Load() == 0 || g.patience.Load() == 0 || g.returns.Load() {
		return false
	}
	g.look()
	return g.since.Load() != 0
}

// follow makes the store's time follow the wall clock. mu is locked.
func (g *Guard) follow(wall, boot int64) {
	g.mu.lead = wall - boot
	g.since.Store(0)
	g.ahead.Store(0)
	g.ask.Store(wall + LookEvery)
}

// SteppedBack restarts the guard from the wall clock, which the store's time follows again.
func (g *Guard) SteppedBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.returns.Store(false)
	if g.since.Load() == 0 {
		g.follow(g.read())
	}
}

// Since returns the store's time at which the guard began, or 0 if it is off.
func (g *Guard) Since() int64 { return g.since.Load() }

// Ahead returns how far the wall clock was ahead of the store's time at the last look, in ms. It
// returns 0 without a guard.
func (g *Guard) Ahead() int64 { return g.ahead.Load() }

// Began returns how often the guard has begun.
func (g *Guard) Began() int64 { return g.began.Load() }

// Hold(true) keeps the guard from ending by itself, because another member's clock agrees with the
// group's time. With false no other clock agrees, and the guard may end by itself again.
func (g *Guard) Hold(on bool) { g.held.Store(on) }

// Left returns in how many ms after now the guard ends by itself: 0 without a guard, -1 if it is
// held.
func (g *Guard) Left(now int64) int64 {
	since := g.since.Load()
	switch {
	case since == 0:
		return 0
	case g.held.Load():
		return -1
	}
	return max(since+g.patience.Load()-now, 0)
}

// Over reports whether a guard that began at since ends at now although the wall clock is not back:
// patience is over, or the guard was turned off.
func (g *Guard) Over(since, now int64) bool {
	return g.limit.Load() == 0 || now-since >= g.patience.Load() &&
		!(g.held.Load() && g.patience.Load() > 0)
}

// IsBack reports whether the wall clock was close enough to the guarded time at the last look.
func (g *Guard) IsBack() bool { return g.limit.Load() > 0 && g.near(g.ahead.Load()) }

// near reports whether the store may follow a wall clock that is ahead of its time by this much, in
// ms, without moving deadlines.
func (g *Guard) near(ahead int64) bool {
	return ahead <= g.tolerance() && (ahead >= -g.tolerance() || !g.o.Member)
}

// Step is the difference between the clocks at one look.
type Step struct {
	By         int64 // how far the wall clock is ahead of the store's time, in ms
	Back       bool  // the store may follow the wall clock without moving deadlines
	wall, boot int64
}

// Step reads the clocks.
func (g *Guard) Step() Step {
	g.mu.Lock()
	defer g.mu.Unlock()
	wall, boot := g.read()
	by := wall - boot - g.mu.lead
	return Step{by, g.near(by), wall, boot}
}

// Follow ends the guard: the time is that of the wall clock at a step, and follows it from then on.
// returns: the wall clock is behind, and the store is about to follow it back.
func (g *Guard) Follow(at Step, returns bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.returns.Store(returns)
	g.follow(at.wall, at.boot)
}
