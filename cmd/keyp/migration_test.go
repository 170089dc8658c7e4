package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// TestMigrationPage runs the sessions in docs/start/migration.md, line by line, in one directory.
// Each output line must begin with the page's line, because the page leaves out durations.
func TestMigrationPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/start/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for rest, found := string(page), true; found; {
		if _, rest, found = strings.Cut(rest, "```console\n"); found {
			var session string
			session, rest, _ = strings.Cut(rest, "```")
			steps = append(steps, strings.Split(session, "$ ")[1:]...)
		}
	}
	cli, redis := testkit.Program(t, "redis-cli"), testkit.Redis(t)
	dir := redis.Dir()
	for _, step := range steps {
		command, want, _ := strings.Cut(step, "\n")
		words := strings.Fields(command)
		program := testkit.Binary(t)
		switch words[0] {
		case "redis-server": // in the foreground, with a port of its own
			redis = testkit.Redis(t, append([]string{"--dir", dir}, words[3:len(words)-2]...)...)
			continue
		case "redis-cli":
			program, words = cli, append([]string{words[0], "-p", redis.Port()}, words[1:]...)
		}
		run := exec.Command(program, words[1:]...)
		run.Dir = dir
		out, err := run.Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		got, lines := strings.Split(strings.TrimSpace(string(out)), "\n"),
			strings.Split(strings.TrimSpace(want), "\n")
		for i := range lines {
			if len(got) != len(lines) || !strings.HasPrefix(got[i], lines[i]) {
				t.Errorf("%s gives\n%swant\n%s", command, out, want)
				break
			}
		}
	}
	if len(steps) < 9 {
		t.Errorf("the session has %d steps", len(steps))
	}
}
