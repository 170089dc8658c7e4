package lua

import (
	"errors"
	"math"
	"math/bits"
	"strings"
)

// OpenBase fills a table, as a rule the globals, with Lua 5.1's basic functions: assert,
// collectgarbage, error, gcinfo, getfenv, getmetatable, ipairs, load, loadstring, next, pairs,
// pcall, rawequal, rawget, rawset, select, setfenv, setmetatable, tonumber, tostring, type,
// unpack, xpcall, _VERSION; and _G, which is the table itself.
func (L *State) OpenBase(globals *Table) {
	L.Register(globals, map[string]Builtin{
		"assert": baseAssert, "collectgarbage": baseCollect, "error": baseError,
		"gcinfo":  baseGCInfo,
		"getfenv": baseGetFEnv, "setfenv": baseSetFEnv,
		"getmetatable": baseGetMetatable, "setmetatable": baseSetMetatable,
		"load": baseLoad, "loadstring": baseLoadString, "pcall": PCallWith(nil),
		"xpcall":   baseXPCall,
		"rawequal": baseRawEqual, "rawget": baseRawGet, "rawset": baseRawSet,
		"select": baseSelect, "tonumber": baseToNumber, "tostring": baseToString,
		"type": baseType, "unpack": baseUnpack,
	})
	next := L.NewFunction("next", baseNext)
	next.function().builtin.iterator = iterateNext
	step := L.NewFunction("ipairs", baseIpairsStep)
	step.function().builtin.iterator = iterateIpairs
	globals.SetString(L, "next", next)
	globals.SetString(L, "pairs", L.NewFunction("pairs", loopOver(Nil), next))
	globals.SetString(L, "ipairs", L.NewFunction("ipairs", loopOver(Number(0)), step))
	globals.SetString(L, "_VERSION", Constant("Lua 5.1"))
	globals.SetString(L, "_G", globals.Value())
}

func baseAssert(L *State) int {
	if !L.CheckAny(1).Truth() {
		message := L.OptString(2, "assertion failed!")
		L.Error(L.at(1, L.String(message)))
	}
	return L.PushArgs(1)
}

// baseCollect implements collectgarbage. It collects nothing, because the Go runtime does that
// itself.
func baseCollect(L *State) int {
	option := L.OptString(1, "collect")
	L.OptInt(2, 0)
	switch option {
	case "count":
		const kilobyte = 1024
		L.PushNumber(float64(L.Allocated()) / kilobyte)
	case "step":
		L.PushBool(false)
	case "collect", "stop", "restart", "setpause", "setstepmul":
		L.PushNumber(0)
	default:
		L.OptionError(1, option)
	}
	return 1
}

func baseGCInfo(L *State) int {
	const kilobyte = 1024
	L.PushNumber(float64(L.Allocated() / kilobyte))
	return 1
}

func baseError(L *State) int {
	value, level := L.Arg(1), L.OptInt(2, 1)
	if value.isText() && level > 0 {
		value = L.at(level, value)
	}
	L.Error(value)
	return 0
}

// at returns text after the place of the function at a level. The text may be long, and join counts
// its memory before it copies.
func (L *State) at(level int, text Value) Value {
	return L.join([]Value{L.String(L.Where(level)), text})
}

// PCallWith returns a builtin like pcall. convert may replace the error before the program gets it;
// with nil the program gets the error unchanged.
func PCallWith(convert func(L *State, v Value) Value) Builtin {
	return func(L *State) int {
		L.CheckAny(1)
		co := L.running
		co.need(L, 1)
		at := co.frame().base
		copy(co.stack[at+1:co.top+1], co.stack[at:co.top])
		co.stack[at] = True
		co.top++
		if L.try(handler{}, func() { L.callAt(at+1, all) }) {
			return co.top - at
		}
		return L.caught(convert)
	}
}

// caught returns the results of a protected call that failed.
func (L *State) caught(convert func(L *State, v Value) Value) int {
	if L.interrupted.Load() {
		L.throwKilled()
	}
	v := L.thrown
	L.thrown = Nil
	if convert != nil {
		v = convert(L, v)
	}
	L.Push(False)
	L.Push(v)
	return 2
}

func baseXPCall(L *State) int {
	L.CheckAny(2)
	h := L.Arg(2)
	L.Push(True)
	L.Push(L.Arg(1))
	co := L.running
	at := co.top - 1
	if L.try(handler{lua: h, isLua: true}, func() { L.callAt(at, all) }) {
		return co.top - at + 1
	}
	return L.caught(nil)
}

func baseRawEqual(L *State) int {
	L.CheckAny(1)
	L.CheckAny(2)
	L.PushBool(L.Arg(1).RawEqual(L.Arg(2)))
	return 1
}

func baseRawGet(L *State) int {
	t := L.CheckTable(1)
	L.CheckAny(2)
	L.Push(t.Get(L.Arg(2)))
	return 1
}

func baseRawSet(L *State) int {
	t := L.CheckTable(1)
	L.CheckAny(2)
	L.CheckAny(3)
	L.RawSet(t, L.Arg(2), L.Arg(3))
	L.Push(L.Arg(1))
	return 1
}

func baseGetMetatable(L *State) int {
	meta := L.MetatableOf(L.CheckAny(1))
	if meta == nil {
		L.Push(Nil)
		return 1
	}
	if p := meta.findString(nameMetatable); p != nil && p.ref != nil {
		L.Push(*p)
		return 1
	}
	L.Push(meta.Value())
	return 1
}

func baseSetMetatable(L *State) int {
	t := L.CheckTable(1)
	meta := L.Arg(2)
	if L.NArgs() < 2 || !meta.IsNil() && !meta.isTable() {
		L.ArgError(2, "nil or table expected")
	}
	if t.meta != nil {
		if p := t.meta.findString(nameMetatable); p != nil && p.ref != nil {
			L.Errorf("cannot change a protected metatable")
		}
	}
	if t.readonly {
		L.fault(errReadonly)
	}
	t.meta = meta.AsTable()
	L.Push(L.Arg(1))
	return 1
}

func baseNext(L *State) int {
	t := L.CheckTable(1)
	key, value, ok := t.Next(L.Arg(2))
	if !ok {
		L.fault("invalid key to 'next'")
	}
	L.Push(key)
	if key.IsNil() {
		return 1
	}
	L.Push(value)
	return 2
}

// loopOver makes pairs or ipairs: a builtin whose results are its iterator, which is upvalue 1,
// the table and the first value of the control variable.
func loopOver(first Value) Builtin {
	return func(L *State) int {
		t := L.CheckTable(1)
		L.Push(L.Upvalue(1))
		L.Push(t.Value())
		L.Push(first)
		return 3
	}
}

func baseIpairsStep(L *State) int {
	i := int(int32(L.CheckInt(2) + 1))
	v := L.CheckTable(1).GetInt(i)
	if v.IsNil() {
		return 0
	}
	L.PushNumber(float64(i))
	L.Push(v)
	return 2
}

func baseSelect(L *State) int {
	n := L.NArgs()
	if s, ok := L.Arg(1).AsString(); ok && strings.HasPrefix(s, "#") {
		L.PushNumber(float64(n - 1))
		return 1
	}
	i := L.CheckInt(1)
	switch {
	case i < 0:
		i = n + i
	case i > n:
		i = n
	}
	if i < 1 {
		L.ArgError(1, "index out of range")
	}
	return L.PushArgs(i + 1)
}

func baseToNumber(L *State) int {
	base := L.OptInt(2, 10)
	if base == 10 {
		if f, ok := L.ToNumber(L.CheckAny(1)); ok {
			L.PushNumber(f)
		} else {
			L.Push(Nil)
		}
		return 1
	}
	s := L.CheckString(1)
	if base < 2 || base > 36 {
		L.ArgError(2, "base out of range")
	}
	if n, ok := parseUnsigned(s, base, L.Check); ok {
		L.PushNumber(float64(n))
	} else {
		L.Push(Nil)
	}
	return 1
}

// parseUnsigned reads a whole number as C's strtoul.
func parseUnsigned(s string, base int, look func()) (n uint64, ok bool) {
	s = cText(s, blank, look)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && (strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")) {
		s = s[2:]
	}
	over := false
	for i := range len(s) {
		if i%lookEvery == lookEvery-1 {
			look()
		}
		digit := digitValue(s[i])
		if digit >= base {
			return 0, false
		}
		high, low := bits.Mul64(n, uint64(base))
		sum, carry := bits.Add64(low, uint64(digit), 0)
		over = over || high+carry != 0
		n = sum
	}
	switch {
	case over:
		return math.MaxUint64, true
	case negative:
		n = -n
	}
	return n, s != ""
}

// digitValue returns the value of a digit in bases up to 36; 36 for any other byte.
func digitValue(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case isAlpha(c):
		return int(c|0x20-'a') + 10
	}
	return 36
}

func baseToString(L *State) int {
	L.Push(L.tostring(L.CheckAny(1)))
	return 1
}

var kindValues = func() (values [len(kindNames)]Value) {
	for i, name := range kindNames {
		values[i] = Constant(name)
	}
	return values
}()

func baseType(L *State) int {
	L.Push(kindValues[L.CheckAny(1).Kind()])
	return 1
}

func baseUnpack(L *State) int {
	t := L.CheckTable(1)
	first := L.OptInt(2, 1)
	var last int
	if L.Arg(3).IsNil() {
		last = t.Len()
	} else {
		last = L.CheckInt(3)
	}
	if first > last {
		return 0
	}
	n := last - first + 1
	if n > math.MaxInt32 || !L.HasStack(n) {
		L.Errorf("too many results to unpack")
	}
	L.EnsureStack(n)
	for i := first; i <= last; i++ {
		L.Push(t.GetInt(i))
	}
	return n
}

func baseLoadString(L *State) int {
	source := L.CheckString(1)
	return L.load(source, L.OptString(2, source))
}

// load compiles a program and pushes its function, or nil and the error. It returns the number of
// values pushed.
func (L *State) load(source, name string) int {
	p, err := L.Compile(source, name)
	L.Check()
	if err != nil {
		L.Push(Nil)
		L.Push(L.String(err.Error()))
		return 2
	}
	L.Push(L.Load(p, nil))
	return 1
}

// Compile compiles a program for this state alone and counts its memory. The compilation may use
// the memory that the state's limit leaves. Killing the state ends the compilation.
func (L *State) Compile(source, name string) (*Program, error) {
	m := &L.memory
	compile := func() (*Program, error) {
		return Compile(source, CompileOptions{Name: name, Memory: max(1, m.room-m.fresh),
			Stop: &L.interrupted, owner: L, levels: L.nested})
	}
	p, err := compile()
	if errors.Is(err, ErrMemory) { // perhaps garbage was in the way
		L.collect(0)
		if p, err = compile(); errors.Is(err, ErrMemory) {
			L.throwMemory()
		}
	}
	if err == nil {
		L.account(p.Bytes())
	}
	return p, err
}

func baseLoad(L *State) int {
	reader := L.CheckFunction(1)
	name := L.OptString(2, "=(load)")
	var source []byte
	L.Push(Nil) // source, so that it is measured while the reader runs
	ok := L.try(handler{}, func() {
		for {
			piece := L.Call(reader)
			s, ok := piece.Text()
			if piece.IsNil() || ok && s == "" {
				return
			}
			if !ok {
				L.Errorf("reader function must return a string")
			}
			if len(source)+len(s) > cap(source) {
				size := max(2*cap(source), len(source)+len(s))
				L.Reserve(size)
				source = L.Append(make([]byte, 0, size), text(source))
				L.Replace(1, own(source[:size]))
			}
			source = L.Append(source, s)
		}
	})
	if !ok {
		L.Check()
		L.Push(Nil)
		L.Push(L.thrown)
		return 2
	}
	return L.load(own(source).str().s, name)
}

// environmentOf returns the function that getfenv or setfenv names; nil: the thread itself.
func environmentOf(L *State, optional bool) *Function {
	if fn := L.Arg(1).AsFunction(); fn != nil {
		return fn
	}
	level := 1
	if !optional || !L.Arg(1).IsNil() {
		level = L.CheckInt(1)
	}
	if level < 0 {
		L.ArgError(1, "level must be non-negative")
	}
	if level == 0 {
		return nil
	}
	f, lost := L.level(level)
	switch {
	case lost:
		L.Errorf("no function environment for tail call at level %d", level)
	case f == nil:
		L.ArgError(1, "invalid level")
	}
	return f.fn
}

func baseGetFEnv(L *State) int {
	fn := environmentOf(L, true)
	if fn == nil || fn.IsBuiltin() {
		L.Push(L.globals.Value())
		return 1
	}
	L.Push(fn.env.Value())
	return 1
}

// baseSetFEnv implements setfenv, except for threads: a thread's environment would outlive the
// program.
func baseSetFEnv(L *State) int {
	env := L.CheckTable(2)
	fn := environmentOf(L, false)
	if fn == nil || fn.IsBuiltin() {
		L.Errorf("'setfenv' cannot change environment of given object")
	}
	fn.env = env
	L.Push(fn.Value())
	return 1
}

// OpenCoroutine returns the table of the coroutine library.
func (L *State) OpenCoroutine() *Table {
	t := L.NewTable(0, 8)
	L.Register(t, map[string]Builtin{
		"create": coCreate, "resume": coResume, "running": coRunningNow,
		"status": coStatus, "wrap": coWrap, "yield": (*State).yield,
	})
	return t
}

func newCoroutineOf(L *State) *Coroutine {
	fn := L.Arg(1).AsFunction()
	if fn == nil || fn.IsBuiltin() {
		L.ArgError(1, "Lua function expected")
	}
	co := L.newCoroutine()
	co.stack[1] = fn.Value()
	co.top = 2
	return co
}

func coCreate(L *State) int {
	L.Push(newCoroutineOf(L).Value())
	return 1
}

func argCoroutine(L *State) *Coroutine {
	co := L.Arg(1).AsCoroutine()
	if co == nil {
		L.ArgError(1, "coroutine expected")
	}
	return co
}

func coResume(L *State) int {
	co := argCoroutine(L)
	L.Push(True)
	at := L.running.top - 1
	n, ok := L.resumeArgs(co, 2)
	if !ok {
		L.running.stack[at] = False
	}
	return n + 1
}

// resumeArgs resumes a coroutine with the running builtin's arguments, from argument from on.
func (L *State) resumeArgs(co *Coroutine, from int) (results int, ok bool) {
	if co.status != coSuspended {
		L.Push(L.String("cannot resume " + statusNames[co.status] + " coroutine"))
		return 1, false
	}
	return L.resume(co, L.PushArgs(from))
}

func coWrap(L *State) int {
	L.Push(L.NewFunction("wrap", coWrapped, newCoroutineOf(L).Value()))
	return 1
}

func coWrapped(L *State) int {
	n, ok := L.resumeArgs(L.Upvalue(1).thread(), 1)
	if ok {
		return n
	}
	v := L.Top(1)
	if v.isText() {
		v = L.at(1, v)
	}
	L.Error(v)
	return 0
}

func coStatus(L *State) int {
	L.Push(L.String(statusNames[argCoroutine(L).status]))
	return 1
}

func coRunningNow(L *State) int {
	if co, main := L.Running(); !main {
		L.Push(co.Value())
	} else {
		L.Push(Nil)
	}
	return 1
}
