package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// waitsAt is the only package of tests that may sleep or set a time limit.
const waitsAt = "internal/testkit/await"

// bounds are the functions that sleep or set a time limit, by package. time.AfterFunc is not among
// them: it is for actions that happen at some moment during a test.
var bounds = map[string][]string{
	"time":    {"Sleep", "After", "NewTimer", "NewTicker", "Tick"},
	"context": {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
	"net":     {"Dial", "DialTimeout"},
	"runtime": {"Gosched"}, // in a loop around it: a wait without a bound, or with one of its own
}

// TestWaits finds tests that sleep in order to wait, and tests with their own time limit. These
// fail on a busy machine. internal/testkit/await has one limit for all.
func TestWaits(t *testing.T) {
	for _, f := range module(t) {
		if f.dir() != waitsAt && (f.test() || covers("internal/testkit/...", f.dir())) {
			for _, problem := range waitProblems(f) {
				t.Error(problem)
			}
		}
	}
}

func waitProblems(f file) (problems []string) {
	for _, decl := range f.syntax.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && hasTest(fn.Type) {
			for _, at := range receives(fn.Body) {
				problems = append(problems,
					fmt.Sprintf("%v: receives without a bound; use For of %s", f.lines.Position(at),
						waitsAt))
			}
		}
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			pkg, ok := node.X.(*ast.Ident)
			if ok && pkg.Name == "redis" && node.Sel.Name == "NewClient" &&
				f.dir() != "internal/testkit" {
				problems = append(problems,
					fmt.Sprintf("%v: redis.NewClient gives up after some seconds; testkit.NewClient does not",
						f.lines.Position(node.Pos())))
			}
			if ok && pkg.Obj == nil && slices.Contains(bounds[pkg.Name], node.Sel.Name) {
				problems = append(problems, fmt.Sprintf("%v: %s.%s; wait with %s",
					f.lines.Position(node.Pos()), pkg.Name, node.Sel.Name, waitsAt))
			}
		case *ast.CallExpr:
			call, ok := node.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"SetDeadline", "SetReadDeadline", "SetWriteDeadline"},
				call.Sel.Name) && readsTime(node.Args) {
				problems = append(problems, fmt.Sprintf("%v: %s; connect with %s",
					f.lines.Position(node.Pos()), call.Sel.Name, waitsAt))
			}
		}
		return true
	})
	return problems
}

// hasTest reports whether a function has a parameter for the test that it can end after waiting for
// too long.
func hasTest(fn *ast.FuncType) bool {
	return slices.ContainsFunc(fn.Params.List, func(param *ast.Field) bool {
		kind := param.Type
		if pointer, ok := kind.(*ast.StarExpr); ok {
			kind = pointer.X
		}
		selector, ok := kind.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := selector.X.(*ast.Ident)
		return ok && pkg.Name == "testing"
	})
}

// receives finds receives from a channel at which a function's own goroutine may wait for ever. It
// skips functions of other goroutines, and selects, because they have other cases.
func receives(body *ast.BlockStmt) (at []token.Pos) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectStmt:
			for _, clause := range node.Body.List {
				for _, stmt := range clause.(*ast.CommClause).Body {
					at = append(at, receives(&ast.BlockStmt{List: []ast.Stmt{stmt}})...)
				}
			}
			return false
		case *ast.UnaryExpr:
			if node.Op == token.ARROW {
				at = append(at, node.Pos())
			}
		}
		return true
	})
	return at
}

// readsTime reports whether an argument is an instant relative to now, as the deadlines of
// connections are. The deadlines of keys are numbers.
func readsTime(args []ast.Expr) (reads bool) {
	for _, arg := range args {
		ast.Inspect(arg, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel.Name == "Now" {
				pkg, ok := selector.X.(*ast.Ident)
				reads = reads || ok && pkg.Name == "time"
			}
			return true
		})
	}
	return reads
}

// TestSetup finds packages whose tests do not use internal/testkit/setup. If interrupted they would
// leave directories behind, and their property tests would draw other numbers each time.
func TestSetup(t *testing.T) {
	does := map[string]bool{}
	for _, f := range module(t) {
		if !f.test() || covers("internal/testkit/...", f.dir()) {
			continue
		}
		does[f.dir()] = does[f.dir()] || slices.ContainsFunc(f.syntax.Imports,
			func(spec *ast.ImportSpec) bool {
				path := strings.Trim(spec.Path.Value, `"`)
				return path == "keyp/internal/testkit" || path == "keyp/internal/testkit/setup"
			})
	}
	for dir, ok := range does {
		if !ok {
			t.Errorf("no test of %s imports keyp/internal/testkit or keyp/internal/testkit/setup",
				dir)
		}
	}
}
