package timed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// This file runs the server, or the group of servers, of a test. It kills the server again and
// again. It also contains the clients that work meanwhile.

func init() { redis.SetLogger(silent{}) } // connections break here on purpose

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var small = []string{"--wal-segment-size", "256kb", "--checkpoint-log-size", "1mb"}

// place is a server, or a group of servers, that is killed while clients work.
type place struct {
	t       *testing.T
	servers []*testkit.Server
	group   *members.Group // nil: a server that is alone
	steps   []int64        // how far the clock is ahead after each start, in turn; none: not at all
	starts  int
	seed    uint64
	over    atomic.Bool
}

// alone returns a server that is in no group.
func alone(t *testing.T) *place {
	return &place{t: t, seed: testkit.Seed(t),
		servers: []*testkit.Server{testkit.Keyp(t, small...)}}
}

// both runs a test on a single server and on a group.
func both(t *testing.T, test func(t *testing.T, p *place)) {
	t.Run("alone", func(t *testing.T) {
		test(t, alone(t))
	})
	t.Run("group", func(t *testing.T) {
		g := members.New(t, 3)
		test(t, &place{t: t, seed: testkit.Seed(t), servers: g.Servers, group: g})
	})
}

// kills returns how often a server is killed.
func kills(t *testing.T) int {
	t.Helper()
	return max(2, int(testkit.Number(t, "KEYP_KILLS", 0))/10)
}

// rounds lets clients work. Each time they have made enough progress, it kills the server that
// serves them.
func (p *place) rounds(n int, clients []func(*caller), enough func() func() bool) {
	var all sync.WaitGroup
	for i, work := range clients {
		all.Go(func() {
			c := p.caller(i)
			defer c.close()
			work(c)
		})
	}
	for range n {
		p.await(enough())
		p.kill()
	}
	p.await(enough())
	p.over.Store(true)
	all.Wait()
}

// await waits until the clients have made enough progress or have failed. A failure ends their
// work.
func (p *place) await(enough func() bool) {
	p.t.Helper()
	await.Until(p.t, "the clients get on", func() bool { return enough() || p.t.Failed() })
}

func (p *place) kill() {
	if p.group == nil {
		s := p.servers[0]
		s.Kill()
		if p.starts++; len(p.steps) > 0 {
			s.SetArgs(append(slices.Clone(small), "--clock-jump-limit", "0", "--debug-clock-offset",
				fmt.Sprint(p.steps[p.starts%len(p.steps)]))...)
		}
		s.Start()
		return
	}
	s := p.group.Leader()
	s.Kill()
	await.Until(p.t, "another member leads", func() bool {
		return slices.ContainsFunc(p.servers, func(o *testkit.Server) bool {
			return o != s && members.Role(o) == "master"
		})
	})
	s.Start()
	await.Until(p.t, "the member is back", func() bool {
		return members.Field(s, "master_link_status") == "up" || members.Role(s) == "master"
	})
}

// caller sends commands to the member that serves them, one after the other.
type caller struct {
	p    *place
	rng  *rand.Rand
	id   int
	pool *redis.Client
	conn *redis.Conn
	at   int
}

func (p *place) caller(id int) *caller {
	return &caller{p: p, id: id, rng: rand.New(rand.NewPCG(p.seed, uint64(id)))}
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		_ = c.pool.Close()
		c.conn = nil
	}
}

// errLost means that the client does not know whether a command has run.
var errLost = errors.New("the connection ended")

// once sends a command to a member that accepts it. It returns errLost if the connection ends
// meanwhile.
func (c *caller) once(args ...any) (reply any, err error) {
	took := await.Reached(func() bool {
		if c.conn == nil {
			s := c.p.servers[c.at%len(c.p.servers)]
			c.pool = testkit.NewClient(c.p.t, &redis.Options{Addr: s.Addr(), Protocol: 2 + c.id%2})
			c.conn = c.pool.Conn()
			if c.conn.Ping(context.Background()).Err() != nil {
				c.elsewhere()
				return false
			}
		}
		reply, err = c.conn.Do(context.Background(), args...).Result()
		var refused redis.Error
		switch {
		case err == nil || errors.Is(err, redis.Nil):
			err = nil
			return true
		case !errors.As(err, &refused):
			c.elsewhere()
			err = errLost
			return true
		}
		word, _, _ := strings.Cut(err.Error(), " ")
		if slices.Contains([]string{"MOVED", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN",
			"READONLY"}, word) {
			c.elsewhere()
			return false
		}
		return true
	})
	if !took {
		c.p.t.Errorf("nobody takes %v", args)
	}
	return reply, err
}

func (c *caller) elsewhere() {
	c.close()
	c.at++
	await.Pass(time.Duration(1+c.rng.IntN(5)) * time.Millisecond)
}

// surely sends a command again and again until there is a reply. It reports whether an earlier
// reply was lost.
func (c *caller) surely(args ...any) (reply any, again bool) {
	for {
		reply, err := c.once(args...)
		switch {
		case err == nil:
			return reply, again
		case !errors.Is(err, errLost):
			c.p.t.Errorf("%v: %v", args, err)
			return nil, again
		case c.p.t.Failed():
			return nil, again
		}
		again = true
	}
}
