package linear

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// apart is a group whose members' clocks are hours apart.
//
// The group's time is that of the founder's clock, whichever member leads. After a failover it may
// be some ms behind, and the test does not know how many. So before and after each operation the
// test asks the leader for its time, over the same connection. So one process replies each time,
// and its time never goes back. Each reply must be near the time of the founder's clock, and so
// cannot come from another member's clock.
type apart struct {
	t      *testing.T
	offset int64 // of the founder's clock from this machine's, in ms
	wrong  sync.Once
}

const (
	// apartBy is the difference between clocks. It is longer than lifetime: if a member used its
	// own clock, and that is ahead, keys with that lifetime would expire too early.
	apartBy  = 3 * time.Hour
	lifetime = time.Hour
	// standing is a key with a deadline that no test reaches. The leader's time is this deadline
	// minus the remaining time.
	standing    = "standing"
	standingDue = 4_102_444_800_000
	// roundingMost is the largest sum, in ms, by which rounding may set a group's time ahead over
	// the failovers of a history.
	roundingMost = 20
)

// newApart draws the member whose clock is ahead and the one whose clock is behind. It returns the
// arguments of the members, of which the first one founds the group. A member that has just started
// serves no data until it knows the group's time.
func newApart(t *testing.T, rng *rand.Rand) (a *apart, args [][]string) {
	a = &apart{t: t}
	for i, by := range rng.Perm(3) {
		offset := int64(by-1) * apartBy.Milliseconds()
		if i == 0 {
			a.offset = offset
		}
		args = append(args, []string{"--debug-clock-offset", fmt.Sprint(offset),
			"--replica-serve-stale-data", "no"})
	}
	return a, args
}

// begin sets the key that shows the time.
func (a *apart) begin(g *members.Group) {
	if err := g.Client().Do(ctx, "SET", standing, 1, "PXAT", standingDue).Err(); err != nil {
		a.t.Fatal(err)
	}
}

// latest returns the latest time that the group may have reached.
func (a *apart) latest(at time.Time) int64 { return at.UnixMilli() + a.offset + roundingMost }

// now asks the leader for its time. ok is false if the leader does not reply. The time may be ahead
// of the founder's clock only by the change that a failover may cause. It may be behind only by the
// time that a message may take. Clocks are apart by far more.
func (a *apart) now(conn *redis.Conn) (ms int64, ok bool) {
	asked := time.Now()
	left, err := conn.Do(ctx, "PTTL", standing).Int64()
	if err != nil {
		return 0, false
	}
	ms = standingDue - left
	least := asked.Add(-await.Bound).UnixMilli() + a.offset
	if most := a.latest(time.Now()); left < 0 || ms < least ||
		ms > most+time.Second.Milliseconds() {
		a.wrong.Do(func() {
			a.t.Errorf("%s has %d ms left, so a leader's time is %v ahead of the group's", standing,
				left, time.Duration(ms-most)*time.Millisecond)
		})
	}
	return ms, true
}

// ledBy has the first and the last time at which a call can have run, by the leader's clock. Both
// are 0 if the leader was not asked.
type ledBy struct{ from, to int64 }

func (l ledBy) is() bool { return l.from != 0 }

// ask sends an operation, and returns true if it has done so. It does not send the operation if it
// needs the leader's time and the server does not lead. known is the time that the leader last
// reported over this connection, or 0.
func (c *roaming) ask(conn *redis.Conn, op *call,
	known *int64) (o outcome, from, to time.Time, asked bool) {
	a := c.f.apart
	if a != nil && *known == 0 {
		if *known, asked = a.now(conn); !asked {
			return o, from, to, false
		}
	}
	op.ledBy.from = *known
	from = time.Now()
	o = c.send(conn, *op)
	to = time.Now()
	if a != nil {
		op.ledBy.to = a.latest(to)
		if ms, ok := a.now(conn); ok {
			op.ledBy.to, *known = ms, ms
		}
	}
	return o, from, to, true
}

// lives returns the time to live of the counter's key and of the keys that probes set, or 0 for no
// deadline.
func (f *failovers) lives() time.Duration {
	if f.apart == nil {
		return 0
	}
	return lifetime
}
