package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestFullDisk fills a small file system until writes are refused. Then reads and deletions still
// work, and once there is room, writes work again. A kill, a stop or a start while the disk is full
// loses no acknowledged write.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		mount func(t testing.TB, mb int) string
		// reserve is the space to keep free. With 0 it is the file system that refuses writes, at
		// any byte.
		reserve string
		long    bool
	}{
		{"reserve", testkit.MemoryDisk, "8mb", false},
		{"to the last byte", testkit.MemoryDisk, "0", true},
		{"ext4 with reserve", loopDisk, "8mb", true},
		{"ext4 to the last byte", loopDisk, "0", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.long && testkit.Number(t, "KEYP_KILLS", 0) == 0 {
				t.Skip("SKIPPED: make torture runs it")
			}
			fillDisk(t, tt.mount(t, 128), tt.reserve)
		})
	}
}

func fillDisk(t *testing.T, dir, reserve string) {
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 56<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testkit.NewKeyp(t, testkit.Options{Dir: filepath.Join(dir, "data"), Args: []string{
		"--wal-segment-size", "1mb", "--checkpoint-log-size", "1mb", "--disk-reserve", reserve}})
	s.Start()
	c := s.Client(3)
	if err := c.Do(ctx, "KEYP.OUTBOX", "SET", "r", "PATTERN", "due:*", "STREAM",
		"reported").Err(); err != nil {
		t.Fatal(err)
	}
	const due = 200
	for i := range due {
		if err := c.Set(ctx, fmt.Sprint("due:", i), "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	value := bytes.Repeat([]byte("v"), 20_000)
	acknowledged := 0
	var refused error
	for ; acknowledged < 20_000; acknowledged++ {
		if refused = c.Set(ctx, fmt.Sprint("k", acknowledged), value,
			time.Hour).Err(); refused != nil {
			break
		}
	}
	if refused == nil || !strings.HasPrefix(refused.Error(), "MISCONF ") {
		t.Fatalf("after %d writes: %v, want MISCONF", acknowledged, refused)
	}
	t.Logf("refused after %d writes", acknowledged)
	usable(t, c)
	for i := range due { // they expire while the disk is full
		inTheEnd(t, "PEXPIRE", func() error {
			return c.PExpire(ctx, fmt.Sprint("due:", i),
				time.Duration(1+i%100)*time.Millisecond).Err()
		})
	}

	for _, end := range []func(){s.Kill, s.Stop, s.Kill} {
		end()
		s.Start()
		c = s.Client(3)
		for i := range acknowledged {
			if i == 1 || i == 2 {
				continue // usable has deleted and changed them
			}
			if got, err := c.Get(ctx, fmt.Sprint("k", i)).Bytes(); err != nil ||
				!bytes.Equal(got, value) {
				t.Fatalf("k%d: %d bytes, %v", i, len(got), err)
			}
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	healed(t, c)
	await.Until(t, "what has expired is reported", func() bool {
		return c.XLen(ctx, "reported").Val() >= due
	})
	reported := map[any]bool{}
	for _, m := range c.XRange(ctx, "reported", "-", "+").Val() {
		reported[m.Values["key"]] = true
	}
	if n := c.XLen(ctx, "reported").Val(); n != due || len(reported) != due {
		t.Errorf("%d keys are reported in %d entries, of %d", len(reported), n, due)
	}
	if err := c.Do(ctx, "SAVE").Err(); err != nil {
		t.Errorf("SAVE on a disk that has room again: %v", err)
	}
	s.Stop()
	if output, err := exec.Command(testkit.Binary(t), "check",
		s.Dir()).CombinedOutput(); err != nil || !strings.Contains(string(output), "is sound") {
		t.Errorf("keyp check: %v\n%s", err, output)
	}
}

// TestLastOfTheLog: on a full disk no command waits for room in the log. Small commands, and
// commands that free space, succeed while the last segment has room for them, and again after the
// next checkpoint. Otherwise they return an error.
func TestLastOfTheLog(t *testing.T) {
	t.Parallel()
	dir := testkit.MemoryDisk(t, 64)
	s := testkit.NewKeyp(t, testkit.Options{Dir: filepath.Join(dir, "data"), Args: []string{
		"--wal-segment-size", "1mb", "--checkpoint-log-size", "1mb", "--disk-reserve", "32mb"}})
	s.Start()
	c := s.Client(3)
	large := bytes.Repeat([]byte("j"), 1<<20)
	for i := range 8 {
		if err := c.Do(ctx, "KEYP.DELAY", "ADD", "jobs", fmt.Sprint(i), "+0",
			large).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full := func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "MISCONF ") }
	value, keys := bytes.Repeat([]byte("v"), 20_000), 0
	for {
		if err := c.Set(ctx, fmt.Sprint("k", keys), value, 0).Err(); full(err) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if keys++; keys > 20_000 {
			t.Fatal("the disk does not fill")
		}
	}
	answers := map[string]int{}
	note := func(what string, err error) {
		switch {
		case err == nil:
			answers[what]++
		case full(err):
			answers[what+" refused"]++
		default:
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 48 { // more of them than the log has room for
		note("POP", c.Do(ctx, "KEYP.DELAY", "POP", "jobs", "VISIBILITY", "0").Err())
	}
	for i := range 40 { // more than the last segment takes
		p := c.Pipeline()
		for j := range 1000 {
			p.PExpire(ctx, "k0", time.Hour+time.Duration(i*1000+j)*time.Second)
		}
		cmds, _ := p.Exec(ctx)
		for _, cmd := range cmds {
			note("PEXPIRE", cmd.Err())
		}
	}
	// A single transaction must not use more of the log than there is.
	note("EVAL", c.Eval(ctx,
		"for i = 1, 100000 do redis.call('PEXPIRE', KEYS[1], 10000000 + i) end return 1",
		[]string{"k0"}).Err())
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 50_000 {
			p.PExpire(ctx, "k0", time.Hour+time.Duration(i)*time.Second)
		}
		return nil
	})
	if err != nil && strings.HasPrefix(err.Error(), "EXECABORT ") { // its commands were refused
		err = nil
	}
	note("EXEC", err)
	for i := range keys {
		note("DEL", c.Del(ctx, fmt.Sprint("k", i)).Err())
	}
	t.Log(keys, answers)
	await.Until(t, "checkpoints to release segments of the log", func() bool {
		return c.PExpire(ctx, "jobs", time.Hour).Err() == nil && c.Del(ctx, "none").Err() == nil
	})
	if err := c.ConfigSet(ctx, "disk-reserve", "8mb").Err(); err != nil {
		// The data file has room, and keeps its length.
		t.Error(err)
	}
	healed(t, c)
	s.Kill()
	s.Start()
	if n, err := s.Client(3).DBSize(ctx).Result(); err != nil || n != int64(answers["DEL refused"])+
		2 {
		t.Errorf("after a kill there are %d keys, %v, and %d could not be deleted", n, err,
			answers["DEL refused"])
	}
}

// TestFlushOnFullDisk: after the keys that fill a disk are deleted, writes are accepted again, in
// several rounds. The log deletes the segments that it keeps for later use, and checkpoints release
// others.
func TestFlushOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := testkit.MemoryDisk(t, 75)
	s := testkit.NewKeyp(t, testkit.Options{Dir: filepath.Join(dir, "data"), Args: []string{
		"--wal-segment-size", "16mb", "--disk-reserve", "16mb"}})
	s.Start()
	c := s.Client(3)
	value := bytes.Repeat([]byte("v"), 20_000)
	for range 4 {
		// Checkpoints make room for a few more keys, so one refusal is not enough.
		for refused, keys := 0, 0; refused < 10; keys++ {
			switch err := c.Set(ctx, fmt.Sprint("k", keys), value, 0).Err(); {
			case err != nil && strings.HasPrefix(err.Error(), "MISCONF "):
				refused++
				if err := c.Do(ctx, "DEBUG", "SLEEP", "0.1").Err(); err != nil {
					// Housekeeping checks the disk about that often.
					t.Fatal(err)
				}
			case err != nil:
				t.Fatal(err)
			}
			if keys > 20_000 {
				t.Fatal("the disk does not fill")
			}
		}
		inTheEnd(t, "FLUSHALL", func() error { return c.FlushAll(ctx).Err() })
		healed(t, c)
	}
}

// TestDiskReserve: the option disk-reserve also makes the server refuse writes, until there is room
// again. Meanwhile policies can be deleted, and reads do not change deadlines.
func TestDiskReserve(t *testing.T) {
	t.Parallel()
	s := testkit.Keyp(t)
	c := s.Client(2)
	for _, key := range []string{"k0", "k1", "k2"} {
		if err := c.Set(ctx, key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set(ctx, "slides", "v", 100*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Do(ctx, "KEYP.POLICY", "SET", "p", "PATTERN", "slides", "ENFORCE", "SLIDE",
		"1h").Err(); err != nil {
		t.Fatal(err)
	}
	reserve := func(n string) {
		if err := c.ConfigSet(ctx, "disk-reserve", n).Err(); err != nil {
			t.Fatal(err)
		}
	}
	reserve("1000000gb")
	await.Until(t, "writes to be refused", func() bool {
		err := c.Set(ctx, "x", "v", 0).Err()
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF ")
	})
	usable(t, c)
	if v, err := c.Get(ctx, "slides").Result(); v != "v" || err != nil {
		t.Errorf("GET of a key whose deadline reading moves: %q, %v", v, err)
	}
	if left, err := c.TTL(ctx, "slides").Result(); left > 100*time.Second || err != nil {
		t.Errorf("while the disk is full a deadline moves: %v left, %v", left, err)
	}
	if n, err := c.Do(ctx, "KEYP.POLICY", "APPLY", "p").Slice(); len(n) != 3 || err != nil {
		t.Errorf("KEYP.POLICY APPLY: %v, %v", n, err)
	}
	if n, err := c.Do(ctx, "KEYP.POLICY", "DEL", "p").Int(); n != 1 || err != nil {
		t.Errorf("KEYP.POLICY DEL: %d, %v", n, err)
	}
	reserve("0")
	healed(t, c)
}

// usable checks what must work while the disk is full.
func usable(t *testing.T, c *redis.Client) {
	t.Helper()
	if err := c.Get(ctx, "k0").Err(); err != nil {
		t.Errorf("GET: %v", err)
	}
	inTheEnd(t, "DEL", func() error { return c.Del(ctx, "k1").Err() })
	if err := c.Get(ctx, "k1").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET after DEL: %v", err)
	}
	inTheEnd(t, "EXPIRE", func() error { return c.Expire(ctx, "k2", 30*time.Minute).Err() })
	if left, err := c.TTL(ctx, "k2").Result(); left <= 29*time.Minute || left > 30*time.Minute ||
		err != nil {
		t.Errorf("TTL after EXPIRE: %v, %v", left, err)
	}
}

// inTheEnd waits until a command succeeds. The command may be refused while the last segment of the
// log has no room for it.
func inTheEnd(t *testing.T, what string, command func() error) {
	t.Helper()
	await.Until(t, what+" to have room in the log", func() bool {
		err := command()
		if err != nil && !strings.HasPrefix(err.Error(), "MISCONF ") {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

func healed(t *testing.T, c *redis.Client) {
	t.Helper()
	await.Until(t, "writes to be taken again", func() bool {
		return c.Set(ctx, "again", "v", 0).Err() == nil
	})
}

func loopDisk(t testing.TB, mb int) string {
	dir, _ := testkit.LoopDisk(t, mb)
	return dir
}
