// Package elementset provides a set of names of elements of one collection, for example of those
// that have changed since the last checkpoint. It stays compact even with millions of names.
package elementset

import (
	"slices"
	"sort"

	"keyp/storage/object"
)

// Set is a set of elements of a value. The zero Set is empty. A list's elements and a stream's
// entries have numbers, and pushes and pops touch neighbouring ones. So they are kept as runs, and
// a million pushes or pops need no more memory than one.
type Set struct {
	names nameSet
	runs  []run // ascending, without common numbers
}

// run is n numbers of elements, each object.NumberStep after the one before.
type run struct {
	first int64
	n     int
}

// maxRuns bounds the runs. Elements that would need more runs, as changes all over a list do, are
// kept by name, unless longRun or more of them are neighbours.
const (
	maxRuns = 64
	longRun = 16
)

// Any reports whether the set has an element.
func (m *Set) Any() bool { return m.names.Len() > 0 || len(m.runs) > 0 }

// Add adds an element of a value of a type.
func (m *Set) Add(typ object.Type, elem []byte) {
	if typ.Numbers(elem) && m.addNumber(object.ListNumber(elem)) {
		return
	}
	m.names.add(object.HashOf(elem), elem)
}

// addNumber reports whether the number is in a run now.
func (m *Set) addNumber(number int64) bool {
	next := sort.Search(len(m.runs), func(i int) bool { return m.runs[i].first > number })
	joins := next < len(m.runs) && uint64(m.runs[next].first)-uint64(number) == object.NumberStep
	if next > 0 {
		r := &m.runs[next-1]
		switch far := uint64(number) - uint64(r.first); {
		case far%object.NumberStep == 0 && far/object.NumberStep < uint64(r.n):
			return true
		case far == uint64(r.n)*object.NumberStep:
			r.n++
			if joins {
				r.n += m.runs[next].n
				m.runs = slices.Delete(m.runs, next, next+1)
			}
			return true
		case far < uint64(r.n)*object.NumberStep:
			return false // inserted between two of the run
		}
	}
	switch {
	case joins:
		m.runs[next].first = number
		m.runs[next].n++
	case len(m.runs) < maxRuns:
		m.runs = slices.Insert(m.runs, next, run{number, 1})
	default:
		return false
	}
	return true
}

// AddRun adds n elements with numbers, from the number first on.
func (m *Set) AddRun(first int64, n int) {
	// As distances from the least number, they are in order.
	at := func(number int64) uint64 { return uint64(number) ^ 1<<63 }
	const step = object.NumberStep
	begin := at(first)
	end := begin + uint64(n-1)*step // the last one
	// The runs from i up to j meet the new one.
	i := sort.Search(len(m.runs), func(i int) bool {
		r := m.runs[i]
		return at(r.first)+uint64(r.n-1)*step >= max(begin, step)-step
	})
	j, aligned := i, true
	for ; j < len(m.runs) && (at(m.runs[j].first) <= end || at(m.runs[j].first)-end <= step); j++ {
		r := m.runs[j]
		aligned = aligned && (at(r.first)-begin)%step == 0
		begin, end = min(begin, at(r.first)), max(end, at(r.first)+uint64(r.n-1)*step)
	}
	if !aligned || i == j && len(m.runs) >= maxRuns && n < longRun {
		for ; n > 0; n-- {
			key := object.ListKey(first)
			m.Add(object.TypeList, key[:])
			first += step
		}
		return
	}
	m.runs = slices.Replace(m.runs, i, j, run{int64(begin ^ 1<<63), int((end-begin)/step) + 1})
}

// Merge adds the elements of others.
func (m *Set) Merge(other Set) {
	if !m.Any() {
		*m = other
		return
	}
	other.names.take(func(elem []byte) bool {
		m.Add(object.None, elem)
		return true
	})
	for _, r := range other.runs {
		m.AddRun(r.first, r.n)
	}
}

// Take removes elements from the set and visits each, until fn returns false or none is left. fn
// gets the element's present value and deadline in v; ok is false if v does not have the element.
func (m *Set) Take(v object.Value, fn func(elem, val []byte, deadline int64, ok bool) bool) {
	for len(m.runs) > 0 {
		r := &m.runs[0]
		more := r.take(v.(object.Numbered), fn)
		if r.n == 0 {
			m.runs = m.runs[1:]
		}
		if !more {
			return
		}
	}
	more := true
	m.names.take(func(elem []byte) bool {
		val, deadline, ok := v.Element(elem)
		more = fn(elem, val, deadline, ok)
		return more
	})
	if more {
		*m = Set{}
	}
}

// take is Take for a run. It returns what fn returned last.
func (r *run) take(v object.Numbered, fn func(elem, val []byte, deadline int64,
	ok bool) bool) bool {
	more := true
	var key [8]byte
	visit := func(val []byte, ok bool) {
		key = object.ListKey(r.first)
		more = fn(key[:], val, 0, ok)
		r.first += object.NumberStep
		r.n--
	}
	v.From(r.first, func(number int64, val []byte) bool {
		for more && r.n > 0 && r.first < number {
			visit(nil, false)
		}
		if more && r.n > 0 && r.first == number {
			visit(val, true)
		}
		return more && r.n > 0
	})
	for more && r.n > 0 {
		visit(nil, false)
	}
	return more
}

// Count returns how many elements the set has.
func (m *Set) Count() (n int) {
	for _, r := range m.runs {
		n += r.n
	}
	return n + m.names.Len()
}

// Touches reports whether the set has an element with a number from first to last, both numbers of
// a stream.
func (m *Set) Touches(first, last int64) bool {
	i := sort.Search(len(m.runs), func(i int) bool {
		return m.runs[i].first+int64(m.runs[i].n-1)*object.NumberStep >= first
	})
	if i < len(m.runs) && m.runs[i].first <= last {
		return true
	}
	for number := first; m.names.Len() > 0 && number <= last; number += object.NumberStep {
		key := object.ListKey(number)
		if m.names.has(object.HashOf(key[:]), key[:]) {
			return true
		}
	}
	return false
}
