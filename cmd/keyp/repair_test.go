package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestRepair: one value of the data file is damaged. The server serves all other keys, check
// reports the damaged place, and repair makes a directory with all other keys.
func TestRepair(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	data, repaired := filepath.Join(dir, "data"), filepath.Join(dir, "repaired")
	p := startKeyp(t, data)
	c := p.client(t)
	const keys = 500
	for i := range keys {
		if err := c.Set(ctx, fmt.Sprint("key", i), fmt.Sprintf("value of key %d.", i),
			0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p.signal(t, syscall.SIGTERM)
	p.status(t)

	if status, out, errs := runKeyp(t, "", nil, "repair", data, repaired); status != 0 ||
		!strings.HasPrefix(out, repaired+" has 500 keys, 0 with a deadline") || errs != "" {
		t.Errorf("repair of a sound directory: status %d, %q, %q", status, out, errs)
	}
	if status, _, errs := runKeyp(t, "", nil, "repair", data, repaired); status != 2 ||
		!strings.Contains(errs, "file exists") {
		t.Errorf("repair into a directory that is there: status %d, %q", status, errs)
	}
	if status, _, errs := runKeyp(t, "", nil, "repair", data); status != 2 ||
		errs != "keyp: usage: keyp repair DIR NEWDIR\n" {
		t.Errorf("repair to nowhere: status %d, %q", status, errs)
	}
	if err := os.RemoveAll(repaired); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(data, "keyp.db")
	b, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(b, []byte("value of key 77.")) {
		t.Fatalf("the value is not there: %v", err)
	}
	b = bytes.ReplaceAll(b, []byte("value of key 77."), []byte("value og key 77."))
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runKeyp(t, "", nil, "check", data)
	if status != 1 || !strings.Contains(out, "key77") ||
		!strings.Contains(errs, "`keyp repair "+data+" NEWDIR`") {
		t.Errorf("check: status %d, %q, %q", status, out, errs)
	}
	p = startKeyp(t, data)
	served(t, p.client(t), keys, "ERR")
	p.signal(t, syscall.SIGKILL)
	p.status(t)

	status, out, errs = runKeyp(t, "", nil, "repair", data, repaired)
	if status != 1 || !strings.Contains(out, `lost: key "key77" of database 0`) ||
		!strings.Contains(errs, "not all of "+data) {
		t.Errorf("repair: status %d, %q, %q", status, out, errs)
	}
	if status, out, errs := runKeyp(t, "", nil, "check", repaired); status != 0 {
		t.Errorf("check of what was repaired: status %d, %q, %q", status, out, errs)
	}
	served(t, startKeyp(t, repaired).client(t), keys, "nil")
}

// served reads all keys. GET of the 77th must return an error that contains bad.
func served(t *testing.T, c *redis.Client, keys int, bad string) {
	t.Helper()
	for i := range keys {
		got, err := c.Get(context.Background(), fmt.Sprint("key", i)).Result()
		if i == 77 {
			if err == nil || !strings.Contains(err.Error(), bad) {
				t.Errorf("the damaged key gave %q, %v; want %s", got, err, bad)
			}
		} else if err != nil || got != fmt.Sprintf("value of key %d.", i) {
			t.Errorf("key%d is %q, %v", i, got, err)
		}
	}
}
