package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// namesIn returns the names in a directory that end with a suffix.
func namesIn(t *testing.T, dir, end string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), end) {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestPrune: old backups are removed, together with the part of an archive that only they need.
// Damaged backups do not count. Backups of another server and other files stay.
func TestPrune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	backups, archive := filepath.Join(dir, "backups"), filepath.Join(dir, "archive")
	if err := os.Mkdir(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	works(t, "backup", testkit.Keyp(t).Addr(), backups)
	others := namesIn(t, backups, ".backup")
	s := testkit.Keyp(t, "--archive-dir", archive, "--archive-timeout", "1")
	c := s.Client(2)
	for i := range 5 {
		is(t, "OK")(c.Set(ctx, fmt.Sprint("key", i), strings.Repeat("v", 1000), 0).Result())
		works(t, "backup", s.Addr(), backups)
		files := len(namesIn(t, archive, ".log"))
		is(t, "OK")(c.Set(ctx, fmt.Sprint("more", i), "v", 0).Result())
		await.Until(t, "that is archived", func() bool {
			return len(namesIn(t, archive, ".log")) > files
		})
	}
	s.Stop()
	own := slices.DeleteFunc(namesIn(t, backups, ".backup"), func(name string) bool {
		return slices.Contains(others, name)
	})
	if len(own) != 5 || len(others) != 1 {
		t.Fatalf("the backups are %q and %q", own, others)
	}
	damaged := filepath.Join(backups, own[3])
	b, err := os.ReadFile(damaged)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(damaged, b, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(backups, "notes.txt"), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, files := len(namesIn(t, backups, "")), len(namesIn(t, archive, ".log"))
	prune := func(args ...string) string {
		t.Helper()
		return works(t, append([]string{"backup", "prune", backups, "--archive", archive},
			args...)...)
	}
	if got := prune("--keep", "2", "--dry-run"); !strings.Contains(got, own[1]) ||
		!strings.Contains(got, "would be removed") || len(namesIn(t, backups, "")) != all ||
		len(namesIn(t, archive, ".log")) != files {
		t.Errorf("a dry run prints\n%s", got)
	}
	if got := prune("--keep", "30d"); len(namesIn(t, backups, "")) != all {
		t.Errorf("nothing is that old, and it prints\n%s", got)
	}
	got := prune("--keep", "2")
	left := namesIn(t, backups, ".backup")
	want := append([]string{own[2], own[3], own[4]}, others...)
	slices.Sort(left)
	slices.Sort(want)
	if !slices.Equal(left, want) || len(namesIn(t, archive, ".log")) >= files ||
		len(namesIn(t, backups, "notes.txt")) != 1 ||
		!strings.Contains(got, own[3]+" is not sound") {
		t.Errorf("%q are left, want %q; it prints\n%s", left, want, got)
	}
	// The remaining files are enough to restore any moment since the oldest backup.
	to := filepath.Join(dir, "restored")
	works(t, "restore", filepath.Join(backups, own[2]), to, "--archive", archive)
	made := testkit.NewKeyp(t, testkit.Options{Dir: to})
	made.Start()
	is(t, int64(10))(made.Client(2).DBSize(ctx).Result())
	refuses(t, "is no number of backups", "backup", "prune", backups, "--keep", "0")
	refuses(t, "is no number of backups", "backup", "prune", backups)
	refuses(t, "usage: keyp backup prune", "backup", "prune", "--keep", "3")
	refuses(t, "no such file", "backup", "prune", filepath.Join(dir, "nothing"), "--keep", "3")
}

// TestBackupUnit runs the command of the systemd unit for backups, with another address and
// directory.
func TestBackupUnit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../deploy/systemd/keyp-backup.service")
	if err != nil {
		t.Fatal(err)
	}
	s, dir := testkit.Keyp(t), t.TempDir()
	is(t, "OK")(s.Client(2).Set(ctx, "key", "v", 0).Result())
	commands := 0
	for line := range strings.Lines(string(unit)) {
		command, ok := strings.CutPrefix(line, "ExecStart=/usr/bin/keyp ")
		if !ok {
			continue
		}
		commands++
		works(t, strings.Fields(strings.NewReplacer("127.0.0.1:6379", s.Addr(),
			"/var/lib/keyp-backup", dir).Replace(command))...)
	}
	if names := namesIn(t, dir, ".backup"); commands != 2 || len(names) != 1 {
		t.Errorf("%d commands have made %q", commands, names)
	}
}
