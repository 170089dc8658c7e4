package object

import (
	"cmp"
	"math"
	"slices"

	"keyp/storage/hashtable"
)

// Deadlines visits the deadlines of elements, in order and each once, until visit returns false. It
// begins with the first deadline later than the argument after.
func (m *members) Deadlines(after int64, visit func(deadline int64) bool) {
	if m.big == nil {
		var list []int64
		m.byDeadline(func(e entry) bool {
			if e.deadline > after {
				list = append(list, e.deadline)
			}
			return true
		})
		slices.Sort(list)
		for _, deadline := range slices.Compact(list) {
			if !visit(deadline) {
				return
			}
		}
		return
	}
	for m.big.due.n > 0 {
		var p path
		m.big.seekDue(&p, after+1, 0)
		key, _, ok := p.entry()
		if !ok || !visit(int64(key)) {
			return
		}
		if after = int64(key); after == math.MaxInt64 {
			return
		}
	}
}

// byDeadline visits the elements that have a deadline until visit returns false, the earliest first
// if the value is large.
func (m *members) byDeadline(visit func(entry) bool) {
	if m.big == nil {
		if !m.small.has(flagEx) {
			return
		}
		m.small.walk(func(elem, val []byte, deadline int64) bool {
			return deadline == 0 || visit(entry{key: elem, val: val, deadline: deadline})
		})
		return
	}
	if m.big.due.n == 0 {
		return
	}
	var p path
	m.big.due.seekRank(&p, 0)
	for ok := true; ok; ok = p.next() {
		if _, pos, _ := p.entry(); !visit(m.big.entry(pos)) {
			return
		}
	}
}

// latest returns the last deadline of an element; 0 if none has one.
func (m *members) latest() (last int64) {
	if m.big == nil {
		m.byDeadline(func(e entry) bool {
			last = max(last, e.deadline)
			return true
		})
		return last
	}
	if n := m.big.due.n; n > 0 {
		var p path
		m.big.due.seekRank(&p, n-1)
		key, _, _ := p.entry()
		last = int64(key)
	}
	return last
}

// DueAt visits the elements that have this deadline, in the order of their hashes, from the hash
// from on. If visit returns false, more is true and next is the hash of that element. If more than
// most elements have the deadline, a large value examines only about most of all its elements. Then
// more reports whether elements are left, and next is the hash to continue from. Elements are valid
// until the value changes. Hashes differ after a restart.
func (m *members) DueAt(deadline int64, from uint32, most int,
	visit func(elem []byte, hash uint32) bool) (next uint32, more bool) {
	type one struct {
		hash uint32
		elem []byte
	}
	var list []one
	add := func(elem []byte) {
		if h := cursorOf(elem); h >= from {
			list = append(list, one{h, elem})
		}
	}
	switch {
	case m.big != nil:
		next, more = m.big.dueAt(deadline, from, most, add)
	case m.small.has(flagEx):
		m.small.walk(func(elem, _ []byte, at int64) bool {
			if at == deadline {
				add(elem)
			}
			return true
		})
	}
	slices.SortFunc(list, func(a, b one) int { return cmp.Compare(a.hash, b.hash) })
	for _, e := range list {
		if !visit(e.elem, e.hash) {
			return e.hash, true
		}
	}
	return next, more
}

// dueAt passes the elements that have this deadline to add. If there are at most most, it passes
// all. Otherwise it passes those with hashes from from up to next, and perhaps some with lower
// hashes.
func (d *dict) dueAt(deadline int64, from uint32, most int,
	add func(elem []byte)) (next uint32, more bool) {
	var p path
	if _, n := d.ranksAt(deadline, &p); n <= most {
		for range n {
			_, pos, _ := p.entry()
			add(d.entry(pos).key)
			p.next()
		}
		return 0, false
	}
	next = d.index.Scan(from, most, func(c hashtable.Cell) {
		if e := d.entry(c.Ref()); e.deadline == deadline {
			add(e.key)
		}
	})
	return next, next != 0
}

// ranksAt moves p to the first element with this deadline, in the order of deadlines. It returns
// that element's rank, and how many elements have the deadline.
func (d *dict) ranksAt(deadline int64, p *path) (rank, n int) {
	if d.due.n == 0 {
		return 0, 0
	}
	end := d.due.n
	if deadline != math.MaxInt64 {
		d.seekDue(p, deadline+1, 0)
		end = p.rank()
	}
	d.seekDue(p, deadline, 0)
	rank = p.rank()
	return rank, end - rank
}
