package object

import (
	"cmp"
	"math"
	"slices"
)

// Deadlines visits the deadlines of elements, those of a large value in order from the first one behind after on and each
// once, until visit returns false.
func (m *members) Deadlines(after int64, visit func(deadline int64) bool) {
	if m.big == nil {
		if m.small.has(flagEx) {
			m.small.walk(func(_, _ []byte, deadline int64) bool { return deadline == 0 || visit(deadline) })
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

// byDeadline visits the elements that have a deadline, the earliest first, until visit returns false.
func (m *members) byDeadline(visit func(entry) bool) {
	if m.big == nil {
		m.small.walk(func(elem, val []byte, deadline int64) bool {
			return deadline != 0 && visit(entry{key: elem, val: val, deadline: deadline})
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

// latest is the last deadline of an element, 0 if none has one.
func (m *members) latest() (last int64) {
	if m.big == nil {
		m.Deadlines(0, func(at int64) bool {
			last = max(last, at)
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

// CountAt is the number of elements with a deadline.
func (m *members) CountAt(deadline int64) (n int) {
	if m.big != nil {
		_, n = m.big.ranksAt(deadline, &path{})
		return n
	}
	m.Deadlines(0, func(at int64) bool {
		if at == deadline {
			n++
		}
		return true
	})
	return n
}

// DueAt visits the elements with a deadline in the order of a hash, from a hash on, until visit returns false: more is true
// then, and next is the hash of that element. Without a hash it is the one by which the value finds its elements; then a large
// value of which more than most elements have the deadline looks at about most of all, and next says where to go on. With one
// all that have the deadline are looked at. What visit is given is valid until the value changes.
func (m *members) DueAt(deadline int64, from uint32, most int, hash func(elem []byte) uint32, visit func(elem []byte, hash uint32) bool) (next uint32, more bool) {
	type one struct {
		hash uint32
		elem []byte
	}
	var list []one
	if hash == nil {
		hash = hashOf
	} else {
		most = math.MaxInt
	}
	add := func(elem []byte) {
		if h := hash(elem); h >= from {
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

// dueAt adds the elements with a deadline: all of them if they are most at the most, otherwise those with the hashes from
// one on and before next, and perhaps further ones with lower hashes.
func (d *dict) dueAt(deadline int64, from uint32, most int, add func(elem []byte)) (next uint32, more bool) {
	var p path
	if _, n := d.ranksAt(deadline, &p); n <= most {
		for range n {
			_, pos, _ := p.entry()
			add(d.entry(pos).key)
			p.next()
		}
		return 0, false
	}
	next = d.index.scan(from, most, func(pos uint32) {
		if e := d.entry(pos); e.deadline == deadline {
			add(e.key)
		}
	})
	return next, next != 0
}

// ranksAt leads p to the first element with a deadline in the order of deadlines, and gives its rank and how many there are.
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
