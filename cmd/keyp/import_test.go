package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// fill adds keys of all types to two databases of a server.
func fill(t *testing.T, c *redis.Client) {
	t.Helper()
	for _, line := range []string{
		"SET s text", "SET n 12345", "SET long " + strings.Repeat("a", 10_000),
		"SET timed v PXAT 4000000000123", "RPUSH l a b c 1 -5",
		"SADD ints 1 2 3", "SADD set a b c", "ZADD z 1.5 a -inf b", "HSET h f v g 7",
		"XADD x 1-1 f v", "XADD x 1-2 f w", "XGROUP CREATE x g 0",
		"XREADGROUP GROUP g me COUNT 1 STREAMS x >", "SELECT 3", "SET other db",
	} {
		do(t, c, strings.Fields(line)...)
	}
	do(t, c, "EVAL",
		"for i = 1, 3000 do redis.call('SET', 'key:' .. i, i) redis.call('RPUSH', 'big', i) redis.call('HSET', 'bighash', i, i) end",
		"0")
}

func do(t *testing.T, c *redis.Client, words ...string) any {
	t.Helper()
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	reply, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%.200q: %v", words, err)
	}
	return reply
}

// imported runs the subcommand, and returns its output and its exit status.
func imported(args ...string) (text string, status int) {
	var out strings.Builder
	err := importFiles(args, &out)
	var e exit
	if errors.As(err, &e) {
		status = e.status
	}
	if err != nil {
		out.WriteString(err.Error())
	}
	return out.String(), status
}

// TestImport lets redis-server write its files, imports each kind of them both ways, and compares
// the digests.
func TestImport(t *testing.T) {
	kinds := []struct {
		name string
		args []string
		path func(dir string) string
	}{
		{"RDB", nil, func(dir string) string { return filepath.Join(dir, "dump.rdb") }},
		{"AOF directory", []string{"--appendonly", "yes"}, func(dir string) string { return dir }},
		{"AOF directory without RDB", []string{"--appendonly", "yes", "--aof-use-rdb-preamble",
			"no"}, func(dir string) string { return filepath.Join(dir, "appendonlydir") }},
		{"AOF", []string{"--appendonly", "yes", "--aof-timestamp-enabled", "yes"},
			func(dir string) string {
				return filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof")
			}},
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			from := testkit.Redis(t, append([]string{"--enable-debug-command", "yes"},
				kind.args...)...)
			c := from.Client(2)
			fill(t, c)
			dir := do(t, c, "CONFIG", "GET", "dir").([]any)[1].(string)
			do(t, c, "SAVE")
			want := do(t, c, "DEBUG", "DIGEST")
			path, to := kind.path(dir), filepath.Join(t.TempDir(), "new")
			if text, status := imported(path, "--dry-run"); status != 0 {
				t.Fatalf("%d: %s", status, text)
			}
			if text, status := imported(path, "--dir", to); status != 0 {
				t.Fatalf("%d: %s", status, text)
			}
			made := testkit.NewKeyp(t,
				testkit.Options{Dir: to, Args: []string{"--enable-debug-command", "yes"}})
			made.Start()
			if got := do(t, made.Client(2), "DEBUG", "DIGEST"); got != want {
				t.Errorf("--dir: digest %v, want %v", got, want)
			}
			server := testkit.Keyp(t, "--enable-debug-command", "yes")
			if text, status := imported(path, "--to", server.Addr()); status != 0 {
				t.Fatalf("%d: %s", status, text)
			}
			if got := do(t, server.Client(2), "DEBUG", "DIGEST"); got != want {
				t.Errorf("--to: digest %v, want %v", got, want)
			}
			if text, status := imported(path, "--dir", to); status != statusFailed ||
				!strings.Contains(text, "not empty") {
				t.Errorf("again: %d, %s", status, text)
			}
			if kind.name != "RDB" {
				if text, status := imported(path, "--to", server.Addr()); status != statusFailed ||
					!strings.Contains(text, "has keys") {
					t.Errorf("again: %d, %s", status, text)
				}
				return
			}
			if text, status := imported(path, "--to", server.Addr()); status != statusLost ||
				!strings.Contains(text, "BUSYKEY") || !strings.Contains(text, " 0 keys,") {
				t.Errorf("again: %d, %s", status, text)
			}
			if text, status := imported(path, "--to", server.Addr(), "--replace"); status != 0 {
				t.Errorf("replace: %d, %s", status, text)
			}
			if text, status := imported(path, "--dry-run", "--db", "0", "--match",
				"key:*"); status != 0 ||
				!strings.Contains(text, "string: 0") && !strings.Contains(text, " 0 keys,") {
				t.Errorf("chosen: %d, %s", status, text)
			}
			if text, status := imported(path, "--dry-run", "--db", "3", "--match",
				"key:*"); status != 0 || !strings.Contains(text, "string: 3000\n") {
				t.Errorf("chosen: %d, %s", status, text)
			}
		})
	}
}

// TestImportFails imports files that are damaged, torn or partly refused.
func TestImportFails(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	set := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
	tests := []struct {
		name, text, want string
		status           int
	}{
		{"half an RDB file", "REDIS0010\x00\x01k\x01v", "ends early", statusFailed},
		{"text", "hello", "bytes that are no command", statusFailed},
		{"torn", set + set[:9], "torn: the last 9 bytes", 0},
		{"AOF behind an RDB file", "REDIS0009\x00\x01i\x01x\xff\x00\x00\x00\x00\x00\x00\x00\x00" +
			set, "1 key, 0 with a deadline; 0 had expired, 0 left out; 0 libraries; 1 commands", 0},
		{"shutdown", set + "*1\r\n$8\r\nSHUTDOWN\r\n", `"SHUTDOWN"`, statusLost},
		{"unknown", set + "*1\r\n$4\r\nNOPE\r\n", `"NOPE"`, statusLost},
		{"wrong type", set + "*3\r\n$5\r\nLPUSH\r\n$1\r\nk\r\n$1\r\nv\r\n",
			"WRONGTYPE", statusLost},
		{"database", "*2\r\n$6\r\nSELECT\r\n$3\r\n999\r\n" + set,
			`refused: 1, the server has no such database: databases is 16, and KEYP_DATABASES=1000 makes it larger: "999"`,
			statusLost},
		{"database above all", "*2\r\n$6\r\nSELECT\r\n$5\r\n65536\r\n" + set,
			`no such database: databases is 16: "65536"`, statusLost},
		{"greatest number", "*2\r\n$6\r\nSELECT\r\n$20\r\n18446744073709551615\r\n" + set,
			`no such database: databases is 16: "18446744073709551615"`, statusLost},
		{"no database", "*2\r\n$6\r\nSELECT\r\n$1\r\nx\r\n" + set, "no such database: \"",
			statusLost},
		{"module and damage",
			"REDIS0010\x07\x01m\x00\x00\x0b\x01i\x01x\x00\x01k\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00",
			"value of module AAAAAAAAA", statusLost},
	}
	for i, tt := range tests {
		path, to := write(tt.name, tt.text), filepath.Join(dir, "to"+string(rune('a'+i)))
		text, status := imported(path, "--dir", to)
		if status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d, %s", tt.name, status, text)
		}
		if _, err := os.Stat(to); (err == nil) != (status != statusFailed) {
			t.Errorf("%s: status %d, and the directory: %v", tt.name, status, err)
		}
		if _, err := os.Stat(to + ".import"); err == nil {
			t.Errorf("%s leaves a part", tt.name)
		}
	}
	for _, args := range [][]string{{}, {"a", "b", "--dry-run"}, {"a"},
		{"a", "--dir", "b", "--to", "c"}, {"a", "--nope"},
		{"a", "--dry-run", "--db", "-1"}, {"a", "--dry-run", "--db", "-2"},
		{"a", "--dry-run", "--db", "x"}, {"a", "--dry-run", "--db", ""}} {
		if text, status := imported(args...); status != statusFailed ||
			!strings.Contains(text, "usage: ") {
			t.Errorf("%q: status %d: %s", args, status, text)
		}
	}
}
