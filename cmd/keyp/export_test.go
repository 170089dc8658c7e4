package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// exported runs the subcommand, and returns its output and its exit status.
func exported(args ...string) (text string, status int) {
	var out strings.Builder
	err := exportFile(args, &out)
	var e exit
	if errors.As(err, &e) {
		status = e.status
	}
	if err != nil {
		out.WriteString(err.Error())
	}
	return out.String(), status
}

// fillMore adds data that fill does not have and that Redis can hold too.
func fillMore(t *testing.T, c *redis.Client) {
	t.Helper()
	do(t, c, "FUNCTION", "LOAD",
		"#!lua name=lib\nredis.register_function('f', function() return 7 end)")
	for _, line := range []string{
		"SELECT 0", "SADD many " + strings.Repeat("m", 100),
		"ZADD bigz +inf " + strings.Repeat("z", 100) + " -0.25 b", "PEXPIREAT h 4000000000321",
		"XADD gone 5-1 f v", "XDEL gone 5-1", "XGROUP CREATECONSUMER x g idle",
		"XADD many-fields * a 1 b 2 c 3", "SET empty \"\"", "SETRANGE bits 1000 x",
	} {
		do(t, c, strings.Fields(line)...)
	}
	do(t, c, "SET", "binary\xff\x00key", "\x00\xfe\r\n")
	do(t, c, "EVAL",
		"for i = 1, 200 do redis.call('XADD', 'log', i .. '-0', 'i', i) redis.call('SADD', 'bigset', 'member:' .. i) end",
		"0")
}

// state returns the data that DEBUG DIGEST does not cover: deadlines, consumer groups and
// libraries.
func state(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	got := map[string]string{"libraries": fmt.Sprint(do(t, c, "FUNCTION", "LIST", "WITHCODE"))}
	for _, db := range []string{"0", "3"} {
		do(t, c, "SELECT", db)
		for _, key := range do(t, c, "KEYS", "*").([]any) {
			name := key.(string)
			got[db+name] = fmt.Sprint(do(t, c, "PEXPIRETIME", name))
			if do(t, c, "TYPE", name) == "stream" {
				got[db+name] += fmt.Sprint(do(t, c, "XINFO", "STREAM", name)) +
					fmt.Sprint(do(t, c, "XINFO", "GROUPS", name))
				for _, group := range do(t, c, "XINFO", "GROUPS", name).([]any) {
					of := fmt.Sprint(group.([]any)[1])
					got[db+name] += fmt.Sprint(do(t, c, "XPENDING", name, of))
				}
			}
		}
	}
	do(t, c, "SELECT", "0")
	return got
}

// sameState compares two states. It ignores the number of a stream's radix tree nodes, which may
// differ between servers.
func sameState(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	nodes := func(s string) string {
		words := strings.Fields(s)
		for i := range words {
			if i > 0 && strings.HasPrefix(words[i-1], "radix-tree-") {
				words[i] = ""
			}
		}
		return strings.Join(words, " ")
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if nodes(got[name]) != nodes(want[name]) {
			t.Errorf("%s: %.100q is\n%.300s\nwant\n%.300s", what, name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d keys, want %d", what, len(got), len(want))
	}
}

// files returns the content of each file of a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		info, _ := entry.Info()
		all[path] = info.ModTime().String() + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestExport exports a running server and its directory, and lets redis-server load each file. It
// imports the files that Redis saves then. All of them have the same data.
func TestExport(t *testing.T) {
	from := testkit.Keyp(t, "--enable-debug-command", "yes")
	c := from.ClientDB(2, 0)
	fill(t, c)
	fillMore(t, c)
	want, wantState := do(t, c, "DEBUG", "DIGEST"), state(t, c)
	dir := t.TempDir()
	load := func(name, file string) {
		to := testkit.Redis(t, "--enable-debug-command", "yes", "--dir", filepath.Dir(file),
			"--dbfilename", filepath.Base(file))
		rc := to.ClientDB(2, 0)
		if got := do(t, rc, "DEBUG", "DIGEST"); got != want {
			t.Errorf("%s: digest %v, want %v", name, got, want)
		}
		sameState(t, name, state(t, rc), wantState)
		do(t, rc, "SAVE")
		again := filepath.Join(dir, name+"-again")
		if text, status := imported(file, "--dir", again); status != 0 {
			t.Fatalf("%s: import: %d: %s", name, status, text)
		}
		made := testkit.NewKeyp(t,
			testkit.Options{Dir: again, Args: []string{"--enable-debug-command", "yes"}})
		made.Start()
		mc := made.ClientDB(2, 0)
		if got := do(t, mc, "DEBUG", "DIGEST"); got != want {
			t.Errorf("%s: digest after the way back %v, want %v", name, got, want)
		}
		sameState(t, name+" and back", state(t, mc), wantState)
	}
	export := func(name, source string, args ...string) {
		file := filepath.Join(dir, name)
		text, status := exported(append([]string{source, file}, args...)...)
		if status != 0 || !strings.Contains(text, "1 libraries") {
			t.Fatalf("%s: %d: %s", name, status, text)
		}
	}
	export("server.rdb", from.Addr())
	load("server", filepath.Join(dir, "server.rdb"))
	export("server.resp", from.Addr(), "--format", "resp")
	from.Stop()
	before := files(t, from.Dir())
	export("dir.rdb", from.Dir())
	export("dir.resp", from.Dir(), "--format", "resp")
	if after := files(t, from.Dir()); !maps.Equal(before, after) {
		t.Error("the directory has changed")
	}
	load("dir", filepath.Join(dir, "dir.rdb"))
	for _, file := range []string{"server.resp", "dir.resp"} {
		to := testkit.Redis(t, "--enable-debug-command", "yes")
		in, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		pipe := exec.CommandContext(await.Context(t), testkit.Program(t, "redis-cli"), "-p",
			to.Port(), "--pipe")
		pipe.Stdin = in
		if out, err := pipe.CombinedOutput(); err != nil ||
			!bytes.Contains(out, []byte("errors: 0,")) {
			t.Errorf("%s: %v: %s", file, err, out)
		}
		rc := to.ClientDB(2, 0)
		if got := do(t, rc, "DEBUG", "DIGEST"); got != want {
			t.Errorf("%s: digest %v, want %v", file, got, want)
		}
		sameState(t, file, state(t, rc), wantState)
	}
}

// TestExportLeavesOut exports data that Redis does not know at all, or only since some version.
func TestExportLeavesOut(t *testing.T) {
	from := testkit.Keyp(t)
	c := from.ClientDB(2, 0)
	do(t, c, "HSET", "timed", "f", "v")
	do(t, c, "HPEXPIREAT", "timed", "4000000000123", "FIELDS", "1", "f")
	do(t, c, "SADD", "members", "m")
	do(t, c, "EXPIREMEMBERAT", "members", "m", "4000000000")
	do(t, c, "KEYP.LEASE", "ACQUIRE", "lease", "me", "100000000")
	do(t, c, "KEYP.POLICY", "SET", "rule", "PATTERN", "nothing:*", "DEFAULT", "10s")
	do(t, c, "KEYP.OUTBOX", "SET", "box", "PATTERN", "nothing:*", "STREAM", "out")
	do(t, c, "XADD", "aged", "*", "f", "v")
	do(t, c, "XCFGSET", "aged", "MAXAGE", "100000000")
	do(t, c, "SET", "past", "v")
	dir := t.TempDir()
	sources := []string{from.Addr(), from.Dir()}
	for i, source := range sources {
		if i == 1 {
			from.Stop()
		}
		for _, tt := range []struct {
			args       []string
			want, lack []string
		}{
			{nil, []string{`fields have deadlines need version 12 of the format: "timed"`,
				"stream: 1\nstring: 1\n", " 2 keys,"}, nil},
			{[]string{"--rdb-version", "12"}, []string{"hash: 1\n", " 3 keys,"}, []string{"timed"}},
			{[]string{"--format", "json"}, []string{"hash: 1\nset: 1\n", " 4 keys,"},
				[]string{"timed", "members"}},
			{[]string{"--format", "resp", "--rdb-version", "12"}, []string{" 3 keys,"},
				[]string{"timed"}},
		} {
			text, status := exported(append([]string{source, filepath.Join(dir, "file"),
				"--replace"}, tt.args...)...)
			want := append(tt.want, `leases are Keyp's own: "lease"`,
				`policies are Keyp's own: "rule"`, `outboxes are Keyp's own: "box"`,
				`exported without it: "aged"`)
			if status != statusLost {
				t.Errorf("%s %q: status %d", source, tt.args, status)
			}
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("%s %q: %q is not in %s", source, tt.args, part, text)
				}
			}
			for _, part := range tt.lack {
				if strings.Contains(text, `"`+part+`"`) {
					t.Errorf("%s %q: %q is in %s", source, tt.args, part, text)
				}
			}
		}
	}
}

// TestExportJSON compares the lines of each type.
func TestExportJSON(t *testing.T) {
	from := testkit.Keyp(t)
	c := from.ClientDB(2, 0)
	for _, line := range []string{
		"SET s te\"xt", "SET timed v PXAT 4000000000123", "RPUSH l a b", "SADD set m",
		"ZADD z 1.5 a -inf b 1e300 c", "HSET h f v",
		"XADD x 1-1 f v", "XADD x 2-1 g w", "XGROUP CREATE x g 0",
		"XREADGROUP GROUP g me COUNT 1 STREAMS x >", "SELECT 3", "SET other db",
	} {
		do(t, c, strings.Fields(line)...)
	}
	do(t, c, "SET", "\xff", "a\n\xfe")
	do(t, c, "SET", "lines", "a\r\nb\u00e4\x01")
	file := filepath.Join(t.TempDir(), "keys.json")
	if text, status := exported(from.Addr(), file, "--format", "json"); status != 0 {
		t.Fatalf("%d: %s", status, text)
	}
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(all)) {
		if head, rest, found := strings.Cut(line, `"consumers":`); found { // with times
			line = head + rest[strings.LastIndex(rest, "]]}]"):]
		}
		got = append(got, strings.TrimSuffix(line, "\n"))
	}
	slices.Sort(got)
	want := []string{
		`{"db":0,"key":"h","type":"hash","value":[["f","v"]]}`,
		`{"db":0,"key":"l","type":"list","value":["a","b"]}`,
		`{"db":0,"key":"s","type":"string","value":"te\"xt"}`,
		`{"db":0,"key":"set","type":"set","value":["m"]}`,
		`{"db":0,"key":"timed","type":"string","expireAt":4000000000123,"value":"v"}`,
		`{"db":0,"key":"x","type":"stream","value":{"entries":[["1-1",["f","v"]],["2-1",["g","w"]]],"lastId":"2-1","maxDeletedId":"0-0","entriesAdded":2,"groups":[{"name":"g","lastId":"1-1","entriesRead":1,]]}]}}`,
		`{"db":0,"key":"z","type":"zset","value":[["b","-inf"],["a",1.5],["c",1e+300]]}`,
		`{"db":3,"key":"lines","type":"string","value":"a\u000d\u000abä\u0001"}`,
		`{"db":3,"key":"other","type":"string","value":"db"}`,
		`{"db":3,"key":{"base64":"/w=="},"type":"string","value":{"base64":"YQr+"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestExportFails: if an export fails, nothing is written, and an existing file stays.
func TestExportFails(t *testing.T) {
	from, dir := testkit.Keyp(t), t.TempDir()
	do(t, from.Client(2), "SET", "k", "v")
	file, part := filepath.Join(dir, "file"), filepath.Join(dir, "part")
	for _, path := range []string{file, part + ".export"} {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "other")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "usage: keyp export"},
		{[]string{"a"}, "usage: keyp export"},
		{[]string{"a", "b", "c"}, "usage: keyp export"},
		{[]string{from.Addr(), other, "--format", "xml"}, "usage: keyp export"},
		{[]string{from.Addr(), other, "--nope"}, "usage: keyp export"},
		{[]string{from.Addr(), other, "--rdb-version", "9"}, "--rdb-version is 10 to 14"},
		{[]string{from.Addr(), other, "--rdb-version", "15"}, "--rdb-version is 10 to 14"},
		{[]string{from.Addr(), file}, "--replace overwrites it"},
		{[]string{from.Addr(), part}, "remove what an interrupted export left"},
		{[]string{from.Addr(), filepath.Join(dir, "none", "file")}, "no such file"},
		{[]string{filepath.Join(dir, "none"), other}, "no such file"},
		{[]string{from.Dir(), other}, "a server runs on it"},
		{[]string{dir, other}, "cannot be exported"},
	} {
		text, status := exported(tt.args...)
		if status != statusFailed || !strings.Contains(text, tt.want) {
			t.Errorf("%q: %d: %s", tt.args, status, text)
		}
	}
	for _, path := range []string{file, part + ".export"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Errorf("%s has %q: %v", path, text, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v is left: %v", list, err)
	}
}

// TestExportOther exports from servers other than Keyp, with a password, or with TLS.
func TestExportOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	redis := testkit.Redis(t)
	if text, status := exported(redis.Addr(), file); status != statusFailed ||
		!strings.Contains(text, "no server of Keyp") {
		t.Errorf("Redis: %d: %s", status, text)
	}
	authority := testkit.NewAuthority(t)
	from := testkit.NewKeyp(t, testkit.Options{TLS: authority})
	from.Start()
	c := from.Client(2)
	do(t, c, "SET", "k", "v")
	do(t, c, "ACL", "SETUSER", "backup", "on", ">secret", "~*", "+@all")
	do(t, c, "ACL", "SETUSER", "default", "resetpass")
	if text, status := exported(from.Addr(), file); status != statusFailed ||
		!strings.Contains(text, "NOAUTH") {
		t.Errorf("no password: %d: %s", status, text)
	}
	t.Setenv("REDISCLI_AUTH", "wrong")
	if text, status := exported(from.Addr(), file, "--user", "backup"); status != statusFailed ||
		!strings.Contains(text, "WRONGPASS") {
		t.Errorf("wrong password: %d: %s", status, text)
	}
	t.Setenv("REDISCLI_AUTH", "secret")
	args := authority.ServerArgs()
	ca := args[slices.Index(args, "--tls-ca-cert-file")+1]
	cert, key := authority.Issue("client")
	if text, status := exported(from.TLSAddr(), file, "--user", "backup", "--tls", "--cacert", ca,
		"--cert", cert, "--key", key); status != 0 || !strings.Contains(text, " 1 key,") {
		t.Errorf("TLS: %d: %s", status, text)
	}
	if text, status := exported(from.TLSAddr(), file, "--replace", "--user", "backup",
		"--tls"); status != statusFailed || !strings.Contains(text, "certificate") {
		t.Errorf("an unknown certificate: %d: %s", status, text)
	}
}

// TestExportInterrupted sends a signal while the program waits for the server's replies.
func TestExportInterrupted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	asked := make(chan error, 1)
	go func() {
		conn, err := silent.Accept()
		if err == nil {
			_, err = bufio.NewReader(conn).ReadString('\n')
		}
		asked <- err // and no reply comes
	}()
	dir := t.TempDir()
	var said bytes.Buffer
	cmd := exec.Command(testkit.Binary(t), "export", silent.Addr().String(),
		filepath.Join(dir, "file"))
	cmd.Env, cmd.Stderr = testkit.Environ(), &said
	if err := childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // says only that it has ended already
	if err := await.For(t, "a question", asked); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file.export")); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status says it
	if status := cmd.ProcessState.ExitCode(); status != statusFailed {
		t.Errorf("status %d: %s", status, said.String())
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v is left: %v", list, err)
	}
}
