package ttl

import (
	"fmt"
	"slices"
)

const (
	// maxCells is the largest number of cells in a Cells, which then takes some 80 KB.
	maxCells = 4096
	// minCell is the size of an index's cells while it has few entries. The entries of such a cell
	// are counted in a microsecond.
	minCell = 128
)

// Cells counts deadlines in cells: disjoint spans of time, in order, with gaps between them. All
// cells have about the same number of deadlines, however the deadlines are spread. A cell grows up
// to its size. When there are too many cells, the size doubles and neighbours are merged. So the
// number of deadlines in any span is known, except for those in the two cells that its ends cut.
//
// It has no lock of its own. A count is exact: only a deadline that was added may be removed.
type Cells struct {
	first, last []int64 // of each cell, inclusive; in the order of time
	n           []uint32
	max         int // how many cells there may be
	size        int // cells of up to half as many are extended, or merged with their neighbours
	least       int // the least size
	total       int
	// added, removed and counted are the cells that add, remove and Count used last. The next call
	// often needs the same cell: for equal times to live, due keys and consecutive spans.
	added, removed, counted int
}

// NewCells returns empty cells. Up to some thousand deadlines, each deadline has its own cell.
func NewCells() *Cells { return newCells(maxCells, 1) }

func newCells(max, least int) *Cells { return &Cells{max: max, size: least, least: least} }

// Span is how many deadlines are in a span of time: at least Low and at most High. Estimate is the
// number if the deadlines in a cell are spread evenly.
type Span struct{ Low, Estimate, High int64 }

// Add adds the numbers of another span.
func (s *Span) Add(o Span) {
	s.Low, s.Estimate, s.High = s.Low+o.Low, s.Estimate+o.Estimate, s.High+o.High
}

// Exact reports whether the number is known.
func (s Span) Exact() bool { return s.Low == s.High }

// Exactly returns a Span whose number is known.
func Exactly(n int64) Span { return Span{n, n, n} }

// find returns the last cell that begins at d or earlier, -1 if there is none.
func (c *Cells) find(d int64) int {
	at, n := 0, len(c.first)
	for n > 1 { // no branch here depends on d
		half := n / 2
		if c.first[at+half] <= d {
			at += half
		}
		n -= half
	}
	if n == 0 || c.first[at] > d {
		return -1
	}
	return at
}

// begins reports whether i is the result of find(d).
func (c *Cells) begins(i int, d int64) bool {
	return i < len(c.first) && c.first[i] <= d && (i+1 == len(c.first) || d < c.first[i+1])
}

// Add counts one more deadline.
func (c *Cells) Add(d int64) { c.add(d) }

// add counts one more deadline and returns the index of its cell.
func (c *Cells) add(d int64) int {
	i := c.added
	if !c.begins(i, d) {
		i = c.find(d)
	}
	if i < 0 || d > c.last[i] {
		i = c.extend(i, d)
	}
	c.n[i]++
	c.total++
	c.added = i
	return i
}

// extend makes a cell cover a deadline between the cell i and the next one, and returns that cell.
// It extends one of the two if it is small, or adds a cell.
func (c *Cells) extend(i int, d int64) int {
	if i >= 0 && int(c.n[i]) <= c.size/2 {
		if c.last[i] = d; c.n[i] == 0 {
			c.first[i] = d
		}
		return i
	}
	if next := i + 1; next < len(c.n) && int(c.n[next]) <= c.size/2 {
		if c.first[next] = d; c.n[next] == 0 {
			c.last[next] = d
		}
		return next
	}
	if len(c.n) >= c.max {
		c.merge()
		if i = c.find(d); i >= 0 && d <= c.last[i] {
			return i
		}
	}
	c.insert(i+1, d, d, 0)
	return i + 1
}

func (c *Cells) insert(i int, first, last int64, n uint32) {
	c.first = slices.Insert(c.first, i, first)
	c.last = slices.Insert(c.last, i, last)
	c.n = slices.Insert(c.n, i, n)
}

// merge merges neighbours until half of the cells are free.
func (c *Cells) merge() {
	for c.size = max(c.size/2, c.least); ; c.size *= 2 {
		end := 0
		for i, n := range c.n {
			switch {
			case n == 0:
				continue
			case end > 0 && int(c.n[end-1]+n) <= c.size/2:
				c.last[end-1], c.n[end-1] = c.last[i], c.n[end-1]+n
				continue
			}
			c.first[end], c.last[end], c.n[end] = c.first[i], c.last[i], n
			end++
		}
		c.first, c.last, c.n = c.first[:end], c.last[:end], c.n[:end]
		if end <= c.max/2 {
			return
		}
	}
}

// Remove removes a deadline. If no cell with deadlines covers it, Remove does nothing and returns
// false.
func (c *Cells) Remove(d int64) bool {
	if i := c.find(d); i < 0 || d > c.last[i] || c.n[i] == 0 {
		return false
	}
	c.remove(d)
	return true
}

// remove removes a deadline that was added before.
func (c *Cells) remove(d int64) {
	i := c.removed
	if !c.begins(i, d) {
		i = c.find(d)
	}
	c.n[i]--
	c.total--
	c.removed = i
}

// Len returns how many deadlines there are.
func (c *Cells) Len() int { return c.total }

// Last returns an instant that is not before the last deadline; ok is false if there is none.
func (c *Cells) Last() (d int64, ok bool) {
	for i := len(c.n) - 1; i >= 0; i-- {
		if c.n[i] > 0 {
			return c.last[i], true
		}
	}
	return 0, false
}

// Count counts the deadlines from one instant through another. For a cell that reaches beyond them,
// it calls cut to count the deadlines of the part. Without cut, or if cut returns false, it
// estimates.
func (c *Cells) Count(from, through int64,
	cut func(from, through int64) (n int, ok bool)) (s Span) {
	if from > through {
		return s
	}
	i := c.counted
	if !c.begins(i, from) {
		i = max(c.find(from), 0)
	}
	for ; i < len(c.n) && c.first[i] <= through; i++ {
		c.counted = i
		n := int64(c.n[i])
		if n == 0 || c.last[i] < from {
			continue
		}
		if from <= c.first[i] && c.last[i] <= through {
			s.Add(Exactly(n))
			continue
		}
		begin, end := max(from, c.first[i]), min(through, c.last[i])
		if cut != nil {
			if k, ok := cut(begin, end); ok {
				s.Add(Exactly(int64(k)))
				continue
			}
		}
		share := (float64(end-begin) + 1) / (float64(c.last[i]-c.first[i]) + 1)
		s.Add(Span{0, min(int64(float64(n)*share+0.5), n), n})
	}
	return s
}

// clear removes all deadlines.
func (c *Cells) clear() { *c = Cells{max: c.max, size: c.least, least: c.least} }

// Count counts the deadlines from one instant through another. In the cells that the ends cut, it
// reads up to about most entries, and subtracts their number from most. Beyond that it estimates.
func (x *IndexOf[K]) Count(from, through int64, most *int) Span {
	x.applyPostponed()
	if *most <= 0 {
		return x.cells.Count(from, through, nil)
	}
	return x.cells.Count(from, through, func(from, through int64) (n int, ok bool) {
		if *most <= 0 {
			return 0, false
		}
		ok = true
		x.Walk(from, func(e EntryOf[K]) bool {
			if e.Deadline > through {
				return false
			}
			n++
			ok = n <= *most
			return ok
		})
		*most -= n
		return n, ok
	})
}

// split splits a cell that has become too large. It reads about half of the cell's entries.
func (x *IndexOf[K]) split(i int) {
	c := x.cells
	if len(c.n) >= c.max {
		c.merge()
		return // the next add to this cell checks its size again
	}
	first, last, n := c.first[i], c.last[i], c.n[i]
	// left is how many entries are before the place where the cell is split. leftEnd is the
	// last deadline before that place, and right is the first one after it.
	seen, left, leftEnd, right := uint32(0), uint32(0), int64(0), int64(0)
	prev := first
	var least K
	x.tree.AscendGreaterOrEqual(EntryOf[K]{first, least}, func(e EntryOf[K]) bool {
		if e.Deadline > last {
			return false
		}
		if seen > 0 && e.Deadline != prev {
			left, leftEnd, right = seen, prev, e.Deadline
		}
		prev = e.Deadline
		seen++
		return left == 0 || seen <= n/2
	})
	if left == 0 { // all have the same deadline
		c.first[i], c.last[i] = prev, prev
		return
	}
	c.last[i], c.n[i] = leftEnd, left
	c.insert(i+1, right, last, n-left)
}

// CheckCells reads all entries of an index, and returns an error unless its cells agree with them.
func (x *IndexOf[K]) CheckCells() error {
	x.applyPostponed()
	c, i, seen := x.cells, 0, uint32(0)
	var err error
	step := func() {
		if err == nil && seen != c.n[i] {
			err = fmt.Errorf("ttl: the cell from %d through %d counts %d deadlines and has %d",
				c.first[i], c.last[i], c.n[i], seen)
		}
		if i++; err == nil && i < len(c.n) &&
			(c.first[i] <= c.last[i-1] || c.last[i] < c.first[i]) {
			err = fmt.Errorf("ttl: the cell from %d through %d follows one through %d", c.first[i],
				c.last[i], c.last[i-1])
		}
		seen = 0
	}
	x.tree.Ascend(func(e EntryOf[K]) bool {
		for err == nil && i < len(c.n) && e.Deadline > c.last[i] {
			step()
		}
		if err == nil && (i == len(c.n) || e.Deadline < c.first[i]) {
			err = fmt.Errorf("ttl: no cell has the deadline %d", e.Deadline)
		}
		seen++
		return err == nil
	})
	for err == nil && i < len(c.n) {
		step()
	}
	if err == nil && c.total != x.tree.Len() {
		err = fmt.Errorf("ttl: cells count %d deadlines of %d", c.total, x.tree.Len())
	}
	return err
}
