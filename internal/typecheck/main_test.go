package main

import (
	"os"
	"path/filepath"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestCheck finds a mistake in a file that is compiled for one system only, or that needs a build
// tag. It also finds mistakes in tests.
func TestCheck(t *testing.T) {
	for _, name := range []string{"a_darwin.go", "a_darwin_test.go"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module m\n\ngo 1.26\n",
				"a.go":   "package m\n",
				name:     "package m\n\nvar n int = \"no number\"\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for platform, want := range map[string]bool{"linux/arm64": false,
				"darwin/arm64": true} {
				if errors, err := check(dir, platform); err != nil || (errors > 0) != want {
					t.Errorf("%s has %d errors, %v", platform, errors, err)
				}
			}
		})
	}
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"a.go":   "package m\n",
		"b.go":   "//go:build browser\n\npackage m\n\nvar n int = \"no number\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for platform, want := range map[string]bool{"linux/amd64": false,
		"linux/amd64:browser,race": true} {
		if errors, err := check(dir, platform); err != nil || (errors > 0) != want {
			t.Errorf("%s has %d errors, %v", platform, errors, err)
		}
	}
	if _, err := check(t.TempDir(), "linux"); err == nil {
		t.Error("a platform without a processor is accepted")
	}
}
