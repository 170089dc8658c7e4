package storage

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/object"
	"keyp/ttl"
)

// replay puts the log's batches into memory. It runs alone, before anything else may
// touch the store, so it takes no lock. Records that state a key whole need nothing
// else; one that changes a key which memory does not have reads it from the data file
// first.
type replay struct {
	s       *Store
	counts  map[countKey]partCounts
	floor   []int64 // per shard: the newest "reaped through"
	batches int64
	key     []byte // scratch
	about   subject
	// orphans are values whose records name a key that does not have them (any more)
	// in the data file: a link may give them another.
	orphans map[uint64]*Object
	// later are slots on disk of keyspaces that the log is yet to make: the
	// checkpoint that wrote them did not finish.
	later map[uint32][]laterSlot
}

// subject is the value that the last record was about, if it was about an element.
type subject struct {
	p *part // nil: no key has it
	k Key
	o *Object // nil: the value is no more
}

type laterSlot struct {
	slot uint16
	diskSlot
}

type countKey struct {
	space uint32
	shard int
}

func newReplay(s *Store, st state) *replay {
	r := &replay{s: s, later: map[uint32][]laterSlot{}, counts: map[countKey]partCounts{}, orphans: map[uint64]*Object{}, floor: make([]int64, st.shards)}
	for _, c := range st.counts {
		r.counts[countKey{c.space, c.shard}] = c
	}
	return r
}

// adopt takes over the state of the data file: the shards, the databases' keyspaces,
// and which slots have keys on disk.
func (r *replay) adopt(st state) error {
	s := r.s
	s.slotsPerShard = Slots / st.shards
	for i := range st.shards {
		sh := &shard{num: i, store: s, parts: make([]*part, s.options.Databases)}
		sh.nextDue.Store(never)
		s.shards = append(s.shards, sh)
	}
	if len(st.spaces) > s.options.Databases {
		return fmt.Errorf("storage: the data has %d databases, the configuration allows %d", len(st.spaces), s.options.Databases)
	}
	s.spaces, s.nextSpace = st.spaces, st.nextSpace
	for len(s.spaces) < s.options.Databases {
		s.spaces = append(s.spaces, s.nextSpace)
		s.nextSpace++
	}
	s.generation.Store(st.generation)
	return s.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSlots).ForEach(func(k, v []byte) error {
			f := parseSlotKey(k)
			d := parseSlot(v)
			if !f.ok || len(v) != 16 {
				return fmt.Errorf("%w: slot entry %x", ErrCorrupt, k)
			}
			if d.keys == 0 {
				return nil
			}
			if !r.onDisk(f.space, f.slot, d) {
				r.later[f.space] = append(r.later[f.space], laterSlot{f.slot, d})
			}
			return nil
		})
	})
}

// onDisk notes that a slot has keys in the data file; false if no database has the
// keyspace.
func (r *replay) onDisk(space uint32, slot uint16, d diskSlot) bool {
	p := r.s.partOf(space, r.s.shards[r.s.shardOf(slot)])
	if p == nil {
		return false
	}
	sl := &p.slots[slot-p.first]
	sl.onDisk, sl.digest, sl.partial = d.keys, d.digest, true
	r.s.partials.Add(1)
	return true
}

// batch replays one batch.
func (r *replay) batch(_ uint64, batch []byte) error {
	if len(batch) > 0 { // a checkpoint's rotation leaves an empty one
		r.batches++
	}
	f := fields{rest: batch}
	defer r.settle()
	for len(f.rest) > 0 {
		tag := f.rest[0]
		if tag != recMore && tag != recLess {
			r.settle()
		}
		f.rest = f.rest[1:]
		if err := r.record(tag, &f); err != nil {
			return err
		}
		if f.bad {
			return fmt.Errorf("%w (tag %d)", errBadRecord, tag)
		}
		if int(tag) < len(recordCost) {
			r.s.replayCost.Add(recordCost[tag])
		}
	}
	return nil
}

func (r *replay) record(tag byte, f *fields) error {
	switch tag {
	case recReaped:
		r.reaped(int(f.int()), int64(f.int()), f)
	case recCounts:
		c := partCounts{uint32(f.int()), int(f.int()), int64(f.int()), int64(f.int())}
		r.counts[countKey{c.space, c.shard}] = c
	case recFlush:
		db, id := int(f.int()), uint32(f.int())
		if f.bad || db >= len(r.s.spaces) {
			return errBadRecord
		}
		r.s.flush(db, id)
		for _, l := range r.later[id] {
			r.onDisk(id, l.slot, l.diskSlot)
		}
		delete(r.later, id)
	case recSwap:
		a, b := int(f.int()), int(f.int())
		if f.bad || a >= len(r.s.spaces) || b >= len(r.s.spaces) {
			return errBadRecord
		}
		r.s.swap(a, b)
	case recPut, recLarge, recElement, recRemove, recRange, recDelete, recDeadline, recLink:
		p, k := r.target(f)
		return r.keyRecord(tag, p, k, f)
	case recMore, recLess:
		return r.elementOf(tag == recMore, f)
	default:
		return fmt.Errorf("%w: unknown tag %d", errBadRecord, tag)
	}
	return nil
}

// target reads a record's keyspace and key. p is nil when the keyspace was emptied
// since, as the log's rest will tell.
func (r *replay) target(f *fields) (p *part, k Key) {
	space, name := uint32(f.int()), f.bytes()
	k = r.s.Key(0, name)
	return r.s.partOf(space, r.s.shards[r.s.shardOf(k.Slot)]), k
}

func (r *replay) reaped(shard int, through int64, f *fields) {
	if f.bad || shard >= len(r.s.shards) {
		f.bad = true
		return
	}
	sh := r.s.shards[shard]
	r.floor[shard] = max(r.floor[shard], through)
	for _, p := range sh.parts {
		if p == nil {
			continue
		}
		var due []uint64
		p.index.Walk(0, func(e ttl.Entry) bool {
			if e.Deadline <= through {
				due = append(due, e.ID)
			}
			return e.Deadline <= through
		})
		for _, id := range due {
			sl, c, _ := p.byID(id)
			if d := p.deadline(*c); d == 0 || d > through {
				continue // elements are due: records name those that went
			}
			p.unindex(sl, c)
			r.s.dropped(p, *c)
			p.bury(sl, c)
		}
	}
}

// keyRecord applies a record about one key. The record is read to its end even where
// p is nil.
func (r *replay) keyRecord(tag byte, p *part, k Key, f *fields) error {
	switch tag {
	case recPut:
		deadline, created := f.deadline()
		value := f.bytes()
		if p == nil || f.bad {
			return nil
		}
		return r.put(p, k, value, deadline, created)
	case recLarge:
		o := &Object{id: f.int(), state: stateReplayed}
		var deadline int64
		deadline, o.created = f.deadline()
		typ := f.typ()
		if f.bad {
			return nil
		}
		o.val = object.New(typ)
		r.sawID(o.id)
		if p != nil && !f.bad {
			o.key = string(k.Name)
			sl := p.slot(k)
			c := p.putObject(nil, sl, p.find(sl, k), k, o, deadline)
			p.setHeader(*c, deadline, o.created, r.access())
			r.mayBeOnDisk(p, sl, c)
			r.about = subject{p, k, o}
		}
	case recElement, recRemove:
		id, typ := f.int(), f.typ()
		if err := r.find(p, k, id, typ, f); err != nil {
			return err
		}
		return r.elementOf(tag == recElement, f)
	case recRange:
		id, off, data := f.int(), int(f.int()), f.bytes()
		if err := r.find(p, k, id, object.TypeString, f); err != nil || r.about.o == nil {
			return err
		}
		str, ok := r.about.o.val.(*object.String)
		if !ok {
			return errBadRecord
		}
		was := len(str.Data)
		str.WriteAt(off, data)
		r.about.o.changeRange(off, len(data), was)
	case recDelete:
		if p != nil && !f.bad {
			r.delete(p, k)
		}
	case recDeadline:
		deadline, created := f.deadline()
		if p == nil || f.bad {
			return nil
		}
		sl, c, err := r.have(p, k)
		if err == nil && exists(c) {
			p.setDeadline(nil, sl, c, deadline, created)
		}
		return err
	case recLink:
		return r.link(p, k, f)
	}
	return nil
}

// access is the access time of replayed keys: when they were replayed.
func (r *replay) access() uint32 { return uint32(r.s.clock.Now() / 1000) }

func (r *replay) sawID(id uint64) {
	if id > r.s.generation.Load() {
		r.s.generation.Store(id)
	}
}

// mayBeOnDisk marks a key of a slot that has keys on disk: replay does not look.
func (r *replay) mayBeOnDisk(p *part, sl *slot, c *cell) {
	if sl.partial {
		*p.flags(*c) |= flagDisk
	}
}

func (r *replay) put(p *part, k Key, value []byte, deadline int64, created uint32) error {
	if !isSmall(k.Name, value) {
		return errBadRecord
	}
	sl := p.slot(k)
	c := p.putSmall(nil, sl, p.find(sl, k), k, value, deadline)
	p.setHeader(*c, deadline, created, r.access())
	r.mayBeOnDisk(p, sl, c)
	return nil
}

// delete makes a key a tombstone, also one that memory does not know: the data file
// may have it.
func (r *replay) delete(p *part, k Key) {
	sl := p.slot(k)
	c := p.find(sl, k)
	if exists(c) {
		p.unindex(sl, c)
		r.s.dropped(p, *c)
		p.bury(sl, c)
		return
	}
	if c == nil && sl.partial {
		p.tombstone(sl, k)
	}
}

// have finds a key, reading it from the data file where memory does not know it.
func (r *replay) have(p *part, k Key) (*slot, *cell, error) {
	sl := p.slot(k)
	c := p.find(sl, k)
	if c != nil || !sl.partial {
		return sl, c, nil
	}
	err := r.s.view(func(tx *bolt.Tx) error {
		r.key = diskKey(r.key[:0], p.space, k)
		record := tx.Bucket(bucketValues).Get(r.key)
		if record == nil {
			return nil
		}
		im, err := parseImage(r.key, record)
		if err != nil {
			return fmt.Errorf("%w: key %q", err, clip(k.Name))
		}
		im.partial = true // the log will make it whole
		got, err := im.resident(tx)
		if err != nil {
			return fmt.Errorf("%w: key %q", err, clip(k.Name))
		}
		c = p.admit(sl, k, got)
		r.s.reportBadTime(&im)
		return nil
	})
	return sl, c, err
}

// find makes the value id the subject. It is key k's, or was when the record was written.
func (r *replay) find(p *part, k Key, id uint64, typ object.Type, f *fields) error {
	r.sawID(id)
	if p == nil || f.bad {
		return nil
	}
	_, c, err := r.have(p, k)
	if err != nil {
		return err
	}
	if o := p.valueOf(c, id); o != nil {
		r.about = subject{p, k, o}
		return nil
	}
	o, err := r.orphan(id, typ)
	r.about.o = o
	return err
}

// elementOf reads the rest of a record about an element, which is put or removed, and
// applies it to the subject.
func (r *replay) elementOf(put bool, f *fields) error {
	elem := f.bytes()
	var deadline int64
	var val []byte
	if put {
		deadline, val = int64(f.int()), f.bytes()
	}
	o := r.about.o
	if o == nil || f.bad {
		return nil
	}
	o.change(elem)
	if put {
		return o.val.Put(elem, val, deadline)
	}
	o.val.Remove(elem)
	return nil
}

// settle takes the changed subject into the counts and the index.
func (r *replay) settle() {
	if p := r.about.p; p != nil {
		sl := p.slot(r.about.k)
		if c := p.find(sl, r.about.k); c != nil && p.objectOf(*c) == r.about.o {
			p.recount(sl, c, r.about.o)
		}
	}
	r.about = subject{}
}

// valueOf is the object of a live cell if it is value id.
func (p *part) valueOf(c *cell, id uint64) *Object {
	if exists(c) {
		if o := p.objectOf(*c); o != nil && o.id == id {
			return o
		}
	}
	return nil
}

// orphan is a value that no key has at present, with the elements that the data file
// has under its id; nil if there are none, because it was deleted later.
func (r *replay) orphan(id uint64, typ object.Type) (*Object, error) {
	if o := r.orphans[id]; o != nil {
		return o, nil
	}
	var o *Object
	err := r.s.view(func(tx *bolt.Tx) error {
		v, err := readElements(tx, typ, id)
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

// link gives the value of a record to another key. The key that had it may have
// nothing on disk any more, or something newer.
func (r *replay) link(p *part, from Key, f *fields) error {
	q, to := r.target(f)
	id, typ := f.int(), f.typ()
	deadline, created := f.deadline()
	if f.bad {
		return nil
	}
	r.sawID(id)
	var o *Object
	if p != nil {
		_, c, err := r.have(p, from)
		if err != nil {
			return err
		}
		if p.valueOf(c, id) != nil {
			o = p.unlink(nil, from)
		}
	}
	if o == nil {
		var err error
		if o, err = r.orphan(id, typ); o == nil || err != nil {
			return err
		}
		delete(r.orphans, id)
	}
	if q == nil {
		return nil
	}
	o.created = created
	c := q.adopt(nil, to, o, deadline)
	q.setHeader(*c, deadline, created, r.access())
	r.mayBeOnDisk(q, q.slot(to), c)
	return nil
}

// finish puts the counts in place and removes what the log says is reaped but only
// the data file still has.
func (r *replay) finish() error {
	for _, sh := range r.s.shards {
		for _, p := range sh.parts {
			if p != nil {
				p.keys, p.expires = 0, 0
			}
		}
	}
	for _, c := range r.counts {
		if c.shard >= len(r.s.shards) {
			return fmt.Errorf("%w: counts of shard %d", errBadRecord, c.shard)
		}
		if p := r.s.partOf(c.space, r.s.shards[c.shard]); p != nil {
			p.keys, p.expires = c.keys, c.expires
		}
	}
	return r.removeReaped()
}

func (r *replay) removeReaped() error {
	var through int64
	for _, w := range r.floor {
		through = max(through, w)
	}
	if through == 0 || r.s.partials.Load() == 0 {
		return nil
	}
	return r.s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketTTL).Cursor()
		for at, v := c.First(); at != nil; at, v = c.Next() {
			e, ok := parseTTL(at, v)
			if !ok {
				continue // the window logs it
			}
			if e.due > through {
				return nil
			}
			space, k, err := r.s.keyOnDisk(tx, e.on)
			if err != nil {
				return err
			}
			if e.element { // records name those that went, but the key may be due, too
				im, err := parseImage(e.on, tx.Bucket(bucketValues).Get(e.on))
				if err != nil || im.deadline == 0 {
					continue // the window logs an error
				}
				e.due = im.deadline
			}
			p := r.s.partOf(space, r.s.shards[r.s.shardOf(k.Slot)])
			if p == nil || e.due > r.floor[p.shard.num] {
				continue
			}
			if sl := p.slot(k); p.find(sl, k) == nil {
				p.tombstone(sl, k)
			}
		}
		return nil
	})
}
