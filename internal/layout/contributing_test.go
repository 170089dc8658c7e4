package layout

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"keyp/internal/testkit"
)

// TestContributingExample type-checks the example of CONTRIBUTING.md with its files at the paths
// that the text names. With KEYP_LONG=1 it also runs the example's test.
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
	list := filepath.Join(root, "commands", "table.go")
	table, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	const head = "var families = [][]Spec{\n"
	files := map[string]string{list: strings.Replace(string(table), head,
		head+"\tstringLastCommands,\n", 1)}
	for i, name := range names {
		files[filepath.Join(root, filepath.FromSlash(string(name[1])))] = string(blocks[i][1])
	}
	if testkit.Long() {
		runExample(t, root, files)
	} else {
		checkExample(t, files)
	}
}

// checkExample type-checks the package commands and its tests with additional or replaced files.
// It also checks all imported packages from their source: otherwise packages.Load would compile
// commands, which takes ten times as long.
func checkExample(t *testing.T, files map[string]string) {
	t.Helper()
	overlay := map[string][]byte{}
	for path, content := range files {
		overlay[path] = []byte(content)
	}
	list, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: "../..",
		Tests: true, Overlay: overlay}, "./commands")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range list {
		for _, err := range p.Errors {
			t.Error(err)
		}
		for _, file := range p.GoFiles {
			if _, ok := overlay[file]; ok {
				found++
			}
		}
	}
	if found < len(overlay) {
		t.Errorf("the package commands has %d of the %d files", found, len(overlay))
	}
}

// runExample compiles the package with additional or replaced files, and runs the example's test.
// Because compiling takes long, only the time limit of all tests ends it.
func runExample(t *testing.T, root string, files map[string]string) {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for name, content := range files {
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[name] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", file, "-run", "^TestStrLast$",
		"-v", "./commands")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestStrLast") {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}
