package storage

import (
	"cmp"
	"slices"
	"sync"
)

// arrivals are values that RENAME gave to other keys while a checkpoint went from slot to
// slot. The records that made such a value may stand in segments that the checkpoint lets
// go, and it may have passed the new key, so it copies these values at the end. It does so
// once for each, however often they move on, so it ends beside any number of renames:
//
//   - No value joins the list when the slots are done. One that moves only then was copied
//     at its old key, so its elements stand on disk under its id, and the log that stays has
//     all changes since.
//   - The same is true of a value of which the data file has everything when it moves.
//   - A value made after the rotation does not join it either: the log that stays has it whole.
//
// Where the others are is noted, too, for a batch that cannot be written (uncopy).
type arrivals struct {
	mu     sync.Mutex
	taking bool   // values join the list
	newest uint64 // the newest value at the rotation
	at     map[uint64]arrival
}

// arrival is where a value is that was moved.
type arrival struct {
	portions
	listed bool // it is still to be copied
}

// begin starts a list; all shards are locked.
func (a *arrivals) begin(newest uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taking, a.newest, a.at = true, newest, map[uint64]arrival{}
}

// reset ends the list.
func (a *arrivals) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taking, a.at = false, nil
}

// moved notes where a value is from now on, whose shards are locked, and reports whether it is
// in the list.
func (a *arrivals) moved(to portions) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil { // no checkpoint is under way
		return false
	}
	id := to.o.id
	listed := a.at[id].listed || a.taking && id <= a.newest && !to.o.saved()
	a.at[id] = arrival{to, listed}
	return listed
}

// close has no more values join the list, and gives those that have, in the order of their slots.
func (a *arrivals) close() []uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taking = false
	var ids []uint64
	for id, at := range a.at {
		if at.listed {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y uint64) int {
		return cmp.Or(cmp.Compare(a.at[x].sl.num, a.at[y].sl.num), cmp.Compare(x, y))
	})
	return ids
}

// where is the place of a value that was moved.
func (a *arrivals) where(id uint64) (at portions, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.at[id]
	return e.portions, ok
}

// done takes a value off the list. Its shard is locked.
func (a *arrivals) done(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.at[id]
	e.listed = false
	a.at[id] = e
}

// copyArrivals copies what was moved meanwhile, and writes it. What changes of it from now on
// is for the next checkpoint.
func (s *Store) copyArrivals(b *cpBatch) error {
	t := s.NewTxn()
	ids := s.checkpointer.arrivals.close()
	for _, id := range ids {
		if err := s.freezeMoved(t, id); err != nil {
			s.uncopy(b)
			return err
		}
	}
	for _, id := range ids {
		for s.copyMoved(b, t, id) {
			if err := s.portionDone(b); err != nil {
				return err
			}
		}
		if b.arena.bytes >= s.batchLimit() {
			if err := s.commitBatch(b); err != nil {
				return err
			}
		}
	}
	return s.commitBatch(b)
}

// freezeMoved makes what a value that was moved has by now the checkpoint's to copy.
func (s *Store) freezeMoved(t *Txn, id uint64) error {
	r, _ := s.lockMoved(t, id)
	if r.o.stale() {
		s.unlock(t)
		if err := s.wipe(id); err != nil {
			return err
		}
		r, _ = s.lockMoved(t, id)
	}
	defer s.unlock(t)
	if s.cellOf(r) != nil {
		r.o.beStored()
		r.o.freeze()
	}
	return nil
}

// copyMoved copies the next portion of a value that was moved, wherever it is by now.
func (s *Store) copyMoved(b *cpBatch, t *Txn, id uint64) (more bool) {
	r, _ := s.lockMoved(t, id)
	defer s.unlock(t)
	c := s.cellOf(r)
	if c == nil || !c.is(cellDirty) { // it is gone, or was copied with its slot
		s.checkpointer.arrivals.done(id)
		return false
	}
	b.use(r.sl)
	if more = s.copyState(b, r.p, r.sl, c); !more {
		s.checkpointer.arrivals.done(id)
	}
	return more
}

// lockMoved locks the shard of a value that was moved: all of them, if it moves on too quickly.
// ok is false, and nothing locked, for one that was not.
func (s *Store) lockMoved(t *Txn, id uint64) (r portions, ok bool) {
	a := &s.checkpointer.arrivals
	if r, ok = a.where(id); !ok {
		return r, false
	}
	s.lockBehind(t, r.p.shard, true)
	if now, _ := a.where(id); now == r {
		return r, true
	}
	s.unlock(t)
	s.BeginAll(t)
	return a.where(id)
}
