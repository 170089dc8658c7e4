package storage

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// replay applies the records of its own shards, from the log's batches, to memory. Several replays
// read the same batches in parallel (feed.go). Nothing else may touch the store before they end, so
// they take no lock. A record that contains a whole key can be applied alone. For a record that
// changes a key which is not in memory, the key is first read from the data file.
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
	// doubts are keys that a reap record removes because of a deadline from the data file, which no
	// replayed record has set.
	doubts []doubt
}

// recordCost is roughly the processor time of replaying a record, in nanoseconds. For a record that
// changes only a part of a key, replay may have to read the key from the data file. byteCost is
// added for each byte of a batch.
var recordCost = [...]int64{format.RecPut: 1000, format.RecLarge: 2000, format.RecElement: 1000,
	format.RecRemove: 1000, format.RecRange: 10_000, format.RecDelete: 1000,
	format.RecDeadline: 5000, format.RecLink: 10_000, format.RecMore: 300, format.RecLess: 300,
	format.RecCut: 10_000, format.RecTrim: 10_000, format.RecExpire: 300}

const byteCost = 1

// doubt is a key that is reaped, unless a later record sets its deadline. The data file may be
// newer than the record that is being replayed: then the clock went back after that record, and the
// deadline in the file was set later.
type doubt struct {
	p *part
	k Key
}

// recovering is the state that the replays share.
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
	o *Object // nil: the value does not exist any more
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
	r := &recovering{s: s, later: map[uint32][]laterSlot{}, floor: make([]int64, st.Shards),
		time: st.Time}
	for i := range replaysOf(st.Shards) {
		r.replays = append(r.replays, &replay{recovering: r, num: i,
			counts: map[countKey]format.PartCounts{}, orphans: map[uint64]*Object{}})
	}
	r.meeting.init(len(r.replays))
	for _, c := range st.Counts {
		r.of(c.Shard).counts[countKey{c.Space, c.Shard}] = c
	}
	return r, r.adopt(st)
}

// maxReplays bounds the replays: more would gain little, since each reads every record.
const maxReplays = 4

// replaysOf returns the number of replays for a number of shards.
func replaysOf(shards int) int { return min(runtime.GOMAXPROCS(0), shards, maxReplays) }

// replayTime returns about how long the log would take to replay.
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
		return fmt.Errorf("storage: the data has %d databases, the configuration allows %d",
			len(st.Spaces), s.options.Databases)
	}
	s.spaces.ids, s.spaces.next = st.Spaces, st.NextSpace
	for len(s.spaces.ids) < s.options.Databases {
		s.spaces.ids = append(s.spaces.ids, s.spaces.next)
		s.spaces.next++
	}
	s.spaces.ids = append(s.spaces.ids, format.SystemSpace)
	s.spaces.swaps = make([]uint64, len(s.spaces.ids))
	s.generation.Store(st.Generation)
	return s.file.View(func(tx *bolt.Tx) error {
		return datafile.Each(tx, format.BucketSlots, nil, nil, func(k, v []byte) error {
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

// prefetch reads the memory that the first record of each batch needs, if it is about a key of this
// replay (see Prefetch). bytes contains the batches; each ends in it at end-from.
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
	case format.RecReaped, format.RecCounts, format.RecPopulation:
		if rec.Shard >= uint64(len(r.s.shards)) {
			return fmt.Errorf("%w (shard %d)", format.ErrBadRecord, rec.Shard)
		}
		shard := int(rec.Shard)
		switch {
		case r.of(shard) != r:
		case rec.Tag == format.RecReaped:
			r.reaped(shard, rec.Time)
		default:
			r.counts[countKey{rec.Space, shard}] = format.PartCounts{Space: rec.Space, Shard: shard,
				Keys: rec.Keys, Expires: rec.Expires, Timed: rec.Timed}
		}
	case format.RecFlush, format.RecSwap:
		if n := uint64(r.s.options.Databases); rec.DB >= n || rec.OtherDB >= n {
			return fmt.Errorf("%w (databases %d and %d of %d)", format.ErrBadRecord,
				rec.DB, rec.OtherDB, n)
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
		if p := r.s.partOf(rec.Space, sh); p != nil {
			// Otherwise a later record of the log empties the keyspace.
			return r.keyRecord(rec, p, Key{Slot: slot, Hash: r.s.hash(rec.Key), Name: rec.Key})
		}
	}
	return nil
}

// flush empties a database while no other replay runs.
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

// swap exchanges two databases while no other replay runs.
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

// resolveDoubts removes the keys whose deadline no later record has set. Such a deadline is older
// than the log, so the reap record was about it.
func (r *replay) resolveDoubts() {
	for _, d := range r.doubts {
		sl := d.p.slot(d.k)
		if c := d.p.find(sl, d.k); !d.p.dead && exists(c) && *d.p.flags(*c)&flagUnstated != 0 {
			r.delete(d.p, d.k)
		}
	}
}
