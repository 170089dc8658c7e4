package restart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestDirectoryMoves renames the directory of a running server and starts another server in its
// place. Each server goes on in its own directory, through new segments of the log, checkpoints and
// kills. The files of both are sound.
func TestDirectoryMoves(t *testing.T) {
	place := filepath.Join(t.TempDir(), "data")
	moved := place + ".old"
	start := func(dir string) *testkit.Server {
		s := testkit.NewKeyp(t, testkit.Options{Dir: dir,
			Args: append(small, "--checkpoint-log-size", "4mb")})
		s.Start()
		return s
	}
	fill := func(c *redis.Client, prefix string, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			do(t, c, "SET", fmt.Sprint(prefix, i), make([]byte, 64<<10), "EX", 1000)
		}
	}
	first := start(place)
	one := first.Client(2)
	fill(one, "one:", 0, 10)
	if err := os.Rename(place, moved); err != nil {
		t.Fatal(err)
	}
	fill(one, "one:", 10, 60) // new segments, and a checkpoint, with nothing in the place
	second := start(place)
	two := second.Client(2)
	fill(two, "two:", 0, 30)
	fill(one, "one:", 60, 100)
	run(t, one, "SAVE")
	fill(two, "two:", 30, 60)
	run(t, two, "SAVE")
	fill(one, "one:", 100, 110)
	fill(two, "two:", 60, 70)
	first.Kill()
	second.Kill()
	for dir, want := range map[string]string{moved: "one:", place: "two:"} {
		if output, err := exec.Command(testkit.Binary(t), "check",
			dir).CombinedOutput(); err != nil {
			t.Errorf("keyp check: %v\n%s", err, output)
		}
		s := start(dir)
		names, err := s.Client(2).Keys(ctx, "*").Result()
		if n := map[string]int{"one:": 110, "two:": 70}[want]; err != nil || len(names) != n {
			t.Errorf("%s: %d keys of %d, %v", dir, len(names), n, err)
		}
		for _, name := range names {
			if name[:4] != want {
				t.Errorf("%s has %s", dir, name)
			}
		}
		s.Stop()
	}
}

// in returns a prefix for a server's command line, which starts the server in a directory by that
// name, as a shell does after cd.
func in(dir string) []string { return []string{"/bin/sh", "-c", `cd "$0" && exec "$@"`, dir} }

// TestPathsBeginAtTheStart: relative paths refer to the directory in which the server starts, also
// through a symbolic link. The running server does not need that directory any more.
func TestPathsBeginAtTheStart(t *testing.T) {
	top := t.TempDir()
	real, link, archive := filepath.Join(top, "real"), filepath.Join(top, "link"),
		filepath.Join(top, "archive")
	for _, dir := range []string{filepath.Join(real, "sub"), archive} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("real", "sub"), link); err != nil {
		t.Fatal(err)
	}
	s := testkit.NewKeyp(t, testkit.Options{Under: in(link),
		Args: append(small, "--dir", "../data", "--pidfile", "../pid",
			"--archive-command", `cp "%p" '`+archive+`'/%f`, "--archive-timeout", "1")})
	s.Start()
	run(t, s.Client(2), "SET k v")
	for _, name := range []string{"data/keyp.db", "pid"} {
		if _, err := os.Stat(filepath.Join(real, name)); err != nil {
			t.Error(err)
		}
	}
	if err := os.Rename(real, real+".old"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the log is archived", func() bool {
		files, err := os.ReadDir(archive)
		return err == nil && len(files) > 0
	})
	s.Stop() // with status 0, although the pidfile is not where it was
}
