package storage

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
)

// keyRecord applies a record about one key.
func (r *replay) keyRecord(rec *format.Record, p *part, k Key) error {
	switch rec.Tag {
	case format.RecPut:
		return r.put(p, k, rec)
	case format.RecLarge:
		r.large(p, k, rec)
	case format.RecDelete:
		if c := p.find(p.slot(k), k); exists(c) && p.emptied(*c) {
			r.stated--
		}
		r.delete(p, k)
	case format.RecDeadline:
		sl, c, err := r.have(p, k)
		if err == nil && exists(c) {
			p.setDeadline(nil, sl, c, rec.Deadline, rec.Created)
			*p.flags(*c) &^= flagUnstated
			r.changed(p, sl, c, k)
		}
		return err
	default:
		if err := r.find(p, k, rec); err != nil || r.about.o == nil {
			return err
		}
		return r.change(rec)
	}
	return nil
}

// large sets a key to a new, empty value. Records of its elements follow.
func (r *replay) large(p *part, k Key, rec *format.Record) {
	o := &Object{id: rec.ID, val: object.New(rec.Type), created: rec.Created, key: string(k.Name)}
	if r.mirror == nil {
		o.state = stateReplayed
	}
	sl := p.slot(k)
	c := p.putObject(nil, sl, p.find(sl, k), k, o, rec.Deadline)
	p.setHeader(*c, rec.Deadline, o.created, r.access())
	r.mayBeOnDisk(p, sl, c)
	r.about = subject{p, k, o}
	r.changed(p, sl, c, k)
}

// change applies a record that changes a part of the subject.
func (r *replay) change(rec *format.Record) error {
	o := r.about.o
	switch rec.Tag {
	case format.RecRange:
		str, ok := o.val.(*object.String)
		if !ok || rec.Offset >= object.MaxString {
			return format.ErrBadRecord
		}
		was := len(str.Data)
		str.WriteAt(int(rec.Offset), rec.Value)
		o.changeRange(int(rec.Offset), len(rec.Value), was)
	case format.RecCut, format.RecTrim:
		v, ok := o.val.(object.Numbered)
		if !ok || v.Type() != rec.Type {
			return format.ErrBadRecord
		}
		v.RemoveNumbers(rec.First, rec.Last, o.changeRun)
	default:
		return r.element(rec)
	}
	return nil
}

// access returns the access word of replayed keys. It is that of the moment when the store was
// opened, or for a follower that of the transaction which applies the batch.
func (r *replay) access() uint32 {
	if r.mirror != nil {
		return r.s.firstAccess(r.mirror.t.now)
	}
	return r.s.firstAccess(r.s.opened)
}

// changed notes a changed key for the mirror, if there is one.
func (r *replay) changed(p *part, sl *slot, c *cell, k Key) {
	if r.mirror != nil {
		r.mirror.changed(p, sl, c, k)
	}
}

func (r *replay) sawID(id uint64) { RaiseTo(&r.s.generation, id) }

// mayBeOnDisk marks a key as one that the data file may have, if its slot has keys that are only on
// disk. Replay does not look whether the file has this key.
func (r *replay) mayBeOnDisk(p *part, sl *slot, c *cell) {
	if sl.partial {
		*p.flags(*c) |= flagDisk
	}
}

func (r *replay) put(p *part, k Key, rec *format.Record) error {
	if !isSmall(k.Name, rec.Value) {
		return format.ErrBadRecord
	}
	sl := p.slot(k)
	c := p.putSmall(nil, sl, p.find(sl, k), k, rec.Value, rec.Deadline)
	p.setHeader(*c, rec.Deadline, rec.Created, r.access())
	*p.flags(*c) &^= flagUnstated
	r.mayBeOnDisk(p, sl, c)
	r.changed(p, sl, c, k)
	return nil
}

// delete removes a key and leaves a tombstone where the data file may have the key. It does so even
// if memory does not know the key.
func (r *replay) delete(p *part, k Key) {
	sl := p.slot(k)
	c := p.find(sl, k)
	if r.mirror != nil {
		r.mirror.removing(p, sl, k)
	}
	if exists(c) {
		p.unindex(sl, c)
		r.s.dropped(p, *c)
		p.retire(sl, c)
		return
	}
	if c == nil && sl.partial {
		p.tombstone(sl, k)
	}
}

// have finds a key in memory. If memory does not know the key, it loads it from the data file.
func (r *replay) have(p *part, k Key) (*slot, *cell, error) {
	sl := p.slot(k)
	c := p.find(sl, k)
	if c != nil || !sl.partial {
		return sl, c, nil
	}
	err := r.s.file.View(func(tx *bolt.Tx) error {
		r.key = format.DiskKey(r.key[:0], p.space, k)
		record, err := datafile.Find(tx, r.key, sl.verified)
		if record == nil || err != nil {
			sl.verified = err == nil
			return err
		}
		im, err := format.ParseImage(r.key, record)
		if err != nil {
			return fmt.Errorf("%w: key %q", err, Clip(k.Name))
		}
		im.Partial = true // a later record completes it
		r.s.repairTimes(tx, r.key, &im)
		got, err := r.s.loads.readPart(tx, &im)
		if err != nil {
			return fmt.Errorf("%w: key %q", err, Clip(k.Name))
		}
		c = p.load(sl, k, got)
		*p.flags(*c) |= flagUnstated
		return nil
	})
	return sl, c, err
}

// find sets the subject to the value that the record is about. k is the key that had the value when
// the record was written; another key, or none, may have it now.
func (r *replay) find(p *part, k Key, rec *format.Record) error {
	sl, c, err := r.have(p, k)
	if err != nil {
		return err
	}
	if o := p.valueOf(c, rec.ID); o != nil {
		r.about = subject{p, k, o}
		if r.mirror != nil {
			r.mirror.opening(p, sl, c, o)
		}
		return nil
	}
	if r.mirror != nil {
		return fmt.Errorf("%w: key %q has not the value that changes", ErrDiverged, Clip(k.Name))
	}
	o, err := r.orphan(rec.ID, rec.Type)
	r.about.o = o
	return err
}

// element writes or removes an element of the subject.
func (r *replay) element(rec *format.Record) error {
	o := r.about.o
	if !o.val.Type().Names(rec.Elem) {
		return format.ErrBadRecord
	}
	o.change(rec.Elem)
	if rec.Tag == format.RecElement || rec.Tag == format.RecMore {
		return o.val.Put(rec.Elem, rec.Value, rec.Deadline)
	}
	o.val.Remove(rec.Elem)
	return nil
}

// expire sets the deadline of the subject's key. A value that no key has at present gets its
// deadline later, from the record link that moves it to a key.
func (r *replay) expire(rec *format.Record) {
	if r.about.o == nil {
		return
	}
	r.cost += recordCost[format.RecExpire]
	r.stated++
	if p := r.about.p; p != nil {
		sl := p.slot(r.about.k)
		if c := p.find(sl, r.about.k); exists(c) && p.objectOf(*c) == r.about.o {
			p.setDeadline(nil, sl, c, rec.Deadline, rec.Created)
			*p.flags(*c) &^= flagUnstated
		}
	}
}

// flushSubject updates counts and index for the changed subject.
func (r *replay) flushSubject() {
	if p := r.about.p; p != nil {
		sl := p.slot(r.about.k)
		if c := p.find(sl, r.about.k); c != nil && p.objectOf(*c) == r.about.o {
			p.recount(nil, sl, c, r.about.o)
			r.changed(p, sl, c, r.about.k)
		}
	}
	r.about = subject{}
}

// valueOf returns the object of a live cell if it is the value with this id, and nil otherwise.
func (p *part) valueOf(c *cell, id uint64) *Object {
	if exists(c) {
		if o := p.objectOf(*c); o != nil && o.id == id {
			return o
		}
	}
	return nil
}

// orphan returns a value that no key has at present, with its elements in the data file; nil if
// there are none, because it was deleted later.
func (r *replay) orphan(id uint64, typ object.Type) (*Object, error) {
	if o := r.orphans[id]; o != nil {
		return o, nil
	}
	var o *Object
	err := r.s.file.View(func(tx *bolt.Tx) error {
		v, err := r.s.loads.readTrimmed(tx, typ, id)
		if err == nil && v.Len() > 0 {
			o = &Object{id: id, state: stateStored, val: v}
		}
		return err
	})
	if o != nil {
		r.orphans[id] = o
	}
	return o, err
}

// link moves a value to another key. The value's old key may have no value on disk any more, or a
// newer one. No other goroutine replays records while link runs.
func (r *replay) link(rec *format.Record) error {
	from, to := r.s.Key(0, rec.Key), r.s.Key(0, rec.To)
	shard := r.s.shards[r.s.shardOf(from.Slot)]
	r = r.of(shard.num)
	r.cost += recordCost[format.RecLink]
	r.stated++
	r.sawID(rec.ID)
	q := r.s.partOf(rec.ToSpace, r.s.shards[r.s.shardOf(to.Slot)])
	var o *Object
	if p := r.s.partOf(rec.Space, shard); p != nil {
		_, c, err := r.have(p, from)
		if err != nil {
			return err
		}
		if p.valueOf(c, rec.ID) != nil {
			o = p.unlink(nil, from)
		}
	}
	if o == nil {
		var err error
		if o, err = r.orphan(rec.ID, rec.Type); err != nil {
			return err
		}
		if o == nil {
			return r.overwritten(q, to, rec.ID)
		}
		delete(r.orphans, rec.ID)
	}
	if q == nil {
		return nil
	}
	o.created = rec.Created
	o.state |= stateReplayed // a checkpoint that did not finish may have been at the new key
	c := q.adopt(nil, to, o, rec.Deadline)
	q.setHeader(*c, rec.Deadline, rec.Created, r.access())
	r.mayBeOnDisk(q, q.slot(to), c)
	return nil
}

// overwritten removes the old value of a link's new key. The linked value itself was deleted later,
// before the data file was written. The old value is older than the link, or a later record
// contains it again.
func (r *replay) overwritten(q *part, to Key, id uint64) error {
	if q == nil {
		return nil
	}
	_, c, err := r.have(q, to)
	if err != nil || !exists(c) {
		return err
	}
	switch o := q.objectOf(*c); {
	case o == nil:
		r.delete(q, to)
	case o.id != id: // a later link may move it here
		r.orphans[o.id] = q.unlink(nil, to)
	}
	return nil
}
