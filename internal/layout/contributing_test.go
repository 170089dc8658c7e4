package layout

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// TestContributingExample checks the example of CONTRIBUTING.md as Go's compiler does, as if its
// files stood where the text says; with KEYP_LONG=1 it runs the example's test.
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

// checkExample checks the types of the package commands and its tests with further or other files.
func checkExample(t *testing.T, files map[string]string) {
	t.Helper()
	packages, lines := listPackages(t, "-test", "./commands"), token.NewFileSet()
	var syntax []*ast.File
	parse := func(path string, content any) {
		file, err := parser.ParseFile(lines, path, content, 0)
		if err != nil {
			t.Fatal(err)
		}
		syntax = append(syntax, file)
	}
	for path, content := range files {
		parse(path, content)
	}
	for _, p := range packages {
		if p.ImportPath != "keyp/commands [keyp/commands.test]" {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			if _, replaced := files[path]; !replaced {
				parse(path, nil)
			}
		}
	}
	if len(syntax) < 10 {
		t.Fatalf("the package commands has %d files", len(syntax))
	}
	if _, err := check(lines, "keyp/commands", syntax, exportData(lines, packages)); err != nil {
		t.Error(err)
	}
}

// runExample has Go compile the package with further or other files, and runs the example's test.
// That compiles much: only the bound of all tests ends it.
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
