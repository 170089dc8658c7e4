package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"testing"
)

// A mutex and the fields that it guards are together in one anonymous struct:
//
//	mu struct {
//		sync.Mutex
//		list []*user
//	}
//
// So the type shows which fields the mutex guards, and a line that uses such a field (x.mu.list)
// shows the lock that it needs.

// flat are the mutexes that are not in an anonymous struct, with the reason.
var flat = map[string]string{
	"storage.shardLock.mu":      "it is the lock of a shard, and guards all that the shard has: maps, slabs, values, index",
	"storage.globalTxn.gate":    "it guards no field: there is one global transaction at a time",
	"storage.sharing.turn":      "it guards the whole transaction that the struct is a part of",
	"storage.shownTime.mu":      "it orders records of the log; the field written under it is atomic",
	"storage/wal.Log.syncMu":    "it guards no field: one goroutine syncs at a time; what is written under it is atomic",
	"commands.Env.saving":       "it guards a file: one ACL SAVE at a time",
	"commands.CommandStats.mu":  "it orders those that replace the map; the field written under it is atomic, and read without it",
	"internal/config.Config.mu": "it serialises Set and Rewrite with all that they call; getters read atomics",
	"cmd/keyp.lineBuffer":       "the named type is the struct with its lock, since several handlers point to it",
}

// elsewhere are types with fields that another type's mutex guards according to their comments,
// with the reason.
var elsewhere = map[string]string{
	"commands.watching":   "it is reached by its Client and through Changes.mu.watched",
	"commands.watch":      "it is an entry of Changes.mu.watched",
	"commands.Client":     "its pointer to watching is set by Changes alone",
	"commands.Subscriber": "it is a member of audiences, which stand in Subscriptions.mu",
	"server.task":         "the watcher reaches it through tasks.mu.here",
	"storage/wal.tail":    "it is Log.mu.tail, the only one of its type",
}

// guardedBy matches a comment that names another type's mutex as the guard.
var guardedBy = regexp.MustCompile(`\b\w+\.(mu|turn|gate|\w+Mu)\s+guards\b`)

// TestGuards finds mutexes outside an anonymous struct, and fields that a mutex of another type
// guards.
func TestGuards(t *testing.T) {
	alone, foreign := map[string]bool{}, map[string]bool{}
	for _, f := range module(t) {
		if f.test() {
			continue
		}
		mutexes, others := guards(f)
		for _, name := range mutexes {
			if alone[name] = true; flat[name] == "" {
				t.Errorf("%s: the mutex %s stands beside other fields: put it into a struct with those that it guards",
					f.path, name)
			}
		}
		for _, name := range others {
			if foreign[name] = true; elsewhere[name] == "" {
				t.Errorf("%s: another type's mutex guards fields of %s", f.path, name)
			}
		}
	}
	for _, known := range []struct {
		list  map[string]string
		found map[string]bool
	}{{flat, alone}, {elsewhere, foreign}} {
		for name := range known.list {
			if !known.found[name] {
				t.Errorf("nothing needs the exception any more: %s", name)
			}
		}
	}
}

// guards returns the mutexes of a file that are not in an anonymous struct, and the types with
// fields that other types' mutexes guard.
func guards(f file) (mutexes, others []string) {
	report := func(name string) { mutexes = append(mutexes, f.dir()+"."+name) }
	anonymous := map[*ast.StructType]bool{}
	of := func(owner string, s *ast.StructType) {
		for _, field := range s.Fields.List {
			if !isMutex(field.Type) {
				continue
			}
			for _, name := range field.Names {
				report(owner + "." + name.Name)
			}
			if field.Names == nil && !anonymous[s] {
				report(owner)
			}
		}
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.TypeSpec:
			if s, ok := node.Type.(*ast.StructType); ok {
				of(node.Name.Name, s)
			}
		case *ast.GenDecl:
			for _, spec := range node.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && guardedElsewhere(node, spec) {
					others = append(others, f.dir()+"."+spec.Name.Name)
				}
			}
		case *ast.Field:
			if s, ok := node.Type.(*ast.StructType); ok {
				anonymous[s] = true
				of(fieldName(node), s)
			}
		case *ast.ValueSpec:
			if s, ok := node.Type.(*ast.StructType); ok {
				anonymous[s] = true
				of(node.Names[0].Name, s)
			}
			if isMutex(node.Type) {
				report(node.Names[0].Name)
			}
		}
		return true
	})
	return mutexes, others
}

func fieldName(field *ast.Field) string {
	if len(field.Names) == 0 {
		return "_"
	}
	return field.Names[0].Name
}

func isMutex(t ast.Expr) bool {
	if pointer, ok := t.(*ast.StarExpr); ok {
		t = pointer.X
	}
	selector, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "sync" && slices.Contains([]string{"Mutex", "RWMutex"},
		selector.Sel.Name)
}

// guardedElsewhere reports whether a comment in a struct says that another type's mutex guards a
// field of it.
func guardedElsewhere(decl *ast.GenDecl, spec *ast.TypeSpec) (found bool) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return false
	}
	says := func(comments ...*ast.CommentGroup) {
		for _, c := range comments {
			found = found || guardedBy.MatchString(c.Text())
		}
	}
	says(decl.Doc, spec.Doc)
	for _, field := range s.Fields.List {
		says(field.Doc, field.Comment)
	}
	return found
}

// TestGuardsBite checks guards on sources that break the rule and on sources that do not.
func TestGuardsBite(t *testing.T) {
	tests := []struct {
		source          string
		mutexes, others int
	}{
		{"type a struct { mu struct { sync.Mutex; list []int } }", 0, 0},
		{"type a struct { mu sync.Mutex; list []int }", 1, 0},
		{"type a struct { mu *sync.RWMutex; list []int }", 1, 0},
		{"type a struct { mu struct { flushMu sync.Mutex; list []int } }", 1, 0},
		{"type a struct { sync.Mutex; list []int }", 1, 0},
		{"func f() { var mu sync.Mutex; mu.Lock() }", 1, 0},
		{"func f() { var seen struct { sync.Mutex; list []int }; seen.Lock() }", 0, 0},
		{"// other.mu guards it.\ntype a struct { list []int }", 0, 1},
		{"type a struct {\n\tlist []int // by WATCH; Other.mu guards it\n}", 0, 1},
		{"type a struct {\n\t// Other.mu guards these.\n\tlist []int\n}", 0, 1},
		{"type a struct {\n\tlist []int // mu guards it\n}", 0, 0},
	}
	for _, tt := range tests {
		lines := token.NewFileSet()
		syntax, err := parser.ParseFile(lines, "p/a.go", "package p\n"+tt.source,
			parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		mutexes, others := guards(file{"p/a.go", syntax, lines, nil})
		if len(mutexes) != tt.mutexes || len(others) != tt.others {
			t.Errorf("%s: mutexes %q, types %q; want %d, %d", tt.source, mutexes, others,
				tt.mutexes, tt.others)
		}
	}
}
