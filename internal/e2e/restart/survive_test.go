package restart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

var ctx = context.Background()

// small makes starts quick: the server fills each new log segment with zeros.
var small = []string{"--wal-segment-size", "1mb"}

// Ways in which a server ends.

func stop(_ testing.TB, s *testkit.Server) { s.Stop() }

func kill(_ testing.TB, s *testkit.Server) { s.Kill() }

func saveAndKill(t testing.TB, s *testkit.Server) {
	t.Helper()
	run(t, s.Client(2), "SAVE")
	s.Kill()
}

func shutdown(_ testing.TB, s *testkit.Server) {
	_ = s.Client(2).Do(ctx, "SHUTDOWN") // answered by the end of the connection
	s.Wait()
}

func shutdownNoSave(_ testing.TB, s *testkit.Server) {
	_ = s.Client(3).Do(ctx, "SHUTDOWN", "NOSAVE") // likewise
	s.Wait()
}

// do sends a command, which must not fail.
func do(t testing.TB, c *redis.Client, args ...any) any {
	t.Helper()
	reply, err := c.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%q: %v", args, err)
	}
	return reply
}

// run sends a command given as one line of words.
func run(t testing.TB, c *redis.Client, line string) any {
	t.Helper()
	var args []any
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	return do(t, c, args...)
}

// dump returns all data of a server: a map of "database key" to "value deadline".
func dump(t testing.TB, s *testkit.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	for db := range 4 {
		c := s.ClientDB(2, db)
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			all[fmt.Sprint(db, " ", key)] = fmt.Sprint(do(t, c, "GET", key), " ",
				do(t, c, "PEXPIRETIME", key))
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestKeyspaceCommands ends the server after commands that change more than one key or database.
// The keys that they change are in the log or in the data file.
func TestKeyspaceCommands(t *testing.T) {
	const far = "2000000000000"
	steps := []struct {
		lines []string // "database command…"
		want  map[string]string
	}{
		{[]string{"0 MSET a 1 b 2 c 3", "0 SET t 4 PXAT " + far, "1 SET x 5",
			"1 SET t2 6 PXAT " + far, "2 SET y 7"}, map[string]string{
			"0 a": "1 -1", "0 b": "2 -1", "0 c": "3 -1", "0 t": "4 " + far, "1 x": "5 -1",
			"1 t2": "6 " + far, "2 y": "7 -1"}},
		{[]string{"0 MOVE a 1", "0 MOVE t 2", "2 APPEND t 4", "0 RENAME b c", "1 COPY t2 copy",
			"1 PERSIST t2", "1 COPY copy x DB 3"}, map[string]string{
			"0 c": "2 -1", "1 a": "1 -1", "1 x": "5 -1", "1 t2": "6 -1", "1 copy": "6 " + far,
			"2 t": "44 " + far, "2 y": "7 -1", "3 x": "6 " + far}},
		{[]string{"0 SWAPDB 0 1", "0 SET late 8", "1 SET late 9", "0 SWAPDB 2 3"},
			map[string]string{
				"1 c": "2 -1", "0 a": "1 -1", "0 x": "5 -1", "0 t2": "6 -1", "0 copy": "6 " + far,
				"3 t": "44 " + far, "3 y": "7 -1", "2 x": "6 " + far,
				"0 late": "8 -1", "1 late": "9 -1"}},
		{[]string{"0 FLUSHDB", "0 SET a again", "1 RENAME c a", "1 EXPIRE late 0"},
			map[string]string{
				"0 a": "again -1", "1 a": "2 -1", "3 t": "44 " + far, "3 y": "7 -1",
				"2 x": "6 " + far}},
		{[]string{"2 FLUSHALL", "3 SET z 1"}, map[string]string{"3 z": "1 -1"}},
		{[]string{"3 DEL z"}, map[string]string{}},
	}
	for _, tt := range []struct {
		name  string
		saved bool // the data file has what was before the step
		end   func(testing.TB, *testkit.Server)
	}{
		{"stop", false, stop},
		{"kill", false, kill},
		{"checkpoint, change, kill", true, kill},
		{"checkpoint, kill", false, saveAndKill},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Keyp(t, small...)
			for i, step := range steps {
				if tt.saved {
					run(t, s.Client(2), "SAVE")
				}
				for _, line := range step.lines {
					run(t, s.ClientDB(2, int(line[0]-'0')), line[2:])
				}
				for _, when := range []string{"before", "after"} {
					if got := dump(t, s); !maps.Equal(got, step.want) {
						t.Fatalf("step %d, %s the restart:\n%v, want\n%v", i, when, got, step.want)
					}
					if when == "before" {
						tt.end(t, s)
						s.Start()
					}
				}
			}
			s.Stop()
		})
	}
}

// TestDeadlinesPassWhileDown lets deadlines pass while no server runs.
func TestDeadlinesPassWhileDown(t *testing.T) {
	for name, end := range map[string]func(testing.TB, *testkit.Server){
		"stop": stop, "kill": kill, "checkpoint, kill": saveAndKill, "SHUTDOWN": shutdown,
		"SHUTDOWN NOSAVE": shutdownNoSave,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Keyp(t, small...)
			c := s.Client(3)
			run(t, c, "SET forever 1")
			run(t, c, "SET hour 1 EX 3600")
			run(t, c, "SET persisted 1 PX 700")
			run(t, c, "PERSIST persisted")
			run(t, c, "SET prolonged 1 PX 700")
			run(t, c, "EXPIRE prolonged 3600")
			before := dump(t, s)
			var last time.Time
			for i := range 40 {
				run(t, c, fmt.Sprintf("SET short%d 1 PX %d", i, 300+10*i))
				last = time.Now().Add(time.Duration(300+10*i) * time.Millisecond)
			}
			asked := time.Now()
			ttl := do(t, c, "PTTL", "hour").(int64)
			end(t, s)

			await.PassUntil(last) // until the deadline has come, which nothing reports
			s.Start()
			if got := dump(t, s); !maps.Equal(got, before) {
				t.Errorf("after the restart %v, want %v", got, before)
			}
			if now := do(t, c, "PTTL", "hour").(int64); now > ttl ||
				now < ttl-time.Since(asked).Milliseconds()-1 {
				t.Errorf("PTTL has gone from %d to %d", ttl, now)
			}
			for i := range 40 {
				if got := run(t, c, fmt.Sprintf("EXISTS short%d", i)); got != int64(0) {
					t.Errorf("short%d is back", i)
				}
			}
			await.Until(t, "DBSIZE counts the live keys only", func() bool {
				return do(t, c, "DBSIZE") == int64(len(before))
			})
			s.Stop()
		})
	}
}

// TestNothingComesBack removes keys that have an older copy in the data file, in all ways. It sees
// each key as gone before it kills the server.
func TestNothingComesBack(t *testing.T) {
	past := time.Now().Add(-time.Hour).UnixMilli()
	removals := []string{
		"SET {key} b PX 5", "PEXPIRE {key} 5", "EXPIRE {key} 0", "EXPIRE {key} -1",
		fmt.Sprint("PEXPIREAT {key} ", past),
		fmt.Sprint("SET {key} b PXAT ", past), "DEL {key}", "UNLINK {key}", "GETDEL {key}",
		"GETEX {key} PX 5",
		"RENAME {key} other", "MOVE {key} 3",
	}
	s := testkit.Keyp(t, small...)
	for round := range 3 {
		c := s.Client(2 + round%2)
		for i := range removals {
			do(t, c, "SET", fmt.Sprint("key", i), "a")
		}
		run(t, c, "SAVE")
		for i, line := range removals {
			run(t, c, strings.ReplaceAll(line, "{key}", fmt.Sprint("key", i)))
		}
		for i, line := range removals {
			await.Until(t, line, func() bool {
				return do(t, c, "GET", fmt.Sprint("key", i)) == nil
			})
		}
		s.Kill()
		s.Start()
		if round == 1 {
			run(t, c, "SAVE")
			s.Kill()
			s.Start()
		}
		for i, line := range removals {
			if got := do(t, c, "GET", fmt.Sprint("key", i)); got != nil {
				t.Errorf("round %d: %s was seen to remove the key, which is %v after the kill",
					round, line, got)
			}
		}
		run(t, c, "FLUSHALL")
	}
	s.Stop()
}

// TestOneProcessPerDirectory starts a second server on a directory in use. The second server waits
// for the end of the first one. Once it gives up, and once the first one stops in time.
func TestOneProcessPerDirectory(t *testing.T) {
	t.Parallel()
	first := testkit.Keyp(t, small...)
	c := first.Client(3)
	run(t, c, "SET a 1")
	second := testkit.NewKeyp(t, testkit.Options{Dir: first.Dir(), Args: small})
	status, printed := second.Refuses()
	waits := `level=WARN msg="another process uses the data directory; waiting for its end"`
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	if status != 1 || len(lines) != 2 || !strings.Contains(lines[0], waits) ||
		!strings.HasPrefix(lines[1], "keyp: cannot open the data in "+first.Dir()+
			": storage: another process uses the data directory: ") ||
		runtime.GOOS == "linux" && !strings.HasSuffix(lines[1],
			fmt.Sprintf(", process %d", first.Pid())) {
		t.Errorf("status %d, printed:\n%s", status, printed)
	}
	run(t, c, "SET b 2")
	printedBefore := len(second.Log())
	var ended sync.WaitGroup
	ended.Go(func() {
		defer first.Kill()
		await.Until(t, "the second server waits", func() bool {
			return strings.Contains(second.Log()[printedBefore:], waits)
		})
	})
	second.Start()
	ended.Wait()
	if got := dump(t, second); !maps.Equal(got, map[string]string{"0 a": "1 -1", "0 b": "2 -1"}) {
		t.Errorf("the second server has %v", got)
	}
	second.Stop()
}
