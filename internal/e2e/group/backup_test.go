package group

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// appender makes a client run one transaction after the other. Each transaction adds two keys and
// counts them.
type appender struct {
	t       *testing.T
	stop    context.CancelFunc
	ended   chan struct{}
	written atomic.Int64 // acknowledged
}

func (g group) append(t *testing.T) *appender {
	ctx, cancel := context.WithCancel(t.Context()) // not a wait's: the whole test may take longer
	a, c := &appender{t: t, stop: cancel, ended: make(chan struct{})}, g.Client()
	value := strings.Repeat("v", 6000)
	go func() {
		defer close(a.ended)
		for i := int64(1); ctx.Err() == nil; {
			cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, fmt.Sprint("{t}a:", i), value, 0)
				p.Set(ctx, fmt.Sprint("{t}b:", i), i, time.Hour)
				p.Set(ctx, "{t}n", i, 0)
				return nil
			})
			if err == nil && len(cmds) == 3 { // otherwise the same is done again
				a.written.Store(i)
				i++
			}
		}
	}()
	return a
}

// more waits until n more transactions are acknowledged.
func (a *appender) more(n int64) {
	a.t.Helper()
	goal := a.written.Load() + n
	await.Until(a.t, "something is written", func() bool { return a.written.Load() >= goal })
}

func (a *appender) end() {
	a.t.Helper()
	a.stop()
	await.For(a.t, "the client ends", a.ended)
}

// prefix checks that a backup has all transactions up to some number, and nothing else. It returns
// that number.
func prefix(t *testing.T, file string) int64 {
	t.Helper()
	works(t, "backup", "verify", file)
	to := filepath.Join(t.TempDir(), "restored")
	works(t, "restore", file, to)
	works(t, "check", to)
	s := testkit.NewKeyp(t, testkit.Options{Dir: to})
	s.Start()
	c, ctx := s.Client(2), await.Context(t)
	n, err := c.Get(ctx, "{t}n").Int64()
	if err != nil {
		t.Fatal(err)
	}
	if size := c.DBSize(ctx).Val(); size != 2*n+1 {
		t.Errorf("%s has %d transactions, and %d keys", file, n, size)
	}
	for _, i := range []int64{1, n / 2, n} {
		if got := c.Exists(ctx, fmt.Sprint("{t}a:", i), fmt.Sprint("{t}b:", i)).Val(); got != 2 {
			t.Errorf("%s has %d transactions, and of number %d there are %d keys", file, n, i, got)
		}
	}
	if ttl := c.TTL(ctx, fmt.Sprint("{t}b:", n)).Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("%s: the time to live is %v", file, ttl)
	}
	s.Stop()
	return n
}

// term returns the term in which a member leads, or 0 if it does not lead.
func term(t *testing.T, s *testkit.Server) int64 {
	t.Helper()
	if members.Role(s) != "master" {
		return 0
	}
	text := s.Client(2).ClusterInfo(await.Context(t)).Val()
	_, text, _ = strings.Cut(text, "cluster_current_epoch:")
	text, _, _ = strings.Cut(text, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("the term is %q", text)
	}
	return n
}

// TestBackups: a backup of a leader, of a follower, or of the directory of a killed member has
// everything that was written before one moment. A server restored from it is on its own, and can
// found a group again.
func TestBackups(t *testing.T) {
	g := group{members.New(t, 3, "--cluster-log-size", "1mb")}
	a, dir := g.append(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a.more(100)
	rounds := 1
	if testkit.Long() {
		rounds = 2
	}
	for round := range rounds {
		for _, s := range []*testkit.Server{g.Leader(), g.Follower()} {
			name, led := file(fmt.Sprint(s.Port(), round)), term(t, s)
			before := a.written.Load()
			var out string
			await.Until(t, "the member, which may just be deposed, is backed up", func() bool {
				var status int
				status, out = keyp(t, "backup", s.Addr(), name)
				return status == 0
			})
			after := a.written.Load() + 1
			if now := term(t, s); now != led {
				led = 0
			}
			if n := prefix(t, name); n > after || led != 0 && n < before {
				t.Errorf("%s: it has %d transactions, of %d before and %d after, in term %d", out,
					n, before, after, led)
			}
			a.more(100)
		}
	}
	s := g.Follower()
	before := a.written.Load()
	conn := s.Client(2).Conn()
	await.Until(t, "the member, which may lag, has that", func() bool {
		_ = conn.ReadOnly(t.Context()).Err() // where it is refused, so is the read
		n, err := conn.Get(t.Context(), "{t}n").Int64()
		return err == nil && n >= before
	})
	_ = conn.Close()
	a.more(30)
	s.Kill()
	after := a.written.Load() + 1
	works(t, "backup", s.Dir(), file("closed"))
	n := prefix(t, file("closed"))
	if n > after || n < before {
		t.Errorf("the backup of the directory has %d transactions, of %d before and %d after",
			n, before, after)
	}
	s.Start()
	a.end()
	want := g.Agree()

	s.Stop() // in good order: all that it has is known to be committed
	out := works(t, "backup", s.Dir(), file("stopped"))
	if strings.Contains(out, "are committed") {
		t.Errorf("the backup of a member that was stopped: %s", out)
	}
	works(t, "restore", file("stopped"), file("new"))
	made := group{members.From(t, file("new"), 2)}
	if got := made.Agree(); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
	s.Start()
	g.Agree()
}
