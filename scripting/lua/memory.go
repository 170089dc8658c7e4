package lua

import (
	"math"
	"math/bits"
)

// memory counts the bytes that a state's program uses. Every allocation adds to fresh. When fresh
// passes room, the state measures everything reachable and sets live to the sum. So garbage counts
// until the next measurement, and memory in use always counts.
type memory struct {
	limit int64
	live  int64
	fresh int64
	room  int64 // limit - live
	epoch uint8 // of the last measurement: objects marked with it have been seen
}

// reserve is the part of the limit that must be free after a measurement. With less, the state
// would measure all the time.
const reserve = 16

func (m *memory) init() { m.limit, m.room = math.MaxInt64, math.MaxInt64 }

// SetMemoryLimit bounds the memory of the state's programs, including libraries, in bytes; 0 means
// no bound. It measures the memory that is already in use.
func (L *State) SetMemoryLimit(limit int64) {
	m := &L.memory
	if limit <= 0 {
		m.init()
		m.fresh = 0
		return
	}
	m.limit = limit
	m.live, m.fresh = L.measure(), 0
	m.room = limit - m.live
}

// Memory measures and returns the memory that is reachable in the state, in bytes. Values that only
// Go variables refer to are not counted.
func (L *State) Memory() int64 { return L.measure() }

// Allocated returns how much was allocated and not yet found to be garbage, in bytes. It is never
// above the limit.
func (L *State) Allocated() int64 { return L.memory.live + L.memory.fresh }

// Reserve counts n more bytes, and ends the program with ErrMemory unless they fit the limit. A
// builtin calls it before it makes something large that is not a value.
func (L *State) Reserve(n int) {
	if n < 0 {
		L.throwMemory()
	}
	L.account(int64(n))
}

// account counts an allocation before it is made, and ends the program if the limit leaves no room.
func (L *State) account(n int64) {
	L.memory.fresh += n
	if L.memory.fresh > L.memory.room {
		L.collect(n)
	}
}

// collect measures the reachable memory, and ends the program unless n more bytes fit the limit.
func (L *State) collect(n int64) {
	m := &L.memory
	m.fresh = 0
	m.live = L.measure()
	m.room = m.limit - m.live
	if n > m.room-m.limit/reserve {
		L.seams.noMemory()
		L.throwMemory()
	}
	m.fresh = n
}

// roundBytes returns about how many bytes the allocator takes for n bytes.
func roundBytes(n int64) int64 {
	switch {
	case n <= 0:
		return 0
	case n <= 8:
		return 8
	case n <= 128:
		return (n + 15) &^ 15
	case n <= 32<<10:
		step := int64(1) << (bits.Len64(uint64(n-1)) - 4)
		return (n + step - 1) &^ (step - 1)
	}
	const page = 8 << 10
	return (n + page - 1) &^ (page - 1)
}

// meter adds up the reachable memory. It queues objects before it follows their references, so a
// deep structure needs no deep Go stack.
type meter struct {
	L     *State
	epoch uint8
	total int64
	queue []*header
}

// measure adds up everything that is reachable from the state.
func (L *State) measure() int64 {
	L.memory.epoch++
	if L.memory.epoch == 0 {
		L.memory.epoch = 1
	}
	m := &meter{L: L, epoch: L.memory.epoch}
	for co := L.running; co != nil; co = co.resumer {
		m.object(&co.header)
	}
	m.object(&L.main.header)
	m.object(&L.globals.header)
	m.object(&L.registry.header)
	if L.stringMeta != nil {
		m.object(&L.stringMeta.header)
	}
	m.value(L.thrown)
	for _, h := range L.handlers {
		m.value(h.lua)
	}
	const look = 1024
	for n := 0; len(m.queue) > 0; n++ {
		if n%look == 0 {
			L.Check()
		}
		h := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.open(h)
	}
	return m.total
}

func (m *meter) value(v Value) {
	if v.ref != nil {
		m.object(v.ref)
	}
}

// object counts an object when it is first met.
func (m *meter) object(h *header) {
	if h.shared || h.mark == m.epoch {
		return
	}
	h.mark = m.epoch
	if h.kind == KindString {
		m.total += stringBytes(len(h.str().s))
		return
	}
	m.queue = append(m.queue, h)
}

// open counts an object's contents and queues the objects it refers to.
func (m *meter) open(h *header) {
	switch h.kind {
	case KindTable:
		m.table(h.table())
	case KindFunction:
		m.function(h.function())
	case KindThread:
		m.coroutine(h.thread())
	}
}

func (m *meter) table(t *Table) {
	m.total += tableSize + roundBytes(int64(len(t.array))*valueSize) +
		roundBytes(int64(len(t.nodes))*nodeSize)
	if t.meta != nil {
		m.object(&t.meta.header)
	}
	const look = 1 << 16
	for i, v := range t.array {
		if i%look == 0 {
			m.L.Check()
		}
		m.value(v)
	}
	for i := range t.nodes {
		if i%look == 0 {
			m.L.Check()
		}
		n := &t.nodes[i]
		m.value(n.key)
		m.value(n.value)
	}
}

func (m *meter) function(f *Function) {
	m.total += functionSize
	if f.env != nil {
		m.object(&f.env.header)
	}
	if b := f.builtin; b != nil {
		m.total += builtinSize + int64(len(b.upvalues))*valueSize
		for _, v := range b.upvalues {
			m.value(v)
		}
		return
	}
	m.total += int64(len(f.upvalues)) * 8
	for _, u := range f.upvalues {
		if u != nil && u.mark != m.epoch {
			u.mark = m.epoch
			m.total += upvalueSize
			m.value(*u.v)
		}
	}
	if p := f.proto.program; p.owner == m.L && p.mark != m.epoch {
		p.mark = m.epoch
		m.total += p.Bytes()
	}
}

// coroutine counts a stack. Values beyond its top are not used any more: it clears them, for the
// garbage collector.
func (m *meter) coroutine(co *Coroutine) {
	m.total += coroutineSize + roundBytes(int64(len(co.stack))*valueSize) +
		roundBytes(int64(cap(co.frames))*frameSize)
	top := co.top
	for i := range co.frames {
		f := &co.frames[i]
		if f.fn == nil {
			continue
		}
		m.object(&f.fn.header)
		if f.fn.proto != nil {
			top = max(top, f.base+f.fn.proto.maxStack)
		}
	}
	top = min(top, len(co.stack))
	for _, v := range co.stack[:top] {
		m.value(v)
	}
	clear(co.stack[top:])
	if co.resumer != nil {
		m.object(&co.resumer.header)
	}
}
