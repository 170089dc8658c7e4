package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// columns is the maximum width of prose in comments. A tab takes four columns.
const columns = 100

// deepest is the last column at which a comment counts as standing on its own line behind tabs. A
// comment further right counts as following code.
const deepest = 8

// causative matches a first sentence such as "write has the next appends be written".
var causative = regexp.MustCompile(`^\w[\w.]* has\b[^.:;]*\bbe\b`)

// TestComments checks two rules of style. Prose in comments fits into the columns. No doc comment
// says that something "has X be Y" instead of naming the action with a verb.
func TestComments(t *testing.T) {
	for _, f := range module(t) {
		for _, problem := range commentProblems(f) {
			t.Error(problem)
		}
	}
}

// TestColumns checks that code fits into the columns, too. A long string stays in one piece, so
// that one can search for it. A line in a table of strings may be wide, too.
func TestColumns(t *testing.T) {
	for _, f := range module(t) {
		for _, problem := range wideLines(f) {
			t.Error(problem)
		}
	}
}

// TestWideLines checks that TestColumns finds wide lines, and no others.
func TestWideLines(t *testing.T) {
	wide, long := "x"+strings.Repeat(" + x", 25), `"`+strings.Repeat("a", longStrings)+`"`
	source := "package p\n\nvar x, y = 1, " + wide + "\n\n// " + wide + "\nvar s = f(" + long +
		", " + wide[:50] + ")\n"
	lines := token.NewFileSet()
	syntax, err := parser.ParseFile(lines, "p/a.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	problems := wideLines(file{"p/a.go", syntax, lines, strings.Split(source, "\n")})
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "p/a.go:3:") {
		t.Errorf("of three long lines, of which the first is too wide, it finds %q", problems)
	}
}

// longStrings is the total width of a line's strings from which on the line may be too wide.
const longStrings = 60

// aligned matches the spaces that gofmt puts between the columns of a table.
var aligned = regexp.MustCompile(`(\S)  +`)

func wideLines(f file) (problems []string) {
	may := map[int]bool{}  // lines that may be wide
	texts := map[int]int{} // the width of the strings in a line
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if lit, ok := node.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			first, last := f.lines.Position(lit.Pos()).Line, f.lines.Position(lit.End()).Line
			texts[first] += len(lit.Value)
			for line := first; line <= last; line++ {
				may[line] = may[line] || texts[first] > longStrings
			}
		}
		return true
	})
	for _, group := range f.syntax.Comments { // of comments alone TestComments takes care
		for _, one := range group.List {
			if at := f.lines.Position(one.Pos()); strings.TrimSpace(
				f.text[at.Line-1][:at.Column-1]) == "" {
				may[at.Line] = true
			}
		}
	}
	for i, line := range f.text {
		width := len([]rune(strings.ReplaceAll(aligned.ReplaceAllString(line, "$1 "), "\t",
			"    ")))
		if width > columns && !may[i+1] {
			problems = append(problems,
				fmt.Sprintf("%s:%d: the line has %d columns, and may have %d", f.path, i+1,
					width, columns))
		}
	}
	return problems
}

func commentProblems(f file) (problems []string) {
	for _, group := range f.syntax.Comments {
		for _, line := range group.List {
			at := f.lines.Position(line.Pos())
			text, prose := strings.CutPrefix(line.Text, "// ")
			// Else it is a list, a table or a drawing.
			prose = prose && !strings.HasPrefix(text, " ")
			if width := 4*(at.Column-1) + len([]rune(line.Text)); prose && at.Column <= deepest &&
				width > columns {
				problems = append(problems,
					fmt.Sprintf("%v: the comment has %d columns, and may have %d", at,
						width, columns))
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
			problems = append(problems, fmt.Sprintf("%v: %q: name what it does by a verb",
				f.lines.Position(doc.Pos()), strings.ReplaceAll(sentence, "\n", " ")))
		}
		return true
	})
	return problems
}
