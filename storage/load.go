package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
)

// A key that is only on disk is read without its shard's lock. Meanwhile a key of the same hash
// slot may move from memory to disk, perhaps the one that is read. Then it is read again, at most
// loadTries times.
const loadTries = 100

var errBusy = errors.New("storage: a key changes too often to be read")

// loadKey reads a key into memory. If the global transaction has the shard it does nothing: the
// command that needs the key tries again, and finds the shard locked. If the slot changes during
// the read, it reads again, at most loadTries times.
func (l *loads) loadKey(k Key) error {
	s := l.s
	sh := s.shards[s.shardOf(k.Slot)]
	for range loadTries {
		if !sh.lockPassingGlobal() {
			return nil
		}
		p := sh.mu.parts[k.DB]
		if s.resident(k) {
			sh.mu.Unlock()
			s.shedAll(k)
			return nil
		}
		sl := p.slot(k)
		epoch, sure := sl.epoch, sl.verified
		sh.mu.Unlock()

		got, found, err := l.readKey(p.space, k, sure)
		s.stats.Loads.Add(1)

		if !sh.lockPassingGlobal() {
			return nil
		}
		fresh := sh.mu.parts[k.DB] == p && sl.epoch == epoch
		if fresh && p.find(sl, k) == nil && err == nil {
			p.loadResult(k, got, found)
			sl.verified = sl.verified || !found
		}
		fresh = fresh && (err == nil || p.find(sl, k) == nil)
		sh.mu.Unlock()
		if fresh {
			return err
		}
	}
	return fmt.Errorf("%w: %q", errBusy, Clip(k.Name))
}

// Resident reports whether memory has a key's value, or knows that it does not exist, as Begin
// demands of its keys. The transaction must have the key's shard locked.
func (t *Txn) Resident(k Key) bool {
	return t.Offloaded() || t.s.resident(k) && !t.s.overdue(k, t.now)
}

// Load reads a key into memory while the transaction has its shard locked; other transactions on
// the shard wait. It is for commands that learn their keys late and cannot run again. It returns
// the same errors as Store.Load.
func (t *Txn) Load(k Key) error {
	s := t.s
	if s.resident(k) {
		return nil
	}
	p := s.part(k)
	sl := p.slot(k)
	got, found, err := s.loads.readKey(p.space, k, sl.verified)
	if err != nil {
		s.loads.failed(k, err)
		return err
	}
	s.stats.Loads.Add(1)
	p.loadResult(k, got, found)
	sl.verified = sl.verified || !found
	return nil
}

// loadResult adds a key, which memory does not know, in its state in the data file. If the file
// does not have the key, it notes that the key does not exist.
func (p *part) loadResult(k Key, got resident, found bool) {
	if sl := p.slot(k); found {
		p.load(sl, k, got)
	} else {
		p.absent(sl, k, 0)
	}
}

// readKey reads a key from the data file; it reads a large value in several steps. If the slot's
// epoch has changed meanwhile, the result and the error must be ignored. The value may have been
// loaded by others, changed and written again, or may be garbage. If the key is missing, readKey
// verifies the slot first, unless sure is true.
func (l *loads) readKey(space uint32, k Key, sure bool) (got resident, found bool, err error) {
	s := l.s
	at := format.DiskKey(make([]byte, 0, 64), space, k)
	var large format.Image
	err = s.file.View(func(tx *bolt.Tx) error {
		record, err := datafile.Find(tx, at, sure)
		if record == nil || err != nil {
			return err
		}
		im, err := format.ParseImage(at, record)
		if err != nil {
			return err
		}
		found = true
		s.repairTimes(tx, at, &im)
		if im.Inline || im.Elements() <= s.bounds.stretch {
			got, err = readResident(tx, &im)
			return err
		}
		large = im
		large.Name, large.Payload = k.Name, bytes.Clone(im.Payload)
		return nil
	})
	if err == nil && large.Type != object.None {
		got, err = l.readLarge(&large)
	}
	return got, found, err
}

// readLarge reads a value whose elements are stored by themselves, in short read transactions: a
// long one would keep checkpoints from reusing the pages that they free.
func (l *loads) readLarge(im *format.Image) (resident, error) {
	s := l.s
	got := resident{deadline: im.Deadline, created: im.Created, badTime: im.BadTime}
	v := object.New(im.Type)
	var from []byte
	for more := true; more; {
		if s.quit.Err() != nil {
			return got, ErrClosed
		}
		more = false
		n, began := 0, s.clock.Mono()
		err := s.file.View(func(tx *bolt.Tx) error {
			err := datafile.EachElement(tx, im.ID, from,
				func(elem, val []byte, deadline int64) error {
					if n++; n > s.bounds.stretch && s.clock.Mono()-began >= s.bounds.stretchTime {
						from, more = bytes.Clone(elem), true
						return datafile.ErrEnough
					}
					if n%s.bounds.stretch == 0 {
						l.trimLoaded(im.ID, v)
					}
					return v.Put(elem, val, deadline)
				})
			if err != nil {
				return datafile.BadElement(im.ID, err)
			}
			return nil
		})
		if err != nil {
			return got, err
		}
		s.options.Testing.stretch()
	}
	got.object = objectFrom(im, v)
	return got, im.CheckWhole(v)
}

// loadAll reads all keys into memory after a restart, slot by slot, while the server runs. It stops
// when memory is full up to loadShare. Its read transactions are short.
func (l *loads) loadAll() {
	s := l.s
	began := s.clock.Mono()
	loaded := 0
	failed := map[string]unreadable{} // by place
	defer func() {
		for _, place := range slices.Sorted(maps.Keys(failed)) {
			s.tellDamage(failed[place].err, failed[place].keys)
		}
	}()
	for _, sh := range s.shards {
		for db := range s.options.Databases + 1 {
			for i := range s.slotsPerShard {
				if s.quit.Err() != nil || l.overBudget(loadShare) {
					return
				}
				n, err := l.loadSlot(sh, db, i)
				if err == nil {
					if db < s.options.Databases { // behind them are the store's own keys
						loaded += n
					}
					continue
				}
				// The intact keys of the slot are read one by one when they are asked for.
				s.stats.LoadErrors.Add(1)
				s.options.Logger.Debug("a slot could not be loaded", "db", db, "slot",
					sh.num*s.slotsPerShard+i, "error", err)
				place := damagedPlace(err)
				failed[place] = unreadable{err, failed[place].keys + int64(n)}
			}
		}
	}
	switch {
	case len(failed) > 0:
		s.options.Logger.Info("all keys are in memory but those that cannot be read at once",
			"loaded", loaded, "took", (s.clock.Mono() - began).Round(time.Millisecond))
	case loaded > 0:
		s.options.Logger.Info("all keys are in memory", "loaded", loaded, "took",
			(s.clock.Mono() - began).Round(time.Millisecond))
	}
}

// loadShare is the part of MaxMemory up to which loadAll fills memory.
const loadShare = 0.9

func (l *loads) overBudget(share float64) bool {
	limit := l.s.maxMemory.Load()
	return limit > 0 && float64(l.s.usedMemory()) > share*float64(limit)
}

// unreadable contains the error for slots that could not be loaded, and the number of their keys.
type unreadable struct {
	err  error
	keys int64
}

// loadSlot reads a whole slot into memory and verifies its count and digest. It returns the number
// of keys that it has read. After an error that is the number of keys in the slot.
func (l *loads) loadSlot(sh *shard, db, i int) (n int, err error) {
	for range loadTries {
		sh.mu.Lock()
		p := sh.mu.parts[db]
		if p == nil || !p.slotAt(i).partial {
			sh.mu.Unlock()
			return 0, nil
		}
		sl := p.slotAt(i)
		epoch, inflight := sl.epoch, sl.inflight
		want := format.SlotEntry{Keys: sl.onDisk, Digest: sl.digest}
		sh.mu.Unlock()
		if inflight { // the read may be older than the commit under way
			time.Sleep(time.Millisecond)
			continue
		}
		keys, large, got, err := l.readSlot(p.space, sl.num)
		for i := range large {
			large[i].DB = db
			if err == nil {
				err = l.loadKey(large[i])
			}
		}
		if err != nil {
			return int(want.Keys), err
		}
		sh.mu.Lock()
		if sh.mu.parts[db] != p || sl.epoch != epoch || sl.inflight ||
			(format.SlotEntry{Keys: sl.onDisk, Digest: sl.digest}) != want || !p.knows(sl, large) {
			sh.mu.Unlock()
			continue
		}
		if got != want {
			sh.mu.Unlock()
			return int(want.Keys),
				fmt.Errorf("%w: slot %d has %d keys with digest %x, expected %d with %x",
					ErrCorrupt, sl.num, got.Keys, got.Digest, want.Keys, want.Digest)
		}
		p.complete(sl, db, keys)
		l.s.wake(sh.nextDue.Load())
		sh.mu.Unlock()
		return len(keys) + len(large), nil
	}
	return 0, nil
}

func (p *part) knows(sl *slot, keys []Key) bool {
	for _, k := range keys {
		if p.find(sl, k) == nil {
			return false
		}
	}
	return true
}

type slotKeyValue struct {
	k   Key
	got resident
}

// readSlot reads the records of a slot. large contains the keys whose elements are stored by
// themselves; their values are not read. A record of such a value may have a wrong count (copy.go),
// but then memory has the key.
func (l *loads) readSlot(space uint32,
	slot uint16) (keys []slotKeyValue, large []Key, sum format.SlotEntry, err error) {
	s := l.s
	prefix := format.SlotKey(nil, space, slot)
	err = s.file.View(func(tx *bolt.Tx) error {
		return datafile.EachIn(tx, format.BucketValues, prefix, func(at, record []byte) error {
			im, err := format.ParseImage(at, record)
			if err != nil {
				return fmt.Errorf("%w: the key %s", err,
					Clip(at[min(len(at), format.PrefixLen+1):]))
			}
			sum.Add(record)
			k := Key{Slot: slot, Name: bytes.Clone(im.Name)}
			if k.Hash = s.hash(k.Name); !im.Inline {
				large = append(large, k)
				return nil
			}
			s.repairTimes(tx, at, &im)
			got, err := readResident(tx, &im)
			if err != nil {
				return err
			}
			keys = append(keys, slotKeyValue{k, got})
			return nil
		})
	})
	return keys, large, sum, err
}

// complete adds a slot's keys to memory, except those that memory has already, which are newer.
// Afterwards a key that is not in the slot's table does not exist.
func (p *part) complete(sl *slot, db int, keys []slotKeyValue) {
	for _, kv := range keys {
		kv.k.DB = db
		if p.find(sl, kv.k) == nil {
			p.load(sl, kv.k, kv.got)
		}
	}
	var idle []cell // clean tombstones are needless in a complete slot
	sl.table.Walk(func(c *cell) {
		if c.Is(hashtable.Tomb) && !c.Is(hashtable.Dirty) {
			idle = append(idle, *c)
		}
	})
	for _, c := range idle {
		k := p.shard.store.keyIn(sl, p.name(c))
		p.toDisk(k, 0)
		p.drop(sl, p.find(sl, k))
	}
	sl.partial, sl.verified = false, true
	p.shard.store.partials.Add(-1)
}
