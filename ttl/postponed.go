package ttl

// Keys that are often used get later and later deadlines. An index that postpones moves leaves such
// a key at its place in the tree, which is too early, and records its deadline. MoveFirst corrects
// the place of an entry that becomes the tree's first and is due. applyPostponed corrects all
// places before a walk or a count. So readers cannot tell that moves were postponed.

// move is a postponed move: the deadline of an entry in the tree, and its own later one.
type move struct{ from, to int64 }

// maxPostponed bounds how many moves an index postpones: applyPostponed then takes some
// milliseconds.
const maxPostponed = 8192

// PostponedBytes is the approximate memory of a postponed move, in bytes.
const PostponedBytes = 40

// postpone records a move to do later, and returns true. It returns false if the move must be done
// now.
func (x *IndexOf[K]) postpone(id K, old, new int64) bool {
	if x.postponed == nil || old == None || new <= old {
		return false
	}
	m, ok := x.postponed[id]
	if !ok {
		if len(x.postponed) >= maxPostponed {
			return false
		}
		m.from = old
	}
	m.to = new
	x.postponed[id] = m
	return true
}

// place returns the deadline at which the tree has an entry that Set moves or removes, and drops
// its postponed move.
func (x *IndexOf[K]) place(id K, old int64) int64 {
	if len(x.postponed) == 0 {
		return old
	}
	m, ok := x.postponed[id]
	if !ok {
		return old
	}
	delete(x.postponed, id)
	return m.from
}

// MoveFirst moves the entry that First returns to its own deadline and returns true. If that move
// was not postponed, it returns false. O(log n).
func (x *IndexOf[K]) MoveFirst() bool {
	m, ok := x.postponed[x.first.ID]
	if ok && x.first.Deadline == m.from {
		x.move(x.first.ID, m)
		return true
	}
	return false
}

// move does a postponed move.
func (x *IndexOf[K]) move(id K, m move) {
	delete(x.postponed, id)
	x.set(id, m.from, m.to)
}

// applyPostponed does all postponed moves.
func (x *IndexOf[K]) applyPostponed() {
	for id, m := range x.postponed {
		x.move(id, m)
	}
}

// ApplyPostponed does at most most postponed moves and reports whether more are left.
func (x *IndexOf[K]) ApplyPostponed(most int) (more bool) {
	for id, m := range x.postponed {
		if most--; most < 0 {
			return true
		}
		x.move(id, m)
	}
	return false
}

// Postponed returns how many moves are postponed.
func (x *IndexOf[K]) Postponed() int { return len(x.postponed) }

// Ahead calls fn for the entries in the order of the tree, until fn returns false. It is a hint to
// which entries are due next.
func (x *IndexOf[K]) Ahead(fn func(EntryOf[K]) bool) { x.tree.Ascend(fn) }
