package layout

import (
	"go/ast"
	"testing"
)

// These constants are the limits that the tests in this file enforce.
const (
	// fileLines is the maximum number of lines of a file that is not a test.
	fileLines = 600
	// engineLines is the maximum number of code lines, without comments, in package storage.
	engineLines = 14_000
	// txnMethods and txnFields limit storage.Txn, the type that most of the engine uses.
	txnMethods, txnFields = 110, 25
)

// TestFileLength: files have a reasonable length, so that a reader finds related code together.
func TestFileLength(t *testing.T) {
	for _, f := range module(t) {
		if n := f.lines.File(f.syntax.Pos()).LineCount(); n > fileLines && !f.test() {
			t.Errorf("%v: %d lines are more than %d: divide the file",
				f.lines.Position(f.syntax.Pos()).Filename, n, fileLines)
		}
	}
}

// TestEngineSize: package storage and its transaction do not grow. Features are not part of the
// engine, and code that needs no store belongs in its own package.
func TestEngineSize(t *testing.T) {
	code, methods, fields := 0, 0, 0
	for _, f := range module(t) {
		if f.dir() != "storage" || f.test() {
			continue
		}
		code += codeLines(f)
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && methodOf(fn, "Txn") {
				methods++
			}
		}
		if at := f.syntax.Scope.Lookup("Txn"); at != nil {
			list := at.Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List
			for _, field := range list {
				fields += max(len(field.Names), 1)
			}
		}
	}
	if code > engineLines {
		t.Errorf("storage has %d lines of code, more than %d: is a part of it a package?", code,
			engineLines)
	}
	if methods == 0 || methods > txnMethods {
		t.Errorf("storage.Txn has %d methods, more than %d: are some a part's, or a feature's?",
			methods, txnMethods)
	}
	if fields == 0 || fields > txnFields {
		t.Errorf("storage.Txn has %d fields, more than %d", fields, txnFields)
	}
}

// codeLines returns how many lines of a file contain code.
func codeLines(f file) int {
	lines := map[int]bool{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		}
		lines[f.lines.Position(n.Pos()).Line] = true
		lines[f.lines.Position(n.End()-1).Line] = true
		return true
	})
	return len(lines)
}

// methodOf reports whether a function is a method of a type, or of a pointer to it.
func methodOf(fn *ast.FuncDecl, name string) bool {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return false
	}
	typ := fn.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.Name == name
}
