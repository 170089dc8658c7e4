package datafile

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// The data file keeps free pages for later use and never gets shorter. A compaction copies it into
// a new file, which then replaces it:
//
//  1. Compact copies every bucket in key order to keyp.db.compact, in transactions of bounded size,
//     each synced, with nearly full pages.
//  2. It verifies the copy, and that it has as many entries as the original.
//  3. Replace renames the copy to keyp.db, syncs the directory, opens the new file, and closes
//     the old one after its last reader is done.
//
// Both files have the same content, with the same first log segment, until the new one's name is
// synced. So a crash may leave either of them as keyp.db, and both are right: before the sync of
// the directory no checkpoint can have released a log segment that the old one needs. An unfinished
// copy never has the name keyp.db, and the next start removes it.
const (
	// compactFill leaves room for a few more entries on each page. The next checkpoint would split
	// all pages that are full.
	compactFill = 0.9
	// compactGrowth is the step in which the copy grows; bbolt's default of 16 MB would stay unused
	// in it.
	compactGrowth = 1 << 20
	// compactBytes is the size of a transaction.
	compactBytes = 32 << 20
	// proveStep is the number of entries after which a proof calls back.
	proveStep = 50_000
)

// Compact writes a compact copy of the data file to the same directory, and returns its length in
// bytes. It calls at after each piece of work; an error of at ends it. The caller removes the copy,
// or calls Replace.
func (f *File) Compact(at func(Step) error) (size int64, err error) {
	path := filepath.Join(f.o.Dir, CompactName)
	if err := removeFile(path); err != nil {
		return 0, err
	}
	to, _, err := f.openBolt(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.AllocSize, to.NoSync = compactGrowth, f.mu.db.NoSync
	c := compaction{f: f, to: to, at: at, entries: map[string]int{}}
	f.o.Progress.Begin("compacting the data file")
	defer f.o.Progress.End()
	if err := f.View(c.copy); err != nil {
		return 0, err
	}
	f.o.Progress.Begin("checking the compacted data file")
	f.o.Progress.Expect(c.bytes)
	if err := viewRecovering(to, c.prove); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// RemoveCopy removes the copy that Compact has made.
func (f *File) RemoveCopy() error { return removeFile(filepath.Join(f.o.Dir, CompactName)) }

// Replace replaces the data file by the copy. If that fails before the copy has its name, the data
// file stays as it is.
func (f *File) Replace() error {
	if err := f.o.step(StepProven); err != nil {
		return errors.Join(err, f.RemoveCopy())
	}
	if err := os.Rename(filepath.Join(f.o.Dir, CompactName), f.Path()); err != nil {
		return errors.Join(err, f.RemoveCopy())
	}
	db, out, err := f.reopen()
	if err != nil {
		// It is unknown which file a restart will find. Either is good as long as no checkpoint
		// writes to one and releases log segments that the other needs.
		err = fmt.Errorf("storage: the compacted data file: %w", err)
		f.o.Fail(err)
		return errors.Join(err, f.mu.db.Close())
	}
	f.mu.Lock() // waits for the readers of the old file
	old := f.mu.db
	f.mu.db, f.mu.out = db, out
	f.mu.Unlock()
	return errors.Join(f.o.step(StepReplaced), old.Close())
}

// reopen opens the copy under the name of the data file.
func (f *File) reopen() (*bolt.DB, Writer, error) {
	if err := f.o.step(StepRenamed); err != nil {
		return nil, nil, err
	}
	if err := f.syncDir(); err != nil {
		return nil, nil, err
	}
	db, out, err := f.openBolt(f.Path())
	if err != nil {
		return nil, nil, err
	}
	db.NoSync = f.mu.db.NoSync
	return db, out, nil
}

// compaction is the state of a compaction that is under way.
type compaction struct {
	f       *File
	to      *bolt.DB
	at      func(Step) error
	entries map[string]int // copied, by bucket; nil: that is not known
	bytes   int64          // copied
}

func (c *compaction) copy(from *bolt.Tx) error {
	c.f.o.Progress.Expect(from.Size() - int64(from.DB().Stats().FreePageN)*format.PageSize)
	for _, name := range format.Buckets {
		var batch []copied
		size := 0
		err := Each(from, name, nil, nil, func(k, v []byte) error {
			both := append(append(make([]byte, 0, len(k)+len(v)), k...), v...)
			batch = append(batch, copied{both[:len(k):len(k)], both[len(k):]})
			c.bytes += int64(len(both))
			c.f.o.Progress.Done(int64(len(both)))
			if size += len(both); size < compactBytes {
				return nil
			}
			err := c.put(name, batch)
			batch, size = batch[:0], 0
			return err
		})
		if err == nil {
			err = c.put(name, batch) // makes the bucket if there is nothing
		}
		if err != nil {
			return err
		}
	}
	// Commit again, so that both meta pages lead to all of it.
	return updateNew(c.to, func(*bolt.Tx) error { return nil })
}

// copied is an entry on its way to the copy.
type copied struct{ key, value []byte }

// put adds entries of a bucket to the copy.
func (c *compaction) put(name []byte, batch []copied) error {
	err := updateNew(c.to, func(tx *bolt.Tx) error {
		dst, err := tx.CreateBucketIfNotExists(name)
		if err != nil {
			return err
		}
		dst.FillPercent = compactFill
		for _, e := range batch {
			if err := dst.Put(e.key, e.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.entries[string(name)] += len(batch)
	return c.at(StepBatch)
}

// prove reads the new file. It checks that the file has every entry that was copied, and that all
// checksums match. It checks that each slot has the number of keys and the digest that its entry
// gives, and that the records and the bucket ttl have the same deadlines. Check compares with
// memory too, but takes memory for all keys at once.
func (c *compaction) prove(tx *bolt.Tx) error {
	p := proof{c: c, tx: tx, seed: maphash.MakeSeed(), slots: map[string]format.SlotEntry{}}
	err := errors.Join(
		p.each(format.BucketValues, p.value), p.each(format.BucketElements, p.element),
		p.each(format.BucketTTL, p.ttl),
		p.each(format.BucketSlots, p.slot), p.each(format.BucketMeta, nil),
		p.each(format.BucketGarbage, nil), p.each(format.BucketPending, nil))
	if err != nil {
		return err
	}
	if len(p.slots) != 0 {
		return fmt.Errorf("%w: %d slots have records and no entry", format.ErrCorrupt, len(p.slots))
	}
	pending, _ := tx.Bucket(format.BucketPending).Cursor().First()
	// Else a checkpoint was interrupted, and ttl has not all of its changes.
	exact := pending == nil && tx.Bucket(format.BucketMeta).Get(format.MetaDoubt) == nil
	if exact && p.deadlines != 0 {
		return fmt.Errorf("%w: ttl has other deadlines than the records", format.ErrCorrupt)
	}
	return nil
}

// proof is the state of prove's reading of a data file.
type proof struct {
	c     *compaction
	tx    *bolt.Tx
	seed  maphash.Seed
	slots map[string]format.SlotEntry // by the records, of slots whose entry was not met
	// The exclusive or of the hashes of all deadlines in the records and in the bucket ttl. It is 0
	// if both have the same deadlines.
	deadlines uint64
}

// each calls fn for the entries of a bucket; an error of fn becomes format.ErrCorrupt with the
// entry's name.
func (p *proof) each(name []byte, fn func(at, v []byte) bool) error {
	n := 0
	err := p.tx.Bucket(name).ForEach(func(at, v []byte) error {
		p.c.f.o.Progress.Done(int64(len(at) + len(v)))
		if n++; n%proveStep == 0 {
			if err := p.c.at(StepProving); err != nil {
				return err
			}
		}
		if fn != nil && !fn(at, v) {
			return fmt.Errorf("%w: entry %x of bucket %s", format.ErrCorrupt, at[:min(len(at), 64)],
				name)
		}
		return nil
	})
	if want := p.c.entries[string(name)]; err == nil && p.c.entries != nil && n != want {
		err = fmt.Errorf("%w: %d entries were copied to bucket %s, and it has %d",
			format.ErrCorrupt, want, name, n)
	}
	return err
}

func (p *proof) value(at, record []byte) bool {
	im, err := format.ParseImage(at, record)
	if err != nil || im.BadTime {
		return false
	}
	d := p.slots[string(at[:6])]
	d.Add(record)
	p.slots[string(at[:6])] = d
	if due := im.Due(); due != 0 {
		p.deadlines ^= maphash.Bytes(p.seed, format.TTLKey(nil, due, at))
	}
	return true
}

func (p *proof) element(at, record []byte) bool {
	_, _, _, err := format.ParseElement(at, record)
	return err == nil
}

func (p *proof) ttl(at, v []byte) bool {
	_, ok := format.ParseTTL(at, v)
	p.deadlines ^= maphash.Bytes(p.seed, at)
	return ok
}

// slot compares a slot's entry with its records. In a keyspace that is garbage they may differ,
// since the records are deleted before the entry.
func (p *proof) slot(at, v []byte) bool {
	n := format.ParseSlotKey(at)
	says, ok := format.ParseSlot(at, v)
	sound := p.slots[string(at)] == says || n.OK && IsGarbage(p.tx, n.Space)
	delete(p.slots, string(at))
	return n.OK && ok && sound
}
