package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// strace returns the command that runs a server under strace, which makes system calls fail. In
// each thread the n-th of these calls fails, or every n-th.
func strace(t *testing.T, trace, call, failure, when string, paths ...string) []string {
	t.Helper()
	args := []string{"strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", trace, "-e",
		"trace=" + call,
		"-e", "signal=none", "-e", "inject=" + call + ":error=" + failure + ":when=" + when}
	for _, path := range paths {
		args = append(args, "-P", path)
	}
	return args
}

func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-f", "-qq", "--seccomp-bpf", "-o", os.DevNull, "-e",
		"inject=ftruncate:error=EIO:when=1", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace cannot make system calls fail here: %v %s", err, out)
	}
}

// injected returns the number of calls that have failed.
func injected(t *testing.T, trace string) int {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "(INJECTED)")
}

// TestDataFileErrors makes the system calls that write and sync the data file fail, one after the
// other, from the server's first start to its end. The server may continue, or exit with a message.
// Acknowledged writes are there after the next start.
func TestDataFileErrors(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for _, tt := range []struct {
		call  string
		first bool  // from the first start on, or from a later one
		some  []int // which of them fail when not all do
	}{
		{"fdatasync", true, []int{5}},
		{"fdatasync", false, []int{1, 2, 3, 4}},
		{"pwrite64", true, []int{7}},
		{"pwrite64", false, []int{2, 6, 9}},
		{"fsync", true, []int{1}},
		{"ftruncate", true, []int{1}},
	} {
		for _, failure := range []string{"ENOSPC", "EIO"} {
			t.Run(fmt.Sprintf("%s/first %t/%s", tt.call, tt.first, failure), func(t *testing.T) {
				if testkit.Number(t, "KEYP_KILLS", 0) == 0 {
					for _, n := range tt.some {
						if !dataFileError(t, tt.call, failure, n, tt.first) {
							t.Errorf("no thread has %d calls", n)
						}
					}
					return
				}
				n := 1
				for dataFileError(t, tt.call, failure, n, tt.first) {
					n++
				}
				t.Logf("%d calls", n-1)
			})
		}
	}
}

// dataFileError makes the n-th call fail, and returns true if there was an n-th call.
func dataFileError(t *testing.T, call, failure string, n int, first bool) bool {
	t.Helper()
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	at := fmt.Sprintf("%s of %d", failure, n)
	faulty := testkit.NewKeyp(t,
		testkit.Options{Dir: dir, Under: strace(t, trace, call, failure, fmt.Sprint(n),
			filepath.Join(dir, "keyp.db"), filepath.Join(dir, "keyp.db.new"))})
	sound := testkit.NewKeyp(t, testkit.Options{Dir: dir})
	if !first {
		sound.Start()
		sound.Stop()
	}
	acknowledged := 0
	if faulty.StartsOrEnds() {
		c := faulty.Client(3)
		for range 4 {
			for range 25 {
				if c.Set(ctx, fmt.Sprint("k", acknowledged), fmt.Sprint("v", acknowledged),
					0).Err() != nil {
					break
				}
				acknowledged++
			}
			_ = c.Do(ctx, "SAVE").Err()
		}
		await.Until(t, at+": SAVE does, or the server ends", func() bool {
			// Calls are counted for each thread, so each has its own n-th call.
			return !faulty.Running() || c.Do(ctx, "SAVE").Err() == nil
		})
		_ = c.Do(ctx, "SHUTDOWN").Err() // the failure may come at the end
		if status := faulty.Ended(); status != 0 && !strings.Contains(faulty.Log(), "keyp: ") {
			t.Errorf("%s: the server has ended with status %d and without a message", at, status)
		}
	}
	failed := injected(t, trace) > 0
	sound.Start()
	c := sound.Client(3)
	if size, err := c.DBSize(ctx).Result(); err != nil || size < int64(acknowledged) ||
		size > int64(acknowledged)+1 {
		t.Errorf("%s: %d keys, %v; %d were acknowledged", at, size, err, acknowledged)
	}
	for i := range acknowledged {
		if got, err := c.Get(ctx, fmt.Sprint("k", i)).Result(); err != nil ||
			got != fmt.Sprint("v", i) {
			t.Fatalf("%s: k%d is %q, %v; %d were acknowledged", at, i, got, err, acknowledged)
		}
	}
	sound.Stop()
	if out, err := exec.Command(testkit.Binary(t), "check", dir).CombinedOutput(); err != nil {
		t.Errorf("%s: keyp check: %v\n%s", at, err, out)
	}
	return failed
}

// TestInterruptedSyncs: a signal interrupts every third sync and write of all files, without any
// visible effect.
func TestInterruptedSyncs(t *testing.T) {
	t.Parallel()
	needStrace(t)
	trace := filepath.Join(t.TempDir(), "trace")
	s := testkit.NewKeyp(t, testkit.Options{Under: strace(t, trace, "fdatasync,fsync,pwrite64",
		"EINTR", "1+3")})
	s.Start()
	c := s.Client(3)
	for i := range 60 {
		if err := c.Set(ctx, fmt.Sprint("k", i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if err := c.Do(ctx, "SAVE").Err(); err != nil {
				t.Fatalf("SAVE: %v", err)
			}
		}
	}
	if size, err := c.DBSize(ctx).Result(); err != nil || size != 60 {
		t.Errorf("%d keys, %v, want 60", size, err)
	}
	s.Stop()
	if n := injected(t, trace); n < 20 {
		t.Errorf("only %d calls were interrupted", n)
	}
}
