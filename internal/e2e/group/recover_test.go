package group

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// keyp runs a subcommand until it exits.
func keyp(t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	cmd := exec.CommandContext(await.Context(t), testkit.Binary(t), args...)
	cmd.Env = testkit.Environ()
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// works runs a subcommand, which must succeed, and returns its output.
func works(t *testing.T, args ...string) string {
	t.Helper()
	status, out := keyp(t, args...)
	if status != 0 {
		t.Fatalf("keyp %q: status %d, %s", args, status, out)
	}
	return out
}

// refuses runs a subcommand, which must fail with a message that contains words.
func refuses(t *testing.T, words string, args ...string) string {
	t.Helper()
	status, out := keyp(t, args...)
	if status == 0 || !strings.Contains(out, words) {
		t.Errorf("keyp %q: status %d, %q, want %q", args, status, out, words)
	}
	return out
}

// left is the state of a directory as keyp cluster recover reports it.
type left struct{ last, term, unknown int }

// behind returns true if another directory has more.
func (l left) behind(o left) bool { return l.term < o.term || l.term == o.term && l.last < o.last }

var (
	lastEntry = regexp.MustCompile(
		`its log ends with entry (\d+) of term (\d+), written at about \d{4}-\d\d-\d\dT[0-9:.]+Z\n`)
	notKnown = regexp.MustCompile(
		`\nits last (entry is|(\d+) entries are) not known to be committed`)
)

// look returns the state of a directory, without any change.
func look(t *testing.T, dir, to string) (l left) {
	t.Helper()
	out := refuses(t, "nothing is done yet", "cluster", "recover", dir, to)
	words := lastEntry.FindStringSubmatch(out)
	if words == nil || !strings.Contains(out, "entries after "+words[1]+
		" that other members had are lost") {
		t.Fatalf("it says\n%s", out)
	}
	l.last, _ = strconv.Atoi(words[1])
	l.term, _ = strconv.Atoi(words[2])
	if words := notKnown.FindStringSubmatch(out); words != nil {
		l.unknown, _ = strconv.Atoi(cmp.Or(words[2], "1"))
	} else if !strings.Contains(out, "all of its entries are known to be committed") {
		t.Errorf("it says\n%s", out)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", to, err)
	}
	return l
}

// kill kills all running members at about the same time.
func (g group) kill(t *testing.T) {
	t.Helper()
	running := slices.DeleteFunc(slices.Clone(g.Servers), func(s *testkit.Server) bool {
		return !s.Running()
	})
	for _, s := range running {
		if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range running {
		s.WaitKilled()
	}
}

// recovered destroys the directories of all servers except one, and makes a new group from that
// one.
func (g group) recovered(t *testing.T, from *testkit.Server) (made group, said string) {
	t.Helper()
	for _, s := range g.Servers {
		if s != from {
			if err := os.RemoveAll(s.Dir()); err != nil {
				t.Fatal(err)
			}
		}
	}
	to := filepath.Join(t.TempDir(), "new")
	said = works(t, "cluster", "recover", from.Dir(), to, "--yes")
	works(t, "check", to)
	works(t, "check", from.Dir())
	return group{members.From(t, to, 3)}, said
}

// lease acquires a lease and returns its token.
func lease(t *testing.T, c *redis.ClusterClient, name string) int64 {
	t.Helper()
	got, err := c.Do(await.Context(t), "KEYP.LEASE", "ACQUIRE", name, "me", 3_600_000).Slice()
	if err != nil {
		t.Fatal(err)
	}
	token, err := strconv.ParseInt(fmt.Sprint(got[0]), 10, 64)
	if err != nil {
		t.Fatalf("%v: %v", got, err)
	}
	return token
}

// ask runs a command and returns its reply.
func ask(t *testing.T, c *redis.ClusterClient, args ...any) any {
	t.Helper()
	got, err := c.Do(await.Context(t), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return got
}

// pop takes the next job of the queue jobs, invisible to others for an hour.
func pop(t *testing.T, c *redis.ClusterClient) (id, receipt string, deliveries int64) {
	t.Helper()
	job := ask(t, c, "KEYP.DELAY", "POP", "jobs", "VISIBILITY", 3_600_000).([]any)[0].([]any)
	return job[0].(string), job[2].(string), job[3].(int64)
}

// TestRecover: all members are killed under load, and two disks are lost. If the remaining disk has
// the longest log, the new group has all acknowledged writes. Deadlines are unchanged, and new
// tokens are higher than the old ones.
func TestRecover(t *testing.T) {
	g := group{members.New(t, 3)}
	ctx, c := await.Context(t), g.Client()
	fill(t, c, 0, 50)
	deadline := c.PExpireTime(ctx, "e1").Val()
	token := lease(t, c, "lock")
	w := g.count(t)
	w.progress()
	for i := range 3 { // more than one segment, and checkpoints of each member
		if err := c.Set(ctx, fmt.Sprint("large", i), strings.Repeat("v", 600_000),
			0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	later := lease(t, c, "other")
	w.progress()
	refuses(t, "a server runs on it", "cluster", "recover", g.Follower().Dir(),
		filepath.Join(t.TempDir(), "new"))
	g.kill(t)
	var best *testkit.Server
	var has left
	for _, s := range g.Servers {
		if l := look(t, s.Dir(), filepath.Join(t.TempDir(), "new")); best == nil || has.behind(l) {
			best, has = s, l
		}
	}
	t.Logf("the best directory has %+v", has)
	made, said := g.recovered(t, best)
	if !strings.Contains(said, "keyp cluster create") {
		t.Errorf("it says\n%s", said)
	}
	c = made.Client()
	w.end(c)
	if got := c.PExpireTime(ctx, "e1").Val(); got != deadline || got <= 0 {
		t.Errorf("the deadline was %v, and is %v", deadline, got)
	}
	if got := lease(t, c, "lock"); got != token {
		t.Errorf("the lease had the token %d, and has %d", token, got)
	}
	if got := lease(t, c, "third"); got <= later {
		t.Errorf("a lease of before had the token %d, and another one has %d", later, got)
	}
	fill(t, c, 50, 60)
	made.Agree()
}

// TestRecoverTimed: leases, reservations, jobs, and entries that age keep their times in the new
// group. Clients can go on using their tokens, receipts and reservations.
func TestRecoverTimed(t *testing.T) {
	g := group{members.New(t, 3)}
	c := g.Client()
	ask := func(args ...any) any { return ask(t, c, args...) }
	is := func(want any, args ...any) {
		t.Helper()
		if got := ask(args...); got != want {
			t.Errorf("%v: %v, want %v", args, got, want)
		}
	}
	now := time.Now().UnixMilli()
	token := lease(t, c, "lock")
	is(int64(1), "KEYP.LEASE", "RELEASE", "lock", token)
	token = lease(t, c, "lock")
	for _, id := range []string{"used", "back"} {
		ask("KEYP.LIMIT", "TAKE", "limit", 1, "WINDOW", 2, 3_600_000, "RESERVE", id, 3_600_000)
	}
	ask("KEYP.DELAY", "ADD", "jobs", "later", now+3_600_000, "p")
	ask("KEYP.DELAY", "ADD", "jobs", "again", 0, "p")
	_, stale, _ := pop(t, c)
	is(int64(1), "KEYP.DELAY", "NACK", "jobs", stale)
	_, receipt, deliveries := pop(t, c)
	if deliveries != 2 {
		t.Errorf("a job that was given back has been delivered %d times", deliveries)
	}
	ask("KEYP.DELAY", "ADD", "jobs", "next", 0, "p")
	for i := range int64(4) {
		ask("XADD", "log", fmt.Sprintf("%d-1", now+i), "f", "v")
	}
	ask("XCFGSET", "log", "MAXAGE", 3_600_000, "ACKED")
	ask("XGROUP", "CREATE", "log", "g", 0)
	ask("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", "log", ">")
	is(int64(1), "XACK", "log", "g", fmt.Sprintf("%d-1", now+1))
	shown := func() (list []string) {
		t.Helper()
		for _, args := range [][]any{
			{"KEYP.EXPIRING", "-", "+"}, {"KEYP.EXPIRING", "-", "+", "ELEMENTS", "log"},
			{"KEYP.LEASE", "INFO", "lock"}, {"KEYP.LIMIT", "HELD", "limit"},
			{"KEYP.DELAY", "RANGE", "jobs", "-", "+"},
			{"XRANGE", "log", "-", "+"}, {"XPENDING", "log", "g"},
		} {
			list = append(list, fmt.Sprint(args, ": ", ask(args...)))
		}
		return list
	}
	want := shown()
	g.Agree()
	g.kill(t)
	made, _ := g.recovered(t, g.Servers[1])
	c = made.Client()
	for i, got := range shown() {
		if got != want[i] {
			t.Errorf("it was %s\nand is %s", want[i], got)
		}
	}
	is("OK", "KEYP.LEASE", "CHECK", "lock", token)
	is(int64(1), "KEYP.LEASE", "RELEASE", "lock", token)
	if got := lease(t, c, "lock"); got <= token {
		t.Errorf("the token was %d, the next one is %d", token, got)
	}
	is(int64(1), "KEYP.LIMIT", "CONFIRM", "limit", "used")
	is(int64(1), "KEYP.LIMIT", "RETURN", "limit", "back")
	is(int64(1), "KEYP.DELAY", "ACK", "jobs", stale, receipt)
	if id, got, deliveries := pop(t, c); id != "next" || deliveries != 1 || got == stale ||
		got == receipt {
		t.Errorf("%s has been delivered %d times, with %s after %s and %s", id, deliveries,
			got, stale, receipt)
	}
	is(int64(2), "KEYP.DELAY", "LEN", "jobs")
	made.Agree()
}

// TestRecoverOlder: the remaining disk lacks some writes that the other members acknowledged
// without it. The tool reports that, and recovers everything the disk has.
func TestRecoverOlder(t *testing.T) {
	g := group{members.New(t, 3)}
	ctx, c := await.Context(t), g.Client()
	fill(t, c, 0, 20)
	ask(t, c, "KEYP.DELAY", "ADD", "jobs", "job", 0, "p")
	want := g.Agree()
	old := g.Follower()
	old.Kill()
	if err := c.Set(ctx, "later", "v", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	token := lease(t, c, "lock")
	_, lost, _ := pop(t, c)
	g.kill(t)
	to := filepath.Join(t.TempDir(), "new")
	had := look(t, old.Dir(), to)
	for _, s := range g.Servers {
		if s != old && !had.behind(look(t, s.Dir(), to)) {
			t.Errorf("the directory that was left behind has %+v", had)
		}
	}
	made, _ := g.recovered(t, old)
	c = made.Client()
	if got := made.Agree(); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
	if err := c.Get(ctx, "later").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("what was written later: %v", err)
	}
	if got := lease(t, c, "lock"); got <= token {
		t.Errorf("a lease that is lost had the token %d, and it is given again with %d", token, got)
	}
	_, receipt, deliveries := pop(t, c)
	if n := ask(t, c, "KEYP.DELAY", "ACK", "jobs", lost); deliveries != 1 || receipt == lost ||
		n != int64(0) {
		t.Errorf("a delivery that is lost had the receipt %s, it is number %d with %s now, and the former removes %v jobs",
			lost, deliveries, receipt, n)
	}
}

// TestMembersTools runs other tools on the directory of a member.
func TestMembersTools(t *testing.T) {
	g := group{members.New(t, 3)}
	c, dir := g.Client(), t.TempDir()
	fill(t, c, 0, 30)
	want := g.Agree()
	s, other := g.Follower(), g.Leader()
	refuses(t, "a server runs on it", "check", s.Dir())
	refuses(t, "another process uses the data directory", "compact", s.Dir())
	refuses(t, "a server runs on it", "backup", s.Dir(), dir)
	s.Kill()
	if out := works(t, "check", s.Dir()); !strings.Contains(out,
		" is sound, and belongs to the member ") ||
		!strings.Contains(out, "are known to be committed") {
		t.Errorf("check: %s", out)
	}
	if out := works(t, "export", s.Dir(), filepath.Join(dir, "dump.rdb"), "--rdb-version",
		"12"); !strings.Contains(out, "has been exported") {
		t.Errorf("export: %s", out)
	}
	works(t, "compact", s.Dir())
	works(t, "check", s.Dir())
	refuses(t, "keyp cluster remove", "repair", s.Dir(), filepath.Join(dir, "repaired"))
	s.Start()
	if got := g.Agree(); got != want {
		t.Errorf("the digest was %s, and is %s", want, got)
	}
	fill(t, c, 30, 40)
	g.Agree()

	alone := testkit.Keyp(t)
	alone.Kill()
	refuses(t, "needs no recovery", "cluster", "recover", alone.Dir(), filepath.Join(dir, "new"))
	refuses(t, "no such file or directory", "cluster", "recover", filepath.Join(dir, "none"),
		filepath.Join(dir, "new"))
	s.Kill()
	refuses(t, "is not empty", "cluster", "recover", s.Dir(), other.Dir(), "--yes")
	damage(t, filepath.Join(s.Dir(), "raft"), strings.Repeat("v", 10+25)) // of s25
	refuses(t, "is corrupt", "cluster", "recover", s.Dir(), filepath.Join(dir, "new"), "--yes")
	refuses(t, "is corrupt", "backup", s.Dir(), dir)
	refuses(t, "keyp cluster remove", "check", s.Dir())
	if err := os.RemoveAll(s.Dir()); err != nil { // it ends as a lost disk
		t.Fatal(err)
	}
}

// damage changes a byte of a text in the log of a directory. The segment with the text depends on
// how often the member started.
func damage(t *testing.T, dir, of string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "wal-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, segment := range segments {
		text, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(text, []byte(of))
		if at < 0 {
			continue
		}
		text[at] ^= 1
		if err := os.WriteFile(segment, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is in none of %q", of, segments)
}
