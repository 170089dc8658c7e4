package lua

import "keyp/scripting/cmath"

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

// power returns a to the power of b, as Lua's ^ does.
func power(a, b float64) float64 {
	if b == 2 {
		return a * a
	}
	return cmath.Pow(a, b)
}

// unary applies a prefix operator other than not.
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

// compare applies a comparison. Its outcome is a jump that is taken if the result is cond.
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
