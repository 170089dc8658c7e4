package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/commands"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage/format"
)

// TestMissingLog: a server refuses to start if its log is missing, because changes would be lost
// without notice. check reports the missing log, and repair saves what the data file has.
func TestMissingLog(t *testing.T) {
	remove := map[string]func(log string) error{
		"directory": os.RemoveAll,
		"files": func(log string) error {
			names, err := filepath.Glob(filepath.Join(log, "*"))
			for _, name := range names {
				if err == nil {
					err = os.Remove(name)
				}
			}
			return err
		},
	}
	for what, remove := range remove {
		for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			// A server makes a checkpoint at SIGTERM, but not at SIGKILL.
			t.Run(what+"/"+end.String(), func(t *testing.T) {
				base := t.TempDir()
				data, repaired := filepath.Join(base, "data"), filepath.Join(base, "repaired")
				p := startKeyp(t, data)
				if err := p.client(t).Set(context.Background(), "key", "value",
					0).Err(); err != nil {
					t.Fatal(err)
				}
				p.signal(t, end)
				p.status(t)
				if err := remove(filepath.Join(data, "wal")); err != nil {
					t.Fatal(err)
				}
				status, out, errs := runKeyp(t, "", nil, "check", data)
				if status != 1 || !strings.Contains(out, filepath.Join(data, "wal", "wal-")) ||
					!strings.Contains(out, "the file is missing") ||
					!strings.Contains(errs, "is damaged in 1 place") {
					t.Errorf("check: status %d, %q, %q", status, out, errs)
				}
				status, _, errs = runKeyp(t, "", nil, "--dir", data, "--port", freePort(t))
				if status != 1 || !strings.Contains(errs, "the file is missing") ||
					!strings.Contains(errs, "`keyp check`") {
					t.Errorf("start: status %d, %q", status, errs)
				}
				status, out, errs = runKeyp(t, "", nil, "repair", data, repaired)
				if status != 1 || !strings.Contains(out, "the file is missing") {
					t.Errorf("repair: status %d, %q, %q", status, out, errs)
				}
				if end == syscall.SIGTERM && !strings.HasPrefix(lastLine(out),
					repaired+" has 1 key") {
					t.Errorf("repair: %q", out)
				}
				if status, out, errs := runKeyp(t, "", nil, "check", repaired); status != 0 {
					t.Errorf("check of what was repaired: status %d, %q, %q", status, out, errs)
				}
			})
		}
	}
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndex(text, "\n")+1:]
}

// TestDamagedPages: the log has one line for each of two damaged pages, however many of their keys
// are requested. `keyp check` names the pages and some of the lost keys. With --verbose it lists
// all of them.
func TestDamagedPages(t *testing.T) {
	s, ctx := testkit.Keyp(t), t.Context()
	const keys = 2000
	value := strings.Repeat("value ", 20)
	_, err := s.Client(3).Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range keys {
			p.Set(ctx, fmt.Sprint("user:", i), value, time.Hour)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	path := filepath.Join(s.Dir(), format.DataName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const leaf, flags = 2, 8 // bbolt's flag of a leaf page, and where it stands
	var pages [][]byte
	for page := range slices.Chunk(data, format.PageSize) {
		if page[flags] == leaf && bytes.Count(page, []byte(value)) > 20 {
			pages = append(pages, page)
		}
	}
	if len(pages) < 10 {
		t.Fatalf("%d pages have keys", len(pages))
	}
	for _, page := range pages[len(pages)-2:] {
		copy(page, bytes.Repeat([]byte{0xff}, 64))
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	errs := 0
	c := s.Client(3)
	for i := range keys {
		switch got, err := c.Get(ctx, fmt.Sprint("user:", i)).Result(); {
		case err == nil && got == value:
		case err != nil && err.Error() == string(commands.ErrUnread):
			errs++
		default:
			t.Errorf("GET: %q, %v", got, err)
		}
	}
	await.Until(t, "all is loaded that can be", func() bool {
		return strings.Contains(s.Log(), "all keys are in memory but those")
	})
	if lines := strings.Count(s.Log(), "level=ERROR"); errs < 40 || lines != 2 {
		t.Errorf("%d keys cannot be read, and the log has %d errors", errs, lines)
	}
	s.Kill()
	status, few, _ := runKeyp(t, "", nil, "check", s.Dir())
	if n := strings.Count(few, "\n"); status != 1 || n > 20 ||
		strings.Count(few, "its header names page") != 2 || !strings.Contains(few, "bucket ttl: ") {
		t.Errorf("status %d, %d lines:\n%s", status, n, few)
	}
	if _, all, _ := runKeyp(t, "", nil, "check", s.Dir(), "--verbose"); strings.Count(all,
		"no record has that deadline") != errs {
		t.Errorf("%d keys cannot be read; check prints\n%s", errs, all)
	}
}
