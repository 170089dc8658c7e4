package lua

// NArgs returns the number of arguments of the running builtin.
func (L *State) NArgs() int { return L.running.frame().nargs }

// Arg returns argument i, from 1 on; Nil if there is none.
func (L *State) Arg(i int) Value {
	co := L.running
	f := co.frame()
	if i > f.nargs {
		return Nil
	}
	return co.stack[f.base+i-1]
}

// SetArg changes argument i, which must exist.
func (L *State) SetArg(i int, v Value) {
	co := L.running
	co.stack[co.frame().base+i-1] = v
}

// Upvalue returns upvalue i, from 1 on, of the running builtin.
func (L *State) Upvalue(i int) Value { return L.running.frame().fn.builtin.upvalues[i-1] }

// SetUpvalue changes an upvalue.
func (L *State) SetUpvalue(i int, v Value) { L.running.frame().fn.builtin.upvalues[i-1] = v }

// Push adds a result.
func (L *State) Push(v Value) {
	co := L.running
	if co.top >= len(co.stack)-stackSlack {
		co.grow(L, co.top+1)
	}
	co.stack[co.top] = v
	co.top++
}

// PushNumber adds a number as a result.
func (L *State) PushNumber(f float64) { L.Push(Number(f)) }

// PushBool adds a boolean as a result.
func (L *State) PushBool(b bool) { L.Push(Bool(b)) }

// PushArgs pushes the arguments from i on, as results or for CallTop, and returns their number.
func (L *State) PushArgs(i int) int {
	n := L.NArgs() - i + 1
	if n <= 0 {
		return 0
	}
	co := L.running
	co.need(L, n)
	from := co.frame().base + i - 1
	copy(co.stack[co.top:co.top+n], co.stack[from:from+n])
	co.top += n
	return n
}

// EnsureStack makes sure that n more values can be pushed. It raises "stack overflow" if C's Lua
// has no room for so many.
func (L *State) EnsureStack(n int) {
	co := L.running
	if n > maxBuiltinStack || co.top-co.frame().base+n > maxBuiltinStack {
		L.Errorf("stack overflow")
	}
	co.need(L, n)
}

// HasStack reports whether EnsureStack allows n more values.
func (L *State) HasStack(n int) bool {
	co := L.running
	return n <= maxBuiltinStack && co.top-co.frame().base+n <= maxBuiltinStack
}

// typeName returns the name of an argument's type for an error.
func (L *State) typeName(i int) string {
	if i > L.NArgs() {
		return "no value"
	}
	return L.Arg(i).Kind().String()
}

// ArgError raises "bad argument #i to 'function' (message)".
func (L *State) ArgError(i int, message string) {
	name, what := L.callerName()
	if what == "method" {
		i--
		if i == 0 {
			L.Errorf("calling '%s' on bad self (%s)", name, message)
		}
	}
	if name == "" {
		name = "?"
	}
	L.Errorf("bad argument #%d to '%s' (%s)", i, name, message)
}

// OptionError raises the error for an argument that is none of the expected words.
func (L *State) OptionError(i int, word string) {
	L.Reserve(len(word))
	L.ArgError(i, "invalid option '"+word+"'")
}

// TypeError raises the error for an argument of a type other than want.
func (L *State) TypeError(i int, want string) {
	L.ArgError(i, want+" expected, got "+L.typeName(i))
}

// CheckAny returns argument i and raises an error if there is none.
func (L *State) CheckAny(i int) Value {
	if i > L.NArgs() {
		L.ArgError(i, "value expected")
	}
	return L.Arg(i)
}

// CheckTable returns argument i and raises an error unless it is a table.
func (L *State) CheckTable(i int) *Table {
	v := L.Arg(i)
	if !v.isTable() {
		L.TypeError(i, "table")
	}
	return v.table()
}

// CheckFunction returns argument i and raises an error unless it is a function.
func (L *State) CheckFunction(i int) Value {
	v := L.Arg(i)
	if v.Kind() != KindFunction {
		L.TypeError(i, "function")
	}
	return v
}

// CheckString returns argument i as text. It raises an error unless it is a string or a number.
func (L *State) CheckString(i int) string {
	v := L.Arg(i)
	if v.isString() {
		return v.str().s
	}
	s, ok := v.Text()
	if !ok {
		L.TypeError(i, "string")
	}
	return s
}

// CheckStringValue is CheckString, but returns a Value.
func (L *State) CheckStringValue(i int) Value {
	if v := L.Arg(i); v.isString() {
		return v
	}
	return L.String(L.CheckString(i))
}

// OptString is CheckString, but returns other for a missing argument or nil.
func (L *State) OptString(i int, other string) string {
	if L.Arg(i).IsNil() {
		return other
	}
	return L.CheckString(i)
}

// CheckNumber returns argument i. It raises an error unless it is a number or text of one.
func (L *State) CheckNumber(i int) float64 {
	v := L.Arg(i)
	if v.isNumber() {
		return v.number()
	}
	f, ok := L.ToNumber(v)
	if !ok {
		L.TypeError(i, "number")
	}
	return f
}

// OptNumber is CheckNumber, but returns other for a missing argument or nil.
func (L *State) OptNumber(i int, other float64) float64 {
	if L.Arg(i).IsNil() {
		return other
	}
	return L.CheckNumber(i)
}

// CheckInt returns a number as C's int: truncated, then cut to 32 bits as x86-64 does it.
func (L *State) CheckInt(i int) int { return int(int32(ToInteger(L.CheckNumber(i)))) }

// OptInt is CheckInt, but returns other for a missing argument or nil.
func (L *State) OptInt(i, other int) int {
	if L.Arg(i).IsNil() {
		return other
	}
	return L.CheckInt(i)
}

// CheckInteger returns a number as Lua 5.1's lua_Integer of 64 bits: truncated.
func (L *State) CheckInteger(i int) int { return int(ToInteger(L.CheckNumber(i))) }

// OptInteger is CheckInteger, but returns other for a missing argument or nil.
func (L *State) OptInteger(i, other int) int {
	if L.Arg(i).IsNil() {
		return other
	}
	return L.CheckInteger(i)
}
