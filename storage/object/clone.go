package object

import (
	"slices"

	"keyp/internal/bigcopy"
)

// A clone has the form of the value that it was made from, whatever the Thresholds are now. It
// shares no memory with that value.

// Clone returns a copy.
func (s *String) Clone() Value { return &String{Data: bigcopy.Clone(s.Data)} }

// Clone returns a copy.
func (h *Hash) Clone() Value { return &Hash{h.clone()} }

// Clone returns a copy.
func (s *Set) Clone() Value { return &Set{s.clone()} }

// Clone returns a copy.
func (z *ZSet) Clone() Value { return &ZSet{z.clone()} }

func (m *members) clone() members {
	if m.big == nil {
		return members{small: slices.Clone(m.small)}
	}
	big := newDict(m.big.scores != nil)
	shared := 0
	m.Walk(func(elem, val []byte, deadline int64) bool {
		if size := entrySize(elem, val, deadline); sharesBlock(size) {
			shared += size
		}
		return shared < blockSize
	})
	big.reserve(m.big.len(), shared)
	m.Walk(func(elem, val []byte, deadline int64) bool {
		big.put(elem, val, deadline)
		return true
	})
	return members{big: big}
}

// Clone returns a copy in which elements have the same numbers.
func (l *List) Clone() Value {
	if l.many == nil {
		return &List{one: l.one.clone()}
	}
	c := &chunks{size: l.many.size}
	for _, from := range l.many.all[l.many.head:] {
		to := from.clone()
		c.all = append(c.all, &to)
		c.allocated += cap(to.mem)
	}
	return &List{many: c}
}

// Clone returns a copy in which entries, groups and consumers have the same numbers. Runs that are
// absent stay absent in the copy, until Whole.
func (s *Stream) Clone() Value {
	// The bookmark is not read: a checkpoint may set it meanwhile.
	to := Stream{live: s.live, tail: s.tail, end: s.end, meta: s.meta, made: s.made}
	to.meta.aging = s.meta.aging.clone()
	to.runs = make([]*streamRun, 0, len(s.runs))
	for _, r := range s.runs {
		to.insertRun(len(to.runs), r.clone())
	}
	to.cold = s.cold.clone()
	to.groups = s.groups.clone()
	if s.iids != nil {
		to.iids = s.iids.clone()
	}
	return &to
}

func (c *chunk) clone() chunk {
	to := *c
	to.mem = slices.Clone(c.mem)
	return to
}
