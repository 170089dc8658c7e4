package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"strings"
)

// object gives the variable or function that an expression names, the variable for its elements.
func object(info *types.Info, e ast.Expr) types.Object {
	switch e := e.(type) {
	case *ast.Ident:
		if def := info.Defs[e]; def != nil {
			return def
		}
		return origin(info.Uses[e])
	case *ast.SelectorExpr:
		return origin(info.Uses[e.Sel])
	case *ast.ParenExpr:
		return object(info, e.X)
	case *ast.IndexExpr:
		return object(info, e.X)
	case *ast.SliceExpr:
		return object(info, e.X)
	case *ast.StarExpr:
		return object(info, e.X)
	case *ast.UnaryExpr:
		return object(info, e.X)
	}
	return nil
}

// origin gives what a generic type or function declares, for what is made of it.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// sources gives what function values an expression may have.
func (g *lockGraph) sources(info *types.Info, e ast.Expr) (list []any) {
	switch e := e.(type) {
	case *ast.FuncLit:
		return []any{g.literals[e]}
	case *ast.CompositeLit:
		if _, isStruct := info.Types[e].Type.Underlying().(*types.Struct); isStruct {
			return nil
		}
		for _, element := range e.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				element = pair.Value
			}
			list = append(list, g.sources(info, element)...)
		}
		return list
	case *ast.CallExpr:
		if ident, ok := e.Fun.(*ast.Ident); ok && ident.Name == "append" ||
			info.Types[e.Fun].IsType() {
			for _, arg := range e.Args {
				list = append(list, g.sources(info, arg)...)
			}
			return list
		}
		for _, f := range g.callees(info, e) {
			list = append(list, g.returns[f])
		}
		return list
	}
	switch o := object(info, e).(type) {
	case *types.Func:
		for _, f := range g.targets(o) {
			list = append(list, f)
		}
	case *types.Var:
		list = append(list, o)
	}
	return list
}

// holdsFunctions reports whether a value of the type may be, or consist of, functions.
func holdsFunctions(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Signature:
		return true
	case *types.Slice:
		return holdsFunctions(t.Elem())
	case *types.Array:
		return holdsFunctions(t.Elem())
	case *types.Map:
		return holdsFunctions(t.Elem())
	case *types.Chan:
		return holdsFunctions(t.Elem())
	}
	return false
}

// assignments notes where function values go.
func (g *lockGraph) assignments(info *types.Info, file *ast.File) {
	assign := func(to types.Object, from ast.Expr) {
		if v, ok := to.(*types.Var); ok && holdsFunctions(v.Type()) {
			for _, source := range g.sources(info, from) {
				g.flow(to, source)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				from := n.Rhs[min(i, len(n.Rhs)-1)]
				assign(object(info, to), from)
			}
		case *ast.ValueSpec:
			for i, value := range n.Values {
				assign(info.Defs[n.Names[min(i, len(n.Names)-1)]], value)
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				if field, ok := info.Uses[key].(*types.Var); ok && field.IsField() {
					assign(field.Origin(), n.Value)
				}
			}
		case *ast.SendStmt:
			assign(object(info, n.Chan), n.Value)
		case *ast.RangeStmt:
			if n.Value != nil {
				assign(object(info, n.Value), n.X)
			}
		case *ast.CallExpr:
			g.arguments(info, n)
		}
		return true
	})
}

// returned notes what functions a body returns; not what literals in it do.
func (g *lockGraph) returned(f *function) {
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				if t := f.info.Types[result].Type; t != nil && holdsFunctions(t) {
					for _, source := range g.sources(f.info, result) {
						g.flow(g.returns[f], source)
					}
				}
			}
		}
		return true
	})
}

// arguments notes which functions a call hands over.
func (g *lockGraph) arguments(info *types.Info, call *ast.CallExpr) {
	callee, _ := object(info, call.Fun).(*types.Func)
	if callee == nil {
		g.dynamic = append(g.dynamic, dynamicCall{info, call})
		return
	}
	pass := func(f *types.Func) {
		params := f.Signature().Params()
		for i, arg := range call.Args {
			if params.Len() == 0 {
				return
			}
			to := params.At(min(i, params.Len()-1))
			if holdsFunctions(to.Type()) {
				for _, source := range g.sources(info, arg) {
					g.flow(to.Origin(), source)
				}
			}
		}
	}
	pass(callee)
	if !isInterfaceMethod(callee) {
		return
	}
	for _, method := range g.methods(callee) {
		pass(method)
	}
}

// dynamicCall is a call through a variable.
type dynamicCall struct {
	info *types.Info
	call *ast.CallExpr
}

// handOver notes which functions it hands to those that the variable may hold.
func (d dynamicCall) handOver(g *lockGraph) {
	for _, f := range g.callees(d.info, d.call) {
		for i, arg := range d.call.Args {
			if len(f.params) == 0 {
				break
			}
			if to := f.params[min(i, len(f.params)-1)]; to != nil && holdsFunctions(to.Type()) {
				for _, source := range g.sources(d.info, arg) {
					g.flow(to, source)
				}
			}
		}
	}
}

// parameters are the variables of a body's parameters.
func parameters(info *types.Info, t *ast.FuncType) (list []types.Object) {
	for _, field := range t.Params.List {
		for _, name := range field.Names {
			list = append(list, info.Defs[name])
		}
	}
	return list
}

func isInterfaceMethod(f *types.Func) bool {
	recv := f.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type())
}

// methods gives the methods of the module's types that may stand behind one of an interface.
func (g *lockGraph) methods(f *types.Func) (list []*types.Func) {
	if known, ok := g.found[f]; ok {
		return known
	}
	defer func() { g.found[f] = list }()
	iface, ok := f.Signature().Recv().Type().Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	for _, named := range g.named {
		pointer := types.NewPointer(named)
		if types.IsInterface(named) || !types.Implements(pointer, iface) {
			continue
		}
		if method, ok := types.NewMethodSet(pointer).Lookup(f.Pkg(),
			f.Name()).Obj().(*types.Func); ok {
			list = append(list, method.Origin())
		}
	}
	return list
}

// targets gives the bodies that a function or method stands for.
func (g *lockGraph) targets(f *types.Func) (list []*function) {
	if !isInterfaceMethod(f) {
		if body := g.byObject[f]; body != nil {
			list = append(list, body)
		}
		return list
	}
	if known, ok := g.impls[f]; ok {
		return known
	}
	for _, method := range g.methods(f) {
		if body := g.byObject[method]; body != nil {
			list = append(list, body)
		}
	}
	g.impls[f] = list
	return list
}

// callees gives what a call may run.
func (g *lockGraph) callees(info *types.Info, call *ast.CallExpr) (list []*function) {
	if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		return []*function{g.literals[lit]}
	}
	switch o := object(info, call.Fun).(type) {
	case *types.Func:
		list = g.targets(o)
		if o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path(), "keyp/") {
			for _, arg := range call.Args { // sort, slices and the like call it
				if lit, ok := arg.(*ast.FuncLit); ok {
					list = append(list, g.literals[lit])
				}
			}
		}
	case *types.Var:
		for source := range g.values[o] {
			if f, ok := source.(*function); ok {
				list = append(list, f)
			}
		}
	}
	return list
}

// walker goes through a body in the order of its statements.
type walker struct {
	g        *lockGraph
	f        *function
	held     lockSet
	deferred lockSet // released when the body ends
}

func (w *walker) statements(list []ast.Stmt) (ends bool) {
	for _, s := range list {
		if w.statement(s) {
			return true
		}
	}
	return false
}

// statement reports whether what follows it is not reached from there.
func (w *walker) statement(s ast.Stmt) (ends bool) {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		return w.statements(s.List)
	case *ast.LabeledStmt:
		return w.statement(s.Stmt)
	case *ast.ReturnStmt:
		w.expressions(s)
		w.exit()
		return true
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.GoStmt:
		for _, arg := range s.Call.Args {
			w.expressions(arg)
		}
	case *ast.DeferStmt:
		w.deferredCall(s.Call)
	case *ast.IfStmt:
		w.statement(s.Init)
		w.expressions(s.Cond)
		var otherwise []ast.Stmt
		if s.Else != nil {
			otherwise = []ast.Stmt{s.Else}
		}
		return w.branches([][]ast.Stmt{s.Body.List, otherwise})
	case *ast.ForStmt:
		w.statement(s.Init)
		if s.Cond != nil {
			w.expressions(s.Cond)
		}
		w.branches([][]ast.Stmt{append(s.Body.List[:len(s.Body.List):len(s.Body.List)], s.Post),
			nil})
	case *ast.RangeStmt:
		w.expressions(s.X)
		w.rangeFunction(s)
		w.branches([][]ast.Stmt{s.Body.List, nil})
	case *ast.SwitchStmt:
		w.statement(s.Init)
		if s.Tag != nil {
			w.expressions(s.Tag)
		}
		w.clauses(s.Body)
	case *ast.TypeSwitchStmt:
		w.statement(s.Init)
		w.statement(s.Assign)
		w.clauses(s.Body)
	case *ast.SelectStmt:
		w.clauses(s.Body)
	default:
		w.expressions(s)
		if e, ok := s.(*ast.ExprStmt); ok {
			if call, ok := e.X.(*ast.CallExpr); ok {
				ident, _ := call.Fun.(*ast.Ident)
				return ident != nil && ident.Name == "panic"
			}
		}
	}
	return false
}

// rangeFunction is a loop over an iterator, which is a call of it.
func (w *walker) rangeFunction(s *ast.RangeStmt) {
	if t := w.f.info.Types[s.X].Type; t != nil {
		if _, ok := t.Underlying().(*types.Signature); ok {
			w.call(&ast.CallExpr{Fun: s.X, Lparen: s.X.Pos()})
		}
	}
}

// clauses are those of a switch, each of which may run; or none.
func (w *walker) clauses(body *ast.BlockStmt) {
	list := [][]ast.Stmt{nil}
	for _, c := range body.List {
		switch c := c.(type) {
		case *ast.CaseClause:
			for _, e := range c.List {
				w.expressions(e)
			}
			list = append(list, c.Body)
		case *ast.CommClause:
			list = append(list, append([]ast.Stmt{c.Comm}, c.Body...))
		}
	}
	w.branches(list)
}

// branches goes through alternative lists, one of them runs; afterwards each lock may be held that
// is held behind one of them.
func (w *walker) branches(lists [][]ast.Stmt) (end bool) {
	before, after := w.held, lockSet{}
	end = true
	for _, list := range lists {
		w.held = maps.Clone(before)
		if !w.statements(list) {
			end = false
			maps.Copy(after, w.held)
		}
	}
	w.held = after
	return end
}

// expressions takes the calls of a node, the innermost first.
func (w *walker) expressions(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			w.expressions(n.Fun)
			for _, arg := range n.Args {
				w.expressions(arg)
			}
			w.call(n)
			return false
		}
		return true
	})
}

// lockCall reports whether a call is a mutex's method, and of which lock.
func lockCall(info *types.Info, call *ast.CallExpr) (lock, method string) {
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	f, ok := info.Uses[selector.Sel].(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Path() != "sync" || f.Signature().Recv() == nil {
		return "", ""
	}
	recv := f.Signature().Recv().Type().String()
	if !strings.HasSuffix(recv, "Mutex") && !strings.HasSuffix(recv, "Locker") {
		return "", ""
	}
	return lockName(info, selector.X), f.Name()
}

// lockName is package, type and field of a lock.
func lockName(info *types.Info, e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		owner := info.Types[e.X].Type
		if owner == nil {
			return e.Sel.Name
		}
		if pointer, ok := owner.Underlying().(*types.Pointer); ok {
			owner = pointer.Elem()
		}
		if selection := info.Selections[e]; selection != nil { // it may be promoted
			for _, i := range selection.Index()[:len(selection.Index())-1] {
				owner = owner.Underlying().(*types.Struct).Field(i).Type()
			}
		}
		return types.TypeString(owner, (*types.Package).Name) + "." + e.Sel.Name
	case *ast.Ident:
		if o := info.Uses[e]; o != nil && o.Pkg() != nil {
			return o.Pkg().Name() + "." + e.Name
		}
	}
	return types.ExprString(e)
}

func (w *walker) call(call *ast.CallExpr) {
	if lock, method := lockCall(w.f.info, call); lock != "" {
		switch method {
		case "Lock", "RLock", "TryLock", "TryRLock":
			if !strings.HasPrefix(method, "Try") {
				w.takes(lock, call, method)
			}
			w.g.add(w.f.acquires, lock)
			w.held[lock] = true
		case "Unlock", "RUnlock":
			w.release(lock)
		}
		return
	}
	for _, callee := range w.g.callees(w.f.info, call) {
		for lock := range callee.acquires {
			w.takes(lock, call, callee.name)
			w.g.add(w.f.acquires, lock)
		}
		for lock := range callee.releases {
			w.release(lock)
		}
		for lock := range callee.leaves {
			w.held[lock] = true
		}
	}
}

// takes notes what is held while a call, of callee, may take a lock.
func (w *walker) takes(lock string, call *ast.CallExpr, callee string) {
	for held := range w.held {
		e := edge{held, lock}
		if w.g.edges[e] == "" {
			pos := w.g.lines.Position(call.Pos())
			w.g.edges[e] = fmt.Sprintf("%s:%d in %s, by %s", filepath.Base(pos.Filename), pos.Line,
				w.f.name, callee)
		}
	}
}

func (w *walker) release(lock string) {
	if !w.held[lock] {
		w.g.add(w.f.releases, lock)
	}
	delete(w.held, lock)
}

// deferredCall is a call at the end of the body: what it releases is held until then.
func (w *walker) deferredCall(call *ast.CallExpr) {
	if lock, method := lockCall(w.f.info, call); lock != "" {
		if strings.HasSuffix(method, "Unlock") {
			w.deferred[lock] = true
		}
		return
	}
	held := maps.Clone(w.held)
	w.expressions(call)
	for lock := range held {
		if !w.held[lock] {
			w.deferred[lock] = true
		}
	}
	w.held = held
}

// exit notes what is held where the body ends.
func (w *walker) exit() {
	for lock := range w.held {
		if !w.deferred[lock] {
			w.g.add(w.f.leaves, lock)
		}
	}
}
