package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// fileOptions are the options that name a file to which the server writes.
var fileOptions = []string{"logfile", "pidfile", "unixsocket", "aclfile"}

// TestFilesOfTheData: the server never writes over its own data because of an option that names a
// file. The test tries each such option with each file of a member's directory, by different paths.
func TestFilesOfTheData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := startMember(t, dir)
	ctx := context.Background()
	c := s.client(t)
	if err := c.Do(ctx, "CLUSTER", "FOUND").Err(); err != nil {
		t.Fatal(err)
	}
	awaitServer(t, s) // it starts again as a member
	await.Until(t, "the member to lead", func() bool {
		return c.Set(ctx, "k", "v", 0).Err() == nil
	})
	s.signal(t, os.Interrupt)
	if status := s.status(t); status != 0 {
		t.Fatalf("status %d", status)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	before := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if entry.Type().IsRegular() {
			before[path], err = os.ReadFile(path)
		} else {
			before[path] = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(before) < 5 {
		t.Fatalf("the directory has only %d files", len(before))
	}
	for _, name := range []string{"keyp.db.new", "keyp.db.compact", "wal/x.log", "raft", "snapshot",
		"member.json.left"} {
		// These files exist only at times.
		before[filepath.Join(dir, name)] = nil
	}
	for path := range before {
		through := link + strings.TrimPrefix(path, dir)
		for _, option := range fileOptions {
			for _, path := range []string{path, through} {
				args := []string{"--port", freePort(t), "--http-addr", "", "--dir", dir,
					"--" + option, path}
				if status, _, said := runKeyp(t, "", nil, args...); status != 1 ||
					!strings.Contains(said, "where the server keeps its data") &&
						option != "aclfile" {
					t.Errorf("--%s %s: status %d, %q", option, path, status, said)
				}
			}
		}
	}
	for path, want := range before {
		if got, err := os.ReadFile(path); want != nil && (err != nil || !bytes.Equal(got, want)) {
			t.Errorf("%s is changed: %v", path, err)
		}
	}
	s = startMember(t, dir)
	c = s.client(t)
	await.Until(t, "the member to lead again", func() bool { return c.Get(ctx, "k").Val() == "v" })
}

// awaitServer waits until the server listens. Before that go-redis would complain.
func awaitServer(t *testing.T, p *process) {
	t.Helper()
	await.Until(t, "keyp listens", func() bool {
		conn, err := await.Dial("tcp", "127.0.0.1:"+p.port)
		return err == nil && conn.Close() == nil
	})
}

// startMember runs a server that may become a member of a group.
func startMember(t *testing.T, dir string) *process {
	return startKeyp(t, dir, "--cluster-enabled", "yes", "--cluster-port", freePort(t),
		"--http-addr", "")
}

// TestOneFileForTwo: a file to which the server writes cannot be named by two options, and a
// pidfile cannot replace another kind of file.
func TestOneFileForTwo(t *testing.T) {
	dir := t.TempDir()
	conf, other, certificate := filepath.Join(dir, "keyp.conf"), filepath.Join(dir, "other"),
		filepath.Join(dir, "cert.pem")
	for path, text := range map[string]string{conf: "port 0\n", other: "12 monkeys",
		certificate: "PEM"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same := filepath.Join(dir, "nothing", "..", "same")
	for i, option := range fileOptions {
		for _, second := range fileOptions[i+1:] {
			refused(t, "the same file", "--"+option, filepath.Join(dir, "same"), "--"+second, same)
		}
		refused(t, "the same file", conf, "--unixsocket", filepath.Join(dir, "s"),
			"--"+option, conf)
		if option != "aclfile" {
			refused(t, "the same file", "--tls-cert-file", certificate, "--"+option, certificate)
		}
	}
	refused(t, "holds something else", "--pidfile", other)
	refused(t, "not a regular file", "--pidfile", "/dev/null")
	refused(t, "is a directory", "--logfile", dir)
	for path, want := range map[string]string{conf: "port 0\n", other: "12 monkeys",
		certificate: "PEM"} {
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	// The file of an earlier server is overwritten, and several options may name one device.
	left := filepath.Join(dir, "pid")
	if err := os.WriteFile(left, []byte("123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startKeyp(t, filepath.Join(dir, "data"), "--pidfile", left, "--logfile", "/dev/null",
		"--http-addr", "")
	if text, err := os.ReadFile(left); err != nil || strings.TrimSpace(string(text)) == "123" {
		t.Errorf("%q, %v", text, err)
	}
	s.signal(t, os.Interrupt)
	if status := s.status(t); status != 0 {
		t.Errorf("status %d", status)
	}
}

// refused checks that --check-config and a start both report want.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	args = append(args, "--dir", filepath.Join(t.TempDir(), "data"))
	_, _, first := runKeyp(t, "", nil, append(args, "--check-config")...)
	status, _, second := runKeyp(t, "", nil, args...)
	if status != 1 || first != second || !strings.Contains(first, want) {
		t.Errorf("%q: status %d, check says %q, start %q, want %q in it", args, status,
			first, second, want)
	}
}

// TestPasswordInAddress: no tool prints the password of an address. It refuses such an address
// before it connects. Patterns and paths may contain an @.
func TestPasswordInAddress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for _, args := range [][]string{
		{"health", "redis://:p4ss@127.0.0.1:1"}, {"health", "http://me:p4ss@127.0.0.1:1"},
		{"health", "me:p4ss@127.0.0.1:1"},
		{"export", "redis://me:p4ss@127.0.0.1:1", "-"}, {"import", "dump.rdb", "--to",
			"redis://:p4/ss@127.0.0.1:1"}, {"import", "dump.rdb", "--to=me:p4ss@127.0.0.1:1"},
		{"backup", "127.0.0.1:1", "s3://KEY:p4ss@bucket/x"},
		{"backup", "127.0.0.1:1", "s3://b/x", "--s3-endpoint", "https://me:p4ss@127.0.0.1:1"},
		{"restore", "s3://KEY:p4/ss@bucket/x", dir},
		{"cluster", "status", "redis://:p4ss@127.0.0.1:1"},
	} {
		want := 1
		if args[0] == "import" || args[0] == "export" {
			want = statusFailed
		}
		if status, out, said := runKeyp(t, "", nil, args...); status != want ||
			strings.Contains(out+said, "p4") ||
			!strings.Contains(said, "an address has no user and no password in it") {
			t.Errorf("%q: status %d, %s%s", args, status, out, said)
		}
	}
	for _, arg := range []string{"user:*@*", "/backups/x@12:00", "s3://bucket/a:b@c",
		"127.0.0.1:6379", "a@b"} {
		if withPassword.MatchString(arg) {
			t.Errorf("%s counts as an address with a password", arg)
		}
	}
}
