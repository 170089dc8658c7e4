package restart

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
)

// crowd returns how many clients write to a server at the same time. A server with almost no memory
// gets few, because each command takes longer there.
func crowd(run string) int {
	if os.Getenv("KEYP_KILLS") != "" && run != evicting {
		return manyWriters
	}
	return fewWriters
}

// beside draws work for the server to do beside its clients until it ends: checkpoints one after
// the other, also compactions, or nothing.
func beside(rng *rand.Rand, s *testkit.Server) func() {
	switch rng.IntN(4) {
	case 0:
		return func() { s.RepeatUntilGone("DEBUG", "COMPACT") } // which waits for what SAVE holds
	case 1, 2:
		return func() { s.RepeatUntilGone("BGSAVE") }
	}
	return func() {}
}

// startAfterTrouble starts a server that has ended. Before that it often runs compactions and
// starts that it kills at any moment.
func startAfterTrouble(t testing.TB, rng *rand.Rand, s *testkit.Server) {
	t.Helper()
	any := func(ms int) time.Duration { return time.Duration(rng.IntN(1000*ms)) * time.Microsecond }
	if rng.IntN(4) == 0 {
		killTool(t, any(60), "compact", s.Dir())
	}
	if rng.IntN(3) == 0 {
		for range 1 + rng.IntN(3) {
			s.KillStarting(any(40))
		}
	}
	s.Start()
}

// killTool runs a keyp tool and kills it after d, as kill -9 does. The tool may end before, but not
// with an error.
func killTool(t testing.TB, d time.Duration, args ...string) {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t), args...)
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() }) // it may have ended just now
	defer timer.Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("keyp %s: %v\n%s", strings.Join(args, " "), err, printed.String())
	}
}
