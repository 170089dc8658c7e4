package layout

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestContributingExample has Go compile the example of CONTRIBUTING.md as if its files stood
// where the text says; with KEYP_LONG=1 it runs the example's test, too.
func TestContributingExample(t *testing.T) {
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(commands/string_last[a-z_]*\\.go)`").FindAllSubmatch(text, -1)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(text, -1)
	if len(names) != 2 || len(blocks) != 2 {
		t.Fatalf("%d files are named, and %d shown; want two", len(names), len(blocks))
	}
	const list = "commands/table.go"
	table, err := os.ReadFile(filepath.Join(root, list))
	if err != nil {
		t.Fatal(err)
	}
	const head = "var families = [][]Spec{\n"
	files := map[string]string{list: strings.Replace(string(table), head, head+"\tstringLastCommands,\n", 1)}
	for i, name := range names {
		files[string(name[1])] = string(blocks[i][1])
	}
	dir, replace := t.TempDir(), map[string]string{}
	for name, content := range files {
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"vet", "-overlay", file, "./commands"}
	if testkit.Long() {
		args = []string{"test", "-overlay", file, "-run", "^TestStrLast$", "-v", "./commands"}
	}
	cmd := exec.CommandContext(await.Context(t), "go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || testkit.Long() && !strings.Contains(string(out), "--- PASS: TestStrLast") {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
