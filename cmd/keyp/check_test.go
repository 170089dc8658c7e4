package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMissingLog: a server does not start without a log that the data file knows of, since what is
// only there would be missing without a word. check says so, and repair saves the rest.
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
		for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} { // without a checkpoint, and with one
			t.Run(what+"/"+end.String(), func(t *testing.T) {
				base := t.TempDir()
				data, repaired := filepath.Join(base, "data"), filepath.Join(base, "repaired")
				p := startKeyp(t, data)
				if err := p.client(t).Set(context.Background(), "key", "value", 0).Err(); err != nil {
					t.Fatal(err)
				}
				p.signal(t, end)
				p.status(t)
				if err := remove(filepath.Join(data, "wal")); err != nil {
					t.Fatal(err)
				}
				status, out, errs := runKeyp(t, "", nil, "check", data)
				if status != 1 || !strings.Contains(out, filepath.Join(data, "wal", "wal-")) || !strings.Contains(out, "the file is missing") || !strings.Contains(errs, "is damaged in 1 place") {
					t.Errorf("check: status %d, %q, %q", status, out, errs)
				}
				status, _, errs = runKeyp(t, "", nil, "--dir", data, "--port", freePort(t))
				if status != 1 || !strings.Contains(errs, "the file is missing") || !strings.Contains(errs, "`keyp check`") {
					t.Errorf("start: status %d, %q", status, errs)
				}
				status, out, errs = runKeyp(t, "", nil, "repair", data, repaired)
				if status != 1 || !strings.Contains(out, "the file is missing") {
					t.Errorf("repair: status %d, %q, %q", status, out, errs)
				}
				if end == syscall.SIGTERM && !strings.HasPrefix(lastLine(out), repaired+" has 1 key") {
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
