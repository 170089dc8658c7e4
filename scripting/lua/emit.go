package lua

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

// alone returns a list of the one jump at a place.
func alone(at int) jumps { return jumps{at, at} }

const (
	noJump      = -1
	keyConstant = 1 << 30
	// maxJump is the maximum distance of a jump in C's Lua.
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
		} else if last := f.code[len(f.code)-1]; last.op() == opLoadNil && last.a() <= from &&
			from <= last.b()+1 {
			if from+n-1 > last.b() {
				f.setB(len(f.code)-1, from+n-1)
			}
			return
		}
	}
	f.emit(opLoadNil, from, from+n-1, 0)
}

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

// setResults sets the number of results of a call or "..."; all: as many as there are.
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

// discharge puts a value into a register. It leaves the value's jumps as they are.
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

// toOperand makes a value a constant, if possible, or puts it into a register; constant reports
// which.
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

// self prepares the call of a method: it puts the function and the object into two registers.
func (f *function) self(e *expr, name int) {
	f.toAnyRegister(e)
	f.freeExpr(e)
	at := f.free
	f.reserve(2)
	f.emit(opSelf, at, e.info, name)
	e.set(exRegister, at)
}

// index turns e, which is in a register, into its field with a key.
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

// jumpIf adds a jump that is taken if the truth of a value is cond.
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

// goIf generates a jump that is taken when the truth of e is not want.
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

// fixLine changes the line of the last instruction, which has that of the last token.
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
