package scripting

import (
	"maps"
	"slices"

	"keyp/resp"
	"keyp/scripting/lua"
)

// state is an interpreter: the sandbox with all libraries. One Run uses it at a time.
type state struct {
	engine  *Engine
	L       *lua.State
	globals *lua.Table

	entry     lua.Value   // enter as a value
	prepare   lua.Builtin // of the present run: see execute
	run       *Run        // at present; nil while a library is loaded
	functions bool        // for a library of functions, not for EVAL scripts
	proto     int         // of the replies that redis.call converts: 2 or 3
	random    rand48
	json      jsonOptions
	loading   *Library // register_function adds to it

	out     resp.Writer // redis.call's replies
	args    [][]byte    // of redis.call
	numbers []byte      // those arguments that are numbers
	seen    int64       // Allocated when the state was last measured for a reply
}

func (e *Engine) newState(functions bool) *state {
	L := lua.NewState()
	st := &state{engine: e, L: L, functions: functions, globals: L.Globals()}
	st.entry = L.NewFunction("", st.enter)
	L.Registry().Set(L, st.entry, lua.True)
	L.OpenBase(st.globals)
	for _, missing := range []string{"getfenv", "setfenv"} {
		st.globals.SetString(L, missing, lua.Nil)
	}
	st.globals.SetString(L, "pcall", L.NewFunction("pcall", basePcall))
	st.globals.SetString(L, "coroutine", L.OpenCoroutine().Value())
	st.globals.SetString(L, "table", L.OpenTable().Value())
	st.openString()
	st.openMath()
	st.openBit()
	st.openStruct()
	st.openJSON()
	st.openMsgpack()
	st.openOS()
	st.openRedis()
	st.lock(st.globals)
	return st
}

var pcall = lua.PCallWith(caught)

var errPcall = lua.Constant("attempt to call a boolean value")

// basePcall is Redis's pcall. Called without an argument, Redis's pcall calls a boolean, which is
// an error.
func basePcall(L *lua.State) int {
	if L.NArgs() == 0 {
		L.PushBool(false)
		L.Push(errPcall)
		return 2
	}
	return pcall(L)
}

// caught converts an error as Redis's pcall does: a table with a text in "err" becomes that text.
func caught(L *lua.State, v lua.Value) lua.Value {
	if t := v.AsTable(); t != nil {
		if message := t.Get(fieldErr); message.Kind() == lua.KindString ||
			message.Kind() == lua.KindNumber {
			return message
		}
	}
	return v
}

func (st *state) openOS() {
	clock := st.engine.o.CPU
	st.library("os", map[string]lua.Builtin{"clock": func(L *lua.State) int {
		L.PushNumber(clock().Seconds())
		return 1
	}})
}

// reset prepares the state for a run.
func (st *state) reset() {
	st.L.Reset()
	st.proto = 2
	st.json = defaultJSON
}

// library creates a table of functions, makes it a global variable and returns it.
func (st *state) library(name string, functions map[string]lua.Builtin) *lua.Table {
	t := st.L.NewTable(0, len(functions))
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		// In sorted order, so that pairs has the same order in each state.
		t.SetString(st.L, name, st.L.NewFunction(name, functions[name]))
	}
	st.globals.SetString(st.L, name, t.Value())
	return t
}

// lock makes a table of globals and all tables in it readonly. Reading a missing global becomes an
// error.
func (st *state) lock(globals *lua.Table) {
	for key, value, _ := globals.Next(lua.Nil); !key.IsNil(); key, value, _ = globals.Next(key) {
		if t := value.AsTable(); t != nil {
			t.SetReadonly(true)
		}
	}
	globals.SetMetatable(st.strict())
	globals.SetReadonly(true)
}

// strict returns a metatable that makes reading a missing field an error.
func (st *state) strict() *lua.Table {
	meta := st.L.NewTable(0, 1)
	meta.SetString(st.L, "__index", st.L.NewFunction("__index", noGlobal))
	meta.SetReadonly(true)
	return meta
}

func noGlobal(L *lua.State) int {
	name, ok := L.Arg(2).Text()
	if !ok {
		L.Errorf("Second argument to luaProtectedTableError must be a string or number")
	}
	L.Errorf("Script attempted to access nonexistent global variable '%s'", name)
	return 0
}
