package lua

import (
	"errors"
	"fmt"
	"strconv"
)

// Error is an error that nothing in the program caught.
type Error struct {
	Value  Value // as raised, or as the handler returned it; nil when Killed
	Killed error // why the state was killed; nil: it was not
}

func (e *Error) Error() string {
	if e.Killed != nil {
		return e.Killed.Error()
	}
	if s, ok := e.Value.Text(); ok {
		return s
	}
	return "(error object is a " + e.Value.Kind().String() + " value)"
}

func (e *Error) Unwrap() error { return e.Killed }

var (
	errorInHandler = Constant("error in error handling")
)

// errThrown is the value of this package's panics.
var errThrown = errors.New("lua: an error was raised outside of a protected call")

// handler is the function that a protected call calls with an error before the stack is unwound: a
// function of Lua or of Go, or none.
type handler struct {
	lua    Value
	isLua  bool
	native func(L *State, v Value) Value
}

// Error raises a value as an error.
func (L *State) Error(v Value) {
	if len(L.handlers) > 0 {
		v = L.handle(v)
	}
	L.throw(v)
}

// handle gives an error to the handler of the innermost protected call.
func (L *State) handle(v Value) Value {
	h := L.handlers[len(L.handlers)-1]
	switch {
	case h.native != nil:
		return h.native(L, v)
	case !h.isLua:
		return v
	case h.lua.Kind() != KindFunction:
		L.throw(errorInHandler)
	}
	outer := L.handling
	L.handling = true
	v = L.Call(h.lua, v)
	L.handling = outer
	return v
}

// Errorf raises a text as an error, prefixed with the place where the running builtin was called.
func (L *State) Errorf(format string, args ...any) {
	L.reserveText(args)
	L.Error(L.String(L.Where(1) + fmt.Sprintf(format, args...)))
}

// fault raises the error of an operation of the language. It prefixes the place when a program's
// function does the operation, and nothing when a builtin does.
func (L *State) fault(format string, args ...any) {
	L.reserveText(args)
	L.Error(L.String(L.Where(0) + fmt.Sprintf(format, args...)))
}

// reserveText makes sure that the limit leaves room for an error that quotes long texts.
func (L *State) reserveText(args []any) {
	const copies, long = 4, 1 << 12 // formatting doubles its buffer, and the place comes before it
	for _, arg := range args {
		if s, ok := arg.(string); ok && len(s) > long {
			L.Reserve(copies * len(s))
		}
	}
}

// throw unwinds to the innermost protected call.
func (L *State) throw(v Value) {
	L.thrown = v
	L.throwing = true
	panic(errThrown)
}

func (L *State) throwKilled() {
	if L.ended.line == 0 {
		L.noteEnd()
	}
	L.throw(Nil)
}

// throwMemory ends the program for lack of memory. It kills the state, so that no protected call
// catches the error.
func (L *State) throwMemory() {
	L.Kill(ErrMemory)
	L.throwKilled()
}

// PCall calls a function with arguments and returns its error, or all its results, which are valid
// until the next call. native, which may be nil, is called before the stack is unwound: it may
// replace the error, and find with Where or Place where it was raised. Memory errors and errors in
// handlers do not go through native.
//
// When the state is killed, an outermost PCall returns an error with Killed set. Within a builtin,
// PCall then does not return.
func (L *State) PCall(fn Value, args []Value,
	native func(L *State, v Value) Value) (results []Value, err *Error) {
	co := L.running
	at := co.top
	ok := L.try(handler{native: native}, func() {
		co.need(L, len(args)+1)
		co.stack[at] = fn
		copy(co.stack[at+1:], args)
		co.top = at + 1 + len(args)
		L.callAt(at, all)
	})
	if L.interrupted.Load() && (!ok || L.nested == 0) {
		if L.nested > 0 {
			L.throwKilled()
		}
		co.top = at
		return nil, &Error{Killed: L.Killed()}
	}
	if !ok {
		co.top = at
		return nil, &Error{Value: L.thrown}
	}
	results = co.stack[at:co.top:co.top]
	co.top = at
	return results, nil
}

// try runs body. ok is false if body raised an error. L.thrown is then the error, and the state is
// restored, except the stack above its top. The caller must check for a killed state.
func (L *State) try(h handler, body func()) (ok bool) {
	co, frames, top, nested, handlers, handling := L.running, len(L.running.frames), L.running.top,
		L.nested, len(L.handlers), L.handling
	L.handling = false
	L.handlers = append(L.handlers, h)
	defer func() {
		if !L.throwing {
			if ok {
				L.handlers, L.handling = L.handlers[:handlers], handling
			}
			return // it went well, or the panic is not ours
		}
		recover() //nolint:errcheck // it is errThrown
		L.throwing = false
		for L.running != co {
			L.running.fail(L)
		}
		co.frames = co.frames[:frames]
		co.close(top)
		co.top = top
		L.nested, L.handling = nested, handling
		clear(L.handlers[handlers:])
		L.handlers = L.handlers[:handlers]
	}()
	body()
	return true
}

// Where returns the place of the function at a level, "user_script:1: ". Level 1 is the caller of
// the builtin that runs. The place is empty for builtins and beyond the outermost call.
func (L *State) Where(level int) string {
	source, line, ok := L.Place(level)
	if !ok {
		return ""
	}
	return source + ":" + strconv.Itoa(line) + ": "
}

// Place returns the parts of Where: the name of the program as errors show it, and the line. Level
// 0 is the function that runs: a builtin itself or, in an error handler in Go, the function that
// raised the error.
func (L *State) Place(level int) (source string, line int, ok bool) {
	f, _ := L.level(level)
	if f == nil || f.fn == nil || f.fn.proto == nil {
		return "", 0, false
	}
	return f.fn.proto.program.name, f.fn.proto.line(f.pc - 1), true
}

// level returns the frame of the running coroutine at a level; nil when there is none, or when it
// was lost in a tail call.
func (L *State) level(level int) (f *frame, lost bool) {
	frames := L.running.frames
	for i := len(frames) - 1; i > 0; i-- {
		f := &frames[i]
		if level == 0 {
			return f, false
		}
		level--
		if f.fn.proto != nil {
			if level < int(f.tails) {
				return nil, true
			}
			level -= int(f.tails)
		}
	}
	return nil, false
}
