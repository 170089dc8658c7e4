package member

import (
	"sync"
	"time"
)

// skewedFrom is how far a wall clock may be from the group's time, in ms, before a warning is
// logged. Below skewedUntil it counts as right again.
const (
	skewedFrom  = 1000
	skewedUntil = 500
)

// clocksFor is how long a reading of another member's clock is valid.
const clocksFor = 3 * time.Second

// clocks implements consensus.Time, and keeps the known readings of members' wall clocks.
type clocks struct {
	m  *Member
	mu struct {
		sync.Mutex
		readings map[uint64]reading
	}
	warned map[uint64]bool // clocks that are known to be off; only keepHouse uses it
}

// reading is a reading of another member's wall clock.
type reading struct {
	lead int64         // how far it was ahead of this machine's boot time
	at   time.Duration // when, by Mono
}

// Tick, Now, Lead, Advise and Wall implement consensus.Time.
func (c *clocks) Tick() {
	if !c.m.store.Follower() {
		c.m.store.Now()
	}
}

func (c *clocks) Now() int64 { return c.m.store.KnownTime() }

func (c *clocks) Lead(at int64) { c.m.store.FollowTime(at) }

func (c *clocks) Advise(at int64) { c.m.store.AdviseTime(at) }

func (c *clocks) Wall(from uint64, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.readings[from] = reading{at - c.m.o.Clock.Boot(), c.m.o.Clock.Mono()}
}

// of returns how far another member's clock is ahead of the group's time. known is false without a
// recent reading.
func (c *clocks) of(id uint64) (ms int64, known bool) {
	now, known := c.m.store.GroupTime()
	boot := c.m.o.Clock.Boot()
	c.mu.Lock()
	r, heard := c.mu.readings[id]
	c.mu.Unlock()
	return r.lead + boot - now, known && heard && c.m.o.Clock.Mono()-r.at <= clocksFor
}

// own returns how far this machine's clock is ahead of the group's time, in ms; 0 if that is
// unknown.
func (c *clocks) own() int64 {
	now, known := c.m.store.GroupTime()
	if !known {
		return 0
	}
	return c.m.o.Clock.Now() - now
}

// look logs which clocks are off. At the leader, it holds the clock guard while another member's
// clock agrees with the group's time.
func (c *clocks) look() {
	m := c.m
	c.note(m.id.ID, c.own(), "this server's wall clock")
	m.mu.Lock()
	leads, members := m.mu.led, m.mu.members
	m.mu.Unlock()
	held := false
	for _, o := range members {
		if ms, known := c.of(o.ID); known && leads && o.ID != m.id.ID {
			held = held || max(ms, -ms) <= skewedFrom
			c.note(o.ID, ms, "a member's wall clock")
		}
	}
	m.store.HoldClock(held)
}

// note logs that a clock is off, or right again.
func (c *clocks) note(id uint64, ms int64, whose string) {
	switch off := max(ms, -ms); {
	case off > skewedFrom && !c.warned[id]:
		c.m.o.Logger.Warn(whose+
			" differs from the group's time: set it right, or have all machines take their time from one source",
			"member", id, "ahead_ms", ms)
		c.warned[id] = true
	case off < skewedUntil && c.warned[id]:
		c.m.o.Logger.Info(whose+" agrees with the group's time again", "member", id, "ahead_ms", ms)
		delete(c.warned, id)
	}
}
