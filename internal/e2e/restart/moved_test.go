package restart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// TestDirectoryMoves: somebody moves the directory of a running server, and starts another one in its place. Each goes on in its own
// directory, through new segments of the log, checkpoints and kills, and both are sound.
func TestDirectoryMoves(t *testing.T) {
	place := filepath.Join(t.TempDir(), "data")
	moved := place + ".old"
	start := func(dir string) *testkit.Server {
		s := testkit.NewKeyp(t, testkit.Options{Dir: dir, Args: append(small, "--checkpoint-log-size", "4mb")})
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
		if output, err := exec.Command(testkit.Binary(t), "check", dir).CombinedOutput(); err != nil {
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
