package layout

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/callgraph"
	"golang.org/x/tools/go/callgraph/cha"
	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// docs/internals/architecture.md documents the order of the locks, and these tests compare the code
// with it. They follow the calls that variable type analysis finds, also through interfaces and
// function values. They note which lock may be taken while which other one is held. Locks are
// identified by type and field, not by value.

// ownOrder are the packages whose locks are held across functions, which the types do not show well
// enough. Their comments describe the order of their own locks (storage/doc.go, wal/log.go;
// outbox.mover.turn comes before all others). These tests check only their order with the locks of
// other packages.
var ownOrder = []string{"outbox", "storage", "datafile", "wal", "scripting", "lua", "main"}

// testDoubles are locks of test doubles, which no server has.
var testDoubles = []string{"clock.Fake.mu", "vfs.Mem.mu"}

// checked reports whether docs/internals/architecture.md must give the order of two locks.
func (e edge) checked() bool {
	held, _, _ := strings.Cut(e.held, ".")
	taken, _, _ := strings.Cut(e.taken, ".")
	own := slices.Contains(ownOrder, held) && (held == taken || slices.Contains(ownOrder, taken))
	return !own && !slices.Contains(testDoubles, e.held) && !slices.Contains(testDoubles, e.taken)
}

// TestLockOrder finds locks that are taken against the order in docs/internals/architecture.md, or
// while the same lock is held.
func TestLockOrder(t *testing.T) {
	order := documentedLocks(t)
	g := newLockGraph(loadProgram(t))
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
	for name := range order {
		if !slices.Contains(g.locks, name) && !strings.HasSuffix(name, ".*") {
			t.Errorf("docs/internals/architecture.md names the lock %s, which nobody takes", name)
		}
	}
}

// lockOrder gives the position of each lock, from 1 on. A name may also be that of a package,
// followed by .*.
type lockOrder map[string]int

// place returns a lock's position, or 0 if it has none.
func (o lockOrder) place(lock string) int {
	if at := o[lock]; at > 0 {
		return at
	}
	pkg, _, _ := strings.Cut(lock, ".")
	return o[pkg+".*"]
}

// documentedLocks reads the order: the names at the starts of the lines in the block after "##
// Locks".
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

// loadProgram builds the module's packages. Of libraries only the types are known.
func loadProgram(t *testing.T) *ssa.Program {
	t.Helper()
	list, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "../.."},
		"./...")
	if err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(p *packages.Package) bool {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
		return strings.Contains(p.PkgPath, "/testkit")
	})
	program, _ := ssautil.Packages(list, ssa.InstantiateGenerics)
	program.Build()
	return program
}

// lockSet is a set of locks, by their numbers.
type lockSet [8]uint64

func (s *lockSet) add(lock int)      { s[lock/64] |= 1 << (lock % 64) }
func (s *lockSet) remove(lock int)   { s[lock/64] &^= 1 << (lock % 64) }
func (s *lockSet) has(lock int) bool { return s[lock/64]>>(lock%64)&1 != 0 }

// join adds the locks of another set, and reports whether this added any.
func (s *lockSet) join(o lockSet) (more bool) {
	for i := range s {
		more = more || o[i]&^s[i] != 0
		s[i] |= o[i]
	}
	return more
}

// all iterates over the locks of the set.
func (s lockSet) all(yield func(lock int) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(64*i + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// edge means that a lock may be taken while another one is held.
type edge struct{ held, taken string }

// summary is the effect of a function on locks.
type summary struct {
	acquires lockSet // while it runs, in whatever it calls
	leaves   lockSet // that it may return with
	releases lockSet // that its caller had
}

// lockGraph is the analysis of the program.
type lockGraph struct {
	lines     *token.FileSet
	callees   map[ssa.CallInstruction][]*ssa.Function
	summaries map[*ssa.Function]*summary
	locks     []string        // their names, by number
	after     []lockSet       // that are taken while a lock is held
	edges     map[edge]string // where
}

// newLockGraph analyzes all functions again and again until it finds nothing new.
func newLockGraph(program *ssa.Program) *lockGraph {
	g := &lockGraph{lines: program.Fset, callees: map[ssa.CallInstruction][]*ssa.Function{},
		summaries: map[*ssa.Function]*summary{}, edges: map[edge]string{}}
	calls := vta.CallGraph(ssautil.AllFunctions(program), cha.CallGraph(program))
	callers := map[*ssa.Function][]*ssa.Function{}
	_ = callgraph.GraphVisitEdges(calls, func(e *callgraph.Edge) error {
		runs := []*ssa.Function{e.Callee.Func}
		if ofLibrary(e.Callee.Func) || len(e.Callee.Func.Blocks) == 0 {
			runs = nil // sort, slices and the like call what they get
			for _, arg := range e.Site.Common().Args {
				if f := literal(arg); f != nil {
					runs = append(runs, f)
				}
			}
		}
		for _, f := range runs {
			g.callees[e.Site] = append(g.callees[e.Site], f)
			callers[f] = append(callers[f], e.Caller.Func)
		}
		return nil
	})
	waiting := map[*ssa.Function]bool{}
	for f := range calls.Nodes {
		if f != nil && len(f.Blocks) > 0 {
			g.summaries[f], waiting[f] = &summary{}, true
		}
	}
	for len(waiting) > 0 {
		for f := range waiting {
			delete(waiting, f)
			s := g.summaries[f]
			before := *s
			(&walker{g: g, f: f, summary: s}).walk()
			if *s == before {
				continue
			}
			for _, caller := range callers[f] {
				waiting[caller] = true
			}
		}
	}
	return g
}

// lock returns the number of a lock.
func (g *lockGraph) lock(name string) int {
	i := slices.Index(g.locks, name)
	if i < 0 {
		i = len(g.locks)
		g.locks, g.after = append(g.locks, name), append(g.after, lockSet{})
	}
	return i
}

// walker analyzes the blocks of a function.
type walker struct {
	*summary
	g    *lockGraph
	f    *ssa.Function
	held lockSet
}

// walk analyzes the blocks until it knows all locks that may be held at the beginning of each.
func (w *walker) walk() {
	before, reached := make([]lockSet, len(w.f.Blocks)), make([]bool, len(w.f.Blocks))
	reached[0] = true
	for again := true; again; {
		again = false
		for i, b := range w.f.Blocks {
			if !reached[i] {
				continue
			}
			w.held = before[i]
			for _, instruction := range b.Instrs {
				w.instruction(instruction)
			}
			for _, next := range b.Succs {
				more := before[next.Index].join(w.held)
				again = again || more || !reached[next.Index]
				reached[next.Index] = true
			}
		}
	}
}

func (w *walker) instruction(i ssa.Instruction) {
	switch i := i.(type) {
	case *ssa.Call:
		w.call(i)
	case *ssa.RunDefers: // all of them: some may not have been reached
		for _, b := range w.f.Blocks {
			for _, other := range b.Instrs {
				if d, ok := other.(*ssa.Defer); ok {
					w.call(d)
				}
			}
		}
	case *ssa.Return:
		w.leaves.join(w.held)
	}
}

func (w *walker) call(site ssa.CallInstruction) {
	if name, method := lockCall(site.Common()); name != "" {
		lock := w.g.lock(name)
		switch method {
		case "Lock", "RLock", "TryLock", "TryRLock":
			one := lockSet{}
			one.add(lock)
			if !strings.HasPrefix(method, "Try") {
				w.takes(one, site, method)
			}
			w.acquires.add(lock)
			w.held.add(lock)
		case "Unlock", "RUnlock":
			w.release(lock)
		}
		return
	}
	for _, callee := range w.g.callees[site] {
		if s := w.g.summaries[callee]; s != nil {
			w.run(*s, site, callee.Name())
		}
	}
}

// run adds the effect of a called function.
func (w *walker) run(s summary, site ssa.CallInstruction, callee string) {
	w.takes(s.acquires, site, callee)
	w.acquires.join(s.acquires)
	for lock := range s.releases.all {
		w.release(lock)
	}
	w.held.join(s.leaves)
}

func (w *walker) release(lock int) {
	if !w.held.has(lock) {
		w.releases.add(lock)
	}
	w.held.remove(lock)
}

// takes records which locks are held while a call of callee may take other locks.
func (w *walker) takes(locks lockSet, site ssa.CallInstruction, callee string) {
	for held := range w.held.all {
		known := w.g.after[held]
		if !w.g.after[held].join(locks) {
			continue
		}
		pos := w.g.lines.Position(site.Pos())
		for lock := range locks.all {
			if !known.has(lock) {
				w.g.edges[edge{w.g.locks[held], w.g.locks[lock]}] = fmt.Sprintf(
					"%s:%d in %s, by %s", filepath.Base(pos.Filename), pos.Line, w.f.Name(), callee)
			}
		}
	}
}

// ofLibrary reports whether a function, or the method that it wraps, belongs to a library.
func ofLibrary(f *ssa.Function) bool {
	o := f.Object()
	return o != nil && o.Pkg() != nil && !strings.HasPrefix(o.Pkg().Path(), "keyp/")
}

// literal returns the function that an argument names directly, or nil if the argument is a
// variable.
func literal(v ssa.Value) *ssa.Function {
	switch v := v.(type) {
	case *ssa.Function:
		return v
	case *ssa.MakeClosure:
		return v.Fn.(*ssa.Function)
	case *ssa.ChangeType:
		return literal(v.X)
	}
	return nil
}

// lockCall returns the lock and the method if a call is a method call on a mutex.
func lockCall(call *ssa.CallCommon) (lock, method string) {
	f := call.StaticCallee()
	if f == nil || f.Signature.Recv() == nil || f.Pkg == nil && f.Object() == nil {
		return "", ""
	}
	switch f.Signature.Recv().Type().String() {
	case "*sync.Mutex", "*sync.RWMutex":
		return lockName(call.Args[0]), f.Name()
	}
	return "", ""
}

// lockName returns package, type and field of a lock. For a lock in an anonymous struct it uses the
// field that has this struct.
func lockName(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		owner := v.X.Type().Underlying().(*types.Pointer).Elem()
		field := owner.Underlying().(*types.Struct).Field(v.Field)
		if _, named := types.Unalias(owner).(*types.Named); named {
			return types.TypeString(owner, (*types.Package).Name) + "." + field.Name()
		}
		return lockName(v.X)
	case *ssa.UnOp:
		return lockName(v.X)
	case *ssa.Global:
		return v.Pkg.Pkg.Name() + "." + v.Name()
	}
	return v.Parent().Pkg.Pkg.Name() + "." + v.Name()
}

// TestLockOrderBites checks that the search finds locks taken through an interface, through a
// function value and after a branch. It finds nothing if the first lock has been released.
func TestLockOrderBites(t *testing.T) {
	const source = `package p
import "sync"
type conn interface { push() }
type session struct { t *table }
func (s *session) push() { s.t.of() }
type table struct { mu struct { sync.Mutex; n int }; to conn }
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
func All() { s := &session{&table{}}; s.t.to = s; s.t.send(); o := &other{}; o.set(); o.run(s.t); x := &third{}; x.fine(s.t); x.held(o) }
`
	lines := token.NewFileSet()
	syntax, err := parser.ParseFile(lines, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, _, err := ssautil.BuildPackage(
		&types.Config{Importer: importer.ForCompiler(lines, "source", nil)}, lines,
		types.NewPackage("keyp/p", "p"), []*ast.File{syntax}, ssa.InstantiateGenerics)
	if err != nil {
		t.Fatal(err)
	}
	g := newLockGraph(pkg.Prog)
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
