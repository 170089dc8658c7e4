package object

import (
	"bytes"
	"slices"
	"unsafe"
)

// dict is the large form of hashes, sets and sorted sets. No Go pointer stands for an
// element, and nothing is ever copied as a whole:
//
//	hash of the key ──index──► pos ──dense──► ref ──arena──► entry
//	(deadline, pos) in due, of the elements that have a deadline
//	(score, key, as pos) in scores, if the value is a sorted set
//
// pos numbers the elements from 0 without gaps. When one goes, the last takes its pos;
// so pos is good to draw an element by, and not a cursor: that is the hash.
type dict struct {
	index  index
	dense  pages
	arena  arena
	due    tree
	scores *tree // nil but in sorted sets
}

func newDict(scored bool) *dict {
	d := &dict{index: newIndex()}
	if scored {
		d.scores = &tree{}
	}
	return d
}

func (d *dict) len() int { return d.dense.n }

func (d *dict) bytes() int {
	n := int(unsafe.Sizeof(*d)) + d.index.bytes() + d.dense.bytes() + d.arena.bytes() + d.due.bytes()
	if d.scores != nil {
		n += int(unsafe.Sizeof(*d.scores)) + d.scores.bytes()
	}
	return n
}

func (d *dict) entry(pos uint32) entry { return entryAt(d.arena.at(*d.dense.at(pos))) }

func (d *dict) find(key []byte) (pos uint32, ok bool) { return d.findHash(hashOf(key), key) }

func (d *dict) findHash(hash uint32, key []byte) (pos uint32, ok bool) {
	return d.index.find(hash, func(pos uint32) bool { return bytes.Equal(d.entry(pos).key, key) })
}

// put sets an element; created tells whether it is new.
func (d *dict) put(key, val []byte, deadline int64) (created bool) {
	hash := hashOf(key)
	pos, ok := d.findHash(hash, key)
	if ok {
		d.update(pos, val, deadline)
		return false
	}
	pos = uint32(d.dense.n)
	r, mem := d.arena.alloc(entrySize(key, val, deadline))
	putEntry(mem, key, val, deadline)
	d.dense.push(r)
	d.index.insert(hash, pos)
	d.enter(pos, entryAt(mem))
	return true
}

// update gives an element another value, which may be its own, and another deadline.
func (d *dict) update(pos uint32, val []byte, deadline int64) {
	r := *d.dense.at(pos)
	old := d.entry(pos)
	rescored := d.scores != nil && !bytes.Equal(old.val, val)
	if rescored {
		d.removeScore(pos, old)
	}
	if old.deadline != deadline {
		d.removeDue(pos, old.deadline)
		d.insertDue(pos, deadline)
	}
	if size := entrySize(old.key, val, deadline); size == old.size {
		// Of equal size it is of equal shape, but for a value that is as much longer as
		// a deadline was: so write it whole. The key may move within.
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

// remove takes the element pos away; the last one takes its pos. What entry gave of the
// element stays readable until the next change.
func (d *dict) remove(pos uint32) {
	d.removeScore(pos, d.entry(pos))
	d.take(pos)
}

// removeRanks takes the members of the ranks from from up to, and not with, to away,
// after it has shown each to fn. They go from the end of dense on, so that none moves that
// is itself to go.
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
	slices.Sort(gone)
	for _, pos := range slices.Backward(gone) {
		d.take(pos)
	}
}

// take is remove for an element that scores does not have.
func (d *dict) take(pos uint32) {
	e := d.entry(pos)
	d.removeDue(pos, e.deadline)
	d.index.remove(hashOf(e.key), pos)
	r := *d.dense.at(pos)
	if last := uint32(d.dense.n - 1); last != pos {
		moved := d.entry(last)
		d.index.rename(hashOf(moved.key), last, pos)
		if moved.deadline != 0 {
			d.removeDue(last, moved.deadline)
			d.insertDue(pos, moved.deadline)
		}
		if d.scores != nil {
			var p path
			d.seekScore(&p, scoreKey(ScoreOf(moved.val)), moved.key)
			p.setPos(pos)
		}
		*d.dense.at(pos) = *d.dense.at(last)
	}
	d.dense.pop()
	d.free(r, e.size)
}

// free gives an entry's memory back and follows the entries that move for it.
func (d *dict) free(r ref, size int) {
	d.arena.free(r, size, func(key []byte, from, to ref) {
		pos, _ := d.index.find(hashOf(key), func(pos uint32) bool { return *d.dense.at(pos) == from })
		*d.dense.at(pos) = to
	})
}

// enter adds a new element to the ordered structures.
func (d *dict) enter(pos uint32, e entry) {
	d.insertDue(pos, e.deadline)
	if d.scores != nil {
		d.insertScore(pos, e)
	}
}

func (d *dict) seekDue(p *path, deadline int64, pos uint32) (rank int) {
	return d.due.seek(p, func(key uint64, at uint32) bool {
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

// seekScore leads p to where a member with this score stands or would.
func (d *dict) seekScore(p *path, score uint64, member []byte) (rank int) {
	return d.scores.seek(p, func(key uint64, pos uint32) bool {
		return key < score || key == score && bytes.Compare(d.entry(pos).key, member) < 0
	})
}

func (d *dict) insertScore(pos uint32, e entry) {
	var p path
	key := scoreKey(ScoreOf(e.val))
	d.seekScore(&p, key, e.key)
	d.scores.insert(&p, key, pos)
}

func (d *dict) removeScore(pos uint32, e entry) {
	if d.scores != nil {
		var p path
		d.seekScore(&p, scoreKey(ScoreOf(e.val)), e.key)
		d.scores.remove(&p)
	}
}

// earliest is the first deadline, 0 for none.
func (d *dict) earliest() int64 {
	if d.due.n == 0 {
		return 0
	}
	var p path
	d.due.seekRank(&p, 0)
	key, _, _ := p.entry()
	return int64(key)
}

// dueBy counts the elements whose deadline is now or before.
func (d *dict) dueBy(now int64) int {
	if d.due.n == 0 {
		return 0
	}
	var p path
	return d.seekDue(&p, now+1, 0)
}
