package lua

import (
	"sync/atomic"
)

// Builtin is a function in Go. It returns how many of the values that it pushed last are its
// results.
type Builtin func(L *State) int

// State is an interpreter: its globals and all objects that programs made in it.
type State struct {
	running    *Coroutine
	main       *Coroutine
	globals    *Table
	registry   *Table
	stringMeta *Table
	lastID     uint32 // of the objects made
	nested     int    // calls that take Go stack
	memory     memory
	seams      seams

	interrupted atomic.Bool           // the state is killed; running code polls this
	killed      atomic.Pointer[error] // why
	throwing    bool                  // a panic that goes on is ours
	thrown      Value                 // with this error; meaningless when the state is killed
	handlers    []handler             // of errors, for the protected calls that run
	handling    bool                  // a handler in Lua runs, which may nest a few calls deeper
	ended       ended
}

// NewState returns a state without any library and without bounds.
func NewState() *State {
	L := &State{}
	L.memory.init()
	L.main = L.newCoroutine()
	L.main.status = coRunning
	L.running = L.main
	L.globals = L.NewTable(0, 0)
	L.registry = L.NewTable(0, 0)
	return L
}

// Globals returns the table of global variables, which is the environment of builtins.
func (L *State) Globals() *Table { return L.globals }

// SetGlobals replaces the table of global variables.
func (L *State) SetGlobals(t *Table) { L.globals = t }

// Registry returns a table that no program can reach. Go code must keep values there between calls,
// so that they are measured.
func (L *State) Registry() *Table { return L.registry }

// SetStringMetatable sets the metatable of all strings.
func (L *State) SetStringMetatable(t *Table) { L.stringMeta = t }

// Kill ends the program that runs in the state; the program cannot catch that. PCall returns an
// error with the reason. Programs started later end too, until Reset. Only the first reason counts.
// Any goroutine may call Kill.
func (L *State) Kill(why error) {
	if L.killed.CompareAndSwap(nil, &why) {
		L.interrupted.Store(true)
	}
}

// Killed returns the reason why the state was killed; nil if it was not.
func (L *State) Killed() error {
	if why := L.killed.Load(); why != nil {
		return *why
	}
	return nil
}

// Check ends the calling builtin if the state was killed. It costs next to nothing. Calls of
// functions check too, so a loop that calls Lua functions need not.
func (L *State) Check() {
	if L.interrupted.Load() {
		L.looked()
	}
}

func (L *State) looked() {
	if L.seams.onLook == nil {
		L.throwKilled()
	}
	L.seams.onLook()
}

// ends reports whether the state was killed, for code that must clean up before it ends.
func (L *State) ends() bool { return L.interrupted.Load() && L.seams.onLook == nil }

// Reset prepares the state for another program: it undoes Kill and clears the stacks. It must not
// be called within a call.
func (L *State) Reset() {
	L.killed.Store(nil)
	L.interrupted.Store(false)
	L.main.reset(L)
	L.running = L.main
	L.nested = 0
	L.handlers = L.handlers[:0]
	L.thrown = Nil
	L.ended, L.handling = ended{}, false
}

// NewFunction returns a builtin as a value. Errors use the name by which the program called it, or
// else name. The builtin reads upvalues with Upvalue.
func (L *State) NewFunction(name string, fn Builtin, upvalues ...Value) Value {
	L.account(functionSize + builtinSize + int64(len(upvalues))*valueSize)
	L.lastID++
	f := &Function{header: header{kind: KindFunction, id: L.lastID}, env: L.globals,
		builtin: &builtin{name: name, fn: fn}}
	if len(upvalues) > 0 {
		f.builtin.upvalues = append([]Value(nil), upvalues...)
	}
	return f.Value()
}

// Load returns a program as a function whose only parameter is "...", with env as its global
// variables. If env is nil, it uses the state's globals.
func (L *State) Load(p *Program, env *Table) Value {
	if env == nil {
		env = L.globals
	}
	return L.newClosure(p.main, env).Value()
}

// Register makes builtins the fields of a table.
func (L *State) Register(t *Table, functions map[string]Builtin) {
	for name, fn := range functions {
		t.SetString(L, name, L.NewFunction(name, fn))
	}
}
