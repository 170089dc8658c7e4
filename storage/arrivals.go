package storage

import (
	"cmp"
	"slices"
	"sync"

	"keyp/storage/hashtable"
)

// arrivals are values that RENAME moved to other keys during a checkpoint. The checkpoint copies
// changed keys slot by slot, and then releases the log segments before its beginning. A value may
// move from a slot that is not copied yet to one that is. Then the checkpoint would miss it. So
// such values are listed, and the checkpoint copies them at its end: each once, however often it
// was renamed.
//
// A value need not be listed
//
//   - if it was made after the checkpoint began: all of it is in the log that stays;
//   - if all of it is in the data file when it moves;
//   - if it moves after the last slot was copied: it was copied at its old key, and the log that
//     stays has all changes since.
//
// Other values that moved are recorded without being listed. If a transaction of the checkpoint
// fails, its keys must be copied again, and the record says where their values are (uncopy).
type arrivals struct {
	mu struct {
		sync.Mutex
		open   bool   // values join the list
		newest uint64 // the newest value at the rotation
		at     map[uint64]arrival
	}
}

// arrival is the place of a moved value.
type arrival struct {
	portions
	listed bool // not copied yet
}

// begin starts a list; all shards are locked.
func (a *arrivals) begin(newest uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.open, a.mu.newest, a.mu.at = true, newest, map[uint64]arrival{}
}

// reset ends the list.
func (a *arrivals) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.open, a.mu.at = false, nil
}

// moved notes a value's new place and reports whether the value is in the list. The shards of both
// places are locked.
func (a *arrivals) moved(to portions) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.at == nil { // no checkpoint is under way
		return false
	}
	id := to.o.id
	listed := a.mu.at[id].listed || a.mu.open && id <= a.mu.newest && !to.o.saved()
	a.mu.at[id] = arrival{to, listed}
	return listed
}

// close closes the list to further values, and returns those in it in the order of their slots.
func (a *arrivals) close() []uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.open = false
	var ids []uint64
	for id, at := range a.mu.at {
		if at.listed {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y uint64) int {
		return cmp.Or(cmp.Compare(a.mu.at[x].sl.num, a.mu.at[y].sl.num), cmp.Compare(x, y))
	})
	return ids
}

// where returns the present place of a value that was moved. ok is false if it was not moved.
func (a *arrivals) where(id uint64) (at portions, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.mu.at[id]
	return e.portions, ok
}

// done removes a value from the list. Its shard is locked.
func (a *arrivals) done(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.mu.at[id]
	e.listed = false
	a.mu.at[id] = e
}

// copyArrivals copies and writes the values that were moved during the checkpoint. The next
// checkpoint writes later changes of them.
func (cp *checkpointer) copyArrivals(b *cpBatch) error {
	t := cp.s.NewTxn()
	ids := cp.arrivals.close()
	for _, id := range ids {
		if err := cp.freezeMoved(t, id); err != nil {
			cp.uncopy(b)
			return err
		}
	}
	for _, id := range ids {
		for cp.copyMoved(b, t, id) {
			if err := cp.portionDone(b); err != nil {
				return err
			}
		}
		if b.arena.bytes >= cp.batchLimit() {
			if err := cp.commitBatch(b); err != nil {
				return err
			}
		}
	}
	return cp.commitBatch(b)
}

// freezeMoved marks the present content of a moved value, so that the checkpoint copies it. If
// the value is stale, its old elements on disk are deleted first.
func (cp *checkpointer) freezeMoved(t *Txn, id uint64) error {
	s := cp.s
	r, _ := cp.lockMoved(t, id)
	if r.o.stale() {
		s.unlock(t)
		if err := cp.wipe(id); err != nil {
			return err
		}
		r, _ = cp.lockMoved(t, id)
	}
	defer s.unlock(t)
	if s.cellOf(r) != nil {
		r.o.beStored()
		r.o.freeze()
	}
	return nil
}

// copyMoved copies the next portion of a value that was moved, from its present key. It returns
// true if there is more to copy.
func (cp *checkpointer) copyMoved(b *cpBatch, t *Txn, id uint64) (more bool) {
	r, _ := cp.lockMoved(t, id)
	defer cp.s.unlock(t)
	c := cp.s.cellOf(r)
	if c == nil || !c.Is(hashtable.Dirty) { // it is gone, or was copied with its slot
		cp.arrivals.done(id)
		return false
	}
	b.use(r.sl)
	if more = cp.copyState(b, r.p, r.sl, c); !more {
		cp.arrivals.done(id)
	}
	return more
}

// lockMoved locks the shard of a moved value, or all shards if the value moves again meanwhile. ok
// is false, and nothing is locked, if the value was not moved.
func (cp *checkpointer) lockMoved(t *Txn, id uint64) (r portions, ok bool) {
	s := cp.s
	a := &cp.arrivals
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
