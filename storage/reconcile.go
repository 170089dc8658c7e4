package storage

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
)

// After a data directory was damaged and saved in part, some records in the data file do not agree
// with each other. This file has the methods of an open store with which storage/repair finds and
// corrects these.

// Orphans calls found for each value whose elements are on disk although no record, no value in
// memory and no item of garbage names it. It passes the number of the elements and their size in
// bytes. Earlier versions left such elements of values that were renamed, and then deleted with or
// without their database, during a checkpoint. They only take space.
func (s *Store) Orphans(found func(id uint64, elements, size int)) error {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	named := map[uint64]bool{}
	s.eachObject(func(o *Object) { named[o.id] = true })
	garbage := func(item []byte) {
		if item[0] == 'e' && len(item) == 9 {
			named[binary.BigEndian.Uint64(item[1:])] = true
		}
	}
	s.garbage.mu.Lock()
	for _, item := range s.garbage.mu.items {
		garbage(item)
	}
	s.garbage.mu.Unlock()
	var last uint64
	var count, size int
	orphan := func() {
		if count > 0 && !named[last] {
			found(last, count, size)
		}
		count, size = 0, 0
	}
	return s.file.View(func(tx *bolt.Tx) error {
		err := datafile.Each(tx, format.BucketGarbage, nil, nil, func(item, _ []byte) error {
			garbage(item)
			return nil
		})
		if err == nil {
			err = datafile.Each(tx, format.BucketValues, nil, nil, func(at, record []byte) error {
				im, err := format.ParseImage(at, record)
				named[im.Stored()] = true
				return err
			})
		}
		if err == nil {
			err = datafile.Each(tx, format.BucketElements, nil, nil, func(at, v []byte) error {
				if id := binary.BigEndian.Uint64(at); id != last {
					orphan()
					last = id
				}
				count, size = count+1, size+len(at)+len(v)
				return nil
			})
		}
		orphan()
		return err
	})
}

// eachObject visits all values in memory that are Go objects.
func (s *Store) eachObject(fn func(*Object)) {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	for _, sh := range s.shards {
		for _, p := range sh.mu.parts {
			if p == nil {
				continue
			}
			for _, o := range p.objects.list {
				if o != nil {
					fn(o)
				}
			}
		}
	}
}

// Replayed is the state of a key in memory after the log was replayed.
type Replayed struct {
	DB     int    // the number of its database; -1 if no database has the keyspace
	Known  bool   // memory has the key, or knows that it was deleted
	Exists bool   // memory has the key
	ID     uint64 // of its value; 0 for a small string
}

// Replayed looks a key up only in memory, by the id of its keyspace.
func (s *Store) Replayed(space uint32, name []byte) Replayed {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	r := Replayed{DB: s.dbOf(space)}
	if r.DB < 0 {
		return r
	}
	p, c := t.s.look(s.Key(r.DB, name))
	if r.Known, r.Exists = c != nil, exists(c); r.Exists {
		if o := p.objectOf(*c); o != nil {
			r.ID = o.id
		}
	}
	return r
}

// Reconcile corrects the data after a part of the log was lost. It ends values that a checkpoint
// had written in part and that no record completes. With gaps it removes collections without
// elements. It counts the keys again. It reports each unfinished value, also one that memory has,
// unless stated returns true for its key. stated reports whether the log has all of a key.
func (s *Store) Reconcile(gaps bool, stated func(space uint32, name string) bool,
	report func(Unfinished)) error {
	if err := s.endUnfinished(stated, report); err != nil {
		return err
	}
	if gaps {
		s.dropEmpty()
	}
	s.recount()
	return nil
}

// dropEmpty removes collections without elements.
func (s *Store) dropEmpty() {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	for db := range s.options.Databases + 1 {
		var empty []Key
		for _, sh := range s.shards {
			if p := sh.mu.parts[db]; p != nil {
				empty = p.empty(db, empty)
			}
		}
		for _, k := range empty {
			t.Delete(k, Event{})
		}
	}
}

// empty appends the keys whose collections have no element.
func (p *part) empty(db int, keys []Key) []Key {
	for _, sl := range p.allUsed() {
		sl.table.Walk(func(c *cell) {
			if o := p.objectOf(*c); o != nil && exists(c) && o.val.Type() != object.TypeString &&
				o.val.Len() == 0 {
				keys = append(keys, Key{DB: db, Slot: sl.num, Hash: p.shard.store.hash(p.name(*c)),
					Name: bytes.Clone(p.name(*c))})
			}
		})
	}
	return keys
}

// recount counts the keys again.
func (s *Store) recount() {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	_ = s.file.View(func(tx *bolt.Tx) error {
		disk, _ := datafile.Verify(tx, s.options.Progress)
		for _, sh := range s.shards {
			for db, p := range sh.mu.parts {
				if p != nil {
					c := partCheck{s: s, p: p, db: db, tx: tx, disk: disk[p.space]}
					c.run()
					p.keys, p.expires, p.timed = c.keys, c.expires, c.timed
				}
			}
		}
		return nil
	})
}
