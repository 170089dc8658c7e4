package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/clock"
	"keyp/storage"
)

// TestMembersDirectory: no tool, and no start without the options of a cluster, takes a member's directory for one of a server that is alone.
func TestMembersDirectory(t *testing.T) {
	base := t.TempDir()
	data, repaired := filepath.Join(base, "data"), filepath.Join(base, "repaired")
	o := storage.Options{Dir: data, Clock: clock.System, Logger: slog.New(slog.DiscardHandler), NoBackground: true}
	s, _, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if err := storage.BecomeMember(o, storage.Place{Segment: 1, Position: 7}); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runKeyp(t, "", nil, "check", data)
	if status != 0 || !strings.HasPrefix(out, data+" belongs to a member of a group: its data file is sound") || errs != "" {
		t.Errorf("check: status %d, %q, %q", status, out, errs)
	}
	status, out, errs = runKeyp(t, "", nil, "repair", data, repaired)
	if status != statusFailed || out != "" || !strings.Contains(errs, "belongs to a member of a group") || !strings.Contains(errs, "join again") {
		t.Errorf("repair: status %d, %q, %q", status, out, errs)
	}
	for _, args := range [][]string{{"compact", data}, {"--dir", data, "--port", freePort(t)}} {
		status, out, errs := runKeyp(t, "", nil, args...)
		if status != 1 || !strings.Contains(errs, "belongs to a member of a group: only a server with the options of its cluster can use it") {
			t.Errorf("%v: status %d, %q, %q", args, status, out, errs)
		}
	}
}
