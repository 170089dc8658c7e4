package scripting

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// What a script takes of the memory. The runtime tells only how large the heap is, which others
// fill too; so growth of the heap is no more than a reason to look. The look is the script's own
// (interrupt.Done calls it between two instructions): it walks all that the interpreter can
// reach and adds that up. Strings count once however many values share them, and no string keeps
// a far longer one alive that would not count (piece).

// gauge says when to look: when the heap has grown by room since it was low, which is its least
// size since the last look. A library's state keeps it from call to call, as it keeps its values.
type gauge struct {
	mu        sync.Mutex
	low, room uint64
}

func (g *gauge) set(heap, room uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.low, g.room = heap, room
}

// grown takes in the heap's size, and says whether it is time to look.
func (g *gauge) grown(heap uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.low = min(g.low, heap)
	return heap-g.low > g.room
}

// leastRoom is the part of a script's memory by which the heap grows at least between looks, so
// that they do not take all its time.
const leastRoom = 8

// look ends the script that runs if it takes more than it may.
func (st *state) look() {
	limit := st.engine.o.Memory
	if st.interrupt.Err() != nil {
		return // it ends anyway
	}
	size := st.size(limit)
	if size > limit {
		st.engine.tell("a script was ended: it takes more memory than scripts may", "script", st.run.Name, "limit", limit)
		st.interrupt.end(ErrMemory)
		return
	}
	st.engine.looks.Add(1)
	st.gauge.set(heapSize(), uint64(max(limit-size, limit/leastRoom)))
}

// piece is a part of a string as a value. A small part of a long one is copied: it would keep
// the whole.
func piece(whole, part string) lua.LString {
	const long = 4096
	if len(whole) >= long && len(part) < len(whole)/2 {
		return lua.LString(strings.Clone(part))
	}
	return lua.LString(part)
}

// The interpreter's fields that it shows nobody.
var (
	threadStack  = fieldOf[lua.LState]("reg")
	stackValues  = innerField[[]lua.LValue](reflect.TypeFor[lua.LState](), "reg", "array")
	tableArray   = typedField[lua.LTable, []lua.LValue]("array")
	tableKeys    = typedField[lua.LTable, []lua.LValue]("keys")
	tableStrings = typedField[lua.LTable, map[string]lua.LValue]("strdict")
	tableOthers  = typedField[lua.LTable, map[lua.LValue]lua.LValue]("dict")
)

func fieldOf[Owner any](name string) uintptr { return findField(reflect.TypeFor[Owner](), name).Offset }

// typedField gives the offset of a field, which must be of a type.
func typedField[Owner, Field any](name string) uintptr {
	f := findField(reflect.TypeFor[Owner](), name)
	if f.Type != reflect.TypeFor[Field]() {
		panic(fmt.Sprintf("scripting: field %s has another type", name))
	}
	return f.Offset
}

// innerField is typedField for a field of what a field points to.
func innerField[Field any](owner reflect.Type, pointer, name string) uintptr {
	f := findField(findField(owner, pointer).Type.Elem(), name)
	if f.Type != reflect.TypeFor[Field]() {
		panic(fmt.Sprintf("scripting: field %s.%s has another type", pointer, name))
	}
	return f.Offset
}

func findField(owner reflect.Type, name string) reflect.StructField {
	f, ok := owner.FieldByName(name)
	if !ok {
		panic("scripting: the interpreter has no field " + name)
	}
	return f
}

// at gives a field by its offset.
func at[Field any](owner unsafe.Pointer, offset uintptr) *Field {
	return (*Field)(unsafe.Add(owner, offset))
}

// About what things take, in bytes.
const (
	valueSize    = int64(unsafe.Sizeof(lua.LValue(nil)))
	tableSize    = int64(unsafe.Sizeof(lua.LTable{}))
	functionSize = int64(unsafe.Sizeof(lua.LFunction{}))
	upvalueSize  = int64(unsafe.Sizeof(lua.Upvalue{}))
	threadSize   = int64(unsafe.Sizeof(lua.LState{})) + 1024 // with its first frames
	stringSize   = int64(unsafe.Sizeof("")) + 8
	numberSize   = 8
	entrySize    = 2*valueSize + 24 // of a table that is no array, with its place among the keys
	protoSize    = int64(unsafe.Sizeof(lua.FunctionProto{}))
	codeSize     = 4 + 8 // an instruction and its line
)

// size adds up what the interpreter can reach, in bytes; it ends early when that is over most.
func (st *state) size(most int64) int64 {
	m := &meter{seen: map[unsafe.Pointer]struct{}{}, most: most}
	m.later(st.globals, st.env, st.L, st.L.G.CurrentThread, st.L.G.Registry)
	for shown, real := range st.hidden {
		m.later(shown, real)
	}
	for _, th := range st.active {
		m.later(th)
	}
	for len(m.queue) > 0 && m.total <= most {
		v := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.open(v)
	}
	return m.total
}

// meter walks values. Each thing counts when it is first met; what holds others is opened later.
type meter struct {
	seen        map[unsafe.Pointer]struct{}
	queue       []lua.LValue
	total, most int64
}

// first says whether a thing has not been met.
func (m *meter) first(p unsafe.Pointer) bool {
	if p == nil {
		return false
	}
	if _, met := m.seen[p]; met {
		return false
	}
	m.seen[p] = struct{}{}
	return true
}

// later counts values; those that hold others are opened in their turn.
func (m *meter) later(values ...lua.LValue) {
	for _, v := range values {
		var p unsafe.Pointer
		switch v := v.(type) {
		case lua.LNumber:
			m.total += numberSize
			continue
		case lua.LString:
			m.total += stringSize
			m.text(string(v))
			continue
		case *lua.LTable:
			p = unsafe.Pointer(v)
		case *lua.LFunction:
			p = unsafe.Pointer(v)
		case *lua.LState:
			p = unsafe.Pointer(v)
		default:
			continue
		}
		if m.first(p) {
			m.queue = append(m.queue, v)
		}
		if m.total > m.most {
			return
		}
	}
}

// text counts a string's bytes, once.
func (m *meter) text(s string) {
	if len(s) > 0 && m.first(unsafe.Pointer(unsafe.StringData(s))) {
		m.total += int64(len(s))
	}
}

func (m *meter) open(v lua.LValue) {
	switch v := v.(type) {
	case *lua.LTable:
		m.table(v)
	case *lua.LFunction:
		m.function(v)
	case *lua.LState:
		m.thread(v)
	}
}

func (m *meter) table(t *lua.LTable) {
	p := unsafe.Pointer(t)
	array, keys := *at[[]lua.LValue](p, tableArray), *at[[]lua.LValue](p, tableKeys)
	m.total += tableSize + int64(cap(array))*valueSize + int64(cap(keys))*valueSize + int64(len(keys))*entrySize
	m.later(t.Metatable)
	m.later(array...)
	m.later(keys...)
	for key, value := range *at[map[string]lua.LValue](p, tableStrings) {
		m.text(key)
		m.later(value)
	}
	for _, value := range *at[map[lua.LValue]lua.LValue](p, tableOthers) {
		m.later(value) // the keys are among keys
	}
}

func (m *meter) function(fn *lua.LFunction) {
	m.total += functionSize + int64(cap(fn.Upvalues))*8
	if fn.Env != nil {
		m.later(fn.Env)
	}
	m.proto(fn.Proto)
	for _, up := range fn.Upvalues {
		if m.first(unsafe.Pointer(up)) {
			m.total += upvalueSize
			m.later(up.Value())
		}
	}
}

// proto counts a function's program. It is as deep as the program is nested, which is bounded.
func (m *meter) proto(p *lua.FunctionProto) {
	if !m.first(unsafe.Pointer(p)) {
		return
	}
	m.total += protoSize + int64(len(p.Code))*codeSize + int64(len(p.Constants))*(valueSize+stringSize)
	m.later(p.Constants...)
	for _, inner := range p.FunctionPrototypes {
		m.proto(inner)
	}
}

func (m *meter) thread(th *lua.LState) {
	m.total += threadSize
	if th.Parent != nil {
		m.later(th.Parent)
	}
	if th.Env != nil {
		m.later(th.Env)
	}
	stack := *at[unsafe.Pointer](unsafe.Pointer(th), threadStack)
	if stack == nil {
		return // it has ended
	}
	values := *at[[]lua.LValue](stack, stackValues)
	m.total += int64(cap(values)) * valueSize
	m.later(values...)
}

// untouched is where a gauge begins that has seen no heap.
const untouched = math.MaxUint64
