package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/setup"
)

// TestFullArchive: while the disk of the archive is full, the server continues, keeps the log and
// reports the problem. Once there is room it archives the kept log, so that the archive has no gap.
func TestFullArchive(t *testing.T) {
	t.Parallel()
	disk := testkit.MemoryDisk(t, 16)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 15<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, dir := filepath.Join(disk, "archive"), t.TempDir()
	backup, restored := filepath.Join(dir, "backup"), filepath.Join(dir, "restored")
	s := testkit.Keyp(t, "--archive-dir", archive, "--archive-timeout", "1", "--wal-segment-size",
		"1mb", "--checkpoint-log-size", "1mb")
	c := s.Client(2)
	works(t, "backup", s.Addr(), backup)
	rng, n := rand.New(rand.NewPCG(setup.Seed, 0)), 0
	value := make([]byte, 20_000) // that cannot be compressed
	write := func() {
		t.Helper()
		for range 100 {
			for i := range value {
				value[i] = byte(rng.Uint32())
			}
			is(t, "OK")(c.Set(ctx, fmt.Sprint("k", n), value, 0).Result())
			n++
		}
	}
	info := func(line string) bool {
		return strings.Contains(c.Info(ctx, "persistence").Val(), line+"\r\n")
	}
	write()
	await.Until(t, "the archive fails", func() bool { return info("archive_last_status:err") })
	write()
	s.Kill()
	s.Start()
	c = s.Client(2)
	write()
	await.Until(t, "the archive fails after a start", func() bool {
		return info("archive_last_status:err")
	})
	if log := s.Log(); !strings.Contains(log, "the log is not archived, and kept") ||
		!strings.Contains(log, "no space left on device") {
		t.Error("the log does not say why nothing is archived")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the archive works", func() bool {
		return info("archive_last_status:ok") && info("archive_holes:0")
	})
	is(t, "OK")(c.Set(ctx, "last", "v", 0).Result())
	s.Stop()
	works(t, "restore", backup, restored, "--archive", archive)
	made := testkit.NewKeyp(t, testkit.Options{Dir: restored})
	made.Start()
	all := made.Client(2)
	is(t, int64(n+1))(all.DBSize(ctx).Result())
	if got, err := all.Get(ctx, fmt.Sprint("k", n-1)).Bytes(); err != nil ||
		string(got) != string(value) {
		t.Errorf("the last value has %d bytes, %v", len(got), err)
	}
}
