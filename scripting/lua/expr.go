package lua

// operator is a binary operator: its priority towards the left and the right, and its instruction.
type operator struct {
	left, right int
	op          opcode
	compares    bool
	negated     bool // a comparison for when it is false: > is "not <=", with the sides changed
}

const unaryPriority = 8

// operators are indexed by token; tokens that are no operators have priority 0.
var operators = [tkEOF + 1]operator{
	'+': {6, 6, opAdd, false, false}, '-': {6, 6, opSub, false, false},
	'*': {7, 7, opMul, false, false}, '/': {7, 7, opDiv, false, false},
	'%': {7, 7, opMod, false, false},
	'^': {10, 9, opPow, false, false}, tkConcat: {5, 4, opConcat, false, false},
	tkEq: {3, 3, opEq, true, false}, tkNe: {3, 3, opEq, true, true},
	'<': {3, 3, opLt, true, false}, tkLe: {3, 3, opLe, true, false},
	'>': {3, 3, opLt, true, true}, tkGe: {3, 3, opLe, true, true},
	tkAnd: {2, 2, 0, false, false}, tkOr: {1, 1, 0, false, false},
}

func (p *parser) expr(e *expr) { p.subexpr(e, 0) }

// subexpr compiles an expression up to the first operator whose left priority is at most limit.
func (p *parser) subexpr(e *expr, limit int) {
	p.down()
	switch p.now.kind {
	case tkNot:
		p.next()
		p.subexpr(e, unaryPriority)
		p.f.not(e)
	case '-':
		p.next()
		p.subexpr(e, unaryPriority)
		p.f.unary(opUnm, e)
	case '#':
		p.next()
		p.subexpr(e, unaryPriority)
		p.f.unary(opLen, e)
	default:
		p.simple(e)
	}
	for {
		t := p.now.kind
		o := operators[t]
		if o.left <= limit {
			break
		}
		p.next()
		p.prepare(t, o, e)
		var right expr
		p.subexpr(&right, o.right)
		p.apply(t, o, e, &right)
	}
	p.up()
}

// prepare places the left operand where the operator needs it, before the right one is compiled.
func (p *parser) prepare(t token, o operator, e *expr) {
	switch {
	case t == tkAnd:
		p.f.goIf(e, true)
	case t == tkOr:
		p.f.goIf(e, false)
	case t == tkConcat:
		p.f.toNextRegister(e)
	case o.compares || !e.isNumeral():
		p.f.toOperand(e)
	}
}

func (p *parser) apply(t token, o operator, e, right *expr) {
	f := p.f
	switch {
	case t == tkAnd:
		f.load(right)
		right.whenFalse = f.joined(right.whenFalse, e.whenFalse)
		*e = *right
	case t == tkOr:
		f.load(right)
		right.whenTrue = f.joined(right.whenTrue, e.whenTrue)
		*e = *right
	case t == tkConcat:
		f.concat(e, right)
	case o.compares:
		f.compare(o.op, !o.negated, e, right)
	default:
		f.arithmetic(o.op, e, right)
	}
}

func (p *parser) simple(e *expr) {
	switch p.now.kind {
	case tkNumber:
		e.set(exNumber, 0)
		e.number = p.now.number
	case tkString:
		e.set(exConstant, p.f.stringConstant(p.now.text))
	case tkNil:
		e.set(exNil, 0)
	case tkTrue:
		e.set(exTrue, 0)
	case tkFalse:
		e.set(exFalse, 0)
	case tkDots:
		if !p.f.vararg {
			p.failHere("cannot use '...' outside a vararg function")
		}
		p.f.usesDots = true
		e.set(exVararg, p.f.emit(opVararg, 0, 1, 0))
	case '{':
		p.constructor(e)
		return
	case tkFunction:
		p.next()
		p.body(e, false, p.line)
		return
	default:
		p.primary(e)
		return
	}
	p.next()
}

// prefix compiles a variable or an expression in parentheses.
func (p *parser) prefix(e *expr) {
	switch p.now.kind {
	case '(':
		line := p.line
		p.next()
		p.expr(e)
		p.match(')', '(', line)
		p.f.load(e)
	case tkName:
		p.variable(e)
	default:
		p.failHere("unexpected symbol")
	}
}

// primary compiles a prefix and the fields and calls that follow it.
func (p *parser) primary(e *expr) {
	f := p.f
	p.prefix(e)
	for {
		switch p.now.kind {
		case '.':
			p.field(e)
		case '[':
			f.toAnyRegister(e)
			var key expr
			p.bracketed(&key)
			f.index(e, &key)
		case ':':
			p.next()
			name := f.stringConstant(p.nameHere())
			f.self(e, name)
			p.arguments(e)
		case '(', tkString, '{':
			f.toNextRegister(e)
			p.arguments(e)
		default:
			return
		}
	}
}

// field compiles ".name" or ":name".
func (p *parser) field(e *expr) {
	p.f.toAnyRegister(e)
	p.next()
	var key expr
	key.set(exConstant, p.f.stringConstant(p.nameHere()))
	p.f.index(e, &key)
}

func (p *parser) bracketed(key *expr) {
	p.next()
	p.expr(key)
	p.f.toValue(key)
	p.want(']')
}

// list compiles a list of expressions and returns their number. The last one is left in e.
func (p *parser) list(e *expr) (n int) {
	n = 1
	p.expr(e)
	for p.accept(',') {
		p.f.toNextRegister(e)
		p.expr(e)
		n++
	}
	return n
}

// arguments compiles a call of the function that is in register e.
func (p *parser) arguments(e *expr) {
	f := p.f
	line := p.line
	var args expr
	switch p.now.kind {
	case '(':
		if line != p.lastLine {
			p.failHere("ambiguous syntax (function call x new statement)")
		}
		p.next()
		if p.now.kind == ')' {
			args.set(exVoid, 0)
		} else {
			p.list(&args)
			if args.manyValues() {
				f.setResults(&args, all)
			}
		}
		p.match(')', '(', line)
	case '{':
		p.constructor(&args)
	case tkString:
		args.set(exConstant, f.stringConstant(p.now.text))
		p.next()
	default:
		p.failHere("function arguments expected")
	}
	base, n := e.info, all
	if !args.manyValues() {
		if args.kind != exVoid {
			f.toNextRegister(&args)
		}
		n = f.free - (base + 1)
	}
	e.set(exCall, f.emit(opCall, base, n+1, 2))
	f.fixLine(line)
	f.free = base + 1
}

// table is the state of a table constructor that is being compiled.
type table struct {
	at              int  // its register
	item            expr // the last element, which is not stored yet
	elements        int
	others, unsaved int
}

func (p *parser) constructor(e *expr) {
	f := p.f
	line := p.line
	pc := f.emit(opNewTable, 0, 0, 0)
	var t table
	e.set(exReloc, pc)
	t.item.set(exVoid, 0)
	f.toNextRegister(e)
	t.at = e.info
	p.want('{')
	for p.now.kind != '}' {
		p.saveItem(&t)
		switch {
		case p.now.kind == tkName && p.peek() == '=':
			var key expr
			registers := f.free
			key.set(exConstant, f.stringConstant(p.nameHere()))
			p.tableField(&t, &key, registers)
		case p.now.kind == '[':
			var key expr
			registers := f.free
			p.bracketed(&key)
			p.tableField(&t, &key, registers)
		default:
			p.expr(&t.item)
			t.elements++
			t.unsaved++
		}
		if !p.accept(',') && !p.accept(';') {
			break
		}
	}
	p.match('}', '{', line)
	p.saveLast(&t)
	f.setB(pc, floatByte(t.elements))
	f.setC(pc, floatByte(t.others))
}

// tableField compiles "= value" for a key.
func (p *parser) tableField(t *table, key *expr, registers int) {
	f := p.f
	t.others++
	p.want('=')
	at, constant := f.toOperand(key)
	if constant {
		at += keyConstant
	}
	var value expr
	p.expr(&value)
	f.storeField(t.at, at, &value)
	f.free = registers
}

// saveItem puts the last element into a register, and a full batch of elements into the table.
func (p *parser) saveItem(t *table) {
	if t.item.kind == exVoid {
		return
	}
	p.f.toNextRegister(&t.item)
	t.item.set(exVoid, 0)
	if t.unsaved == listBatch {
		p.f.setList(t.at, t.elements, t.unsaved)
		t.unsaved = 0
	}
}

func (p *parser) saveLast(t *table) {
	if t.unsaved == 0 {
		return
	}
	if t.item.manyValues() {
		p.f.setResults(&t.item, all)
		p.f.setList(t.at, t.elements, all)
		t.elements--
		return
	}
	if t.item.kind != exVoid {
		p.f.toNextRegister(&t.item)
	}
	p.f.setList(t.at, t.elements, t.unsaved)
}

// body compiles a function's parameters and block.
func (p *parser) body(e *expr, method bool, line int) {
	p.open(line)
	p.want('(')
	if method {
		p.declare(p.internString("self"), 0)
		p.begin(1)
	}
	p.parameters()
	p.want(')')
	p.chunk()
	last := p.line
	p.match(tkEnd, tkFunction, line)
	inner := p.close()
	inner.lastLine = int32(last)
	f := p.f
	f.protos = append(f.protos, inner)
	e.set(exReloc, f.emit(opClosure, 0, 0, len(f.protos)-1))
}

func (p *parser) parameters() {
	f := p.f
	n := 0
	if p.now.kind != ')' {
		for {
			if p.now.kind == tkName {
				p.declare(p.nameHere(), n)
				n++
			} else if p.accept(tkDots) {
				p.declare(p.internString("arg"), n)
				n++
				f.vararg, f.argTable = true, true
			} else {
				p.failHere("<name> or '...' expected")
			}
			if f.vararg || !p.accept(',') {
				break
			}
		}
	}
	p.begin(n)
	f.params = len(f.active)
	if f.argTable {
		f.params--
	}
	f.reserve(len(f.active))
}
