package storage

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// replay loads the records of its own shards from the log's batches into memory. Several replays
// read the same batches in parallel (feed.go), before anything else may touch the store, so they
// take no lock. Records that state a key whole need nothing else. A record that changes a key which
// is not in memory reads it from the data file first.
//
// A follower's Mirror is a replay, too, of one batch at a time while the store is in use
// (mirror.go).
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

// recordCost is roughly the processor time of replaying a record, in nanoseconds. Records that
// change a key instead of stating it may have to read it from the data file. Added to it is
// byteCost for each byte of a batch.
var recordCost = [...]int64{format.RecPut: 1000, format.RecLarge: 2000, format.RecElement: 1000, format.RecRemove: 1000, format.RecRange: 10_000, format.RecDelete: 1000,
	format.RecDeadline: 5000, format.RecLink: 10_000, format.RecMore: 300, format.RecLess: 300, format.RecCut: 10_000, format.RecTrim: 10_000, format.RecExpire: 300}

const byteCost = 1

// doubt is a key that is reaped, unless a later record states its deadline. The data file may be
// newer than the log's record that is replayed. Then the clock went back after that record, and the
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
	var rec format.Record
	for len(f.Rest) > 0 {
		at = len(batch) - len(f.Rest)
		rec.Read(&f)
		if f.Bad {
			return at, fmt.Errorf("%w (tag %d)", format.ErrBadRecord, rec.Tag)
		}
		if rec.Tag != format.RecMore && rec.Tag != format.RecLess && rec.Tag != format.RecExpire {
			r.flushSubject()
		}
		if err := r.record(&rec); err != nil {
			return at, err
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
		rec := format.ReadRecord(&format.Fields{Rest: bytes[at : b.end-from]})
		at = b.end - from
		slot := Slot(rec.Key)
		if rec.Key == nil || rec.Tag == format.RecLink || r.of(r.s.shardOf(slot)) != r {
			continue
		}
		if db := r.s.dbOf(rec.Space); db >= 0 && n < len(keys) {
			keys[n] = Key{DB: db, Slot: slot, Hash: r.s.hash(rec.Key), Name: rec.Key}
			n++
		}
	}
	r.s.prefetchKeys(keys[:n], math.MaxUint64)
}

// record applies a record if it concerns a shard of this replay.
func (r *replay) record(rec *format.Record) error {
	switch rec.Tag {
	case format.RecReaped, format.RecCounts:
		if rec.Shard >= uint64(len(r.s.shards)) {
			return fmt.Errorf("%w (shard %d)", format.ErrBadRecord, rec.Shard)
		}
		shard := int(rec.Shard)
		switch {
		case r.of(shard) != r:
		case rec.Tag == format.RecReaped:
			r.reaped(shard, rec.Time)
		default:
			r.counts[countKey{rec.Space, shard}] = format.PartCounts{Space: rec.Space, Shard: shard, Keys: rec.Keys, Expires: rec.Expires}
		}
	case format.RecFlush, format.RecSwap:
		if n := uint64(r.s.options.Databases); rec.DB >= n || rec.OtherDB >= n {
			return fmt.Errorf("%w (databases %d and %d of %d)", format.ErrBadRecord, rec.DB, rec.OtherDB, n)
		}
		rec := *rec
		return r.meeting.alone(func() error {
			r.stated++
			if rec.Tag == format.RecFlush {
				return r.flush(int(rec.DB), rec.Space)
			}
			r.swap(int(rec.DB), int(rec.OtherDB))
			return nil
		})
	case format.RecTime:
		if r.num == 0 {
			r.time, r.timed = rec.Time, true
		}
	case format.RecLink: // its keys may be in the shards of two replays
		rec := *rec
		return r.meeting.alone(func() error { return r.link(&rec) })
	case format.RecMore, format.RecLess:
		if r.about.o == nil {
			return nil
		}
		r.cost += recordCost[rec.Tag]
		return r.element(rec)
	case format.RecExpire:
		r.expire(rec)
	default:
		slot := Slot(rec.Key)
		sh := r.s.shards[r.s.shardOf(slot)]
		if r.of(sh.num) != r {
			return nil
		}
		r.cost += recordCost[rec.Tag]
		r.stated++
		r.sawID(rec.ID)
		if p := r.s.partOf(rec.Space, sh); p != nil { // otherwise a later record of the log empties the keyspace
			return r.keyRecord(rec, p, Key{Slot: slot, Hash: r.s.hash(rec.Key), Name: rec.Key})
		}
	}
	return nil
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

// large gives a key a value that is empty: records of its elements follow.
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

// access is the access time of replayed keys: when their replay began.
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

// find makes the value of the record the subject. It is key k's, or was when the record was
// written.
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
		return fmt.Errorf("%w: key %q has not the value that changes", ErrDiverged, clip(k.Name))
	}
	o, err := r.orphan(rec.ID, rec.Type)
	r.about.o = o
	return err
}

// element puts or removes an element of the subject.
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

// expire gives the subject's key a deadline. A value that no key has at present gets its deadline
// from the link that gives it one.
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

// link moves a value to another key. Its old key may have nothing on disk any more, or something
// newer. It runs alone.
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
// before the data file was written. The old value is older than the link, or a later record states
// it again.
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
