package lua

// Errors name the wrong value as the program does: "global 'x'", "local 'y'", "field 'z'". The name
// comes from the compiled function: from the instruction that put the value into its register.

// typeError raises the error for a value of a type that an operation does not support.
func (L *State) typeError(v Value, operation string) {
	L.typeErrorNamed(v, operation, L.nameOf(v))
}

// typeErrorAt is typeError for the value in a slot of the stack, which is called or concatenated.
func (L *State) typeErrorAt(co *Coroutine, at int, operation string) {
	name := ""
	if f := co.frame(); f.fn != nil && f.fn.proto != nil && at >= f.base {
		name = describe(f.fn, f.pc-1, at-f.base)
	}
	L.typeErrorNamed(co.stack[at], operation, name)
}

func (L *State) typeErrorNamed(v Value, operation, name string) {
	if name != "" {
		L.fault("attempt to %s %s (a %s value)", operation, name, v.Kind())
	}
	L.fault("attempt to %s a %s value", operation, v.Kind())
}

// nameOf returns the name of an operand of the instruction that runs; empty if it has none.
func (L *State) nameOf(v Value) string {
	co := L.running
	f := co.frame()
	if f.fn == nil || f.fn.proto == nil {
		return ""
	}
	pc := f.pc - 1
	if i := f.fn.proto.code[pc]; i.op() >= opAddKR && i.op() <= opPowKR &&
		v == f.fn.proto.constants[i.c()] {
		return ""
	}
	for _, register := range operands(f.fn.proto.code[pc]) {
		if co.stack[f.base+register] == v {
			return describe(f.fn, pc, register)
		}
	}
	return ""
}

// operands returns the registers that an instruction reads and that may have the wrong type.
func operands(i instruction) []int {
	switch op := i.op(); {
	case op >= opAdd && op <= opPow:
		return []int{i.b(), i.c()}
	case op >= opAddRK && op <= opLen, op == opSelf, op == opGetField, op == opGetConst,
		op == opGetTable:
		return []int{i.b()}
	case op == opSetField, op == opSetTable:
		return []int{i.a()}
	}
	return nil
}

// describe returns the kind and name of a register's value before instruction pc; empty if unknown.
func describe(fn *Function, pc, register int) string {
	kind, name := source(fn.proto, pc, register)
	if kind == "" {
		return ""
	}
	return kind + " '" + name + "'"
}

// source finds where a register's value comes from: the kind of variable, and its name.
func source(p *proto, pc, register int) (kind, name string) {
	if local := p.localName(register, pc); local != "" {
		return "local", local
	}
	at := p.lastWrite(pc, register)
	if at < 0 {
		return "", ""
	}
	switch i := p.code[at]; i.op() {
	case opGetGlobal:
		return "global", p.constantName(i.c())
	case opMove:
		if i.b() < i.a() {
			return source(p, at, i.b())
		}
	case opGetField, opGetConst:
		return "field", p.constantName(i.c())
	case opGetTable:
		return "field", "?"
	case opGetUpval:
		return "upvalue", p.upvalues[i.b()].name.s
	case opSelf:
		return "method", p.constantName(i.c())
	}
	return "", ""
}

func (p *proto) constantName(k int) string {
	if s, ok := p.constants[k].AsString(); ok {
		return s
	}
	return "?"
}

// localName returns the name of the local variable that is in a register at an instruction.
func (p *proto) localName(register, pc int) string {
	for i := range p.locals {
		v := &p.locals[i]
		if int(v.from) > pc {
			break
		}
		if pc < int(v.to) {
			if register == 0 {
				return v.name.s
			}
			register--
		}
	}
	return ""
}

// lastWrite returns the last instruction before pc that writes a register and that no jump skips;
// -1 if there is none.
func (p *proto) lastWrite(pc, register int) int {
	last := -1
	for at := 0; at < pc; at++ {
		i := p.code[at]
		a := i.a()
		writes := false
		switch op := i.op(); op {
		case opLoadNil:
			writes = a <= register && register <= i.b()
		case opCall, opTailCall:
			writes = register >= a
		case opForCall:
			writes = register >= a+2
		case opSelf:
			writes = register == a || register == a+1
		case opJump, opForPrep:
			writes = op == opForPrep && register == a
			// A jump to pc or before it skips the writes in between.
			if to := at + 1 + i.jump(); to > at && to <= pc {
				if writes {
					last = at
				}
				at = to - 1
				continue
			}
		case opSetUpval, opSetGlobal, opSetTable, opSetField, opSetList, opReturn, opClose,
			opEq, opEqRK, opLt, opLtRK, opLtKR, opLe, opLeRK, opLeKR, opForEach:
		default:
			// A test counts too: after one, C's Lua does not say where the value is from.
			writes = register == a
		}
		if writes {
			last = at
		}
	}
	return last
}

// callerName returns the name by which the running builtin was called, and what kind of name it is.
func (L *State) callerName() (name, what string) {
	frames := L.running.frames
	if len(frames) < 2 {
		return "", ""
	}
	top := &frames[len(frames)-1]
	f := &frames[len(frames)-2]
	if top.entry || f.fn == nil || f.fn.proto == nil {
		return "", ""
	}
	switch i := f.fn.proto.code[f.pc-1]; i.op() {
	case opCall, opTailCall, opForCall:
		what, name = source(f.fn.proto, f.pc-1, i.a())
		return name, what
	}
	return "", ""
}

func (L *State) compareError(a, b Value) {
	x, y := a.Kind().String(), b.Kind().String()
	if x[2] == y[2] { // as C's Lua: a string and a thread count as the same
		L.fault("attempt to compare two %s values", x)
	}
	L.fault("attempt to compare %s with %s", x, y)
}
