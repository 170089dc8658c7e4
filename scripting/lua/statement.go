package lua

func (p *parser) chunk() {
	p.down()
	for last := false; !last && !p.blockEnds(); {
		last = p.statement()
		p.accept(';')
		p.f.free = len(p.f.active)
	}
	p.up()
}

func (p *parser) blockEnds() bool {
	switch p.now.kind {
	case tkElse, tkElseif, tkEnd, tkEOF, tkUntil:
		return true
	}
	return false
}

// statement compiles a statement. It returns true if the statement must be the last of its block.
func (p *parser) statement() (last bool) {
	line := p.line
	switch p.now.kind {
	case tkIf:
		p.ifStatement(line)
	case tkWhile:
		p.whileStatement(line)
	case tkDo:
		p.next()
		p.scope()
		p.match(tkEnd, tkDo, line)
	case tkFor:
		p.forStatement(line)
	case tkRepeat:
		p.repeatStatement(line)
	case tkFunction:
		p.functionStatement(line)
	case tkLocal:
		p.next()
		if p.accept(tkFunction) {
			p.localFunction()
		} else {
			p.localStatement()
		}
	case tkReturn:
		p.returnStatement()
		return true
	case tkBreak:
		p.next()
		p.breakStatement()
		return true
	default:
		p.expressionStatement()
	}
	return false
}

// condition compiles an expression and returns the list of jumps to be taken if it is false.
func (p *parser) condition() jumps {
	var e expr
	p.expr(&e)
	if e.kind == exNil {
		e.kind = exFalse
	}
	p.f.goIf(&e, true)
	return e.whenFalse
}

func (p *parser) ifStatement(line int) {
	f := p.f
	out := noJumps
	next := p.thenBlock()
	for p.now.kind == tkElseif {
		out = f.joined(out, f.jump())
		f.patchHere(next)
		next = p.thenBlock()
	}
	if p.now.kind == tkElse {
		out = f.joined(out, f.jump())
		f.patchHere(next)
		p.next()
		p.scope()
	} else {
		out = f.joined(out, next)
	}
	f.patchHere(out)
	p.match(tkEnd, tkIf, line)
}

// thenBlock compiles a condition and its block. It returns the list of jumps to be taken if the
// condition is false.
func (p *parser) thenBlock() jumps {
	p.next()
	next := p.condition()
	p.want(tkThen)
	p.scope()
	return next
}

func (p *parser) whileStatement(line int) {
	f := p.f
	p.next()
	start := f.label()
	out := p.condition()
	var b block
	p.enter(&b, true)
	p.want(tkDo)
	p.scope()
	f.patch(f.jump(), start)
	p.match(tkEnd, tkWhile, line)
	p.leave()
	f.patchHere(out)
}

func (p *parser) repeatStatement(line int) {
	f := p.f
	start := f.label()
	var loop, scope block
	p.enter(&loop, true)
	p.enter(&scope, false)
	p.next()
	p.chunk()
	p.match(tkUntil, tkRepeat, line)
	again := p.condition()
	if !scope.captured {
		p.leave()
		f.patch(again, start)
	} else {
		p.breakStatement()
		f.patchHere(again)
		p.leave()
		f.patch(f.jump(), start)
	}
	p.leave()
}

func (p *parser) forStatement(line int) {
	var b block
	p.enter(&b, true)
	p.next()
	name := p.nameHere()
	switch p.now.kind {
	case '=':
		p.forNumber(name, line)
	case ',', tkIn:
		p.forEach(name)
	default:
		p.failHere("'=' or 'in' expected")
	}
	p.match(tkEnd, tkFor, line)
	p.leave()
}

func (p *parser) forNumber(name *String, line int) {
	f := p.f
	base := f.free
	p.hidden("(for index)", 0)
	p.hidden("(for limit)", 1)
	p.hidden("(for step)", 2)
	p.declare(name, 3)
	p.want('=')
	p.oneValue()
	p.want(',')
	p.oneValue()
	if p.accept(',') {
		p.oneValue()
	} else {
		f.emit(opLoadK, f.free, 0, f.numberConstant(1))
		f.reserve(1)
	}
	p.forBody(base, line, 1, true)
}

// hidden declares a variable of a loop that no program can name. i is its number in the
// declaration.
func (p *parser) hidden(name string, i int) { p.declare(p.internString(name), i) }

func (p *parser) oneValue() {
	var e expr
	p.expr(&e)
	p.f.toNextRegister(&e)
}

func (p *parser) forEach(name *String) {
	f := p.f
	base := f.free
	p.hidden("(for generator)", 0)
	p.hidden("(for state)", 1)
	p.hidden("(for control)", 2)
	p.declare(name, 3)
	n := 4
	for p.accept(',') {
		p.declare(p.nameHere(), n)
		n++
	}
	p.want(tkIn)
	line := p.line
	var e expr
	p.adjust(3, p.list(&e), &e)
	f.checkStack(3)
	p.forBody(base, line, n-3, false)
}

func (p *parser) forBody(base, line, variables int, numeric bool) {
	f := p.f
	p.begin(3)
	p.want(tkDo)
	var start jumps
	if numeric {
		start = alone(f.emit(opForPrep, base, 0, noJump))
	} else {
		start = f.jump()
	}
	var b block
	p.enter(&b, false)
	f.declared = append(f.declared[:0], f.declared[3:3+variables]...)
	p.begin(variables)
	f.reserve(variables)
	p.chunk()
	p.leave()
	f.patchHere(start)
	var end int
	if numeric {
		end = f.emit(opForLoop, base, 0, noJump)
		f.fixLine(line)
	} else {
		f.emit(opForCall, base, 0, variables)
		f.fixLine(line)
		end = f.emit(opForEach, base, 0, noJump)
		f.fixLine(line)
	}
	f.aim(end, start.first+1)
}

func (p *parser) functionStatement(line int) {
	var name, body expr
	p.next()
	p.variable(&name)
	method := false
	for p.now.kind == '.' {
		p.field(&name)
	}
	if p.now.kind == ':' {
		method = true
		p.field(&name)
	}
	p.body(&body, method, line)
	p.f.store(&name, &body)
	p.f.fixLine(line)
}

func (p *parser) localFunction() {
	f := p.f
	p.declare(p.nameHere(), 0)
	var variable, body expr
	variable.set(exLocal, f.free)
	f.reserve(1)
	p.begin(1)
	p.body(&body, false, p.line)
	f.store(&variable, &body)
	f.locals[f.active[len(f.active)-1]].from = int32(len(f.code))
}

func (p *parser) localStatement() {
	n := 0
	for {
		p.declare(p.nameHere(), n)
		n++
		if !p.accept(',') {
			break
		}
	}
	names := append([]int(nil), p.f.declared[:n]...)
	var e expr
	values := 0
	if p.accept('=') {
		values = p.list(&e)
	} else {
		e.set(exVoid, 0)
	}
	p.adjust(n, values, &e)
	p.f.declared = append(p.f.declared[:0], names...)
	p.begin(n)
}

func (p *parser) returnStatement() {
	f := p.f
	p.next()
	first, n := 0, 0
	if !p.blockEnds() && p.now.kind != ';' {
		var e expr
		n = p.list(&e)
		switch {
		case e.manyValues():
			f.setResults(&e, all)
			if e.kind == exCall && n == 1 {
				call := f.code[e.info]
				f.code[e.info] = encode(opTailCall, call.a(), call.b(), 0)
			}
			first, n = len(f.active), all
		case n == 1:
			first = f.toAnyRegister(&e)
		default:
			f.toNextRegister(&e)
			first = len(f.active)
		}
	}
	f.emit(opReturn, first, n+1, 0)
}

func (p *parser) breakStatement() {
	f := p.f
	b, captured := f.block, false
	for b != nil && !b.loop {
		captured = captured || b.captured
		b = b.outer
	}
	if b == nil {
		p.failHere("no loop to break")
	}
	if captured {
		f.emit(opClose, b.active, 0, 0)
	}
	b.breaks = f.joined(b.breaks, f.jump())
}

// target is one of the variables that a statement assigns to.
type target struct {
	before *target
	e      expr
}

func (p *parser) expressionStatement() {
	var t target
	p.primary(&t.e)
	if t.e.kind == exCall {
		p.f.setC(t.e.info, 1)
		return
	}
	p.assignment(&t, 1)
}

func (p *parser) assignment(t *target, n int) {
	if t.e.kind < exLocal || t.e.kind > exIndexed {
		p.failHere("syntax error")
	}
	var e expr
	if p.accept(',') {
		next := target{before: t}
		p.primary(&next.e)
		if next.e.kind == exLocal {
			p.keepOld(t, &next.e)
		}
		p.limit(p.f, n, maxLevels-p.levels, "variables in assignment")
		p.assignment(&next, n+1)
	} else {
		p.want('=')
		values := p.list(&e)
		if values == n {
			p.f.setOneResult(&e)
			p.f.store(&t.e, &e)
			return
		}
		p.adjust(n, values, &e)
		if values > n {
			p.f.free -= values - n
		}
	}
	e.set(exRegister, p.f.free-1)
	p.f.store(&t.e, &e)
}

// keepOld copies a local variable that an assignment writes, if earlier targets use it as table or
// key. Those targets then use the copy, which has the old value.
func (p *parser) keepOld(t *target, variable *expr) {
	f := p.f
	extra, conflict := f.free, false
	for ; t != nil; t = t.before {
		if t.e.kind != exIndexed {
			continue
		}
		if t.e.info == variable.info {
			t.e.info, conflict = extra, true
		}
		if t.e.key == variable.info {
			t.e.key, conflict = extra, true
		}
	}
	if conflict {
		f.emit(opMove, f.free, variable.info, 0)
		f.reserve(1)
	}
}

// adjust prepares n values of a list of expressions, the last of which is e. It adds nils if there
// are fewer values. The caller drops additional ones.
func (p *parser) adjust(n, values int, e *expr) {
	f := p.f
	extra := n - values
	if e.manyValues() {
		extra = max(extra+1, 0)
		f.setResults(e, extra)
		if extra > 1 {
			f.reserve(extra - 1)
		}
		return
	}
	if e.kind != exVoid {
		f.toNextRegister(e)
	}
	if extra > 0 {
		at := f.free
		f.reserve(extra)
		f.emitNil(at, extra)
	}
}
