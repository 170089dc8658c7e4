package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/clock"
	"keyp/storage"
)

// TestMembersDirectory: the tools for a single server's directory refuse the directory of a group
// member, and so does a server without the cluster options. The directory has lost its log and its
// member.json, so only the data file shows that it belongs to a member.
func TestMembersDirectory(t *testing.T) {
	base := t.TempDir()
	data, repaired := filepath.Join(base, "data"), filepath.Join(base, "repaired")
	o := storage.Options{Dir: data, Clock: clock.System, Logger: slog.New(slog.DiscardHandler),
		NoBackground: true}
	s, _, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if err := storage.BecomeMember(o, storage.LogPosition{Segment: 1, Position: 7}); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runKeyp(t, "", nil, "check", data)
	if status != 1 || !strings.Contains(out, filepath.Join(data, "raft")) ||
		!strings.Contains(errs, "belongs to a member of a group and is damaged in 1 place") ||
		!strings.Contains(errs, "keyp cluster remove") {
		t.Errorf("check: status %d, %q, %q", status, out, errs)
	}
	status, out, errs = runKeyp(t, "", nil, "repair", data, repaired)
	if status != statusFailed || out != "" || !strings.Contains(errs,
		"belongs to a member of a group") || !strings.Contains(errs, "keyp cluster remove") {
		t.Errorf("repair: status %d, %q, %q", status, out, errs)
	}
	for want, args := range map[string][]string{
		"belongs to a member of a group: only a server with the options of its cluster can use it": {"--dir",
			data, "--port", freePort(t)},
		"member.json is missing, which says who the member is": {"compact",
			data},
		"is not recovered: member: ": {"cluster",
			"recover", data, repaired},
		"is not backed up: member: ": {"backup",
			data, base},
		"cannot be exported: member: ": {"export",
			data, repaired},
	} {
		status, out, errs := runKeyp(t, "", nil, args...)
		if status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: status %d, %q, %q, want %q", args, status, out, errs, want)
		}
	}
}
