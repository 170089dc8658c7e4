package storage

import (
	"keyp/storage/procmem"
	"strings"
	"time"

	"keyp/storage/hashtable"
)

// Small keys that leave memory leave gaps in the chunks of the slabs, and a chunk is released only
// when it is empty. So when the gaps of a size class add up to a chunk, the blocks of a sparse
// chunk move into the gaps of others.
//
// Larger keys and collections are objects in Go's heap, and leave gaps there. A page of the heap
// has objects of one size, Go never moves them, and a page is released only when it is empty. So
// when the gaps are a large part of MaxMemory, each object is replaced by a copy, once. The
// allocator puts the copies into gaps, page by page, and the pages of the originals become empty.

const (
	// defragStep is how many blocks move each time a shard is locked.
	defragStep = 64
	// defragTime bounds a round.
	defragTime = 10 * time.Millisecond
	// heapGapShare is the part of MaxMemory that the gaps in Go's heap may make up, in addition to
	// the gaps that were left when all objects had been copied.
	heapGapShare = 16
	// heapPause is the pause after copying had hardly any effect. Each time in a row that it has
	// none, the pause is twice as long, up to heapPauseMost: the obstacles that kept pages of the
	// heap from becoming empty may be gone by then.
	heapPause, heapPauseMost = time.Minute, time.Hour
	// defragBytes is how much is copied each time a shard is locked. A larger object has pages of
	// its own, which leave no gaps.
	defragBytes = 32 << 10
)

// defragment moves blocks until the slabs have few gaps, at most for defragTime.
func (h *housekeeper) defragment() {
	end := workBegan() + defragTime
	for _, sh := range h.s.shards {
		for h.defragStep(sh) {
			if workBegan() > end || h.s.quit.Err() != nil {
				return
			}
		}
	}
}

// heapDefrag copies all objects, a part in each round of housekeeping.
type heapDefrag struct {
	running bool
	shard   int // which is next, and of it database and ref
	db      int
	ref     uint32
	before  int64         // the largest gaps before and while they are copied
	ended   time.Duration // reading of Mono when all had been copied, until its effect is known
	// The gaps that were left when copying had hardly any effect, or fewer since.
	useless int64
	again   time.Duration // reading of Mono from which on that is tried again
	pause   time.Duration // between that and the copying before
}

// defragmentHeap begins to copy all objects if there are large gaps between them and memory is
// nearly full, or continues to copy them. It does not begin while many keys leave memory for
// others: the new keys fill the gaps.
func (h *housekeeper) defragmentHeap(m procmem.Memory, limit int64) {
	d := &h.heapDefrag
	share := limit / heapGapShare
	if !d.running {
		gaps, left, since := h.overhead.Gaps()
		if limit == 0 || m.Used < limit-share || left > share/2 || since < d.ended {
			return
		}
		now := h.s.clock.Mono()
		switch {
		case d.ended == 0:
		case gaps > d.before-share/2:
			d.useless, d.pause = gaps, min(max(2*d.pause, heapPause), heapPauseMost)
			d.again = now + d.pause
		default:
			d.pause = 0
		}
		d.ended, d.useless = 0, min(d.useless, gaps)
		if gaps <= share || gaps <= d.useless+share && now < d.again {
			return
		}
		*d = heapDefrag{running: true, before: gaps, useless: d.useless, pause: d.pause}
	}
	d.before = max(d.before, m.Gaps)
	end := workBegan() + defragTime
	for left := share; left > 0 && workBegan() <= end &&
		h.s.quit.Err() == nil; left -= defragBytes {
		if h.copyObjects(d); d.shard == len(h.s.shards) {
			d.running, d.ended = false, h.s.clock.Mono()
			return
		}
	}
}

// copyObjects copies some of the objects that are next.
func (h *housekeeper) copyObjects(d *heapDefrag) {
	sh := h.s.shards[d.shard]
	if !sh.lockPassingGlobal() {
		return
	}
	defer sh.mu.Unlock()
	now := h.s.now()
	for left := defragBytes; left > 0; d.ref++ {
		if d.db == len(sh.mu.parts) {
			d.shard, d.db = d.shard+1, 0
			return
		}
		p := sh.mu.parts[d.db]
		if p == nil || int(d.ref) >= len(p.objects.list) {
			d.db, d.ref = d.db+1, 0
			return
		}
		left -= p.copyObject(d.ref, now)
	}
}

// copyObject replaces an object by a copy, unless its value is large or may not leave memory. It
// returns about how many bytes that cost. A reader that has pinned the old one keeps it, as when
// the key leaves memory.
func (p *part) copyObject(ref uint32, now int64) (cost int) {
	const look = 64
	o := p.objects.list[ref]
	if o == nil || o.val == nil || o.bytes() > defragBytes ||
		o.side != nil && o.side.unsaved.any() {
		return look
	}
	sl, c, found := p.cellAt(o.name(), ref, hashtable.Obj)
	if !found || sl.inflight || sl.awaiting || !p.evictable(*c, now) {
		return look
	}
	fresh := *o
	fresh.key, fresh.val = strings.Clone(o.key), o.val.Clone()
	if o.side != nil {
		side := *o.side
		side.readers = 0 // they have the old one
		fresh.side = &side
	}
	o.state |= stateGone
	p.objects.list[ref] = &fresh
	p.objects.bytes += fresh.measure()
	return look + o.bytes()
}

// cellAt finds the cell with this name and ref. kind is hashtable.Obj for an object, and 0 for a
// block.
func (p *part) cellAt(name []byte, ref uint32, kind cell) (sl *slot, c *cell, found bool) {
	k := p.shard.store.Key(0, name)
	sl = p.slot(k)
	c, found = sl.table.Find(k.Hash, func(c cell) bool {
		return c&hashtable.Obj == kind && c.Ref() == ref
	})
	return sl, c, found
}

// defragStep moves some blocks of a shard, and returns whether there may be more to move.
func (h *housekeeper) defragStep(sh *shard) (more bool) {
	if !sh.lockPassingGlobal() {
		return false
	}
	defer sh.mu.Unlock()
	for _, p := range sh.mu.parts {
		if p == nil {
			continue
		}
		if at := p.slabs.Sparse(); at >= 0 {
			for _, ref := range p.slabs.Refs(at, defragStep) {
				more = p.moveBlock(ref) || more
			}
			if more {
				return true
			}
		}
	}
	return false
}

// moveBlock moves the block of a key or tombstone into a gap of another chunk. It returns false if
// the block is not in use.
func (p *part) moveBlock(ref uint32) bool {
	sl, c, found := p.cellAt(p.slabs.At(ref).Key(), ref, 0)
	if !found {
		return false
	}
	old := *c
	*c = hashtable.NewCell(uint64(old), p.slabs.Move(ref), old&(hashtable.Dirty|hashtable.Tomb))
	if due := p.due(old); exists(c) && due != 0 {
		p.index.Set(p.id(sl, old), due, 0)
		p.index.Set(p.id(sl, *c), 0, due)
	}
	p.slabs.Release(ref)
	return true
}
