package group

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// smallDisks is a group whose members have small disks.
type smallDisks struct {
	group
	t     *testing.T
	disks map[*testkit.Server]string
}

func newSmallDisks(t *testing.T) *smallDisks {
	var dirs, disks []string
	for range 3 {
		disk := testkit.MemoryDisk(t, 48)
		disks = append(disks, disk)
		dirs = append(dirs, filepath.Join(disk, "data"))
	}
	g := &smallDisks{t: t, disks: map[*testkit.Server]string{}}
	g.Group = members.On(t, dirs, "--disk-reserve", "1mb")
	for i, s := range g.Servers {
		g.disks[s] = disks[i]
	}
	return g
}

// fill fills a server's disk completely.
func (g *smallDisks) fill(s *testkit.Server) {
	g.t.Helper()
	f, err := os.Create(filepath.Join(g.disks[s], "ballast"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 1<<20); len(b) > 0; {
		if _, err := f.Write(b); errors.Is(err, syscall.ENOSPC) {
			b = b[:len(b)/2]
		} else if err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *smallDisks) free(s *testkit.Server) {
	g.t.Helper()
	if err := os.Remove(filepath.Join(g.disks[s], "ballast")); err != nil {
		g.t.Fatal(err)
	}
}

// write sets keys with values of 10 KB. It returns how many were acknowledged before the first
// error.
func (g *smallDisks) write(c redis.Cmdable, from, to int) (acknowledged int, err error) {
	value := strings.Repeat("v", 10_000)
	for i := from; i < to; i++ {
		if err := c.Set(await.Context(g.t), fmt.Sprint("k", i), value, 0).Err(); err != nil {
			return i, err
		}
	}
	return to, nil
}

// TestFullDiskOfFollower: a follower with a full disk does not affect the other members. It gets
// all data once there is room, even if it is killed in between.
func TestFullDiskOfFollower(t *testing.T) {
	g := newSmallDisks(t)
	c, s := g.Client(), g.Follower()
	g.fill(s)
	if n, err := g.write(c, 0, 300); err != nil {
		t.Fatalf("after %d writes: %v", n, err)
	}
	s.Kill()
	if n, err := g.write(c, 300, 320); err != nil {
		t.Fatalf("after %d writes: %v", n, err)
	}
	started := s.StartsOrEnds()
	g.free(s)
	if !started {
		s.Start()
	}
	g.Agree()
}

// TestFullDiskOfLeader: writes are refused with MISCONF, while reads and deletions work. After
// another member takes over, writes are accepted.
func TestFullDiskOfLeader(t *testing.T) {
	g := newSmallDisks(t)
	c, s := g.Client(), g.Leader()
	g.fill(s)
	n, err := g.write(c, 0, 3000)
	if err == nil || !strings.HasPrefix(err.Error(), "MISCONF ") {
		t.Fatalf("after %d writes: %v", n, err)
	}
	t.Logf("refused after %d writes", n)
	ctx := await.Context(t)
	if n > 0 {
		if err := c.Get(ctx, "k0").Err(); err != nil {
			t.Errorf("GET: %v", err)
		}
	}
	if err := c.Del(ctx, "k0").Err(); err != nil {
		t.Errorf("DEL: %v", err)
	}
	await.Until(t, "another one leads", func() bool {
		return g.Follower().Client(2).Do(ctx, "cluster", "failover").Err() == nil ||
			members.Role(s) != "master"
	})
	if n, err := g.write(c, 0, 100); err != nil {
		t.Fatalf("after %d writes at another leader: %v", n, err)
	}
	g.free(s)
	g.Agree()
}

// TestFullDisksOfMajority: while the disks of all followers are full, nothing can be acknowledged,
// and writes are refused with a message. Once there is room, all acknowledged writes and the
// waiting write are there.
func TestFullDisksOfMajority(t *testing.T) {
	g := newSmallDisks(t)
	leader := g.Leader()
	var full []*testkit.Server
	for _, s := range g.Servers {
		if s != leader {
			g.fill(s)
			full = append(full, s)
		}
	}
	ctx := await.Context(t)
	c := leader.Client(2)
	var acknowledged atomic.Int64
	var waits sync.WaitGroup
	waits.Go(func() { // its last write waits until there is room
		for i := range int64(3000) {
			if c.Set(ctx, fmt.Sprint("w", i), strings.Repeat("v", 10_000), 0).Err() != nil {
				return
			}
			acknowledged.Store(i + 1)
		}
	})
	other := leader.Client(3)
	await.Until(t, "the leader notices", func() bool {
		return strings.Contains(leader.Log(), "so writes are refused")
	})
	for _, command := range [][]any{{"SET", "s", 1}, {"DEL", "s"}} {
		if err := other.Do(ctx, command...).Err(); err == nil ||
			!strings.HasPrefix(err.Error(), "NOREPLICAS ") {
			t.Errorf("%v: %v", command, err)
		}
	}
	if err := other.Do(ctx, "EVAL", "return redis.call('SET', KEYS[1], 1)", 1,
		"s").Err(); err == nil || !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("a script that writes: %v", err)
	}
	if err := other.Get(ctx, "w0").Err(); err != nil && acknowledged.Load() > 0 {
		t.Errorf("GET of what was acknowledged: %v", err)
	}
	if members.Role(leader) != "master" {
		t.Error("the leader is none any more")
	}
	for _, s := range full {
		g.free(s)
	}
	waits.Wait()
	await.Until(t, "writes are taken again", func() bool {
		return g.Client().Set(ctx, "after", 1, 0).Err() == nil
	})
	for i := range acknowledged.Load() {
		if n := g.Client().StrLen(ctx, fmt.Sprint("w", i)).Val(); n != 10_000 {
			t.Fatalf("w%d was acknowledged, and has %d bytes", i, n)
		}
	}
	g.Agree()
}
