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
// The group's time is that of the founder's clock, whichever member leads. A failover may set it
// back by some ms, for the time that the leader's last message took. It is right again when the
// founder leads again, and nothing sets it ahead. Nobody knows that difference. So before and after
// each operation the test asks the leader for its time, over the connection of the operation. That
// is one process, whose time never goes back. Each reply must be near the founder's clock, and so
// not of another member's.
type apart struct {
	t      *testing.T
	offset int64 // of the founder's clock from this machine's, in ms
	wrong  sync.Once
}

const (
	// apartBy is how far clocks are apart: further than lifetime, so that what is to live so long
	// is gone at a member that goes by its own clock, if that is ahead.
	apartBy  = 3 * time.Hour
	lifetime = time.Hour
	// standing is a key with a deadline that no test reaches: the leader's time is that less what
	// is left.
	standing    = "standing"
	standingDue = 4_102_444_800_000
	// Ms by which roundings may set a group's time ahead, over the failovers of a history.
	roundingMost = 20
)

// newApart draws whose clock is ahead and whose behind, and gives the arguments of the members, of
// which the first one founds the group. Who has just started, and has not heard of the group's
// time, shows nothing.
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

// latest is the last instant that the group's time may have reached.
func (a *apart) latest(at time.Time) int64 { return at.UnixMilli() + a.offset + roundingMost }

// now asks for the time of the leader, and says whether that has replied. It is at most what a
// failover may change ahead of the founder's clock, and not further behind than any message may
// take: clocks are apart by far more.
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

// ledBy are the first and the last instant at which a call can have run, by the time of the leader;
// 0: it has not been asked.
type ledBy struct{ from, to int64 }

func (l ledBy) is() bool { return l.from != 0 }

// ask sends an operation, and says whether it did: not if the leader's time is to be known, and the
// server does not lead. known is what the time was before, over this connection, 0: nobody has
// asked yet.
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

// lives is for how long live what clients count and what probes set, 0: for ever.
func (f *failovers) lives() time.Duration {
	if f.apart == nil {
		return 0
	}
	return lifetime
}
