package group

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// TestClocksApart: the clocks of three servers are hours apart. At each member, and whichever
// member leads, the remaining time of a key is its time to live minus the time since. INFO shows
// the members whose clocks are off.
func TestClocksApart(t *testing.T) {
	g := members.New(t, 3)
	ctx := t.Context()
	first := g.Leader()
	offsets := map[*testkit.Server]int64{}
	for i, s := range slices.DeleteFunc(slices.Clone(g.Servers), func(s *testkit.Server) bool {
		return s == first
	}) {
		offsets[s] = []int64{3, -3}[i] * time.Hour.Milliseconds()
		s.SetArgs(append(slices.Clone(s.Args()), "--debug-clock-offset", fmt.Sprint(offsets[s]))...)
		if err := s.Client(2).Do(ctx, "DEBUG", "CLOCK-OFFSET", offsets[s]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the leader knows who is off", func() bool {
		if members.Role(first) != "master" { // another one has taken over meanwhile
			_ = first.Client(2).Do(ctx, "cluster", "failover").Err()
			return false
		}
		var off []int64
		for i := range 2 {
			_, text, found := strings.Cut(members.Field(first, fmt.Sprint("slave", i)),
				",clock-skew-ms=")
			ms, err := strconv.ParseInt(text, 10, 64)
			if !found || err != nil {
				return false
			}
			off = append(off, int64(math.Round(float64(ms)/float64(time.Hour.Milliseconds()))))
		}
		slices.Sort(off)
		return slices.Equal(off, []int64{-3, 3})
	})

	const ttl = time.Hour
	c := g.Client()
	began := time.Now()
	if err := c.Set(ctx, "k", "v", ttl).Err(); err != nil {
		t.Fatal(err)
	}
	shown := func(when string) {
		t.Helper()
		g.Agree()
		for i, s := range g.Servers {
			conn := s.Client(2).Conn()
			if err := conn.ReadOnly(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			left, err := conn.PTTL(ctx, "k").Result()
			passed := time.Since(began)
			if err != nil || left < ttl-passed-time.Second || left > ttl+passed {
				t.Errorf("%s: member %d has the key for %v (%v), %v after it got an hour", when, i,
					left, err, passed)
			}
			_ = conn.Close()
		}
	}
	shown("at first")
	for range 4 {
		was := g.Leader()
		was.Kill()
		await.Until(t,
			"time is guarded under a member whose clock is apart, and under no other one",
			func() bool {
				// The new leader answers only once it serves.
				leader := g.Leader()
				info, err := leader.Client(2).Do(ctx, "KEYP.CLOCK", "INFO").Slice()
				return err == nil && (info[1] == "guarded") == (offsets[leader] != 0)
			})
		was.Start()
		shown("after a failover")
	}
	if err := c.Set(ctx, "short", "v", 50*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for i, s := range g.Servers {
		conn := s.Client(2).Conn()
		if err := conn.ReadOnly(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		await.Until(t, fmt.Sprint("member ", i, " shows that the key is gone"), func() bool {
			return conn.Get(ctx, "short").Err() == redis.Nil
		})
		_ = conn.Close()
	}
	shown("in the end")
}
