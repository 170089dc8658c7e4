package layout

import "testing"

// fileLines is how many lines a file may have that is no test.
const fileLines = 600

// TestFileLength: a reader finds what belongs together in a file of reasonable length.
func TestFileLength(t *testing.T) {
	for _, f := range module(t) {
		if n := f.lines.File(f.syntax.Pos()).LineCount(); n > fileLines && !f.test() {
			t.Errorf("%v: %d lines are more than %d: divide the file",
				f.lines.Position(f.syntax.Pos()).Filename, n, fileLines)
		}
	}
}
