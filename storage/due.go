package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/keytable"
	"keyp/ttl"
)

// This file walks over deadlines, for the dashboard, for counts by name, and for
// diskDeadlines. A key is due at its own deadline or at the first one of its elements, whichever is
// earlier. Keys in memory are in the expiration index of their part. For keys that are only on disk
// the walk reads the bucket ttl. It leaves out an entry if memory knows the key. If the entry may
// have a pending change, it is also left out if the key's record has another deadline.
//
// Memory and disk are read in small steps. So a key whose deadline changes meanwhile, or that moves
// between the two, may be counted twice or not at all; a list has it once or not at all. If a
// global transaction has locked a shard, a step waits for the shard, but not for long. The last
// instant, math.MaxInt64, may be a deadline, so a span that ends there includes it.

// before reports whether a deadline is before the end of a span.
func before(deadline, end int64) bool { return deadline < end || end == math.MaxInt64 }

// dueStep is how many deadlines are looked at each time a shard is locked, some 10 us, or each time
// the data file is read.
const dueStep = 1024

// dueTries bounds how often a step of a walk, or a whole list, tries again because a global
// transaction has the shard. Before each attempt it waits for duePause.
const (
	dueTries = 100
	duePause = time.Millisecond
)

// dueRetries returns the function to call when a global transaction has the shard. The function
// waits, and returns true if the step may be tried again.
func dueRetries() (again func() bool) {
	tries := 0
	return func() bool {
		if tries++; tries > dueTries {
			return false
		}
		time.Sleep(duePause)
		return true
	}
}

// walkDue calls inMemory for the index of each part, in steps, with the shard locked. It begins at
// the deadline from. It calls onDisk for each key that is only on disk. After each step, and before
// it retries one, it calls next. onDisk and next are called without a lock. It returns false if
// next does, if a global transaction kept a shard for too long, or if it could not read the data
// file.
func (s *Store) walkDue(from, until int64, inMemory dueLook, onDisk func(DueKey),
	next func() bool) bool {
	retries := func() func() bool {
		again := dueRetries()
		return func() bool { return again() && next() }
	}
	for _, sh := range s.shards {
		for db := range s.options.Databases {
			at := ttl.Entry{Deadline: from}
			for more := true; more; {
				var ok bool
				if at, more, ok = sh.lookAtDue(db, at, inMemory, retries()); !ok || !next() {
					return false
				}
			}
		}
	}
	place := format.TTLKey(nil, from, nil)
	for place != nil && s.partials.Load() > 0 {
		var list []diskDue
		var err error
		if list, place, err = s.readDue(place, until, dueStep); err != nil ||
			!s.onlyOnDisk(list, onDisk, retries()) || !next() {
			return false
		}
	}
	return true
}

// dueLook looks at the next entries of a part, from at on, while the shard is locked. p is nil if
// the database has no part there. If there are more entries, it returns the next one.
type dueLook func(p *part, db int, at ttl.Entry) (next ttl.Entry, more bool)

// lookAtDue locks the shard for a look. ok is false if a global transaction has it, and again
// returns false.
func (sh *shard) lookAtDue(db int, at ttl.Entry, look dueLook,
	again func() bool) (next ttl.Entry, more, ok bool) {
	for !sh.lockPassingGlobal() {
		if !again() {
			return next, false, false
		}
	}
	defer sh.mu.Unlock()
	next, more = look(sh.mu.parts[db], db, at)
	return next, more, true
}

const (
	// walkNames and walkBytes bound how many names, and how much of them, are copied each time a
	// shard is locked.
	walkNames = 128
	walkBytes = 64 << 10
)

// WalkDue passes to visit the keys of all databases that are due from one instant on and before
// another (Unix ms). It passes some at a time, in no order. It visits all of them if every is 1,
// else a sample of about one in every. visit runs without a lock, and also after steps that found
// no key; its argument is valid until it returns. If visit returns false the walk ends. whole is
// false then, and where walkDue returns false.
func (s *Store) WalkDue(from, until int64, every uint64, visit func([]DueKey) bool) (whole bool) {
	w := dueWalk{s: s, until: until, every: every}
	return s.walkDue(from, until, w.inMemory, w.onDisk, func() bool {
		on := visit(w.list)
		w.list, w.names = w.list[:0], w.names[:0]
		return on
	})
}

// dueWalk is a walk that is under way.
type dueWalk struct {
	s     *Store
	until int64
	every uint64
	list  []DueKey // of one step
	names []byte   // theirs
}

func (w *dueWalk) add(db int, name []byte, at int64, element bool) {
	w.names = append(w.names, name...)
	w.list = append(w.list, DueKey{DB: db, Name: w.names[len(w.names)-len(name):], At: at,
		Element: element})
}

func (w *dueWalk) onDisk(k DueKey) {
	if w.every == 1 || w.s.hash(k.Name)%w.every == 0 {
		w.add(k.DB, k.Name, k.At, k.Element)
	}
}

// inMemory adds the next entries of a part, from from on. If there are more entries, it returns the
// next one. The shard is locked.
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
			w.add(db, p.name(keytable.NewCell(0, uint32(e.ID), cell(e.ID)&keytable.Obj)),
				e.Deadline, p.byElement(e))
		}
		return true
	})
	return next, more
}

// byElement reports whether an entry of the index is about an element.
func (p *part) byElement(e ttl.Entry) bool {
	return cell(e.ID)&keytable.Obj != 0 && p.objects.at(uint32(e.ID)).deadline != e.Deadline
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
	on    []byte // where the key stands in values
	space uint32
	key   Key
}

// readDue reads at most most entries of the bucket ttl, from from on and with deadlines before
// until. next is the key of the next entry, or nil if there is none. Damaged entries are left out:
// diskDeadlines reports them.
func (s *Store) readDue(from []byte, until int64,
	most int) (list []diskDue, next []byte, err error) {
	err = s.file.view(func(tx *bolt.Tx) error {
		looks := 0
		err := each(tx, format.BucketTTL, from, func(error) {}, func(at, v []byte) error {
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
				return errEnough
			}
			if !before(e.Due, until) {
				return errEnough
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
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	return list, next, err
}

// onlyOnDisk calls visit for each entry whose key is not in memory, while no shard is locked. It
// sets the database of the entry. It returns false if a global transaction has a shard and again
// returns false, or if the data file cannot be read. It changes the order of the list.
func (s *Store) onlyOnDisk(list []diskDue, visit func(DueKey), again func() bool) bool {
	shardOf := func(e diskDue) int { return s.shardOf(e.key.Slot) }
	slices.SortStableFunc(list, func(a, b diskDue) int {
		return cmp.Compare(shardOf(a), shardOf(b))
	})
	var only, doubtful []diskDue
	for len(list) > 0 {
		sh, n := s.shards[shardOf(list[0])], 1
		for n < len(list) && shardOf(list[n]) == sh.num {
			n++
		}
		sure, unsure, ok := sh.notInMemory(list[:n], again)
		if !ok {
			return false
		}
		only, doubtful, list = append(only, sure...), append(doubtful, unsure...), list[n:]
	}
	only, err := s.certain(only, doubtful)
	if err != nil {
		return false
	}
	for _, e := range only {
		visit(e.DueKey)
	}
	return true
}

// certain adds to a list the doubtful entries that the records of their keys confirm.
func (s *Store) certain(list, doubtful []diskDue) ([]diskDue, error) {
	if len(doubtful) == 0 {
		return list, nil
	}
	err := s.file.view(func(tx *bolt.Tx) error {
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

// notInMemory returns the shard's entries whose keys are not in memory, with their databases: sure
// ones, and those that may be about to change. ok is false if a global transaction has the shard,
// and again returns false.
func (sh *shard) notInMemory(list []diskDue, again func() bool) (sure, unsure []diskDue, ok bool) {
	for !sh.lockPassingGlobal() {
		if !again() {
			return nil, nil, false
		}
	}
	defer sh.mu.Unlock()
	sure, unsure = sh.missing(list)
	return sure, unsure, true
}

// missing returns what notInMemory returns. The shard is locked.
func (sh *shard) missing(list []diskDue) (sure, unsure []diskDue) {
	for _, e := range list {
		e.DB = sh.store.dbOf(e.space)
		if e.DB < 0 || e.DB >= sh.store.options.Databases {
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
	// dueLooks and diskLooks bound how many entries a list looks at in a shard, and on disk.
	dueLooks  = 2 * dueStep
	diskLooks = 8 * dueStep
	// dueBytes bounds the bytes of the names that a list looks at, and listBytes the bytes of the
	// names that it returns.
	dueBytes  = 2 << 20
	listBytes = 4 << 20
)

// ListDue lists keys of a database that are due at from or later, and before until (Unix ms), in
// the order of their deadlines. It lists the first limit keys that keep accepts. The list is
// complete for keys that are due before through, which is until unless there was more to look at. A
// key whose deadline changes meanwhile is listed once, at the later deadline, or not at all. ok is
// false if a global transaction kept a shard for too long, or the data file could not be read.
func (s *Store) ListDue(db int, from, until int64, limit int,
	keep func(name []byte) bool) (list []DueKey, through int64, ok bool) {
	return s.listDue(db, from, until, limit, keep, dueRetries())
}

// listDue does the work of ListDue. It calls again if a global transaction has a shard, and tries
// again if again returns true.
func (s *Store) listDue(db int, from, until int64, limit int, keep func(name []byte) bool,
	again func() bool) (list []DueKey, through int64, ok bool) {
	l := dueList{db: db, limit: limit, keep: keep, again: again, through: until}
	for _, sh := range s.shards {
		if !l.inMemory(sh, from) {
			return nil, from, false
		}
	}
	place, looks, size := format.TTLKey(nil, from, nil), 0, 0
	for place != nil && s.partials.Load() > 0 {
		if looks += dueStep; looks > diskLooks || size > dueBytes {
			l.through = min(l.through, int64(binary.BigEndian.Uint64(place)))
			break
		}
		found, next, err := s.readDue(place, l.through, dueStep)
		if err != nil || !s.onlyOnDisk(found, func(k DueKey) {
			size += len(k.Name)
			if k.DB == db && keep(k.Name) {
				l.list = append(l.list, k)
			}
		}, again) {
			return nil, from, false
		}
		place = next
	}
	list, through = l.first()
	return list, through, true
}

// first returns the first keys found, and the time up to which they are complete.
func (l *dueList) first() (list []DueKey, through int64) {
	slices.SortFunc(l.list, func(a, b DueKey) int {
		return cmp.Or(cmp.Compare(a.At, b.At), bytes.Compare(a.Name, b.Name))
	})
	last := make(map[string]int, len(l.list))
	for i, k := range l.list {
		last[string(k.Name)] = i
	}
	if len(last) < len(l.list) { // deadlines were raised, or keys went to disk, between two looks
		i := -1
		l.list = slices.DeleteFunc(l.list, func(k DueKey) bool {
			i++
			return last[string(k.Name)] != i
		})
	}
	end := 0
	for size := 0; end < len(l.list) && end < l.limit && l.list[end].At <= l.through &&
		(end == 0 || size <= listBytes); end++ {
		size += len(l.list[end].Name)
	}
	if end < len(l.list) {
		l.through = min(l.through, l.list[end].At)
	}
	return l.list[:end], l.through
}

// dueList is a list that is under way.
type dueList struct {
	db      int
	limit   int
	keep    func(name []byte) bool
	again   func() bool
	list    []DueKey
	through int64
}

// inMemory adds the first keys of a shard that are due from an instant on. No shard is locked while
// keep is called. It returns false if a global transaction has the shard and again returns false.
func (l *dueList) inMemory(sh *shard, from int64) bool {
	w := dueWalk{until: l.through, every: 1}
	looks, kept, size := 0, 0, 0
	at := ttl.Entry{Deadline: from}
	for more := true; more; {
		var ok bool
		w.list, w.names = w.list[:0], w.names[:0]
		if at, more, ok = sh.lookAtDue(l.db, at, w.inMemory, l.again); !ok {
			return false
		}
		for _, k := range w.list {
			if looks++; looks > dueLooks || kept == l.limit || size > dueBytes {
				l.through = k.At
				return true
			}
			if size += len(k.Name); l.keep(k.Name) {
				k.Name = bytes.Clone(k.Name)
				l.list = append(l.list, k)
				kept++
			}
		}
	}
	return true
}
