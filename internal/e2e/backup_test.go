package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// tool runs a subcommand of keyp until it exits.
func tool(t *testing.T, env []string, args ...string) (status int, out, errs string) {
	t.Helper()
	cmd := exec.CommandContext(await.Context(t), testkit.Binary(t), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, append(testkit.Environ(), env...)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// works runs a subcommand, which must succeed, and returns its output.
func works(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := tool(t, nil, args...)
	if status != 0 {
		t.Fatalf("keyp %q: status %d, %s", args, status, errs)
	}
	return out
}

// refuses runs a subcommand, which must fail with a message that contains words.
func refuses(t *testing.T, words string, args ...string) {
	t.Helper()
	if status, _, errs := tool(t, nil, args...); status != 1 || !strings.Contains(errs, words) {
		t.Errorf("keyp %q: status %d, %q, want %q", args, status, errs, words)
	}
}

// fillTypes makes keys of all types, some with deadlines, in two databases.
func fillTypes(t *testing.T, c *redis.Client) {
	t.Helper()
	conn := c.Conn()
	defer conn.Close()
	for _, line := range []string{
		"SET s text", "SET timed v PXAT 4000000000123", "RPUSH l a b c 1 -5", "SADD ints 1 2 3",
		"SADD set a b c", "ZADD z 1.5 a -inf b",
		"HSET h f v g 7", "HPEXPIREAT h 4000000000456 FIELDS 1 f", "XADD x 1-1 f v",
		"XADD x 1-2 f w", "XGROUP CREATE x g 0", "XREADGROUP GROUP g me COUNT 1 STREAMS x >",
		"KEYP.LEASE ACQUIRE lease me 1000000000", "KEYP.DELAY ADD jobs j1 +100000000 payload",
		"SELECT 3", "SET other db",
	} {
		var args []any
		for _, word := range strings.Fields(line) {
			args = append(args, word)
		}
		if err := conn.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if err := c.Eval(ctx,
		"for i = 1, 3000 do redis.call('SET', 'key:' .. i, i) redis.call('RPUSH', 'big', i) redis.call('HSET', 'bighash', i, i) end",
		nil).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

// digestOf returns a digest of all data of a server.
func digestOf(t *testing.T, c *redis.Client) string {
	t.Helper()
	text, err := c.Do(ctx, "DEBUG", "DIGEST").Text()
	if err != nil || len(text) != 40 {
		t.Fatalf("DEBUG DIGEST: %q, %v", text, err)
	}
	return text
}

// servedFrom starts a server on a directory.
func servedFrom(t *testing.T, dir string) *testkit.Server {
	t.Helper()
	s := testkit.NewKeyp(t, testkit.Options{Dir: dir,
		Args: []string{"--enable-debug-command", "yes"}})
	s.Start()
	return s
}

// absent fails the test if the directory, or a remainder of an interrupted run, exists.
func absent(t *testing.T, path string) {
	t.Helper()
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// TestBackup backs up a server and restores the backup. The result has the data of the moment of
// the backup, and nothing later.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := testkit.Keyp(t, "--enable-debug-command", "yes")
	c, dir := s.Client(2), t.TempDir()
	fillTypes(t, c)
	is(t, "OK")(c.Set(ctx, "brief", "v", 0).Result())
	is(t, true)(c.PExpireAt(ctx, "brief", time.Now().Add(30*time.Millisecond)).Result())
	file := filepath.Join(dir, "one.backup")
	printed := works(t, "backup", s.Addr(), file)
	if !strings.Contains(printed, file+" has 30") || !strings.Contains(printed, "LSN ") {
		t.Errorf("it prints %q", printed)
	}
	await.Until(t, "brief expires", func() bool { return c.Exists(ctx, "brief").Val() == 0 })
	want := digestOf(t, c)
	granted := func(c *redis.Client) int64 {
		t.Helper()
		reply, err := c.Do(ctx, "KEYP.LEASE", "ACQUIRE", "another", "me", "1000000000").Slice()
		if err != nil || len(reply) == 0 {
			t.Fatalf("a lease is %v, %v", reply, err)
		}
		return reply[0].(int64)
	}
	token := granted(c)
	is(t, "OK")(c.Set(ctx, "later", "v", 0).Result())
	refuses(t, "exists, and is not overwritten", "backup", s.Addr(), file)
	if got := works(t, "backup", "verify", file); !strings.Contains(got, "is sound: 30") ||
		!strings.Contains(got, "of history ") {
		t.Errorf("verify prints %q", got)
	}
	restoredTo := func(from, name string) *testkit.Server {
		t.Helper()
		to := filepath.Join(dir, name)
		works(t, "restore", from, to)
		works(t, "check", to)
		return servedFrom(t, to)
	}
	made := restoredTo(file, "restored")
	if got := digestOf(t, made.Client(2)); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
	is(t, int64(4000000000123))(made.Client(2).Do(ctx, "PEXPIRETIME", "timed").Int64())
	if got := granted(made.Client(2)); got <= token {
		t.Errorf("the token is %d, and %d was granted after the backup", got, token)
	}
	refuses(t, "is not empty", "restore", file, filepath.Join(dir, "restored"))

	// If the target is a directory, the backup's name there contains the time. The target can also
	// be standard output, and the source a data directory on which no server runs.
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o700); err != nil {
		t.Fatal(err)
	}
	works(t, "backup", s.Addr(), many)
	names, err := filepath.Glob(filepath.Join(many, "keyp-*Z-*.backup"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the directory has %q, %v", names, err)
	}
	want = digestOf(t, c)
	if got := digestOf(t, restoredTo(names[0], "second").Client(2)); got != want {
		t.Errorf("by a directory: the digest is %s, want %s", got, want)
	}
	stream := filepath.Join(dir, "stream")
	if err := os.WriteFile(stream, []byte(works(t, "backup", s.Addr(), "-")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := digestOf(t, restoredTo(stream, "third").Client(2)); got != want {
		t.Errorf("by standard output: the digest is %s, want %s", got, want)
	}
	refuses(t, "a server runs on it", "backup", s.Dir(), filepath.Join(dir, "fourth.backup"))
	s.Kill()
	works(t, "backup", s.Dir(), filepath.Join(dir, "fourth.backup"))
	if got := digestOf(t, restoredTo(filepath.Join(dir, "fourth.backup"),
		"fourth").Client(2)); got != want {
		t.Errorf("of a directory: the digest is %s, want %s", got, want)
	}
	refuses(t, "usage: keyp backup", "backup", file)
	refuses(t, "usage: keyp restore", "restore", file)
	refuses(t, "is not backed up", "backup", s.Addr(), filepath.Join(dir, "fifth.backup"))
	absent(t, filepath.Join(dir, "fifth"))
}

// TestBackupDamaged: nothing is restored from a backup that has a changed byte or is cut off.
func TestBackupDamaged(t *testing.T) {
	t.Parallel()
	s, dir := testkit.Keyp(t), t.TempDir()
	fillTypes(t, s.Client(2))
	file, to := filepath.Join(dir, "whole"), filepath.Join(dir, "new")
	works(t, "backup", s.Addr(), file)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad")
	for i := range 9 {
		at := i * (len(whole) - 1) / 8
		for what, b := range map[string][]byte{"flipped": bytes.Clone(whole), "cut": whole[:at]} {
			if what == "flipped" {
				b[at] ^= 1 << (i % 8)
			}
			if err := os.WriteFile(bad, b, 0o600); err != nil {
				t.Fatal(err)
			}
			refuses(t, "is not sound", "backup", "verify", bad)
			refuses(t, "is not restored", "restore", bad, to)
			absent(t, to)
		}
	}
}

// TestBackupUnderLoad: a backup contains everything that was written before one moment, and nothing
// that was written after it.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	s, dir := testkit.Keyp(t, "--checkpoint-log-size", "4mb"), t.TempDir()
	c := s.Client(2)
	var written atomic.Int64
	stop, ended := make(chan struct{}), make(chan error, 1)
	value := strings.Repeat("v", 2000)
	go func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, fmt.Sprint("a:", i), value, 0)
				p.Incr(ctx, "n")
				p.Set(ctx, fmt.Sprint("b:", i), i, time.Hour)
				return nil
			})
			if err != nil {
				ended <- err
				return
			}
			written.Store(int64(i))
		}
	}()
	for round := range 3 {
		goal := written.Load() + 500
		await.Until(t, "something is written", func() bool { return written.Load() >= goal })
		before, file, to := written.Load(), filepath.Join(dir, fmt.Sprint(round)),
			filepath.Join(dir, fmt.Sprint("new", round))
		works(t, "backup", s.Addr(), file)
		after := written.Load() + 1
		works(t, "restore", file, to)
		works(t, "check", to)
		made := servedFrom(t, to)
		m := made.Client(2)
		n, err := m.Get(ctx, "n").Int64()
		if err != nil || n < before || n > after {
			t.Fatalf("round %d: it has %d transactions, of %d before and %d at the end: %v", round,
				n, before, after, err)
		}
		is(t, 2*n+1)(m.DBSize(ctx).Result())
		for _, i := range []int64{1, n / 2, n} {
			is(t, int64(2))(m.Exists(ctx, fmt.Sprint("a:", i), fmt.Sprint("b:", i)).Result())
		}
		made.Stop()
	}
	close(stop)
	if err := await.For(t, "the writer ends", ended); err != nil {
		t.Fatal(err)
	}
}

// stalled is a running backup whose reader has stopped reading.
type stalled struct {
	cmd    *exec.Cmd
	out    io.ReadCloser
	errs   *testkit.Output
	exited chan error
}

// stall begins a backup to standard output, and reads one byte of it.
func stall(t *testing.T, s *testkit.Server) *stalled {
	t.Helper()
	b := &stalled{cmd: exec.Command(testkit.Binary(t), "backup", s.Addr(), "-"),
		errs: &testkit.Output{}, exited: make(chan error, 1)}
	b.cmd.Env, b.cmd.Stderr = testkit.Environ(), b.errs
	var err error
	if b.out, err = b.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := childproc.Start(b.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.cmd.Process.Kill() }) // it may have ended
	if _, err := io.ReadFull(b.out, make([]byte, 1)); err != nil {
		t.Fatalf("%v: %s", err, b.errs)
	}
	return b
}

// end reads the rest, and waits until the tool exits.
func (b *stalled) end(t *testing.T) int {
	t.Helper()
	go func() {
		_, err := io.Copy(io.Discard, b.out)
		b.exited <- errors.Join(err, b.cmd.Wait())
	}()
	await.For(t, "the backup ends", b.exited)
	return b.cmd.ProcessState.ExitCode()
}

// random fills a server with data that cannot be compressed.
func random(t *testing.T, c *redis.Client, mb int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100_000)
	for i := range mb * 10 {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		is(t, "OK")(c.Set(ctx, fmt.Sprint("random:", i), value, 0).Result())
	}
}

// TestBackupKilled: if the server or the tool is killed during a backup, nothing is left that looks
// like a whole backup. The next backup is whole. Nothing waits for a reader that has stopped.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	s, dir := testkit.Keyp(t, "--enable-debug-command", "yes"), t.TempDir()
	c := s.Client(2)
	random(t, c, 12)
	is(t, "OK")(c.Save(ctx).Result())
	want := digestOf(t, c)
	file := filepath.Join(dir, "file")

	b := stall(t, s)
	is(t, "OK")(c.Set(ctx, "meanwhile", "v", 0).Result())
	is(t, "OK")(c.Save(ctx).Result())
	is(t, int64(1))(c.Del(ctx, "meanwhile").Result())
	refuses(t, "another backup is being read", "backup", s.Addr(), file)
	absent(t, file)
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.end(t)
	var out string
	await.Until(t, "the server has ended the backup", func() bool {
		var status int
		status, out, _ = tool(t, nil, "backup", s.Addr(), file)
		return status == 0
	})
	works(t, "restore", file, filepath.Join(dir, "restored"))
	if got := digestOf(t, servedFrom(t, filepath.Join(dir, "restored")).Client(2)); got != want {
		t.Errorf("%s: the digest is %s, want %s", out, got, want)
	}

	b = stall(t, s)
	s.Kill()
	if status := b.end(t); status != 1 || !strings.Contains(b.errs.String(), "is not backed up") {
		t.Errorf("without a server the backup ends with %d, %s", status, b.errs)
	}
	s.Start()
	if got := digestOf(t, c); got != want {
		t.Errorf("behind the kill the digest is %s, want %s", got, want)
	}

	// A restore that is killed leaves nothing under the target's name. A file that a killed backup
	// has left does not prevent the next restore.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "new")
	cmd := exec.Command(testkit.Binary(t), "restore", "-", to)
	cmd.Env = testkit.Environ()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(whole[:len(whole)/2]); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the killed restore left %s: %v", to, err)
	}
	refuses(t, "remove what an interrupted run left", "restore", file, to)
	if err := os.RemoveAll(to + ".unfinished"); err != nil {
		t.Fatal(err)
	}
	works(t, "restore", file, to)
	// A tool that was killed between its last two steps has left the file under both names. Since
	// then the file has been moved.
	if err := os.Link(file, filepath.Join(dir, "again.unfinished")); err != nil {
		t.Fatal(err)
	}
	is(t, "OK")(c.Set(ctx, "another", "v", 0).Result())
	works(t, "backup", s.Addr(), filepath.Join(dir, "again"))
	works(t, "backup", "verify", filepath.Join(dir, "again"))
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, whole) {
		t.Errorf("the other backup has been changed: %d bytes of %d, %v", len(now), len(whole), err)
	}
}

// TestBackupOverTLS: a user with no other right than to read backups can make one over TLS. Another
// user cannot.
func TestBackupOverTLS(t *testing.T) {
	t.Parallel()
	s, a := tlsServer(t, "--enable-debug-command", "yes")
	c, dir := s.Client(2), t.TempDir()
	fillTypes(t, c)
	is(t, any("OK"))(c.Do(ctx, "ACL", "SETUSER", "saver", "on", ">secret", "+@backup").Result())
	is(t, any("OK"))(c.Do(ctx, "ACL", "SETUSER", "other", "on", ">secret", "+@all",
		"-@backup", "~*").Result())
	is(t, any("OK"))(c.Do(ctx, "ACL", "SETUSER", "keyp", "on", ">secret", "+@keyp", "+@read",
		"~app:*").Result())
	cert, key := a.Issue("saver")
	options := func(user string) []string {
		return []string{"--user", user, "--tls", "--cacert", a.File, "--cert", cert, "--key", key}
	}
	for _, tt := range []struct{ user, password, want string }{{"saver", "secret", ""}, {"other",
		"secret", "NOPERM"}, {"keyp", "secret", "NOPERM"}, {"saver", "wrong", "WRONGPASS"}} {
		file := filepath.Join(dir, tt.user+tt.password)
		status, _, errs := tool(t, []string{"REDISCLI_AUTH=" + tt.password},
			append([]string{"backup", s.TLSAddr(), file}, options(tt.user)...)...)
		if (status != 0) != (tt.want != "") || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: status %d, %s", file, status, errs)
		}
		if tt.want != "" {
			absent(t, file)
		}
	}
	// If a user name comes without a password, the default user is not used instead. If certificate
	// options come without TLS, TLS is not used.
	is(t, any("OK"))(c.Do(ctx, "ACL", "SETUSER", "open", "on", "nopass", "+@read", "~*").Result())
	for _, name := range []string{"backup", "export"} {
		if _, _, errs := tool(t, nil, append([]string{name, s.TLSAddr(), filepath.Join(dir, name)},
			options("open")...)...); !strings.Contains(errs, "NOPERM") {
			t.Errorf("%s as a user who may not: %s", name, errs)
		}
		if _, _, errs := tool(t, nil, name, s.Addr(), filepath.Join(dir, name), "--cacert",
			a.File); !strings.Contains(errs, "need --tls") {
			t.Errorf("%s with a certificate and without TLS: %s", name, errs)
		}
	}
	want := digestOf(t, c)
	works(t, "restore", filepath.Join(dir, "saversecret"), filepath.Join(dir, "new"))
	if got := digestOf(t, servedFrom(t, filepath.Join(dir, "new")).Client(2)); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
}

// interrupted sends a signal to a tool that waits, and returns its status and message.
func interrupted(t *testing.T, cmd *exec.Cmd, waits func()) (status int, said string) {
	t.Helper()
	var errs bytes.Buffer
	cmd.Env, cmd.Stderr = append(testkit.Environ(), cmd.Env...), &errs
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	waits()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	_ = await.For(t, "the tool ends", ended) // its status says it
	return cmd.ProcessState.ExitCode(), errs.String()
}

// TestBackupInterrupted: a signal stops a backup whose server does not reply. It also stops a
// restore and a verification whose backup does not arrive. Nothing is left on disk.
func TestBackupInterrupted(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir()
	status, said := interrupted(t, exec.Command(testkit.Binary(t), "backup", silent.Addr().String(),
		filepath.Join(dir, "file")), func() {
		conn, err := silent.Accept()
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err != nil { // and no reply comes
			t.Fatal(err)
		}
	})
	if status != 1 || !strings.Contains(said, "is not backed up: it was interrupted") {
		t.Errorf("status %d: %s", status, said)
	}
	for words, args := range map[string][]string{"is not restored": {"restore", "-",
		filepath.Join(dir, "new")}, "cannot be verified": {"backup", "verify", "-"}} {
		cmd := exec.Command(testkit.Binary(t), args...)
		cmd.Env = []string{"TMPDIR=" + dir}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		status, said := interrupted(t, cmd, func() {
			await.Until(t, "it has begun", func() bool {
				list, err := os.ReadDir(dir)
				return err == nil && len(list) > 0
			})
		})
		if status != 1 || !strings.Contains(said, words+": it was interrupted") {
			t.Errorf("%q: status %d: %s", args, status, said)
		}
		in.Close()
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("%q: %v is left, %v", args, list, err)
		}
	}
}

// TestBackupOfDir: a directory without data is refused, and nothing is created in it. A backup of a
// directory contains all its databases, however many there are.
func TestBackupOfDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty, file := filepath.Join(dir, "empty"), filepath.Join(dir, "file")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	refuses(t, "has no data of Keyp", "backup", empty, file)
	refuses(t, "has no data of Keyp", "compact", empty)
	absent(t, file)
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("%v were made in it, %v", left, err)
	}
	s := testkit.Keyp(t, "--databases", "64")
	if err := s.Client(2).Do(ctx, "EVAL",
		"redis.call('SELECT', 60); return redis.call('SET', 'k', 'v')", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	works(t, "compact", s.Dir())
	if got := works(t, "backup", s.Dir(), file); !strings.Contains(got, "has 1 key") {
		t.Errorf("the backup prints %q", got)
	}
	if got := works(t, "backup", "verify", file); !strings.Contains(got, "is sound: 1 key") {
		t.Errorf("verify prints %q", got)
	}
}

// TestBackupFullDisk: a backup or restore that fails for lack of room leaves nothing behind.
func TestBackupFullDisk(t *testing.T) {
	t.Parallel()
	small, s, dir := testkit.MemoryDisk(t, 8), testkit.Keyp(t), t.TempDir()
	random(t, s.Client(2), 12)
	refuses(t, "no space left on device", "backup", s.Addr(), filepath.Join(small, "file"))
	absent(t, filepath.Join(small, "file"))
	file := filepath.Join(dir, "file")
	await.Until(t, "the server has ended the backup", func() bool {
		status, _, _ := tool(t, nil, "backup", s.Addr(), file)
		return status == 0
	})
	refuses(t, "is not restored", "restore", file, filepath.Join(small, "new"))
	absent(t, filepath.Join(small, "new"))
}
