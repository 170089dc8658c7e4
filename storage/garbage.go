package storage

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// garbage collects what is to be deleted from the data file. A checkpoint writes the
// list to the garbage bucket; replay makes the same list again. Items:
//
//	'e' id         the elements of a value that no record names
//	's' space      all of a keyspace: its database was emptied
//	'k' space id   but not this value's elements: it belongs to another key now
type garbage struct {
	mu    sync.Mutex
	items [][]byte
}

func garbageValue(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'e'}, id) }

func garbageSpace(space uint32) []byte { return binary.BigEndian.AppendUint32([]byte{'s'}, space) }

// isGarbage says whether a keyspace waits to be deleted. While that goes on its slots
// claim records that are gone already.
func isGarbage(tx *bolt.Tx, space uint32) bool {
	return hasKey(tx.Bucket(bucketGarbage), garbageSpace(space))
}

// putGarbage writes an item. It has a checksum, as what is deleted by mistake is lost.
func putGarbage(tx *bolt.Tx, item []byte) error {
	return tx.Bucket(bucketGarbage).Put(item, seal(item, nil))
}

// proveGarbage proves that all items are what was written.
func proveGarbage(tx *bolt.Tx) error {
	return each(tx, bucketGarbage, nil, nil, func(item, sum []byte) error {
		if _, ok := unseal(item, sum); !ok {
			return fmt.Errorf("%w: entry %x of bucket garbage", ErrCorrupt, item)
		}
		return nil
	})
}

func garbageKeep(space uint32, id uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{'k'}, space), id)
}

func (g *garbage) add(items ...[]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items = append(g.items, items...)
}

func (g *garbage) take() [][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	items := g.items
	g.items = nil
	return items
}

// keeps are the items 'k', for a checkpoint to write that did not take them: of keyspaces
// that were emptied since it began. The log that it releases may have the only records
// that say the values moved, while the record under their old key, which it did not come
// to delete any more, still names them.
func (g *garbage) keeps() (items [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, item := range g.items {
		if item[0] == 'k' {
			items = append(items, item)
		}
	}
	return items
}

// latestGarbage takes, at the end of a checkpoint, the values that became garbage since it began
// and that no record on disk names: the log that is about to be released may have the only record
// that says how they came to the key that was deleted. All transactions that made them have ended.
func (s *Store) latestGarbage() (items [][]byte) {
	t := s.NewTxn()
	s.BeginAll(t)
	defer s.unlock(t)
	named := map[uint64]bool{}
	for _, sh := range s.shards {
		for _, p := range sh.parts {
			if p != nil {
				for id := range p.moved {
					named[id] = true
				}
			}
		}
	}
	return s.garbage.takeValues(named)
}

// takeValues takes the items 'e' but those of named values.
func (g *garbage) takeValues(named map[uint64]bool) (items [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var kept [][]byte
	for _, item := range g.items {
		if item[0] == 'e' && !named[binary.BigEndian.Uint64(item[1:])] {
			items = append(items, item)
		} else {
			kept = append(kept, item)
		}
	}
	g.items = kept
	return items
}

// dropSpace makes a keyspace garbage, unless the data file has nothing of it; parts are what
// memory has of it.
func (s *Store) dropSpace(space uint32, db int) {
	filed := false
	for _, sh := range s.shards {
		filed = filed || sh.parts[db] != nil && sh.parts[db].filed
	}
	if filed {
		s.garbage.add(garbageSpace(space))
	}
	for _, sh := range s.shards {
		if p := sh.parts[db]; p != nil {
			if filed {
				for id := range p.moved {
					s.garbage.add(garbageKeep(space, id))
				}
			}
			for id := range p.linked {
				s.garbage.add(garbageValue(id))
			}
		}
	}
}

// dropped is told of every live value that leaves memory for good. Elements on disk
// that the record under the value's own key does not name would be forgotten.
func (s *Store) dropped(p *part, c cell) {
	if o := p.objectOf(c); o != nil && o.is(stateLinked) {
		s.garbage.add(garbageValue(o.id))
		delete(p.linked, o.id)
	}
}

const (
	// garbageStep is how many records of an item are deleted in one transaction.
	garbageStep = 5000
	// garbageTime is when a transaction takes no further item: most items are small,
	// as those of emptied databases that had nothing, and each commit syncs twice.
	garbageTime = 2 * time.Millisecond
)

// collectGarbage deletes what the garbage bucket names, in bounded transactions.
func (s *Store) collectGarbage() error {
	for more := true; more && s.quit.Err() == nil; {
		began := work()
		err := s.update(func(tx *bolt.Tx) (err error) {
			for next := true; next; next = more && err == nil && work()-began < s.garbageTime {
				more, err = s.collectSome(tx)
			}
			return err
		})
		if err != nil {
			return err
		}
		if more {
			s.pace(began)
		}
	}
	return nil
}

// collectSome deletes an item, or garbageStep records of it, and says whether there was one.
func (s *Store) collectSome(tx *bolt.Tx) (more bool, err error) {
	g := tx.Bucket(bucketGarbage)
	item, _ := g.Cursor().First() // 'k' comes after 'e' and before 's', so it is looked up, not met
	if item != nil && item[0] == 'k' {
		item, _ = g.Cursor().Seek([]byte{'s'})
	}
	if item == nil {
		return false, nil
	}
	item = append([]byte(nil), item...)
	var left bool
	if item[0] == 's' {
		left, err = s.collectSpace(tx, item[1:])
	} else {
		left, err = deleteRange(tx.Bucket(bucketElements), item[1:])
	}
	if err == nil && !left {
		err = g.Delete(item)
	}
	return true, err
}

// collectSpace deletes a keyspace's records with all that hangs on them.
func (s *Store) collectSpace(tx *bolt.Tx, prefix []byte) (left bool, err error) {
	values, ttls, g := tx.Bucket(bucketValues), tx.Bucket(bucketTTL), tx.Bucket(bucketGarbage)
	var keys [][]byte
	c := values.Cursor()
	for at, record := c.Seek(prefix); hasPrefix(at, prefix); at, record = c.Next() {
		if len(keys) == garbageStep {
			left = true
			break
		}
		at = append([]byte(nil), at...)
		keys = append(keys, at)
		im, err := parseImage(at, record)
		if err != nil {
			continue // nothing it names can be trusted
		}
		if due := im.due(); due != 0 {
			if err := ttls.Delete(ttlKey(nil, due, at)); err != nil {
				return false, err
			}
		}
		if id := im.stored(); id != 0 && !hasKey(g, garbageKeep(binary.BigEndian.Uint32(prefix), id)) {
			if err := putGarbage(tx, garbageValue(id)); err != nil {
				return false, err
			}
		}
	}
	for _, at := range keys {
		if err := values.Delete(at); err != nil {
			return false, err
		}
	}
	if left {
		return true, nil
	}
	if left, err = deleteRange(tx.Bucket(bucketSlots), prefix); left || err != nil {
		return left, err
	}
	return deleteRange(g, append([]byte{'k'}, prefix...))
}

func hasKey(b *bolt.Bucket, key []byte) bool {
	k, _ := b.Cursor().Seek(key)
	return string(k) == string(key)
}

// deleteRange deletes keys with a prefix, up to garbageStep of them.
func deleteRange(b *bolt.Bucket, prefix []byte) (left bool, err error) {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); hasPrefix(k, prefix); k, _ = c.Next() {
		if len(keys) == garbageStep {
			left = true
			break
		}
		keys = append(keys, append([]byte(nil), k...))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return false, err
		}
	}
	return left, nil
}

func hasPrefix(k, prefix []byte) bool {
	return len(k) >= len(prefix) && string(k[:len(prefix)]) == string(prefix)
}
