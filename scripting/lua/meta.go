package lua

// event is an operation that a metamethod may take over.
type event uint8

const (
	eventIndex event = iota
	eventNewIndex
	eventEq
	eventMode
	eventLen
	eventAdd
	eventSub
	eventMul
	eventDiv
	eventMod
	eventPow
	eventUnm
	eventLt
	eventLe
	eventConcat
	eventCall
)

func (L *State) metamethod(v Value, e event) Value              { panic("todo") }
func (L *State) typeErrorAt(co *Coroutine, at int, what string) { panic("todo") }

// Metafield gives a field of a value's metatable, "__tostring"; nil if there is none.
func (L *State) Metafield(v Value, name string) Value { panic("todo") }

// MetatableOf gives the metatable of a table or string; nil if there is none.
func (L *State) MetatableOf(v Value) *Table { panic("todo") }

// Index is v[key], with metamethods.
func (L *State) Index(v, key Value) Value { panic("todo") }

// SetIndex is v[key] = value, with metamethods; a readonly table raises an error.
func (L *State) SetIndex(v, key, value Value) { panic("todo") }

// RawSet is rawset: without metamethods; a readonly table raises an error.
func (L *State) RawSet(t *Table, key, value Value) { panic("todo") }

// Equal is a == b, with metamethods.
func (L *State) Equal(a, b Value) bool { panic("todo") }

// Less is a < b, with metamethods.
func (L *State) Less(a, b Value) bool { panic("todo") }

// ToString is what tostring gives, with the metamethod __tostring.
func (L *State) ToString(v Value) string { panic("todo") }

func (L *State) callerName() (name, what string) { panic("todo") }
