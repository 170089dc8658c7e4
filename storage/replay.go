package storage

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// replay puts the log's batches into memory: of their records those of its own shards.
// Several replays read the same batches side by side (feed.go), before anything else
// may touch the store, so they take no lock. Records that state a key whole need nothing
// else; one that changes a key which memory does not have reads it from the data file
// first.
//
// A follower's Mirror is a replay, too, of one batch at a time and beside others (mirror.go).
type replay struct {
	*recovering
	num    int     // which of the replays
	mirror *Mirror // nil at a start
	counts map[countKey]format.PartCounts
	cost   int64
	stated int64  // changes of keys, as Txn counts them
	key    []byte // scratch
	about  subject
	// orphans are values whose records name a key that does not have them (any more) in the data
	// file: a later link may give them another key.
	orphans map[uint64]*Object
	// doubts are keys that a reap record removes by a deadline that no replayed record stated.
	doubts []doubt
}

// recordCost is about what replaying a record costs a processor, in nanoseconds: those
// that change a key instead of stating it may have to read it from the data file. To it
// comes byteCost for each byte of a batch.
var recordCost = [...]int64{format.RecPut: 1000, format.RecLarge: 2000, format.RecElement: 1000, format.RecRemove: 1000, format.RecRange: 10_000, format.RecDelete: 1000,
	format.RecDeadline: 5000, format.RecLink: 10_000, format.RecMore: 300, format.RecLess: 300, format.RecCut: 10_000, format.RecTrim: 10_000, format.RecExpire: 300}

const byteCost = 1

// doubt is a key that is reaped, unless a later record states its deadline. The data file may be
// newer than the log's record that is replayed: then the clock went back after that record, and the
// file's deadline was set later.
type doubt struct {
	p *part
	k Key
}

// recovering is what the replays share.
type recovering struct {
	s       *Store
	replays []*replay
	meeting meeting
	floor   []int64 // per shard, its replay's: the newest "reaped through"
	time    int64   // of the newest format.RecTime; the first replay's
	timed   bool    // there was one
	// later are slots on disk of keyspaces that a later record of the log creates: the checkpoint
	// that wrote them did not finish.
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
	format.SlotEntry
}

type countKey struct {
	space uint32
	shard int
}

// newRecovering adopts the state of the data file, and makes the replays.
func newRecovering(s *Store, st format.State) (*recovering, error) {
	r := &recovering{s: s, later: map[uint32][]laterSlot{}, floor: make([]int64, st.Shards), time: st.Time}
	for i := range replaysOf(st.Shards) {
		r.replays = append(r.replays, &replay{recovering: r, num: i, counts: map[countKey]format.PartCounts{}, orphans: map[uint64]*Object{}})
	}
	r.meeting.init(len(r.replays))
	for _, c := range st.Counts {
		r.of(c.Shard).counts[countKey{c.Space, c.Shard}] = c
	}
	return r, r.adopt(st)
}

// maxReplays bounds the replays: more would gain little, since each reads every record.
const maxReplays = 4

// replaysOf is how many replays there are for so many shards.
func replaysOf(shards int) int { return min(runtime.GOMAXPROCS(0), shards, maxReplays) }

// replayTime is about how long the log would take to replay.
func (s *Store) replayTime() time.Duration {
	return time.Duration(s.replayCost.Load()) / time.Duration(replaysOf(len(s.shards)))
}

// of returns the replay of a shard.
func (r *recovering) of(shard int) *replay { return r.replays[shard%len(r.replays)] }

// adopt copies the state of the data file: the shards, the databases' keyspaces, and which slots
// have keys on disk.
func (r *recovering) adopt(st format.State) error {
	s := r.s
	s.slotsPerShard = Slots / st.Shards
	for i := range st.Shards {
		sh := &shard{num: i, store: s}
		sh.mu.parts = make([]*part, s.options.Databases+1)
		sh.nextDue.Store(never)
		s.shards = append(s.shards, sh)
	}
	if len(st.Spaces) > s.options.Databases {
		return fmt.Errorf("storage: the data has %d databases, the configuration allows %d", len(st.Spaces), s.options.Databases)
	}
	s.spaces.ids, s.spaces.next = st.Spaces, st.NextSpace
	for len(s.spaces.ids) < s.options.Databases {
		s.spaces.ids = append(s.spaces.ids, s.spaces.next)
		s.spaces.next++
	}
	s.spaces.ids = append(s.spaces.ids, format.SystemSpace)
	s.generation.Store(st.Generation)
	return s.file.view(func(tx *bolt.Tx) error {
		return each(tx, format.BucketSlots, nil, nil, func(k, v []byte) error {
			f := format.ParseSlotKey(k)
			d, ok := format.ParseSlot(k, v)
			if !f.OK || !ok {
				return fmt.Errorf("%w: entry %x of bucket slots", ErrCorrupt, k)
			}
			if !r.onDisk(f.Space, f.Slot, d) {
				r.later[f.Space] = append(r.later[f.Space], laterSlot{f.Slot, d})
			}
			return nil
		})
	})
}

// onDisk notes a slot's entry in the data file; false if no database has the keyspace.
func (r *recovering) onDisk(space uint32, slot uint16, d format.SlotEntry) bool {
	p := r.s.partOf(space, r.s.shards[r.s.shardOf(slot)])
	if p == nil {
		return false
	}
	p.filed = true
	if d.Keys > 0 {
		sl := p.slotAt(int(slot - p.first))
		sl.onDisk, sl.digest, sl.partial = d.Keys, d.Digest, true
		r.s.partials.Add(1)
	}
	return true
}

// batch replays one batch. With an error it returns the offset of the record that caused it.
func (r *replay) batch(batch []byte) (at int, err error) {
	f := format.Fields{Rest: batch}
	defer r.flushSubject()
	defer func() {
		if p := recover(); p != nil {
			err = object.Recovered(p)
		}
	}()
	for len(f.Rest) > 0 {
		at = len(batch) - len(f.Rest)
		tag := f.Rest[0]
		if tag != format.RecMore && tag != format.RecLess && tag != format.RecExpire {
			r.flushSubject()
		}
		f.Rest = f.Rest[1:]
		if err := r.record(tag, &f); err != nil {
			return at, err
		}
		if f.Bad {
			return at, fmt.Errorf("%w (tag %d)", format.ErrBadRecord, tag)
		}
	}
	return 0, nil
}

// prefetch reads what the first record of each batch will need, as Prefetch does, if the
// record is about a key of this replay. The batches stand in bytes, which start at offset
// from of what their ends count.
func (r *replay) prefetch(bytes []byte, from int, batches []batchEnd) {
	var keys [PrefetchKeys]Key
	n, at := 0, 0
	for _, b := range batches {
		f := format.Fields{Rest: bytes[at : b.end-from]}
		at = b.end - from
		if tag := f.Rest[0]; tag != format.RecPut && tag != format.RecElement && tag != format.RecRemove && tag != format.RecDelete && tag != format.RecDeadline {
			continue
		}
		f.Rest = f.Rest[1:]
		space, name := uint32(f.Int()), f.Bytes()
		slot := Slot(name)
		if r.of(r.s.shardOf(slot)) != r {
			continue
		}
		if db := slices.Index(r.s.spaces.ids, space); db >= 0 && n < len(keys) {
			keys[n] = Key{DB: db, Slot: slot, Hash: r.s.hash(name), Name: name}
			n++
		}
	}
	r.s.prefetchKeys(keys[:n], math.MaxUint64)
}

// record applies a record if it concerns a shard of this replay. It reads the record to its end in
// any case.
func (r *replay) record(tag byte, f *format.Fields) error {
	switch tag {
	case format.RecReaped:
		shard, through := f.Below(len(r.s.shards)), int64(f.Int())
		if !f.Bad && r.of(shard) == r {
			r.reaped(shard, through)
		}
	case format.RecCounts:
		c := format.PartCounts{Space: uint32(f.Int()), Shard: f.Below(len(r.s.shards)), Keys: int64(f.Int()), Expires: int64(f.Int())}
		if !f.Bad && r.of(c.Shard) == r {
			r.counts[countKey{c.Space, c.Shard}] = c
		}
	case format.RecFlush:
		db, id := f.Below(r.s.options.Databases), uint32(f.Int())
		if f.Bad {
			return format.ErrBadRecord
		}
		return r.meeting.alone(func() error { r.stated++; return r.flush(db, id) })
	case format.RecSwap:
		a, b := f.Below(r.s.options.Databases), f.Below(r.s.options.Databases)
		if f.Bad {
			return format.ErrBadRecord
		}
		return r.meeting.alone(func() error { r.stated++; r.swap(a, b); return nil })
	case format.RecTime:
		at := f.Instant()
		if f.Bad {
			return format.ErrBadRecord
		}
		if r.num == 0 {
			r.time, r.timed = at, true
		}
	case format.RecLink:
		return r.link(f)
	case format.RecPut, format.RecLarge, format.RecElement, format.RecRemove, format.RecRange, format.RecDelete, format.RecDeadline, format.RecCut, format.RecTrim:
		p, k, own := r.target(f)
		if own {
			r.cost += recordCost[tag]
			r.stated++
		}
		return r.keyRecord(tag, p, k, f)
	case format.RecMore, format.RecLess:
		if r.about.o != nil {
			r.cost += recordCost[tag]
		}
		return r.elementOf(tag == format.RecMore, f)
	case format.RecExpire:
		r.expire(f)
	default:
		return fmt.Errorf("%w: unknown tag %d", format.ErrBadRecord, tag)
	}
	return nil
}

// target reads a record's keyspace and key. own says that the key is in a shard of this replay. p
// is nil if it is not, and if the keyspace was emptied since, which a later record of the log
// states.
func (r *replay) target(f *format.Fields) (p *part, k Key, own bool) {
	space, name := uint32(f.Int()), f.Bytes()
	slot := Slot(name)
	sh := r.s.shards[r.s.shardOf(slot)]
	if r.of(sh.num) != r {
		return nil, Key{}, false
	}
	k = Key{Slot: slot, Hash: r.s.hash(name), Name: name}
	return r.s.partOf(space, sh), k, true
}

// flush runs alone.
func (r *replay) flush(db int, id uint32) error {
	r.s.flush(db, id)
	if r.mirror != nil {
		r.mirror.flushed(db)
	}
	for _, l := range r.later[id] {
		r.onDisk(id, l.slot, l.SlotEntry)
	}
	delete(r.later, id)
	return nil
}

// swap runs alone.
func (r *replay) swap(a, b int) {
	r.s.swap(a, b)
	if r.mirror != nil {
		r.mirror.swapped(a, b)
	}
}

func (r *replay) reaped(shard int, through int64) {
	sh := r.s.shards[shard]
	r.floor[shard] = max(r.floor[shard], through)
	for _, p := range sh.mu.parts {
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
			sl, c, k := p.byID(id)
			if d := p.deadline(*c); d == 0 || d > through {
				continue // elements are due: records name those that went
			}
			if *p.flags(*c)&flagUnstated != 0 {
				k.Name = bytes.Clone(k.Name)
				r.doubts = append(r.doubts, doubt{p, k})
				p.setDeadline(nil, sl, c, 0, 0) // so that the reaper examines it at once
				continue
			}
			p.unindex(sl, c)
			r.s.dropped(p, *c)
			p.retire(sl, c)
		}
	}
}

// resolveDoubts removes the keys whose deadline no later record has stated: it is older than the
// log, so the reap record was about it.
func (r *replay) resolveDoubts() {
	for _, d := range r.doubts {
		sl := d.p.slot(d.k)
		if c := d.p.find(sl, d.k); !d.p.dead && exists(c) && *d.p.flags(*c)&flagUnstated != 0 {
			r.delete(d.p, d.k)
		}
	}
}

// keyRecord applies a record about one key. The record is read to its end even where
// p is nil.
func (r *replay) keyRecord(tag byte, p *part, k Key, f *format.Fields) error {
	switch tag {
	case format.RecPut:
		deadline, created := f.Deadline()
		value := f.Bytes()
		if p == nil || f.Bad {
			return nil
		}
		return r.put(p, k, value, deadline, created)
	case format.RecLarge:
		o := &Object{id: f.Int()}
		if r.mirror == nil {
			o.state = stateReplayed
		}
		var deadline int64
		deadline, o.created = f.Deadline()
		typ := f.Type()
		if f.Bad {
			return nil
		}
		o.val = object.New(typ)
		r.sawID(o.id)
		if p != nil && !f.Bad {
			o.key = string(k.Name)
			sl := p.slot(k)
			c := p.putObject(nil, sl, p.find(sl, k), k, o, deadline)
			p.setHeader(*c, deadline, o.created, r.access())
			r.mayBeOnDisk(p, sl, c)
			r.about = subject{p, k, o}
			r.changed(p, sl, c, k)
		}
	case format.RecElement, format.RecRemove:
		id, typ := f.Int(), f.Type()
		if err := r.find(p, k, id, typ, f); err != nil {
			return err
		}
		return r.elementOf(tag == format.RecElement, f)
	case format.RecRange:
		id, off, data := f.Int(), f.Below(object.MaxString), f.Bytes()
		if err := r.find(p, k, id, object.TypeString, f); err != nil || r.about.o == nil {
			return err
		}
		str, ok := r.about.o.val.(*object.String)
		if !ok {
			return format.ErrBadRecord
		}
		was := len(str.Data)
		str.WriteAt(off, data)
		r.about.o.changeRange(off, len(data), was)
	case format.RecCut, format.RecTrim:
		typ := object.TypeList
		if tag == format.RecTrim {
			typ = object.TypeStream
		}
		id, first, last := f.Int(), f.Number(), f.Number()
		if err := r.find(p, k, id, typ, f); err != nil || r.about.o == nil {
			return err
		}
		v, ok := r.about.o.val.(object.Numbered)
		if !ok || v.Type() != typ {
			return format.ErrBadRecord
		}
		v.RemoveNumbers(first, last, r.about.o.changeRun)
	case format.RecDelete:
		if p != nil && !f.Bad {
			r.delete(p, k)
		}
	case format.RecDeadline:
		deadline, created := f.Deadline()
		if p == nil || f.Bad {
			return nil
		}
		sl, c, err := r.have(p, k)
		if err == nil && exists(c) {
			p.setDeadline(nil, sl, c, deadline, created)
			*p.flags(*c) &^= flagUnstated
			r.changed(p, sl, c, k)
		}
		return err
	}
	return nil
}

// access is the access time of replayed keys: when their replay began.
func (r *replay) access() uint32 {
	if r.mirror != nil {
		return r.s.firstAccess(r.mirror.t.now)
	}
	return r.s.firstAccess(r.s.opened)
}

// changed has a mirror note a key that has changed.
func (r *replay) changed(p *part, sl *slot, c *cell, k Key) {
	if r.mirror != nil {
		r.mirror.changed(p, sl, c, k)
	}
}

func (r *replay) sawID(id uint64) {
	for old := r.s.generation.Load(); id > old && !r.s.generation.CompareAndSwap(old, id); {
		old = r.s.generation.Load()
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
		return format.ErrBadRecord
	}
	sl := p.slot(k)
	c := p.putSmall(nil, sl, p.find(sl, k), k, value, deadline)
	p.setHeader(*c, deadline, created, r.access())
	*p.flags(*c) &^= flagUnstated
	r.mayBeOnDisk(p, sl, c)
	r.changed(p, sl, c, k)
	return nil
}

// delete makes a key a tombstone, even if memory does not know it: the data file may have it.
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

// have finds a key, reading it from the data file where memory does not know it.
func (r *replay) have(p *part, k Key) (*slot, *cell, error) {
	sl := p.slot(k)
	c := p.find(sl, k)
	if c != nil || !sl.partial {
		return sl, c, nil
	}
	err := r.s.file.view(func(tx *bolt.Tx) error {
		r.key = format.DiskKey(r.key[:0], p.space, k)
		record, err := find(tx, r.key, sl.verified)
		if record == nil || err != nil {
			sl.verified = err == nil
			return err
		}
		im, err := format.ParseImage(r.key, record)
		if err != nil {
			return fmt.Errorf("%w: key %q", err, clip(k.Name))
		}
		im.Partial = true // a later record completes it
		r.s.repairTimes(tx, r.key, &im)
		got, err := r.s.loads.readPart(tx, &im)
		if err != nil {
			return fmt.Errorf("%w: key %q", err, clip(k.Name))
		}
		c = p.load(sl, k, got)
		*p.flags(*c) |= flagUnstated
		return nil
	})
	return sl, c, err
}

// find makes the value id the subject. It is key k's, or was when the record was written.
func (r *replay) find(p *part, k Key, id uint64, typ object.Type, f *format.Fields) error {
	r.sawID(id)
	if p == nil || f.Bad {
		return nil
	}
	sl, c, err := r.have(p, k)
	if err != nil {
		return err
	}
	if o := p.valueOf(c, id); o != nil {
		r.about = subject{p, k, o}
		if r.mirror != nil {
			r.mirror.opening(p, sl, c, o)
		}
		return nil
	}
	if r.mirror != nil {
		return fmt.Errorf("%w: key %q has not the value that changes", ErrDiverged, clip(k.Name))
	}
	o, err := r.orphan(id, typ)
	r.about.o = o
	return err
}

// elementOf reads the rest of a record about an element, which is put or removed, and
// applies it to the subject.
func (r *replay) elementOf(put bool, f *format.Fields) error {
	elem := f.Bytes()
	var deadline int64
	var val []byte
	if put {
		deadline, val = int64(f.Int()), f.Bytes()
	}
	o := r.about.o
	if o == nil || f.Bad {
		return nil
	}
	if !o.val.Type().Names(elem) {
		return format.ErrBadRecord
	}
	o.change(elem)
	if put {
		return o.val.Put(elem, val, deadline)
	}
	o.val.Remove(elem)
	return nil
}

// expire gives the subject's key a deadline. A value that no key has at present gets its deadline from the link that gives
// it one.
func (r *replay) expire(f *format.Fields) {
	deadline, created := f.Deadline()
	if r.about.o == nil || f.Bad {
		return
	}
	r.cost += recordCost[format.RecExpire]
	r.stated++
	if p := r.about.p; p != nil {
		sl := p.slot(r.about.k)
		if c := p.find(sl, r.about.k); exists(c) && p.objectOf(*c) == r.about.o {
			p.setDeadline(nil, sl, c, deadline, created)
			*p.flags(*c) &^= flagUnstated
		}
	}
}

// flushSubject updates counts and index for the changed subject.
func (r *replay) flushSubject() {
	if p := r.about.p; p != nil {
		sl := p.slot(r.about.k)
		if c := p.find(sl, r.about.k); c != nil && p.objectOf(*c) == r.about.o {
			p.recount(sl, c, r.about.o)
			r.changed(p, sl, c, r.about.k)
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

// orphan returns a value that no key has at present, with its elements in the data file; nil if
// there are none, because it was deleted later.
func (r *replay) orphan(id uint64, typ object.Type) (*Object, error) {
	if o := r.orphans[id]; o != nil {
		return o, nil
	}
	var o *Object
	err := r.s.file.view(func(tx *bolt.Tx) error {
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

// overwritten removes the old value of a link's new key. The linked value itself was deleted later,
// before the data file was written. The old value is older than the link, or a later record states
// it again.
func (r *replay) overwritten(m *moved) error {
	q := r.s.partOf(m.toSpace, r.s.shards[r.s.shardOf(m.to.Slot)])
	if q == nil {
		return nil
	}
	_, c, err := r.have(q, m.to)
	if err != nil || !exists(c) {
		return err
	}
	switch o := q.objectOf(*c); {
	case o == nil:
		r.delete(q, m.to)
	case o.id != m.id: // a later link may move it here
		r.orphans[o.id] = q.unlink(nil, m.to)
	}
	return nil
}

// moved is a link record: the value id moves from one key to another.
type moved struct {
	from, to           Key
	fromSpace, toSpace uint32
	id                 uint64
	typ                object.Type
	deadline           int64
	created            uint32
}

// link reads a link. Its keys may be in the shards of two replays, so it is applied alone.
func (r *replay) link(f *format.Fields) error {
	var m moved
	m.fromSpace, m.from = uint32(f.Int()), r.s.Key(0, f.Bytes())
	m.toSpace, m.to = uint32(f.Int()), r.s.Key(0, f.Bytes())
	m.id, m.typ = f.Int(), f.Type()
	m.deadline, m.created = f.Deadline()
	if f.Bad {
		return format.ErrBadRecord
	}
	return r.meeting.alone(func() error {
		from := r.s.shards[r.s.shardOf(m.from.Slot)]
		owner := r.of(from.num)
		owner.cost += recordCost[format.RecLink]
		owner.stated++
		return owner.move(r.s.partOf(m.fromSpace, from), &m)
	})
}

// move moves the value of a record to another key. Its old key may have nothing on disk any more,
// or something newer.
func (r *replay) move(p *part, m *moved) error {
	r.sawID(m.id)
	var o *Object
	if p != nil {
		_, c, err := r.have(p, m.from)
		if err != nil {
			return err
		}
		if p.valueOf(c, m.id) != nil {
			o = p.unlink(nil, m.from)
		}
	}
	if o == nil {
		var err error
		if o, err = r.orphan(m.id, m.typ); err != nil {
			return err
		}
		if o == nil {
			return r.overwritten(m)
		}
		delete(r.orphans, m.id)
	}
	q := r.s.partOf(m.toSpace, r.s.shards[r.s.shardOf(m.to.Slot)])
	if q == nil {
		return nil
	}
	o.created = m.created
	o.state |= stateReplayed // a checkpoint that did not finish may have been at the new key
	c := q.adopt(nil, m.to, o, m.deadline)
	q.setHeader(*c, m.deadline, m.created, r.access())
	r.mayBeOnDisk(q, q.slot(m.to), c)
	return nil
}
