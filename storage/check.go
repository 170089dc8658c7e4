package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/ttl"
)

// Check compares memory, index, counts and data file, and returns every difference. It locks the
// whole keyspace meanwhile, so it is for tests and tools.
func (s *Store) Check() error {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	var errs []error
	s.options.Progress.Begin("checking the keys")
	defer s.options.Progress.End()
	err := s.file.View(func(tx *bolt.Tx) error {
		s.options.Progress.Expect(tx.Size())
		disk, bad := datafile.Verify(tx, s.options.Progress)
		errs = append(errs, bad...)
		for _, sh := range s.shards {
			for db, p := range sh.mu.parts {
				if p == nil {
					continue
				}
				c := partCheck{s: s, p: p, db: db, tx: tx, disk: disk[p.space]}
				c.run()
				errs = append(errs, c.errs...)
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// partCheck checks a part against the data file.
type partCheck struct {
	s    *Store
	p    *part
	db   int
	tx   *bolt.Tx
	disk *datafile.Keyspace
	errs []error

	keys, expires, timed int64
	indexed              int
	tombs                int
	// owns and laters count the keys whose own deadline is later than one of an element: keys in
	// memory, and keys that are only on disk.
	owns, laters int
	dues         []format.TTLEntry // of keys that are only on disk
}

func (c *partCheck) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("db %d: "+format, append([]any{c.db}, args...)...))
}

func (c *partCheck) run() {
	if c.disk == nil {
		c.disk = &datafile.Keyspace{}
	}
	cells := 0
	for _, sl := range c.p.allUsed() {
		c.slot(sl)
		cells += sl.table.Len()
	}
	if cells != c.p.cells {
		c.fail("shard %d counts %d cells and has %d", c.p.shard.num, c.p.cells, cells)
	}
	if c.tombs != c.p.tombs {
		c.fail("shard %d counts %d tombstones and has %d", c.p.shard.num, c.p.tombs, c.tombs)
	}
	for at, im := range c.disk.Records { // keys that are only on disk
		n := format.ParseSlotKey([]byte(at)[:6])
		if c.s.shardOf(n.Slot) != c.p.shard.num {
			continue
		}
		sl := c.p.slotAt(int(n.Slot - c.p.first))
		k := Key{Slot: n.Slot, Hash: c.s.hash(im.Name), Name: im.Name}
		if c.p.find(sl, k) != nil {
			continue
		}
		if !sl.partial {
			c.fail("key %q is on disk and not in its complete slot", Clip(im.Name))
		}
		c.keys++
		if im.Deadline != 0 {
			c.expires++
		}
		if im.First != 0 {
			c.timed++
		}
		if due := im.Due(); due != 0 {
			c.inDiskDeadlines(due, at, im.Name)
			c.dues = append(c.dues, format.TTLEntry{Due: due, On: []byte(at)})
			c.isLater(due, at, im)
		}
		if got, err := readResident(c.tx, &im); err != nil {
			c.fail("key %q is only on disk and cannot be read: %v", Clip(im.Name), err)
		} else if got.object != nil && got.object.val.Earliest() != im.First {
			c.fail("key %q says on disk that an element is due at %d, which is at %d",
				Clip(im.Name), im.First, got.object.val.Earliest())
		}
	}
	if c.keys != c.p.keys || c.expires != c.p.expires || c.timed != c.p.timed {
		c.fail("shard %d counts %d keys, %d with a deadline, %d with deadlines of elements; it has %d, %d and %d",
			c.p.shard.num, c.p.keys, c.p.expires, c.p.timed, c.keys, c.expires, c.timed)
	}
	if n := len(c.p.own.at); n != c.owns || c.p.own.index != nil && c.p.own.index.Len() != n {
		c.fail("shard %d: %d own deadlines are kept, %d are to be", c.p.shard.num, n, c.owns)
	}
	if n := c.s.later.count(c.p); n != c.laters {
		c.fail("shard %d: %d own deadlines of keys on disk are kept, of them %d are right",
			c.p.shard.num, n, c.laters)
	}
	c.onDisk()
	if err := c.p.index.CheckBins(); err != nil {
		c.fail("shard %d: %v", c.p.shard.num, err)
	}
	if n := c.p.index.Len(); n != c.indexed {
		c.fail("shard %d: the index has %d entries for %d deadlines", c.p.shard.num, n, c.indexed)
	}
}

// onDisk checks how many deadlines on disk are counted, and that the counts of spans are right.
func (c *partCheck) onDisk() {
	d := c.p.disk
	if d == nil {
		return
	}
	known := slices.DeleteFunc(c.dues, func(e format.TTLEntry) bool {
		return !d.knows(format.TTLKey(nil, e.Due, e.On))
	})
	if d.bins.Len() != len(known) {
		c.fail("shard %d: %d deadlines on disk are counted, of %d", c.p.shard.num,
			d.bins.Len(), len(known))
	}
	slices.SortFunc(known, func(a, b format.TTLEntry) int { return cmp.Compare(a.Due, b.Due) })
	for i, e := range known {
		if s := d.bins.Count(math.MinInt64, e.Due, nil); s.High < int64(i+1) {
			c.fail("shard %d: up to %d there are %d deadlines on disk or more, and %d at most by the count",
				c.p.shard.num, e.Due, i+1, s.High)
		}
		if s := d.bins.Count(e.Due, math.MaxInt64, nil); s.High < int64(len(known)-i) {
			c.fail(
				"shard %d: from %d on there are %d deadlines on disk, and %d at most by the count",
				c.p.shard.num, e.Due, len(known)-i, s.High)
		}
	}
}

// inDiskDeadlines checks that diskDeadlines has a key that is only on disk, if the deadline is in
// its window. A due key may be missing there: the reaper has removed it from diskDeadlines and
// waits for its shard.
func (c *partCheck) inDiskDeadlines(deadline int64, at string, name []byte) {
	w := &c.s.diskDeadlines
	w.mu.Lock()
	defer w.mu.Unlock()
	if (ttl.NamedEntry{Deadline: deadline, ID: at}).Before(w.mu.end) && deadline > c.s.now() &&
		!w.mu.idx.Has(at, deadline) {
		c.fail("key %q is only on disk and not in the window", Clip(name))
	}
}

// isLater checks that laterDeadlines has the own deadline of a key that is only on disk, if that is
// later than one of an element.
func (c *partCheck) isLater(due int64, at string, im format.Image) {
	d := &c.s.later
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.mu.of[c.p.space]
	if of == nil || im.Deadline == 0 || im.Deadline == due {
		return
	}
	if of.index.Has(at, im.Deadline) {
		c.laters++
	} else if cursorOnDisk(due, []byte(at)).Before(of.through) {
		c.fail("the own deadline of key %q, %d, is not kept", Clip(im.Name), im.Deadline)
	}
}

// count returns how many deadlines of keys of a part are in the index of later deadlines.
func (d *laterDeadlines) count(p *part) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.mu.of[p.space]; of != nil {
		of.index.Walk(0, func(e ttl.NamedEntry) bool {
			if p.shard.store.shardOf(cursorOnDisk(e.Deadline, []byte(e.ID)).Slot) == p.shard.num {
				n++
			}
			return true
		})
	}
	return n
}

func (c *partCheck) slot(sl *slot) {
	dirty := int32(0)
	sl.table.Walk(func(cl *cell) {
		if cl.Is(hashtable.Dirty) {
			dirty++
		}
		c.cell(sl, *cl)
	})
	if dirty != sl.dirty {
		c.fail("slot %d counts %d dirty cells and has %d", sl.num, sl.dirty, dirty)
	}
	if want := c.disk.Slots[sl.num]; want != (format.SlotEntry{Keys: sl.onDisk,
		Digest: sl.digest}) {
		c.fail("slot %d has %+v on disk, memory says %d, %x", sl.num, want, sl.onDisk, sl.digest)
	}
}

func (c *partCheck) cell(sl *slot, cl cell) {
	p := c.p
	name := p.name(cl)
	k := c.s.keyIn(sl, name)
	if Slot(name) != sl.num {
		c.fail("key %q stands in slot %d", Clip(name), sl.num)
	}
	at := format.DiskKey(nil, p.space, k)
	im, stored := c.disk.Records[string(at)]
	if stored && *p.flags(cl)&flagDisk == 0 {
		c.fail("key %q is on disk and does not say so", Clip(name))
	}
	if cl.Is(hashtable.Tomb) {
		c.tombs++
		if stored && !cl.Is(hashtable.Dirty) {
			c.fail("key %q is gone for good but on disk", Clip(name))
		}
		return
	}
	c.keys++
	deadline := p.deadline(cl)
	if deadline != 0 {
		c.expires++
	}
	due := deadline
	if o := p.objectOf(cl); o != nil {
		if o.whole().Earliest() != 0 {
			c.timed++
		}
		if !o.pinned() {
			due = format.Earlier(due, o.whole().Earliest())
		}
	}
	if deadline != due && deadline != 0 {
		if c.owns++; p.own.at[p.id(sl, cl)] != deadline ||
			!p.own.index.Has(p.id(sl, cl), deadline) {
			c.fail("the own deadline of key %q, %d, is not kept", Clip(name), deadline)
		}
	}
	if due != 0 {
		c.indexed++
		if !p.index.Has(p.id(sl, cl), due) {
			c.fail("key %q that is due at %d is not in the index", Clip(name), due)
		}
		if p.shard.nextDue.Load() > due {
			c.fail("key %q is due before the reaper comes", Clip(name))
		}
	}
	c.absentRuns(p.objectOf(cl), name)
	if !cl.Is(hashtable.Dirty) {
		c.clean(cl, im, stored)
	}
}

// absentRuns checks that the runs of a stream that are not in memory have no changed entries. A
// checkpoint would delete such entries from the data file, because they are not in memory.
func (c *partCheck) absentRuns(o *Object, name []byte) {
	if o == nil || o.side == nil {
		return
	}
	if v, ok := streamIn(o.whole()); ok {
		v.EachAbsent(func(first, last int64) {
			if o.side.changed.Touches(first, last) || o.side.frozen.Touches(first, last) {
				c.fail("key %q has changed entries from %d to %d, which are not in memory",
					Clip(name), first, last)
			}
		})
	}
}

// clean checks a clean cell, which must equal the data file's record.
func (c *partCheck) clean(cl cell, im format.Image, stored bool) {
	name := c.p.name(cl)
	if !stored || im.Deadline != c.p.deadline(cl) {
		c.fail("key %q is clean and not on disk as it is (stored %t)", Clip(name), stored)
		return
	}
	got, err := readResident(c.tx, &im)
	if err != nil {
		c.fail("key %q is clean and cannot be read: %v", Clip(name), err)
		return
	}
	if o := c.p.objectOf(cl); o != nil && (got.object != nil || o.val.Type() != object.TypeString) {
		if im.First != o.whole().Earliest() {
			c.fail("key %q is clean and has an element due at %d, on disk at %d", Clip(name),
				o.whole().Earliest(), im.First)
		}
		if got.object == nil || !sameValue(o.whole(), got.object.val) {
			c.fail("key %q is clean and has other elements on disk", Clip(name))
		}
		return
	}
	value, err := c.p.item(cl).String()
	if err != nil {
		return
	}
	onDisk := got.small
	if got.object != nil {
		onDisk, _ = (Item{o: got.object}).String()
	}
	if !bytes.Equal(value, onDisk) {
		c.fail("key %q is clean and has another value on disk", Clip(name))
	}
}

// sameValue reports whether two values have the same type, elements and deadlines.
func sameValue(a, b object.Value) bool {
	same := a.Type() == b.Type() && a.Len() == b.Len()
	a.Walk(func(elem, val []byte, deadline int64) bool {
		other, d, ok := b.Element(elem)
		same = same && ok && d == deadline && bytes.Equal(val, other)
		return same
	})
	return same
}
