package object

import (
	"slices"
	"unsafe"
)

// tree is an ordered sequence of entries (key, pos) as a counted B+tree. It finds an entry by its
// rank, and the rank of an entry, in O(log n). The user of the tree defines the order: keys ascend,
// and entries of one key stay where the user has inserted them. Each search is a predicate that is
// true for a first part of the sequence.
//
// A node of the last level has entries. A node above has, for each child, the child's first entry
// and the number of entries below it. Nodes are never empty, except for the root.
//
// Keys have 64 bits. A node stores the low 32 bits of each key. If all its keys have the same high
// 32 bits, it stores these once; deadlines in ms within 49 days usually have. Otherwise it is wide.
type tree struct {
	root     *node
	n        int
	nodes    int
	branches int
	wide     int // nodes that are wide
}

const (
	nodeCap  = 92 // makes a node fill an allocation of 768 bytes, with the 8 that Go adds
	wideCap  = 96 // makes the upper halves fill one of 384 bytes
	maxDepth = 8
)

type node struct {
	kids  *branch          // nil on the last level
	upper *[wideCap]uint32 // the upper halves of the keys, if the node is wide
	n     int32
	same  uint32 // the upper half of all keys, if it is not
	pos   [nodeCap]uint32
	lower [nodeCap]uint32
}

type branch struct {
	child [nodeCap]*node
	count [nodeCap]uint32
}

// bytes returns the memory that the tree uses in addition to itself.
func (t *tree) bytes() int {
	return t.nodes*int(unsafe.Sizeof(node{})) + t.branches*int(unsafe.Sizeof(branch{})) +
		t.wide*wideCap*4
}

func (nd *node) key(i int) uint64 {
	upper := nd.same
	if nd.upper != nil {
		upper = nd.upper[i]
	}
	return uint64(upper)<<32 | uint64(nd.lower[i])
}

// set sets key and pos at i of nd.
func (t *tree) set(nd *node, i int, key uint64, pos uint32) {
	upper := uint32(key >> 32)
	if nd.upper == nil && upper != nd.same {
		if nd.n <= 1 {
			nd.same = upper
		} else {
			t.widen(nd)
		}
	}
	if nd.upper != nil {
		nd.upper[i] = upper
	}
	nd.lower[i], nd.pos[i] = uint32(key), pos
}

func (t *tree) widen(nd *node) {
	nd.upper = &[wideCap]uint32{}
	t.wide++
	for i := range nd.n {
		nd.upper[i] = nd.same
	}
}

// narrow makes a wide node store the upper half of its keys once, if they all have the same one.
// Keys ascend, so it compares only the first and the last. It is called after entries are moved or
// removed.
func (t *tree) narrow(nd *node) {
	if nd.upper != nil && (nd.n == 0 || nd.upper[0] == nd.upper[nd.n-1]) {
		nd.same, nd.upper = nd.upper[0], nil
		t.wide--
	}
}

// path leads from the root to an entry, or to the place after one where an entry may be inserted.
// It is valid until the tree changes.
type path struct {
	steps [maxDepth]struct {
		nd *node
		i  int
	}
	depth int
}

func (p *path) push(nd *node, i int) {
	p.steps[p.depth].nd, p.steps[p.depth].i = nd, i
	p.depth++
}

// seek moves p to the first entry for which before is false.
func (t *tree) seek(p *path, before func(key uint64, pos uint32) bool) {
	p.depth = 0
	nd := t.root
	for ; nd != nil; nd = nd.kids.child[p.steps[p.depth-1].i] {
		i := nd.search(before)
		if nd.kids == nil {
			p.push(nd, i)
			return
		}
		p.push(nd, max(i-1, 0))
	}
}

// rank returns how many entries are before the one at p.
func (p *path) rank() (rank int) {
	for _, s := range p.steps[:p.depth] {
		if s.nd.kids == nil {
			return rank + s.i
		}
		for _, n := range s.nd.kids.count[:s.i] {
			rank += int(n)
		}
	}
	return 0
}

func (nd *node) search(before func(key uint64, pos uint32) bool) int {
	lo, hi := 0, int(nd.n)
	for lo < hi {
		if mid := (lo + hi) / 2; before(nd.key(mid), nd.pos[mid]) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// seekRank moves p to the entry of a rank, which must be below n.
func (t *tree) seekRank(p *path, rank int) {
	p.depth = 0
	nd := t.root
	for nd.kids != nil {
		i := 0
		for rank >= int(nd.kids.count[i]) {
			rank -= int(nd.kids.count[i])
			i++
		}
		p.push(nd, i)
		nd = nd.kids.child[i]
	}
	p.push(nd, rank)
}

// entry returns the entry at p; ok is false after the last one.
func (p *path) entry() (key uint64, pos uint32, ok bool) {
	if p.depth == 0 {
		return 0, 0, false
	}
	s := &p.steps[p.depth-1]
	if s.i >= int(s.nd.n) && !p.next() {
		return 0, 0, false
	}
	return s.nd.key(s.i), s.nd.pos[s.i], true
}

// next moves to the following entry. It returns false if there is none.
func (p *path) next() bool { return p.step(1) }

// prev moves to the preceding entry. It returns false if there is none.
func (p *path) prev() bool { return p.step(-1) }

func (p *path) step(by int) bool {
	level := p.depth - 1
	for ; level >= 0; level-- {
		s := &p.steps[level]
		if i := s.i + by; i >= 0 && i < int(s.nd.n) {
			s.i = i
			break
		}
	}
	if level < 0 {
		return false
	}
	for ; level < p.depth-1; level++ {
		nd := p.steps[level].nd.kids.child[p.steps[level].i]
		i := 0
		if by < 0 {
			i = int(nd.n) - 1
		}
		p.steps[level+1].nd, p.steps[level+1].i = nd, i
	}
	return true
}

// insert inserts an entry at p, which seek has moved there.
func (t *tree) insert(p *path, key uint64, pos uint32) {
	if t.root == nil {
		t.root = t.newNode(false)
		p.push(t.root, 0)
	}
	t.makeRoom(p)
	last := &p.steps[p.depth-1]
	right := t.insertIn(last.nd, last.i, key, pos, nil)
	for level := p.depth - 2; level >= 0; level-- {
		s := &p.steps[level]
		if right == nil {
			t.refresh(s.nd, s.i, s.nd.kids.count[s.i]+1)
		} else {
			t.refresh(s.nd, s.i, s.nd.kids.child[s.i].total())
			right = t.insertIn(s.nd, s.i+1, right.key(0), right.pos[0], right)
		}
	}
	if right != nil {
		left := t.root
		t.root = t.newNode(true)
		t.root.n, t.root.same = 2, uint32(left.key(0)>>32)
		t.root.kids.child[0], t.root.kids.child[1] = left, right
		t.refresh(t.root, 0, left.total())
		t.refresh(t.root, 1, right.total())
	}
	t.n++
}

// leastMoved is the smallest number of entries that move to a neighbour, so that they do not move
// one by one.
const leastMoved = 4

// makeRoom moves entries of a full node to a neighbour that has room, if p ends in the middle of
// the node. So with entries in random order, nodes are four fifths full instead of two thirds.
func (t *tree) makeRoom(p *path) {
	if p.depth < 2 {
		return
	}
	s, up := &p.steps[p.depth-1], &p.steps[p.depth-2]
	if s.nd.n < nodeCap || s.i == 0 || s.i == nodeCap {
		return
	}
	siblings := up.nd.kids.child[:up.nd.n]
	if up.i > 0 {
		left := siblings[up.i-1]
		if n := int(nodeCap-left.n) / 2; n >= leastMoved {
			had := int(left.n)
			t.move(left, had, s.nd, 0, n)
			t.refresh(up.nd, up.i-1, uint32(left.n))
			t.refresh(up.nd, up.i, uint32(s.nd.n))
			if s.i -= n; s.i <= 0 {
				s.nd, s.i = left, had+n+s.i
				up.i--
			}
			return
		}
	}
	if up.i+1 < len(siblings) {
		right := siblings[up.i+1]
		if n := int(nodeCap-right.n) / 2; n >= leastMoved {
			at := nodeCap - n
			t.move(right, 0, s.nd, at, nodeCap)
			t.refresh(up.nd, up.i, uint32(s.nd.n))
			t.refresh(up.nd, up.i+1, uint32(right.n))
			if s.i > at {
				s.nd, s.i = right, s.i-at
				up.i++
			}
		}
	}
}

func (t *tree) newNode(inner bool) *node {
	nd := &node{}
	t.nodes++
	if inner {
		nd.kids = &branch{}
		t.branches++
	}
	return nd
}

func (t *tree) freeNode(nd *node) {
	t.nodes--
	if nd.kids != nil {
		t.branches--
	}
	if nd.upper != nil {
		t.wide--
	}
}

// insertIn puts an entry, and on an inner level its child, at i of nd. It splits a full node and
// returns the right part. It splits in the middle, or at an end if the entry belongs there. So
// sequences that grow at one end leave full nodes.
func (t *tree) insertIn(nd *node, i int, key uint64, pos uint32, child *node) (right *node) {
	if nd.n == nodeCap {
		at := nodeCap / 2
		if i == 0 || i == nodeCap {
			at = i
		}
		right = t.newNode(nd.kids != nil)
		t.move(right, 0, nd, at, nodeCap)
		if i > at || i == nodeCap {
			nd, i = right, i-at
		}
	}
	nd.open(i, 1)
	t.set(nd, i, key, pos)
	if child != nil {
		nd.kids.child[i], nd.kids.count[i] = child, child.total()
	}
	return right
}

// open makes room for k more entries at i of nd. Their content is undefined.
func (nd *node) open(i, k int) {
	n := int(nd.n)
	if nd.upper != nil {
		copy(nd.upper[i+k:n+k], nd.upper[i:n])
	}
	copy(nd.lower[i+k:n+k], nd.lower[i:n])
	copy(nd.pos[i+k:n+k], nd.pos[i:n])
	if nd.kids != nil {
		copy(nd.kids.child[i+k:n+k], nd.kids.child[i:n])
		copy(nd.kids.count[i+k:n+k], nd.kids.count[i:n])
	}
	nd.n += int32(k)
}

// move moves the entries of from from i up to but not including j to nd, at index at.
func (t *tree) move(nd *node, at int, from *node, i, j int) {
	switch {
	case nd.n == 0 && from.upper == nil:
		nd.same = from.same
	case nd.upper == nil && (from.upper != nil || from.same != nd.same):
		t.widen(nd)
	}
	nd.open(at, j-i)
	if nd.upper != nil {
		for k := i; k < j; k++ {
			nd.upper[at+k-i] = uint32(from.key(k) >> 32)
		}
	}
	copy(nd.lower[at:], from.lower[i:j])
	copy(nd.pos[at:], from.pos[i:j])
	if nd.kids != nil {
		copy(nd.kids.child[at:], from.kids.child[i:j])
		copy(nd.kids.count[at:], from.kids.count[i:j])
	}
	t.narrow(nd)
	t.cut(from, i, j)
}

// total returns the number of entries below nd.
func (nd *node) total() uint32 {
	if nd.kids == nil {
		return uint32(nd.n)
	}
	var sum uint32
	for _, n := range nd.kids.count[:nd.n] {
		sum += n
	}
	return sum
}

// refresh updates the key and the count of child i in nd.
func (t *tree) refresh(nd *node, i int, count uint32) {
	c := nd.kids.child[i]
	t.set(nd, i, c.key(0), c.pos[0])
	nd.kids.count[i] = count
}

// remove removes the entry at p.
func (t *tree) remove(p *path) {
	p.entry() // from the end of a node to the next
	last := &p.steps[p.depth-1]
	t.cut(last.nd, last.i, last.i+1)
	for level := p.depth - 2; level >= 0; level-- {
		s := &p.steps[level]
		t.rebalance(s.nd, s.i, s.nd.kids.count[s.i]-1)
	}
	for t.root.kids != nil && t.root.n == 1 {
		t.freeNode(t.root)
		t.root = t.root.kids.child[0]
	}
	t.n--
}

// cut removes the entries of nd from i up to but not including j.
func (t *tree) cut(nd *node, i, j int) {
	n := int(nd.n)
	if nd.upper != nil {
		copy(nd.upper[i:], nd.upper[j:n])
	}
	copy(nd.lower[i:], nd.lower[j:n])
	copy(nd.pos[i:], nd.pos[j:n])
	nd.n -= int32(j - i)
	if nd.kids != nil {
		copy(nd.kids.child[i:], nd.kids.child[j:n])
		copy(nd.kids.count[i:], nd.kids.count[j:n])
		clear(nd.kids.child[nd.n:n])
	}
	t.narrow(nd)
}

// rebalance is called after a removal below child i of nd, where count entries are left. It removes
// an empty child. A child that is less than a quarter full joins a neighbour if both together leave
// some room.
func (t *tree) rebalance(nd *node, i int, count uint32) {
	c := nd.kids.child[i]
	if c.n == 0 {
		t.freeNode(c)
		t.cut(nd, i, i+1)
		return
	}
	t.refresh(nd, i, count)
	if c.n >= nodeCap/4 {
		return
	}
	for _, left := range [2]int{i - 1, i} {
		if left < 0 || left+1 >= int(nd.n) {
			continue
		}
		a, b := nd.kids.child[left], nd.kids.child[left+1]
		if a.n+b.n <= nodeCap*3/4 {
			t.move(a, int(a.n), b, 0, int(b.n))
			t.freeNode(b)
			t.cut(nd, left+1, left+2)
			t.refresh(nd, left, a.total())
			return
		}
	}
}

// removeRange removes the entries of the ranks from from up to but not including to. All these
// ranks must exist.
func (t *tree) removeRange(from, to int) {
	if from >= to {
		return
	}
	if to-from == t.n {
		*t = tree{}
		return
	}
	t.cutRange(t.root, from, to)
	for t.root.kids != nil && t.root.n == 1 {
		t.freeNode(t.root)
		t.root = t.root.kids.child[0]
	}
	t.n -= to - from
}

// cutRange removes entries below nd, but not all of them.
func (t *tree) cutRange(nd *node, from, to int) {
	if nd.kids == nil {
		t.cut(nd, from, to)
		return
	}
	whole, end := 0, 0 // children that go
	var parts [2]int   // children that keep some entries
	left, rank := parts[:0], 0
	for i := range int(nd.n) {
		n := int(nd.kids.count[i])
		a, b := max(from-rank, 0), min(to-rank, n)
		rank += n
		switch {
		case a >= b:
		case b-a < n:
			t.cutRange(nd.kids.child[i], a, b)
			left = append(left, i)
		default:
			t.freeTree(nd.kids.child[i])
			if end == 0 {
				whole = i
			}
			end = i + 1
		}
	}
	t.cut(nd, whole, end)
	for _, i := range slices.Backward(left) {
		if i >= end {
			i -= end - whole
		}
		t.rebalance(nd, i, nd.kids.child[i].total())
	}
}

// freeTree frees all nodes from nd down.
func (t *tree) freeTree(nd *node) {
	if nd.kids != nil {
		for _, c := range nd.kids.child[:nd.n] {
			t.freeTree(c)
		}
	}
	t.freeNode(nd)
}

// setPos changes the pos of the entry at p. The order must stay the same.
func (p *path) setPos(pos uint32) {
	p.entry()
	for level := p.depth - 1; level >= 0; level-- {
		s := &p.steps[level]
		s.nd.pos[s.i] = pos
		if s.i != 0 {
			return
		}
	}
}
