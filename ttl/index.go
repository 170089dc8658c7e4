package ttl

import (
	"cmp"
	"sync/atomic"

	"github.com/google/btree"
)

// degree of the B-tree: a node holds up to 2*degree-1 entries. With 1M entries in random order, 32
// is fastest at replacing and takes 25 bytes an entry. 16 takes 39; 64 saves one byte but is 10%
// slower at replacing (BenchmarkIndex).
const degree = 32

// EntryOf is one deadline and the key that has it. ID is unique among the live
// entries of an index and otherwise opaque to it.
type EntryOf[K cmp.Ordered] struct {
	Deadline int64 // Unix milliseconds, never None
	ID       K
}

// IndexOf keeps deadlines in the order (Deadline, ID).
//
// It has no lock of its own: all methods but Next need the shard's. An id has at
// most one entry, provided that Set gets the deadline that the index has.
type IndexOf[K cmp.Ordered] struct {
	tree  *btree.BTreeG[EntryOf[K]]
	first EntryOf[K]   // the earliest entry, if the tree has any
	next  atomic.Int64 // first.Deadline or None, for readers without the lock
	bins  *Bins        // counts the entries of the tree; nil: no counts are needed
	// postponed has the entries that are in the tree and in bins at an earlier deadline than their
	// own (postponed.go).
	postponed map[K]move
}

// Entry and Index are for keys in memory, which the store identifies by a number. An
// Entry is 16 bytes without pointers, so the collector never looks inside.
type (
	Entry = EntryOf[uint64]
	Index = IndexOf[uint64]
)

// NamedEntry and NamedIndex are for keys that are only on disk, identified by name.
type (
	NamedEntry = EntryOf[string]
	NamedIndex = IndexOf[string]
)

// NewIndex returns an empty index of numbered keys.
func NewIndex() *Index { return newIndex[uint64]() }

// NewCounted returns an empty index of numbered keys that can Count, and postpones moves.
func NewCounted() *Index {
	x := newIndex[uint64]()
	x.bins = newBins(maxBins, minBin)
	x.postponed = map[uint64]move{}
	return x
}

// NewNamedIndex returns an empty index of named keys.
func NewNamedIndex() *NamedIndex { return newIndex[string]() }

func newIndex[K cmp.Ordered]() *IndexOf[K] {
	return &IndexOf[K]{tree: btree.NewG(degree, EntryOf[K].Before)}
}

// Before reports whether e comes before o in an index.
func (e EntryOf[K]) Before(o EntryOf[K]) bool {
	if e.Deadline != o.Deadline {
		return e.Deadline < o.Deadline
	}
	return e.ID < o.ID
}

// Set moves id from the deadline old to new. old must be the deadline that the index has for id, or
// None if it has none. If new is None, id is removed. O(log n).
func (x *IndexOf[K]) Set(id K, old, new int64) {
	if old == new || x.postpone(id, old, new) {
		return
	}
	x.set(id, x.place(id, old), new)
}

// set does the work of Set in the tree.
func (x *IndexOf[K]) set(id K, old, new int64) {
	stale := false
	if old != None {
		gone := EntryOf[K]{old, id}
		x.tree.Delete(gone)
		stale = gone == x.first
		if x.bins != nil {
			x.bins.remove(old)
		}
	}
	if new != None {
		e := EntryOf[K]{new, id}
		x.tree.ReplaceOrInsert(e)
		if x.bins != nil {
			x.count(new)
		}
		if x.tree.Len() == 1 || e.Before(x.first) {
			// Earlier than the first, or than the first that was just removed:
			// nothing can lie between.
			x.setFirst(e)
			return
		}
	}
	if stale {
		x.findFirst()
	}
}

// count adds a deadline to the bins, and splits its bin if that is too large.
func (x *IndexOf[K]) count(deadline int64) {
	c := x.bins
	if i := c.add(deadline); int(c.n[i]) > c.size && c.first[i] < c.last[i] {
		x.split(i)
	}
}

func (x *IndexOf[K]) findFirst() {
	e, _ := x.tree.Min()
	x.setFirst(e)
}

// setFirst stores next only if it changes, because an atomic store costs as much as a dozen loads.
// The zero entry, of an empty tree, stores None.
func (x *IndexOf[K]) setFirst(e EntryOf[K]) {
	if e.Deadline != x.first.Deadline {
		x.next.Store(e.Deadline)
	}
	x.first = e
}

// Next returns an instant that is not after the earliest deadline; ok is false if there is no
// deadline. It is O(1), and the only method that may be called without the shard's lock.
func (x *IndexOf[K]) Next() (deadline int64, ok bool) {
	deadline = x.next.Load()
	return deadline, deadline != None
}

// First returns the earliest entry of the tree. Its own deadline may be later (MoveFirst). O(1).
func (x *IndexOf[K]) First() (EntryOf[K], bool) {
	return x.first, x.first.Deadline != None
}

// Last returns the last entry. O(log n).
func (x *IndexOf[K]) Last() (EntryOf[K], bool) {
	x.applyPostponed()
	return x.tree.Max()
}

// PopDue removes and returns the earliest entry if it is due at now. O(log n).
func (x *IndexOf[K]) PopDue(now int64) (EntryOf[K], bool) {
	for Expired(x.first.Deadline, now) && x.MoveFirst() {
	}
	if !Expired(x.first.Deadline, now) {
		return EntryOf[K]{}, false
	}
	e, _ := x.tree.DeleteMin()
	if x.bins != nil {
		x.bins.remove(e.Deadline)
	}
	x.findFirst()
	return e, true
}

// Has reports whether id is in the index with exactly this deadline.
func (x *IndexOf[K]) Has(id K, deadline int64) bool {
	if m, ok := x.postponed[id]; ok {
		return m.to == deadline
	}
	return x.tree.Has(EntryOf[K]{deadline, id})
}

// Len returns the number of entries.
func (x *IndexOf[K]) Len() int { return x.tree.Len() }

// Walk calls fn for the entries with a deadline of from or later, in order, until
// fn returns false. fn must not change the index.
func (x *IndexOf[K]) Walk(from int64, fn func(EntryOf[K]) bool) {
	var least K // 0 or "", before every other id
	x.WalkFrom(EntryOf[K]{from, least}, fn)
}

// WalkFrom does what Walk does, from an entry on. The entry need not exist any more.
func (x *IndexOf[K]) WalkFrom(from EntryOf[K], fn func(EntryOf[K]) bool) {
	x.applyPostponed()
	x.tree.AscendGreaterOrEqual(from, fn)
}

// Clear removes all entries at once.
func (x *IndexOf[K]) Clear() {
	x.tree.Clear(false)
	clear(x.postponed)
	if x.bins != nil {
		x.bins.clear()
	}
	x.setFirst(EntryOf[K]{})
}
