package lua

import "unsafe"

// status is a coroutine's state, as coroutine.status returns it.
type status uint8

const (
	coSuspended status = iota
	coRunning
	coNormal // it has resumed another
	coDead
)

var statusNames = [...]string{"suspended", "running", "normal", "dead"}

// Coroutine is a stack of its own with the calls on it. A coroutine runs on the goroutine of the
// coroutine that resumes it.
//
//	stack    …  ret  arguments / registers …         …  top      slack
//	                 ^ base of frame
type Coroutine struct {
	header
	status  status
	stack   []Value
	top     int // first free slot
	frames  []frame
	open    *upvalue // the open variables, the highest first
	resumer *Coroutine
	nested  int // State.nested where it was resumed: only there it may yield
	// yielding: the builtin on top of the frames waits to be resumed.
	yielding bool
}

// frame is a call.
type frame struct {
	fn    *Function
	base  int    // first register of a Lua function, first argument of a builtin
	ret   int    // where the function is, and its results go
	pc    int    // of a Lua function: the next instruction
	want  int    // how many results
	nargs int    // of a builtin: its arguments; of a Lua function: those beyond the parameters
	tails uint16 // tail calls that this one has replaced
	entry bool   // execute ends with this call
}

const (
	// stackSlack is the least number of slots beyond the top. It lets the interpreter see the
	// registers as an array of fixed size.
	stackSlack = 256
	firstStack = 32 + stackSlack
	firstCalls = 8

	coroutineSize = int64(unsafe.Sizeof(Coroutine{}))
	frameSize     = int64(unsafe.Sizeof(frame{}))
)

func (L *State) newCoroutine() *Coroutine {
	L.account(coroutineSize + firstStack*valueSize + firstCalls*frameSize)
	L.lastID++
	co := &Coroutine{header: header{kind: KindThread, id: L.lastID},
		stack: make([]Value, firstStack), frames: make([]frame, 1, firstCalls), top: 1}
	co.frames[0].base = 1
	return co
}

// Value returns the coroutine as a value.
func (co *Coroutine) Value() Value { return Value{ref: &co.header} }

// Running returns the running coroutine. main is true for the state's main coroutine, which no
// program created.
func (L *State) Running() (co *Coroutine, main bool) { return L.running, L.running == L.main }

func (co *Coroutine) frame() *frame { return &co.frames[len(co.frames)-1] }

// need makes room for n more values.
func (co *Coroutine) need(L *State, n int) {
	if co.top+n > len(co.stack)-stackSlack {
		co.grow(L, co.top+n)
	}
}

// grow makes room up to a slot. Registers and open variables move with the stack.
func (co *Coroutine) grow(L *State, to int) {
	size := max(to+stackSlack, 2*len(co.stack))
	L.account(roundBytes(int64(size) * valueSize))
	stack := make([]Value, size)
	copy(stack, co.stack)
	co.stack = stack
	for u := co.open; u != nil; u = u.next {
		u.v = &stack[u.slot]
	}
}

func (co *Coroutine) growFrames(L *State) {
	size := 2 * cap(co.frames)
	L.account(roundBytes(int64(size) * frameSize))
	frames := make([]frame, len(co.frames), size)
	copy(frames, co.frames)
	co.frames = frames
}

// reset empties a coroutine that runs nothing, and frees large stacks.
func (co *Coroutine) reset(L *State) {
	co.close(0)
	const keep = 1024
	if len(co.stack) > keep {
		co.stack = make([]Value, firstStack)
	}
	clear(co.stack)
	if cap(co.frames) > keep/8 {
		co.frames = make([]frame, 1, firstCalls)
	}
	clear(co.frames[:cap(co.frames)])
	co.frames = co.frames[:1]
	co.frames[0] = frame{base: 1}
	co.top = 1
}

// resume runs a suspended coroutine. The n values on top of the running coroutine's stack become
// its arguments, or the results of its yield. The values that it yields or returns, or its error,
// replace them; results is their number.
func (L *State) resume(co *Coroutine, n int) (results int, ok bool) {
	from := L.running
	if L.nested >= maxNested {
		return L.refuse(from, n, "C stack overflow")
	}
	if n > maxBuiltinStack || co.top+n > maxBuiltinStack && len(co.frames) == 1 {
		return L.refuse(from, n, "too many arguments to resume")
	}
	ok = L.try(handler{}, func() {
		co.need(L, n)
		copy(co.stack[co.top:co.top+n], from.stack[from.top-n:from.top])
		co.top += n
		from.top -= n
		from.status, co.status, co.resumer = coNormal, coRunning, from
		L.running = co
		L.enter()
		co.nested = L.nested
		results = L.runCoroutine(co, n)
		L.nested--
		from.need(L, results)
		copy(from.stack[from.top:from.top+results], co.stack[co.top-results:co.top])
		from.top += results
		co.top -= results
		co.status = coSuspended
		if !co.yielding {
			co.status = coDead
			co.stack, co.frames, co.top = nil, nil, 0
		}
		L.running, from.status, co.resumer = from, coRunning, nil
	})
	if ok {
		return results, true
	}
	if L.interrupted.Load() {
		L.throwKilled()
	}
	from.top -= n // as they were before
	from.need(L, 1)
	from.stack[from.top] = L.thrown
	from.top++
	return 1, false
}

func (L *State) refuse(from *Coroutine, n int, message string) (results int, ok bool) {
	from.top -= n
	L.Push(L.String(message))
	return 1, false
}

// runCoroutine starts or continues a coroutine. It returns how many results are on top of the
// coroutine's stack when it yields or ends.
func (L *State) runCoroutine(co *Coroutine, n int) (results int) {
	if !co.yielding {
		L.precall(co, co.top-n-1, all)
		co.frame().entry = true
	} else {
		co.yielding = false
		want := co.frame().want
		co.finish(co.top-n, n)
		if f := co.frame(); want >= 0 {
			co.top = f.base + f.fn.proto.maxStack
		}
	}
	if L.execute(co) {
		return co.frame().nargs
	}
	return co.top - 1
}

// yield suspends the coroutine of the builtin that calls it. That builtin's arguments become the
// results of resume. The builtin must return yield's result.
func (L *State) yield() int {
	co := L.running
	if co == L.main || L.nested != co.nested {
		L.fault("attempt to yield across metamethod/C-call boundary")
	}
	co.yielding = true
	return yielded
}

// yielded is the result of a builtin that yields.
const yielded = -1

// fail ends a coroutine that did not catch an error.
func (co *Coroutine) fail(L *State) {
	co.status = coDead
	co.close(0)
	L.running = co.resumer
	L.running.status = coRunning
	co.resumer = nil
	co.stack, co.frames, co.top = nil, nil, 0
}
