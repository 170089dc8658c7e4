package storage

import (
	"bytes"
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
)

// expiringOnDisk is a key that is only on disk, for a page of the list of keys by deadline
// (expiring.go). Most such keys are found by their entry in the bucket ttl. But if an element's
// deadline is earlier than the key's, that entry is at the element's deadline. The key's own
// deadline is then in an index in memory (laterDeadlines). later is true if the key was found by
// that index.
type expiringOnDisk struct {
	cursor DueCursor // of the key's hash it has only the first 32 bits
	on     []byte    // the key of its record in the bucket values
	key    Key
	later  bool
}

// diskCursor returns the first key in the bucket ttl that an entry at a place may have.
func diskCursor(space uint32, p DueCursor) []byte {
	on := format.SlotKey(nil, space, p.Slot)
	return format.TTLKey(nil, p.Deadline, binary.BigEndian.AppendUint32(on, uint32(p.Hash>>32)))
}

// cursorOnDisk returns the DueCursor of a key with a deadline. on is the record of the key in ttl.
func cursorOnDisk(deadline int64, on []byte) DueCursor {
	return DueCursor{Deadline: deadline, Slot: binary.BigEndian.Uint16(on[4:]),
		Hash: uint64(binary.BigEndian.Uint32(on[6:])) << 32}
}

// onDisk adds to the list the first keys that are only on disk.
func (l *expiring) onDisk() error {
	space, known, err := l.beginOnDisk()
	if err != nil {
		return err
	}
	looks := 0
	for !l.next && known.Before(l.from) {
		if looks > l.most.cover { // a later page goes on
			l.through = l.from
			return nil
		}
		_, next, n, err := l.readTTL(space, known, l.from, dueStep, false)
		if err != nil {
			return err
		}
		known, looks = next, looks+n
	}
	looks, size := 0, 0
	for at := l.from; at.Before(l.through); {
		if looks > l.most.disk+l.count || size > dueBytes {
			l.through = at
			break
		}
		keys, next, n, err := l.readTTL(space, at, l.through, min(dueStep, max(l.count, walkNames)),
			true)
		if err != nil {
			return err
		}
		var later []expiringOnDisk
		if !l.next {
			later, next = l.s.later.between(space, at, next)
			if later, err = l.nameOnDisk(later); err != nil {
				return err
			}
		}
		keys = slices.DeleteFunc(append(keys, later...), func(k expiringOnDisk) bool {
			size += len(k.key.Name)
			return !k.cursor.Before(next) || !l.match(k.key.Name)
		})
		if err := l.confirm(space, keys); err != nil {
			return err
		}
		l.take(at, next)
		l.trim()
		at, looks = next, looks+n+len(later)
	}
	return nil
}

// arrived adds the keys that have come into memory since the page began. The page may have passed
// their shards before, and their entries in ttl may have changed since. If they were the last ones
// on disk, the page has not looked at ttl at all.
func (l *expiring) arrived() error {
	keys := slices.DeleteFunc(l.s.later.take(l), func(k expiringOnDisk) bool {
		return binary.BigEndian.Uint32(k.on) != l.space.id || !k.cursor.Before(l.through)
	})
	keys, err := l.nameOnDisk(keys)
	if err != nil {
		return err
	}
	if err := l.confirm(l.space.id, keys); err != nil {
		return err
	}
	l.take(l.from, l.through)
	return nil
}

// beginOnDisk returns the database's keyspace. It also returns the place in ttl up to which the own
// deadlines of its keys on disk are known.
func (l *expiring) beginOnDisk() (space uint32, known DueCursor, err error) {
	sh := l.s.shards[0]
	if err := l.lockOpen(sh); err != nil {
		return 0, known, err
	}
	defer l.unlock(sh)
	if space = l.s.spaces.ids[l.db]; !l.next {
		known = l.s.later.begin(space)
	}
	return space, known, nil
}

// readTTL reads about most entries of ttl, from the place at on and before until. next is the place
// before which it has read all entries. For entries of elements it notes the keys' own deadlines.
// If names is true it returns the keys of the other entries. Damaged entries are left out:
// diskDeadlines reports them.
func (l *expiring) readTTL(space uint32, at, until DueCursor, most int,
	names bool) (keys []expiringOnDisk, next DueCursor, looks int, err error) {
	var owns []expiringOnDisk
	size := 0
	next = until
	for from := diskCursor(space, at); from != nil; {
		if l.s.quit.Err() != nil {
			return nil, at, 0, ErrClosed
		}
		begin, others, last := from, 0, DueCursor{}
		from = nil
		err = l.s.file.View(func(tx *bolt.Tx) error {
			err := datafile.Each(tx, format.BucketTTL, begin, func(error) {},
				func(k, v []byte) error {
					if bytes.Compare(k, begin) < 0 {
						return nil
					}
					looks++
					e, ok := format.ParseTTL(k, v)
					if !ok {
						return nil
					}
					if e.Due < 0 || e.Due > until.Deadline {
						return datafile.ErrEnough
					}
					if of := binary.BigEndian.Uint32(e.On); of != space {
						if others++; others <= walkNames {
							return nil
						}
						// Many entries of other databases: skip to where this one may be next.
						on := DueCursor{Deadline: e.Due}
						if of > space {
							on = behindSlot(e.Due, Slots-1)
						}
						switch {
						case !on.Before(until):
						case looks > most:
							next = on
						default:
							from = diskCursor(space, on)
						}
						return datafile.ErrEnough
					}
					others = 0
					place := cursorOnDisk(e.Due, e.On)
					if !place.Before(until) {
						return datafile.ErrEnough
					}
					if (looks > most || size > dueBytes) && place != last && at.Before(place) {
						next = place
						return datafile.ErrEnough
					}
					last = place
					to := &keys
					if e.Element && !l.next {
						im, err := format.ParseImage(e.On, tx.Bucket(format.BucketValues).Get(e.On))
						if err != nil || im.BadTime {
							return nil
						}
						if im.Deadline == 0 || im.Due() == im.Deadline {
							return nil
						}
						to, place = &owns, cursorOnDisk(im.Deadline, e.On)
					} else if !names {
						return nil
					}
					one := expiringOnDisk{cursor: place, on: bytes.Clone(e.On), later: to == &owns}
					var damage error
					if _, one.key, damage = l.s.keyOnDisk(tx, one.on); damage == nil {
						*to = append(*to, one)
						size += len(one.key.Name)
					}
					return nil
				})
			if err == datafile.ErrEnough {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, at, looks, err
		}
	}
	for _, k := range owns {
		l.s.later.note(k.cursor.Deadline, k.on)
	}
	if err := l.confirm(space, owns); err != nil { // drops those that are not only on disk
		return nil, at, looks, err
	}
	if !l.next {
		l.s.later.known(space, at, next)
	}
	return keys, next, looks, nil
}

// nameOnDisk returns the keys with their names. It leaves out keys without a readable record.
func (l *expiring) nameOnDisk(keys []expiringOnDisk) (named []expiringOnDisk, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = l.s.file.View(func(tx *bolt.Tx) error {
		for _, k := range keys {
			if _, key, damage := l.s.keyOnDisk(tx, k.on); damage == nil {
				k.key = key
				named = append(named, k)
			}
		}
		return nil
	})
	return named, err
}

// confirm sets the step to the keys that still exist with these deadlines. It looks in memory, or
// in the key's record if memory does not know the key. It drops the noted own deadlines of keys
// that have other deadlines now.
func (l *expiring) confirm(space uint32, keys []expiringOnDisk) error {
	l.step, l.names = l.step[:0], l.names[:0]
	var unknown []expiringOnDisk
	err := byShard(l.s, keys, func(k expiringOnDisk) Key { return k.key },
		func(sh *shard, of []expiringOnDisk) error {
			return l.confirmIn(sh, space, of, &unknown)
		})
	if err != nil || len(unknown) == 0 {
		return err
	}
	return l.s.file.View(func(tx *bolt.Tx) error {
		for _, k := range unknown {
			now := l.onDiskAt(k)
			im, err := format.ParseImage(k.on, tx.Bucket(format.BucketValues).Get(k.on))
			if err != nil || im.BadTime || l.deadlineOnDisk(&im) != k.cursor.Deadline {
				if k.later {
					l.s.later.drop(k.cursor.Deadline, k.on)
				}
				continue
			}
			live, err := datafile.ReadLive(tx, &im, now)
			if err != nil {
				continue // a command that reads the key reports it
			}
			if !live {
				l.hidden = true
				continue
			}
			l.step = append(l.step, expiringKey{cursor: k.cursor, name: k.key.Name, typ: im.Type,
				element: im.Deadline != k.cursor.Deadline})
		}
		return nil
	})
}

// deadlineOnDisk returns the deadline by which a key that is only on disk is listed.
func (l *expiring) deadlineOnDisk(im *format.Image) int64 {
	if l.next {
		return im.Due()
	}
	return im.Deadline
}

// onDiskAt returns the time that decides whether a key that is only on disk is due.
func (l *expiring) onDiskAt(k expiringOnDisk) int64 {
	if l.t != nil {
		return l.t.lockedAt(l.s.shardOf(k.key.Slot), l.t.now)
	}
	return l.now
}

// confirmIn adds to the step the keys of a shard that memory has with their deadlines. It adds to
// unknown the keys that memory does not know.
func (l *expiring) confirmIn(sh *shard, space uint32, keys []expiringOnDisk,
	unknown *[]expiringOnDisk) error {
	if err := l.lockOpen(sh); err != nil {
		return err
	}
	defer l.unlock(sh)
	p := sh.mu.parts[l.db]
	if p == nil || p.space != space {
		return nil
	}
	for _, k := range keys {
		if !p.hasSlot(k.key) {
			continue
		}
		sl := p.slot(k.key)
		c := p.find(sl, k.key)
		if k.later && (c != nil || !sl.partial) { // noted again when the key leaves memory
			l.s.later.drop(k.cursor.Deadline, k.on)
		}
		switch {
		case exists(c) && l.deadline(p, *c) == k.cursor.Deadline:
			l.add(p, *c, p.id(sl, *c), k.cursor)
		case c == nil && sl.partial:
			*unknown = append(*unknown, k)
		}
	}
	return nil
}
