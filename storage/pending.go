package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// ttl is in order of time, and a checkpoint goes slot by slot, so the changes of ttl that
// belong to one of its batches lie all over the bucket: making them with each batch would
// write most of its pages each time. Instead a batch's transaction writes them, as they
// come, to the bucket pending. When they are pendingBytes long, and before the checkpoint
// ends, they are sorted and made, from the front of ttl to its end, in transactions of
// bounded size; the last one empties pending. A checkpoint begins with pending empty, and
// collects garbage only when it is empty again.
//
//   - ttl with the changes of pending made, in their order, always agrees with values.
//   - Making them again changes nothing, so a crash between two transactions does no harm.
//   - Until they are made, nothing leaves memory of a slot that they are about, so every key
//     that is only on disk has its entry in ttl: the window needs no other.
//   - After a crash they are about keys that the log names, which replay makes dirty or
//     tombstones, or says are reaped. The next checkpoint makes them before it writes
//     anything, so they are made before any of these keys is clean.
//   - So ttl may have entries too many: of keys with another deadline by now, or none, or
//     gone. Whoever reads it looks at the key's record, too.
//
// A value of pending is a check (CRC-32C) and changes, each about the entry of one key:
//
//	0         8         16        20        21       23
//	┌─────────┬─────────┬─────────┬─────────┬────────┬──────────────────────────┐
//	│ old due │ new due │ created │ element │ length │ where it stands in values │
//	└─────────┴─────────┴─────────┴─────────┴────────┴──────────────────────────┘
//
// The entry at old due goes, the one at new due is put; 0 is none. element is 1 if the
// new entry is for an element.
const (
	// pendingBytes of changes are made at once, pendingShare of MaxMemory if that is less,
	// but no less than pendingMin: making them takes twice that memory.
	pendingBytes = 64 << 20
	pendingShare = 64
	pendingMin   = 4 << 20
	// pendingValue is from where changes go to the next value of pending.
	pendingValue = 128 << 10
	// pendingStep and pendingPages bound a transaction that makes changes.
	pendingStep  = 128 << 10
	pendingPages = 2048

	changeHead = 23
)

// dueChanges are the changes of ttl that a batch's transaction writes to pending.
type dueChanges struct {
	values [][]byte // of which used are in use
	used   int
}

func (d *dueChanges) reset() { d.used = 0 }

// add notes that the entry of the key at at goes from where old has it to where new has
// it, and says whether that changes anything.
func (d *dueChanges) add(at []byte, old, new times) bool {
	from, to := old.due(), new.due()
	if from|to == 0 || old.sameEntry(new) {
		return false
	}
	if from == to {
		from = 0
	}
	if d.used == 0 || len(d.values[d.used-1]) >= pendingValue {
		if d.used == len(d.values) {
			d.values = append(d.values, make([]byte, 0, pendingValue+1<<10))
		}
		d.values[d.used] = append(d.values[d.used][:0], 0, 0, 0, 0)
		d.used++
	}
	v := &d.values[d.used-1]
	*v = binary.BigEndian.AppendUint64(*v, uint64(from))
	*v = binary.BigEndian.AppendUint64(*v, uint64(to))
	*v = binary.BigEndian.AppendUint32(*v, new.created)
	element := byte(0)
	if to != new.deadline {
		element = 1
	}
	*v = binary.BigEndian.AppendUint16(append(*v, element), uint16(len(at)))
	*v = append(*v, at...)
	return true
}

// write adds the changes to pending, which refers to them until the transaction ends, and
// gives their length.
func (d *dueChanges) write(tx *bolt.Tx) (size int, err error) {
	b := tx.Bucket(bucketPending)
	for _, v := range d.values[:d.used] {
		seq, err := b.NextSequence()
		if err != nil {
			return 0, err
		}
		binary.LittleEndian.PutUint32(v, crc32.Checksum(v[4:], castagnoli))
		if err := b.Put(binary.BigEndian.AppendUint64(nil, seq), v); err != nil {
			return 0, err
		}
		size += len(v)
	}
	return size, nil
}

// pendingIn is the length of what a data file has in pending; of what is damaged it counts
// something.
func pendingIn(tx *bolt.Tx) (size int) {
	_ = each(tx, bucketPending, nil, func(error) { size++ }, func(_, v []byte) error {
		size += len(v)
		return nil
	})
	return size
}

func emptyPending(tx *bolt.Tx) error {
	if err := tx.DeleteBucket(bucketPending); err != nil {
		return err
	}
	_, err := tx.CreateBucket(bucketPending)
	return err
}

// dueMoves are the changes of pending, each as one or two single changes of ttl.
type dueMoves struct {
	changes []byte
	moves   []dueMove
	damaged error // a value of pending that was left out
}

// dueMove removes or puts an entry.
type dueMove struct {
	due int64
	at  uint32 // of its change in changes
	put bool
}

// read takes all of pending.
func (d *dueMoves) read(tx *bolt.Tx) error {
	d.changes = make([]byte, 0, pendingIn(tx))
	err := each(tx, bucketPending, nil, func(err error) { d.damaged = err }, func(k, v []byte) error {
		if len(v) < 4 || crc32.Checksum(v[4:], castagnoli) != binary.LittleEndian.Uint32(v) || !whole(v[4:]) {
			d.damaged = fmt.Errorf("%w: value %x of bucket pending", ErrCorrupt, k)
			return nil
		}
		d.changes = append(d.changes, v[4:]...)
		return nil
	})
	if err != nil {
		return err
	}
	d.split()
	return nil
}

// split makes the moves of the changes.
func (d *dueMoves) split() {
	n := 0
	for at := 0; at < len(d.changes); at += changeLen(d.changes[at:]) {
		n += 2
	}
	d.moves = make([]dueMove, 0, n)
	for at := 0; at < len(d.changes); at += changeLen(d.changes[at:]) {
		for i, put := range []bool{false, true} {
			if due := int64(binary.BigEndian.Uint64(d.changes[at+8*i:])); due != 0 {
				d.moves = append(d.moves, dueMove{due, uint32(at), put})
			}
		}
	}
}

// entries are the entries that ttl will have, or not have (nil), when the moves are made.
func (d *dueMoves) entries() map[string][]byte {
	d.sort()
	entries := make(map[string][]byte, len(d.moves))
	for _, m := range d.moves {
		at := ttlKey(nil, m.due, d.on(m))
		entries[string(at)] = nil
		if m.put {
			entries[string(at)] = d.record(m, at)
		}
	}
	return entries
}

// changeLen is how long the change is that b begins with.
func changeLen(b []byte) int { return changeHead + int(binary.BigEndian.Uint16(b[changeHead-2:])) }

// whole says whether b is changes and nothing else.
func whole(b []byte) bool {
	for len(b) > 0 {
		if len(b) < changeHead || len(b) < changeLen(b) {
			return false
		}
		b = b[changeLen(b):]
	}
	return true
}

// on is where a move's key stands in values.
func (d *dueMoves) on(m dueMove) []byte {
	change := d.changes[m.at:]
	return change[changeHead:changeLen(change)]
}

// record is the entry that a move puts at at.
func (d *dueMoves) record(m dueMove, at []byte) []byte {
	change := d.changes[m.at:]
	if change[20] != 0 {
		return appendCreated(nil, at)
	}
	return appendCreated(nil, at, binary.BigEndian.Uint32(change[16:]))
}

// sort puts the moves in the order of ttl, those of one entry in that of their making.
// Changes come in slot order as a rule, so those of one instant hardly need sorting.
func (d *dueMoves) sort() {
	slices.SortFunc(d.moves, func(x, y dueMove) int {
		if x.due != y.due {
			return cmp.Compare(x.due, y.due)
		}
		return cmp.Compare(x.at, y.at)
	})
	byKey := func(x, y dueMove) int {
		if c := bytes.Compare(d.on(x), d.on(y)); c != 0 {
			return c
		}
		return cmp.Compare(x.at, y.at)
	}
	for from, to := 0, 0; from < len(d.moves); from = to {
		for to = from + 1; to < len(d.moves) && d.moves[to].due == d.moves[from].due; to++ {
		}
		if !slices.IsSortedFunc(d.moves[from:to], byKey) {
			slices.SortFunc(d.moves[from:to], byKey)
		}
	}
}

// some makes moves from one on, as many as a transaction may, and says which is the next.
func (d *dueMoves) some(tx *bolt.Tx, from, step int) (next int, err error) {
	b := tx.Bucket(bucketTTL)
	b.FillPercent = fillPercent
	var at []byte
	for next = from; next < len(d.moves) && next-from < step; next++ {
		if stats := tx.Stats(); stats.GetNodeCount() >= pendingPages {
			break
		}
		m := d.moves[next]
		at = ttlKey(at[:0], m.due, d.on(m))
		if m.put {
			err = b.Put(at, d.record(m, at))
		} else {
			err = b.Delete(at)
		}
		if err != nil {
			return from, err
		}
	}
	return next, nil
}

// pendingLimit is how long the changes of pending may get.
func (s *Store) pendingLimit() int {
	limit := s.checkpointer.pendingBytes
	if m := s.maxMemory.Load(); m > 0 {
		limit = min(limit, max(int(m/pendingShare), pendingMin))
	}
	return limit
}

// makePending makes all changes of pending.
func (s *Store) makePending() error {
	c := &s.checkpointer
	if c.pending == 0 {
		return nil
	}
	began := work()
	var d dueMoves
	if err := s.view(d.read); err != nil {
		return err
	}
	if d.damaged != nil {
		s.stats.BadDeadlines.Add(1)
		s.options.Logger.Error("changes of deadlines are corrupt on disk and ignored; their keys expire, but may be counted until they are asked for", "error", d.damaged)
	}
	d.sort()
	for next, done := 0, false; !done; {
		if c.onPending != nil {
			if err := c.onPending(); err != nil {
				return err
			}
		}
		from := next
		err := s.update(func(tx *bolt.Tx) (err error) {
			if next, err = d.some(tx, from, c.pendingStep); err != nil {
				return err
			}
			if done = next == len(d.moves); done {
				err = emptyPending(tx)
			}
			if done && d.damaged != nil {
				s.ttlDoubtful = true
				err = errors.Join(err, putMeta(tx, metaDoubt, nil))
			}
			return err
		})
		if err != nil {
			return err
		}
		s.pace(began)
		began = work()
	}
	s.pendingMade()
	return nil
}

// pendingMade notes that pending is empty.
func (s *Store) pendingMade() {
	c := &s.checkpointer
	c.pending = 0
	for _, sl := range c.awaited {
		sh := s.shards[s.shardOf(sl.num)]
		sh.mu.Lock()
		sl.awaiting = false
		sh.mu.Unlock()
	}
	c.awaited = c.awaited[:0]
}
