package scripting

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (st *state) openBase() {
	for name, fn := range map[string]lua.LGFunction{
		"assert": baseAssert, "collectgarbage": baseCollect, "error": baseError, "gcinfo": baseGCInfo,
		"getmetatable": st.baseGetMetatable, "setmetatable": st.baseSetMetatable,
		"load": st.baseLoad, "loadstring": st.baseLoadString,
		"ipairs": st.baseIpairs, "pairs": st.basePairs, "next": st.baseNext,
		"pcall": st.basePcall, "xpcall": st.baseXpcall,
		"rawequal": baseRawEqual, "rawget": st.baseRawGet, "rawset": st.baseRawSet,
		"select": baseSelect, "tonumber": baseToNumber, "tostring": st.baseToString,
		"type": baseType, "unpack": baseUnpack,
	} {
		st.globals.RawSetString(name, st.L.NewFunction(fn))
	}
	st.globals.RawSetString("_VERSION", lua.LString("Lua 5.1"))
	st.nextPair = st.globals.RawGetString("next").(*lua.LFunction)
	st.nextItem = st.L.NewFunction(st.baseNextItem)
	st.openCoroutine()
	clock := st.engine.o.CPU
	st.library("os", map[string]lua.LGFunction{"clock": func(L *lua.LState) int {
		L.Push(lua.LNumber(clock().Seconds()))
		return 1
	}})
}

// typeName is the type of a value as Lua names it.
func typeName(v lua.LValue) string {
	if v == nil {
		return "no value"
	}
	return v.Type().String()
}

// argName is the type of argument n for an error about it.
func argName(L *lua.LState, n int) string {
	if n > L.GetTop() {
		return "no value"
	}
	return typeName(L.Get(n))
}

func argError(L *lua.LState, fn string, n int, message string) {
	L.RaiseError("bad argument #%d to '%s' (%s)", n, fn, message)
}

func wrongType(L *lua.LState, fn string, n int, want string) {
	argError(L, fn, n, want+" expected, got "+argName(L, n))
}

func argAny(L *lua.LState, fn string, n int) lua.LValue {
	if n > L.GetTop() {
		argError(L, fn, n, "value expected")
	}
	return L.Get(n)
}

func argTable(L *lua.LState, fn string, n int) *lua.LTable {
	t, ok := L.Get(n).(*lua.LTable)
	if !ok {
		wrongType(L, fn, n, "table")
	}
	return t
}

func argFunction(L *lua.LState, fn string, n int) *lua.LFunction {
	f, ok := L.Get(n).(*lua.LFunction)
	if !ok {
		wrongType(L, fn, n, "function")
	}
	return f
}

func argString(L *lua.LState, fn string, n int) string {
	s, ok := text(L.Get(n))
	if !ok {
		wrongType(L, fn, n, "string")
	}
	return s
}

func optString(L *lua.LState, fn string, n int, other string) string {
	if L.Get(n) == lua.LNil {
		return other
	}
	return argString(L, fn, n)
}

func argNumber(L *lua.LState, fn string, n int) float64 {
	f, ok := number(L.Get(n))
	if !ok {
		wrongType(L, fn, n, "number")
	}
	return f
}

// argInt is a whole number of 32 bits, as C cuts a larger one.
func argInt(L *lua.LState, fn string, n int) int { return int(int32(toInt(argNumber(L, fn, n)))) }

// argLong is argInt with 64 bits: a position in a string.
func argLong(L *lua.LState, fn string, n int) int { return int(toInt(argNumber(L, fn, n))) }

func optLong(L *lua.LState, fn string, n, other int) int {
	if L.Get(n) == lua.LNil {
		return other
	}
	return argLong(L, fn, n)
}

func optInt(L *lua.LState, fn string, n, other int) int {
	if L.Get(n) == lua.LNil {
		return other
	}
	return argInt(L, fn, n)
}

func baseAssert(L *lua.LState) int {
	if !lua.LVAsBool(argAny(L, "assert", 1)) {
		L.RaiseError("%s", optString(L, "assert", 2, "assertion failed!"))
	}
	return L.GetTop()
}

// baseCollect tells sizes; collecting is the server's own affair.
func baseCollect(L *lua.LState) int {
	switch option := optString(L, "collectgarbage", 1, "collect"); option {
	case "count":
		L.Push(lua.LNumber(heapKB()))
	case "step":
		L.Push(lua.LFalse)
	case "collect", "stop", "restart", "setpause", "setstepmul":
		L.Push(lua.LNumber(0))
	default:
		argError(L, "collectgarbage", 1, "invalid option '"+option+"'")
	}
	return 1
}

func baseGCInfo(L *lua.LState) int {
	L.Push(lua.LNumber(math.Floor(heapKB())))
	return 1
}

func heapKB() float64 { return float64(heapSize()) / 1024 }

func baseError(L *lua.LState) int {
	value, level := L.Get(1), optInt(L, "error", 2, 1)
	if s, ok := text(value); ok && level > 0 {
		value = lua.LString(where(L, level) + s)
	}
	L.Error(value, 0)
	return 0
}

// baseGetMetatable shows no metatable of what the sandbox protects.
func (st *state) baseGetMetatable(L *lua.LState) int {
	switch v := argAny(L, "getmetatable", 1).(type) {
	case *lua.LTable:
		if _, ok := st.hidden[v]; ok {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(L.GetMetatable(v))
	case lua.LString:
		L.Push(st.stringMeta)
	default:
		L.Push(lua.LNil)
	}
	return 1
}

func (st *state) baseSetMetatable(L *lua.LState) int {
	t := st.change(L, argTable(L, "setmetatable", 1))
	meta := L.Get(2)
	if meta != lua.LNil && meta.Type() != lua.LTTable || L.GetTop() < 2 {
		argError(L, "setmetatable", 2, "nil or table expected")
	}
	if old, ok := t.Metatable.(*lua.LTable); ok && old.RawGetString("__metatable") != lua.LNil {
		L.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = meta
	L.SetTop(1)
	return 1
}

func (st *state) baseLoadString(L *lua.LState) int {
	source := argString(L, "loadstring", 1)
	return st.load(L, source, optString(L, "loadstring", 2, source))
}

func (st *state) baseLoad(L *lua.LState) int {
	reader := argFunction(L, "load", 1)
	var source strings.Builder
	for {
		L.Push(reader)
		L.Call(0, 1)
		piece := L.Get(-1)
		L.Pop(1)
		s, ok := text(piece)
		if piece == lua.LNil || ok && s == "" {
			break
		}
		if !ok {
			L.RaiseError("reader function must return a string")
		}
		st.room(L, source.Len()+len(s))
		source.WriteString(s)
	}
	return st.load(L, source.String(), optString(L, "load", 2, "=(load)"))
}

func (st *state) load(L *lua.LState, source, name string) int {
	proto, err := compile(source, displayName(name))
	if err != nil {
		L.Push(lua.LNil)
		L.Push(lua.LString(err.Error()))
		return 2
	}
	fn := st.L.NewFunctionFromProto(proto)
	fn.Env = st.env
	L.Push(fn)
	return 1
}

// displayName is how errors name a chunk: "=name" and "@name" are names, anything else is
// the program's text.
func displayName(name string) string {
	if rest, ok := strings.CutPrefix(name, "="); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		return rest
	}
	const most = 40
	line, _, more := strings.Cut(name, "\n")
	if len(line) > most {
		line, more = line[:most], true
	}
	if more {
		line += "..."
	}
	return `[string "` + line + `"]`
}

func (st *state) baseNext(L *lua.LState) int {
	t := st.shown(argTable(L, "next", 1))
	key, value := t.Next(L.Get(2))
	if key == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(key)
	L.Push(value)
	return 2
}

func (st *state) basePairs(L *lua.LState) int {
	t := argTable(L, "pairs", 1)
	L.Push(st.nextPair)
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

func (st *state) baseIpairs(L *lua.LState) int {
	t := argTable(L, "ipairs", 1)
	L.Push(st.nextItem)
	L.Push(t)
	L.Push(lua.LNumber(0))
	return 3
}

func (st *state) baseNextItem(L *lua.LState) int {
	t := st.shown(argTable(L, "ipairs", 1))
	i := argInt(L, "ipairs", 2) + 1
	v := t.RawGetInt(i)
	if v == lua.LNil {
		v = t.RawGet(lua.LNumber(i)) // beyond the array
	}
	if v == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(lua.LNumber(i))
	L.Push(v)
	return 2
}

// arguments copies the arguments from number from on.
func arguments(L *lua.LState, from int) []lua.LValue {
	var args []lua.LValue
	for i := from; i <= L.GetTop(); i++ {
		args = append(args, L.Get(i))
	}
	return args
}

// basePcall is Redis's pcall: an error table with a text in "err" becomes that text.
func (st *state) basePcall(L *lua.LState) int {
	th, fault := st.protected(L, argAny(L, "pcall", 1), arguments(L, 2), nil)
	if th == nil {
		if t, ok := fault.(*lua.LTable); ok {
			if message, ok := text(t.RawGetString("err")); ok {
				fault = lua.LString(message)
			}
		}
		L.Push(lua.LFalse)
		L.Push(fault)
		return 2
	}
	return st.results(L, th)
}

// results takes what a protected call returned from its thread.
func (st *state) results(L, th *lua.LState) int {
	n := th.GetTop()
	L.Push(lua.LTrue)
	th.XMoveTo(L, n)
	st.release(th)
	return n + 1
}

func (st *state) baseXpcall(L *lua.LState) int {
	handler := argAny(L, "xpcall", 2)
	th, fault := st.protected(L, L.Get(1), nil, nil)
	if th == nil {
		L.Push(lua.LFalse)
		L.Push(handler)
		L.Push(fault)
		L.Call(1, 1)
		return 2
	}
	return st.results(L, th)
}

func baseRawEqual(L *lua.LState) int {
	L.Push(lua.LBool(L.RawEqual(argAny(L, "rawequal", 1), argAny(L, "rawequal", 2))))
	return 1
}

func (st *state) baseRawGet(L *lua.LState) int {
	t := st.shown(argTable(L, "rawget", 1))
	L.Push(t.RawGet(argAny(L, "rawget", 2)))
	return 1
}

func (st *state) baseRawSet(L *lua.LState) int {
	t := st.change(L, argTable(L, "rawset", 1))
	L.RawSet(t, argAny(L, "rawset", 2), argAny(L, "rawset", 3))
	L.SetTop(1)
	return 1
}

func baseSelect(L *lua.LState) int {
	n := L.GetTop() - 1
	if s, ok := L.Get(1).(lua.LString); ok && s == "#" {
		L.Push(lua.LNumber(n))
		return 1
	}
	i := argInt(L, "select", 1)
	switch {
	case i < 0:
		i = n + i + 1
	case i > n:
		i = n + 1
	}
	if i < 1 {
		argError(L, "select", 1, "index out of range")
	}
	return n - i + 1
}

func baseToNumber(L *lua.LState) int {
	base := optInt(L, "tonumber", 2, 10)
	if base == 10 {
		v := argAny(L, "tonumber", 1)
		if f, ok := number(v); ok {
			L.Push(lua.LNumber(f))
		} else {
			L.Push(lua.LNil)
		}
		return 1
	}
	s := argString(L, "tonumber", 1)
	if base < 2 || base > 36 {
		argError(L, "tonumber", 2, "base out of range")
	}
	s = strings.Trim(s, blank)
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if base == 16 && len(s) > 2 && (strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")) {
		s = s[2:]
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && !isRange(err) {
		L.Push(lua.LNil)
		return 1
	}
	if negative {
		n = -n
	}
	L.Push(lua.LNumber(n))
	return 1
}

func (st *state) baseToString(L *lua.LState) int {
	L.Push(lua.LString(st.tostring(L, argAny(L, "tostring", 1))))
	return 1
}

// tostring is Lua's function of that name; a metamethod must give a string.
func (st *state) tostring(L *lua.LState, v lua.LValue) string {
	if s, ok := text(v); ok {
		return s
	}
	if v == st.null {
		return "userdata: (nil)"
	}
	if t, ok := v.(*lua.LTable); ok && t.Metatable != lua.LNil {
		if fn := L.GetMetaField(t, "__tostring"); fn != lua.LNil {
			L.Push(fn)
			L.Push(v)
			L.Call(1, 1)
			s, ok := text(L.Get(-1))
			L.Pop(1)
			if !ok {
				L.RaiseError("'tostring' must return a string to 'print'")
			}
			return s
		}
	}
	switch v := v.(type) {
	case *lua.LFunction:
		if v.IsG {
			return fmt.Sprintf("function: builtin: %p", v)
		}
	}
	return v.String()
}

func baseType(L *lua.LState) int {
	L.Push(lua.LString(argAny(L, "type", 1).Type().String()))
	return 1
}

// maxUnpack is how many values unpack gives: what fits a thread's stack beside the rest.
const maxUnpack = registryMax / 4

func baseUnpack(L *lua.LState) int {
	t := argTable(L, "unpack", 1)
	first := optInt(L, "unpack", 2, 1)
	last := optInt(L, "unpack", 3, t.Len())
	if first > last {
		return 0
	}
	n := last - first + 1
	if n <= 0 || n > maxUnpack {
		L.RaiseError("too many results to unpack")
	}
	for i := first; i <= last; i++ {
		L.Push(t.RawGet(lua.LNumber(i)))
	}
	return n
}

func (st *state) openCoroutine() {
	base := st.library("coroutine", map[string]lua.LGFunction{
		"running": st.coRunning, "yield": st.coYield, "status": coStatus,
	})
	// What runs a coroutine is the interpreter's own; it is wrapped to bound the nesting.
	scratch := lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: 8, RegistrySize: 128})
	defer scratch.Close()
	lua.OpenCoroutine(scratch)
	original := scratch.Get(-1).(*lua.LTable)
	function := func(name string) lua.LGFunction {
		return original.RawGetString(name).(*lua.LFunction).GFunction
	}
	create, resume := function("create"), function("resume")
	base.RawSetString("create", st.L.NewFunction(func(L *lua.LState) int { return st.coCreate(L, "create", create) }))
	base.RawSetString("resume", st.L.NewFunction(func(L *lua.LState) int {
		if _, ok := L.Get(1).(*lua.LState); !ok {
			argError(L, "resume", 1, "coroutine expected")
		}
		return st.coResume(L, resume)
	}))
	base.RawSetString("wrap", st.L.NewFunction(func(L *lua.LState) int {
		st.coCreate(L, "wrap", create)
		th := L.Get(-1)
		L.Pop(1)
		L.Push(st.L.NewClosure(func(L *lua.LState) int {
			L.Insert(th, 1)
			n := st.coResume(L, resume)
			if top := L.GetTop(); L.Get(top-n+1) == lua.LFalse {
				value := L.Get(top - n + 2)
				if s, ok := value.(lua.LString); ok {
					value = lua.LString(where(L, 1)) + s
				}
				L.Error(value, 0)
			}
			return n - 1
		}, th))
		return 1
	}))
}

// coCreate makes a coroutine whose context is the script's: one that was derived from it
// would have to be cancelled.
func (st *state) coCreate(L *lua.LState, name string, create lua.LGFunction) int {
	if fn, ok := L.Get(1).(*lua.LFunction); !ok || fn.IsG {
		argError(L, name, 1, "Lua function expected")
	}
	script := L.RemoveContext()
	n := create(L)
	L.SetContext(script)
	L.Get(-1).(*lua.LState).SetContext(script)
	return n
}

func (st *state) coResume(L *lua.LState, resume lua.LGFunction) int {
	th := L.Get(1).(*lua.LState)
	switch {
	case th.Dead:
		return refuse(L, "cannot resume dead coroutine")
	case th == L, st.L.G.CurrentThread == th:
		return refuse(L, "cannot resume running coroutine")
	case th.Parent != nil:
		return refuse(L, "cannot resume normal coroutine")
	case st.nested >= nesting:
		return refuse(L, "C stack overflow")
	}
	depth, current := st.nested, st.L.G.CurrentThread
	st.nested++
	n := resume(L)
	st.nested, st.L.G.CurrentThread = depth, current
	if st.inHost {
		panic("scripting: the host panicked in a coroutine") // whose end has hidden that
	}
	return n
}

func refuse(L *lua.LState, message string) int {
	L.Push(lua.LFalse)
	L.Push(lua.LString(message))
	return 2
}

// coYield refuses where there is no coroutine to leave: in a script's own function, and in
// one that pcall called.
func (st *state) coYield(L *lua.LState) int {
	if L.Parent == nil {
		L.Error(lua.LString("attempt to yield across metamethod/C-call boundary"), 0)
	}
	return -1
}

func (st *state) coRunning(L *lua.LState) int {
	if current := st.L.G.CurrentThread; current != st.L {
		L.Push(current)
	} else {
		L.Push(lua.LNil)
	}
	return 1
}

func coStatus(L *lua.LState) int {
	th, ok := L.Get(1).(*lua.LState)
	if !ok {
		argError(L, "status", 1, "coroutine expected")
	}
	L.Push(lua.LString(L.Status(th)))
	return 1
}
