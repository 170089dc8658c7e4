package storage

import (
	"bytes"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
)

// A checkpoint writes changed keys to the data file in batches, one bbolt transaction each. entry
// is a key of a batch. The bytes that are written are in the batch's memory, which bbolt refers to
// until its transaction ends.
type entry struct {
	p            *part
	sl           *slot
	at           []byte
	rec          []byte // nil: the key is gone
	gone         []byte // the name of a key that is gone
	moved        bool
	id           uint64 // the value's, if its elements stand by themselves
	format.Times        // the record's

	elements []element
}

type element struct {
	name []byte
	at   []byte
	rec  []byte // nil: the element is gone
}

type cpBatch struct {
	entries []entry
	slots   []*slot
	rest    []portions // values that copyRest continues
	arena   arena
	lsn     uint64
	scratch []byte
	due     datafile.Changes
}

// reset empties the batch and keeps its memory for the next one.
func (b *cpBatch) reset() {
	clear(b.entries)
	clear(b.slots)
	b.entries, b.slots, b.lsn = b.entries[:0], b.slots[:0], 0
	b.arena.reset()
}

// sort puts the entries in the order of the data file. The entries of one key stay in the order in
// which they were made. Slots are in order already.
func (b *cpBatch) sort() {
	for run := range b.runs {
		slices.SortStableFunc(run, func(x, y entry) int { return bytes.Compare(x.at, y.at) })
	}
}

// runs iterates over the runs of consecutive entries with the same slot.
func (b *cpBatch) runs(yield func([]entry) bool) {
	for from, to := 0, 0; from < len(b.entries); from = to {
		for to = from + 1; to < len(b.entries) && b.entries[to].sl == b.entries[from].sl; to++ {
		}
		if !yield(b.entries[from:to]) {
			return
		}
	}
}

// arena allocates byte slices that stay valid until it is reset.
type arena struct {
	chunks [][]byte // of arenaChunk bytes or more each, filled in order
	at     int      // the chunk being filled
	bytes  int
}

const arenaChunk = 1 << 20

// take copies b into the arena.
func (a *arena) take(b []byte) []byte {
	for a.at < len(a.chunks) && len(b) > cap(a.chunks[a.at])-len(a.chunks[a.at]) {
		a.at++
	}
	if a.at == len(a.chunks) {
		a.chunks = append(a.chunks, make([]byte, 0, max(arenaChunk, len(b))))
	}
	c := &a.chunks[a.at]
	from := len(*c)
	*c = append(*c, b...)
	a.bytes += len(b)
	return (*c)[from:len(*c):len(*c)]
}

// reset makes the arena's memory free for other slices.
func (a *arena) reset() {
	kept := a.chunks[:0]
	for _, c := range a.chunks {
		if cap(c) == arenaChunk {
			kept = append(kept, c[:0])
		}
	}
	clear(a.chunks[len(kept):])
	*a = arena{chunks: kept}
}

// use notes that the batch has keys of a slot, whose shard is locked. None of these keys may leave
// memory before the batch is on disk.
func (b *cpBatch) use(sl *slot) {
	if !sl.inflight {
		sl.inflight = true
		b.slots = append(b.slots, sl)
	}
}

// batchWriter writes a batch in one bbolt transaction.
type batchWriter struct {
	s       *Store
	after   map[*slot]slotAfter
	found   [][]byte // of a run: the records that it replaces
	pending int      // bytes of changes of ttl
	drops   []uint64 // values whose elements became garbage
	// timeless has the new deadlines of keys whose damaged records have lost the old ones.
	timeless map[string]int64
	// unnamed are values that moved away and that no record of the part names any more.
	unnamed []movedValue
}

type movedValue struct {
	p  *part
	id uint64
}

// slotAfter is the state of a slot on disk after the batch.
type slotAfter struct {
	format.SlotEntry
	space uint32
	due   bool // entries of ttl are to change
}

func (w *batchWriter) write(tx *bolt.Tx, b *cpBatch) (err error) {
	clear(w.after)
	b.due.Reset()
	w.drops, w.unnamed, w.timeless = nil, nil, nil
	values := tx.Bucket(format.BucketValues)
	values.FillPercent = datafile.FillPercent
	for run := range b.runs {
		if err := w.run(values, run, &b.due); err != nil {
			return err
		}
	}
	if err := putElements(tx.Bucket(format.BucketElements), b); err != nil {
		return err
	}
	if err := w.forget(tx, b); err != nil {
		return err
	}
	if w.pending, err = b.due.Write(tx); err != nil {
		return err
	}
	slots := tx.Bucket(format.BucketSlots)
	for _, sl := range b.slots {
		if d, ok := w.after[sl]; ok {
			at := format.SlotKey(nil, d.space, sl.num)
			if err := slots.Put(at, d.Seal(at)); err != nil {
				return err
			}
		}
	}
	for _, id := range w.drops {
		if err := datafile.PutGarbage(tx, format.GarbageValue(id)); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the old entries in ttl of keys whose damaged records are replaced. After a restart
// such an entry could remove the key at its old deadline. forget reads all of ttl.
func (w *batchWriter) forget(tx *bolt.Tx, b *cpBatch) error {
	if len(w.timeless) == 0 {
		return nil
	}
	return datafile.Each(tx, format.BucketTTL, nil, func(error) {}, func(at, v []byte) error {
		e, ok := format.ParseTTL(at, v)
		if due, damaged := w.timeless[string(e.On)]; ok && damaged && e.Due != due {
			slot := format.ParseSlotKey(e.On[:6])
			b.due.Add(e.On, format.Times{Deadline: e.Due}, format.Times{})
			for sl, after := range w.after {
				if sl.num == slot.Slot && after.space == slot.Space {
					after.due = true
					w.after[sl] = after
				}
			}
		}
		return nil
	})
}

// run writes entries of one slot, sorted. It reads the records there first, along the bucket's
// pages, which saves a look-up from the root for each entry.
func (w *batchWriter) run(values *bolt.Bucket, run []entry, due *datafile.Changes) error {
	sl := run[0].sl
	d, ok := w.after[sl]
	if !ok {
		d = slotAfter{SlotEntry: format.SlotEntry{Keys: sl.onDisk, Digest: sl.digest},
			space: run[0].p.space}
	}
	w.found = w.found[:0]
	c := values.Cursor()
	key, val := c.Seek(run[0].at)
	for i := range run {
		for steps := 0; key != nil && bytes.Compare(key, run[i].at) < 0; steps++ {
			if steps == nearEntries {
				key, val = c.Seek(run[i].at)
				break
			}
			key, val = c.Next()
		}
		if bytes.Equal(key, run[i].at) {
			w.found = append(w.found, val)
		} else {
			w.found = append(w.found, nil)
		}
	}
	for i := range run {
		was := w.found[i]
		if i > 0 && bytes.Equal(run[i].at, run[i-1].at) { // the same key again
			was = values.Get(run[i].at)
		}
		if err := w.entry(values, &run[i], was, &d, due); err != nil {
			return err
		}
	}
	w.after[sl] = d
	return nil
}

// nearEntries is how many records the cursor passes one by one before it seeks the next entry.
const nearEntries = 8

func (w *batchWriter) entry(values *bolt.Bucket, e *entry, was []byte, d *slotAfter,
	due *datafile.Changes) error {
	var old format.Image
	if was != nil {
		d.Keys--
		d.Digest ^= format.Digest(was)
		var err error
		if old, err = format.ParseImage(e.at, was); err != nil {
			w.s.options.Logger.Error("a corrupt record is replaced by what memory has", "key",
				Clip(e.at[format.PrefixLen+1:]))
		}
		if err != nil || old.BadTime {
			if w.timeless == nil {
				w.timeless = map[string]int64{}
			}
			w.timeless[string(e.at)] = e.Due()
		}
	}
	if id := old.Stored(); id != 0 && id != e.id {
		if e.moved && e.p.hasMoved(id) {
			w.unnamed = append(w.unnamed, movedValue{e.p, id})
		} else {
			w.drops = append(w.drops, id)
		}
	}
	d.due = due.Add(e.at, old.Times, e.Times) || d.due
	var err error
	if e.rec == nil {
		err = values.Delete(e.at)
	} else {
		d.Keys++
		d.Digest ^= format.Digest(e.rec)
		err = values.Put(e.at, e.rec)
	}
	return err
}
