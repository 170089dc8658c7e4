package scripting

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// interrupt is the context of a state's threads: done when the script is to end. The
// interpreter asks for that before each instruction, and then is the time for a look.
type interrupt struct {
	done chan struct{}
	due  atomic.Bool // look is to be called
	look func()
	mu   sync.Mutex
	why  error
}

var _ context.Context = (*interrupt)(nil)

func newInterrupt() *interrupt { return &interrupt{done: make(chan struct{})} }

func (i *interrupt) Deadline() (time.Time, bool) { return time.Time{}, false }
func (i *interrupt) Value(any) any               { return nil }

// Done belongs to the goroutine that runs the script.
func (i *interrupt) Done() <-chan struct{} {
	if i.due.Load() {
		i.look()
		i.due.Store(false) // what the look itself takes is no reason for another
	}
	return i.done
}

// Err says why the script is to end; nil: it is not.
func (i *interrupt) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

// end has the script end at its next instruction. Only the first reason counts.
func (i *interrupt) end(why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.why == nil {
		i.why = why
		close(i.done)
	}
}

// thread gives a thread to run something on. Give it back with release when that ended well.
func (st *state) thread() *lua.LState {
	if n := len(st.idle); n > 0 {
		th := st.idle[n-1]
		st.idle = st.idle[:n-1]
		return th
	}
	th, _ := st.L.NewThread() // st.L has no context, so there is nothing to cancel
	return th
}

// idleThreads is how many threads a state keeps.
const idleThreads = 4

func (st *state) release(th *lua.LState) {
	if th.GetTop() > 0 {
		th.SetTop(0)
	}
	if len(st.idle) < idleThreads {
		st.idle = append(st.idle, th)
	}
}

// protected calls a function on a thread of its own and leaves the results on that. An
// error is given as Lua's value; the thread is then lost. raise gets what is raised before
// anything is unwound; nil: nothing is done to it.
func (st *state) protected(L *lua.LState, fn lua.LValue, args []lua.LValue, raise func(*lua.LState)) (th *lua.LState, fault lua.LValue) {
	th = st.thread()
	th.SetContext(st.interrupt)
	th.Panic = raise
	if raise == nil {
		th.Panic = throw
	}
	current, depth := st.L.G.CurrentThread, st.nested
	st.active = append(st.active, th)
	defer func() {
		st.active = st.active[:len(st.active)-1]
		st.L.G.CurrentThread, st.nested = current, depth
		if st.inHost {
			return // the host's panic goes on
		}
		if p := recover(); p != nil {
			th, fault = nil, st.fault(p)
		}
	}()
	if st.nested++; st.nested > nesting {
		return nil, lua.LString(where(L, 1) + "stack overflow")
	}
	th.Push(fn)
	for _, arg := range args {
		th.Push(arg)
	}
	th.Call(len(args), lua.MultRet)
	return th, nil
}

// throw unwinds to the protected call.
func throw(L *lua.LState) { panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: L.Get(-1)}) }

// fault makes Lua's error of what was recovered.
func (st *state) fault(p any) lua.LValue {
	if e, ok := p.(*lua.ApiError); ok {
		if s, ok := e.Object.(lua.LString); ok {
			return lua.LString(reword(string(s)))
		}
		return e.Object
	}
	st.broken = true // the interpreter itself failed: it may be in any condition
	message := fmt.Sprint(p)
	if strings.Contains(message, "callstack overflow") {
		message = "stack overflow"
	}
	return lua.LString(message)
}

// wording is what the interpreter says, and what Lua says.
var wording = strings.NewReplacer(
	"for statement init must be", "'for' initial value must be",
	"for statement limit must be", "'for' limit must be",
	"for statement step must be", "'for' step must be",
	"attempt to compare table with table", "attempt to compare two table values",
	"attempt to compare userdata with userdata", "attempt to compare two userdata values",
	"attempt to call a non-function object", "attempt to call a table value",
	"registry overflow", "stack overflow",
	"too many recursions in gettable", "loop in gettable",
	"too many recursions in settable", "loop in settable",
	"cannot perform unm operation on table", "attempt to perform arithmetic on a table value",
	"__unm undefined", "attempt to perform arithmetic on a table value",
	"__len undefined", "attempt to get length of a userdata value",
)

// reword says an error of the interpreter's own as Lua does. Most errors are not long.
func reword(message string) string {
	const most = 300
	if len(message) > most {
		return message
	}
	message = wording.Replace(message)
	if at := strings.Index(message, "cannot perform "); at >= 0 && strings.Contains(message, " operation between ") {
		return message[:at] + "attempt to perform arithmetic on a table value"
	}
	return message
}

// where is the place of a function in the stack, "user_script:1: "; level 1 is what called
// the Go function that runs. It is empty for what has no lines.
func where(L *lua.LState, level int) string {
	source, line, ok := place(L, level)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", source, line)
}

// place is where for code that wants the parts.
func place(L *lua.LState, level int) (source string, line int, ok bool) {
	frame, ok := L.GetStack(level)
	if !ok {
		return "", 0, false
	}
	if _, err := L.GetInfo("Sl", frame, lua.LNil); err != nil || frame.Source == "" {
		return "", 0, false
	}
	return frame.Source, frame.CurrentLine, true
}
