package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// commandFile writes an append-only file with one command for each line.
func commandFile(t *testing.T, lines ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, line := range lines {
		words := strings.Fields(line)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	path := filepath.Join(t.TempDir(), "appendonly.aof")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImportChosenCommands imports only the commands of an append-only file that a database or a
// pattern selects.
func TestImportChosenCommands(t *testing.T) {
	path := commandFile(t, "SELECT 0", "SET gone v", "FLUSHDB", "SET a1 v", "SET b1 v", "MULTI",
		"RPUSH a2 x", "RPUSH b2 x", "EXEC",
		"SELECT 3", "SET a3 v", "SET b3 v", "SELECT 0", "RENAME a1 a4", "RENAME b1 a5", "DEL b2 b1",
		"COPY a4 a6 DB 3", "SWAPDB 0 3", "SET a7 v")
	for _, tt := range []struct {
		args   []string
		status int
		text   []string
		keys   [2]string // of databases 0 and 3
	}{
		// The databases are swapped.
		{nil, 0, []string{" 0 left out;"}, [2]string{"a3 a6 a7 b3", "a2 a4 a5"}},
		{[]string{"--db", "0"}, statusLost,
			[]string{`refused: 1, commands about keys that were chosen and others: "COPY"`,
				`refused: 1, commands that do not name their keys: "SWAPDB"`, " 2 left out;"},
			[2]string{"a2 a4 a5 a7", ""}},
		{[]string{"--db", "3"}, statusLost, []string{`others: "COPY"`, `keys: "SWAPDB"`},
			[2]string{"", "a3 b3"}},
		{[]string{"--match", "a*"}, statusLost, []string{`others: "RENAME"`, `keys: "SWAPDB"`},
			[2]string{"a2 a4 a7", "a3 a6"}},
		{[]string{"--match", "a*", "--db", "3"}, statusLost,
			[]string{`others: "COPY"`, `keys: "SWAPDB"`}, [2]string{"", "a3"}},
	} {
		to := testkit.Keyp(t)
		text, status := imported(append([]string{path, "--to", to.Addr()}, tt.args...)...)
		if status != tt.status {
			t.Errorf("%q: status %d: %s", tt.args, status, text)
		}
		for _, part := range tt.text {
			if !strings.Contains(text, part) {
				t.Errorf("%q: %q is not in %s", tt.args, part, text)
			}
		}
		for i, db := range []int{0, 3} {
			var keys []string
			for _, key := range do(t, to.ClientDB(2, db), "KEYS", "*").([]any) {
				keys = append(keys, key.(string))
			}
			slices.Sort(keys)
			if got := strings.Join(keys, " "); got != tt.keys[i] {
				t.Errorf("%q: database %d has %q, want %q", tt.args, db, got, tt.keys[i])
			}
		}
	}
}

// TestImportDryRunTo: a dry run reports what a server would refuse, and changes nothing there.
func TestImportDryRunTo(t *testing.T) {
	from, file := testkit.Keyp(t), filepath.Join(t.TempDir(), "file")
	c := from.ClientDB(2, 0)
	fill(t, c)
	fillMore(t, c)
	if text, status := exported(from.Addr(), file); status != 0 {
		t.Fatalf("%d: %s", status, text)
	}
	to := testkit.Keyp(t, "--databases", "2")
	tc := to.ClientDB(2, 0)
	do(t, tc, "SET", "s", "other")
	do(t, tc, "SET", "l", "other")
	do(t, tc, "FUNCTION", "LOAD",
		"#!lua name=lib\nredis.register_function('g', function() return 8 end)")
	text, status := imported(file, "--to", to.Addr(), "--dry-run")
	for _, part := range []string{"refused: 2, BUSYKEY", `"s"`, `"l"`,
		"the server has no such database", "Library already exists", "would be imported",
		"; 0 libraries;"} {
		if !strings.Contains(text, part) || status != statusLost {
			t.Errorf("%d: %q is not in %s", status, part, text)
		}
	}
	if text, status := imported(file, "--to", to.Addr(), "--dry-run", "--replace", "--db",
		"0"); status != 0 {
		t.Errorf("%d: %s", status, text)
	}
	if n := do(t, tc, "DBSIZE"); n != int64(2) || do(t, tc, "GET", "s") != "other" {
		t.Errorf("the server has %v keys", n)
	}
	if got := fmt.Sprint(do(t, tc, "FUNCTION", "LIST")); !strings.Contains(got, "name g") {
		t.Errorf("its functions are %s", got)
	}
	if text, status := imported(commandFile(t, "SET k v"), "--to", to.Addr(),
		"--dry-run"); status != statusFailed || !strings.Contains(text, "the server has keys") {
		t.Errorf("%d: %s", status, text)
	}
	empty := testkit.Keyp(t)
	if text, status := imported(commandFile(t, "SET k v"), "--to", empty.Addr(),
		"--dry-run"); status != 0 || !strings.Contains(text, "1 commands") {
		t.Errorf("%d: %s", status, text)
	}
	if n := do(t, empty.Client(2), "DBSIZE"); n != int64(0) {
		t.Errorf("the server has %v keys", n)
	}
}

// TestImportToOther imports into servers that need a password or use TLS.
func TestImportToOther(t *testing.T) {
	path := commandFile(t, "SET k v")
	authority := testkit.NewAuthority(t)
	to := testkit.NewKeyp(t,
		testkit.Options{TLS: authority, Args: []string{"--requirepass", "secret"}})
	to.Start()
	if text, status := imported(path, "--to", to.Addr()); status != statusFailed ||
		!strings.Contains(text, "NOAUTH") {
		t.Errorf("no password: %d: %s", status, text)
	}
	t.Setenv("REDISCLI_AUTH", "secret")
	args := authority.ServerArgs()
	ca := args[slices.Index(args, "--tls-ca-cert-file")+1]
	cert, key := authority.Issue("client")
	if text, status := imported(path, "--to", to.TLSAddr(), "--user", "default", "--tls",
		"--cacert", ca, "--cert", cert, "--key", key); status != 0 {
		t.Errorf("TLS: %d: %s", status, text)
	}
	if text, status := imported(path, "--to", to.Addr()); status != statusFailed ||
		!strings.Contains(text, "has keys") {
		t.Errorf("password: %d: %s", status, text)
	}
}

// TestImportWithFewRights imports into a server that refuses some keys. These do not count as
// imported, even if the user may not run WAITAOF to ask whether the import is durable.
func TestImportWithFewRights(t *testing.T) {
	from, file := testkit.Keyp(t), filepath.Join(t.TempDir(), "file")
	c := from.ClientDB(2, 0)
	do(t, c, "SET", "k1", "v", "EX", "100000")
	do(t, c, "SET", "x1", "v", "EX", "100000")
	do(t, c, "RPUSH", "x2", "v")
	if text, status := exported(from.Addr(), filepath.Dir(file),
		"--replace"); status != statusFailed || !strings.Contains(text, "is a directory") {
		t.Errorf("to a directory: %d: %s", status, text)
	}
	if text, status := exported(from.Addr(), file); status != 0 {
		t.Fatalf("%d: %s", status, text)
	}
	to, empty := testkit.Keyp(t), testkit.Keyp(t)
	for _, server := range []*testkit.Server{to, empty} {
		do(t, server.Client(2), "ACL", "SETUSER", "some", "on", ">secret", "~k*", "+@all")
	}
	do(t, to.Client(2), "ACL", "SETUSER", "none", "on", ">secret", "~z*", "+@all", "-waitaof")
	t.Setenv("REDISCLI_AUTH", "secret")
	if text, status := imported(file, "--to", to.Addr(), "--user", "some"); status != statusLost ||
		!strings.Contains(text, "\nstring: 1\n"+file+
			" has been imported: 1 key, 1 with a deadline;") ||
		!strings.Contains(text, "refused: 2, NOPERM") {
		t.Errorf("%d: %s", status, text)
	}
	if text, status := imported(commandFile(t, "SET k v", "SET x v"), "--to", empty.Addr(),
		"--user", "some"); status != statusLost || !strings.Contains(text, "; 1 commands;") {
		t.Errorf("%d: %s", status, text)
	}
	if text, status := imported(file, "--to", to.Addr(), "--user", "none",
		"--replace"); status != statusFailed ||
		!strings.Contains(text, "whether it is durable the server does not say") ||
		!strings.Contains(text, "what it refused begins with") {
		t.Errorf("%d: %s", status, text)
	}
}

// TestImportInterrupted sends a signal while a new directory is filled. Nothing is left, neither
// under the directory's name nor under the name of the unfinished part.
func TestImportInterrupted(t *testing.T) {
	for keys := 100_000; ; keys *= 4 {
		if keys > 10_000_000 {
			t.Fatal("each import had ended before the signal")
		}
		set := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
		dir := t.TempDir()
		path := filepath.Join(dir, "appendonly.aof")
		if err := os.WriteFile(path, bytes.Repeat(set, keys), 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		to := filepath.Join(dir, "to")
		cmd := exec.Command(testkit.Binary(t), "import", path, "--dir", to)
		cmd.Env, cmd.Stderr = testkit.Environ(), &said
		if err := childproc.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // says only that it has ended already
		await.Until(t, "the data file of the part", func() bool {
			_, part := os.Stat(filepath.Join(to+".import", "keyp.db"))
			_, whole := os.Stat(to)
			return part == nil || whole == nil
		})
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its status says it
		status := cmd.ProcessState.ExitCode()
		if status == 0 {
			continue
		}
		if status != statusFailed {
			t.Errorf("status %d: %s", status, said.String())
		}
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 1 {
			t.Errorf("%v is left: %v", list, err)
		}
		return
	}
}

// TestImportPolicies: policies of the server that refuse or change writes do not apply to keys of
// an RDB file, whatever their type.
func TestImportPolicies(t *testing.T) {
	from, file := testkit.Keyp(t, "--enable-debug-command", "yes"),
		filepath.Join(t.TempDir(), "file")
	fill(t, from.ClientDB(2, 0))
	if text, status := exported(from.Addr(), file); status != 0 {
		t.Fatalf("%d: %s", status, text)
	}
	want := do(t, from.Client(2), "DEBUG", "DIGEST")
	for _, rule := range []string{"REQUIRE", "DEFAULT 1h", "MAX 1h CUT",
		"MAX 1h REFUSE", "JITTER 90"} {
		to := testkit.Keyp(t, "--enable-debug-command", "yes")
		for _, db := range []string{"0", "3"} {
			do(t, to.Client(2), strings.Fields("KEYP.POLICY SET p"+db+" PATTERN * ENFORCE DB "+
				db+" "+rule)...)
		}
		for _, more := range [][]string{nil, {"--replace"}} {
			if text, status := imported(append([]string{file, "--to", to.Addr()},
				more...)...); status != 0 {
				t.Errorf("%s %q: %d: %s", rule, more, status, text)
			}
			if got := do(t, to.Client(2), "DEBUG", "DIGEST"); got != want {
				t.Errorf("%s %q: digest %v, want %v", rule, more, got, want)
			}
		}
	}
}

// TestImportToRedis imports a file of Redis into a Redis server. Servers before 7.2 cannot report
// whether the import is durable.
func TestImportToRedis(t *testing.T) {
	from := testkit.Redis(t, "--enable-debug-command", "yes")
	fill(t, from.Client(2))
	do(t, from.Client(2), "SAVE")
	file := filepath.Join(do(t, from.Client(2), "CONFIG", "GET", "dir").([]any)[1].(string),
		"dump.rdb")
	to := testkit.Redis(t, "--enable-debug-command", "yes", "--appendonly", "yes")
	says := do(t, to.Client(2), "COMMAND", "INFO", "WAITAOF").([]any)[0] != nil
	if text, status := imported(file, "--to", to.Addr()); status != 0 ||
		strings.Contains(text, "on its disk the server cannot say") == says {
		t.Errorf("%d: %s", status, text)
	}
	if got, want := do(t, to.Client(2), "DEBUG", "DIGEST"),
		do(t, from.Client(2), "DEBUG", "DIGEST"); got != want {
		t.Errorf("digest %v, want %v", got, want)
	}
}

// TestImportChosenWithoutLibraries: an import of selected keys leaves out libraries, from RDB files
// and from append-only files.
func TestImportChosenWithoutLibraries(t *testing.T) {
	from, rdb := testkit.Keyp(t), filepath.Join(t.TempDir(), "file")
	const library = "#!lua name=lib\nredis.register_function('f', function() return 7 end)"
	do(t, from.Client(2), "SET", "k", "v")
	do(t, from.Client(2), "FUNCTION", "LOAD", library)
	if text, status := exported(from.Addr(), rdb); status != 0 {
		t.Fatalf("%d: %s", status, text)
	}
	aof := filepath.Join(t.TempDir(), "appendonly.aof")
	text :=
		fmt.Sprintf("*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
			len(library), library)
	if err := os.WriteFile(aof, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{rdb, aof} {
		for _, tt := range []struct {
			args    []string
			keys    int64
			library bool
		}{
			{nil, 1, true}, {[]string{"--db", "0"}, 1, false}, {[]string{"--db", "9"}, 0, false},
			{[]string{"--match", "k"}, 1, false}, {[]string{"--match", "x"}, 0, false},
		} {
			to := testkit.Keyp(t)
			args := append([]string{file, "--to", to.Addr()}, tt.args...)
			dry, status := imported(append(args, "--dry-run")...)
			text, status2 := imported(args...)
			if status != 0 || status2 != 0 ||
				strings.Contains(text, " 1 left out;") == (tt.library || tt.keys == 0) {
				t.Errorf("%q: %d, %d: %s%s", args, status, status2, dry, text)
			}
			if file == rdb && strings.Contains(dry, "; 1 libraries;") != tt.library {
				t.Errorf("%q: a dry run says %s", args, dry)
			}
			c := to.Client(2)
			libraries := do(t, c, "FUNCTION", "LIST").([]any)
			if n := do(t, c, "DBSIZE"); n != tt.keys || len(libraries) == 1 != tt.library {
				t.Errorf("%q: %v keys, and the libraries %v", args, n, libraries)
			}
		}
	}
}
