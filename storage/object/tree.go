package object

import (
	"slices"
	"unsafe"
)

// tree is an ordered sequence of entries (key, pos) as a counted B+tree: it finds an
// entry by its rank and the rank of an entry in O(log n). The order is the user's: keys
// ascend, and entries of one key stand as the user put them, since each search is a
// predicate that is true for a first part of the sequence.
//
// A node of the last level has entries; one above has, per child, the child's first
// entry and the number of entries below it. Nodes are never empty, except for the root.
type tree struct {
	root     *node
	n        int
	nodes    int
	branches int
}

const (
	nodeCap  = 62 // makes both structs fill an allocation of 768 bytes
	maxDepth = 8
)

type node struct {
	kids *branch // nil on the last level
	n    int32
	pos  [nodeCap]uint32
	key  [nodeCap]uint64
}

type branch struct {
	child [nodeCap]*node
	count [nodeCap]uint32
}

// bytes is the memory that the tree uses in addition to itself.
func (t *tree) bytes() int {
	return t.nodes*int(unsafe.Sizeof(node{})) + t.branches*int(unsafe.Sizeof(branch{}))
}

// path leads from the root to an entry, or to the place after one where an entry may
// be inserted. It is valid until the tree changes.
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

// seek leads p to the first entry for which before is false, and gives its rank.
func (t *tree) seek(p *path, before func(key uint64, pos uint32) bool) (rank int) {
	p.depth = 0
	nd := t.root
	for ; nd != nil; nd = nd.kids.child[p.steps[p.depth-1].i] {
		i := nd.search(before)
		if nd.kids == nil {
			p.push(nd, i)
			return rank + i
		}
		i = max(i-1, 0)
		for _, n := range nd.kids.count[:i] {
			rank += int(n)
		}
		p.push(nd, i)
	}
	return 0
}

func (nd *node) search(before func(key uint64, pos uint32) bool) int {
	lo, hi := 0, int(nd.n)
	for lo < hi {
		if mid := (lo + hi) / 2; before(nd.key[mid], nd.pos[mid]) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// seekRank leads p to the entry of a rank below n.
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

// entry is what p leads to; ok is false after the last one.
func (p *path) entry() (key uint64, pos uint32, ok bool) {
	if p.depth == 0 {
		return 0, 0, false
	}
	s := &p.steps[p.depth-1]
	if s.i >= int(s.nd.n) && !p.next() {
		return 0, 0, false
	}
	return s.nd.key[s.i], s.nd.pos[s.i], true
}

// next moves to the following entry, false if there is none.
func (p *path) next() bool { return p.step(1) }

// prev moves to the preceding entry, false if there is none.
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

// insert adds an entry where seek has led p.
func (t *tree) insert(p *path, key uint64, pos uint32) {
	if t.root == nil {
		t.root = t.newNode(false)
		p.push(t.root, 0)
	}
	last := &p.steps[p.depth-1]
	right := t.insertIn(last.nd, last.i, key, pos, nil)
	for level := p.depth - 2; level >= 0; level-- {
		s := &p.steps[level]
		s.nd.refresh(s.i)
		if right != nil {
			right = t.insertIn(s.nd, s.i+1, right.key[0], right.pos[0], right)
		}
	}
	if right != nil {
		left := t.root
		t.root = t.newNode(true)
		t.root.n = 2
		t.root.kids.child[0], t.root.kids.child[1] = left, right
		t.root.refresh(0)
		t.root.refresh(1)
	}
	t.n++
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
}

// insertIn puts an entry, and on an inner level its child, at i of nd. A full node is
// split, and the right part returned. It is split in the middle, but at its ends when
// that is the place of the entry: sequences that grow at one end leave full nodes there.
func (t *tree) insertIn(nd *node, i int, key uint64, pos uint32, child *node) (right *node) {
	if nd.n == nodeCap {
		at := nodeCap / 2
		if i == 0 || i == nodeCap {
			at = i
		}
		right = t.newNode(nd.kids != nil)
		right.move(nd, at)
		if i > at || i == nodeCap {
			nd, i = right, i-at
		}
	}
	n := int(nd.n)
	copy(nd.key[i+1:n+1], nd.key[i:n])
	copy(nd.pos[i+1:n+1], nd.pos[i:n])
	nd.key[i], nd.pos[i] = key, pos
	nd.n++
	if child != nil {
		copy(nd.kids.child[i+1:n+1], nd.kids.child[i:n])
		copy(nd.kids.count[i+1:n+1], nd.kids.count[i:n])
		nd.kids.child[i], nd.kids.count[i] = child, child.total()
	}
	return right
}

// move takes what stands in from at on to the end of nd.
func (nd *node) move(from *node, at int) {
	n, m := int(nd.n), int(from.n)
	copy(nd.key[n:], from.key[at:m])
	copy(nd.pos[n:], from.pos[at:m])
	if nd.kids != nil {
		copy(nd.kids.child[n:], from.kids.child[at:m])
		copy(nd.kids.count[n:], from.kids.count[at:m])
		clear(from.kids.child[at:m])
	}
	nd.n, from.n = int32(n+m-at), int32(at)
}

// total is the number of entries below nd.
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

// refresh updates what nd records of its child i.
func (nd *node) refresh(i int) {
	c := nd.kids.child[i]
	nd.key[i], nd.pos[i], nd.kids.count[i] = c.key[0], c.pos[0], c.total()
}

// remove removes the entry that p leads to.
func (t *tree) remove(p *path) {
	p.entry() // from the end of a node to the next
	last := &p.steps[p.depth-1]
	last.nd.cut(last.i, last.i+1)
	for level := p.depth - 2; level >= 0; level-- {
		s := &p.steps[level]
		t.rebalance(s.nd, s.i)
	}
	for t.root.kids != nil && t.root.n == 1 {
		t.freeNode(t.root)
		t.root = t.root.kids.child[0]
	}
	t.n--
}

// cut takes what stands in nd from i up to j away.
func (nd *node) cut(i, j int) {
	n := int(nd.n)
	copy(nd.key[i:], nd.key[j:n])
	copy(nd.pos[i:], nd.pos[j:n])
	nd.n -= int32(j - i)
	if nd.kids != nil {
		copy(nd.kids.child[i:], nd.kids.child[j:n])
		copy(nd.kids.count[i:], nd.kids.count[j:n])
		clear(nd.kids.child[nd.n:n])
	}
}

// rebalance follows a removal below child i of nd: an empty child is removed, and one that is
// less than a quarter full joins a neighbour if both together leave some room.
func (t *tree) rebalance(nd *node, i int) {
	c := nd.kids.child[i]
	if c.n == 0 {
		t.freeNode(c)
		nd.cut(i, i+1)
		return
	}
	nd.refresh(i)
	if c.n >= nodeCap/4 {
		return
	}
	for _, left := range [2]int{i - 1, i} {
		if left < 0 || left+1 >= int(nd.n) {
			continue
		}
		a, b := nd.kids.child[left], nd.kids.child[left+1]
		if a.n+b.n <= nodeCap*3/4 {
			a.move(b, 0)
			t.freeNode(b)
			nd.cut(left+1, left+2)
			nd.refresh(left)
			return
		}
	}
}

// removeRange takes the entries of the ranks from from up to, and not with, to away: all
// of them there are.
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
		nd.cut(from, to)
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
	nd.cut(whole, end)
	for _, i := range slices.Backward(left) {
		if i >= end {
			i -= end - whole
		}
		t.rebalance(nd, i)
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

// setPos changes the pos of the entry that p leads to; the order must stay.
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
