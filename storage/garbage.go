package storage

import (
	"encoding/binary"
	"maps"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
)

// If a large collection is deleted or a database is emptied, its records in the data file are
// deleted later, in steps. garbage lists such data, as keys of the bucket garbage
// (format/garbage.go). A checkpoint writes these keys to the bucket; replay makes the same list
// again.
type garbage struct {
	mu struct {
		sync.Mutex
		items [][]byte
	}
}

func (g *garbage) add(items ...[]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.items = append(g.mu.items, items...)
}

func (g *garbage) take() [][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	items := g.mu.items
	g.mu.items = nil
	return items
}

// keeps returns the items 'k' that a checkpoint must write at its end. They are about keyspaces
// that were emptied since it began. The checkpoint has not deleted the records under the values'
// old keys, and these still name the values. The only records of the renaming may be in the log
// that the checkpoint releases.
func (g *garbage) keeps() (items [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, item := range g.mu.items {
		if item[0] == 'k' {
			items = append(items, item)
		}
	}
	return items
}

// latestGarbage returns, at the end of a checkpoint, the values that became garbage since it began
// and that no record on disk names. The log that is about to be released may have the only record
// of their move to the deleted key. All transactions that made them have ended. latestGarbage also
// removes from the sets copied of all parts the values that only their own record names by now.
func (cp *checkpointer) latestGarbage() (items [][]byte) {
	s := cp.s
	t := s.NewTxn()
	s.BeginAll(t)
	defer s.unlock(t)
	named := map[uint64]bool{}
	for _, sh := range s.shards {
		for _, p := range sh.mu.parts {
			if p != nil {
				for id := range p.moved {
					named[id] = true
				}
			}
		}
	}
	for _, sh := range s.shards {
		for _, p := range sh.mu.parts {
			if p != nil {
				maps.DeleteFunc(p.copied, func(id uint64, _ int) bool { return !named[id] })
			}
		}
	}
	return s.garbage.takeValues(named)
}

// waits reports whether there is garbage for the next checkpoint.
func (g *garbage) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.items) > 0
}

// takeValues removes and returns the items 'e', except the items of named values.
func (g *garbage) takeValues(named map[uint64]bool) (items [][]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var kept [][]byte
	for _, item := range g.mu.items {
		if item[0] == 'e' && !named[binary.BigEndian.Uint64(item[1:])] {
			items = append(items, item)
		} else {
			kept = append(kept, item)
		}
	}
	g.mu.items = kept
	return items
}

// dropSpace makes a keyspace garbage, unless the data file has nothing of it; parts are its parts
// in memory.
func (s *Store) dropSpace(space uint32, db int) {
	filed := false
	for _, sh := range s.shards {
		filed = filed || sh.mu.parts[db] != nil && sh.mu.parts[db].filed
	}
	if filed {
		s.garbage.add(format.GarbageSpace(space))
	}
	for _, sh := range s.shards {
		if p := sh.mu.parts[db]; p != nil {
			if filed {
				for id := range p.moved {
					s.garbage.add(format.GarbageKeep(space, id))
				}
			}
			for _, ids := range []idSet{p.linked, p.copied} {
				for id := range ids {
					s.garbage.add(format.GarbageValue(id))
				}
			}
		}
	}
}

// dropped is called for every live value that is deleted. Without it, elements on disk that the
// record under the value's own key does not name would never be deleted.
func (s *Store) dropped(p *part, c cell) {
	if o := p.objectOf(c); o != nil && o.is(stateLinked) {
		s.garbage.add(format.GarbageValue(o.id))
		delete(p.linked, o.id)
	}
}

const (
	// garbageTime is how long a transaction continues with further items: most items are small, and
	// each commit syncs twice.
	garbageTime = 2 * time.Millisecond
)

// collectGarbage deletes the data that the garbage bucket names, in bounded transactions.
func (cp *checkpointer) collectGarbage() error {
	s := cp.s
	for more := true; more && s.quit.Err() == nil; {
		began := workBegan()
		err := s.updateFile(func(tx *bolt.Tx) (err error) {
			for next := true; next; next = more && err == nil &&
				workBegan()-began < s.bounds.garbageTime {
				more, err = datafile.CollectSome(tx)
			}
			return err
		})
		if err != nil {
			return err
		}
		if more {
			cp.pace(began)
		}
	}
	return nil
}
