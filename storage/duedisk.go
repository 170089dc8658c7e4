package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"keyp/storage/format"
	"keyp/ttl"
)

// A timeline (KEYP.TIMELINE) counts the keys that will expire in each of several spans of time.
// This file counts the deadlines of keys that are only on disk, separately for each shard and
// database. The counts begin when a timeline first needs them: one walk reads the bucket ttl of the
// data file, which has a key's entry at its deadline, in order and in steps. After that the counts
// change when a key leaves memory, comes back or expires, with the shard locked.
//
// A step of the walk reads some entries of ttl, and then locks all shards, one after the other. It
// counts the entries whose keys are not in memory then. It passes over keys that have left memory
// since the last step: those were counted when they left, with the deadline that they had then.
//
// An entry of ttl may be outdated, because changes of ttl are made late (datafile/pending.go).
// Until they are made, the changed keys stay in memory, so their entries do not count here. But of
// a deleted key nothing may be left in memory while its entry is still there. So an entry is
// compared with its key's record if keys of the same hash slot were deleted.

// diskDues counts the next deadlines of a part's keys that are only on disk.
type diskDues struct {
	bins *ttl.Bins
	// through is the place in ttl before which all are counted; nil: all are.
	through []byte
	// left are the keys that have left memory since the walk's last step here, by their keys in
	// values.
	left map[string]leftKey
	size int // of their names
}

// leftKey is a key that has left memory with a deadline, 0 for none.
type leftKey struct {
	key Key
	due int64
}

// diskLeftMost bounds the number of keys that may leave a part's memory between two steps of the
// walk, and diskLeftBytes the size of their names. If there are more, the walk begins again.
const (
	diskLeftMost  = 64 << 10
	diskLeftBytes = 4 << 20
)

func newDiskDues(through []byte) *diskDues {
	return &diskDues{bins: ttl.NewBins(), through: through}
}

// knows reports whether the walk has passed the place of an entry of ttl.
func (d *diskDues) knows(entry []byte) bool {
	return d.through == nil || bytes.Compare(entry, d.through) < 0
}

// toDisk counts a key that leaves memory; due 0: it has no deadline, or is deleted.
func (p *part) toDisk(k Key, due int64) {
	if due != 0 {
		p.moves++
	}
	d := p.disk
	if d == nil {
		return
	}
	if d.through != nil {
		if len(d.left) >= diskLeftMost || d.size >= diskLeftBytes {
			p.forgetDisk()
			return
		}
		if d.left == nil {
			d.left = map[string]leftKey{}
		}
		on := format.DiskKey(nil, p.space, k)
		k.Name = bytes.Clone(k.Name)
		d.size += len(k.Name)
		d.left[string(on)] = leftKey{k, due}
		if due != 0 && !d.knows(format.TTLKey(nil, due, on)) {
			return
		}
	}
	if due != 0 {
		d.bins.Add(due)
	}
}

// fromDisk counts a key that was only on disk and comes into memory, or is gone.
func (p *part) fromDisk(k Key, due int64) {
	if due == 0 {
		return
	}
	p.moves++
	d := p.disk
	if d == nil || d.through != nil && !d.knows(format.TTLKey(nil, due,
		format.DiskKey(nil, p.space, k))) {
		return
	}
	if !d.bins.Remove(due) { // ttl is damaged
		p.forgetDisk()
	}
}

// forgetDisk discards the counts of a part, so that a new walk counts again. It is called when the
// counts may be wrong, and when too many keys leave memory during the walk.
func (p *part) forgetDisk() {
	if p.disk != nil {
		p.disk = nil
		p.shard.store.diskWalk.lost.Store(true)
	}
}

// diskWalk is the walk that finds the deadlines on disk of all parts.
type diskWalk struct {
	begun atomic.Bool // parts that are made count from their beginning
	lost  atomic.Bool // a part has forgotten them

	turn struct {
		sync.Mutex
		cursor []byte // the next step begins there; nil: the walk is at the end
		alone  bool   // a goroutine continues it
	}
}

// knowDisk continues the walk until it has passed the instant through, or has read about most
// entries. If background work is allowed, a goroutine continues the rest. If another goroutine is
// walking, a transaction returns at once instead of waiting.
func (v View) knowDisk(through int64, most int) error {
	w := &v.s.diskWalk
	if v.t == nil {
		w.turn.Lock()
	} else if !w.turn.TryLock() {
		return nil
	}
	defer w.turn.Unlock()
	if w.lost.Swap(false) || !w.begun.Load() {
		if err := w.begin(v); err != nil {
			w.lost.Store(true)
			return err
		}
	}
	step := min(v.s.bounds.dueStep, most)
	for n := 0; w.turn.cursor != nil && n < most &&
		int64(binary.BigEndian.Uint64(w.turn.cursor)) <= through; n += step {
		if err := w.step(v, step); err != nil {
			return err
		}
	}
	if w.turn.cursor != nil && !w.turn.alone && !v.s.options.NoBackground {
		w.turn.alone = true
		v.s.goBackground(func() { w.finish(v.s) })
	}
	return nil
}

// finish walks to the end.
func (w *diskWalk) finish(s *Store) {
	lowerPriority()
	for more := true; more; {
		more = func() bool {
			w.turn.Lock()
			defer w.turn.Unlock()
			if w.turn.cursor != nil && s.quit.Err() == nil &&
				w.step(s.View, s.bounds.dueStep) == nil {
				// A later timeline tries again.
				return true
			}
			w.turn.alone = false
			return false
		}()
	}
}

// begin starts a new walk at the front of ttl.
func (w *diskWalk) begin(v View) error {
	w.begun.Store(true)
	w.turn.cursor = format.TTLKey(nil, 0, nil)
	for _, sh := range v.s.shards {
		err := v.locked(sh, func() {
			for _, p := range sh.mu.parts {
				if p != nil {
					p.disk = newDiskDues(w.turn.cursor)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// step counts the next entries of ttl, at most the number most.
func (w *diskWalk) step(v View, most int) error {
	s := v.s
	list, next, err := s.readDue(w.turn.cursor, math.MaxInt64, most)
	if err != nil {
		return err
	}
	shardOf := func(e diskDue) int { return s.shardOf(e.key.Slot) }
	slices.SortStableFunc(list, func(a, b diskDue) int {
		return cmp.Compare(shardOf(a), shardOf(b))
	})
	for _, sh := range s.shards {
		n := 0
		for n < len(list) && shardOf(list[n]) == sh.num {
			n++
		}
		var damage error
		err := v.locked(sh, func() { damage = sh.learnDisk(list[:n], next) })
		if err = errors.Join(err, damage); err != nil {
			return err
		}
		list = list[n:]
	}
	w.turn.cursor = next
	return nil
}

// onlyDisk reports whether a key may be only on disk.
func (p *part) onlyDisk(k Key) bool {
	if !p.hasSlot(k) {
		return false
	}
	sl := p.slot(k)
	return sl.partial && p.find(sl, k) == nil
}

// learnDisk counts the shard's keys among the entries of a step, which ends at next. With an error,
// which is about the data file, it counts none.
func (sh *shard) learnDisk(list []diskDue, next []byte) error {
	sure, unsure := sh.missing(slices.DeleteFunc(list, func(e diskDue) bool { return e.At <= 0 }))
	list, err := sh.store.certain(sure, unsure)
	if err != nil {
		return err
	}
	for _, e := range list {
		d := sh.mu.parts[e.DB].disk
		if d == nil || d.knows(format.TTLKey(nil, e.At, e.on)) {
			continue
		}
		if _, left := d.left[string(e.on)]; !left {
			d.bins.Add(e.At)
		}
	}
	for _, p := range sh.mu.parts {
		if p == nil || p.disk == nil || p.disk.through == nil {
			continue
		}
		d := p.disk
		was := d.through
		d.through = next
		for on, k := range d.left {
			entry := format.TTLKey(nil, k.due, []byte(on))
			if k.due != 0 && bytes.Compare(entry, was) >= 0 && d.knows(entry) && p.onlyDisk(k.key) {
				d.bins.Add(k.due)
			}
		}
		d.left, d.size = nil, 0
	}
	return nil
}
