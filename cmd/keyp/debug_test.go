package main

import (
	"context"
	"syscall"
	"testing"

	"keyp/internal/vfs"
)

// TestSyncDelay: --debug-sync-delay makes each sync of the log slower, and changes nothing else.
// Written keys are there after a restart. Without the option nothing is delayed.
func TestSyncDelay(t *testing.T) {
	if logFiles(0) != vfs.OS {
		t.Error("without a delay the log is not on the real file system itself")
	}
	data, ctx := t.TempDir(), context.Background()
	p := startKeyp(t, data, "--debug-sync-delay", "1000")
	c := p.client(t)
	if got := c.ConfigGet(ctx, "debug-sync-delay").Val()["debug-sync-delay"]; got != "1000" {
		t.Errorf("CONFIG GET debug-sync-delay: %q", got)
	}
	if err := c.ConfigSet(ctx, "debug-sync-delay", "0").Err(); err == nil {
		t.Error("CONFIG SET debug-sync-delay is accepted, though it takes effect at the start only")
	}
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGKILL)
	p.status(t)
	if got := startKeyp(t, data).client(t).Get(ctx, "k").Val(); got != "v" {
		t.Errorf("after kill -9 k is %q", got)
	}
	status, _, errs := runKeyp(t, "", nil, "--debug-sync-delay", "-1")
	if want :=
		"keyp: --debug-sync-delay: argument must be between 0 and 60000000 inclusive (it is \"-1\")\n"; status != 1 || errs != want {
		t.Errorf("a negative delay: status %d, %q", status, errs)
	}
}
