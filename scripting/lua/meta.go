package lua

// event is an operation that a metamethod may replace. The events before the constant remembered
// are looked up often. So a metatable remembers which of these it lacks.
type event uint8

const (
	eventIndex event = iota
	eventNewIndex
	eventEq
	eventCall
	eventLt
	eventLe
	eventConcat
	eventLen
	eventUnm
	eventAdd
	eventSub
	eventMul
	eventDiv
	eventMod
	eventPow

	remembered = eventLen
)

var eventNames = [...]*String{
	newConstant("__index"), newConstant("__newindex"), newConstant("__eq"), newConstant("__call"),
	newConstant("__lt"),
	newConstant("__le"), newConstant("__concat"), newConstant("__len"), newConstant("__unm"),
	newConstant("__add"),
	newConstant("__sub"), newConstant("__mul"), newConstant("__div"), newConstant("__mod"),
	newConstant("__pow"),
}

var (
	nameTostring  = newConstant("__tostring")
	nameMetatable = newConstant("__metatable")
)

// maxLoop bounds a chain of __index or __newindex.
const maxLoop = 100

// MetatableOf returns the metatable of a table or string; nil if there is none.
func (L *State) MetatableOf(v Value) *Table {
	switch v.Kind() {
	case KindTable:
		return v.table().meta
	case KindString:
		return L.stringMeta
	}
	return nil
}

// Metafield returns a field of a value's metatable, such as "__tostring"; Nil if there is none.
func (L *State) Metafield(v Value, name string) Value {
	if meta := L.MetatableOf(v); meta != nil {
		return meta.GetString(name)
	}
	return Nil
}

func (L *State) metamethod(v Value, e event) Value {
	if meta := L.MetatableOf(v); meta != nil {
		return meta.event(e)
	}
	return Nil
}

// event returns the metamethod of a metatable; nil if there is none.
func (t *Table) event(e event) Value {
	if e < remembered {
		if t.absent&(1<<e) != 0 {
			return Nil
		}
		if p := t.findString(eventNames[e]); p != nil && p.ref != nil {
			return *p
		}
		t.absent |= 1 << e
		return Nil
	}
	if p := t.findString(eventNames[e]); p != nil {
		return *p
	}
	return Nil
}

// Index returns v[key], with metamethods.
func (L *State) Index(v, key Value) Value {
	L.Check() // to compare it with long keys, or with many, takes time
	for range maxLoop {
		var tm Value
		if v.isTable() {
			t := v.table()
			if p := t.find(key); p != nil && p.ref != nil {
				return *p
			}
			if t.meta == nil {
				return Nil
			}
			if tm = t.meta.event(eventIndex); tm.ref == nil {
				return Nil
			}
		} else if tm = L.metamethod(v, eventIndex); tm.ref == nil {
			L.typeError(v, "index")
		}
		if tm.Kind() == KindFunction {
			return L.Call(tm, v, key)
		}
		v = tm
	}
	L.fault("loop in gettable")
	return Nil
}

const errReadonly = "Attempt to modify a readonly table"

// SetIndex sets v[key] to value, with metamethods. A readonly table raises an error.
func (L *State) SetIndex(v, key, value Value) {
	L.Check()
	for range maxLoop {
		var tm Value
		if v.isTable() {
			t := v.table()
			if t.readonly {
				L.fault(errReadonly)
			}
			p := t.find(key)
			if p != nil && p.ref != nil || t.meta == nil {
				t.assign(L, p, key, value)
				return
			}
			if tm = t.meta.event(eventNewIndex); tm.ref == nil {
				t.assign(L, p, key, value)
				return
			}
		} else if tm = L.metamethod(v, eventNewIndex); tm.ref == nil {
			L.typeError(v, "index")
		}
		if tm.Kind() == KindFunction {
			L.callNone(tm, v, key, value)
			return
		}
		v = tm
	}
	L.fault("loop in settable")
}

// assign sets a key's value. p is the place of the present value, or nil.
func (t *Table) assign(L *State, p *Value, key, value Value) {
	if p == nil {
		t.Set(L, key, value)
		return
	}
	t.absent = 0
	*p = value
}

// RawSet implements rawset: it uses no metamethods. A readonly table raises an error.
func (L *State) RawSet(t *Table, key, value Value) {
	if t.readonly {
		L.fault(errReadonly)
	}
	t.Set(L, key, value)
}

// callNone calls a function and drops its results.
func (L *State) callNone(fn Value, args ...Value) { L.Call(fn, args...) }

// Equal reports whether a == b, with metamethods.
func (L *State) Equal(a, b Value) bool {
	if a.RawEqual(b) {
		return true
	}
	if !a.isTable() || !b.isTable() {
		return false
	}
	first, second := a.table().meta, b.table().meta
	if first == nil || second == nil {
		return false
	}
	tm := first.event(eventEq)
	if tm.ref == nil {
		return false
	}
	if first != second && !tm.RawEqual(second.event(eventEq)) {
		return false
	}
	return L.Call(tm, a, b).Truth()
}

// Less reports whether a < b, with metamethods.
func (L *State) Less(a, b Value) bool {
	if a.Kind() == b.Kind() {
		switch a.Kind() {
		case KindNumber:
			return a.number() < b.number()
		case KindString:
			return compareStrings(a.str().s, b.str().s) < 0
		}
		if result, ok := L.order(a, b, eventLt); ok {
			return result
		}
	}
	L.compareError(a, b)
	return false
}

// lessEqual reports whether a <= b, with metamethods.
func (L *State) lessEqual(a, b Value) bool {
	if a.Kind() == b.Kind() {
		switch a.Kind() {
		case KindNumber:
			return a.number() <= b.number()
		case KindString:
			return compareStrings(a.str().s, b.str().s) <= 0
		}
		if result, ok := L.order(a, b, eventLe); ok {
			return result
		}
		if result, ok := L.order(b, a, eventLt); ok {
			return !result
		}
	}
	L.compareError(a, b)
	return false
}

// order compares by a metamethod that both values must have; ok is false if they do not.
func (L *State) order(a, b Value, e event) (result, ok bool) {
	tm := L.metamethod(a, e)
	if tm.ref == nil || !tm.RawEqual(L.metamethod(b, e)) {
		return false, false
	}
	return L.Call(tm, a, b).Truth(), true
}

// compareStrings orders strings by their bytes, as C's strcoll does in the locale C.
func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// length returns #v.
func (L *State) length(v Value) Value {
	switch v.Kind() {
	case KindTable:
		return Number(float64(v.table().Len()))
	case KindString:
		return Number(float64(len(v.str().s)))
	}
	L.typeError(v, "get length of")
	return Nil
}

// arithmetic computes an operation whose operands are not both numbers.
func (L *State) arithmetic(op opcode, a, b Value) Value {
	x, okX := L.ToNumber(a)
	y, okY := L.ToNumber(b)
	if okX && okY {
		if op == opUnm {
			return Number(-x)
		}
		return Number(arith(op, x, y))
	}
	e := eventUnm
	if op != opUnm {
		e = eventAdd + event(op-opAdd)
	}
	tm := L.metamethod(a, e)
	if tm.ref == nil {
		tm = L.metamethod(b, e)
	}
	if tm.ref == nil {
		if okX {
			a = b
		}
		L.typeError(a, "perform arithmetic on")
	}
	return L.Call(tm, a, b)
}

// ToString returns the result of tostring, with the metamethod __tostring, as a string.
func (L *State) ToString(v Value) string {
	s, ok := L.tostring(v).Text()
	if !ok {
		L.Errorf("'tostring' must return a string to 'print'")
	}
	return s
}

// tostring is ToString, but returns any result that the metamethod may have.
func (L *State) tostring(v Value) Value {
	if meta := L.MetatableOf(v); meta != nil {
		if p := meta.findString(nameTostring); p != nil && p.ref != nil {
			return L.Call(*p, v)
		}
	}
	switch v.Kind() {
	case KindString:
		return v
	case KindNumber:
		return L.numberString(v.number())
	case KindNil:
		return wordNil
	case KindBoolean:
		if v.Truth() {
			return wordTrue
		}
		return wordFalse
	}
	return L.String(v.address())
}

var wordNil, wordTrue, wordFalse = Constant("nil"), Constant("true"), Constant("false")

// numberString returns a number's text as a value.
func (L *State) numberString(f float64) Value {
	var tmp [32]byte
	return L.Bytes(AppendNumber(tmp[:0], f))
}
