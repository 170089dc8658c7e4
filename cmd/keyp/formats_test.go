package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// directories contains data that older versions left behind when they were killed: see its README.
const directories = "../../testdata/directories"

// newestFormat is the format of the data files that this version writes.
const newestFormat = 3

// TestOlderFormats opens a directory of each format of the data file. It has the same data as a new
// directory after the same commands. Before the upgrade, `keyp check` and `keyp repair` report a
// format that they cannot read. After it they find nothing wrong.
func TestOlderFormats(t *testing.T) {
	lines := commandLines(t)
	fresh := startKeyp(t, t.TempDir())
	command(t, fresh.client(t), lines)
	want := everything(t, fresh.client(t))
	for format := 1; format <= newestFormat; format++ {
		t.Run(strconv.Itoa(format), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			extract(t, filepath.Join(directories, fmt.Sprintf("format-%d.tar.gz", format)), dir)
			for _, tool := range [][]string{{"check", dir}, {"repair", dir, dir + ".repaired"}} {
				status, out, errs := runKeyp(t, "", nil, tool...)
				if old := format < newestFormat; old == (status == 0) ||
					old && !strings.Contains(out+errs, fmt.Sprint(format)) {
					t.Errorf("%s: status %d, %q, %q", tool[0], status, out, errs)
				}
			}
			for range 2 { // it is upgraded, and read again
				p := startKeyp(t, dir)
				c := p.client(t)
				if got := everything(t, c); got != want {
					t.Errorf("it has\n%s\nwant\n%s", got, want)
				}
				if list, err := c.FunctionList(context.Background(),
					redis.FunctionListQuery{}).Result(); format > 1 &&
					(err != nil || len(list) != 1 || list[0].Name != "lib") {
					// Format 1 is older than libraries.
					t.Errorf("the libraries are %+v, %v", list, err)
				}
				p.signal(t, syscall.SIGTERM)
				if status := p.status(t); status != 0 {
					t.Errorf("it stops with status %d", status)
				}
			}
			if status, out, errs := runKeyp(t, "", nil, "check", dir); status != 0 {
				t.Errorf("check of what was upgraded: status %d, %q, %q", status, out, errs)
			}
		})
	}
}

// commandLines returns the commands that filled the directories.
func commandLines(t *testing.T) [][]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directories, "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]any
	for line := range strings.Lines(string(text)) {
		var args []any
		for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
			word, err := strconv.QuotedPrefix(rest)
			if err != nil {
				word, _, _ = strings.Cut(rest, " ")
			}
			rest = rest[len(word):]
			if plain, err := strconv.Unquote(word); err == nil {
				word = plain
			}
			args = append(args, word)
		}
		lines = append(lines, args)
	}
	return lines
}

// command sends commands over one connection.
func command(t *testing.T, c *redis.Client, lines [][]any) {
	t.Helper()
	ctx := context.Background()
	conn := c.Conn()
	defer conn.Close()
	for _, args := range lines {
		if err := conn.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
}

// everything returns the content of all databases: keys, deadlines, values and their elements'
// deadlines.
func everything(t *testing.T, c *redis.Client) string {
	t.Helper()
	ctx := context.Background()
	conn := c.Conn()
	defer conn.Close()
	var list []string
	for db := range 16 {
		if err := conn.Select(ctx, db).Err(); err != nil {
			t.Fatal(err)
		}
		keys, err := conn.Keys(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			dump, err := conn.Dump(ctx, key).Result()
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%d %s %v %q", db, key,
				conn.PExpireTime(ctx, key).Val(), dump))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// extract unpacks an archive into dir.
func extract(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for entries := tar.NewReader(plain); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if header.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = copyTo(path, entries)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func copyTo(path string, from io.Reader) error {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
