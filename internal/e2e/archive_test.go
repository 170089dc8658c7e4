package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// counted is a transaction of a client, which increments the counter n and adds a key.
type counted struct {
	n         int64
	sent, got int64 // Unix ms
}

// count makes the given number of transactions, one after another.
func count(t *testing.T, c *redis.Client, from int64, most int) (list []counted) {
	t.Helper()
	for n := from + 1; n <= from+int64(most); n++ {
		one := counted{n: n, sent: time.Now().UnixMilli()}
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "n")
			p.Set(ctx, fmt.Sprint("key:", n), strings.Repeat("v", 300), time.Hour)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		one.got = time.Now().UnixMilli()
		list = append(list, one)
	}
	return list
}

// TestArchive: writes of clients are archived, across kill -9 and restarts. Any moment since a
// backup can be restored. The result has the writes that were acknowledged before that moment, and
// none that were sent later.
func TestArchive(t *testing.T) {
	t.Parallel()
	for what, args := range map[string]func(dir string) []string{
		"by the server": func(dir string) []string { return []string{"--archive-dir", dir} },
		"by a command, which fails at first": func(dir string) []string {
			return []string{"--archive-command",
				fmt.Sprintf("test -e '%s'/ready || { touch '%s'/ready; echo not yet; exit 1; }; cp '%%p' '%s'/%%f.part && mv '%s'/%%f.part '%s'/%%f",
					dir, dir, dir, dir, dir)}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			archive, backup := filepath.Join(dir, "archive"), filepath.Join(dir, "backup")
			if err := os.Mkdir(archive, 0o700); err != nil {
				t.Fatal(err)
			}
			s := testkit.Keyp(t, append(args(archive), "--archive-timeout", "1",
				"--checkpoint-log-size", "1mb", "--wal-segment-size", "128kb")...)
			done := count(t, s.Client(2), 0, 50)
			works(t, "backup", s.Addr(), backup)
			backedUp := len(done)
			for range 3 {
				done = append(done, count(t, s.Client(2), done[len(done)-1].n,
					testkit.Cases(100, 300))...)
				s.Kill()
				s.Start()
			}
			await.Until(t, "something is archived", func() bool {
				return strings.Contains(s.Client(2).Info(ctx, "persistence").Val(),
					"archive_last_status:ok") && !strings.Contains(s.Client(2).Info(ctx,
					"persistence").Val(), "archive_files:0")
			})
			done = append(done, count(t, s.Client(2), done[len(done)-1].n, 100)...)
			s.Stop() // archives the rest
			if what != "by the server" && !strings.Contains(s.Log(), "not yet") {
				t.Errorf("the log does not say why the command has failed")
			}
			restored := func(name string, least, most int64, args ...string) {
				t.Helper()
				to := filepath.Join(dir, name)
				works(t, append([]string{"restore", backup, to, "--archive", archive}, args...)...)
				works(t, "check", to)
				made := testkit.NewKeyp(t, testkit.Options{Dir: to})
				made.Start()
				c := made.Client(2)
				n, err := c.Get(ctx, "n").Int64()
				if err != nil || n < least || n > most {
					t.Errorf("%s: %d transactions are there, and must be from %d to %d: %v", name,
						n, least, most, err)
				}
				is(t, n+1)(c.DBSize(ctx).Result())
				is(t, int64(1))(c.Exists(ctx, fmt.Sprint("key:", n)).Result())
				made.Stop()
			}
			last := done[len(done)-1].n
			restored("all", last, last)
			moments := testkit.Cases(2, 4)
			for i := range moments {
				at := done[backedUp+(i+1)*(len(done)-backedUp)/(moments+2)].got
				least, most := int64(0), int64(0)
				for _, one := range done {
					if one.got < at {
						least = one.n
					}
					if one.sent <= at {
						most = one.n
					}
				}
				restored(fmt.Sprint("moment", i), least, most, "--to",
					time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z"))
			}
			refuses(t, "the archive ends with LSN", "restore", backup, filepath.Join(dir, "later"),
				"--archive", archive, "--to", "2100-01-01T00:00:00Z")
			refuses(t, "an earlier one is needed", "restore", backup, filepath.Join(dir, "earlier"),
				"--archive", archive, "--to", "2020-01-01 00:00:00")
			refuses(t, "neither an LSN nor a time", "restore", backup, filepath.Join(dir, "no"),
				"--archive", archive, "--to", "yesterday")
			refuses(t, "usage: keyp restore", "restore", backup, filepath.Join(dir, "no"), "--to",
				"5")
			refuses(t, "usage: keyp restore", "restore", backup, "--list")
			for _, name := range []string{"later", "earlier", "no"} {
				absent(t, filepath.Join(dir, name))
			}
		})
	}
}

// TestArchiveOptions: no client can set the archive's location, and only one kind of archive can be
// set at a time.
func TestArchiveOptions(t *testing.T) {
	t.Parallel()
	s := testkit.Keyp(t)
	for _, option := range []string{"archive-dir", "archive-command"} {
		if err := s.Client(2).ConfigSet(ctx, option, "/tmp/x").Err(); err == nil ||
			!strings.Contains(err.Error(), "can't set immutable config") {
			t.Errorf("CONFIG SET %s: %v", option, err)
		}
	}
	both := testkit.NewKeyp(t,
		testkit.Options{Args: []string{"--archive-dir", t.TempDir(), "--archive-command", "true"}})
	if status, printed := both.Refuses(); status == 0 ||
		!strings.Contains(printed, "exclude each other") {
		t.Errorf("both: status %d, %s", status, printed)
	}
}

// TestRestoreKeepExpired: a key existed at a moment and has expired since. After a restore of that
// moment it is gone, or with --keep-expired it exists without a deadline, also after restarts.
func TestRestoreKeepExpired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archive, backup := filepath.Join(dir, "archive"), filepath.Join(dir, "backup")
	s := testkit.Keyp(t, "--archive-dir", archive)
	c := s.Client(2)
	is(t, "OK")(c.Set(ctx, "stays", "v", time.Hour).Result())
	works(t, "backup", s.Addr(), backup)
	deadline := int64(0)
	for margin := 2 * time.Second; deadline == 0; margin *= 2 {
		// On a busy machine the key may have expired before anybody has seen it.
		now, err := c.Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		at := now.Add(margin)
		is(t, "OK")(c.Do(ctx, "SET", "code", "1234", "PXAT", at.UnixMilli()).Text())
		if c.Exists(ctx, "code").Val() == 1 {
			deadline = at.UnixMilli()
		}
	}
	await.Until(t, "the key has expired", func() bool { return c.Exists(ctx, "code").Val() == 0 })
	is(t, "OK")(c.Set(ctx, "later", "v", 0).Result())
	s.Stop()
	moment := time.UnixMilli(deadline - 1).UTC().Format("2006-01-02T15:04:05.000Z")
	for _, keep := range []bool{false, true} {
		to := filepath.Join(dir, fmt.Sprint("restored ", keep))
		args := []string{"restore", backup, to, "--archive", archive, "--to", moment}
		if keep {
			args = append(args, "--keep-expired")
		}
		printed := works(t, args...)
		if strings.Contains(printed, "1 key kept that would have expired") != keep {
			t.Errorf("keep %v: %s", keep, printed)
		}
		works(t, "check", to)
		made := testkit.NewKeyp(t, testkit.Options{Dir: to})
		for range 2 {
			made.Start()
			c := made.Client(2)
			is(t, keep)(c.Do(ctx, "EXISTS", "code").Bool())
			if keep {
				is(t, time.Duration(-1))(c.TTL(ctx, "code").Result())
				is(t, "1234")(c.Get(ctx, "code").Result())
				is(t, false)(c.Persist(ctx, "code").Result())
			}
			if left := c.TTL(ctx, "stays").Val(); left <= 0 || left > time.Hour {
				t.Errorf("keep %v: the other key has %v to live", keep, left)
			}
			is(t, int64(0))(c.Exists(ctx, "later").Result())
			made.Stop()
		}
	}
	refuses(t, "usage: keyp restore", "restore", backup, "--archive", archive, "--list",
		"--keep-expired")
}

// TestBackupPage runs the sessions of docs/operate/backup.md, line by line, with other ports and
// directories. Times, positions and sizes may differ from the page.
func TestBackupPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, cli := t.TempDir(), testkit.Program(t, "redis-cli")
	var servers []*testkit.Server
	// here has pairs of a directory or port of the page and its replacement.
	here := []string{"/backups", dir + "/backups", "/restored", dir + "/restored", "/archive",
		dir + "/archive", "/data", dir + "/data"}
	if err := os.Mkdir(dir+"/backups", 0o700); err != nil {
		t.Fatal(err)
	}
	numbers := regexp.MustCompile(
		`[0-9a-f]{24}|\d{4}-\d\d-\d\dT[\d:.]*Z|\d{8}T\d{6}\.\d{3}Z|[\d.]+(ms|µs|s)\b|\d+`)
	// known maps the times, positions and names of the page to those of this run.
	known := map[string]string{}
	steps := 0
	for i, session := range strings.Split(string(page), "```console\n") {
		if i == 0 {
			continue
		}
		session, _, _ = strings.Cut(session, "```")
		for _, step := range strings.Split("\n"+session, "\n$ ")[1:] {
			steps++
			step = strings.NewReplacer(here...).Replace(step)
			command, want, _ := strings.Cut(strings.TrimSuffix(step, "\n"), "\n")
			words := strings.Fields(command)
			switch {
			case words[len(words)-1] == "&": // keyp --port PORT --dir DIR OPTIONS &
				s := testkit.NewKeyp(t, testkit.Options{Dir: words[4],
					Args: words[5 : len(words)-1], Env: []string{"KEYP_ARCHIVE_TIMEOUT=100000"}})
				s.Start()
				servers, here = append(servers, s), append(here, ":"+words[2], ":"+s.Port(),
					"-p "+words[2], "-p "+s.Port())
				continue
			case words[0] == "kill": // %NUMBER
				n, err := strconv.Atoi(strings.TrimPrefix(words[1], "%"))
				if err != nil {
					t.Fatal(command)
				}
				servers[n-1].Stop()
				continue
			}
			program := testkit.Binary(t)
			if words[0] == "redis-cli" {
				program = cli
			}
			for i, word := range words {
				if now, ok := known[word]; ok {
					words[i] = now
				}
			}
			out, err := exec.CommandContext(await.Context(t), program, words[1:]...).Output()
			got := strings.TrimSuffix(string(out), "\n")
			if plain := numbers.ReplaceAllString(got, "0"); err != nil ||
				spaceless(plain) != spaceless(numbers.ReplaceAllString(want, "0")) {
				t.Fatalf("%s gives\n%s, %v, want\n%s", command, got, err, want)
			}
			for i, now := range numbers.FindAllString(got, -1) {
				known[numbers.FindAllString(want, -1)[i]] = now
			}
		}
	}
	if steps < 10 {
		t.Errorf("the page has %d steps", steps)
	}
}

// spaceless leaves out how much space there is between words.
func spaceless(s string) string { return strings.Join(strings.Fields(s), " ") }
