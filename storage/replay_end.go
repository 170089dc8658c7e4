package storage

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// finish puts the time and the counts in place and removes what the log says is reaped but only
// the data file still has.
func (r *recovering) finish() error {
	r.s.resumeTime(r.time)
	for _, sh := range r.s.shards {
		for _, p := range sh.parts {
			if p != nil {
				p.keys, p.expires = 0, 0
			}
		}
	}
	for _, one := range r.replays {
		r.s.replayCost.Add(one.cost)
		one.settleDoubts()
		for _, c := range one.counts {
			if c.shard >= len(r.s.shards) {
				return fmt.Errorf("%w: counts of shard %d", errBadRecord, c.shard)
			}
			if p := r.s.partOf(c.space, r.s.shards[c.shard]); p != nil {
				p.keys, p.expires = c.keys, c.expires
			}
		}
	}
	return r.removeReaped()
}

func (r *recovering) removeReaped() error {
	var through int64
	for _, w := range r.floor {
		through = max(through, w)
	}
	if through == 0 || r.s.partials.Load() == 0 {
		return nil
	}
	return r.s.view(func(tx *bolt.Tx) error {
		err := each(tx, bucketTTL, nil, nil, func(at, v []byte) error {
			e, ok := parseTTL(at, v)
			if !ok {
				return ErrCorrupt
			}
			if e.due > through {
				return errEnough
			}
			return r.removeEntry(tx, e)
		})
		if errors.Is(err, ErrCorrupt) {
			r.s.options.Logger.Error("deadlines are damaged on disk; all keys there are looked at instead", "error", err)
			err = r.removeRecords(tx)
		}
		if err == errEnough {
			return nil
		}
		return err
	})
}

// removeEntry removes the key of an entry of ttl if it is reaped.
func (r *recovering) removeEntry(tx *bolt.Tx, e ttlEntry) error {
	if (r.s.checkpointer.pending > 0 || r.s.ttlDoubtful) && !r.current(tx, e) {
		return nil
	}
	space, k, err := r.s.keyOnDisk(tx, e.on)
	if err != nil {
		return err
	}
	if e.element { // records name those that went, but the key may be due, too
		im, err := parseImage(e.on, tx.Bucket(bucketValues).Get(e.on))
		r.s.mend(tx, e.on, &im)
		if err != nil || im.deadline == 0 {
			return nil // the window logs an error
		}
		e.due = im.deadline
	}
	r.remove(space, k, e.due)
	return nil
}

// removeRecords removes the keys that are reaped by their records, for want of a sound ttl.
// Damaged ones are errors when somebody asks for their keys.
func (r *recovering) removeRecords(tx *bolt.Tx) error {
	return each(tx, bucketValues, nil, func(error) {}, func(at, record []byte) error {
		im, err := parseImage(at, record)
		r.s.mend(tx, at, &im)
		if n := parseSlotKey(at[:min(len(at), 6)]); err == nil && n.ok && im.deadline != 0 {
			name := bytes.Clone(im.name)
			r.remove(n.space, Key{Slot: n.slot, Hash: r.s.hash(name), Name: name}, im.deadline)
		}
		return nil
	})
}

// remove makes a key that only the data file has a tombstone if it is reaped.
func (r *recovering) remove(space uint32, k Key, deadline int64) {
	p := r.s.partOf(space, r.s.shards[r.s.shardOf(k.Slot)])
	if p == nil || deadline > r.floor[p.shard.num] {
		return
	}
	if sl := p.slot(k); p.find(sl, k) == nil {
		p.tombstone(sl, k)
	}
}

// current says whether an entry of ttl is what the key's record says: while changes of ttl
// are pending it may be an entry that goes.
func (r *recovering) current(tx *bolt.Tx, e ttlEntry) bool {
	im, err := parseImage(e.on, tx.Bucket(bucketValues).Get(e.on))
	r.s.mend(tx, e.on, &im)
	return err == nil && im.due() == e.due
}
