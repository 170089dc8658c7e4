package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestListIsCurrent: what the list changes is there once, and so are the tests.
func TestListIsCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, m := range mutations {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 || m.old == m.new {
			t.Errorf("%s has %q %d times", m.file, m.old, n)
		}
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(m.dir()), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+m.test+"(")
		}) {
			t.Errorf("there is no %s in %s", m.test, m.dir())
		}
	}
}

// TestVerdicts: of a module with a test for one thing, another that fails, and nothing else.
func TestVerdicts(t *testing.T) {
	root := t.TempDir()
	const program = "package tiny\n\nfunc one() int { return 1 }\nfunc two() int { return 2 }\n"
	for name, text := range map[string]string{
		"go.mod":         "module tiny\n\ngo 1.26\n",
		"a/tiny.go":      program,
		"a/tiny_test.go": "package tiny\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Fail()\n\t}\n}\n\nfunc TestNever(t *testing.T) { t.Fail() }\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verdicts, err := audit(context.Background(), io.Discard, root, []mutation{
		{file: "a/tiny.go", test: "TestOne", old: "return 1", new: "return 3"},
		{file: "a/tiny.go", test: "TestOne", old: "return 2", new: "return 3"},
		{file: "a/tiny.go", test: "TestOne", old: "return 4", new: "return 3"},
		{file: "a/tiny.go", test: "TestOne", old: "return", new: "return 3"},
		{file: "a/tiny.go", test: "TestOne", old: "return 1", new: "return x"},
		{file: "a/tiny.go", test: "TestNever", old: "return 1", new: "return 3"},
		{file: "a/tiny.go", test: "TestNobody", old: "return 1", new: "return 3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []verdict{caught, notCaught, stale, stale, broken, failing, failing}; !slices.Equal(verdicts, want) {
		t.Errorf("%q, want %q", verdicts, want)
	}
	if text, _ := os.ReadFile(filepath.Join(root, "a", "tiny.go")); string(text) != program {
		t.Errorf("the file is now %q", text)
	}
}
