package lua

// slowArithmetic does an operation whose operands are not both numbers. It returns the frame and
// the registers, which a metamethod may have moved.
func (L *State) slowArithmetic(co *Coroutine, f *frame, pc int, i instruction, b,
	c Value) (*frame, *registers) {
	f.pc = pc
	op := i.op()
	switch {
	case op >= opAddKR && op <= opPowKR:
		op -= opAddKR - opAdd
	case op >= opAddRK && op <= opPowRK:
		op -= opAddRK - opAdd
	}
	v := L.arithmetic(op, b, c)
	f = co.frame()
	r := (*registers)(co.stack[f.base:])
	r[i.a()] = v
	return f, r
}

// prepareLoop converts a loop's bounds to numbers, and subtracts one step from the initial value.
func (L *State) prepareLoop(r *registers, a int) {
	for j, what := range [...]string{"initial value", "limit", "step"} {
		n, ok := L.ToNumber(r[a+j])
		if !ok {
			L.fault("'for' %s must be a number", what)
		}
		r[a+j] = Number(n)
	}
	r[a] = Number(r[a].number() - r[a+2].number())
}

// iterator is a builtin that for loops replace by code of their own.
type iterator uint8

const (
	iterateNext   iterator = iota + 1 // next, which pairs returns
	iterateIpairs                     // the iterator that ipairs returns
)

// iterate does a step of a loop over a table: it puts the next key and value of R[a+1] after
// R[a+2]. If the builtin would raise an error, it returns false, so that the builtin runs and
// raises it.
func (b *builtin) iterate(r *registers, a, results int) bool {
	t := r[a+1].table()
	var key, value Value
	if b.iterator == iterateNext {
		at, ok := t.index(r[a+2])
		if !ok {
			return false
		}
		key, value = t.nextFrom(at)
	} else {
		i, ok := arrayIndex(r[a+2])
		if !ok {
			return false
		}
		if value = t.GetInt(i + 1); value.ref != nil {
			key = Number(float64(i + 1))
		}
	}
	r[a+3] = key
	if results > 1 {
		r[a+4] = value
		for j := 2; j < results; j++ {
			r[a+3+j] = Nil
		}
	}
	return true
}

// concat joins the n values on top of the stack, from the right; the result takes their place.
func (L *State) concat(co *Coroutine, n int) {
	for n > 1 {
		L.Check()
		top := co.top
		a, b := co.stack[top-2], co.stack[top-1]
		if !a.isText() || !b.isText() {
			tm := L.metamethod(a, eventConcat)
			if tm.ref == nil {
				tm = L.metamethod(b, eventConcat)
			}
			if tm.ref == nil {
				wrong := top - 2
				if a.isText() {
					wrong = top - 1
				}
				L.typeErrorAt(co, wrong, "concatenate")
			}
			v := L.Call(tm, a, b)
			co.stack[top-2] = v
			co.top--
			n--
			continue
		}
		joined := 2
		for joined < n && co.stack[top-joined-1].isText() {
			joined++
		}
		co.stack[top-joined] = L.join(co.stack[top-joined : top])
		co.top = top - joined + 1
		n -= joined - 1
	}
}

func (v Value) isText() bool { return v.isString() || v.isNumber() }

// join makes one string of strings and numbers.
func (L *State) join(values []Value) Value {
	const numberRoom = 32
	size := 0
	for _, v := range values {
		if v.isString() {
			size += len(v.str().s)
		} else {
			size += numberRoom
		}
	}
	if len(values) == 2 {
		// Joining with nothing is often.
		if values[0].isString() && values[1].isString() {
			if values[0].str().s == "" {
				return values[1]
			}
			if values[1].str().s == "" {
				return values[0]
			}
		}
	}
	var small [256]byte
	b := small[:0]
	if size > len(small) {
		L.account(roundBytes(int64(size)) + stringSize)
		b = make([]byte, 0, size)
	}
	for _, v := range values {
		if v.isString() {
			b = L.Append(b, v.str().s)
		} else {
			b = AppendNumber(b, v.number())
		}
	}
	if size <= len(small) {
		return L.Bytes(b)
	}
	return own(b)
}
