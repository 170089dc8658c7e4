package lua

import "keyp/scripting/cmath"

// exprKind says where an expression's value is while its code is generated.
type exprKind uint8

const (
	exVoid exprKind = iota // no value
	exNil
	exTrue
	exFalse
	exConstant // constant info
	exNumber   // number
	exLocal    // register info, a local variable's
	exUpvalue  // upvalue info
	exGlobal   // the global named by constant info
	exIndexed  // field key of register info
	exJump     // the condition of the jump at info
	exReloc    // the instruction at info puts it into a register yet to be chosen
	exRegister // register info, a temporary one
	exCall     // the call at info
	exVararg   // the opVararg at info
)

// expr is an expression whose code is being generated, with the jumps that leave it when it is true
// or false.
type expr struct {
	kind                exprKind
	info                int
	key                 int // exIndexed: a register, or keyConstant + a constant's number
	number              float64
	whenTrue, whenFalse jumps
}

// jumps is a list of jumps that will go to one place, linked through the jumps themselves.
type jumps struct{ first, last int }

var noJumps = jumps{noJump, noJump}

// alone is a list of the jump at a place.
func alone(at int) jumps { return jumps{at, at} }

const (
	noJump      = -1
	keyConstant = 1 << 30
	// maxJump is how far C's Lua jumps.
	maxJump = 1<<17 - 1
)

func (e *expr) set(kind exprKind, info int) {
	*e = expr{kind: kind, info: info, whenTrue: noJumps, whenFalse: noJumps}
}

func (e *expr) hasJumps() bool { return e.whenTrue != e.whenFalse }

func (e *expr) isNumeral() bool {
	return e.kind == exNumber && e.whenTrue == noJumps && e.whenFalse == noJumps
}

func (e *expr) manyValues() bool { return e.kind == exCall || e.kind == exVararg }

// emit adds an instruction, at the line of the last token.
func (f *function) emit(op opcode, a, b, c int) int {
	f.landHere()
	f.l.use(instructionSize)
	f.code = append(f.code, encode(op, a, b, c))
	f.lines = append(f.lines, int32(f.l.lastLine))
	return len(f.code) - 1
}

// landHere makes the pending jumps go to the next instruction.
func (f *function) landHere() {
	f.patchTests(f.pending, len(f.code), noRegister, len(f.code))
	f.pending = noJumps
}

func (f *function) setA(pc, a int) { f.code[pc] = f.code[pc]&^(0xff<<8) | instruction(uint8(a))<<8 }
func (f *function) setB(pc, b int) {
	f.code[pc] = f.code[pc]&^(0xffff<<16) | instruction(uint16(b))<<16
}
func (f *function) setC(pc, c int) {
	f.code[pc] = f.code[pc]&(1<<32-1) | instruction(uint32(int32(c)))<<32
}

func (f *function) emitNil(from, n int) {
	if len(f.code) > f.lastTarget {
		if len(f.code) == 0 {
			if from >= len(f.active) {
				return // the registers of a new call are nil
			}
		} else if last := f.code[len(f.code)-1]; last.op() == opLoadNil && last.a() <= from && from <= last.b()+1 {
			if from+n-1 > last.b() {
				f.setB(len(f.code)-1, from+n-1)
			}
			return
		}
	}
	f.emit(opLoadNil, from, from+n-1, 0)
}

// jump adds a jump whose target is not known yet. Those that would go to it go on to that target.
func (f *function) jump() jumps {
	pending := f.pending
	f.pending = noJumps
	at := f.emit(opJump, 0, 0, noJump)
	return f.joined(alone(at), pending)
}

// jumpBehind adds a jump behind the test that was just added. It is alone in its list: what jumps
// here from before goes to the test.
func (f *function) jumpBehind() int { return f.jump().first }

// joined returns a list with the jumps of both lists.
func (f *function) joined(list, more jumps) jumps {
	switch {
	case more == noJumps:
		return list
	case list == noJumps:
		return more
	}
	f.aim(list.last, more.first)
	return jumps{list.first, more.last}
}

// label marks the next instruction as one that is jumped to.
func (f *function) label() int {
	f.lastTarget = len(f.code)
	return len(f.code)
}

// follow returns the jump after the one at pc in its list.
func (f *function) follow(pc int) int {
	f.l.tick()
	offset := f.code[pc].jump()
	if offset == noJump {
		return noJump
	}
	return pc + 1 + offset
}

// aim makes the jump at pc go to target.
func (f *function) aim(pc, target int) {
	offset := target - (pc + 1)
	if offset > maxJump || offset < -maxJump {
		f.l.failHere("control structure too long")
	}
	f.setC(pc, offset)
}

// control returns the place of the instruction on which the jump at pc depends.
func (f *function) control(pc int) int {
	if pc >= 1 {
		switch f.code[pc-1].op() {
		case opEq, opEqRK, opLt, opLtRK, opLtKR, opLe, opLeRK, opLeKR, opTest, opTestSet:
			return pc - 1
		}
	}
	return pc
}

const noRegister = -1

// patchTest makes the test before a jump leave its value in a register, or leave none; it returns
// false if the test has no value.
func (f *function) patchTest(pc, register int) bool {
	at := f.control(pc)
	i := f.code[at]
	if i.op() != opTestSet {
		return false
	}
	if register != noRegister && register != i.b() {
		f.setA(at, register)
	} else {
		f.code[at] = encode(opTest, i.b(), 0, i.c())
	}
	return true
}

// needsValue returns true if a jump of the list leaves no value.
func (f *function) needsValue(list jumps) bool {
	for at := list.first; at != noJump; at = f.follow(at) {
		if f.code[f.control(at)].op() != opTestSet {
			return true
		}
	}
	return false
}

func (f *function) dropValues(list jumps) {
	for at := list.first; at != noJump; at = f.follow(at) {
		f.patchTest(at, noRegister)
	}
}

// patchTests makes the jumps of a list that leave a value in register go to valued, the others to
// target.
func (f *function) patchTests(list jumps, valued, register, target int) {
	for at := list.first; at != noJump; {
		next := f.follow(at)
		if f.patchTest(at, register) {
			f.aim(at, valued)
		} else {
			f.aim(at, target)
		}
		at = next
	}
}

// patch makes the jumps of a list go to target.
func (f *function) patch(list jumps, target int) {
	if target == len(f.code) {
		f.patchHere(list)
		return
	}
	f.patchTests(list, target, noRegister, target)
}

// patchHere makes the jumps of a list go to the next instruction.
func (f *function) patchHere(list jumps) {
	f.label()
	f.pending = f.joined(f.pending, list)
}

// Registers

func (f *function) checkStack(n int) {
	if size := f.free + n; size > f.maxStack {
		if size >= maxRegister {
			f.l.failHere("function or expression too complex")
		}
		f.maxStack = size
	}
}

func (f *function) reserve(n int) {
	f.checkStack(n)
	f.free += n
}

func (f *function) freeRegister(r int) {
	if r < constantB && r >= len(f.active) {
		f.free--
	}
}

func (f *function) freeExpr(e *expr) {
	if e.kind == exRegister {
		f.freeRegister(e.info)
	}
}

// Constants

func (f *function) addConstant(v Value) int {
	f.l.use(valueSize)
	f.constants = append(f.constants, v)
	return len(f.constants) - 1
}

func (f *function) stringConstant(s *String) int {
	if k, ok := f.stringKeys[s]; ok {
		return k
	}
	if f.stringKeys == nil {
		f.stringKeys = map[*String]int{}
	}
	k := f.addConstant(Value{ref: &s.header})
	f.stringKeys[s] = k
	return k
}

// numberConstant treats 0 and -0 as one constant, as C's Lua does.
func (f *function) numberConstant(n float64) int {
	if k, ok := f.numberKeys[n]; ok {
		return k
	}
	if f.numberKeys == nil {
		f.numberKeys = map[float64]int{}
	}
	k := f.addConstant(Number(n))
	f.numberKeys[n] = k
	return k
}

func (f *function) otherConstant(v Value) int {
	for i, at := range f.otherKeys {
		if at >= 0 && f.constants[at] == v {
			return f.otherKeys[i]
		}
	}
	k := f.addConstant(v)
	f.otherKeys = append(f.otherKeys, k)
	return k
}

// Expressions

// setResults makes a call or "..." return so many values; all: as many as there are.
func (f *function) setResults(e *expr, n int) {
	switch e.kind {
	case exCall:
		f.setC(e.info, n+1)
	case exVararg:
		f.setB(e.info, n+1)
		f.setA(e.info, f.free)
		f.reserve(1)
	}
}

func (f *function) setOneResult(e *expr) {
	switch e.kind {
	case exCall:
		e.kind, e.info = exRegister, f.code[e.info].a()
	case exVararg:
		f.setB(e.info, 2)
		e.kind = exReloc
	}
}

// load turns a variable into a value.
func (f *function) load(e *expr) {
	switch e.kind {
	case exLocal:
		e.kind = exRegister
	case exUpvalue:
		e.kind, e.info = exReloc, f.emit(opGetUpval, 0, e.info, 0)
	case exGlobal:
		e.kind, e.info = exReloc, f.emit(opGetGlobal, 0, 0, e.info)
	case exIndexed:
		table, key := e.info, e.key
		if key >= keyConstant {
			key -= keyConstant
			f.freeRegister(table)
			op := opGetConst
			if f.constants[key].isString() {
				op = opGetField
			}
			e.kind, e.info = exReloc, f.emit(op, 0, table, key)
			return
		}
		f.freeRegister(key)
		f.freeRegister(table)
		e.kind, e.info = exReloc, f.emit(opGetTable, 0, table, key)
	case exCall, exVararg:
		f.setOneResult(e)
	}
}

// discharge puts a value into a register; the value's jumps are not its work.
func (f *function) discharge(e *expr, register int) {
	f.load(e)
	switch e.kind {
	case exNil:
		f.emitNil(register, 1)
	case exFalse:
		f.emit(opLoadBool, register, 0, 0)
	case exTrue:
		f.emit(opLoadBool, register, 1, 0)
	case exConstant:
		f.emit(opLoadK, register, 0, e.info)
	case exNumber:
		f.emit(opLoadK, register, 0, f.numberConstant(e.number))
	case exReloc:
		f.setA(e.info, register)
	case exRegister:
		if register != e.info {
			f.emit(opMove, register, e.info, 0)
		}
	default:
		return // nothing, or a jump
	}
	e.kind, e.info = exRegister, register
}

func (f *function) dischargeAny(e *expr) {
	if e.kind != exRegister {
		f.reserve(1)
		f.discharge(e, f.free-1)
	}
}

// toRegister puts a value into a register, with the outcomes of its jumps.
func (f *function) toRegister(e *expr, register int) {
	f.discharge(e, register)
	if e.kind == exJump {
		e.whenTrue = f.joined(e.whenTrue, alone(e.info))
	}
	if e.hasJumps() {
		loadFalse, loadTrue := noJump, noJump
		if f.needsValue(e.whenTrue) || f.needsValue(e.whenFalse) {
			past := noJumps
			if e.kind != exJump {
				past = f.jump()
			}
			f.label()
			loadFalse = f.emit(opLoadBool, register, 0, 1)
			f.label()
			loadTrue = f.emit(opLoadBool, register, 1, 0)
			f.patchHere(past)
		}
		end := f.label()
		f.patchTests(e.whenFalse, end, register, loadFalse)
		f.patchTests(e.whenTrue, end, register, loadTrue)
	}
	e.set(exRegister, register)
}

func (f *function) toNextRegister(e *expr) {
	f.load(e)
	f.freeExpr(e)
	f.reserve(1)
	f.toRegister(e, f.free-1)
}

// toAnyRegister returns the register of a value.
func (f *function) toAnyRegister(e *expr) int {
	f.load(e)
	if e.kind == exRegister {
		if !e.hasJumps() {
			return e.info
		}
		if e.info >= len(f.active) {
			f.toRegister(e, e.info)
			return e.info
		}
	}
	f.toNextRegister(e)
	return e.info
}

// toValue makes a value independent of variables; a value with jumps goes into a register.
func (f *function) toValue(e *expr) {
	if e.hasJumps() {
		f.toAnyRegister(e)
	} else {
		f.load(e)
	}
}

// toOperand makes a value a constant or puts it into a register: constant says which.
func (f *function) toOperand(e *expr) (at int, constant bool) {
	f.toValue(e)
	if !e.hasJumps() {
		switch e.kind {
		case exNumber:
			e.kind, e.info = exConstant, f.numberConstant(e.number)
		case exTrue:
			e.kind, e.info = exConstant, f.otherConstant(True)
		case exFalse:
			e.kind, e.info = exConstant, f.otherConstant(False)
		case exNil:
			e.kind, e.info = exConstant, f.otherConstant(Nil)
		}
		if e.kind == exConstant {
			return e.info, true
		}
	}
	return f.toAnyRegister(e), false
}

// store assigns a value to a variable.
func (f *function) store(variable, e *expr) {
	switch variable.kind {
	case exLocal:
		f.freeExpr(e)
		f.toRegister(e, variable.info)
		return
	case exUpvalue:
		f.emit(opSetUpval, f.toAnyRegister(e), variable.info, 0)
	case exGlobal:
		f.emit(opSetGlobal, f.toAnyRegister(e), 0, variable.info)
	case exIndexed:
		f.storeField(variable.info, variable.key, e)
	}
	f.freeExpr(e)
}

// storeField assigns a value to the field key, as in expr, of a register.
func (f *function) storeField(table, key int, e *expr) {
	value, constant := f.toOperand(e)
	if key >= keyConstant && f.constants[key-keyConstant].isString() {
		if constant && value+constantB > maxB {
			value, constant = f.toAnyRegister(e), false
		}
		if constant {
			value += constantB
		}
		f.emit(opSetField, table, value, key-keyConstant)
		return
	}
	if constant {
		value |= constantC
	}
	if key >= keyConstant {
		if key = key - keyConstant + constantB; key > maxB {
			k := f.free
			f.reserve(1)
			f.emit(opLoadK, k, 0, key-constantB)
			f.emit(opSetTable, table, k, value)
			f.free--
			return
		}
	}
	f.emit(opSetTable, table, key, value)
}

// self prepares the call of a method: function and object go into two registers.
func (f *function) self(e *expr, name int) {
	f.toAnyRegister(e)
	f.freeExpr(e)
	at := f.free
	f.reserve(2)
	f.emit(opSelf, at, e.info, name)
	e.set(exRegister, at)
}

// index makes e the field key of e, which is in a register.
func (f *function) index(e, key *expr) {
	at, constant := f.toOperand(key)
	if constant {
		at += keyConstant
	}
	e.key = at
	e.kind = exIndexed
}

// Conditions

// negate inverts the test before a jump.
func (f *function) negate(e *expr) {
	at := f.control(e.info)
	f.setA(at, 1-f.code[at].a())
}

// jumpIf adds a jump for when a value is as true as cond.
func (f *function) jumpIf(e *expr, cond bool) int {
	c := 0
	if cond {
		c = 1
	}
	if e.kind == exReloc {
		if i := f.code[e.info]; i.op() == opNot {
			f.code = f.code[:len(f.code)-1]
			f.lines = f.lines[:len(f.lines)-1]
			f.emit(opTest, i.b(), 0, 1-c)
			return f.jumpBehind()
		}
	}
	f.dischargeAny(e)
	f.freeExpr(e)
	f.emit(opTestSet, maxRegister+5, e.info, c)
	return f.jumpBehind()
}

// goIf generates a jump that leaves when e is not as true as want, and goes on when it is.
func (f *function) goIf(e *expr, want bool) {
	f.load(e)
	out := noJumps
	switch truth, constant := e.constantTruth(); {
	case constant && truth == want: // nothing leaves
	case e.kind == exJump:
		if want {
			f.negate(e)
		}
		out = alone(e.info)
	default:
		out = alone(f.jumpIf(e, !want))
	}
	leave, stay := &e.whenFalse, &e.whenTrue
	if !want {
		leave, stay = stay, leave
	}
	*leave = f.joined(*leave, out)
	f.patchHere(*stay)
	*stay = noJumps
}

// constantTruth reports whether a constant counts as true; ok is false for other expressions.
func (e *expr) constantTruth() (truth, ok bool) {
	switch e.kind {
	case exNil, exFalse:
		return false, true
	case exConstant, exNumber, exTrue:
		return true, true
	}
	return false, false
}

func (f *function) not(e *expr) {
	f.load(e)
	switch e.kind {
	case exNil, exFalse:
		e.kind = exTrue
	case exConstant, exNumber, exTrue:
		e.kind = exFalse
	case exJump:
		f.negate(e)
	default:
		f.dischargeAny(e)
		f.freeExpr(e)
		e.kind, e.info = exReloc, f.emit(opNot, 0, e.info, 0)
	}
	e.whenTrue, e.whenFalse = e.whenFalse, e.whenTrue
	f.dropValues(e.whenFalse)
	f.dropValues(e.whenTrue)
}

// Operators

// fold computes an operation on two constants; ok is false if the program must compute it when it
// runs.
func fold(op opcode, a, b float64) (result float64, ok bool) {
	switch op {
	case opUnm:
		result = -a
	case opLen:
		return 0, false
	case opDiv, opMod:
		if b == 0 {
			return 0, false
		}
		result = arith(op, a, b)
	default:
		result = arith(op, a, b)
	}
	return result, result == result
}

func arith(op opcode, a, b float64) float64 {
	switch op {
	case opAdd:
		return a + b
	case opSub:
		return a - b
	case opMul:
		return a * b
	case opDiv:
		return a / b
	case opMod:
		return modulo(a, b)
	}
	return power(a, b)
}

// power is Lua's ^.
func power(a, b float64) float64 {
	if b == 2 {
		return a * a
	}
	return cmath.Pow(a, b)
}

// unary applies a prefix operator but not.
func (f *function) unary(op opcode, e *expr) {
	if op == opUnm && e.isNumeral() {
		if n, ok := fold(op, e.number, 0); ok {
			e.number = n
			return
		}
	}
	at := f.toAnyRegister(e)
	f.freeExpr(e)
	e.kind, e.info = exReloc, f.emit(op, 0, at, 0)
}

// arithmetic applies an operator of numbers to a and b, and leaves the result in a.
func (f *function) arithmetic(op opcode, a, b *expr) {
	if a.isNumeral() && b.isNumeral() {
		if n, ok := fold(op, a.number, b.number); ok {
			a.number = n
			return
		}
	}
	y, constantY := f.toOperand(b)
	x, constantX := f.toOperand(a)
	if constantX && constantY {
		f.toNextRegister(b)
		y, constantY = b.info, false
	}
	f.freeBoth(a, b)
	switch {
	case constantY:
		a.kind, a.info = exReloc, f.emit(op+(opAddRK-opAdd), 0, x, y)
	case constantX:
		a.kind, a.info = exReloc, f.emit(op+(opAddKR-opAdd), 0, y, x)
	default:
		a.kind, a.info = exReloc, f.emit(op, 0, x, y)
	}
}

// freeBoth frees the registers of two operands, the higher one first.
func (f *function) freeBoth(a, b *expr) {
	if a.kind == exRegister && b.kind == exRegister && a.info > b.info {
		a, b = b, a
	}
	f.freeExpr(b)
	f.freeExpr(a)
}

// compare applies a comparison; the outcome is a jump for when it is cond.
func (f *function) compare(op opcode, cond bool, a, b *expr) {
	x, constantX := f.toOperand(a)
	y, constantY := f.toOperand(b)
	if constantX && constantY {
		f.toNextRegister(b)
		y, constantY = b.info, false
	}
	f.freeBoth(a, b)
	want := 1
	if !cond {
		want = 0
		if op != opEq {
			x, y, constantX, constantY = y, x, constantY, constantX
			want = 1
		}
	}
	switch {
	case op == opEq && constantX:
		f.emit(opEqRK, want, y, x)
	case constantY:
		f.emit(op+1, want, x, y) // …RK
	case constantX:
		f.emit(op+2, want, y, x) // …KR
	default:
		f.emit(op, want, x, y)
	}
	a.kind, a.info = exJump, f.jumpBehind()
}

// concat applies "..": a chain becomes one instruction.
func (f *function) concat(a, b *expr) {
	f.toValue(b)
	if b.kind == exReloc && f.code[b.info].op() == opConcat {
		f.freeExpr(a)
		f.setB(b.info, a.info)
		a.kind, a.info = exReloc, b.info
		return
	}
	f.toNextRegister(b)
	f.freeBoth(a, b)
	a.kind, a.info = exReloc, f.emit(opConcat, 0, a.info, b.info)
}

// floatByte writes a size as eeeeexxx, which is xxx, or (8+xxx)*2^(eeeee-1), rounded up.
func floatByte(n int) int {
	e := 0
	for n >= 16 {
		n = (n + 1) >> 1
		e++
	}
	if n < 8 {
		return n
	}
	return (e+1)<<3 | (n - 8)
}

func fromFloatByte(b int) int {
	e := b >> 3 & 31
	if e == 0 {
		return b
	}
	return (b&7 + 8) << (e - 1)
}

// fixLine gives the last instruction another line than that of the last token.
func (f *function) fixLine(line int) { f.lines[len(f.lines)-1] = int32(line) }

// setList adds the elements that are in registers above table to it: n of them, up to element
// number total; all: up to the top.
func (f *function) setList(table, total, n int) {
	batch := (total-1)/listBatch + 1
	count := n
	if n == all {
		count = 0
	}
	f.emit(opSetList, table, count, batch)
	f.free = table + 1
}
