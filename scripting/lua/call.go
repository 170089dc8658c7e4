package lua

// This file implements calls of functions, which are written in Lua or in Go. It also limits the
// depth of nested calls.

const (
	// maxNested bounds the nested calls that use the Go stack, in all coroutines of a state
	// together. Error handlers may go a little deeper.
	maxNested      = 200
	maxNestedError = maxNested + maxNested/8

	// maxFrames is the maximum depth of the calls of one coroutine.
	maxFrames = 20000

	// maxBuiltinStack is how many values a builtin may have on its stack.
	maxBuiltinStack = 8000

	// all asks a call for as many results as there are.
	all = -1
)

// Call calls a function and returns its first result.
func (L *State) Call(fn Value, args ...Value) Value {
	co := L.running
	co.need(L, len(args)+1)
	at := co.top
	co.stack[at] = fn
	copy(co.stack[at+1:], args)
	co.top += len(args) + 1
	L.callAt(at, 1)
	co.top = at
	return co.stack[at]
}

// CallTop calls the function below the top nargs values of the stack, which are its arguments. The
// results replace the function and the arguments. Their number is adjusted to results, unless that
// is -1. CallTop returns the number of results; Top reads them.
func (L *State) CallTop(nargs, results int) int {
	co := L.running
	at := co.top - nargs - 1
	L.callAt(at, results)
	if results >= 0 {
		co.top = at + results
	}
	return co.top - at
}

// Top returns the value i below the top of the stack: 1 is the one pushed last.
func (L *State) Top(i int) Value { return L.running.stack[L.running.top-i] }

// Replace changes the value i below the top of the stack.
func (L *State) Replace(i int, v Value) { L.running.stack[L.running.top-i] = v }

// Pop removes n values from the stack.
func (L *State) Pop(n int) { L.running.top -= n }

// enter counts a call that takes Go stack. It also ends a killed program, because the called
// function may never poll: a Lua function without calls and loops, or a Go function.
func (L *State) enter() {
	L.Check()
	L.nested++
	if L.nested >= maxNested {
		L.tooNested()
	}
}

func (L *State) tooNested() {
	switch {
	case L.nested == maxNested:
		L.fault("C stack overflow")
	case L.nested >= maxNestedError:
		L.throw(errorInHandler)
	}
}

// callAt calls the value in slot at of the running coroutine, with everything above as arguments.
// The results replace both. If want is all, top is after the last result.
func (L *State) callAt(at, want int) {
	L.enter()
	co := L.running
	if L.precall(co, at, want) {
		co.frame().entry = true
		L.execute(co)
	}
	L.nested--
}

// precall begins a call. It runs a builtin to its end and returns false, or makes the frame of a
// Lua function, which execute must run, and returns true. The frame of a builtin that yields stays.
func (L *State) precall(co *Coroutine, at, want int) (lua bool) {
	v := co.stack[at]
	if v.Kind() != KindFunction {
		v = L.callable(co, at)
	}
	fn := v.function()
	if len(co.frames) >= maxFrames {
		L.tooDeep(co)
	}
	if fn.proto != nil {
		L.pushFrame(co, fn, at, want)
		return true
	}
	if co.top > len(co.stack)-stackSlack {
		co.grow(L, co.top)
	}
	if len(co.frames) == cap(co.frames) {
		co.growFrames(L)
	}
	co.frames = append(co.frames, frame{fn: fn, base: at + 1, ret: at, want: want,
		nargs: co.top - at - 1})
	n := fn.builtin.fn(L)
	if n < 0 {
		return false
	}
	co.finish(co.top-n, n)
	return false
}

// finish removes the frame on top and moves its n results, which begin at slot from, to its caller.
func (co *Coroutine) finish(from, n int) {
	f := &co.frames[len(co.frames)-1]
	to, want := f.ret, f.want
	co.frames = co.frames[:len(co.frames)-1]
	if want == all {
		copy(co.stack[to:to+n], co.stack[from:from+n])
		co.top = to + n
		return
	}
	if n == 1 && want == 1 {
		co.stack[to] = co.stack[from] // the common case
		co.top = to + 1
		return
	}
	if n > want {
		n = want
	}
	copy(co.stack[to:to+n], co.stack[from:from+n])
	for i := n; i < want; i++ {
		co.stack[to+i] = Nil
	}
	co.top = to + want
}

// callable puts the metamethod for calls below a value that is no function.
func (L *State) callable(co *Coroutine, at int) Value {
	tm := L.metamethod(co.stack[at], eventCall)
	if tm.Kind() != KindFunction {
		L.typeErrorAt(co, at, "call")
	}
	co.need(L, 1)
	copy(co.stack[at+1:co.top+1], co.stack[at:co.top])
	co.stack[at] = tm
	co.top++
	return tm
}

// pushFrame makes the frame of a Lua function whose arguments are on top of the stack.
func (L *State) pushFrame(co *Coroutine, fn *Function, at, want int) {
	p := fn.proto
	nargs := co.top - at - 1
	base := at + 1
	if need := co.top + p.maxStack + p.params; need > len(co.stack)-stackSlack {
		co.grow(L, need)
	}
	extra := 0
	var arg Value
	if p.needsArg {
		arg = L.argTable(co, min(at+1+p.params, co.top), max(0, nargs-p.params))
	}
	if p.vararg {
		// The parameters move after the further arguments.
		base = co.top
		n := min(nargs, p.params)
		copy(co.stack[base:base+n], co.stack[at+1:at+1+n])
		clear(co.stack[at+1 : at+1+n])
		extra = max(0, nargs-p.params)
		nargs = n
	}
	if base+p.params > base+nargs {
		clear(co.stack[base+nargs : base+p.params])
	}
	if len(co.frames) == cap(co.frames) {
		co.growFrames(L)
	}
	from := base + p.params
	if p.needsArg {
		co.stack[from] = arg
		from++
	}
	co.top = base + p.maxStack
	clear(co.stack[from:co.top])
	co.frames = append(co.frames, frame{fn: fn, base: base, ret: at, want: want, nargs: extra})
}

// argTable returns the table "arg" of a function that has "..." and never uses it.
func (L *State) argTable(co *Coroutine, from, n int) Value {
	t := L.NewTable(n, 1)
	copy(t.array, co.stack[from:from+n])
	t.SetString(L, "n", Number(float64(n)))
	return t.Value()
}

// tooDeep raises the error of calls that are too deep, with some more room for handlers.
func (L *State) tooDeep(co *Coroutine) {
	switch n := len(co.frames); {
	case n >= maxFrames+maxFrames/8:
		L.throw(errorInHandler)
	case !L.handling:
		L.fault("stack overflow")
	}
}
