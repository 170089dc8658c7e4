package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestFileModes: nobody but the owner can read the data, whatever the umask is. A configuration
// file keeps its mode.
func TestFileModes(t *testing.T) {
	for _, umask := range []int{0, 0o077} {
		t.Run(fmt.Sprintf("umask %03o", umask), func(t *testing.T) {
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			if err := os.WriteFile(in("keyp.conf"), []byte("timeout 100\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			short, err := os.MkdirTemp("", "keyp") // for a socket's path
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(short) })
			socket := filepath.Join(short, "s")

			before := syscall.Umask(umask)
			p := startKeyp(t, in("data"), in("keyp.conf"), "--logfile", in("log"),
				"--pidfile", in("pid"),
				"--unixsocket", socket, "--unixsocketperm", "700")
			syscall.Umask(before)
			ctx, c := context.Background(), p.client(t)
			for _, cmd := range []redis.Cmder{
				c.Set(ctx, "k", strings.Repeat("v", 100_000), time.Hour), c.Save(ctx),
				c.ConfigSet(ctx, "timeout", "200"), c.ConfigRewrite(ctx),
			} {
				if cmd.Err() != nil {
					t.Fatal(cmd)
				}
			}
			wantMode(t, socket, 0o700)
			wantMode(t, in("pid"), 0o644&^fs.FileMode(umask))
			wantMode(t, in("log"), 0o640&^fs.FileMode(umask))
			wantMode(t, in("keyp.conf"), 0o600)
			wantPrivate(t, in("data"))
			p.signal(t, syscall.SIGTERM)
			p.status(t)

			syscall.Umask(umask)
			status, _, errs := runKeyp(t, "", nil, "compact", in("data"))
			syscall.Umask(before)
			if status != 0 {
				t.Error(errs)
			}
			wantPrivate(t, in("data"))
		})
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %03o, want %03o", path, got, want)
	}
}

// wantPrivate checks that every directory below dir has mode 0700 and every file 0600.
func wantPrivate(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if files++; entry.IsDir() {
			want = 0o700
		}
		wantMode(t, path, want)
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("%d files: %v", files, err)
	}
}

// TestOpenDirectory: the server logs a warning about data that other users may change or read, and
// leaves its mode as it is.
func TestOpenDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startKeyp(t, dir)
	p.signal(t, syscall.SIGTERM)
	p.status(t)
	file := filepath.Join(dir, "keyp.db")
	const warning = "others than the owner may use the data"
	for _, tt := range []struct {
		path string
		mode fs.FileMode
		warn bool
	}{{dir, 0o755, false}, {dir, 0o770, true}, {file, 0o640, true}} {
		if err := os.Chmod(tt.path, tt.mode); err != nil {
			t.Fatal(err)
		}
		var log testkit.Output
		p := startLogging(t, &log, dir)
		p.signal(t, syscall.SIGTERM)
		p.status(t)
		if said := log.String(); strings.Contains(said, warning) != tt.warn ||
			tt.warn && !strings.Contains(said, "path="+tt.path+" ") {
			t.Errorf("%s with mode %03o: logged %s", tt.path, tt.mode, said)
		}
		wantMode(t, tt.path, tt.mode)
		if err := errors.Join(os.Chmod(dir, 0o700), os.Chmod(file, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSecrets: passwords from the configuration or from clients appear in no log. No command except
// CONFIG GET shows them.
func TestSecrets(t *testing.T) {
	const mark = "sesame" // begins every password
	a := testkit.NewAuthority(t)
	file := filepath.Join(t.TempDir(), "keyp.conf")
	lines := []string{"loglevel debug", "slowlog-log-slower-than 0", "slowlog-max-len 1000",
		"requirepass sesame-1", "masterauth sesame-2", "tls-key-file-pass sesame-3"}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log testkit.Output
	p := startSecret(t, &log, file, append(a.ServerArgs(), "--tls-port", freePort(t)))
	ctx := context.Background()
	c := testkit.NewClient(t, &redis.Options{Addr: "127.0.0.1:" + p.port, Password: "sesame-1",
		Protocol: 2})
	seen := monitor(t, p.port, "sesame-1")

	var shown strings.Builder
	for _, args := range [][]any{
		{"AUTH", "sesame-1"}, {"AUTH", "sesame-wrong"}, {"AUTH", "default", "sesame-wrong"},
		{"AUTH", "nobody", "sesame-wrong"}, {"AUTH", "a", "sesame", "sesame"},
		{"HELLO", 2, "AUTH", "default", "sesame-wrong"}, {"HELLO", 2, "AUTH", "default", "sesame-1",
			"SETNAME", "x y"},
		{"CONFIG", "SET", "requirepass", "sesame-1"},
		{"config", "set", "hz", 20, "tls-key-file-pass", "sesame-4"},
		{"CONFIG", "SET", "masterauth", "sesame", "timeout", "x"},
		{"CONFIG", "SET", "tls-client-key-file-pass", "sesame", "port", 1},
		{"CONFIG", "SET", "tls-key-file", "/nowhere"}, {"CONFIG", "REWRITE"},
		{"INFO", "everything"}, {"SLOWLOG", "GET", -1}, {"CLIENT", "LIST"}, {"ACL", "LOG"},
		{"ACL", "LIST"}, {"LATENCY", "LATEST"}, {"COMMAND", "COUNT"},
	} {
		got, err := c.Do(ctx, args...).Result()
		if name := fmt.Sprint(args[0], args[1]); strings.Contains(fmt.Sprint(err), mark) {
			t.Errorf("the error of %s shows a password: %v", name, err)
		}
		fmt.Fprintln(&shown, got)
	}
	c.Do(ctx, "ECHO", "end")
	for seen.Scan() && !strings.Contains(seen.Text(), `"end"`) {
		fmt.Fprintln(&shown, seen.Text())
	}
	p.signal(t, syscall.SIGQUIT) // Go's way of a crash: all stacks
	p.status(t)
	for what, text := range map[string]string{"a command": shown.String(),
		"the log": log.String()} {
		if at := strings.Index(text, mark); at >= 0 {
			t.Errorf("%s shows a password: %.200q", what, text[max(0, at-100):])
		}
	}
	if !strings.Contains(shown.String(), "(redacted)") ||
		!strings.Contains(log.String(), "goroutine ") {
		t.Errorf("nothing was looked at: %s", &log)
	}

	// A mistake in a line with a password is reported by the line's number only.
	for _, line := range []string{"requirepass sesame sesame", `requirepass "sesame`,
		"requirepas sesame", "tls-key-file-pass sesame sesame"} {
		status, _, errs := runKeyp(t, line+"\n", nil, "-")
		if status != 1 || strings.Contains(errs, mark) ||
			!strings.Contains(errs, "standard input:1: ") {
			t.Errorf("%s: status %d, %q", line, status, errs)
		}
	}
	for _, args := range [][]string{{"-requirepass=sesame"}, {"--requirepas=sesame"},
		{"--requirepass", "sesame", "sesame"}} {
		if status, _, errs := runKeyp(t, "", nil, args...); status != 1 ||
			strings.Contains(errs, mark) {
			t.Errorf("%q: status %d, %q", args, status, errs)
		}
	}
}

// monitor returns a scanner of the lines that MONITOR shows. (The client's own Monitor has a data
// race.)
func monitor(t *testing.T, port, password string) *bufio.Scanner {
	t.Helper()
	conn, err := await.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "AUTH %s\nMONITOR\n", password); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for range 2 {
		if !lines.Scan() || lines.Text() != "+OK" {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
	}
	return lines
}

// startSecret is like startLogging, for a server that requires a password.
func startSecret(t *testing.T, log *testkit.Output, file string, args []string) *process {
	t.Helper()
	p := startProcess(t, log, filepath.Join(t.TempDir(), "data"),
		append([]string{file}, args...)...)
	await.Until(t, "keyp is ready", func() bool {
		return strings.Contains(log.String(), "msg=ready")
	})
	return p
}
