package scripting

import (
	"fmt"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// concatName is the global function that ".." calls. No script can name it.
const concatName = "(concat)"

// maxDepth bounds how deep a program's text may be nested: the compiler calls itself.
const maxDepth = 4000

// rewriter changes a program so that it does what Lua would: ".." becomes a call of
// concatName with all operands of a chain, literals become decimal.
type rewriter struct {
	name  string // of the program, in errors
	depth int
	line  int // of the innermost expression or statement
}

// tooDeep is what rewriter panics with.
type tooDeep struct {
	name string
	line int
}

func (e tooDeep) Error() string {
	return fmt.Sprintf("%s:%d: chunk has too many syntax levels", e.name, e.line)
}

// rewrite changes the program in place.
func rewrite(program []ast.Stmt, name string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			deep, ok := p.(tooDeep)
			if !ok {
				panic(p)
			}
			err = deep
		}
	}()
	(&rewriter{name: name}).block(program)
	return nil
}

func (r *rewriter) enter(line int) {
	r.depth++
	if line > 0 {
		r.line = line
	}
	if r.depth > maxDepth {
		panic(tooDeep{r.name, r.line})
	}
}

func (r *rewriter) leave() { r.depth-- }

func (r *rewriter) block(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		r.stmt(stmt)
	}
}

func (r *rewriter) stmt(stmt ast.Stmt) {
	r.enter(stmt.Line())
	defer r.leave()
	switch s := stmt.(type) {
	case *ast.AssignStmt:
		r.exprs(s.Lhs)
		r.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		r.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.DoBlockStmt:
		r.block(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = r.expr(s.Condition)
		r.block(s.Stmts)
	case *ast.RepeatStmt:
		r.block(s.Stmts)
		s.Condition = r.expr(s.Condition)
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		r.block(s.Then)
		r.block(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit = r.expr(s.Init), r.expr(s.Limit)
		if s.Step != nil {
			s.Step = r.expr(s.Step)
		}
		r.block(s.Stmts)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		r.block(s.Stmts)
	case *ast.FuncDefStmt:
		if s.Name.Func != nil {
			s.Name.Func = r.expr(s.Name.Func)
		}
		if s.Name.Receiver != nil {
			s.Name.Receiver = r.expr(s.Name.Receiver)
		}
		r.block(s.Func.Stmts)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	}
}

func (r *rewriter) exprs(exprs []ast.Expr) {
	for i, e := range exprs {
		exprs[i] = r.expr(e)
	}
}

// expr gives what stands for an expression.
func (r *rewriter) expr(expr ast.Expr) ast.Expr {
	r.enter(expr.Line())
	defer r.leave()
	switch e := expr.(type) {
	case *ast.NumberExpr:
		if f, ok := parseNumber(e.Value); ok {
			e.Value = strconv.FormatFloat(f, 'g', -1, 64)
		}
	case *ast.AttrGetExpr:
		e.Object, e.Key = r.expr(e.Object), r.expr(e.Key)
	case *ast.TableExpr:
		for _, field := range e.Fields {
			if field.Key != nil {
				field.Key = r.expr(field.Key)
			}
			field.Value = r.expr(field.Value)
		}
	case *ast.FuncCallExpr:
		if e.Func != nil {
			e.Func = r.expr(e.Func)
		}
		if e.Receiver != nil {
			e.Receiver = r.expr(e.Receiver)
		}
		r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.FunctionExpr:
		r.block(e.Stmts)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	}
	return expr
}

// maxOperands is how many operands one call of concatName gets; longer chains nest. The
// compiler has some 200 registers for a function.
const maxOperands = 50

// concat makes a call of a chain of "..", which associates to the right.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	var operands []ast.Expr
	var rest ast.Expr = e
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		operands = append(operands, r.expr(next.Lhs))
		rest = next.Rhs
	}
	operands = append(operands, r.expr(rest))
	last := operands[len(operands)-1]
	for end := len(operands) - 1; end > 0; {
		start := max(0, end-maxOperands)
		last = concatCall(e, append(append([]ast.Expr{}, operands[start:end]...), last))
		end = start
	}
	return last
}

// concatCall is a call at e's place. Each operand counts once, also a call or "...": a call
// that is the last argument of another would give all that it returns.
func concatCall(e *ast.StringConcatOpExpr, operands []ast.Expr) ast.Expr {
	switch last := operands[len(operands)-1].(type) {
	case *ast.FuncCallExpr:
		last.AdjustRet = true
	case *ast.Comma3Expr:
		last.AdjustRet = true
	}
	name := &ast.IdentExpr{Value: concatName}
	call := &ast.FuncCallExpr{Func: name, Args: operands, AdjustRet: true}
	for _, node := range []ast.PositionHolder{name, call} {
		node.SetLine(e.Line())
		node.SetLastLine(e.LastLine())
	}
	return call
}
