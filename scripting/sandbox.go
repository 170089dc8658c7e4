package scripting

import (
	lua "github.com/yuin/gopher-lua"
)

const (
	// callDepth bounds the calls of a thread; nesting how many protected calls and
	// coroutines may stand in each other. Both together bound the Go stack.
	callDepth = 6000
	nesting   = 100

	registrySize = 1024 // values of a thread's stack, at first
	registryMax  = 1 << 20
	registryStep = 4096

	// largestArray bounds the part of a table that is an array. Holes in it take room,
	// so a large number as a key does not make one.
	largestArray = 1 << 22
)

func init() { lua.MaxArrayIndex = largestArray }

// state is an interpreter: the sandbox with all libraries. One Run uses it at a time.
type state struct {
	engine  *Engine
	L       *lua.LState // the main thread, on which nothing runs
	globals *lua.LTable // the real ones
	env     *lua.LTable // what scripts see of them
	// hidden gives the real table that a readonly one stands for.
	hidden map[*lua.LTable]*lua.LTable

	run       *Run // at present; nil while a library is loaded
	interrupt *interrupt
	idle      []*lua.LState // threads that ended well
	active    []*lua.LState // threads of protected calls that run
	gauge     gauge
	nested    int  // protected calls and coroutines that stand in each other
	inHost    bool // a panic that gets out now is the host's
	broken    bool // not to be used again

	functions bool // for a library of functions, not for EVAL scripts
	proto     int  // of the replies that redis.call converts: 2 or 3
	reply     replyBuffer
	random    rand48
	json      jsonOptions
	null      *lua.LUserData // cjson.null
	loading   *Library       // takes what register_function registers
	nextPair  *lua.LFunction
	nextItem  *lua.LFunction
	// stringMeta is what scripts see as the metatable of strings.
	stringMeta *lua.LTable
}

func (e *Engine) newState(functions bool) *state {
	st := &state{engine: e, functions: functions, hidden: map[*lua.LTable]*lua.LTable{}, interrupt: newInterrupt(), gauge: gauge{low: untouched, room: uint64(e.o.Memory)}}
	st.L = lua.NewState(lua.Options{
		CallStackSize: callDepth, MinimizeStackMemory: true, SkipOpenLibs: true,
		RegistrySize: registrySize, RegistryMaxSize: registryMax, RegistryGrowStep: registryStep,
	})
	st.L.G.MainThread, st.L.G.CurrentThread = st.L, st.L
	st.null = st.L.NewUserData()
	st.globals = st.L.NewTable()
	st.openBase()
	st.openString()
	st.openTable()
	st.openMath()
	st.openBit()
	st.openStruct()
	st.openJSON()
	st.openMsgpack()
	st.openRedis()
	st.lock()
	return st
}

// reset puts back what libraries keep of a script.
func (st *state) reset() {
	st.proto = 2
	st.json = defaultJSON
	st.nested = 0
}

// library is a table of functions under a global name.
func (st *state) library(name string, functions map[string]lua.LGFunction) *lua.LTable {
	t := st.L.NewTable()
	for key, fn := range functions {
		t.RawSetString(key, st.L.NewFunction(fn))
	}
	st.globals.RawSetString(name, t)
	return t
}

// lock makes the globals and all libraries readonly.
func (st *state) lock() {
	names := []string{}
	st.globals.ForEach(func(k, v lua.LValue) {
		if _, ok := v.(*lua.LTable); ok {
			names = append(names, string(k.(lua.LString)))
		}
	})
	for _, name := range names {
		st.globals.RawSetString(name, st.readonly(st.globals.RawGetString(name).(*lua.LTable)))
	}
	missing := st.L.NewTable()
	missing.RawSetString("__index", st.L.NewFunction(noGlobal))
	st.globals.Metatable = missing
	st.env = st.readonly(st.globals)
	st.globals.RawSetString("_G", st.env)
	st.env.RawSetString(concatName, st.L.NewFunction(st.concat))
	st.stringMeta = st.readonly(st.single("__index", st.globals.RawGetString("string")))
	st.L.Env = st.env
	st.L.G.Global = st.env
	st.lockTypes()
}

// readonly makes a table that shows another and takes no change.
func (st *state) readonly(real *lua.LTable) *lua.LTable {
	meta := st.L.NewTable()
	meta.RawSetString("__index", real)
	meta.RawSetString("__newindex", st.L.NewFunction(func(L *lua.LState) int {
		L.RaiseError("%s", errReadonly)
		return 0
	}))
	shown := st.L.NewTable()
	shown.Metatable = meta
	st.hidden[shown] = real
	return shown
}

const errReadonly = "Attempt to modify a readonly table"

func noGlobal(L *lua.LState) int {
	name, ok := text(L.Get(2))
	if !ok {
		L.RaiseError("Second argument to luaProtectedTableError must be a string or number")
	}
	L.RaiseError("Script attempted to access nonexistent global variable '%s'", name)
	return 0
}

// shown gives the table that is to be read for t.
func (st *state) shown(t *lua.LTable) *lua.LTable {
	if t.Metatable != lua.LNil {
		if real, ok := st.hidden[t]; ok {
			return real
		}
	}
	return t
}

// change gives t, which must not be readonly, to a function that changes it.
func (st *state) change(L *lua.LState, t *lua.LTable) *lua.LTable {
	if t.Metatable != lua.LNil {
		if _, ok := st.hidden[t]; ok {
			L.Error(lua.LString(errReadonly), 0) // Lua says no line where a library changes a table
		}
	}
	return t
}

// lockTypes gives strings their methods and Lua's arithmetic, and the other types errors
// that say what Lua says.
func (st *state) lockTypes() {
	library := st.globals.RawGetString("string")
	arithmetic := map[string]func(a, b float64) float64{
		"__add": func(a, b float64) float64 { return a + b },
		"__sub": func(a, b float64) float64 { return a - b },
		"__mul": func(a, b float64) float64 { return a * b },
		"__div": func(a, b float64) float64 { return a / b },
		"__mod": modulo,
		"__pow": power,
	}
	for _, sample := range []lua.LValue{lua.LString(""), lua.LNil, lua.LTrue, lua.LNumber(0), st.L.NewFunction(noGlobal)} {
		meta := st.L.NewTable()
		for event, op := range arithmetic {
			meta.RawSetString(event, st.L.NewFunction(st.arithmetic(event, op)))
		}
		meta.RawSetString("__unm", st.L.NewFunction(st.negate))
		meta.RawSetString("__len", st.L.NewFunction(noLength))
		compare := st.L.NewFunction(noCompare)
		meta.RawSetString("__lt", compare)
		meta.RawSetString("__le", compare)
		if sample.Type() == lua.LTString {
			meta.RawSetString("__index", library)
		} else {
			meta.RawSetString("__index", st.L.NewFunction(noIndex))
		}
		meta.RawSetString("__newindex", st.L.NewFunction(noIndex))
		if sample.Type() != lua.LTFunction {
			meta.RawSetString("__call", st.L.NewFunction(noCall))
		}
		st.L.SetMetatable(sample, meta)
	}
}

func noLength(L *lua.LState) int {
	L.RaiseError("attempt to get length of a %s value", typeName(L.Get(1)))
	return 0
}

func noCompare(L *lua.LState) int {
	L.RaiseError("attempt to compare two %s values", typeName(L.Get(1)))
	return 0
}

func noIndex(L *lua.LState) int {
	L.RaiseError("attempt to index a %s value%s", typeName(L.Get(1)), keyHint(L.Get(2)))
	return 0
}

// keyHint says which field of a value that has none was meant.
func keyHint(key lua.LValue) string {
	if name, ok := key.(lua.LString); ok && len(name) <= 60 {
		return " (field '" + string(name) + "')"
	}
	return ""
}

func noCall(L *lua.LState) int {
	L.RaiseError("attempt to call a %s value", typeName(L.Get(1)))
	return 0
}

// arithmetic is an operation one of whose operands is no number: text that is one counts
// as it, a table may have a metamethod.
func (st *state) arithmetic(event string, op func(a, b float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		a, b := L.Get(1), L.Get(2)
		x, okX := number(a)
		y, okY := number(b)
		if okX && okY {
			L.Push(lua.LNumber(op(x, y)))
			return 1
		}
		for _, v := range []lua.LValue{a, b} {
			if t, ok := v.(*lua.LTable); ok {
				if fn, ok := L.GetMetaField(t, event).(*lua.LFunction); ok {
					L.Push(fn)
					L.Push(a)
					L.Push(b)
					L.Call(2, 1)
					return 1
				}
			}
		}
		if okX {
			a = b
		}
		L.RaiseError("attempt to perform arithmetic on a %s value", typeName(a))
		return 0
	}
}

func (st *state) negate(L *lua.LState) int {
	f, ok := number(L.Get(1))
	if !ok {
		L.RaiseError("attempt to perform arithmetic on a %s value", typeName(L.Get(1)))
	}
	L.Push(lua.LNumber(-f))
	return 1
}

// concat is "..": of strings and numbers, from the right, with metamethods.
func (st *state) concat(L *lua.LState) int {
	n := L.GetTop()
	size := 0
	plain := true
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			size += len(v)
		case lua.LNumber:
			size += 24
		default:
			plain = false
		}
	}
	if !plain {
		return st.concatPairs(L, n)
	}
	st.room(L, size)
	b := make([]byte, 0, size)
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			b = append(b, v...)
		case lua.LNumber:
			b = appendNumber(b, float64(v))
		}
	}
	L.Push(lua.LString(b))
	return 1
}

func (st *state) concatPairs(L *lua.LState, n int) int {
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := L.Get(i)
		a, okA := text(left)
		b, okB := text(right)
		if okA && okB {
			st.room(L, len(a)+len(b))
			right = lua.LString(a + b)
			continue
		}
		fn := L.GetMetaField(left, "__concat")
		if fn == lua.LNil {
			fn = L.GetMetaField(right, "__concat")
		}
		if fn == lua.LNil {
			wrong := left
			if okA {
				wrong = right
			}
			L.RaiseError("attempt to concatenate a %s value", typeName(wrong))
		}
		L.Push(fn)
		L.Push(left)
		L.Push(right)
		L.Call(2, 1)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}

// room refuses to make a string of more bytes than a script may have.
func (st *state) room(L *lua.LState, size int) {
	if size < 0 || int64(size) > st.engine.o.Memory {
		L.RaiseError("not enough memory")
	}
}
