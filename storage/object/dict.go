package object

import (
	"bytes"
	"unsafe"

	"keyp/storage/hashtable"
)

// dict is the large form of hashes, sets and sorted sets. It has no Go pointer per element, and
// nothing is ever copied as a whole:
//
//	hash of the key ──index──► pos ──dense──► ref ──arena──► entry
//	(deadline, pos) in the tree due, of the elements that have a deadline
//	(score, pos) in the tree scores, sorted by score and key, of a sorted set
//	(due time, pos) in the tree scores, sorted by due time and job number, of a delay queue
//
// pos numbers the elements from 0. When an element is removed, the last one gets its pos, so there
// are no gaps. So pos serves to choose a random element, but not as a cursor; the hash is the
// cursor.
//
// In sorted sets and delay queues an element keeps its pos, and a removed element leaves a hole for
// the next new one. Otherwise each removal would also have to change scores for the element that
// gets another pos. These types choose random elements by rank, and need no pos without gaps. If
// there are far more holes than elements, elements at the end of dense move into them (tighten).
type dict struct {
	index  hashtable.Table
	dense  pages
	holes  holes
	arena  arena
	due    tree
	scores *tree // nil except in sorted sets and delay queues
	jobs   bool  // the value is a delay queue
}

func newDict(scored bool) *dict {
	d := &dict{}
	if scored {
		d.scores = &tree{}
	}
	return d
}

// reserve allocates the memory of a new dict for n elements, but at most one block, one page and
// one bucket. bytes is the size of all entries that share blocks.
func (d *dict) reserve(n, bytes int) {
	if bytes > 0 {
		d.arena.cur = d.arena.add(min(bytes, blockSize))
	}
	d.dense.list = append(d.dense.list, make([]ref, 0, min(n, pageRefs)))
	d.index.Reserve(n)
}

func (d *dict) len() int { return d.dense.n - d.holes.n }

func (d *dict) bytes() int {
	n := int(unsafe.Sizeof(*d)) + d.index.Bytes() + d.dense.bytes() + d.arena.bytes() +
		d.due.bytes()
	if d.scores != nil {
		n += int(unsafe.Sizeof(*d.scores)) + d.scores.bytes()
	}
	return n
}

func (d *dict) entry(pos uint32) entry { return entryAt(d.arena.at(*d.dense.at(pos))) }

func (d *dict) find(key []byte) (pos uint32, ok bool) { return d.findHash(hashOf(key), key) }

func (d *dict) findHash(hash uint64, key []byte) (pos uint32, ok bool) {
	c, ok := d.index.Find(hash, func(c hashtable.Cell) bool {
		return bytes.Equal(d.entry(c.Ref()).key, key)
	})
	if !ok {
		return 0, false
	}
	return c.Ref(), true
}

// cell returns the cell of an element with this key and position.
func (d *dict) cell(key []byte, pos uint32) *hashtable.Cell {
	c, _ := d.index.Find(hashOf(key), func(c hashtable.Cell) bool { return c.Ref() == pos })
	return c
}

// put sets an element; created reports whether it is new.
func (d *dict) put(key, val []byte, deadline int64) (created bool) {
	hash := hashOf(key)
	pos, ok := d.findHash(hash, key)
	if ok {
		d.update(pos, val, deadline)
		return false
	}
	r, mem := d.arena.alloc(entrySize(key, val, deadline))
	putEntry(mem, key, val, deadline)
	if d.holes.n > 0 {
		pos = d.holes.first
		d.fill(pos)
		*d.dense.at(pos) = r
	} else {
		pos = uint32(d.dense.n)
		d.dense.push(r)
	}
	d.index.Insert(hash, hashtable.NewCell(hash, pos, 0))
	d.enter(pos, entryAt(mem))
	return true
}

// update replaces an element's value and deadline. val may be the element's own value.
func (d *dict) update(pos uint32, val []byte, deadline int64) {
	r := *d.dense.at(pos)
	old := d.entry(pos)
	rescored := d.scores != nil && d.reorders(old.val, val)
	if rescored {
		d.removeScore(pos, old)
	}
	if old.deadline != deadline {
		d.removeDue(pos, old.deadline)
		d.insertDue(pos, deadline)
	}
	if size := entrySize(old.key, val, deadline); size == old.size {
		// Entries of equal size have the same layout, unless only one of them has a deadline.
		// Then the key moves, and putEntry needs a copy of it.
		if deadline != 0 == (old.deadline != 0) {
			putEntry(d.arena.at(r), old.key, val, deadline)
		} else {
			putEntry(d.arena.at(r), bytes.Clone(old.key), val, deadline)
		}
	} else {
		to, mem := d.arena.alloc(size)
		putEntry(mem, old.key, val, deadline)
		*d.dense.at(pos) = to
		d.free(r, old.size)
	}
	if rescored {
		d.insertScore(pos, d.entry(pos))
	}
}

// remove removes the element at pos. The slices of its entry stay readable until the next change.
func (d *dict) remove(pos uint32) {
	d.removeScore(pos, d.entry(pos))
	d.take(pos)
	d.tighten(1)
}

// removeRanks removes the members whose ranks are at least from and less than to. It first passes
// each of them to fn.
func (d *dict) removeRanks(from, to int, fn func(e entry)) {
	gone := make([]uint32, 0, to-from)
	var p path
	d.scores.seekRank(&p, from)
	for range to - from {
		_, pos, _ := p.entry()
		fn(d.entry(pos))
		gone = append(gone, pos)
		p.next()
	}
	d.scores.removeRange(from, to)
	for _, pos := range gone {
		d.take(pos)
	}
	d.tighten(len(gone))
}

// take removes an element that is not, or no longer, in scores.
func (d *dict) take(pos uint32) {
	e := d.entry(pos)
	d.removeDue(pos, e.deadline)
	d.index.Remove(d.cell(e.key, pos))
	r := *d.dense.at(pos)
	if d.scores != nil {
		d.dig(pos)
	} else {
		d.moveLast(pos)
		d.dense.pop()
	}
	d.free(r, e.size)
}

// moveLast moves the last element to the place of a removed one.
func (d *dict) moveLast(pos uint32) {
	last := uint32(d.dense.n - 1)
	if last == pos {
		return
	}
	moved := d.entry(last)
	*d.cell(moved.key, last) = hashtable.NewCell(hashOf(moved.key), pos, 0)
	if moved.deadline != 0 {
		d.removeDue(last, moved.deadline)
		d.insertDue(pos, moved.deadline)
	}
	if d.scores != nil {
		var p path
		d.seekEntry(&p, moved)
		p.setPos(pos)
	}
	*d.dense.at(pos) = *d.dense.at(last)
}

// There may be holesPerElement holes for each element, and holesAtLeast more.
const (
	holesPerElement = 3
	holesAtLeast    = 8
)

// tighten follows up the removal of n elements. While there are too many holes, it removes the last
// place of dense, and moves its element, if it has one, into a hole. It does so at most
// holesPerElement+1 times for each removed element. So the number of moves does not depend on the
// number of elements.
func (d *dict) tighten(n int) {
	for range (holesPerElement + 1) * n {
		if d.holes.n <= holesPerElement*d.len()+holesAtLeast {
			return
		}
		last := uint32(d.dense.n - 1)
		if d.isHole(last) {
			d.fill(last)
		} else {
			pos := d.holes.first
			d.fill(pos)
			d.moveLast(pos)
		}
		d.dense.pop()
	}
}

// holes are the places in dense that no element has. They form a ring. Each of them is
//
//	63   62      31 30       0
//	┌───┬──────────┬──────────┐
//	│ 1 │ before   │ after    │   the places of its neighbours
//	└───┴──────────┴──────────┘
type holes struct {
	first uint32
	n     int
}

const (
	holeMark = 1 << 63
	holeBits = 31
	holeMask = 1<<holeBits - 1
)

func hole(before, after uint32) ref { return holeMark | ref(before)<<holeBits | ref(after) }

func (d *dict) isHole(pos uint32) bool { return *d.dense.at(pos)&holeMark != 0 }

func (d *dict) neighbours(pos uint32) (before, after uint32) {
	r := *d.dense.at(pos)
	return uint32(r >> holeBits & holeMask), uint32(r & holeMask)
}

// link makes two holes neighbours.
func (d *dict) link(before, after uint32) {
	a, _ := d.neighbours(before)
	*d.dense.at(before) = hole(a, after)
	_, b := d.neighbours(after)
	*d.dense.at(after) = hole(before, b)
}

// dig makes pos a hole, and the first of the ring.
func (d *dict) dig(pos uint32) {
	*d.dense.at(pos) = hole(pos, pos)
	if d.holes.n > 0 {
		last, _ := d.neighbours(d.holes.first)
		first := d.holes.first
		d.link(last, pos)
		d.link(pos, first)
	}
	d.holes.first = pos
	d.holes.n++
}

// fill takes a hole out of the ring.
func (d *dict) fill(pos uint32) {
	before, after := d.neighbours(pos)
	d.link(before, after)
	d.holes.first = after
	d.holes.n--
}

// free frees an entry's memory and records the new places of the entries that move for it.
func (d *dict) free(r ref, size int) {
	d.arena.free(r, size, func(key []byte, from, to ref) {
		c, _ := d.index.Find(hashOf(key), func(c hashtable.Cell) bool {
			return *d.dense.at(c.Ref()) == from
		})
		*d.dense.at(c.Ref()) = to
	})
}

// enter adds a new element to the ordered structures.
func (d *dict) enter(pos uint32, e entry) {
	d.insertDue(pos, e.deadline)
	if d.scores != nil {
		d.insertScore(pos, e)
	}
}

func (d *dict) seekDue(p *path, deadline int64, pos uint32) {
	d.due.seek(p, func(key uint64, at uint32) bool {
		return key < uint64(deadline) || key == uint64(deadline) && at < pos
	})
}

func (d *dict) insertDue(pos uint32, deadline int64) {
	if deadline != 0 {
		var p path
		d.seekDue(&p, deadline, pos)
		d.due.insert(&p, uint64(deadline), pos)
	}
}

func (d *dict) removeDue(pos uint32, deadline int64) {
	if deadline != 0 {
		var p path
		d.seekDue(&p, deadline, pos)
		d.due.remove(&p)
	}
}

// seekScore moves p to the place of a member with this score, whether the member exists or not.
func (d *dict) seekScore(p *path, score uint64, member []byte) {
	d.scores.seek(p, func(key uint64, pos uint32) bool {
		return key < score || key == score && bytes.Compare(d.entry(pos).key, member) < 0
	})
}

// seekEntry moves p to the place of an element in scores, whether it is there or not. It returns
// the element's key in scores.
func (d *dict) seekEntry(p *path, e entry) (key uint64) {
	if d.jobs {
		at := placeOf(e.val)
		d.seekJob(p, at)
		return uint64(at.Due)
	}
	key = scoreKey(ScoreOf(e.val))
	d.seekScore(p, key, e.key)
	return key
}

// reorders reports whether another value gives an element another place in scores.
func (d *dict) reorders(old, val []byte) bool {
	if d.jobs {
		return placeOf(old) != placeOf(val)
	}
	return !bytes.Equal(old, val)
}

func (d *dict) insertScore(pos uint32, e entry) {
	var p path
	key := d.seekEntry(&p, e)
	d.scores.insert(&p, key, pos)
}

func (d *dict) removeScore(pos uint32, e entry) {
	if d.scores != nil {
		var p path
		d.seekEntry(&p, e)
		d.scores.remove(&p)
	}
}

// earliest returns the first deadline; 0 if there is none.
func (d *dict) earliest() int64 {
	if d.due.n == 0 {
		return 0
	}
	var p path
	d.due.seekRank(&p, 0)
	key, _, _ := p.entry()
	return int64(key)
}

// dueBy returns how many elements have a deadline of now or before.
func (d *dict) dueBy(now int64) int {
	if d.due.n == 0 {
		return 0
	}
	var p path
	d.seekDue(&p, now+1, 0)
	return p.rank()
}
