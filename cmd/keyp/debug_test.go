package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/vfs"
)

// debug-sync-delay slows the log down and changes nothing else: not without it, and with
// it what was written is there again.
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
	if want := "keyp: --debug-sync-delay: argument must be between 0 and 60000000 inclusive\n"; status != 1 || errs != want {
		t.Errorf("a negative delay: status %d, %q", status, errs)
	}
}

// debug-addr serves profiles to who asks for them by address; other addresses than loopback need
// leave, and the help says what is opened.
func TestDebugAddress(t *testing.T) {
	var log testkit.Output
	logger := slog.New(slog.NewTextHandler(&log, nil))
	const foreign = "192.0.2.1:0" // no machine has it
	for exposed, want := range map[bool]string{false: "is not a loopback address", true: "cannot listen on debug-addr"} {
		if _, err := serveDebug(foreign, exposed, logger); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("exposed %v: %v, want: %s", exposed, err, want)
		}
	}
	if !strings.Contains(log.String(), "can read all keys") {
		t.Errorf("no warning of an exposed address: %s", log.String())
	}
	stop, err := serveDebug("127.0.0.1:0", false, logger)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	_, url, _ := strings.Cut(log.String(), "url=")
	url = strings.TrimSpace(url)
	for host, want := range map[string]int{"": 200, "localhost": 200, "[::1]:6060": 200, "evil.example": 403, "evil.example:6060": 403} {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("host %q: status %d, want %d", host, got.StatusCode, want)
		}
	}
	_, help, _ := runKeyp(t, "", nil, "--help")
	for _, want := range []string{"passwords included", "--debug-addr-exposed"} {
		if !strings.Contains(strings.Join(strings.Fields(help), " "), want) {
			t.Errorf("--help does not say %q", want)
		}
	}
}
