package layout

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// columns is how wide the prose of comments may be, where a tab takes four.
const columns = 100

// deepest is the last column in which a comment is taken to stand alone behind tabs, and not after
// code.
const deepest = 8

// causative matches a first sentence such as "write has the next appends be written".
var causative = regexp.MustCompile(`^\w[\w.]* has\b[^.:;]*\bbe\b`)

// TestComments checks two rules of style that a program can see: prose of comments fits the
// columns, and no doc comment says that something "has X be Y" where a verb says it.
func TestComments(t *testing.T) {
	for _, f := range module(t) {
		for _, problem := range commentProblems(f) {
			t.Error(problem)
		}
	}
}

func commentProblems(f file) (problems []string) {
	for _, group := range f.syntax.Comments {
		for _, line := range group.List {
			at := f.lines.Position(line.Pos())
			text, prose := strings.CutPrefix(line.Text, "// ")
			prose = prose && !strings.HasPrefix(text, " ") // else it is a list, a table or a drawing
			if width := 4*(at.Column-1) + len([]rune(line.Text)); prose && at.Column <= deepest && width > columns {
				problems = append(problems, fmt.Sprintf("%v: the comment has %d columns, and may have %d", at, width, columns))
			}
		}
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		var doc *ast.CommentGroup
		switch node := node.(type) {
		case *ast.FuncDecl:
			doc = node.Doc
		case *ast.GenDecl:
			doc = node.Doc
		case *ast.Field:
			doc = node.Doc
		case *ast.TypeSpec:
			doc = node.Doc
		}
		if sentence := causative.FindString(doc.Text()); sentence != "" {
			problems = append(problems, fmt.Sprintf("%v: %q: name what it does by a verb", f.lines.Position(doc.Pos()), strings.ReplaceAll(sentence, "\n", " ")))
		}
		return true
	})
	return problems
}
