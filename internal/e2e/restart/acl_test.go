package restart

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// aclUsers is how many users each ACL SAVE writes.
const aclUsers = 50

// TestACLFileOverKills kills the server in the middle of ACL SAVE and at other times. After the
// restart the server has all users of one ACL SAVE: of the last acknowledged one, or of one that
// was running at the kill.
func TestACLFileOverKills(t *testing.T) {
	rounds := max(3, allRounds(t)/8)
	seed := testkit.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 77))
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, []byte("user default on nopass ~* &* +@all\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s := testkit.NewKeyp(t, testkit.Options{Args: append([]string{"--aclfile", file}, small...)})
	acknowledged, version := 0, 0
	for round := range rounds {
		s.Start()
		if round > 0 {
			found := aclVersion(t, s)
			if found < acknowledged || found > version {
				t.Fatalf("round %d: the users are those of version %d; %d is acknowledged, %d the last one",
					round, found, acknowledged, version)
			}
		}
		killed := make(chan struct{})
		delay := time.Duration(rng.IntN(60)) * time.Millisecond
		c := s.Client(2)
		version++
		for i := range aclUsers {
			do(t, c, "ACL", "SETUSER", fmt.Sprint("user", i), "reset", "on", ">secret",
				fmt.Sprint("~v", version), "+get")
		}
		run(t, c, "ACL SAVE")
		acknowledged = version
		go func() {
			defer close(killed)
			await.Pass(delay)
			s.Kill()
		}()
	saving:
		for {
			version++
			pipe := c.Pipeline()
			for i := range aclUsers {
				pipe.Do(ctx, "ACL", "SETUSER", fmt.Sprint("user", i), "resetkeys",
					fmt.Sprint("~v", version))
			}
			save := pipe.Do(ctx, "ACL", "SAVE")
			_, _ = pipe.Exec(ctx) // the kill fails it
			if save.Err() == nil {
				acknowledged = version
			}
			select {
			case <-killed:
				break saving
			default:
			}
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file: %v, %v", info.Mode(), err)
		}
	}
	s.Start()
	if found := aclVersion(t, s); found < acknowledged || found > version {
		t.Fatalf("the users are those of version %d; %d is acknowledged, %d the last one", found,
			acknowledged, version)
	}
	t.Logf("%d kills, %d times ACL SAVE", rounds, version)
	s.Stop()
}

var aclLine = regexp.MustCompile(
	`^user user\d+ on sanitize-payload #[0-9a-f]{64} ~v(\d+) resetchannels -@all \+get$`)

// aclVersion returns the version of the server's users. All users must have the same version.
func aclVersion(t *testing.T, s *testkit.Server) int {
	t.Helper()
	list, err := s.Client(2).ACLList(ctx).Result()
	if err != nil || len(list) != aclUsers+1 {
		t.Fatalf("%d users, %v", len(list), err)
	}
	var versions []string
	for _, line := range list {
		if strings.HasPrefix(line, "user default ") {
			continue
		}
		m := aclLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a user as it was made: %s", line)
		}
		versions = append(versions, m[1])
	}
	if len(slices.Compact(versions)) != 1 {
		t.Fatalf("users of several versions: %q", list)
	}
	n, err := strconv.Atoi(versions[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestACLOverRestarts: users that CONFIG REWRITE or an ACL file has kept are there again,
// unchanged. A server with users that it cannot parse does not start.
func TestACLOverRestarts(t *testing.T) {
	dir := t.TempDir()
	conf, file := filepath.Join(dir, "keyp.conf"), filepath.Join(dir, "users.acl")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf, "requirepass first\nuser alice on >secret ~a +get +config|rewrite\n")
	s := testkit.NewKeyp(t, testkit.Options{Config: conf, Args: small})
	s.Start()
	as := func(user, password string) string {
		c := s.Client(3)
		reply, err := c.Do(ctx, "HELLO", "3", "AUTH", user, password).Result()
		_ = c.Close() // it has its answer
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%T", reply)
	}
	const in, out = "map[interface {}]interface {}",
		"WRONGPASS invalid username-password pair or user is disabled."
	for _, tt := range []struct{ user, password, want string }{
		{"alice", "secret", in}, {"alice", "first", out}, {"default", "first", in},
		{"default", "secret", out},
	} {
		if got := as(tt.user, tt.password); got != tt.want {
			t.Errorf("%s with %q: %s", tt.user, tt.password, got)
		}
	}
	admin := func(password string, lines ...string) {
		t.Helper()
		c := s.Client(2).Conn()
		defer c.Close()
		if err := c.Auth(ctx, password).Err(); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			var args []any
			for _, word := range strings.Fields(line) {
				args = append(args, word)
			}
			if err := c.Do(ctx, args...).Err(); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	admin("first", "ACL SETUSER bob on >bobs (~b* +@read) -@all",
		"ACL SETUSER alice <secret >other", "CONFIG SET requirepass next", "CONFIG REWRITE")
	s.Kill()
	s.Start()
	for _, tt := range []struct{ user, password, want string }{
		{"alice", "other", in}, {"alice", "secret", out}, {"bob", "bobs", in},
		{"default", "next", in}, {"default", "first", out},
	} {
		if got := as(tt.user, tt.password); got != tt.want {
			t.Errorf("after a restart, %s with %q: %s", tt.user, tt.password, got)
		}
	}
	s.Stop()
	if text, err := os.ReadFile(conf); err != nil || strings.Contains(string(text), "bobs") ||
		strings.Contains(string(text), "other") {
		t.Errorf("a password stands in the file: %s (%v)", text, err)
	}
	for _, tt := range []struct{ file, config, args, want string }{
		{"user alice on foo", "", "--aclfile " + file,
			`users.acl:1: "alice": a word is not a rule`},
		{"", "", "--aclfile " + file, "No such file or directory"},
		{"user default on >pw ~* &* +@all", conf, "--aclfile " + file,
			"users are defined both in the configuration file and by aclfile"},
		{"", "", "--user alice on +nosuch",
			"rule '+nosuch': Unknown command or category name in ACL"},
	} {
		_ = os.Remove(file) // there may be none
		if tt.file != "" {
			write(file, tt.file+"\n")
		}
		wrong := testkit.NewKeyp(t,
			testkit.Options{Config: tt.config, Args: append(strings.Fields(tt.args), small...)})
		if status, printed := wrong.Refuses(); status != 1 || !strings.Contains(printed, tt.want) {
			t.Errorf("%s: status %d, %s", tt.args, status, printed)
		}
	}
}
