package lua

import "math"

// execute runs the Lua function of the top frame until that frame returns. A call of another Lua
// function adds a frame and stays in the same execute. execute returns true if the coroutine
// yields.
//
// An error reports the frame's pc, and metamethods may move the stack and the frames. So execute
// saves pc before any operation that may raise or call. Afterwards it looks the registers up again.
func (L *State) execute(co *Coroutine) (yielded bool) {
	var (
		f    *frame
		fn   *Function
		code []instruction
		k    []Value
		r    *registers
		pc   int
	)
enter:
	f = &co.frames[len(co.frames)-1]
	fn = f.fn
	code, k, pc = fn.proto.code, fn.proto.constants, f.pc
	r = (*registers)(co.stack[f.base:])
	for {
		i := code[pc]
		pc++
		ra := &r[uint8(i>>8)]
		switch opcode(i) {
		case opMove:
			*ra = r[uint8(i>>16)]
		case opLoadK:
			*ra = k[i>>32]
		case opLoadBool:
			*ra = Bool(i.b() != 0)
			if i.c() != 0 {
				pc++
			}
		case opLoadNil:
			clear(r[i.a() : i.b()+1])
		case opGetUpval:
			*ra = *fn.upvalues[i.b()].v
		case opSetUpval:
			*fn.upvalues[i.b()].v = *ra
		case opGetGlobal:
			if p := fn.env.findString(k[i>>32].str()); p != nil && p.ref != nil {
				*ra = *p
				continue
			}
			f.pc = pc
			v := L.Index(fn.env.Value(), k[i>>32])
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			r[i.a()] = v
		case opSetGlobal:
			f.pc = pc
			L.SetIndex(fn.env.Value(), k[i>>32], *ra)
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
		case opGetTable:
			b, c := &r[uint8(i>>16)], &r[uint8(i>>32)]
			if b.isTable() {
				t := b.table()
				if c.ref == &numberHeader {
					n := c.number()
					if x := int(n); uint(x-1) < uint(len(t.array)) && float64(x) == n {
						if v := &t.array[x-1]; v.ref != nil || t.meta == nil {
							*ra = *v
							continue
						}
					}
				}
				if L.interrupted.Load() {
					// Comparing long keys takes time, and so do many
					// collisions.
					f.pc = pc
					L.throwKilled()
				}
				if p := t.find(*c); p != nil && p.ref != nil {
					*ra = *p
					continue
				} else if t.meta == nil {
					*ra = Nil
					continue
				}
			}
			f.pc = pc
			v := L.Index(*b, *c)
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			r[i.a()] = v
		case opGetField:
			b := &r[uint8(i>>16)]
			if L.interrupted.Load() {
				f.pc = pc
				L.throwKilled()
			}
			if b.isTable() {
				t := b.table()
				if p := t.findString(k[i>>32].str()); p != nil && p.ref != nil {
					*ra = *p
					continue
				} else if t.meta == nil {
					*ra = Nil
					continue
				}
			}
			f.pc = pc
			v := L.Index(*b, k[i>>32])
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			r[i.a()] = v
		case opGetConst:
			f.pc = pc
			v := L.Index(r[uint8(i>>16)], k[i>>32])
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			r[i.a()] = v
		case opSetTable:
			key, value := operandB(r, k, i), operandC(r, k, i)
			if ra.isTable() {
				t := ra.table()
				if !t.readonly && t.meta == nil && key.ref == &numberHeader {
					n := key.number()
					if x := int(n); uint(x-1) < uint(len(t.array)) && float64(x) == n {
						t.array[x-1] = *value
						continue
					}
				}
			}
			f.pc = pc
			L.SetIndex(*ra, *key, *value)
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
		case opSetField:
			value := operandB(r, k, i)
			if L.interrupted.Load() {
				f.pc = pc
				L.throwKilled()
			}
			if ra.isTable() {
				t := ra.table()
				if !t.readonly && t.meta == nil {
					if p := t.findString(k[i>>32].str()); p != nil {
						t.absent = 0
						*p = *value
						continue
					}
				}
			}
			f.pc = pc
			L.SetIndex(*ra, k[i>>32], *value)
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
		case opNewTable:
			f.pc = pc
			*ra = L.NewTable(fromFloatByte(i.b()), fromFloatByte(i.c())).Value()
		case opSelf:
			b := r[uint8(i>>16)]
			f.pc = pc
			r[i.a()+1] = b
			v := L.Index(b, k[i>>32])
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			r[i.a()] = v
		// The cases for arithmetic repeat code for speed: a common case would need a second
		// switch.
		case opAdd:
			b, c := &r[uint8(i>>16)], &r[uint8(i>>32)]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() + c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opSub:
			b, c := &r[uint8(i>>16)], &r[uint8(i>>32)]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() - c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opMul:
			b, c := &r[uint8(i>>16)], &r[uint8(i>>32)]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() * c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opDiv:
			b, c := &r[uint8(i>>16)], &r[uint8(i>>32)]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() / c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opMod, opPow:
			b, c := &r[uint8(i>>16)], &r[uint8(i>>32)]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(arith(opcode(i), b.number(), c.number()))
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opAddRK:
			b, c := &r[uint8(i>>16)], &k[i>>32]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() + c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opSubRK:
			b, c := &r[uint8(i>>16)], &k[i>>32]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() - c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opMulRK:
			b, c := &r[uint8(i>>16)], &k[i>>32]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() * c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opDivRK:
			b, c := &r[uint8(i>>16)], &k[i>>32]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(b.number() / c.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opModRK, opPowRK:
			b, c := &r[uint8(i>>16)], &k[i>>32]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(arith(opcode(i)-(opAddRK-opAdd), b.number(), c.number()))
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opAddKR, opSubKR, opMulKR, opDivKR, opModKR, opPowKR:
			b, c := &k[i>>32], &r[uint8(i>>16)]
			if b.ref == &numberHeader && c.ref == &numberHeader {
				ra.setNumber(arith(opcode(i)-(opAddKR-opAdd), b.number(), c.number()))
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *c)
		case opUnm:
			b := &r[uint8(i>>16)]
			if b.ref == &numberHeader {
				ra.setNumber(-b.number())
				continue
			}
			f, r = L.slowArithmetic(co, f, pc, i, *b, *b)
		case opNot:
			*ra = Bool(!r[uint8(i>>16)].Truth())
		case opLen:
			f.pc = pc
			L.Check() // a table's takes long if it was made for that
			*ra = L.length(r[uint8(i>>16)])
		case opConcat:
			f.pc = pc
			co.top = f.base + i.c() + 1
			L.concat(co, i.c()-i.b()+1)
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			r[i.a()] = r[i.b()]
			co.top = f.base + fn.proto.maxStack
		case opJump:
			pc += i.jump()
			if i.jump() < 0 && L.interrupted.Load() {
				f.pc = pc
				L.throwKilled()
			}
		case opEq, opEqRK:
			b, c := &r[uint8(i>>16)], &Nil
			if opcode(i) == opEq {
				c = &r[uint8(i>>32)]
			} else {
				c = &k[i>>32]
			}
			var result bool
			if b.ref == c.ref && b.ref == &numberHeader {
				result = b.number() == c.number()
			} else if b.ref != c.ref && b.isTable() && c.isTable() {
				f.pc = pc
				result = L.Equal(*b, *c)
				f = &co.frames[len(co.frames)-1]
				r = (*registers)(co.stack[f.base:])
			} else {
				if L.interrupted.Load() { // strings may be long
					f.pc = pc
					L.throwKilled()
				}
				result = b.RawEqual(*c)
			}
			if result == (i.a() != 0) {
				pc += code[pc].jump()
				if L.interrupted.Load() {
					f.pc = pc
					L.throwKilled()
				}
			}
			pc++
		case opLt, opLtRK, opLtKR, opLe, opLeRK, opLeKR:
			b, c := &r[uint8(i>>16)], &Nil
			switch opcode(i) {
			case opLt, opLe:
				c = &r[uint8(i>>32)]
			case opLtRK, opLeRK:
				c = &k[i>>32]
			default:
				b, c = &k[i>>32], b
			}
			var result bool
			if b.ref == &numberHeader && c.ref == &numberHeader {
				if opcode(i) <= opLtKR {
					result = b.number() < c.number()
				} else {
					result = b.number() <= c.number()
				}
			} else {
				f.pc = pc
				L.Check()
				if opcode(i) <= opLtKR {
					result = L.Less(*b, *c)
				} else {
					result = L.lessEqual(*b, *c)
				}
				f = &co.frames[len(co.frames)-1]
				r = (*registers)(co.stack[f.base:])
			}
			if result == (i.a() != 0) {
				pc += code[pc].jump()
				if L.interrupted.Load() {
					f.pc = pc
					L.throwKilled()
				}
			}
			pc++
		case opTest:
			if ra.Truth() == (i>>32 != 0) {
				pc += code[pc].jump()
				if L.interrupted.Load() {
					f.pc = pc
					L.throwKilled()
				}
			}
			pc++
		case opTestSet:
			b := &r[uint8(i>>16)]
			if b.Truth() == (i>>32 != 0) {
				*ra = *b
				pc += code[pc].jump()
				if L.interrupted.Load() {
					f.pc = pc
					L.throwKilled()
				}
			}
			pc++
		case opCall:
			f.pc = pc
			if L.interrupted.Load() {
				L.throwKilled()
			}
			at := f.base + i.a()
			if b := i.b(); b != 0 {
				co.top = at + b
			}
			want := i.c() - 1
			if L.precall(co, at, want) {
				goto enter
			}
			if co.yielding {
				return true
			}
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			if want >= 0 {
				co.top = f.base + fn.proto.maxStack
			}
		case opTailCall:
			f.pc = pc
			if L.interrupted.Load() {
				L.throwKilled()
			}
			at := f.base + i.a()
			if b := i.b(); b != 0 {
				co.top = at + b
			}
			v := co.stack[at]
			if v.Kind() != KindFunction {
				v = L.callable(co, at)
			}
			callee := v.function()
			if callee.proto == nil {
				if L.precall(co, at, all) {
					goto enter
				}
				if co.yielding {
					return true
				}
				f = &co.frames[len(co.frames)-1]
				r = (*registers)(co.stack[f.base:])
				continue // the opReturn that follows gives all there is up to the top
			}
			if co.open != nil {
				co.close(f.base)
			}
			n := co.top - at
			to, entry, wanted, tails := f.ret, f.entry, f.want, f.tails
			copy(co.stack[to:to+n], co.stack[at:at+n])
			co.top = to + n
			co.frames = co.frames[:len(co.frames)-1]
			L.pushFrame(co, callee, to, wanted)
			f = &co.frames[len(co.frames)-1]
			f.entry = entry
			f.tails = tails
			if tails < math.MaxUint16 {
				f.tails++
			}
			goto enter
		case opReturn:
			if co.open != nil {
				co.close(f.base)
			}
			from := f.base + i.a()
			n := i.b() - 1
			if n < 0 {
				n = co.top - from
			}
			entry, want := f.entry, f.want
			co.finish(from, n)
			if entry {
				return false
			}
			f = &co.frames[len(co.frames)-1]
			fn = f.fn
			code, k, pc = fn.proto.code, fn.proto.constants, f.pc
			r = (*registers)(co.stack[f.base:])
			if want >= 0 {
				co.top = f.base + fn.proto.maxStack
			}
		case opForLoop:
			step := r[i.a()+2].number()
			index := ra.number() + step
			limit := r[i.a()+1].number()
			if step > 0 && index <= limit || !(step > 0) && limit <= index {
				pc += i.jump()
				ra.setNumber(index)
				r[i.a()+3].setNumber(index)
				if L.interrupted.Load() {
					f.pc = pc
					L.throwKilled()
				}
			}
		case opForPrep:
			f.pc = pc
			L.prepareLoop(r, i.a())
			pc += i.jump()
		case opForCall:
			f.pc = pc
			if L.interrupted.Load() {
				L.throwKilled()
			}
			a := i.a()
			if ra.Kind() == KindFunction && r[a+1].isTable() {
				if b := ra.function().builtin; b != nil && b.iterator != 0 &&
					b.iterate(r, a, i.c()) {
					continue
				}
			}
			at := f.base + a + 3
			co.top = at + 3
			co.need(L, 0)
			copy(co.stack[at:at+3], co.stack[at-3:at])
			if L.precall(co, at, i.c()) {
				goto enter
			}
			if co.yielding {
				return true
			}
			f = &co.frames[len(co.frames)-1]
			r = (*registers)(co.stack[f.base:])
			co.top = f.base + fn.proto.maxStack
		case opForEach:
			if v := r[i.a()+3]; v.ref != nil {
				r[i.a()+2] = v
				pc += i.jump()
			}
		case opSetList:
			f.pc = pc
			n := i.b()
			if n == 0 {
				n = co.top - f.base - i.a() - 1
			}
			t := ra.table()
			from := (i.c() - 1) * listBatch
			if from+n > len(t.array) {
				t.resize(L, from+n, len(t.nodes))
			}
			at := f.base + i.a() + 1
			copy(t.array[from:from+n], co.stack[at:at+n])
			co.top = f.base + fn.proto.maxStack
		case opClose:
			co.close(f.base + i.a())
		case opClosure:
			f.pc = pc
			p := fn.proto.protos[i>>32]
			c := L.newClosure(p, fn.env)
			for j, u := range p.upvalues {
				if u.local {
					c.upvalues[j] = co.capture(L, f.base+int(u.index))
				} else {
					c.upvalues[j] = fn.upvalues[u.index]
				}
			}
			*ra = c.Value()
		case opVararg:
			f.pc = pc
			n := i.b() - 1
			have := f.nargs
			if n < 0 {
				n = have
				co.top = f.base + i.a()
				co.need(L, n)
				r = (*registers)(co.stack[f.base:])
				co.top += n
			}
			at, from := f.base+i.a(), f.base-have
			copy(co.stack[at:at+min(n, have)], co.stack[from:f.base])
			if n > have {
				clear(co.stack[at+have : at+n])
			}
		}
	}
}

// setNumber stores a number. If v is a number already, its reference is not written: a write costs
// a write barrier while the garbage collector marks.
func (v *Value) setNumber(f float64) {
	v.bits = math.Float64bits(f)
	if v.ref != &numberHeader {
		v.ref = &numberHeader
	}
}

type registers = [stackSlack]Value

func operandB(r *registers, k []Value, i instruction) *Value {
	if b := i.b(); b >= constantB {
		return &k[b-constantB]
	}
	return &r[uint8(i>>16)]
}

func operandC(r *registers, k []Value, i instruction) *Value {
	if c := i.c(); c >= constantC {
		return &k[c-constantC]
	}
	return &r[uint8(i>>32)]
}
