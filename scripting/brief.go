package scripting

import (
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// A script is brief if its text bounds how long it takes, beside what it calls: it defines no
// functions, its loops go over KEYS or ARGV or to a small number, and it calls what it calls by
// name, commands with their name as text. The usual scripts are: compare and delete, count and
// limit. Whoever runs one need not be ready to interrupt it.

// briefCalls are the functions that a brief script may call: those whose time is bounded by the
// size of their arguments, and that make nothing much larger.
var briefCalls = set(concatName + ` tonumber tostring type unpack error assert select
	redis.error_reply redis.status_reply redis.log redis.sha1hex redis.setresp redis.set_repl redis.replicate_commands
	string.sub string.len string.lower string.upper string.byte string.char string.reverse
	table.insert table.concat table.remove table.getn
	math.abs math.ceil math.floor math.max math.min math.fmod math.modf math.sqrt math.pow math.log math.exp math.random math.randomseed
	cjson.encode cjson.decode cmsgpack.pack cmsgpack.unpack struct.pack struct.unpack struct.size
	bit.tobit bit.tohex bit.bnot bit.band bit.bor bit.bxor bit.lshift bit.rshift bit.arshift bit.rol bit.ror bit.bswap`)

var (
	briefMethods   = set(`sub len lower upper byte reverse`)
	briefConstants = set(`math.pi math.huge cjson.null redis.LOG_DEBUG redis.LOG_VERBOSE redis.LOG_NOTICE redis.LOG_WARNING redis.REPL_ALL redis.REPL_NONE redis.REPL_AOF redis.REPL_SLAVE redis.REPL_REPLICA`)
	// briefNames are global names that stand for functions or hold some, and those that loops
	// rely on: none may be used as a value.
	briefNames = set(`_G assert bit cjson cmsgpack collectgarbage coroutine error gcinfo getmetatable ipairs load loadstring
		math next os pairs pcall rawequal rawget rawset redis select setmetatable string struct table tonumber tostring
		type unpack xpcall KEYS ARGV`)
)

// briefLoop is how far a loop may count.
const briefLoop = 100

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(words) {
		m[word] = true
	}
	return m
}

// briefness looks through a program.
type briefness struct {
	not      bool     // it is not brief
	commands []string // that it calls, in lower case
	loops    int      // around the present place
}

// brief says whether a program that went through rewrite is brief, and which commands it calls.
func brief(program []ast.Stmt) (commands []string, ok bool) {
	b := &briefness{}
	b.block(program)
	return b.commands, !b.not
}

func (b *briefness) block(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		if b.not {
			return
		}
		b.stmt(stmt)
	}
}

func (b *briefness) stmt(stmt ast.Stmt) {
	switch s := stmt.(type) {
	case *ast.LocalAssignStmt:
		b.names(s.Names)
		b.exprs(s.Exprs)
	case *ast.AssignStmt:
		b.exprs(s.Lhs)
		b.exprs(s.Rhs)
		b.not = b.not || slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool {
			field, ok := e.(*ast.AttrGetExpr)
			return ok && isArgs(field.Object)
		})
	case *ast.FuncCallStmt:
		b.expr(s.Expr)
	case *ast.DoBlockStmt:
		b.block(s.Stmts)
	case *ast.IfStmt:
		b.expr(s.Condition)
		b.block(s.Then)
		b.block(s.Else)
	case *ast.ReturnStmt:
		b.exprs(s.Exprs)
	case *ast.BreakStmt:
	case *ast.NumberForStmt:
		b.names([]string{s.Name})
		b.loop(countsToLittle(s), s.Stmts)
	case *ast.GenericForStmt:
		b.names(s.Names)
		call, ok := s.Exprs[0].(*ast.FuncCallExpr)
		ok = ok && len(s.Exprs) == 1 && call.Func != nil && dotted(call.Func) == "ipairs" && len(call.Args) == 1 && isArgs(call.Args[0])
		b.loop(ok, s.Stmts)
	default:
		b.not = true
	}
}

// loop looks at the body of a loop, which may not stand in another.
func (b *briefness) loop(bounded bool, body []ast.Stmt) {
	b.not = b.not || !bounded || b.loops > 0
	b.loops++
	b.block(body)
	b.loops--
}

// countsToLittle says whether a loop goes from a number to #KEYS, #ARGV or a small number.
func countsToLittle(s *ast.NumberForStmt) bool {
	from, okFrom := literal(s.Init)
	step, okStep := 1.0, true
	if s.Step != nil {
		step, okStep = literal(s.Step)
	}
	if !okFrom || !okStep || from < 0 || step < 1 {
		return false
	}
	if length, ok := s.Limit.(*ast.UnaryLenOpExpr); ok {
		return isArgs(length.Expr)
	}
	to, ok := literal(s.Limit)
	return ok && to <= briefLoop
}

func literal(e ast.Expr) (float64, bool) {
	n, ok := e.(*ast.NumberExpr)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	return f, err == nil
}

// names are those of new local variables: none may hide what is looked at by name.
func (b *briefness) names(names []string) {
	b.not = b.not || slices.ContainsFunc(names, func(name string) bool { return briefNames[name] })
}

func isArgs(e ast.Expr) bool {
	name, ok := e.(*ast.IdentExpr)
	return ok && (name.Value == "KEYS" || name.Value == "ARGV")
}

// dotted is a name, or a field of a name; "" for anything else.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return e.Value
	case *ast.AttrGetExpr:
		of, okOf := e.Object.(*ast.IdentExpr)
		field, ok := e.Key.(*ast.StringExpr)
		if ok && okOf {
			return of.Value + "." + field.Value
		}
	}
	return ""
}

func (b *briefness) exprs(exprs []ast.Expr) {
	for _, e := range exprs {
		b.expr(e)
	}
}

func (b *briefness) expr(expr ast.Expr) {
	switch e := expr.(type) {
	case *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr, *ast.NumberExpr, *ast.StringExpr:
	case *ast.IdentExpr:
		b.not = b.not || briefNames[e.Value]
	case *ast.AttrGetExpr:
		if !briefConstants[dotted(e)] {
			b.of(e.Object)
			b.expr(e.Key)
		}
	case *ast.UnaryLenOpExpr:
		b.of(e.Expr)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			if field.Key != nil {
				b.expr(field.Key)
			}
			b.expr(field.Value)
		}
	case *ast.FuncCallExpr:
		b.call(e)
	case *ast.LogicalOpExpr:
		b.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.RelationalOpExpr:
		b.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.ArithmeticOpExpr:
		b.exprs([]ast.Expr{e.Lhs, e.Rhs})
	case *ast.UnaryMinusOpExpr:
		b.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		b.expr(e.Expr)
	default:
		b.not = true
	}
}

// of looks at what is indexed or measured, which KEYS and ARGV may be.
func (b *briefness) of(e ast.Expr) {
	if !isArgs(e) {
		b.expr(e)
	}
}

func (b *briefness) call(e *ast.FuncCallExpr) {
	args := e.Args
	switch {
	case e.Receiver != nil:
		b.not = b.not || !briefMethods[e.Method]
		b.expr(e.Receiver)
	case dotted(e.Func) == "redis.call", dotted(e.Func) == "redis.pcall":
		if len(args) == 0 {
			b.not = true
			return
		}
		name, ok := args[0].(*ast.StringExpr)
		if !ok {
			b.not = true
			return
		}
		b.commands = append(b.commands, strings.ToLower(name.Value))
		args = args[1:]
	case dotted(e.Func) == "unpack" && len(args) == 1:
		b.of(args[0])
		return
	default:
		b.not = b.not || !briefCalls[dotted(e.Func)]
	}
	b.exprs(args)
}
