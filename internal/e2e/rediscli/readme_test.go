package rediscli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// readme returns README.md and the directory that contains it.
func readme(t *testing.T) (text, root string) {
	t.Helper()
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), root
}

// block returns the only block of a kind in a text.
func block(t *testing.T, text, begin string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, begin+"\n")
	inside, after, ended := strings.Cut(rest, "```\n")
	if !ok || !ended || strings.Contains(after, begin+"\n") {
		t.Fatalf("there is no block, or there are several: %s", begin)
	}
	return inside
}

// bash runs a script and returns its output. Processes that the script has started end with it.
func bash(t *testing.T, script string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(await.Context(t), testkit.Program(t, "bash"), "-c",
		"set -m; trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\n"+script)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, out, errs.Bytes())
	}
	return string(out)
}

// TestReadmeSession runs the session of README.md line by line in one shell, with its own port and
// directory.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	text, _ := readme(t)
	steps := strings.Split(block(t, text, "```console"), "$ ")[1:]
	port, cli := fmt.Sprint(testkit.FreePort(t)), testkit.Program(t, "redis-cli")
	started :=
		fmt.Sprintf(
			"& for i in $(seq 600); do %s -p %s PING && break; sleep 0.1; done >/dev/null 2>&1",
			cli, port)
	own := strings.NewReplacer("& sleep 1", started, "bin/keyp", testkit.Binary(t), "redis-cli",
		cli+" --no-raw",
		"16500", port, "/tmp/demo", t.TempDir(), "make build", "true")
	const mark = "--- the next step"
	var script strings.Builder
	for _, step := range steps {
		command, _, _ := strings.Cut(step, "\n")
		fmt.Fprintf(&script, "%s\necho '%s'\n", own.Replace(command), mark)
	}
	printed := strings.Split(bash(t, script.String()), mark+"\n")
	if len(printed) != len(steps)+1 || len(steps) < 8 {
		t.Fatalf("%d steps printed\n%s", len(steps), strings.Join(printed, mark+"\n"))
	}
	for i, step := range steps {
		command, want, _ := strings.Cut(step, "\n")
		got, want := untimed(printed[i]), untimed(own.Replace(want))
		if begin, rest, cut := strings.Cut(want, "…"); cut && strings.HasPrefix(got, begin) {
			got, want = "", strings.TrimSpace(rest)
		}
		if got != want {
			t.Errorf("%s prints\n%s\nwant\n%s", command, got, want)
		}
		if list := instant.FindAllString(printed[i], -1); len(list) == 3 &&
			(list[0] < list[2] || list[2] < list[1]) {
			t.Errorf("an entry at %s of what was removed at %s, and due at %s", list[0],
				list[2], list[1])
		}
	}
}

// instant matches a time in Unix ms.
var instant = regexp.MustCompile(`\b\d{13}\b`)

// untimed replaces all instants in a text by INSTANT.
func untimed(text string) string {
	return instant.ReplaceAllString(strings.TrimRight(text, " \n"), "INSTANT")
}

// TestReadmeMove copies the keys of a Redis to a Keyp with the command line of README.md.
func TestReadmeMove(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the line is for GNU's xargs")
	}
	text, _ := readme(t)
	text, rest, _ := strings.Cut(text[strings.Index(text, "## Move from Redis"):], "\n## ")
	if rest == "" {
		t.Fatal("the section has no end")
	}
	redis, keyp, cli := testkit.Redis(t), testkit.Keyp(t), testkit.Program(t, "redis-cli")
	bash(t,
		fmt.Sprintf("%[1]s -p %[2]s SET 'a key' v PX 100000000\n%[1]s -p %[2]s RPUSH list a b\nfor i in $(seq 1200); do echo SET k$i v; done | %[1]s -p %[2]s",
			cli, redis.Port()))
	line := strings.NewReplacer("redis-cli", cli+" -p "+redis.Port(), "HOST 16500",
		"127.0.0.1 "+keyp.Port()).Replace(block(t, text, "```sh"))
	if out := bash(t, line); strings.Trim(out, "OK\n") != "" {
		t.Errorf("it prints %s", out)
	}
	const content = "for c in DBSIZE 'LRANGE list 0 -1' 'GET k1200'; do %[1]s -p %[2]s $c; done; %[1]s -p %[2]s PEXPIRETIME 'a key'"
	got, want := bash(t, fmt.Sprintf(content, cli, keyp.Port())),
		bash(t, fmt.Sprintf(content, cli, redis.Port()))
	if untimed(got) != untimed(want) || got < want || !strings.HasPrefix(got, "1202\na\nb\nv\n1") {
		t.Errorf("the copy has\n%s\nthe original\n%s", got, want)
	}
}

// TestReadmeProgram: the program in README.md is a part of an example, which has its own test.
func TestReadmeProgram(t *testing.T) {
	text, root := readme(t)
	example, err := os.ReadFile(filepath.Join(root, "docs", "examples", "session", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(example), block(t, text, "```go")) {
		t.Error("the example of README.md is not in docs/examples/session/main.go")
	}
}
