package storage

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
)

// A checkpoint copies dirty keys in steps; each step locks the shard for microseconds. A small
// collection is a single record in the data file. A large one has a record of its own for each
// element. If it is very large, it is copied in portions, over several batches, and the key's
// record is written with each. If the server ends before the last portion, the file has only some
// of the elements. The log has the others:
//
//  - if the collection became large after the last finished checkpoint, the log has all of it,
//    because the change to a record for each element is logged with all elements (regenerate);
//  - otherwise that checkpoint has copied all of it, and the log has each change since.
//
// So a start takes the elements in the file, and completes them from the log. If the log has the
// whole collection, the elements in the file are useless. They are deleted before it is copied
// again.

// copySlot copies the dirty cells of one bucket of a slot's table.
func (cp *checkpointer) copySlot(b *cpBatch, p *part, sl *slot,
	from uint32) (next uint32, done bool) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	if p.dead || sl.dirty == 0 {
		return 0, true
	}
	b.use(sl)
	sl.prefetch(p, from)
	next, done = sl.table.WalkBucket(from, func(c *cell) {
		if c.Is(hashtable.Dirty) {
			cp.copyCell(b, p, sl, c)
		}
	})
	return next, done
}

// prefetch reads the dirty keys of a bucket, so that the processor waits for all of them at once.
// It returns a sum so that the compiler does not remove the reads.
//
//go:noinline
func (sl *slot) prefetch(p *part, from uint32) (sum uint64) {
	sl.table.WalkBucket(from, func(c *cell) {
		if c.Is(hashtable.Dirty) {
			sum += p.prefetchCell(*c)
		}
	})
	return sum
}

// copyCell copies a dirty cell's state and makes it clean. For a large value it copies a portion,
// or nothing yet, and notes that there is more to copy.
func (cp *checkpointer) copyCell(b *cpBatch, p *part, sl *slot, c *cell) {
	if o := p.objectOf(*c); o != nil && !c.Is(hashtable.Tomb) && !o.inline() {
		o.freeze()
		if more := (portions{p: p, sl: sl, o: o, stale: o.stale(), key: o.key}); more.stale ||
			cp.copyState(b, p, sl, c) {
			b.rest = append(b.rest, more)
		}
		return
	}
	cp.copyState(b, p, sl, c)
}

// copyState copies a cell's state. It returns true if there is more of the value: then the cell
// stays dirty.
func (cp *checkpointer) copyState(b *cpBatch, p *part, sl *slot, c *cell) (more bool) {
	p.filed = true
	name := p.name(*c)
	k := cp.s.keyIn(sl, name)
	b.scratch = format.DiskKey(b.scratch[:0], p.space, k)
	e := entry{p: p, sl: sl, at: b.arena.take(b.scratch)}
	flags := p.flags(*c)
	e.moved = *flags&flagMoved != 0
	*flags = *flags&^flagMoved | flagDisk
	b.lsn = max(b.lsn, p.lsn(*c), sl.lastDelete)
	changed := false // since the checkpoint reached the key
	if !c.Is(hashtable.Tomb) {
		more, changed = cp.copyValue(b, p, *c, &e)
	} else {
		e.gone = b.arena.take(name)
	}
	if !more && !changed {
		p.dirtyOff(sl, c)
	}
	b.entries = append(b.entries, e)
	return more
}

func (cp *checkpointer) copyValue(b *cpBatch, p *part, c cell, e *entry) (more, changed bool) {
	im := format.Image{Type: p.item(c).Type(), Inline: true,
		Times: format.Times{Deadline: p.deadline(c), Created: p.created(c)}, Name: p.name(c)}
	o := p.objectOf(c)
	if o != nil {
		im.First = o.whole().Earliest()
	}
	switch {
	case o == nil:
		im.Payload = p.slabs.At(c.Ref()).Value()
	case o.inline():
		im.ID, im.Payload = o.id, format.AppendInline(nil, o.whole())
		o.state = o.state&^stateReplayed | stateInline
	default:
		more = cp.copyElements(b, o, e)
		changed = o.side != nil && o.side.any()
		im.ID, im.Inline = o.id, false
		im.Payload = binary.AppendUvarint(nil, uint64(o.whole().Len()))
	}
	e.id, e.Times = im.Stored(), im.Times
	b.scratch = im.Append(b.scratch[:0], e.at)
	e.rec = b.arena.take(b.scratch)
	return more, changed
}

// copyElements copies a portion of the changed elements of a value whose elements are stored by
// themselves, or of all elements the first time. It returns true if there are more.
func (cp *checkpointer) copyElements(b *cpBatch, o *Object, e *entry) (more bool) {
	s := cp.s
	o.beStored()
	if o.is(stateLinked) {
		delete(e.p.linked, o.id)
		e.p.copied.add(o.id)
	}
	o.state &^= stateLinked | stateReplayed
	if o.val.Type() == object.TypeStream {
		cp.copying.add(o.id)
	}
	if o.side == nil {
		return false
	}
	put := func(elem, val []byte, deadline int64) {
		el := b.element(o.id, elem)
		b.scratch = format.AppendElement(b.scratch[:0], el.at, elem, deadline, val)
		el.rec = b.arena.take(b.scratch)
		e.elements = append(e.elements, el)
	}
	u, limit := &o.side.unsaved, b.arena.bytes+s.bounds.portionBytes
	if u.rest {
		each := max(o.val.Bytes()/max(o.val.Len(), 1), 1)
		u.cursor = o.whole().Scan(u.cursor,
			max(1, min(s.bounds.portion, s.bounds.portionBytes/each)), put)
		u.rest = u.cursor != 0 && u.cursor <= u.end
	} else {
		u.frozen.Take(o.whole(), func(elem, val []byte, deadline int64, ok bool) bool {
			if ok {
				put(elem, val, deadline)
			} else {
				e.elements = append(e.elements, b.element(o.id, elem))
			}
			return len(e.elements) < s.bounds.portion && b.arena.bytes < limit
		})
	}
	if more = u.rest || u.frozen.Any(); !more {
		o.lean()
	}
	return more
}

// element returns an element with its place in the bucket elements. The name shares the memory of
// the place, unless the name is too long for it.
func (b *cpBatch) element(id uint64, elem []byte) element {
	b.scratch = format.ElementKey(b.scratch[:0], id, elem)
	at := b.arena.take(b.scratch)
	if len(elem) > format.LongName {
		return element{name: b.arena.take(elem), at: at}
	}
	return element{name: at[8:], at: at}
}

// portions is a value that is not copied completely.
type portions struct {
	p     *part
	sl    *slot
	o     *Object
	stale bool   // elements on disk have to go first: nothing is copied yet
	key   string // if stale: the value's when the checkpoint reached it
}

// copyRest completes the values of which the batch has only a part: it copies the missing parts. It
// writes the batch whenever it gets too large.
func (cp *checkpointer) copyRest(b *cpBatch) error {
	for len(b.rest) > 0 {
		n := len(b.rest) - 1
		r := b.rest[n]
		b.rest[n] = portions{}
		b.rest = b.rest[:n]
		if r.stale {
			if err := cp.wipe(r.o.id); err != nil {
				cp.uncopy(b)
				return err
			}
		}
		for more := true; more; {
			if err := cp.portionDone(b); err != nil {
				return err
			}
			more = cp.copyPortion(b, r)
		}
	}
	if b.arena.bytes >= cp.batchLimit() {
		return cp.commitBatch(b)
	}
	return nil
}

// portionShare bounds a batch with portions to this part of a batch's bytes. Its elements are
// neighbours on disk, and bbolt keeps all entries of a page in one slice until the commit. When
// that slice grows to megabytes, the runtime copies it without interruption. If a garbage
// collection begins meanwhile, all goroutines wait.
const portionShare = 8

func (cp *checkpointer) portionDone(b *cpBatch) error {
	if err := cp.s.options.Testing.step(StepPortion); err != nil {
		cp.uncopy(b)
		return err
	}
	if b.arena.bytes >= cp.batchLimit()/portionShare {
		return cp.commitBatch(b)
	}
	return nil
}

// copyPortion copies the next portion of a value, if its key still has that value. Otherwise the
// later changes are in the part of the log that is kept, and nothing is copied. There is an
// exception: nothing of a stale value was copied before. Changes in that part of the log may refer
// to the value, and replay could not apply them to an older value on disk. So the present state of
// the key is copied then.
func (cp *checkpointer) copyPortion(b *cpBatch, r portions) (more bool) {
	r.p.shard.mu.Lock()
	defer r.p.shard.mu.Unlock()
	if c := cp.s.cellOf(r); c != nil {
		b.use(r.sl)
		return cp.copyState(b, r.p, r.sl, c)
	}
	if r.stale && !r.p.dead {
		if c := r.p.find(r.sl, cp.s.keyIn(r.sl, []byte(r.key))); c != nil && c.Is(hashtable.Dirty) {
			b.use(r.sl)
			cp.copyCell(b, r.p, r.sl, c)
		}
	}
	return false
}

// cellOf returns the cell of a value. It returns nil if the key does not have that value any more.
func (s *Store) cellOf(r portions) *cell {
	if r.p.dead || r.o.is(stateGone) {
		return nil
	}
	c := r.p.find(r.sl, s.keyIn(r.sl, r.o.name()))
	if c == nil || r.p.objectOf(*c) != r.o {
		return nil
	}
	return c
}

// wipe deletes the elements on disk under an id, in bounded transactions.
func (cp *checkpointer) wipe(id uint64) error {
	prefix := binary.BigEndian.AppendUint64(nil, id)
	left := false
	err := cp.s.file.View(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket(format.BucketElements).Cursor().Seek(prefix)
		left = bytes.HasPrefix(k, prefix)
		return nil
	})
	for left && err == nil {
		began := workBegan()
		err = cp.s.updateFile(func(tx *bolt.Tx) (err error) {
			left, err = datafile.DeleteRange(tx.Bucket(format.BucketElements), prefix)
			return err
		})
		cp.pace(began)
	}
	return err
}

// uncopy makes the keys of a batch that could not be written dirty again.
func (cp *checkpointer) uncopy(b *cpBatch) {
	s := cp.s
	t := s.NewTxn()
	for i := range b.entries {
		e := &b.entries[i]
		sh := e.p.shard
		sh.mu.Lock()
		c := s.cellAt(e)
		if c != nil {
			if e.moved {
				*e.p.flags(*c) |= flagMoved
			}
			e.p.markDirty(e.sl, c)
		}
		there := c != nil && e.recopy(e.p.objectOf(*c))
		sh.mu.Unlock()
		if e.id == 0 || there {
			continue
		}
		if r, moved := cp.lockMoved(t, e.id); moved {
			if c := s.cellOf(r); c != nil && e.recopy(r.o) {
				r.p.markDirty(r.sl, c)
			}
			s.unlock(t)
		}
	}
	for _, sl := range b.slots {
		sh := s.shards[s.shardOf(sl.num)]
		sh.mu.Lock()
		sl.inflight = false
		sh.mu.Unlock()
	}
}

// cellAt returns the cell of an entry's key, or nil if memory does not know the key. Its shard is
// locked. The hash in the key's place on disk has all the bits that a table needs.
func (s *Store) cellAt(e *entry) *cell {
	var scratch [256]byte
	hash := uint64(binary.BigEndian.Uint32(e.at[format.PrefixLen-4:])) << 32
	c, _ := e.sl.table.Find(hash, func(c cell) bool {
		name := e.p.name(c)
		k := s.keyIn(e.sl, name)
		return bytes.Equal(format.DiskKey(scratch[:0], e.p.space, k), e.at)
	})
	return c
}

// recopy marks the entry's elements as not written yet, if o is their value.
func (e *entry) recopy(o *Object) bool {
	if o == nil || o.id != e.id {
		return false
	}
	for _, el := range e.elements {
		o.change(el.name)
	}
	return true
}
