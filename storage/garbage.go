package storage

import (
	"encoding/binary"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// garbage collects what is to be deleted from the data file: the keyspaces of emptied
// databases, and elements under storage ids that no record names. A checkpoint writes
// the list to the garbage bucket; replay makes the same list again.
type garbage struct {
	mu     sync.Mutex
	spaces []uint32
	sids   []uint64
}

func (g *garbage) space(id uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spaces = append(g.spaces, id)
}

func (g *garbage) sid(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sids = append(g.sids, id)
}

func (g *garbage) take() (spaces []uint32, sids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	spaces, sids = g.spaces, g.sids
	g.spaces, g.sids = nil, nil
	return spaces, sids
}

func (g *garbage) restore(spaces []uint32, sids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spaces, g.sids = append(g.spaces, spaces...), append(g.sids, sids...)
}

// dropped is told of every live value that leaves memory for good. Elements on disk
// that the record under the value's own key does not name would be forgotten.
func (s *Store) dropped(p *part, c cell) {
	if o := p.objectOf(c); o != nil && o.sid != 0 && o.linked {
		s.garbage.sid(o.sid)
	}
}

// garbageStep is how many records are deleted in one transaction.
const garbageStep = 5000

// collectGarbage deletes what the garbage bucket names, in bounded transactions.
func (s *Store) collectGarbage() error {
	for more := true; more && s.quit.Err() == nil; {
		began := s.clock.Mono()
		err := s.db.Update(func(tx *bolt.Tx) (err error) {
			more, err = s.collectSome(tx)
			return err
		})
		if err != nil {
			return err
		}
		if more {
			s.pace(s.clock.Mono() - began)
		}
	}
	return nil
}

func (s *Store) collectSome(tx *bolt.Tx) (more bool, err error) {
	g := tx.Bucket(bucketGarbage)
	item, _ := g.Cursor().First()
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
		if im.deadline != 0 {
			if err := ttls.Delete(ttlKey(nil, im.deadline, at)); err != nil {
				return false, err
			}
		}
		if im.sid != 0 {
			if err := g.Put(binary.BigEndian.AppendUint64([]byte{'e'}, im.sid), nil); err != nil {
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
	return deleteRange(tx.Bucket(bucketSlots), prefix)
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
