// Package mutants has mutations of the program as patches, and a script (run) that applies them.
package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestCurrent: each patch applies to the tree, and its test exists.
func TestCurrent(t *testing.T) {
	if out, err := exec.Command("./run", "--check").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestVerdicts runs the script on a module that has a test for one thing, and another test that
// fails.
func TestVerdicts(t *testing.T) {
	root, patches := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const program = "package tiny\n\nfunc one() int { return 1 }\nfunc two() int { return 2 }\n"
	write(filepath.Join(root, "go.mod"), "module tiny\n\ngo 1.26\n")
	write(filepath.Join(root, "a/tiny.go"), program)
	write(filepath.Join(root, "a/tiny_test.go"), "package tiny\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Fail()\n\t}\n}\n\nfunc TestNever(t *testing.T) { t.Fail() }\n")
	patch := func(name, test, old, changed string) {
		write(filepath.Join(patches, name+".patch"), "# A change.\n# test: a "+test+"\n--- a/a/tiny.go\n+++ b/a/tiny.go\n@@ -3,2 +3,2 @@\n"+
			strings.ReplaceAll(" func one() int { return 1 }\n func two() int { return 2 }\n", " "+old+"\n", "-"+old+"\n+"+changed+"\n"))
	}
	const one, two = "func one() int { return 1 }", "func two() int { return 2 }"
	patch("1", "TestOne", one, "func one() int { return 3 }")
	patch("2", "TestOne", two, "func two() int { return 3 }")
	patch("3", "TestOne", one, "func one() int { return x }")
	patch("4", "TestNever", one, "func one() int { return 3 }")
	patch("5", "TestNobody", one, "func one() int { return 3 }")
	write(filepath.Join(patches, "6.patch"), "# test: a TestOne\n--- a/a/tiny.go\n+++ b/a/tiny.go\n@@ -3,1 +3,1 @@\n-func six() {}\n+func six() { return }\n")
	cmd := exec.Command("./run")
	cmd.Env = append(os.Environ(), "MUTANTS_DIR="+patches, "MUTANTS_ROOT="+root)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("mutations that are not caught are no failure")
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		got = append(got, strings.TrimSpace(line[:min(len(line), 10)]))
	}
	if want := "caught, NOT CAUGHT, BROKEN, TEST FAILS, NO TEST, STALE, 6 mutation"; strings.Join(got, ", ") != want {
		t.Errorf("verdicts %q, want %s\n%s", got, want, out)
	}
	if text, _ := os.ReadFile(filepath.Join(root, "a", "tiny.go")); string(text) != program {
		t.Errorf("the file is now %q", text)
	}
}
