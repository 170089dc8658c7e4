package object

import (
	"bytes"
	"math"
	"unsafe"

	"keyp/storage/hashtable"
)

// members is the common part of hashes, sets and sorted sets: elements with a key, a value and
// perhaps a deadline, in the small form or in the large one.
//
// The order of the small form is Redis's. Sorted sets are in the order of score and member. Hashes
// and sets begin with the elements that have a deadline, by deadline; the others follow as they
// were added. The large form has no order.
type members struct {
	small packed
	big   *dict // if not nil there is no small form any more
}

// rule has the properties in which the types differ.
type rule struct {
	scored  bool // ordered by score
	entries int  // how many elements the small form may have
	size    int  // how long keys, and values that are no scores, may be in it
}

// Len returns the number of elements, including those that are due and not yet removed.
func (m *members) Len() int {
	if m.big != nil {
		return m.big.len()
	}
	return m.small.len()
}

// Bytes returns the memory used, in bytes.
func (m *members) Bytes() int {
	n := int(unsafe.Sizeof(*m)) + cap(m.small)
	if m.big != nil {
		n += m.big.bytes()
	}
	return n
}

// get returns an element; ok is false if there is no such element.
func (m *members) get(key []byte) (e entry, ok bool) {
	if m.big != nil {
		pos, ok := m.big.find(key)
		if !ok {
			return entry{}, false
		}
		return m.big.entry(pos), true
	}
	_, e, ok = m.small.find(key)
	return e, ok
}

// Element returns an element's value and deadline; ok is false if there is no such element.
func (m *members) Element(elem []byte) (val []byte, deadline int64, ok bool) {
	e, ok := m.get(elem)
	return e.val, e.deadline, ok
}

// put sets an element and reports whether it is new.
func (m *members) put(r rule, key, val []byte, deadline int64) (created bool) {
	if m.big != nil {
		return m.big.put(key, val, deadline)
	}
	off, e, ok := m.small.find(key)
	room := r.entries
	if ok && r.scored { // Redis looks at the length of hashes also when a field changes
		room = math.MaxInt
	} else if !ok {
		room--
	}
	if len(key) > r.size || !r.scored && len(val) > r.size || m.small.len() > room {
		m.grow(r)
		return m.big.put(key, val, deadline)
	}
	if ok {
		same := e.deadline == deadline
		if r.scored {
			same = bytes.Equal(e.val, val)
		}
		if same {
			m.small.replace(off, e, val, deadline)
			return false
		}
		m.small.remove(off, e.size)
	}
	m.small.insert(m.place(r, key, val, deadline), key, val, deadline)
	if r.scored {
		m.small[0] |= flagScored
	}
	return !ok
}

// place returns the offset in the small form at which a new element belongs.
func (m *members) place(r rule, key, val []byte, deadline int64) (off int) {
	switch {
	case r.scored:
		off, _ = m.small.seek(lessThan(ScoreOf(val), key))
	case deadline != 0:
		off, _ = m.small.seek(func(e entry) bool {
			return e.deadline != 0 && e.deadline <= deadline
		})
	default:
		off = max(len(m.small), packedHead)
	}
	return off
}

// lessThan returns a function that is true for the elements of a sorted set before (score, member).
func lessThan(score float64, member []byte) func(e entry) bool {
	return func(e entry) bool {
		s := ScoreOf(e.val)
		return s < score || s == score && bytes.Compare(e.key, member) < 0
	}
}

// grow changes the value to its large form.
func (m *members) grow(r rule) {
	m.big = newDict(r.scored)
	m.small.walk(func(elem, val []byte, deadline int64) bool {
		m.big.put(elem, val, deadline)
		return true
	})
	m.small = nil
}

// reserve changes the value to its large form if n elements are too many for the small form.
func (m *members) reserve(r rule, n int) {
	if m.big == nil && n > r.entries {
		m.grow(r)
	}
}

// delete removes an element and reports whether it existed.
func (m *members) delete(key []byte) bool {
	if m.big != nil {
		pos, ok := m.big.find(key)
		if ok {
			m.big.remove(pos)
		}
		return ok
	}
	off, e, ok := m.small.find(key)
	if ok {
		m.small.remove(off, e.size)
	}
	return ok
}

// Remove removes an element, if it exists.
func (m *members) Remove(elem []byte) { m.delete(elem) }

// at returns element number i, in an order that lasts until the next change. Sorted sets use ranks
// instead.
func (m *members) at(i int) entry {
	if m.big != nil {
		return m.big.entry(uint32(i))
	}
	return entryAt(m.small[m.small.at(i):])
}

// Walk visits all elements until fn returns false.
func (m *members) Walk(fn func(elem, val []byte, deadline int64) bool) {
	if m.big == nil {
		m.small.walk(fn)
		return
	}
	for pos := range m.big.dense.n {
		if m.big.isHole(uint32(pos)) {
			continue
		}
		if e := m.big.entry(uint32(pos)); !fn(e.key, e.val, e.deadline) {
			return
		}
	}
}

// Scan visits about count elements from cursor on; 0 is the beginning. It returns the next cursor;
// 0: there are no more. It visits all elements of a small value at once.
//
// The cursor is a hash, and elements are visited in the order of their hashes. So an element that
// is there all the time is visited once, whatever else is added or removed. This holds even if the
// value leaves memory and is loaded again: hashes do not change while the process runs.
func (m *members) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	if m.big == nil {
		m.small.walk(func(elem, val []byte, deadline int64) bool {
			fn(elem, val, deadline)
			return true
		})
		return 0
	}
	return uint64(m.big.index.Scan(uint32(cursor), count, func(c hashtable.Cell) {
		e := m.big.entry(c.Ref())
		fn(e.key, e.val, e.deadline)
	}))
}

// Earliest returns the first deadline of an element; 0 if none has one.
func (m *members) Earliest() int64 {
	if m.big != nil {
		return m.big.earliest()
	}
	_, e, _ := m.firstDue(math.MaxInt64)
	return e.deadline
}

// firstDue returns, for the small form, the element with the first deadline up to now.
func (m *members) firstDue(now int64) (off int, first entry, ok bool) {
	if !m.small.has(flagEx) {
		return 0, entry{}, false
	}
	for at := packedHead; at < len(m.small); {
		e := entryAt(m.small[at:])
		if e.deadline != 0 && e.deadline <= now && (!ok || e.deadline < first.deadline) {
			off, first, ok = at, e, true
		}
		if !m.small.has(flagScored) {
			break // the first entry has the first deadline
		}
		at += e.size
	}
	return off, first, ok
}

// LenAt returns the number of elements that have no deadline or one after now.
func (m *members) LenAt(now int64) int {
	if m.big != nil {
		return m.big.len() - m.big.dueBy(now)
	}
	n := m.small.len()
	if m.small.has(flagEx) {
		m.small.walk(func(_, _ []byte, deadline int64) bool {
			due := deadline != 0 && deadline <= now
			if due {
				n--
			}
			return due || m.small.has(flagScored)
		})
	}
	return n
}

// Due removes at most limit elements whose deadline is now or before, the earliest first. It passes
// each to fn before the removal, and returns how many they are.
func (m *members) Due(now int64, limit int, fn func(elem, val []byte, deadline int64)) int {
	for n := range limit {
		if m.big != nil {
			if at := m.big.earliest(); at == 0 || at > now {
				return n
			}
			var p path
			m.big.due.seekRank(&p, 0)
			_, pos, _ := p.entry()
			e := m.big.entry(pos)
			fn(e.key, e.val, e.deadline)
			m.big.remove(pos)
			continue
		}
		off, e, ok := m.firstDue(now)
		if !ok {
			return n
		}
		fn(e.key, e.val, e.deadline)
		m.small.remove(off, e.size)
	}
	return limit
}
