package lua

import (
	"math"
	"math/bits"
	"unsafe"
)

// Table is a Lua table: an array for keys 1 to len(array) and a hash part. Lua 5.1's rules decide
// the sizes of both, and how the hash part places, chains and frees its nodes. Programs can see the
// outcome: the length of a table with gaps, and the order of pairs.
//
//	array   n slots so that more than half of 1..n are in use; n is a power of two, unless
//	        a constructor asked for another number
//	nodes   a power of two. A key goes to its main position. If a key is there already that has
//	        the same main position, the new key goes to the last free node, in the same chain.
//	        If the key there has another main position, that key moves to the free node. When
//	        no free node is left, the sizes of both parts are chosen again for all keys.
type Table struct {
	header
	array    []Value
	nodes    []node
	meta     *Table
	free     int32 // nodes from here up are, or were, in use
	absent   uint8 // metamethods (bits of event) that this table, as a metatable, lacks
	readonly bool
}

// node is a key and its value. A key whose value is nil stays until the next rehash, so that next
// can continue from it.
type node struct {
	key, value Value
	hash       uint32 // of a string key
	next       int32  // number of the next node of the chain, plus one; 0: none
}

const (
	tableSize = int64(unsafe.Sizeof(Table{}))
	valueSize = int64(unsafe.Sizeof(Value{}))
	nodeSize  = int64(unsafe.Sizeof(node{}))

	// maxArrayBits bounds the array part, as in Lua 5.1.
	maxArrayBits = 26
	// maxNodeBits bounds the hash part.
	maxNodeBits = 30
)

// NewTable returns a table with room for elements in the array and others in the hash part.
func (L *State) NewTable(elements, others int) *Table {
	L.account(tableSize)
	L.lastID++
	t := &Table{header: header{kind: KindTable, id: L.lastID}}
	if elements > 0 || others > 0 {
		t.resize(L, elements, others)
	}
	return t
}

// Value returns the table as a value.
func (t *Table) Value() Value { return Value{ref: &t.header} }

// Metatable returns the metatable; nil if there is none.
func (t *Table) Metatable() *Table { return t.meta }

// SetMetatable sets the metatable, even of a readonly table; nil removes it.
func (t *Table) SetMetatable(meta *Table) { t.meta = meta }

// SetReadonly makes every write by a program to the table, or to its metatable, raise an error. The
// Set methods still write.
func (t *Table) SetReadonly(on bool) { t.readonly = on }

// Readonly reports whether programs may not write to the table.
func (t *Table) Readonly() bool { return t.readonly }

// Get returns a key's value without metamethods; Nil if there is none.
func (t *Table) Get(key Value) Value {
	if p := t.find(key); p != nil {
		return *p
	}
	return Nil
}

// GetInt returns the value of the key i; Nil if there is none.
func (t *Table) GetInt(i int) Value {
	if uint(i-1) < uint(len(t.array)) {
		return t.array[i-1]
	}
	if p := t.findNumber(float64(i)); p != nil {
		return *p
	}
	return Nil
}

// GetString returns the value of the key name; Nil if there is none.
func (t *Table) GetString(name string) Value {
	if len(t.nodes) == 0 {
		return Nil
	}
	h := hashString(name)
	n := &t.nodes[h&uint32(len(t.nodes)-1)]
	for {
		if n.hash == h && n.key.isString() && n.key.str().s == name {
			return n.value
		}
		if n.next == 0 {
			return Nil
		}
		n = &t.nodes[n.next-1]
	}
}

// find returns the place of a key's value; nil if the table has no such key.
func (t *Table) find(key Value) *Value {
	switch key.Kind() {
	case KindNil:
		return nil
	case KindString:
		return t.findString(key.str())
	case KindNumber:
		f := key.number()
		if i := int(f); uint(i-1) < uint(len(t.array)) && float64(i) == f {
			return &t.array[i-1]
		}
		return t.findNumber(f)
	}
	if len(t.nodes) == 0 {
		return nil
	}
	n := &t.nodes[t.position(key)]
	for n.key.ref != key.ref || n.key.bits != key.bits {
		if n.next == 0 {
			return nil
		}
		n = &t.nodes[n.next-1]
	}
	return &n.value
}

func (t *Table) findString(s *String) *Value {
	nodes := t.nodes
	if len(nodes) == 0 {
		return nil
	}
	if !s.hashed {
		s.hash, s.hashed = hashString(s.s), true
	}
	n := &nodes[s.hash&uint32(len(nodes)-1)]
	for {
		if n.key.ref == &s.header || n.hash == s.hash && n.key.isString() && n.key.str().s == s.s {
			return &n.value
		}
		if n.next == 0 {
			return nil
		}
		n = &nodes[n.next-1]
	}
}

// findNumber returns the place of a number's value in the hash part; nil if there is none.
func (t *Table) findNumber(f float64) *Value {
	if len(t.nodes) == 0 {
		return nil
	}
	n := &t.nodes[numberPosition(f, len(t.nodes))]
	for n.key.ref != &numberHeader || n.key.number() != f {
		if n.next == 0 {
			return nil
		}
		n = &t.nodes[n.next-1]
	}
	return &n.value
}

// position returns the number of a key's main node.
func (t *Table) position(key Value) uint32 {
	mask := uint32(len(t.nodes) - 1)
	switch key.Kind() {
	case KindString:
		return key.str().hashOf() & mask
	case KindNumber:
		return numberPosition(key.number(), len(t.nodes))
	case KindBoolean:
		return uint32(key.bits) & mask
	case KindUserdata:
		return uint32(key.bits) % (mask | 1)
	}
	return key.ref.id % (mask | 1)
}

func numberPosition(f float64, nodes int) uint32 {
	if f == 0 {
		return 0 // negative zero is the same key
	}
	b := math.Float64bits(f)
	return (uint32(b) + uint32(b>>32)) % uint32((nodes-1)|1)
}

// Set sets a key's value without metamethods, even in a readonly table. The value Nil removes the
// key. Set raises an error for the keys nil and NaN.
func (t *Table) Set(L *State, key, value Value) {
	t.absent = 0
	if p := t.find(key); p != nil {
		*p = value
		return
	}
	switch {
	case key.ref == nil:
		L.fault("table index is nil")
	case key.ref == &numberHeader && key.number() != key.number():
		L.fault("table index is NaN")
	}
	*t.insert(L, key) = value
}

// SetInt sets the value of the key i.
func (t *Table) SetInt(L *State, i int, value Value) {
	if uint(i-1) < uint(len(t.array)) {
		t.array[i-1] = value
		return
	}
	t.Set(L, Number(float64(i)), value)
}

// SetString sets the value of the key name, whose bytes are not copied.
func (t *Table) SetString(L *State, name string, value Value) {
	t.Set(L, L.String(name), value)
}

// insert adds a key that the table does not have, and returns the place of its value.
func (t *Table) insert(L *State, key Value) *Value {
	if len(t.nodes) == 0 {
		t.rehash(L, key)
		return t.place(L, key)
	}
	at := t.position(key)
	main := &t.nodes[at]
	if main.value.ref != nil {
		free, ok := t.freeNode()
		if !ok {
			t.rehash(L, key)
			return t.place(L, key)
		}
		n := &t.nodes[free]
		if other := t.position(main.key); other != at {
			// main's key does not belong here: it moves, and the key comes here.
			before := &t.nodes[other]
			for before.next != int32(at)+1 {
				before = &t.nodes[before.next-1]
			}
			before.next = int32(free) + 1
			*n = *main
			main.next = 0
			main.value = Nil
		} else {
			n.next = main.next
			main.next = int32(free) + 1
			main = n
		}
	}
	main.key = key
	main.hash = 0
	if key.isString() {
		main.hash = key.str().hashOf()
	}
	return &main.value
}

// place returns the place of a key's value. It inserts the key if the table does not have it.
func (t *Table) place(L *State, key Value) *Value {
	if p := t.find(key); p != nil {
		return p
	}
	return t.insert(L, key)
}

// freeNode returns the last node that never had a key.
func (t *Table) freeNode() (at uint32, ok bool) {
	for t.free > 0 {
		t.free--
		if t.nodes[t.free].key.ref == nil {
			return uint32(t.free), true
		}
	}
	return 0, false
}

// arrayIndex returns a key that is a whole number of 32 bits; ok is false for other keys.
func arrayIndex(key Value) (i int, ok bool) {
	if key.ref != &numberHeader {
		return 0, false
	}
	f := key.number()
	if !(f >= math.MinInt32 && f <= math.MaxInt32) {
		return 0, false
	}
	i = int(f)
	return i, float64(i) == f
}

// census counts whole-number keys by powers of two. Slot b counts the keys above 2^(b-1) and up to
// 2^b.
type census [maxArrayBits + 1]int

// add counts a key, and reports whether the key may be in an array.
func (c *census) add(key Value) bool {
	i, ok := arrayIndex(key)
	if !ok || i < 1 || i > 1<<maxArrayBits {
		return false
	}
	c[bits.Len(uint(i-1))]++
	return true
}

// arraySize returns the size of the array for the counted keys: the largest n with more than half
// of 1..n in use. It also returns the number of keys in that array.
func (c *census) arraySize(total int) (size, used int) {
	sum := 0
	for b, half := 0, 0; b < len(c) && half < total; b++ {
		sum += c[b]
		if sum > half {
			size, used = 1<<b, sum
		}
		half = 1 << b
		if sum == total {
			break
		}
	}
	return size, used
}

// rehash sizes both parts for the keys in use and one more.
func (t *Table) rehash(L *State, extra Value) {
	var c census
	elements, total := 0, 1
	for b, from := 0, 0; b < len(c) && from < len(t.array); b++ {
		to := min(1<<b, len(t.array))
		for _, v := range t.array[from:to] {
			if v.ref != nil {
				c[b]++
				elements++
			}
		}
		from = to
	}
	total += elements
	for i := range t.nodes {
		if n := &t.nodes[i]; n.value.ref != nil {
			if c.add(n.key) {
				elements++
			}
			total++
		}
	}
	if c.add(extra) {
		elements++
	}
	size, used := c.arraySize(elements)
	t.resize(L, size, total-used)
}

// resize changes the sizes of both parts and puts every key where it then belongs.
func (t *Table) resize(L *State, elements, others int) {
	nodes := 0
	if others > 0 {
		nodes = bits.Len(uint(others - 1))
		if nodes > maxNodeBits || elements > 1<<maxNodeBits {
			L.fault("table overflow")
		}
		nodes = 1 << nodes
	}
	oldArray, oldNodes, oldFree := t.array, t.nodes, t.free
	size := roundBytes(int64(nodes) * nodeSize)
	if elements != len(oldArray) {
		size += roundBytes(int64(elements) * valueSize)
	}
	L.account(size) // the old parts are there as well until the keys have moved
	if elements > len(oldArray) {
		t.array = make([]Value, elements)
		copy(t.array, oldArray)
	} else if elements < len(oldArray) {
		t.array = append([]Value(nil), oldArray[:elements]...)
		t.array = t.array[:elements:elements]
	}
	t.nodes, t.free = nil, 0
	if nodes > 0 {
		t.nodes, t.free = make([]node, nodes), int32(nodes)
	}
	// Keys that collide by a program's choice take quadratic time. A kill restores the old table.
	restore := func() { t.array, t.nodes, t.free = oldArray, oldNodes, oldFree }
	for i := elements; i < len(oldArray); i++ {
		if L.ends() {
			restore()
			L.throwKilled()
		}
		if v := oldArray[i]; v.ref != nil {
			*t.place(L, Number(float64(i+1))) = v
		}
	}
	for i := len(oldNodes) - 1; i >= 0; i-- {
		if L.ends() {
			restore()
			L.throwKilled()
		}
		if n := &oldNodes[i]; n.value.ref != nil {
			*t.place(L, n.key) = n.value
		}
	}
}

// Len returns the result of #: a whole number n so that n is 0 or in the table and n+1 is not. If
// there are several, the sizes of the parts decide.
func (t *Table) Len() int {
	if n := len(t.array); n > 0 && t.array[n-1].ref == nil {
		low, high := 0, n
		for high-low > 1 {
			if middle := (low + high) / 2; t.array[middle-1].ref == nil {
				high = middle
			} else {
				low = middle
			}
		}
		return low
	}
	if len(t.nodes) == 0 {
		return len(t.array)
	}
	return t.unboundLen()
}

// unboundLen is Len for a table whose array is full: it continues in the hash part.
func (t *Table) unboundLen() int {
	low, high := len(t.array), len(t.array)+1
	for !t.GetInt(high).IsNil() {
		low = high
		high *= 2
		if high > math.MaxInt32-2 {
			// Only a table made for that gets here: count one by one.
			n := 1
			for !t.GetInt(n).IsNil() {
				n++
			}
			return n - 1
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; t.GetInt(middle).IsNil() {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// Next returns the key after key, and its value. The first key comes after Nil, and Nil after the
// last key. Between two calls values may change and keys may be removed, but none may be added. ok
// is false if the table never had key.
func (t *Table) Next(key Value) (next, value Value, ok bool) {
	at, ok := t.index(key)
	if !ok {
		return Nil, Nil, false
	}
	next, value = t.nextFrom(at)
	return next, value, true
}

// index returns the number of slots and nodes up to key, including it.
func (t *Table) index(key Value) (at int, ok bool) {
	if key.ref == nil {
		return 0, true
	}
	if i, ok := arrayIndex(key); ok && i >= 1 && i <= len(t.array) {
		return i, true
	}
	if len(t.nodes) == 0 {
		return 0, false
	}
	at = int(t.position(key))
	for {
		n := &t.nodes[at]
		if n.key.RawEqual(key) {
			return len(t.array) + at + 1, true
		}
		if n.next == 0 {
			return 0, false
		}
		at = int(n.next) - 1
	}
}

// nextFrom returns the first key that has a value from slot or node number at on.
func (t *Table) nextFrom(at int) (key, value Value) {
	for ; at < len(t.array); at++ {
		if v := t.array[at]; v.ref != nil {
			return Number(float64(at + 1)), v
		}
	}
	for i := at - len(t.array); i < len(t.nodes); i++ {
		if n := &t.nodes[i]; n.value.ref != nil {
			return n.key, n.value
		}
	}
	return Nil, Nil
}
