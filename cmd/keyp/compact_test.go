package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCompact: keyp compact shrinks a data file that is mostly unused. All keys are still there,
// also after a compaction was killed.
func TestCompact(t *testing.T) {
	data, ctx := t.TempDir(), context.Background()
	file := filepath.Join(data, "keyp.db")
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	p := startKeyp(t, data)
	c := p.client(t)
	const keys, kept = 20_000, 100
	set := c.Pipeline()
	for i := range keys {
		ttl := time.Duration(0)
		if i < kept {
			ttl = time.Hour
		}
		set.Set(ctx, fmt.Sprint("key", i), strings.Repeat("v", 2000), ttl)
	}
	if _, err := set.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if size() < keys*2000 {
		t.Fatalf("the data file has %d bytes", size())
	}
	del := c.Pipeline()
	for i := kept; i < keys; i++ {
		del.Del(ctx, fmt.Sprint("key", i))
	}
	if _, err := del.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for _, tool := range [][]string{{"check", data}, {"repair", data, data + ".repaired"}} {
		if status, _, errs := runKeyp(t, "", nil, tool...); status == 0 || !strings.Contains(errs,
			"; a server runs on it, or one that was stopped has not ended yet") {
			t.Errorf("%s while the server runs: status %d, %q", tool[0], status, errs)
		}
	}
	if status, _, errs := runKeyp(t, "", nil, "compact", data); status != 1 ||
		!strings.Contains(errs, "another process uses the data directory") {
		t.Errorf("compact beside a server: status %d, %q", status, errs)
	}
	p.signal(t, syscall.SIGKILL) // the deletions are only in the log
	p.status(t)
	if err := os.WriteFile(file+".compact", []byte("what a killed compaction leaves"),
		0o600); err != nil {
		t.Fatal(err)
	}
	before := size()
	status, out, errs := runKeyp(t, "", nil, "compact", data)
	if want :=
		fmt.Sprintf("%s is compact: %d keys, the data file had %d bytes and has %d, done in ", data,
			kept, before, size()); status != 0 || errs != "" || !strings.HasPrefix(out, want) {
		t.Errorf("compact: status %d, %q, %q, want %q", status, out, errs, want)
	}
	if size() > before/10 {
		t.Errorf("the data file had %d bytes and has %d", before, size())
	}
	if status, out, errs := runKeyp(t, "", nil, "check", data); status != 0 {
		t.Errorf("check: status %d, %q, %q", status, out, errs)
	}
	if names, err := filepath.Glob(file + "*"); err != nil || len(names) != 1 {
		t.Errorf("files %q, %v", names, err)
	}
	c = startKeyp(t, data).client(t)
	for i := range kept {
		k := fmt.Sprint("key", i)
		if v, ttl := c.Get(ctx, k).Val(), c.TTL(ctx, k).Val(); len(v) != 2000 ||
			ttl < 50*time.Minute {
			t.Fatalf("%s has %d bytes and lives for %v", k, len(v), ttl)
		}
	}
	if n := c.DBSize(ctx).Val(); n != kept {
		t.Errorf("%d keys", n)
	}
}

func TestCompactMistakes(t *testing.T) {
	nothing := filepath.Join(t.TempDir(), "nothing")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"compact"}, "keyp: usage: keyp compact DIR\n"},
		{[]string{"compact", "a", "b"}, "keyp: usage: keyp compact DIR\n"},
		{[]string{"compact", nothing}, "keyp: stat " + nothing + ": no such file or directory\n"},
	} {
		if status, out, errs := runKeyp(t, "", nil, tt.args...); status != 1 || out != "" ||
			errs != tt.want {
			t.Errorf("%q: status %d, printed %q, %q, want %q", tt.args, status, out, errs, tt.want)
		}
	}
}
