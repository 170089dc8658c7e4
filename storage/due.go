package storage

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/ttl"
)

// This file finds the keys that are due in a span of time. A key is due at its own deadline or at
// the first one of its elements, whichever is earlier. Keys in memory are found in the expiration
// index of their part (a shard's part of a database). Keys that are only on disk are found in the
// bucket ttl of the data file. An entry of that bucket is left out if memory knows whether its key
// exists. The entry may be out of date if changes of the bucket are pending. Then it counts only if
// the key's record has the same deadline.
//
// Memory and disk are read in small steps. So a key whose deadline changes meanwhile, or that moves
// between the two, may be counted twice or not at all. The last instant, math.MaxInt64, may be a
// deadline, so a span that ends there includes it.

// before reports whether a deadline is before the end of a span.
func before(deadline, end int64) bool { return deadline < end || end == math.MaxInt64 }

// dueStep is how many deadlines are read each time a shard is locked, or each time the data file is
// read. A shard is locked for some 10 us.
const dueStep = 1024

// dueTries bounds how often a shard is tried while a global transaction has it. duePause is the
// pause between two tries.
const (
	dueTries = 100
	duePause = time.Millisecond
)

const (
	// walkNames bounds how many names are copied each time a shard is locked, and walkBytes bounds
	// their bytes.
	walkNames = 128
	walkBytes = 64 << 10
)

// WalkDue passes to visit the keys of all databases that are due from one instant on and before
// another (Unix ms). It passes some at a time, in no order. If every is 1 it visits all of them,
// otherwise a sample: about 1/every of them. visit runs without a lock, and also after steps that
// found no key; its argument is valid until it returns. If visit returns false the walk ends. whole
// is false then. It is also false if a global transaction kept a shard for too long, or the data
// file could not be read.
func (s *Store) WalkDue(from, until int64, every uint64, visit func([]DueKey) bool) (whole bool) {
	w := dueWalk{View: s.patient(), until: until, every: every}
	next := func() bool {
		on := visit(w.list)
		w.list, w.names = w.list[:0], w.names[:0]
		return on
	}
	for _, sh := range s.shards {
		for db := range s.options.Databases {
			at := ttl.Entry{Deadline: from}
			for more := true; more; {
				look := func() { at, more = w.inMemory(sh.mu.parts[db], db, at) }
				if w.locked(sh, look) != nil || !next() {
					return false
				}
			}
		}
	}
	for place := format.TTLKey(nil, from, nil); place != nil && s.partials.Load() > 0; {
		list, after, err := s.readDue(place, until, dueStep)
		if err == nil {
			list, err = w.onlyOnDisk(list)
		}
		if err != nil {
			return false
		}
		for _, k := range list {
			if k.DB < s.options.Databases && k.key.Hash%every == 0 {
				w.add(k.DB, k.Name, k.At, k.Element)
			}
		}
		if !next() {
			return false
		}
		place = after
	}
	return true
}

// dueWalk is a walk that is under way.
type dueWalk struct {
	View
	until int64
	every uint64
	list  []DueKey // of one step
	names []byte   // the names in list
}

func (w *dueWalk) add(db int, name []byte, at int64, element bool) {
	w.names = append(w.names, name...)
	w.list = append(w.list, DueKey{DB: db, Name: w.names[len(w.names)-len(name):], At: at,
		Element: element})
}

// inMemory adds the next entries of a part, beginning at from. If there are more entries, it
// returns the next one. The shard is locked.
func (w *dueWalk) inMemory(p *part, db int, from ttl.Entry) (next ttl.Entry, more bool) {
	if p == nil {
		return next, false
	}
	const odd = 0x9e3779b97f4a7c15 // spreads numbers that follow each other
	looks := 0
	p.index.WalkFrom(from, func(e ttl.Entry) bool {
		if !before(e.Deadline, w.until) {
			return false
		}
		if looks++; looks > dueStep || len(w.list) == walkNames || len(w.names) > walkBytes {
			next, more = e, true
			return false
		}
		if e.ID*odd>>32%w.every == 0 {
			w.add(db, p.name(hashtable.NewCell(0, uint32(e.ID), cell(e.ID)&hashtable.Obj)),
				e.Deadline, p.byElement(e))
		}
		return true
	})
	return next, more
}

// byElement reports whether an entry of the index is about an element.
func (p *part) byElement(e ttl.Entry) bool {
	return cell(e.ID)&hashtable.Obj != 0 && p.objects.at(uint32(e.ID)).deadline != e.Deadline
}

// DueKey is a key and when it is due, in Unix ms.
type DueKey struct {
	DB      int
	Name    []byte
	At      int64
	Element bool // one of its elements is due then
}

// diskDue is an entry of the bucket ttl, with the key that it is about.
type diskDue struct {
	DueKey
	on    []byte // the place of the key in the bucket values
	space uint32
	key   Key
}

// readDue reads entries of the bucket ttl, beginning at from and with deadlines before until. most
// bounds their number. next is the key of the next entry, or nil if there is none. Damaged entries
// are left out: diskDeadlines reports them.
func (s *Store) readDue(from []byte, until int64,
	most int) (list []diskDue, next []byte, err error) {
	err = s.file.View(func(tx *bolt.Tx) error {
		looks := 0
		err := datafile.Each(tx, format.BucketTTL, from, func(error) {}, func(at, v []byte) error {
			if bytes.Compare(at, from) < 0 {
				return nil
			}
			looks++
			e, ok := format.ParseTTL(at, v)
			if !ok {
				return nil
			}
			if looks > most {
				next = bytes.Clone(at)
				return datafile.ErrEnough
			}
			if !before(e.Due, until) {
				return datafile.ErrEnough
			}
			one := diskDue{on: bytes.Clone(e.On)}
			one.At, one.Element = e.Due, e.Element
			var damage error
			if one.space, one.key, damage = s.keyOnDisk(tx, one.on); damage == nil {
				one.Name = one.key.Name
				list = append(list, one)
			}
			return nil
		})
		if errors.Is(err, datafile.ErrEnough) {
			return nil
		}
		return err
	})
	return list, next, err
}

// onlyOnDisk returns the entries whose keys are not in memory, with their databases.
func (v View) onlyOnDisk(list []diskDue) (only []diskDue, err error) {
	list = slices.DeleteFunc(list, func(e diskDue) bool { return e.At <= 0 })
	var doubtful []diskDue
	err = byShard(v.s, list, func(e diskDue) Key { return e.key },
		func(sh *shard, of []diskDue) error {
			return v.locked(sh, func() {
				sure, unsure := sh.missing(of)
				only, doubtful = append(only, sure...), append(doubtful, unsure...)
			})
		})
	if err != nil {
		return nil, err
	}
	return v.s.certain(only, doubtful)
}

// byShard calls fn for each shard that has keys in a list, with these. It sorts the list. It ends
// with an error of fn.
func byShard[T any](s *Store, list []T, key func(T) Key, fn func(*shard, []T) error) error {
	shardOf := func(e T) int { return s.shardOf(key(e).Slot) }
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(shardOf(a), shardOf(b)) })
	for len(list) > 0 {
		sh, n := s.shards[shardOf(list[0])], 1
		for n < len(list) && shardOf(list[n]) == sh.num {
			n++
		}
		if err := fn(sh, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// certain adds to a list the doubtful entries that the records of their keys confirm.
func (s *Store) certain(list, doubtful []diskDue) ([]diskDue, error) {
	if len(doubtful) == 0 {
		return list, nil
	}
	err := s.file.View(func(tx *bolt.Tx) error {
		for _, e := range doubtful {
			record := tx.Bucket(format.BucketValues).Get(e.on)
			if im, err := format.ParseImage(e.on, record); err == nil && im.Due() == e.At {
				list = append(list, e)
			}
		}
		return nil
	})
	return list, err
}

// missing returns the shard's entries whose keys are not in memory, with their databases. Entries
// in sure are certain; for those in unsure, changes of ttl may be pending. The shard is locked.
func (sh *shard) missing(list []diskDue) (sure, unsure []diskDue) {
	for _, e := range list {
		e.DB = sh.store.dbOf(e.space)
		if e.DB < 0 {
			continue
		}
		p := sh.mu.parts[e.DB]
		if p == nil || !p.hasSlot(e.key) {
			continue
		}
		if sl := p.slot(e.key); !sl.partial || p.find(sl, e.key) != nil {
			continue
		} else if sl.awaiting || sl.inflight { // changes of ttl are pending
			unsure = append(unsure, e)
		} else {
			sure = append(sure, e)
		}
	}
	return sure, unsure
}

const (
	// dueLooks and diskLooks bound how many entries a page looks at in a shard, and on disk.
	dueLooks  = 2 * dueStep
	diskLooks = 8 * dueStep
	// dueBytes bounds the bytes of the names that a page looks at, and listBytes the bytes of the
	// names that it returns.
	dueBytes  = 2 << 20
	listBytes = 4 << 20
)
