package storage

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
)

// finish ends the replay of the log. It sets the store's time and the numbers of keys to those of
// the log, and removes the keys from the data file that have expired according to the log.
func (r *recovering) finish() error {
	r.s.resumeTime(r.time)
	r.eachPart(func(p *part) { p.keys, p.expires, p.timed = 0, 0, 0 })
	unknown := false
	for _, one := range r.replays {
		r.s.replayCost.Add(one.cost)
		r.s.changes.Add(one.stated)
		one.resolveDoubts()
		for _, c := range one.counts {
			if c.Shard >= len(r.s.shards) {
				return fmt.Errorf("%w: counts of shard %d", format.ErrBadRecord, c.Shard)
			}
			if p := r.s.partOf(c.Space, r.s.shards[c.Shard]); p != nil {
				p.keys, p.expires, p.timed = c.Keys, c.Expires, c.Timed
				unknown = unknown || c.Timed == format.Unknown
			}
		}
	}
	if err := r.removeReaped(); err != nil || !unknown {
		return err
	}
	return r.countTimed()
}

func (r *recovering) eachPart(f func(*part)) {
	for _, sh := range r.s.shards {
		for _, p := range sh.mu.parts {
			if p != nil {
				f(p)
			}
		}
	}
}

// countTimed counts the keys with deadlines of elements, where an older version has not. It reads
// all records of keys.
func (r *recovering) countTimed() error {
	r.eachPart(func(p *part) {
		p.timed = 0
		for _, sl := range p.allUsed() {
			sl.table.Walk(func(c *cell) {
				if o := p.objectOf(*c); o != nil && o.is(stateTimed) {
					p.timed++
				}
			})
		}
	})
	return r.s.file.View(func(tx *bolt.Tx) error {
		return datafile.Each(tx, format.BucketValues, nil, func(error) {},
			func(at, record []byte) error {
				im, err := format.ParseImage(at, record)
				r.s.repairTimes(tx, at, &im)
				n := format.ParseSlotKey(at[:min(len(at), 6)])
				if err != nil || !n.OK || im.First == 0 {
					return nil
				}
				if p := r.s.partOf(n.Space, r.s.shards[r.s.shardOf(n.Slot)]); p != nil {
					k := Key{Slot: n.Slot, Hash: r.s.hash(im.Name), Name: im.Name}
					if p.find(p.slot(k), k) == nil {
						p.timed++
					}
				}
				return nil
			})
	})
}

func (r *recovering) removeReaped() error {
	var through int64
	for _, w := range r.floor {
		through = max(through, w)
	}
	if through == 0 || r.s.partials.Load() == 0 {
		return nil
	}
	return r.s.file.View(func(tx *bolt.Tx) error {
		err := datafile.Each(tx, format.BucketTTL, nil, nil, func(at, v []byte) error {
			e, ok := format.ParseTTL(at, v)
			if !ok {
				return ErrCorrupt
			}
			if e.Due > through {
				return datafile.ErrEnough
			}
			return r.removeEntry(tx, e)
		})
		if errors.Is(err, ErrCorrupt) {
			r.s.options.Logger.Error("deadlines are damaged on disk; all records are read instead",
				"error", err)
			err = r.removeRecords(tx)
		}
		if err == datafile.ErrEnough {
			return nil
		}
		return err
	})
}

// removeEntry removes the key of an entry of ttl if it is reaped.
func (r *recovering) removeEntry(tx *bolt.Tx, e format.TTLEntry) error {
	if (r.s.checkpointer.mu.pending > 0 || r.s.checkpointer.mu.ttlDoubtful) && !r.current(tx, e) {
		return nil
	}
	space, k, err := r.s.keyOnDisk(tx, e.On)
	if err != nil {
		return err
	}
	if e.Element { // records name those that went, but the key may be due, too
		im, err := format.ParseImage(e.On, tx.Bucket(format.BucketValues).Get(e.On))
		r.s.repairTimes(tx, e.On, &im)
		if err != nil || im.Deadline == 0 {
			return nil // diskDeadlines logs an error
		}
		e.Due = im.Deadline
	}
	r.remove(space, k, e.Due)
	return nil
}

// removeRecords removes reaped keys by the deadlines in their records, as ttl is damaged. Damaged
// records are errors when their keys are read.
func (r *recovering) removeRecords(tx *bolt.Tx) error {
	return datafile.Each(tx, format.BucketValues, nil, func(error) {},
		func(at, record []byte) error {
			im, err := format.ParseImage(at, record)
			r.s.repairTimes(tx, at, &im)
			if n := format.ParseSlotKey(at[:min(len(at), 6)]); err == nil && n.OK &&
				im.Deadline != 0 {
				name := bytes.Clone(im.Name)
				r.remove(n.Space, Key{Slot: n.Slot, Hash: r.s.hash(name), Name: name}, im.Deadline)
			}
			return nil
		})
}

// remove adds a tombstone for a key that is only in the data file, if the key is reaped.
func (r *recovering) remove(space uint32, k Key, deadline int64) {
	p := r.s.partOf(space, r.s.shards[r.s.shardOf(k.Slot)])
	if p == nil || deadline > r.floor[p.shard.num] {
		return
	}
	if sl := p.slot(k); p.find(sl, k) == nil {
		p.tombstone(sl, k)
	}
}

// current reports whether an entry of ttl agrees with the key's record: while changes of ttl are
// pending it may be outdated.
func (r *recovering) current(tx *bolt.Tx, e format.TTLEntry) bool {
	im, err := format.ParseImage(e.On, tx.Bucket(format.BucketValues).Get(e.On))
	r.s.repairTimes(tx, e.On, &im)
	return err == nil && im.Due() == e.Due
}
