package lua

import (
	"math"
	"strconv"
	"unsafe"
)

// Kind is the type of a value.
type Kind uint8

const (
	KindNil Kind = iota
	KindBoolean
	KindUserdata
	KindNumber
	KindString
	KindTable
	KindFunction
	KindThread
)

var kindNames = [...]string{"nil", "boolean", "userdata", "number", "string", "table",
	"function", "thread"}

// String returns the kind's name in Lua.
func (k Kind) String() string { return kindNames[k] }

// header is the first field of every object that a Value refers to, so a Value needs only a pointer
// to find its kind. Objects that more than one state refers to (constants of programs) are never
// written after they are made; shared says so.
type header struct {
	kind   Kind
	mark   uint8 // of the last measurement that has seen the object
	shared bool
	id     uint32 // hash of objects without content to hash; 0 for strings
}

// Value is a Lua value. The zero Value is nil.
//
//	nil       ref nil
//	boolean   ref &falseHeader or &trueHeader
//	number    ref &numberHeader, bits the float64
//	userdata  ref &userdataHeader, bits the number that the light userdata is
//	others    ref the header at the start of a String, Table, Function or Coroutine
//
// A pointer to the first field of an object is a pointer to the object for the garbage
// collector; kind tells the type as which the object was allocated. Only this file makes these
// conversions.
type Value struct {
	ref  *header
	bits uint64
}

var (
	falseHeader    = header{kind: KindBoolean, shared: true}
	trueHeader     = header{kind: KindBoolean, shared: true}
	numberHeader   = header{kind: KindNumber, shared: true}
	userdataHeader = header{kind: KindUserdata, shared: true}

	Nil   = Value{}
	True  = Value{ref: &trueHeader, bits: 1}
	False = Value{ref: &falseHeader}
)

// Number returns f as a value.
func Number(f float64) Value { return Value{&numberHeader, math.Float64bits(f)} }

// Bool returns b as a value.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// LightUserdata returns a userdata that is no more than a number; equal numbers are equal values.
func LightUserdata(n uint64) Value { return Value{&userdataHeader, n} }

// Kind returns the value's type.
func (v Value) Kind() Kind {
	if v.ref == nil {
		return KindNil
	}
	return v.ref.kind
}

// IsNil reports whether the value is nil.
func (v Value) IsNil() bool { return v.ref == nil }

// Truth returns the value's truth in a condition: false for nil and false, true for all others.
func (v Value) Truth() bool { return v.ref != nil && v.ref != &falseHeader }

func (v Value) isNumber() bool  { return v.ref == &numberHeader }
func (v Value) number() float64 { return math.Float64frombits(v.bits) }

func (v Value) isString() bool { return v.ref != nil && v.ref.kind == KindString }
func (v Value) isTable() bool  { return v.ref != nil && v.ref.kind == KindTable }

func (v Value) str() *String        { return (*String)(unsafe.Pointer(v.ref)) }
func (v Value) table() *Table       { return (*Table)(unsafe.Pointer(v.ref)) }
func (v Value) function() *Function { return (*Function)(unsafe.Pointer(v.ref)) }
func (v Value) thread() *Coroutine  { return (*Coroutine)(unsafe.Pointer(v.ref)) }

func (h *header) table() *Table       { return (*Table)(unsafe.Pointer(h)) }
func (h *header) str() *String        { return (*String)(unsafe.Pointer(h)) }
func (h *header) function() *Function { return (*Function)(unsafe.Pointer(h)) }
func (h *header) thread() *Coroutine  { return (*Coroutine)(unsafe.Pointer(h)) }

// AsNumber returns a number; ok is false for anything else, text of a number included.
func (v Value) AsNumber() (f float64, ok bool) {
	if v.isNumber() {
		return v.number(), true
	}
	return 0, false
}

// AsString returns a string's bytes; ok is false for anything else, numbers included.
func (v Value) AsString() (s string, ok bool) {
	if v.isString() {
		return v.str().s, true
	}
	return "", false
}

// AsBool returns a boolean; ok is false for anything else.
func (v Value) AsBool() (b, ok bool) {
	if v.Kind() == KindBoolean {
		return v.ref == &trueHeader, true
	}
	return false, false
}

// AsTable returns a table; nil for anything else.
func (v Value) AsTable() *Table {
	if v.isTable() {
		return v.table()
	}
	return nil
}

// AsFunction returns a function; nil for anything else.
func (v Value) AsFunction() *Function {
	if v.Kind() == KindFunction {
		return v.function()
	}
	return nil
}

// AsCoroutine returns a coroutine; nil for anything else.
func (v Value) AsCoroutine() *Coroutine {
	if v.Kind() == KindThread {
		return v.thread()
	}
	return nil
}

// AsUserdata returns the number of a light userdata; ok is false for anything else.
func (v Value) AsUserdata() (n uint64, ok bool) {
	if v.ref == &userdataHeader {
		return v.bits, true
	}
	return 0, false
}

// ToNumber returns a number, or the value of a string that contains one; ok is false for anything
// else.
func (L *State) ToNumber(v Value) (f float64, ok bool) {
	switch v.Kind() {
	case KindNumber:
		return v.number(), true
	case KindString:
		return L.ParseNumber(v.str().s)
	}
	return 0, false
}

// Text returns a string, or a number as text; ok is false for anything else.
func (v Value) Text() (s string, ok bool) {
	switch v.Kind() {
	case KindString:
		return v.str().s, true
	case KindNumber:
		return FormatNumber(v.number()), true
	}
	return "", false
}

// RawEqual reports whether two values are equal without metamethods. NaN equals nothing.
func (v Value) RawEqual(w Value) bool {
	if v.ref == w.ref {
		switch v.ref {
		case &numberHeader:
			return v.number() == w.number()
		case &userdataHeader:
			return v.bits == w.bits
		}
		return true
	}
	return v.isString() && w.isString() && v.str().s == w.str().s
}

// address returns the text that tostring gives for a value without a text of its own, "table: 0x…".
// It is made from the object's number, so it does not reveal an address of the process.
func (v Value) address() string {
	const base, step = 0x7f5a00000000, 0x20
	switch {
	case v.ref == &userdataHeader && v.bits == 0:
		return "userdata: (nil)"
	case v.ref == &userdataHeader:
		return "userdata: 0x" + strconv.FormatUint(v.bits, 16)
	}
	return v.Kind().String() + ": 0x" + strconv.FormatUint(base+step*uint64(v.ref.id), 16)
}
