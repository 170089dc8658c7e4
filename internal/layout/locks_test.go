package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The order of the locks stands in docs/internals/architecture.md, and these tests hold the code
// against it. They follow all calls, through interfaces to every type that has the methods, and
// through function values to all that the program puts into the variable, and note which lock may
// be taken while which other one is held. What they find is what may happen as far as types show: a
// lock is that of its type, whichever value of the type it belongs to.

// ownOrder are the packages whose locks are held across functions, which types do not show well
// enough. They describe in which order they take their own ones (storage/doc.go, wal/log.go;
// outbox.mover.turn comes before all others); here it is checked where these stand among those of
// other packages.
var ownOrder = []string{"outbox", "storage", "datafile", "wal", "scripting", "lua", "main"}

// testDoubles are locks that no server has.
var testDoubles = []string{"clock.Fake.mu", "vfs.Mem.mu"}

// checked reports whether the order of two locks is to be in docs/internals/architecture.md.
func (e edge) checked() bool {
	held, _, _ := strings.Cut(e.held, ".")
	taken, _, _ := strings.Cut(e.taken, ".")
	own := slices.Contains(ownOrder, held) && (held == taken || slices.Contains(ownOrder, taken))
	return !own && !slices.Contains(testDoubles, e.held) && !slices.Contains(testDoubles, e.taken)
}

// function is a body of code: a declared function, a method or a literal.
type function struct {
	name     string
	body     *ast.BlockStmt
	info     *types.Info
	params   []types.Object
	acquires lockSet // while it runs, in whatever it calls
	leaves   lockSet // that it may return with
	releases lockSet // that its caller had
}

type lockSet map[string]bool

// edge says that a lock may be taken while another one is held.
type edge struct{ held, taken string }

// lockGraph is what is known of the program.
type lockGraph struct {
	lines    *token.FileSet
	byObject map[types.Object]*function
	literals map[*ast.FuncLit]*function
	all      []*function
	named    []types.Type // of the module
	// What function variables may hold: *function or types.Object.
	values  map[types.Object]map[any]bool
	returns map[*function]types.Object  // stands for the functions that it returns
	edges   map[edge]string             // where
	impls   map[*types.Func][]*function // of interface methods
	found   map[*types.Func][]*types.Func
	dynamic []dynamicCall
	changed bool
}

// TestLockOrder finds locks that are taken against the order of docs/internals/architecture.md, or
// while the same lock is held.
func TestLockOrder(t *testing.T) {
	order := documentedLocks(t)
	g := newLockGraph()
	g.load(t, checkedModule(t, g.lines))
	g.solve()
	seen := map[string]bool{}
	for _, e := range slices.SortedFunc(maps.Keys(g.edges), func(a, b edge) int {
		return strings.Compare(a.held+" "+a.taken, b.held+" "+b.taken)
	}) {
		held, taken := order.place(e.held), order.place(e.taken)
		switch {
		case !e.checked():
		case e.held == e.taken:
			t.Errorf("%s may be taken while it is held: %s", e.held, g.edges[e])
		case held == 0 || taken == 0:
			t.Errorf("%s is taken while %s is held (%s): docs/internals/architecture.md does not say in which order",
				e.taken, e.held, g.edges[e])
		case held >= taken:
			t.Errorf("%s is taken while %s is held, against the order of docs/internals/architecture.md: %s",
				e.taken, e.held, g.edges[e])
		}
	}
	for _, f := range g.all {
		maps.Copy(seen, f.acquires)
	}
	for name := range order {
		if !seen[name] && !strings.HasSuffix(name, ".*") {
			t.Errorf("docs/internals/architecture.md names the lock %s, which nobody takes", name)
		}
	}
}

// lockOrder are the places of locks, from 1 on. A name may be that of a package, with .* behind it.
type lockOrder map[string]int

// place gives a lock's place; 0: it has none.
func (o lockOrder) place(lock string) int {
	if at := o[lock]; at > 0 {
		return at
	}
	pkg, _, _ := strings.Cut(lock, ".")
	return o[pkg+".*"]
}

// documentedLocks reads the order: the names that begin the lines of the block behind "## Locks".
func documentedLocks(t *testing.T) lockOrder {
	t.Helper()
	text, err := os.ReadFile("../../docs/internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Locks\n")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```")
	order := lockOrder{}
	for i, line := range strings.Split(block, "\n") {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, " ") {
			order[words[0]] = i + 1
		}
	}
	return order
}

// checkedPackage is a package of the module with its types.
type checkedPackage struct {
	files []*ast.File
	info  *types.Info
	types *types.Package
}

// listed is a package as go list shows it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// listPackages lists packages and what they import, with the files of the compiler's export data.
func listPackages(t *testing.T, args ...string) (list []listed) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,Export,Module"}, args...)...)
	command.Dir = "../.."
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, errs.String())
	}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// exportData imports the packages of a list as they are compiled.
func exportData(lines *token.FileSet, list []listed) types.Importer {
	exports := map[string]string{}
	for _, p := range list {
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(lines, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}

// checkedModule checks the types of the module's program code, for this platform. What it imports
// comes from the compiler's export data.
func checkedModule(t *testing.T, lines *token.FileSet) (list []checkedPackage) {
	t.Helper()
	packages, own := listPackages(t, "./..."), map[string]*types.Package{}
	compiled := exportData(lines, packages)
	for _, p := range packages {
		if p.Module == nil || !p.Module.Main || strings.Contains(p.ImportPath, "/testkit") ||
			len(p.GoFiles) == 0 {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			syntax, err := parser.ParseFile(lines, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, syntax)
		}
		checked, err := check(lines, p.ImportPath, files,
			importers(func(path string) (*types.Package, error) {
				if mine := own[path]; mine != nil {
					return mine, nil
				}
				return compiled.Import(path)
			}))
		if err != nil {
			t.Fatal(err)
		}
		own[p.ImportPath] = checked.types
		list = append(list, checked)
	}
	return list
}

type importers func(path string) (*types.Package, error)

func (f importers) Import(path string) (*types.Package, error) { return f(path) }

func check(lines *token.FileSet, path string, files []*ast.File,
	imports types.Importer) (checkedPackage, error) {
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	pkg, err := (&types.Config{Importer: imports}).Check(path, lines, files, info)
	return checkedPackage{files, info, pkg}, err
}

func newLockGraph() *lockGraph {
	return &lockGraph{
		lines: token.NewFileSet(), byObject: map[types.Object]*function{},
		literals: map[*ast.FuncLit]*function{},
		values:   map[types.Object]map[any]bool{}, returns: map[*function]types.Object{},
		edges: map[edge]string{},
		impls: map[*types.Func][]*function{}, found: map[*types.Func][]*types.Func{},
	}
}

// load takes in all bodies, types and assignments of function values.
func (g *lockGraph) load(t *testing.T, packages []checkedPackage) {
	t.Helper()
	add := func(name string, kind *ast.FuncType, body *ast.BlockStmt, info *types.Info) *function {
		f := &function{name: name, params: parameters(info, kind), body: body, info: info,
			acquires: lockSet{}, leaves: lockSet{}, releases: lockSet{}}
		g.all = append(g.all, f)
		g.returns[f] = types.NewVar(body.Pos(), nil, name, types.Typ[types.Invalid])
		return f
	}
	for _, p := range packages {
		for _, name := range p.types.Scope().Names() {
			if named, ok := p.types.Scope().Lookup(name).(*types.TypeName); ok && !named.IsAlias() {
				g.named = append(g.named, named.Type())
			}
		}
		for _, file := range p.files {
			name := filepath.Base(g.lines.Position(file.Pos()).Filename)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Body != nil {
						g.byObject[p.info.Defs[n.Name]] = add(n.Name.Name, n.Type, n.Body, p.info)
					}
				case *ast.FuncLit:
					g.literals[n] = add(fmt.Sprintf("%s:%d", name, g.lines.Position(n.Pos()).Line),
						n.Type, n.Body, p.info)
				}
				return true
			})
		}
	}
	for _, p := range packages {
		for _, file := range p.files {
			g.assignments(p.info, file)
		}
	}
	for _, f := range g.all {
		g.returned(f)
	}
}

// solve goes over all bodies until nothing new comes.
func (g *lockGraph) solve() {
	for g.changed = true; g.changed; {
		g.changed = false
		for _, call := range g.dynamic {
			call.handOver(g)
		}
		for object, sources := range g.values {
			for source := range sources {
				if other, ok := source.(types.Object); ok {
					for more := range g.values[other] {
						g.flow(object, more)
					}
				}
			}
		}
	}
	for g.changed = true; g.changed; {
		g.changed = false
		for _, f := range g.all {
			w := &walker{g: g, f: f, held: lockSet{}, deferred: lockSet{}}
			w.statements(f.body.List)
			w.exit()
		}
	}
}

// add adds a lock to a set that belongs to the solution.
func (g *lockGraph) add(set lockSet, name string) {
	if !set[name] {
		set[name] = true
		g.changed = true
	}
}

// flow notes that a variable may hold a function, or what another variable holds.
func (g *lockGraph) flow(to types.Object, source any) {
	if to == nil || source == any(to) {
		return
	}
	if g.values[to] == nil {
		g.values[to] = map[any]bool{}
	}
	if !g.values[to][source] {
		g.values[to][source] = true
		g.changed = true
	}
}

// TestLockOrderBites gives the search for locks something to find: through an interface, through a
// function value and behind a branch, and nothing where a lock has been given up.
func TestLockOrderBites(t *testing.T) {
	const source = `package p
import "sync"
type conn interface { push() }
type session struct { t *table }
func (s *session) push() { s.t.of() }
type table struct { mu sync.Mutex; to conn }
func (t *table) of() { t.mu.Lock(); defer t.mu.Unlock() }
func (t *table) send() { t.mu.Lock(); defer t.mu.Unlock(); t.to.push() }
type other struct { mu sync.RWMutex; hook func(fn func()) }
func (o *other) set() { o.hook = func(fn func()) { fn() } }
func (o *other) run(t *table) { o.mu.RLock(); if t != nil { o.hook(t.of) }; o.mu.RUnlock() }
type third struct { mu sync.Mutex }
func (x *third) fine(t *table) { x.mu.Lock(); if t == nil { x.mu.Unlock(); return }; x.mu.Unlock(); t.to.push() }
func (x *third) lock() { x.mu.Lock() }
func (x *third) unlock() { x.mu.Unlock() }
func (x *third) held(o *other) { x.lock(); o.run(nil); x.unlock(); go o.run(nil) }
`
	g := newLockGraph()
	syntax, err := parser.ParseFile(g.lines, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := check(g.lines, "keyp/p", []*ast.File{syntax},
		importer.ForCompiler(g.lines, "source", nil))
	if err != nil {
		t.Fatal(err)
	}
	g.load(t, []checkedPackage{checked})
	g.solve()
	var got []string
	for e := range g.edges {
		got = append(got, e.held+" "+e.taken)
	}
	slices.Sort(got)
	want := []string{"p.other.mu p.table.mu", "p.table.mu p.table.mu", "p.third.mu p.other.mu",
		"p.third.mu p.table.mu"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
