package lua

import "unsafe"

// Function is a closure of a program's function, or a builtin.
type Function struct {
	header
	env      *Table
	proto    *proto // nil: a builtin
	upvalues []*upvalue
	builtin  *builtin
}

// builtin is the part of a Function that only functions in Go have.
type builtin struct {
	name     string
	fn       Builtin
	upvalues []Value
	iterator iterator // set for a builtin that for loops replace
}

// upvalue is a variable that closures share. While the function that declared it runs, it is open
// and refers to a slot of the stack; afterwards it is closed and contains the value itself.
type upvalue struct {
	v      *Value
	closed Value
	next   *upvalue // open: the one below on the stack
	slot   int      // open: where v is on the stack
	mark   uint8
}

const (
	functionSize = int64(unsafe.Sizeof(Function{})) + 8
	builtinSize  = int64(unsafe.Sizeof(builtin{}))
	upvalueSize  = int64(unsafe.Sizeof(upvalue{}))
)

// Value returns the function as a value.
func (f *Function) Value() Value { return Value{ref: &f.header} }

// IsBuiltin reports whether the function is one in Go.
func (f *Function) IsBuiltin() bool { return f.proto == nil }

// Env returns the table of the function's global variables.
func (f *Function) Env() *Table { return f.env }

// SetEnv sets the table of the function's global variables.
func (f *Function) SetEnv(t *Table) { f.env = t }

// newClosure returns a function of a program, without its upvalues.
func (L *State) newClosure(p *proto, env *Table) *Function {
	n := len(p.upvalues)
	L.account(functionSize + int64(n)*8)
	L.lastID++
	f := &Function{header: header{kind: KindFunction, id: L.lastID}, env: env, proto: p}
	if n > 0 {
		f.upvalues = make([]*upvalue, n)
	}
	return f
}

// capture returns the open variable at a slot of the stack.
func (co *Coroutine) capture(L *State, slot int) *upvalue {
	at := &co.open
	for *at != nil && (*at).slot > slot {
		at = &(*at).next
	}
	if u := *at; u != nil && u.slot == slot {
		return u
	}
	L.account(upvalueSize)
	u := &upvalue{v: &co.stack[slot], slot: slot, next: *at}
	*at = u
	return u
}

// close closes the variables from a slot of the stack on.
func (co *Coroutine) close(from int) {
	for u := co.open; u != nil && u.slot >= from; u = co.open {
		co.open = u.next
		u.next = nil
		u.closed = *u.v
		u.v = &u.closed
	}
}
