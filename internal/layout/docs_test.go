package layout

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	inBackticks = regexp.MustCompile("`([^`\n]+)`")
	sourcePath  = regexp.MustCompile(`^[a-z]+(/[a-z_]+)+\.go$`)
	identifier  = regexp.MustCompile(
		`^([A-Za-z]+\.)*([a-z]+[A-Z][A-Za-z]*|[A-Z][a-z]+[A-Z][A-Za-z]*)$`)
)

// TestDocumentsName: source files, functions and types that the documents about the internals name
// exist. So a rename leaves no old name in them.
func TestDocumentsName(t *testing.T) {
	names := map[string]bool{}
	for _, f := range module(t) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	documents, err := filepath.Glob("../../docs/internals/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("%d documents, %v", len(documents), err)
	}
	checked := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range inBackticks.FindAllStringSubmatch(string(text), -1) {
			switch name := span[1]; {
			case sourcePath.MatchString(name):
				checked++
				if _, err := os.Stat("../../" + name); err != nil {
					t.Errorf("%s names %s: %v", filepath.Base(document), name, err)
				}
			case identifier.MatchString(name):
				checked++
				if !names[name[strings.LastIndex(name, ".")+1:]] {
					t.Errorf("%s names %s, which does not exist", filepath.Base(document), name)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d names were checked", checked)
	}
}
