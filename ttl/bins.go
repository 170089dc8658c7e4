package ttl

import (
	"fmt"
	"slices"
)

// This file counts deadlines by time. So the number of keys that expire within a span of time is
// known without a look at each key.

const (
	// maxBins is the largest number of bins of one histogram, which then takes some 80 KB.
	maxBins = 4096
	// minBin is the number of deadlines up to which a bin of an index is never split. So many
	// deadlines are looked at one by one in a microsecond.
	minBin = 128
)

// Bins counts deadlines in bins: disjoint spans of time, in order, with gaps between them. All
// bins have about the same number of deadlines, however the deadlines are spread. A bin grows up
// to its size. When there are too many bins, the size doubles and neighbours are merged. So the
// number of deadlines in any span is known, except for those in the two bins that its ends cut.
//
// It has no lock of its own. A count is exact: only a deadline that was added may be removed.
type Bins struct {
	first, last []int64 // of each bin, inclusive; in the order of time
	n           []uint32
	max         int // how many bins there may be
	size        int // bins of up to half as many are extended, or merged with their neighbours
	least       int // the least size
	total       int
	// added, removed and counted are the bins that add, remove and Count used last. The next call
	// often needs the same bin: for equal times to live, due keys and consecutive spans.
	added, removed, counted int
}

// NewBins returns empty bins. Up to some thousand deadlines, each deadline has its own bin.
func NewBins() *Bins { return newBins(maxBins, 1) }

func newBins(max, least int) *Bins { return &Bins{max: max, size: least, least: least} }

// Span is how many deadlines are in a span of time: at least Low and at most High. Estimate is the
// number if the deadlines in a bin are spread evenly.
type Span struct{ Low, Estimate, High int64 }

// Add adds the numbers of another span.
func (s *Span) Add(o Span) {
	s.Low, s.Estimate, s.High = s.Low+o.Low, s.Estimate+o.Estimate, s.High+o.High
}

// Exact reports whether the number is known.
func (s Span) Exact() bool { return s.Low == s.High }

// Exactly returns a Span whose number is known.
func Exactly(n int64) Span { return Span{n, n, n} }

// find returns the last bin that begins at d or earlier, -1 if there is none.
func (b *Bins) find(d int64) int {
	at, n := 0, len(b.first)
	for n > 1 { // no branch here depends on d
		half := n / 2
		if b.first[at+half] <= d {
			at += half
		}
		n -= half
	}
	if n == 0 || b.first[at] > d {
		return -1
	}
	return at
}

// begins reports whether i is the result of find(d).
func (b *Bins) begins(i int, d int64) bool {
	return i < len(b.first) && b.first[i] <= d && (i+1 == len(b.first) || d < b.first[i+1])
}

// Add counts one more deadline.
func (b *Bins) Add(d int64) { b.add(d) }

// add counts one more deadline and returns the index of its bin.
func (b *Bins) add(d int64) int {
	i := b.added
	if !b.begins(i, d) {
		i = b.find(d)
	}
	if i < 0 || d > b.last[i] {
		i = b.extend(i, d)
	}
	b.n[i]++
	b.total++
	b.added = i
	return i
}

// extend makes a bin cover a deadline between the bin i and the next one, and returns that bin.
// It extends one of the two if it is small, or adds a bin.
func (b *Bins) extend(i int, d int64) int {
	if i >= 0 && int(b.n[i]) <= b.size/2 {
		if b.last[i] = d; b.n[i] == 0 {
			b.first[i] = d
		}
		return i
	}
	if next := i + 1; next < len(b.n) && int(b.n[next]) <= b.size/2 {
		if b.first[next] = d; b.n[next] == 0 {
			b.last[next] = d
		}
		return next
	}
	if len(b.n) >= b.max {
		b.merge()
		if i = b.find(d); i >= 0 && d <= b.last[i] {
			return i
		}
	}
	b.insert(i+1, d, d, 0)
	return i + 1
}

func (b *Bins) insert(i int, first, last int64, n uint32) {
	b.first = slices.Insert(b.first, i, first)
	b.last = slices.Insert(b.last, i, last)
	b.n = slices.Insert(b.n, i, n)
}

// merge merges neighbours until half of the bins are free.
func (b *Bins) merge() {
	for b.size = max(b.size/2, b.least); ; b.size *= 2 {
		end := 0
		for i, n := range b.n {
			switch {
			case n == 0:
				continue
			case end > 0 && int(b.n[end-1]+n) <= b.size/2:
				b.last[end-1], b.n[end-1] = b.last[i], b.n[end-1]+n
				continue
			}
			b.first[end], b.last[end], b.n[end] = b.first[i], b.last[i], n
			end++
		}
		b.first, b.last, b.n = b.first[:end], b.last[:end], b.n[:end]
		if end <= b.max/2 {
			return
		}
	}
}

// Remove removes a deadline. If no bin with deadlines covers it, Remove does nothing and returns
// false.
func (b *Bins) Remove(d int64) bool {
	if i := b.find(d); i < 0 || d > b.last[i] || b.n[i] == 0 {
		return false
	}
	b.remove(d)
	return true
}

// remove removes a deadline that was added before.
func (b *Bins) remove(d int64) {
	i := b.removed
	if !b.begins(i, d) {
		i = b.find(d)
	}
	b.n[i]--
	b.total--
	b.removed = i
}

// Len returns how many deadlines there are.
func (b *Bins) Len() int { return b.total }

// Last returns an instant that is not before the last deadline; ok is false if there is none.
func (b *Bins) Last() (d int64, ok bool) {
	for i := len(b.n) - 1; i >= 0; i-- {
		if b.n[i] > 0 {
			return b.last[i], true
		}
	}
	return 0, false
}

// Count counts the deadlines from one instant through another. For a bin that reaches beyond them,
// it calls cut to count the deadlines of the part. Without cut, or if cut returns false, it
// estimates.
func (b *Bins) Count(from, through int64,
	cut func(from, through int64) (n int, ok bool)) (s Span) {
	if from > through {
		return s
	}
	i := b.counted
	if !b.begins(i, from) {
		i = max(b.find(from), 0)
	}
	for ; i < len(b.n) && b.first[i] <= through; i++ {
		b.counted = i
		n := int64(b.n[i])
		if n == 0 || b.last[i] < from {
			continue
		}
		if from <= b.first[i] && b.last[i] <= through {
			s.Add(Exactly(n))
			continue
		}
		begin, end := max(from, b.first[i]), min(through, b.last[i])
		if cut != nil {
			if k, ok := cut(begin, end); ok {
				s.Add(Exactly(int64(k)))
				continue
			}
		}
		share := (float64(end-begin) + 1) / (float64(b.last[i]-b.first[i]) + 1)
		s.Add(Span{0, min(int64(float64(n)*share+0.5), n), n})
	}
	return s
}

// clear removes all deadlines.
func (b *Bins) clear() { *b = Bins{max: b.max, size: b.least, least: b.least} }

// Count counts the deadlines from one instant through another. In the bins that the ends cut, it
// reads up to about most entries, and subtracts their number from most. Beyond that it estimates.
func (x *IndexOf[K]) Count(from, through int64, most *int) Span {
	x.applyPostponed()
	if *most <= 0 {
		return x.bins.Count(from, through, nil)
	}
	return x.bins.Count(from, through, func(from, through int64) (n int, ok bool) {
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

// split splits a bin that has become too large. It reads about half of the bin's entries.
func (x *IndexOf[K]) split(i int) {
	b := x.bins
	if len(b.n) >= b.max {
		b.merge()
		return // the next add to this bin checks its size again
	}
	first, last, n := b.first[i], b.last[i], b.n[i]
	// left is how many entries are before the place where the bin is split. leftEnd is the
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
		b.first[i], b.last[i] = prev, prev
		return
	}
	b.last[i], b.n[i] = leftEnd, left
	b.insert(i+1, right, last, n-left)
}

// CheckBins reads all entries of an index, and returns an error unless its bins agree with them.
func (x *IndexOf[K]) CheckBins() error {
	x.applyPostponed()
	b, i, seen := x.bins, 0, uint32(0)
	var err error
	step := func() {
		if err == nil && seen != b.n[i] {
			err = fmt.Errorf("ttl: the bin from %d through %d counts %d deadlines and has %d",
				b.first[i], b.last[i], b.n[i], seen)
		}
		if i++; err == nil && i < len(b.n) &&
			(b.first[i] <= b.last[i-1] || b.last[i] < b.first[i]) {
			err = fmt.Errorf("ttl: the bin from %d through %d follows one through %d", b.first[i],
				b.last[i], b.last[i-1])
		}
		seen = 0
	}
	x.tree.Ascend(func(e EntryOf[K]) bool {
		for err == nil && i < len(b.n) && e.Deadline > b.last[i] {
			step()
		}
		if err == nil && (i == len(b.n) || e.Deadline < b.first[i]) {
			err = fmt.Errorf("ttl: no bin has the deadline %d", e.Deadline)
		}
		seen++
		return err == nil
	})
	for err == nil && i < len(b.n) {
		step()
	}
	if err == nil && b.total != x.tree.Len() {
		err = fmt.Errorf("ttl: bins count %d deadlines of %d", b.total, x.tree.Len())
	}
	return err
}
